// Models as safetensors files: the tensors of a net, the notes about the net, and loading.
//
// Notes in a model file: "format" = "pt" (PyTorch's names and layout), "sounder.model" = the layer list,
// "sounder.input" = "1x28x28", "sounder.classes"; of the training data "sounder.data" (a name, or the last part of a
// folder's path), "sounder.seed" and "sounder.data_xxh3" (hash of the samples); "sounder.class_names", a JSON list, if
// the classes have names; "sounder.mean" and "sounder.stddev" of each channel: a pixel p enters the net as (p / 255 -
// mean) / stddev; and "sounder.feature_mean" and "sounder.feature_stddev" of each feature or channel of float32 numbers
// that were normalised: x enters as (x - mean) / stddev; "sounder.feature_fill", the value of each feature for gaps of
// a table (missing=mean), before it is normalised; "sounder.features_xxh3", a hash of the names of a table's
// features; "sounder.features", if the table has texts or flags gaps, a JSON list of the columns that are features:
// ["age",{"age":null},{"sex":["female","male"]}], of which null is the feature that says where "age" has a gap;
// "sounder.vocabulary", if samples are texts, a JSON list of the tokens in the order of their numbers (of train.txt,
// where a byte is a token, "\xNN" for one that is no ASCII). So `sounder eval` needs only the file and the data, and
// other programs know the net's input. The notes do not depend on time, machine or number of workers: equal models are
// equal files.
#ifndef SOUNDER_APP_TRAIN_MODEL_FILE_H
#define SOUNDER_APP_TRAIN_MODEL_FILE_H

#include "app/options/options.h"
#include "app/train/run_record.h"
#include "base/err.h"
#include "datasets/dataset.h"
#include "io/checkpoint.h"
#include "io/safetensors.h"
#include "nn/spec.h"

enum { MODEL_NOTES = 17 };

// Facts about a model that its file notes beside its shapes.
typedef struct ModelAbout {
    char text[SPEC_TEXT_BYTES]; // the layer list
    char data[OPTION_TEXT_BYTES], data_hash[HASH_TEXT_BYTES], seed[24];
    char features[HASH_TEXT_BYTES]; // "": they have no names
    // Owned; NULL: none. Numbers are one per channel or feature, "0.49,0.48,0.45".
    char *class_names; // as JSON
    char *columns;     // of a table that has texts, with their values, as JSON
    char *vocabulary;  // tokens of texts, as JSON
    char *mean, *stddev, *feature_mean, *feature_stddev, *feature_fill;
} ModelAbout;

void model_about_free(ModelAbout *about);

// Fills all members but the layer list. named: the --data of the run. hash: run_hash_data of the data set. The seed of
// the options is noted, except in a private run, whose noise repeats from it.
Status model_about_data(ModelAbout *about, const Dataset *data, const char *named, uint64_t hash,
                        const Options *options, Error *err);

// The notes of a net; the strings are in this struct and in about.
typedef struct ModelNotes {
    TensorNote notes[MODEL_NOTES];
    size_t count;
    char input[48], classes[16];
} ModelNotes;

void model_notes(ModelNotes *notes, const Spec *spec, const ModelAbout *about);

// entries (list->count): one per parameter tensor, in parameter order.
void model_entries(TensorEntry *entries, const TensorList *list);

// Makes the head of a file with this net's parameters: malloc'ed, the caller frees it; the payload follows at
// header_bytes.
Status model_header(char **header, size_t *header_bytes, const Spec *spec, const TensorList *list,
                    const ModelAbout *about, Error *err);

// tensors (list->count): views into parameters (parameter_count) for checkpoint_write.
void model_tensors(NamedTensor *tensors, const TensorList *list, const float *parameters);

// Loads parameters (parameter_count) from a file whose tensors have the net's names and shapes, and finite values of
// any floating-point type. DATA names `path` and all tensors that do not fit; then nothing is copied.
Status model_load(float *parameters, const TensorList *list, const Safetensors *file, const char *path, Error *err);

// Loads a file that should hold only this net: a warning names tensors that the net does not use.
Status model_load_alone(float *parameters, const TensorList *list, const Safetensors *file, const char *path,
                        Error *err);

// USAGE, with the command to use, for a path that ends in ".onnx": tools/python reads such files.
Status model_refuse_onnx(const char *path, Error *err);

// Opens a file of weights, whose names lose the prefixes of PyTorch's wrappers.
Status model_open(Safetensors *file, const char *path, Error *err);

// Opens the file at `path` and does model_load_alone. partial: the tensors that do not fit keep their values, of which
// a warning tells, as long as one tensor fits.
// about: of the data here; a warning tells if those of the file's model had other features or classes.
Status model_begin_from(float *parameters, const TensorList *list, const char *path, bool partial,
                        const ModelAbout *about, Error *err);

// Writes a checkpoint: the weights, and all state that outlives a round, as tensors "sounder.velocity.0", .... Beside
// the notes of a model file it has "sounder.run", the identity of the run. round: rounds done.
Status run_checkpoint_write(const RunFolder *folder, const RunMemory *memory, const Spec *spec, const ModelAbout *about,
                            const RunRecord *record, uint32_t round, Error *err);

// Removes checkpoints that a process did not, as it was killed right after it had written the last one.
Status run_checkpoint_prune(const RunFolder *folder, uint32_t round, Error *err);

// The bytes of a checkpoint's tensors, as it would be written now.
uint64_t run_checkpoint_bytes(const RunMemory *memory);

// Restores weights and state from the last checkpoint and sets *rounds_done. DATA if it is another run's checkpoint. If
// there is none, *rounds_done stays as it is, or NOINPUT if the run had come far enough to write one.
Status run_checkpoint_restore(RunMemory *memory, uint32_t *rounds_done, const RunFolder *folder,
                              const RunRecord *record, const RunRecord *past, Error *err);

#endif

// Models as safetensors files: which tensors a net has, what the file says about the net, and loading one back.
//
// Notes in a model file: "format" = "pt" (PyTorch's names and layout), "sounder.model" = the layer list,
// "sounder.input" = "1x28x28", "sounder.classes", and what it was trained on: "sounder.data" (a name, or the last part
// of a folder's path), "sounder.seed", "sounder.data_xxh3" (the hash of the samples), and by which "sounder.mean" and
// "sounder.stddev" of each channel a pixel p enters the net, as (p / 255 - mean) / stddev. So `sounder eval` needs
// nothing but the file and the data, and other programs know what to feed it. Nothing in it depends on the time, the
// machine or the number of workers: equal models are equal files.
#ifndef SOUNDER_APP_TRAIN_MODEL_FILE_H
#define SOUNDER_APP_TRAIN_MODEL_FILE_H

#include "app/options/options.h"
#include "app/train/run_record.h"
#include "base/err.h"
#include "datasets/dataset.h"
#include "io/checkpoint.h"
#include "io/safetensors.h"
#include "nn/spec.h"

enum { MODEL_NOTES = 9, MODEL_CHANNELS_BYTES = DATASET_MAX_CHANNELS * 16 };

// What a model's file says about it beside its shapes.
typedef struct ModelAbout {
    char text[SPEC_TEXT_BYTES]; // the layer list
    char data[OPTION_TEXT_BYTES], data_hash[HASH_TEXT_BYTES], seed[24];
    char mean[MODEL_CHANNELS_BYTES], stddev[MODEL_CHANNELS_BYTES]; // a number a channel, "0.49,0.48,0.45"
} ModelAbout;

// Fills in all but the layer list. named: by what the data set was asked for. hash: run_hash_data of it.
void model_about_data(ModelAbout *about, const Dataset *data, const char *named, uint64_t hash, uint64_t seed);

// The notes of a net; the strings lie in this struct and in about.
typedef struct ModelNotes {
    TensorNote notes[MODEL_NOTES];
    char input[48], classes[16];
} ModelNotes;

void model_notes(ModelNotes *notes, const Spec *spec, const ModelAbout *about);

// entries (list->count): one per parameter tensor, in parameter order.
void model_entries(TensorEntry *entries, const TensorList *list);

// The head of a file that holds this net's parameters: malloc'ed, the caller frees it; payload follows at header_bytes.
Status model_header(char **header, size_t *header_bytes, const Spec *spec, const TensorList *list,
                    const ModelAbout *about, Error *err);

// tensors (list->count): views into parameters (parameter_count) for checkpoint_write.
void model_tensors(NamedTensor *tensors, const TensorList *list, const float *parameters);

// parameters (parameter_count) from a file whose tensors have the net's names, shapes and finite values. DATA, naming
// `path` and all tensors that do not fit; then nothing is copied.
Status model_load(float *parameters, const TensorList *list, const Safetensors *file, const char *path, Error *err);

// The same from a file that should hold nothing but this net: a warning names the tensors that the net has no use for.
Status model_load_alone(float *parameters, const TensorList *list, const Safetensors *file, const char *path,
                        Error *err);

// USAGE with what to type instead for a path that ends in ".onnx": such files are read in Python (tools/python).
Status model_refuse_onnx(const char *path, Error *err);

// The same as model_load_alone from the file at `path`.
Status model_begin_from(float *parameters, const TensorList *list, const char *path, Error *err);

// A checkpoint: the weights, and of the slots those that outlive a round, as tensors "sounder.velocity.0", .... Its
// note "sounder.run" says of which run it is, beside the notes of a model file. round: how many are done.
Status run_checkpoint_write(const RunFolder *folder, const RunMemory *memory, const Spec *spec, const ModelAbout *about,
                            const RunRecord *record, uint32_t round, Error *err);

// Fills weights and slots from the last checkpoint and sets *rounds_done. DATA when that is another run's. Where there
// is none, *rounds_done stays as it is if the run had not come so far; NOINPUT if it had.
Status run_checkpoint_restore(RunMemory *memory, uint32_t *rounds_done, const RunFolder *folder,
                              const RunRecord *record, const RunRecord *past, Error *err);

#endif

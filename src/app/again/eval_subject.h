// The subject of `sounder eval`: a model's file, the net in it, and the data to test it on.
//
//   Subject subject = {.memory = &memory};
//   TRY(subject_find(&subject, &file, &options, path, err));                    // the caller closes the file
//   TRY(subject_find_data(&source, &model, &subject, &options, err));
//   ... load the data ...
//   TRY(subject_check_data(&subject, &file, &options, &data, err));
//   TRY(subject_read_model(&spec, &parameters, &subject, &file, &options, &data, err));
#ifndef SOUNDER_APP_AGAIN_EVAL_SUBJECT_H
#define SOUNDER_APP_AGAIN_EVAL_SUBJECT_H

#include "app/options/options.h"
#include "app/train/run_folder.h"
#include "app/train/trainer_eval.h"
#include "datasets/dataset.h"
#include "fedavg/memory/dataset_segment.h"
#include "io/safetensors.h"
#include "nn/spec.h"

// The model file to evaluate, the data, and whether these must be the data it was trained on.
typedef struct Subject {
    char path[RUN_PATH_BYTES];    // path of the model's file
    bool is_own_data;             // the user named no other data
    bool is_noted_data;           // a note in the model's file names the data
    TrainerPast past;             // of the run; zeroed if a model's file was named
    Chosen attack;                // attack of the run; none if a model's file was named
    const DatasetSegment *memory; // segment that holds the data; borrowed
} Subject;

// Opens the model's file at path, or that of the run in the folder path, and completes the options (data, loss, seed, a
// trainer's) from the run's configuration or the file's notes, where the user has not given them. NOINPUT for a run
// without its final model; USAGE where nothing names the data.
Status subject_find(Subject *subject, Safetensors *file, Options *options, const char *path, Error *err);

// Finds the data that the options name, which enter the net as the model's own did (model).
Status subject_find_data(DatasetSource *source, const DatasetModel *model, const Subject *subject,
                         const Options *options, Error *err);

// DATA if these should be the data that the model was trained on, and are not.
Status subject_check_data(const Subject *subject, const Safetensors *file, const Options *options, const Dataset *data,
                          Error *err);

// The net that the file's notes name, or --model, for these data, and its weights (spec->parameter_count; the caller
// frees them). USAGE where they do not fit each other; a warning where the numbers of tokens may differ.
Status subject_read_model(Spec *spec, float **parameters, const Subject *subject, const Safetensors *file,
                          const Options *options, const Dataset *data, Error *err);

#endif

// How a model's training samples entered it, read from the notes of its file: for samples that it is to see now.
//
//   DatasetModel model;
//   TRY(data_model_read(&model, &file, path, err));
//   TRY(dataset_find_for(&source, "new.csv label=species", seed, &model, err));
//   data_model_free(&model);
#ifndef SOUNDER_APP_TRAIN_DATA_MODEL_H
#define SOUNDER_APP_TRAIN_DATA_MODEL_H

#include "datasets/dataset.h"
#include "io/safetensors.h"

// Reads "sounder.class_names", "sounder.classes", "sounder.mean", "sounder.stddev", "sounder.feature_mean",
// "sounder.feature_stddev", "sounder.feature_fill", "sounder.features" or "sounder.vocabulary", and
// "sounder.features_xxh3"; a file without them gives an empty model. Fails with DATA for notes that are damaged. The
// caller frees the model, also on failure.
Status data_model_read(DatasetModel *model, const Safetensors *file, const char *path, Error *err);

// Reads what the samples follow that a model was, or is to be, trained on: "sounder.vocabulary" of texts, or
// "sounder.feature_fill" and the names of features of tables whose gaps it fills.
Status data_model_read_own(DatasetModel *model, const Safetensors *file, const char *path, Error *err);

// Whether the samples follow the model even if they are those that it was trained on.
static inline bool data_model_shapes(const DatasetModel *model) {
    return model->are_tokens || model->fills > 0;
}

void data_model_free(DatasetModel *model);

#endif

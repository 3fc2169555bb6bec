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
// "sounder.feature_stddev", "sounder.features" or "sounder.vocabulary", and "sounder.features_xxh3"; a file without
// them gives an empty model.
// Fails with DATA for notes that are damaged. The caller frees the model, also on failure.
Status data_model_read(DatasetModel *model, const Safetensors *file, const char *path, Error *err);

// Reads "sounder.vocabulary" alone, for texts that a model was, or is to be, trained on.
Status data_model_read_vocabulary(DatasetModel *model, const Safetensors *file, const char *path, Error *err);

void data_model_free(DatasetModel *model);

#endif

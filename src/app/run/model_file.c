#include "model_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void add_number(char text[MODEL_CHANNELS_BYTES], double number) {
    size_t used = strlen(text);
    snprintf(text + used, MODEL_CHANNELS_BYTES - used, "%s%.6g", used ? "," : "", number);
}

void model_about_data(ModelAbout *about, const Dataset *data, const char *named, uint64_t hash, uint64_t seed) {
    snprintf(about->data, sizeof about->data, "%s", named);
    write_hash(about->data_hash, hash);
    snprintf(about->seed, sizeof about->seed, "%" PRIu64, seed);
    about->mean[0] = about->stddev[0] = '\0';
    for (int channel = 0; channel < data->shape.channels && data->items.pixel_bytes == 1; channel++) {
        double stddev = 1 / (255.0 * data->scale[channel]);
        add_number(about->mean, -data->shift[channel] * stddev);
        add_number(about->stddev, stddev);
    }
}

void model_notes(ModelNotes *notes, const Spec *spec, const ModelAbout *about) {
    snprintf(notes->input, sizeof notes->input, "%dx%dx%d", spec->input.channels, spec->input.rows,
             spec->input.columns);
    snprintf(notes->classes, sizeof notes->classes, "%d", spec->classes);
    const TensorNote all[MODEL_NOTES] = {{"format", "pt"},
                                         {"sounder.classes", notes->classes},
                                         {"sounder.data", about->data},
                                         {"sounder.data_xxh3", about->data_hash},
                                         {"sounder.input", notes->input},
                                         {"sounder.mean", about->mean},
                                         {"sounder.model", about->text},
                                         {"sounder.seed", about->seed},
                                         {"sounder.stddev", about->stddev}};
    memcpy(notes->notes, all, sizeof all);
}

void model_entries(TensorEntry *entries, const Spec *spec) {
    for (int i = 0; i < spec->tensor_count; i++) {
        const ParameterTensor *tensor = &spec->tensors[i];
        entries[i] = (TensorEntry){.type = TENSOR_F32, .rank = tensor->rank};
        snprintf(entries[i].name, sizeof entries[i].name, "%s", tensor->name);
        memcpy(entries[i].shape, tensor->shape, sizeof tensor->shape);
    }
}

Status model_header(char **header, size_t *header_bytes, const Spec *spec, const ModelAbout *about, Error *err) {
    TensorEntry entries[SPEC_MAX_TENSORS];
    ModelNotes notes;
    model_notes(&notes, spec, about);
    model_entries(entries, spec);
    return safetensors_header(header, header_bytes, entries, (size_t)spec->tensor_count, notes.notes, MODEL_NOTES, err);
}

void model_tensors(NamedTensor *tensors, const Spec *spec, const float *parameters) {
    for (int i = 0; i < spec->tensor_count; i++) {
        const ParameterTensor *tensor = &spec->tensors[i];
        tensors[i] = (NamedTensor){.rank = tensor->rank, .values = parameters + tensor->first};
        snprintf(tensors[i].name, sizeof tensors[i].name, "%s", tensor->name);
        memcpy(tensors[i].shape, tensor->shape, sizeof tensor->shape);
    }
}

Status model_load(float *parameters, const Spec *spec, const Safetensors *file, Error *err) {
    for (int i = 0; i < spec->tensor_count; i++) {
        const ParameterTensor *tensor = &spec->tensors[i];
        TRY(checkpoint_load(parameters + tensor->first, TENSOR_F32, tensor->count, file, tensor->name, err));
    }
    return STATUS_OK;
}

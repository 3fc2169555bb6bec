#include "model_file.h"

#include <stdio.h>
#include <string.h>

void model_notes(ModelNotes *notes, const Spec *spec, const char *text) {
    snprintf(notes->input, sizeof notes->input, "%dx%dx%d", spec->input.channels, spec->input.rows,
             spec->input.columns);
    snprintf(notes->classes, sizeof notes->classes, "%d", spec->classes);
    notes->notes[0] = (TensorNote){"format", "pt"};
    notes->notes[1] = (TensorNote){"sounder.classes", notes->classes};
    notes->notes[2] = (TensorNote){"sounder.input", notes->input};
    notes->notes[3] = (TensorNote){"sounder.model", text};
}

static void model_entries(TensorEntry *entries, const Spec *spec) {
    for (int i = 0; i < spec->tensor_count; i++) {
        const ParameterTensor *tensor = &spec->tensors[i];
        entries[i] = (TensorEntry){.type = TENSOR_F32, .rank = tensor->rank};
        snprintf(entries[i].name, sizeof entries[i].name, "%s", tensor->name);
        memcpy(entries[i].shape, tensor->shape, sizeof tensor->shape);
    }
}

Status model_header(char **header, size_t *header_bytes, const Spec *spec, const char *text, Error *err) {
    TensorEntry entries[SPEC_MAX_TENSORS];
    ModelNotes notes;
    model_notes(&notes, spec, text);
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
        TRY(checkpoint_load(parameters + tensor->first, tensor->count, file, tensor->name, err));
    }
    return STATUS_OK;
}

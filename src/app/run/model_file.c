#include "model_file.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

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

// Names and shapes in one sentence, as far as it has room.
typedef struct Names {
    char text[ERROR_MESSAGE_BYTES / 2];
    int count;
} Names;

static void add_name(Names *names, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add_name(Names *names, const char *format, ...) {
    enum { MOST = 8 };
    size_t used = strlen(names->text);
    if (names->count++ >= MOST) return;
    used += (size_t)snprintf(names->text + used, sizeof names->text - used, "%s", used > 0 ? ", " : "");
    if (used >= sizeof names->text) return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(names->text + used, sizeof names->text - used, format, arguments);
    va_end(arguments);
}

static void write_shape(char text[64], const int64_t *shape, int rank) {
    size_t used = 0;
    *text = '\0';
    for (int d = 0; d < rank && used < 64; d++)
        used += (size_t)snprintf(text + used, 64 - used, "%s%" PRId64, d > 0 ? "x" : "", shape[d]);
}

// Copies what fits.
static void take_tensor(Names *unfit, float *parameters, const ParameterTensor *tensor, const Safetensors *file) {
    const TensorEntry *entry = safetensors_find(file, tensor->name);
    char here[64], there[64];
    if (!entry) {
        add_name(unfit, "%s is missing", tensor->name);
        return;
    }
    write_shape(here, tensor->shape, tensor->rank);
    write_shape(there, entry->shape, entry->rank);
    if (entry->type != TENSOR_F32)
        add_name(unfit, "%s is of type %s, not F32", tensor->name, tensor_type_name(entry->type));
    else if (strcmp(here, there) != 0)
        add_name(unfit, "%s is %s, not %s", tensor->name, there, here);
    else
        memcpy(parameters + tensor->first, file->payload + entry->first_byte, entry->bytes);
}

// What the file has besides.
static void warn_of_others(const Spec *spec, const Safetensors *file, const char *path) {
    Names others = {.count = 0};
    for (size_t i = 0; i < file->count; i++) {
        bool known = false;
        for (int t = 0; t < spec->tensor_count && !known; t++)
            known = strcmp(spec->tensors[t].name, file->entries[i].name) == 0;
        if (!known) add_name(&others, "%s", file->entries[i].name);
    }
    if (others.count > 0)
        log_warning("%s: the net has no use for %d of its tensors: %s%s", path, others.count, others.text,
                    others.count > 8 ? ", ..." : "");
}

Status model_begin_from(float *parameters, const Spec *spec, const char *path, Error *err) {
    Safetensors file;
    Names unfit = {.count = 0};
    TRY(safetensors_open(&file, path, err));
    for (int t = 0; t < spec->tensor_count; t++)
        take_tensor(&unfit, parameters, &spec->tensors[t], &file);
    if (unfit.count == 0) warn_of_others(spec, &file, path);
    safetensors_close(&file);
    if (unfit.count == 0) return STATUS_OK;
    return fail(err, STATUS_DATA, "%s does not fit the net (%d of %d tensors): %s%s", path, unfit.count,
                spec->tensor_count, unfit.text, unfit.count > 8 ? ", ..." : "");
}

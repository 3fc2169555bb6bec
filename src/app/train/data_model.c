#include "data_model.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text_stream.h"

static Status no_memory(const char *path, Error *err) {
    return fail(err, STATUS_OS, "no memory for the notes of %s", path);
}

// note: a JSON list of names, of which a table's column of texts is an object with a list of its values.
static Status read_names(char **names, const char *note, const char *key, const char *path, Error *err) {
    json_t *list = json_loads(note, 0, NULL), *item, *values, *value;
    const char *column;
    size_t i, k;
    TextStream stream;
    FILE *file = text_open(&stream);
    bool are_names = json_array_size(list) > 0;
    json_array_foreach(file ? list : NULL, i, item) {
        if (json_string_length(item) > 0) fprintf(file, "%s%c", json_string_value(item), '\0');
        are_names &= json_string_length(item) > 0 || json_is_object(item);
        json_object_foreach(item, column, values) {
            if (json_is_null(values)) fprintf(file, "%s%c%c", column, DATASET_IS_GAP, '\0');
            json_array_foreach(values, k, value) {
                if (json_is_string(value))
                    fprintf(file, "%s%c%s%c", column, DATASET_VALUE_FOLLOWS, json_string_value(value), '\0');
                are_names &= json_is_string(value);
            }
        }
    }
    json_decref(list);
    if (!text_close(&stream)) return no_memory(path, err);
    *names = stream.text; // which ends with one more '\0'
    return are_names ? STATUS_OK : fail(err, STATUS_DATA, "%s: its note %s is no list of names", path, key);
}

// Reads numbers between commas. *count is set by the first list, and the second has to have as many.
static Status read_numbers(double **numbers, uint32_t *count, const char *note, const char *key, const char *path,
                           Error *err) {
    size_t most = 1, found = 0;
    for (const char *letter = note; *letter; letter++)
        most += *letter == ',';
    *numbers = malloc(most * sizeof **numbers);
    if (!*numbers) return no_memory(path, err);
    for (char *end; *note; note = end + (*end == ',')) {
        const double number = strtod(note, &end);
        if (end == note || (*end && *end != ',') || !isfinite(number)) break;
        (*numbers)[found++] = number;
        if (!*end) break;
    }
    if (found == most && (*count == 0 || found == *count)) {
        *count = (uint32_t)found;
        return STATUS_OK;
    }
    return fail(err, STATUS_DATA, "%s: its note %s has %zu numbers; %zu are expected", path, key, found,
                *count ? *count : most);
}

// Reads up to DATASET_MAX_CHANNELS numbers between commas; *count is 0 if the note has others.
static void read_channels(double numbers[DATASET_MAX_CHANNELS], uint32_t *count, const char *note) {
    *count = 0;
    for (char *end; *note && *count < DATASET_MAX_CHANNELS; note = end + (*end == ',')) {
        numbers[(*count)++] = strtod(note, &end);
        if (end != note && (!*end || *end == ',')) continue;
        *count = 0;
        return;
    }
    if (*note) *count = 0;
}

static Status read_pixels(DatasetModel *model, const Safetensors *file, const char *path, Error *err) {
    const char *mean = safetensors_note(file, "sounder.mean"), *stddev = safetensors_note(file, "sounder.stddev");
    uint32_t stddevs;
    if (!mean || !stddev || (!*mean && !*stddev)) return STATUS_OK; // its samples were numbers
    read_channels(model->pixel_means, &model->channels, mean);
    read_channels(model->pixel_stddevs, &stddevs, stddev);
    bool are_fit = model->channels > 0 && stddevs == model->channels;
    for (uint32_t c = 0; c < model->channels && are_fit; c++)
        are_fit = isfinite(model->pixel_means[c]) && isfinite(model->pixel_stddevs[c]) && model->pixel_stddevs[c] > 0;
    if (are_fit) return STATUS_OK;
    return fail(err, STATUS_DATA, "%s: its notes sounder.mean and sounder.stddev are no numbers of each channel", path);
}

// The names of a table's features are needed where gaps are filled: which columns are flagged is among them.
static Status read_fills(DatasetModel *model, const Safetensors *file, const char *path, Error *err) {
    const char *fill = safetensors_note(file, "sounder.feature_fill"),
               *features = safetensors_note(file, "sounder.features_xxh3");
    if (!fill) return STATUS_OK;
    model->features = features ? strtoull(features, NULL, 16) : 0;
    return read_numbers(&model->fill, &model->fills, fill, "sounder.feature_fill", path, err);
}

static Status read_features(DatasetModel *model, const Safetensors *file, const char *path, Error *err) {
    const char *columns = safetensors_note(file, "sounder.features");
    if (!columns || model->are_tokens) return STATUS_OK;
    return read_names(&model->feature_names, columns, "sounder.features", path, err);
}

Status data_model_read_own(DatasetModel *model, const Safetensors *file, const char *path, Error *err) {
    const char *tokens = safetensors_note(file, "sounder.vocabulary");
    *model = (DatasetModel){.are_tokens = tokens != NULL, .numbers_alone = true};
    if (tokens) return read_names(&model->feature_names, tokens, "sounder.vocabulary", path, err);
    TRY(read_fills(model, file, path, err));
    return model->fills > 0 ? read_features(model, file, path, err) : STATUS_OK;
}

static Status read_scales(DatasetModel *model, const Safetensors *file, const char *path, Error *err) {
    const char *mean = safetensors_note(file, "sounder.feature_mean"),
               *stddev = safetensors_note(file, "sounder.feature_stddev");
    if (!mean || !stddev) return STATUS_OK;
    TRY(read_numbers(&model->means, &model->scales, mean, "sounder.feature_mean", path, err));
    TRY(read_numbers(&model->stddevs, &model->scales, stddev, "sounder.feature_stddev", path, err));
    for (uint32_t i = 0; i < model->scales; i++)
        if (!(model->stddevs[i] > 0))
            return fail(err, STATUS_DATA, "%s: its note sounder.feature_stddev has a number that is not above 0", path);
    return STATUS_OK;
}

Status data_model_read(DatasetModel *model, const Safetensors *file, const char *path, Error *err) {
    const char *names = safetensors_note(file, "sounder.class_names"),
               *outputs = safetensors_note(file, "sounder.classes"),
               *features = safetensors_note(file, "sounder.features_xxh3");
    TRY(data_model_read_own(model, file, path, err));
    model->numbers_alone = false;
    model->features = features ? strtoull(features, NULL, 16) : 0;
    model->outputs = outputs ? (uint32_t)strtoul(outputs, NULL, 10) : 0;
    if (model->outputs > DATASET_MAX_CLASSES)
        return fail(err, STATUS_DATA, "%s: its note sounder.classes is %u; there are at most %d", path, model->outputs,
                    DATASET_MAX_CLASSES);
    if (names) TRY(read_names(&model->class_names, names, "sounder.class_names", path, err));
    if (!model->feature_names) TRY(read_features(model, file, path, err));
    TRY(read_pixels(model, file, path, err));
    return read_scales(model, file, path, err);
}

void data_model_free(DatasetModel *model) {
    free(model->class_names);
    free(model->feature_names);
    free(model->means);
    free(model->stddevs);
    free(model->fill);
    *model = (DatasetModel){0};
}

#include "model_file.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"

// Room for a number, its comma and '\0'.
enum { NUMBER_BYTES = 32 };

// digits: 6 for those of pixels, as the first models had them; 17 give a double back.
static char *list_numbers(const double *numbers, size_t count, int digits) {
    char *text = calloc(count + 1, NUMBER_BYTES), *to = text;
    for (size_t i = 0; i < count && text; i++)
        to += snprintf(to, NUMBER_BYTES, "%s%.*g", i > 0 ? "," : "", digits, numbers[i]);
    return text;
}

static bool list_channels(ModelAbout *about, const Dataset *data) {
    double mean[DATASET_MAX_CHANNELS], stddev[DATASET_MAX_CHANNELS];
    const size_t count = data->items.pixel_bytes == 1 ? (size_t)data->shape.channels : 0;
    for (size_t i = 0; i < count; i++) {
        stddev[i] = 1 / (255.0 * (double)data->scale[i]);
        mean[i] = -(double)data->shift[i] * stddev[i];
    }
    about->mean = list_numbers(mean, count, 6);
    about->stddev = list_numbers(stddev, count, 6);
    return about->mean && about->stddev;
}

static bool list_features(ModelAbout *about, const Dataset *data) {
    const size_t count = data->items.scales;
    double *numbers = calloc(2 * count + 1, sizeof *numbers);
    for (size_t i = 0; i < count && numbers; i++) {
        numbers[i] = data->means[i];
        numbers[count + i] = data->stddevs[i];
    }
    if (numbers) about->feature_mean = list_numbers(numbers, count, 17);
    if (numbers) about->feature_stddev = list_numbers(numbers + count, count, 17);
    free(numbers);
    return about->feature_mean && about->feature_stddev;
}

static bool list_fills(ModelAbout *about, const Dataset *data) {
    if (data->items.fills > 0) about->feature_fill = list_numbers(data->fills, data->items.fills, 17);
    return (data->items.fills > 0) == (about->feature_fill != NULL);
}

static char *list_names(const Dataset *data) {
    json_t *list = json_array();
    const char *name = data->class_names;
    for (int class = 0; class < data->classes; class ++, name += strlen(name) + 1)
        json_array_append_new(list, json_string(name));
    char *text = json_array_size(list) == (size_t)data->classes ? json_dumps(list, JSON_COMPACT) : NULL;
    json_decref(list);
    return text;
}

static char *list_tokens(const Dataset *data) {
    json_t *list = json_array();
    const char *token = data->feature_names, *end = token + data->items.feature_bytes;
    for (; token < end; token += strlen(token) + 1)
        json_array_append_new(list, json_string(token));
    char *text = json_dumps(list, JSON_COMPACT);
    json_decref(list);
    return text;
}

// ["age",{"age":null},{"sex":["female","male"]}]: the columns of a table's features, in their order, with the values of
// texts, and with null for the feature that says where a column has gaps. NULL if there is no memory.
static char *list_columns(const Dataset *data) {
    json_t *list = json_array(), *values = NULL;
    const char *column = NULL, *name = data->feature_names;
    for (size_t i = 0; i < shape_size(data->shape); i++, name += strlen(name) + 1) {
        const char *value = strchr(name, DATASET_VALUE_FOLLOWS);
        const size_t bytes = value ? (size_t)(value - name) + 1 : 0;
        const size_t flag = strcspn(name, (const char[]){DATASET_IS_GAP, '\0'});
        if (name[flag])
            json_array_append_new(list, json_pack("{s%:n}", name, flag));
        else if (!value)
            json_array_append_new(list, json_string(name));
        if (value && (!column || strncmp(column, name, bytes) != 0)) {
            values = json_array();
            json_array_append_new(list, json_pack("{s%:o}", name, bytes - 1, values));
        }
        if (value) json_array_append_new(values, json_string(value + 1));
        column = value ? name : NULL;
    }
    char *text = json_dumps(list, JSON_COMPACT);
    json_decref(list);
    return text;
}

void model_about_free(ModelAbout *about) {
    char **const texts[] = {&about->class_names, &about->columns,      &about->vocabulary,     &about->mean,
                            &about->stddev,      &about->feature_mean, &about->feature_stddev, &about->feature_fill};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        free(*texts[i]);
        *texts[i] = NULL;
    }
}

Status model_about_data(ModelAbout *about, const Dataset *data, const char *named, uint64_t hash,
                        const Options *options, Error *err) {
    snprintf(about->data, sizeof about->data, "%s", named);
    write_hash(about->data_hash, hash);
    about->features[0] = '\0';
    if (data->items.features) write_hash(about->features, data->items.features);
    about->seed[0] = '\0';
    if (!options_add_noise(options)) snprintf(about->seed, sizeof about->seed, "%" PRIu64, options->seed);
    model_about_free(about);
    if (data->class_names) about->class_names = list_names(data);
    const bool are_texts = data->items.vocabulary > 0;
    const bool has_texts = data->feature_names && !are_texts &&
                           (memchr(data->feature_names, DATASET_VALUE_FOLLOWS, data->items.feature_bytes) ||
                            memchr(data->feature_names, DATASET_IS_GAP, data->items.feature_bytes));
    if (has_texts) about->columns = list_columns(data);
    if (are_texts) about->vocabulary = list_tokens(data);
    if (list_channels(about, data) && (data->items.scales == 0 || list_features(about, data)) &&
        list_fills(about, data) && !data->class_names == !about->class_names && has_texts == (about->columns != NULL) &&
        are_texts == (about->vocabulary != NULL))
        return STATUS_OK;
    return fail(err, STATUS_OS, "no memory for the notes of the model");
}

static const char *text_or_none(const char *text) {
    return text ? text : "";
}

void model_notes(ModelNotes *notes, const Spec *spec, const ModelAbout *about) {
    snprintf(notes->input, sizeof notes->input, "%dx%dx%d", spec->input.channels, spec->input.rows,
             spec->input.columns);
    snprintf(notes->classes, sizeof notes->classes, "%d", spec->classes);
    const TensorNote all[MODEL_NOTES] = {{"format", "pt"},
                                         {"sounder.class_names", about->class_names},
                                         {"sounder.classes", notes->classes},
                                         {"sounder.data", about->data},
                                         {"sounder.data_xxh3", about->data_hash},
                                         {"sounder.feature_fill", about->feature_fill},
                                         {"sounder.feature_mean", about->feature_mean},
                                         {"sounder.feature_stddev", about->feature_stddev},
                                         {"sounder.features", about->columns},
                                         {"sounder.features_xxh3", *about->features ? about->features : NULL},
                                         {"sounder.input", notes->input},
                                         {"sounder.loss", spec->one_vs_rest ? "bce" : NULL},
                                         {"sounder.mean", text_or_none(about->mean)},
                                         {"sounder.model", about->text},
                                         {"sounder.seed", *about->seed ? about->seed : NULL},
                                         {"sounder.stddev", text_or_none(about->stddev)},
                                         {"sounder.vocabulary", about->vocabulary}};
    notes->count = 0;
    for (size_t i = 0; i < MODEL_NOTES; i++)
        if (all[i].value) notes->notes[notes->count++] = all[i];
}

void model_entries(TensorEntry *entries, const TensorList *list) {
    for (int i = 0; i < list->count; i++) {
        const ParameterTensor *tensor = &list->tensors[i];
        entries[i] = (TensorEntry){.type = TENSOR_F32, .rank = tensor->rank};
        snprintf(entries[i].name, sizeof entries[i].name, "%s", tensor->name);
        memcpy(entries[i].shape, tensor->shape, sizeof tensor->shape);
    }
}

Status model_header(char **header, size_t *header_bytes, const Spec *spec, const TensorList *list,
                    const ModelAbout *about, Error *err) {
    TensorEntry *entries = calloc((size_t)list->count + 1, sizeof *entries);
    if (!entries) return fail(err, STATUS_OS, "no memory for the names of %d tensors", list->count);
    ModelNotes notes;
    model_notes(&notes, spec, about);
    model_entries(entries, list);
    const Status status =
        safetensors_header(header, header_bytes, entries, (size_t)list->count, notes.notes, notes.count, err);
    free(entries);
    return status;
}

static NamedTensor named_tensor(const ParameterTensor *tensor, const float *parameters) {
    NamedTensor named = {.rank = tensor->rank, .values = parameters + tensor->first};
    snprintf(named.name, sizeof named.name, "%s", tensor->name);
    memcpy(named.shape, tensor->shape, sizeof tensor->shape);
    return named;
}

void model_tensors(NamedTensor *tensors, const TensorList *list, const float *parameters) {
    for (int i = 0; i < list->count; i++)
        tensors[i] = named_tensor(&list->tensors[i], parameters);
}

// Adds names to one sentence, as many as fit.
typedef struct Names {
    char text[ERROR_MESSAGE_BYTES / 2];
    int count;
} Names;

enum { MOST_NAMES = 8 };

static void add_name(Names *names, const char *name) {
    if (names->count++ < MOST_NAMES) text_list(names->text, sizeof names->text, name, strlen(name));
}

// partial: some tensors need not fit; they stay as they are, which a warning says.
static Status load(float *parameters, const TensorList *list, const Safetensors *file, const char *path, bool partial,
                   Error *err) {
    bool fits[TENSORS_MOST];
    Names unfit = {.count = 0};
    for (int t = 0; t < list->count; t++) {
        char why_not[CHECKPOINT_WHY_BYTES];
        const NamedTensor tensor = named_tensor(&list->tensors[t], parameters);
        fits[t] = checkpoint_fits(why_not, file, &tensor, true);
        if (!fits[t]) add_name(&unfit, why_not);
    }
    const bool is_some = partial && unfit.count < list->count;
    if (unfit.count > 0 && is_some)
        log_warning("%s: %d of the net's %d tensors do not fit and keep their initial values: %s%s", path, unfit.count,
                    list->count, unfit.text, unfit.count > MOST_NAMES ? ", ..." : "");
    else if (unfit.count > 0)
        return fail(err, STATUS_DATA, "%s does not fit the net (%d of %d tensors): %s%s", path, unfit.count,
                    list->count, unfit.text, unfit.count > MOST_NAMES ? ", ..." : "");
    for (int t = 0; t < list->count; t++) {
        const NamedTensor tensor = named_tensor(&list->tensors[t], parameters);
        if (fits[t]) checkpoint_load_floats(parameters + list->tensors[t].first, file, &tensor);
    }
    return STATUS_OK;
}

Status model_load(float *parameters, const TensorList *list, const Safetensors *file, const char *path, Error *err) {
    return load(parameters, list, file, path, false, err);
}

static void warn_of_others(const TensorList *list, const Safetensors *file, const char *path) {
    Names others = {.count = 0};
    for (size_t i = 0; i < file->count; i++) {
        bool known = false;
        for (int t = 0; t < list->count && !known; t++)
            known = strcmp(list->tensors[t].name, file->entries[i].name) == 0;
        if (!known) add_name(&others, file->entries[i].name);
    }
    if (others.count > 0)
        log_warning("%s: the net has no use for %d of its tensors: %s%s", path, others.count, others.text,
                    others.count > MOST_NAMES ? ", ..." : "");
}

Status model_load_alone(float *parameters, const TensorList *list, const Safetensors *file, const char *path,
                        Error *err) {
    TRY(model_load(parameters, list, file, path, err));
    warn_of_others(list, file, path);
    return STATUS_OK;
}

Status model_refuse_onnx(const char *path, Error *err) {
    const size_t length = strlen(path);
    if (length < 5 || strcmp(path + length - 5, ".onnx") != 0) return STATUS_OK;
    return fail(err, STATUS_USAGE,
                "%.200s: is a file of ONNX's; python3 -c 'import sounder; print(sounder.layers(\"%.200s\")); "
                "sounder.write_weights(\"net.safetensors\", \"%.200s\")' prints its layers, for --model, and writes "
                "its weights, for --init and sounder eval (tools/python)",
                path, path, path);
}

Status model_open(Safetensors *file, const char *path, Error *err) {
    TRY(model_refuse_onnx(path, err));
    TRY(safetensors_open(file, path, err));
    safetensors_unwrap(file);
    return STATUS_OK;
}

// Shapes alone do not tell that inputs or outputs mean something else. With partial the head may be a new one.
static void warn_of_data(const ModelAbout *about, const Safetensors *file, const char *path, bool partial) {
    const struct {
        const char *note, *here, *what;
    } kinds[] = {{"sounder.features_xxh3", about->features, "other columns, or in another order, or with other texts"},
                 {"sounder.vocabulary", about->vocabulary, "another vocabulary"},
                 {"sounder.class_names", partial ? NULL : about->class_names, "other names of classes"}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const char *there = safetensors_note(file, kinds[i].note), *here = kinds[i].here;
        if (there && here && *here && strcmp(there, here) != 0)
            log_warning("%s: its model has seen data with %s; its weights may mean something else here", path,
                        kinds[i].what);
    }
    const char *hash = safetensors_note(file, "sounder.data_xxh3");
    if (about->vocabulary && !safetensors_note(file, "sounder.vocabulary") && hash &&
        strcmp(hash, about->data_hash) != 0)
        log_warning("%s: does not name its vocabulary; the characters of these data must have the same numbers in its "
                    "own, or its weights mean something else here",
                    path);
}

// PEFT's files leave the adapter's own name out of the tensors' names, and the wrapper of a layer that is saved whole:
// X.lora_A.weight is X.lora_A.default.weight of the net. Entries of the file get the net's names.
static void name_as_net(Safetensors *file, const TensorList *list) {
    static const char *const inserted[] = {".modules_to_save", ".default"};
    for (int t = 0; t < list->count; t++) {
        char name[TENSOR_NAME_BYTES], *found;
        snprintf(name, sizeof name, "%s", list->tensors[t].name);
        for (size_t i = 0; i < sizeof inserted / sizeof *inserted; i++)
            if ((found = strstr(name, inserted[i])))
                memmove(found, found + strlen(inserted[i]), strlen(found + strlen(inserted[i])) + 1);
        const TensorEntry *entry = safetensors_find(file, name);
        if (entry && strcmp(name, list->tensors[t].name) != 0)
            snprintf(file->entries[entry - file->entries].name, SAFETENSORS_NAME_BYTES, "%s", list->tensors[t].name);
    }
}

Status model_begin_from(float *parameters, const TensorList *list, const char *path, bool partial,
                        const ModelAbout *about, Error *err) {
    Safetensors file;
    Error why;
    TRY(model_open(&file, path, err));
    name_as_net(&file, list);
    const Status status = load(parameters, list, &file, path, partial, &why);
    if (status == STATUS_OK) warn_of_others(list, &file, path);
    if (status == STATUS_OK) warn_of_data(about, &file, path, partial);
    if (status != STATUS_OK)
        fail(err, status, "%s%s", why.message, partial ? "; no tensor fits" : "; --init-partial takes those that fit");
    safetensors_close(&file);
    return status;
}

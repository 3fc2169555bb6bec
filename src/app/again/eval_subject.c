#include "eval_subject.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/options/option_table.h"
#include "app/train/data_model.h"
#include "app/train/model_file.h"
#include "app/train/run_record.h"
#include "app/train/trainer_eval.h"
#include "base/log.h"
#include "base/text.h"
#include "datasets/settings.h"
#include "fedavg/rules/attack/attack_rules.h"

// Finds the model in a run's folder; data and seed come from its config.yaml.
static Status find_in_run(Subject *subject, Options *options, const char *folder, Error *err) {
    Options saved;
    char word[SHELL_WORD_BYTES];
    if (snprintf(subject->path, sizeof subject->path, "%s/model.safetensors", folder) >= RUN_PATH_BYTES)
        return fail(err, STATUS_USAGE, "the path of the run is too long: %.200s...", folder);
    options_defaults(&saved);
    TRY(options_read_run(&saved, folder, err));
    if (access(subject->path, F_OK) != 0)
        return fail(err, STATUS_NOINPUT,
                    "%.200s has no model.safetensors, which a run writes at its end; finish it with sounder train "
                    "--resume %s, or give one of its checkpoints",
                    folder, shell_path(word, folder));
    if (saved.attack[0]) TRY(attack_parse(&subject->attack, saved.attack, err));
    if (subject->is_own_data) snprintf(options->data, sizeof options->data, "%s", saved.data);
    if (!options_given(options, "seed")) options->seed = saved.seed;
    if (!options_given(options, "loss")) options->loss = saved.loss;
    const bool by_trainer = saved.trainer[0] || options->trainer[0];
    return by_trainer ? trainer_eval_options(options, &subject->past, &saved, folder, err) : STATUS_OK;
}

// The note has only the last part of a path: the data may also be in the model's folder.
static Status take_noted_data(Options *options, const Subject *subject, const char *data, Error *err) {
    char place[RUN_PATH_BYTES], beside[RUN_PATH_BYTES], text[OPTION_TEXT_BYTES];
    const char *slash = strrchr(subject->path, '/');
    const int folder = slash ? (int)(slash - subject->path) + 1 : 0;
    snprintf(place, sizeof place, "%.*s", (int)settings_place_bytes(data), data);
    const bool fits = snprintf(beside, sizeof beside, "%.*s%s", folder, subject->path, place) < RUN_PATH_BYTES;
    const bool is_beside = fits && access(place, F_OK) != 0 && access(beside, F_OK) == 0 &&
                           settings_replace(text, sizeof text, beside, data);
    return option_set(options, option_find("data"), is_beside ? text : data, "the model's sounder.", err);
}

// Takes data, loss and seed from the notes of a model's file.
static Status find_in_notes(Subject *subject, Options *options, const Safetensors *file, Error *err) {
    static const char *const names[] = {"loss", "seed"};
    const char *data = safetensors_note(file, "sounder.data");
    if (subject->is_own_data && !data)
        return fail(err, STATUS_USAGE, "%s does not say on which data it was trained; name them with --data",
                    subject->path);
    subject->is_noted_data = subject->is_own_data;
    if (subject->is_own_data) TRY(take_noted_data(options, subject, data, err));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char key[32];
        snprintf(key, sizeof key, "sounder.%s", names[i]);
        const char *note = safetensors_note(file, key);
        if (note && !options_given(options, names[i]))
            TRY(option_set(options, option_find(names[i]), note, "the model's sounder.", err));
    }
    return STATUS_OK;
}

Status subject_find(Subject *subject, Safetensors *file, Options *options, const char *path, Error *err) {
    struct stat about;
    const bool is_run = stat(path, &about) == 0 && S_ISDIR(about.st_mode);
    subject->is_own_data = !options_given(options, "data");
    snprintf(subject->path, sizeof subject->path, "%s", path);
    if (is_run) TRY(find_in_run(subject, options, path, err));
    TRY(model_open(file, subject->path, err));
    Status status = is_run ? STATUS_OK : find_in_notes(subject, options, file, err);
    if (status != STATUS_OK) safetensors_close(file);
    return status;
}

// Other data than the model's own enter the net as its training samples did. Own texts are numbered by it, too, for the
// run may have begun from a model that has more characters.
Status subject_find_data(DatasetSource *source, const DatasetModel *model, const Subject *subject,
                         const Options *options, Error *err) {
    const Status status = dataset_find_for(source, options->data, options->seed,
                                           subject->is_own_data && !data_model_shapes(model) ? NULL : model, err);
    if (status != STATUS_NOINPUT || !subject->is_noted_data) return status;
    const Error why = *err;
    return fail(err, status, "%s was trained on %s, which is neither here nor beside it; name it with --data: %s",
                subject->path, options->data, why.message);
}

Status subject_check_data(const Subject *subject, const Safetensors *file, const Options *options, const Dataset *data,
                          Error *err) {
    char hash[HASH_TEXT_BYTES];
    const char *note = safetensors_note(file, "sounder.data_xxh3");
    if (!subject->is_own_data || !note) return STATUS_OK;
    write_hash(hash, run_hash_data(data));
    if (strcmp(note, hash) == 0) return STATUS_OK;
    return fail(err, STATUS_DATA,
                "%s was trained on other data than %s is now (XXH3 %.16s then, %s now); name what to evaluate it on "
                "with --data",
                subject->path, options->data, note, hash);
}

// Texts are numbered by the model's vocabulary; tokens in arrays, and those of a model without one, cannot be checked.
static void doubt_numbers(const Subject *subject, const Safetensors *file, const Options *options, const Dataset *data,
                          const Spec *spec) {
    char hash[HASH_TEXT_BYTES];
    const char *note = safetensors_note(file, "sounder.data_xxh3");
    write_hash(hash, run_hash_data(data));
    const bool is_named = safetensors_note(file, "sounder.vocabulary") != NULL;
    if (spec->layers[0].vocabulary == 0 || (is_named && data->items.vocabulary > 0) || !note || strcmp(note, hash) == 0)
        return;
    log_warning(
        "--data %s: its characters, or tokens, must have the numbers that they had when %s was trained, or these "
        "figures mean nothing; %s not name them, so that this cannot be checked",
        options->data, subject->path, is_named ? "these data do" : "the model does");
}

// The file's notes name the net; --model is for files from other programs.
static Status find_net(Spec *spec, const Safetensors *file, const char *path, const Options *options,
                       const Dataset *data, Error *err) {
    char text[SPEC_TEXT_BYTES], word[SHELL_WORD_BYTES];
    const char *note = safetensors_note(file, "sounder.model");
    bool given = options_given(options, "model");
    if (!note && !given) return fail(err, STATUS_USAGE, "%s does not say which net it is; name it with --model", path);
    if (note && strncmp(note, "trainer ", 8) == 0)
        return fail(err, STATUS_USAGE,
                    "%s was trained by a program, which alone knows the net; name it with --trainer %s", path,
                    shell_word(word, note + 8));
    zoo_expand(text, sizeof text, given ? options->model : note, data->classes);
    const char *input = safetensors_note(file, "sounder.input");
    const bool is_text = input && strncmp(input, "1x1x", 4) == 0 && data->items.vocabulary > 0;
    char shape[48];
    snprintf(shape, sizeof shape, "%dx%dx%d", data->shape.channels, data->shape.rows, data->shape.columns);
    if (input && strcmp(input, shape) != 0)
        return fail(err, STATUS_USAGE, "%s was trained on samples of %s, but those of --data %s are %s%s%.8s%s", path,
                    input, options->data, shape, is_text ? "; say length=" : "", is_text ? strrchr(input, 'x') + 1 : "",
                    is_text ? " in --data" : "");
    const char *classes = safetensors_note(file, "sounder.classes");
    snprintf(shape, sizeof shape, "%d", data->classes);
    if (classes && strcmp(classes, shape) != 0)
        return fail(err, STATUS_USAGE, "%s was trained for %.32s classes, but --data %s has %s", path, classes,
                    options->data, shape);
    return spec_parse(spec, text, data->shape, data->classes, err);
}

Status subject_read_model(Spec *spec, float **parameters, const Subject *subject, const Safetensors *file,
                          const Options *options, const Dataset *data, Error *err) {
    TRY(find_net(spec, file, subject->path, options, data, err));
    *parameters = aligned_alloc(64, (spec->parameter_count * sizeof **parameters + 63) / 64 * 64);
    if (!*parameters) return fail(err, STATUS_OS, "no memory for %zu parameters", spec->parameter_count);
    const TensorList list = spec_tensors(spec);
    const Status status = model_load_alone(*parameters, &list, file, subject->path, err);
    if (status != STATUS_OK) free(*parameters);
    if (status == STATUS_OK && !subject->is_own_data) doubt_numbers(subject, file, options, data, spec);
    return status;
}

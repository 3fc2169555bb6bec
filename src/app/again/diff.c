// Part of command.h: `sounder diff RUN RUN` finds where two runs diverge: the first different round, client and
// tensor, and which options, data or machine differed from the start. Records may have hundreds of megabytes, so only a
// fingerprint of each round's model is kept until the round to report is known.
#include "app/command.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/options/option_table.h"
#include "app/train/run_folder.h"
#include "app/train/run_inputs.h"
#include "base/log.h"
#include "io/metrics.h"

enum { FINGERPRINT_BYTES = 20, SHOWN_EVERY = 8192 };

typedef struct Round {
    uint32_t number;
    char model[FINGERPRINT_BYTES]; // as text; empty: the line has none
} Round;

// Facts about one run.
typedef struct Told {
    const char *path;
    Options options;
    json_t *start; // owned: its first "start" line; NULL: none
    Round *rounds; // owned: one per "round" line, in order
    size_t count, capacity;
} Told;

// The lines of one round of one run, owned.
typedef struct Lines {
    json_int_t number;
    json_t *round, *clients; // clients: {"client, visit": line}
} Lines;

// Records may come from other users: control characters are removed, so that no text can command the terminal.
static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...) {
    char line[3 * OPTION_VALUE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    disarm_text(line);
    puts(line);
}

// Reading -------------------------------------------------------------------------------------------------------------

static json_int_t number_of(const json_t *line, const char *key) {
    return json_integer_value(json_object_get(line, key));
}

// Shows progress on a terminal, for long records; log_warning and the end overwrite it.
static void show_progress(const Told *told) {
    char line[80];
    if (told->count % SHOWN_EVERY != 0 || !log_on_terminal()) return;
    snprintf(line, sizeof line, "reading %.40s: round %u", told->path, told->rounds[told->count - 1].number);
    disarm_text(line);
    fprintf(stderr, "\r\033[K%s", line);
}

static Status note_line(void *context, json_t *line, Error *err) {
    Told *told = context;
    if (!told->start && metrics_is(line, "start")) told->start = json_incref(line);
    const json_int_t number = number_of(line, "round");
    if (!metrics_is(line, "round") || number < 1 || number > UINT32_MAX) return STATUS_OK;
    if (told->count == told->capacity) {
        const size_t capacity = 2 * told->capacity + 256;
        Round *rounds = realloc(told->rounds, capacity * sizeof *rounds);
        if (!rounds) return fail(err, STATUS_OS, "no memory for the rounds of %.200s", told->path);
        told->rounds = rounds;
        told->capacity = capacity;
    }
    Round *round = &told->rounds[told->count++];
    const char *model = json_string_value(json_object_get(line, "model_xxh3"));
    round->number = (uint32_t)number;
    snprintf(round->model, sizeof round->model, "%s", model ? model : "");
    show_progress(told);
    return STATUS_OK;
}

static Status read_run(Told *told, const char *path, Error *err) {
    static const char *const types[] = {"start", "round", NULL};
    *told = (Told){.path = path};
    options_defaults(&told->options);
    TRY(options_read_run(&told->options, path, err));
    TRY(metrics_visit_run(path, types, note_line, told, err));
    if (told->count >= SHOWN_EVERY && log_on_terminal()) fputs("\r\033[K", stderr);
    if (told->start || told->count > 0) return STATUS_OK;
    return fail(err, STATUS_NOINPUT, "%.200s/metrics.jsonl tells of no run; give the folder of one", path);
}

static void told_free(Told *told) {
    free(told->rounds);
    json_decref(told->start);
}

static Status note_of_round(void *context, json_t *line, Error *err) {
    Lines *lines = context;
    if (number_of(line, "round") != lines->number) return STATUS_OK;
    if (metrics_is(line, "client")) {
        char key[64]; // a client may train several times in a round of an asynchronous run
        snprintf(key, sizeof key, "%lld, %lld", (long long)number_of(line, "client"),
                 (long long)number_of(line, "visit"));
        return json_object_set(lines->clients, key, line) == 0
                   ? STATUS_OK
                   : fail(err, STATUS_OS, "no memory for the round's clients");
    }
    if (!lines->round) lines->round = json_incref(line);
    return STATUS_OK;
}

static Status read_round(Lines *lines, const Told *told, uint32_t round, Error *err) {
    static const char *const types[] = {"client", "round", NULL};
    *lines = (Lines){.number = round, .clients = json_object()};
    if (!lines->clients) return fail(err, STATUS_OS, "no memory for the round's clients");
    return metrics_visit_run(told->path, types, note_of_round, lines, err);
}

static void lines_free(Lines *lines) {
    json_decref(lines->round);
    json_decref(lines->clients);
}

// Differences ---------------------------------------------------------------------------------------------------------

// Writes a field as text, for comparison and for people, to the caller's text (bytes).
static const char *field(char *text, size_t bytes, const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    if (json_is_string(value))
        snprintf(text, bytes, "%s", json_string_value(value));
    else if (json_is_integer(value))
        snprintf(text, bytes, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        snprintf(text, bytes, "%.10g", json_real_value(value));
    else
        snprintf(text, bytes, "%s", value ? "?" : "");
    return text;
}

enum { FIELD_BYTES = 128 };

// Prints the field if both lines have it with different values. Returns whether it did.
static bool print_difference(const json_t *a, const json_t *b, const char *key, const char *what) {
    char left[FIELD_BYTES], right[FIELD_BYTES];
    field(left, sizeof left, a, key);
    field(right, sizeof right, b, key);
    if (!*left || !*right || strcmp(left, right) == 0) return false;
    say("  %s: %s, %s", what, left, right);
    return true;
}

static void format_used(char text[OPTION_VALUE_BYTES], const Options *options, const Option *option) {
    if (option_applies(options, option))
        option_format(text, options, option);
    else
        strcpy(text, "unused");
}

// Prints possible causes: differences in options, data and machine.
static void print_origins(const Told *a, const Told *b) {
    bool any = false;
    say("different from the start:");
    for (int i = 0; i < option_count; i++) {
        const Option *option = &option_table[i];
        if (option->unsaved || option->may_change || option_equal(&a->options, &b->options, option)) continue;
        char left[OPTION_VALUE_BYTES], right[OPTION_VALUE_BYTES];
        format_used(left, &a->options, option);
        format_used(right, &b->options, option);
        say("  --%s: %s, %s", option->name, *left ? left : "\"\"", *right ? right : "\"\"");
        any = true;
    }
    for (int i = 0; i < RUN_INPUTS; i++) {
        char what[128];
        snprintf(what, sizeof what, "the %s%s", run_inputs[i].words, run_inputs[i].is_version ? "" : " (XXH3)");
        any |= print_difference(a->start, b->start, run_inputs[i].trait.name, what);
    }
    if (strcmp(a->options.noise_key, "system") == 0 && strcmp(b->options.noise_key, "system") == 0) {
        say("  the noise: with --noise-key system each run draws its own");
        any = true;
    }
    any |= print_difference(a->start, b->start, "hash_seed", "PYTHONHASHSEED");
    any |= print_difference(a->start, b->start, "clients", "clients");
    any |= print_difference(a->start, b->start, "clients_per_round", "clients per round");
    any |= print_difference(a->start, b->start, "device", "computed with");
    any |= print_difference(a->start, b->start, "blas", "wide layers multiplied through");
    any |= print_difference(a->start, b->start, "sounder", "version");
    if (!any) say("  nothing that is written down");
}

// Returns the first tensor, in the model's order, that differs; NULL: none.
static const char *first_tensor(const json_t *a, const json_t *b) {
    const json_t *other = json_object_get(b, "tensors_xxh3");
    const char *name;
    json_t *hash;
    json_object_foreach(json_object_get(a, "tensors_xxh3"), name, hash) {
        if (!json_equal(hash, json_object_get(other, name))) return name;
    }
    return NULL;
}

// Returns a phrase that says how two trainings of one client differ; NULL: they are equal.
static const char *client_difference(const json_t *a, const json_t *b) {
    static const struct {
        const char *key, *phrase;
    } facts[] = {{"samples", "trained on another number of samples"},
                 {"epochs", "did another number of epochs"},
                 {"share", "has another share in the mean"},
                 {"refused", "was refused in one of them"},
                 {"loss", "had another loss"},
                 {"weights_xxh3", "trained other weights"}};
    if (!a || !b) return a ? "took part in the first run alone" : "took part in the second run alone";
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        const json_t *left = json_object_get(a, facts[i].key), *right = json_object_get(b, facts[i].key);
        if (left && right && !json_equal(left, right)) return facts[i].phrase;
    }
    return NULL;
}

// Prints the lowest client that differs.
static void print_client(const json_t *a, const json_t *b) {
    const json_t *sides[] = {a, b};
    const char *key, *found = NULL;
    json_int_t client = 0;
    json_t *line;
    for (int side = 0; side < 2; side++) {
        json_object_foreach((json_t *)sides[side], key, line) {
            const char *difference = client_difference(json_object_get(a, key), json_object_get(b, key));
            if (!difference || (found && number_of(line, "client") >= client)) continue;
            found = difference;
            client = number_of(line, "client");
        }
    }
    if (found)
        say("  client %lld: %s", (long long)client, found);
    else
        say("  no client's record differs: what was made of the updates does");
}

static Status print_parting(const Told *a, const Told *b, uint32_t round, Error *err) {
    Lines left, right = {0};
    Status status = read_round(&left, a, round, err);
    if (status == STATUS_OK) status = read_round(&right, b, round, err);
    if (status == STATUS_OK) {
        say("the runs part in round %u", round);
        print_client(left.clients, right.clients);
        const char *tensor = first_tensor(left.round, right.round);
        if (tensor) say("  tensor %s of the model, and maybe later ones", tensor);
        print_difference(left.round, right.round, "train_loss", "mean loss in training");
        print_origins(a, b);
    }
    lines_free(&right);
    lines_free(&left);
    return status;
}

static Status compare(const Told *a, const Told *b, int *exit_code, Error *err) {
    size_t common = 0;
    for (size_t i = 0, k = 0; i < a->count && k < b->count;) {
        const Round *left = &a->rounds[i], *right = &b->rounds[k];
        i += left->number <= right->number;
        k += right->number <= left->number;
        if (left->number != right->number) continue;
        common++;
        if (!left->model[0] || !right->model[0])
            return fail(err, STATUS_DATA, "%.200s: round %u has no fingerprint of the model (model_xxh3)",
                        left->model[0] ? b->path : a->path, left->number);
        if (strcmp(left->model, right->model) == 0) continue;
        *exit_code = 1;
        return print_parting(a, b, left->number, err);
    }
    if (common == 0)
        return fail(err, STATUS_NOINPUT,
                    "there is no round that both %.200s and %.200s have done; train with sounder train --resume",
                    a->path, b->path);
    char more[RUN_PATH_BYTES + 64] = "";
    if (a->count != b->count)
        snprintf(more, sizeof more, "; %s has done %zu more", a->count > b->count ? a->path : b->path,
                 a->count > b->count ? a->count - b->count : b->count - a->count);
    if (common == 1)
        say("the same model in the one round that both have done%s", more);
    else
        say("the same model in all %zu rounds that both have done%s", common, more);
    return STATUS_OK;
}

Status command_diff(int argc, char **argv, int *exit_code, Error *err) {
    if (argc != 2) return fail(err, STATUS_USAGE, "sounder diff: needs two runs; write sounder diff RUN RUN");
    Told told[2] = {0};
    Status status = read_run(&told[0], argv[0], err);
    if (status == STATUS_OK) status = read_run(&told[1], argv[1], err);
    if (status == STATUS_OK) status = compare(&told[0], &told[1], exit_code, err);
    told_free(&told[1]);
    told_free(&told[0]);
    return status;
}

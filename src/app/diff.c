// `sounder diff RUN RUN`: where two runs part: the first round, client and tensor, and what was different to begin
// with.
#include "app/commands.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "app/options/option_table.h"
#include "app/run/run_folder.h"
#include "app/run/run_record.h"
#include "io/metrics.h"

// What is known of one run.
typedef struct Told {
    const char *path;
    Options options;
    json_t *lines;        // owned: all of metrics.jsonl
    const json_t *start;  // borrowed: its first "start" line; NULL: none
    const json_t *rounds; // owned: its "round" lines
} Told;

static bool has_type(const json_t *line, const char *type) {
    const char *text = json_string_value(json_object_get(line, "type"));
    return text && strcmp(text, type) == 0;
}

static Status read_run(Told *told, const char *path, Error *err) {
    char config[RUN_PATH_BYTES];
    *told = (Told){.path = path};
    if (snprintf(config, sizeof config, "%s/config.yaml", path) >= RUN_PATH_BYTES)
        return fail(err, STATUS_USAGE, "the path of the run is too long: %.200s...", path);
    options_defaults(&told->options);
    TRY(options_read_yaml(&told->options, config, err));
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return fail_errno(err, STATUS_NOINPUT, "%.200s cannot be opened", path);
    const Folder folder = {.fd = fd, .path = path};
    Status status = metrics_read(&told->lines, &folder, err);
    close(fd);
    TRY(status);
    json_t *rounds = json_array(), *line;
    size_t i;
    if (!rounds) return fail(err, STATUS_OS, "no memory to read %.200s", path);
    json_array_foreach(told->lines, i, line) {
        if (!told->start && has_type(line, "start")) told->start = line;
        if (has_type(line, "round")) json_array_append(rounds, line);
    }
    told->rounds = rounds;
    return STATUS_OK;
}

static void told_free(Told *told) {
    json_decref((json_t *)told->rounds);
    json_decref(told->lines);
}

// A field as text, for comparison and for people. text: (bytes) of the caller's.
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

// Prints the field if the two have it and it differs. Returns whether it did.
static bool print_difference(const json_t *a, const json_t *b, const char *key, const char *what) {
    char left[FIELD_BYTES], right[FIELD_BYTES];
    field(left, sizeof left, a, key);
    field(right, sizeof right, b, key);
    if (!*left || !*right || strcmp(left, right) == 0) return false;
    printf("  %s: %s, %s\n", what, left, right);
    return true;
}

// What can have made the runs part: options, data, the machine. An option that one run does not use is compared, too:
// it then has its default there.
static void print_origins(const Told *a, const Told *b) {
    bool any = false;
    puts("different from the start:");
    for (int i = 0; i < option_count; i++) {
        const Option *option = &option_table[i];
        if (option->unsaved || option->may_change || option_equal(&a->options, &b->options, option)) continue;
        char left[OPTION_VALUE_BYTES], right[OPTION_VALUE_BYTES];
        option_format(left, &a->options, option);
        option_format(right, &b->options, option);
        printf("  --%s: %s, %s\n", option->name, *left ? left : "\"\"", *right ? right : "\"\"");
        any = true;
    }
    any |= print_difference(a->start, b->start, "data_xxh3", "the data (XXH3)");
    any |= print_difference(a->start, b->start, "partition_xxh3", "the split of the data (XXH3)");
    any |= print_difference(a->start, b->start, "clients", "clients");
    any |= print_difference(a->start, b->start, "clients_per_round", "clients per round");
    any |= print_difference(a->start, b->start, "device", "computed with");
    any |= print_difference(a->start, b->start, "blas", "wide layers multiplied through");
    any |= print_difference(a->start, b->start, "sounder", "version");
    if (!any) puts("  nothing that is written down");
}

// The first tensor, in the model's order, that differs.
static const char *first_tensor(const json_t *a, const json_t *b) {
    const json_t *other = json_object_get(b, "tensors_xxh3");
    const char *name;
    json_t *hash;
    json_object_foreach(json_object_get(a, "tensors_xxh3"), name, hash) {
        if (!json_equal(hash, json_object_get(other, name))) return name;
    }
    return NULL;
}

static const json_t *find_client(const Told *told, json_int_t round, json_int_t client) {
    json_t *line;
    size_t i;
    json_array_foreach(told->lines, i, line) {
        if (has_type(line, "client") && json_integer_value(json_object_get(line, "round")) == round &&
            json_integer_value(json_object_get(line, "client")) == client)
            return line;
    }
    return NULL;
}

// How two trainings of one client differ, as a phrase; NULL: not at all.
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

// The client with the lowest number of those in `from` that differ; -1: none.
static json_int_t first_client(const Told *from, const Told *a, const Told *b, json_int_t round) {
    json_int_t first = -1;
    json_t *line;
    size_t i;
    json_array_foreach(from->lines, i, line) {
        if (!has_type(line, "client") || json_integer_value(json_object_get(line, "round")) != round) continue;
        json_int_t client = json_integer_value(json_object_get(line, "client"));
        if (first >= 0 && client >= first) continue;
        if (client_difference(find_client(a, round, client), find_client(b, round, client))) first = client;
    }
    return first;
}

static void print_parting(const Told *a, const Told *b, const json_t *left, const json_t *right) {
    json_int_t round = json_integer_value(json_object_get(left, "round"));
    json_int_t mine = first_client(a, a, b, round), theirs = first_client(b, a, b, round);
    json_int_t client = mine < 0 || (theirs >= 0 && theirs < mine) ? theirs : mine;
    const char *tensor = first_tensor(left, right);
    printf("the runs part in round %lld\n", (long long)round);
    if (client >= 0)
        printf("  client %lld: %s\n", (long long)client,
               client_difference(find_client(a, round, client), find_client(b, round, client)));
    else
        puts("  no client's record differs: what was made of the updates does");
    if (tensor) printf("  tensor %s of the model, and maybe later ones\n", tensor);
    print_difference(left, right, "train_loss", "mean loss in training");
}

static bool same_model(const json_t *a, const json_t *b) {
    const char *left = json_string_value(json_object_get(a, "model_xxh3"));
    const char *right = json_string_value(json_object_get(b, "model_xxh3"));
    return left && right && strcmp(left, right) == 0;
}

static Status compare(const Told *a, const Told *b, int *exit_code, Error *err) {
    size_t rounds[2] = {json_array_size(a->rounds), json_array_size(b->rounds)};
    size_t common = rounds[0] < rounds[1] ? rounds[0] : rounds[1];
    for (size_t i = 0; i < common; i++) {
        const json_t *left = json_array_get(a->rounds, i), *right = json_array_get(b->rounds, i);
        if (!json_object_get(left, "model_xxh3") || !json_object_get(right, "model_xxh3"))
            return fail(err, STATUS_DATA,
                        "%.200s: round %zu has no fingerprint of the model: it was made by an older version",
                        json_object_get(left, "model_xxh3") ? b->path : a->path, i + 1);
        if (same_model(left, right)) continue;
        print_parting(a, b, left, right);
        print_origins(a, b);
        *exit_code = 1;
        return STATUS_OK;
    }
    printf("the same model in all %zu round%s that both have done", common, common == 1 ? "" : "s");
    if (rounds[0] != rounds[1])
        printf("; %s has done %zu more", rounds[0] > rounds[1] ? a->path : b->path, rounds[0] + rounds[1] - 2 * common);
    putchar('\n');
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

// Options as YAML: hostile experiment files, and the round trip of the echo.
#include "app/options/options.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/options/option_table.h"
#include "base/rng.h"
#include "fedavg/rules/combine_rules.h"
#include "fedavg/rules/send_rules.h"
#include "fedavg/rules/walk.h"
#include "tests/check.h"

// The path of a new file that holds `length` bytes of text; the caller unlinks it.
static void write_file(char path[64], const char *text, size_t length) {
    strcpy(path, "/tmp/sounder-options-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, length), length);
    close(fd);
}

static Status read_text(Options *options, const char *text, size_t length, Error *err) {
    char path[64];
    write_file(path, text, length);
    Status status = options_read_yaml(options, path, err);
    unlink(path);
    // Sentences begin with the path, which is different each time.
    if (status != STATUS_OK && strncmp(err->message, path, strlen(path)) == 0)
        memmove(err->message, err->message + strlen(path), strlen(err->message + strlen(path)) + 1);
    return status;
}

static void the_command_line_wins_over_the_experiment_file(void **state) {
    (void)state;
    char path[64];
    const char text[] = "rounds: 20\nlr: 0.5 # high\nquiet: true\nmodel: >-\n  conv 10 5;\n  linear 10\n";
    write_file(path, text, strlen(text));
    Options options, unused;
    Error err, second;
    options_defaults(&options);
    Status status = options_parse(&options, 5, (char *[]){"--rounds", "5", path, "--out", "x"}, &err);
    Status second_status = options_parse(&unused, 2, (char *[]){path, path}, &second);
    unlink(path);
    check_ok(status);
    assert_int_equal(options.rounds, 5);
    assert_true(options.training.sgd.lr == 0.5f);
    assert_true(options.quiet);
    assert_string_equal(options.model, "conv 10 5; linear 10");
    assert_int_equal(second_status, STATUS_USAGE);
    assert_non_null(strstr(second.message, ": a second experiment file, after "));
}

static void an_experiment_file_that_cannot_be_read_is_named(void **state) {
    (void)state;
    Options options;
    options_defaults(&options);
    Error err;
    assert_int_equal(options_parse(&options, 1, (char *[]){"/nonexistent/a.yaml"}, &err), STATUS_NOINPUT);
    assert_string_equal(err.message, "/nonexistent/a.yaml: cannot be opened: No such file or directory; give an "
                                     "experiment file, or --option value");
    assert_int_equal(options_parse(&options, 1, (char *[]){""}, &err), STATUS_NOINPUT);
    assert_string_equal(err.message, "\"\": cannot be opened: No such file or directory; give an experiment file, or "
                                     "--option value");
    assert_int_equal(options_parse(&options, 1, (char *[]){"/tmp"}, &err), STATUS_IO);
    assert_string_equal(err.message, "/tmp: cannot be read: Is a directory");
}

// Parses a file with this text and then the options of the command line.
static Status parse_over(Options *options, const char *text, int count, char **arguments, Error *err) {
    char path[64], *all[16];
    write_file(path, text, strlen(text));
    options_defaults(options);
    all[0] = path;
    memcpy(all + 1, arguments, (size_t)count * sizeof *arguments);
    Status status = options_parse(options, count + 1, all, err);
    unlink(path);
    if (status == STATUS_OK) status = options_resolve(options, err);
    if (status != STATUS_OK && strncmp(err->message, path, strlen(path)) == 0)
        memmove(err->message, err->message + strlen(path), strlen(err->message + strlen(path)) + 1);
    return status;
}

static void what_the_command_line_makes_useless_in_the_file_is_left_out(void **state) {
    (void)state;
    Options options;
    Error err;
    static const char dirichlet[] = "clients: 4\npartition: dirichlet\nalpha: 0.1\n";
    check_ok(parse_over(&options, dirichlet, 2, (char *[]){"--partition", "iid"}, &err));
    assert_false(options_given(&options, "alpha"));
    check_ok(parse_over(&options, "algorithm: hogwild\nhogwild-update: plain\n", 2, (char *[]){"--algorithm", "fedavg"},
                        &err));
    check_ok(parse_over(&options, "algorithm: ssgd\npartition: iid\n", 1, (char *[]){"--global-batch"}, &err));
    assert_int_equal(parse_over(&options, dirichlet, 4, (char *[]){"--partition", "iid", "--alpha", "0.1"}, &err),
                     STATUS_USAGE); // both were asked for now
    assert_string_equal(err.message,
                        "--alpha 0.1: only used with --partition dirichlet; add that or leave --alpha out");
}

static void a_contradiction_in_the_file_is_cited_with_its_line(void **state) {
    (void)state;
    static const struct {
        const char *text, *sentence;
    } mistakes[] = {
        {"rounds: 3\nalpha: 0.1\n", ":2: alpha 0.1: only used with --partition dirichlet; add that or leave alpha out"},
        {"clients: 3\n\nclients-per-round: 4\n",
         ":3: clients-per-round 4: there are only 3 clients; lower it or raise --clients"},
        {"algorithm: hogwild\nclients: 3\nworkers: 2\n", ":2: clients 3: with --algorithm hogwild every client is a "
                                                         "worker, and --workers is 2; make them equal or leave "
                                                         "one out"},
        {"algorithm: ssgd\nglobal-batch: true\npartition: iid\n",
         ":3: partition iid: with --global-batch the clients share each batch of all samples; leave one of the two "
         "out"},
    };
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        Options options;
        Error err = {.message = "(accepted)"};
        assert_int_equal(parse_over(&options, mistakes[i].text, 2, (char *[]){"--lr", "0.1"}, &err), STATUS_USAGE);
        assert_string_equal(err.message, mistakes[i].sentence);
    }
}

static void the_folder_in_the_file_yields_to_resume(void **state) {
    (void)state;
    Options options, saved;
    Error err;
    char path[64];
    static const char text[] = "out: runs/first\nlr: 0.1\n";
    write_file(path, text, strlen(text));
    options_defaults(&options);
    Status status = options_parse(&options, 3, (char *[]){"--resume", "runs/second", path}, &err);
    unlink(path);
    check_ok(status);
    options_defaults(&saved);
    check_ok(option_set(&saved, option_find("lr"), "0.1", "", &err));
    check_ok(options_resume(&options, &saved, &err));
    check_ok(options_resolve(&options, &err));
    assert_string_equal(options.out, "runs/second");
}

static void yaml_is_read_as_people_and_editors_write_it(void **state) {
    (void)state;
    Options options;
    Error err;
    static const char text[] = "\xef\xbb\xbfquiet: True\nglobal_batch: yes\nstandalone-model: 1\n";
    options_defaults(&options);
    assert_int_equal(read_text(&options, text, strlen(text), &err), STATUS_USAGE);
    assert_string_equal(err.message, ":3: standalone-model: unknown option; `sounder help train` lists them");
    assert_true(options.quiet && options.training.global_batch);
    static const char blocks[] = "model: >\n  conv 10 5;\n  linear 10\nout: |\n  a\ndata: |\n  b\n  c\nquiet: OFF\n";
    check_ok(read_text(&options, blocks, strlen(blocks), &err));
    assert_string_equal(options.model, "conv 10 5; linear 10");
    assert_string_equal(options.out, "a");
    assert_string_equal(options.data, "b c");
    assert_false(options.quiet);
}

typedef struct Refusal {
    const char *text;
    const char *sentence;
} Refusal;

static void a_hostile_experiment_file_is_refused_with_its_line(void **state) {
    (void)state;
    static const Refusal refusals[] = {
        {"lr: 0.1\nround: 3\n", ":2: round: unknown option; did you mean rounds?"},
        {"\n\nrounds: 0\n", ":3: rounds 0: needs a whole number from 1 to 1000000"},
        {"rounds:\n", ":1: rounds \"\": needs a whole number from 1 to 1000000"},
        {"out: ~\n", ":1: out \"\": needs a UTF-8 text of 1 to 2047 bytes without control characters"},
        {"out: \"a\\e[31m\"\n", ":1: out a?[31m: needs a UTF-8 text of 1 to 2047 bytes without control characters"},
        {"quiet: maybe\n", ":1: quiet maybe: needs true or false"},
        {"rounds: 3\nlr: 1\nrounds: 4\n", ":3: rounds: stands on line 1 already; leave one of the two out"},
        {"clients: 3\nlocal_epochs: 3\nlocal-epochs: 3\n",
         ":3: local-epochs: stands on line 2 already; leave one of the two out"},
        {"rounds: [3]\n", ":1: a list; an experiment file has one `option: value` on each line"},
        {"lr: 1\nrounds:\n  a: 3\n",
         ":3: a mapping inside the mapping; an experiment file has one `option: value` on each line"},
        {"- rounds\n", ":1: no mapping; an experiment file has one `option: value` on each line"},
        {"rounds\n", ":1: no mapping; an experiment file has one `option: value` on each line"},
        {"rounds: &a 3\n", ":1: an anchor; an experiment file has one `option: value` on each line"},
        {"&a rounds: 3\n", ":1: an anchor; an experiment file has one `option: value` on each line"},
        {"&a {rounds: 3}\n", ":1: an anchor; an experiment file has one `option: value` on each line"},
        {"rounds: *a\n", ":1: an alias; an experiment file has one `option: value` on each line"},
        {"rounds: !!int 3\n", ":1: a tag; an experiment file has one `option: value` on each line"},
        {"<<: 3\n", ":1: <<: unknown option; `sounder help train` lists them"},
        {"? [a]\n: 3\n", ":1: a list; an experiment file has one `option: value` on each line"},
        {"out: \"a\\0b\"\n", ":1: a NUL character; an experiment file has one `option: value` on each line"},
        {"rounds: 3\n---\nlr: 1\n", ":2: a second document; an experiment file has one `option: value` on each line"},
        {"lr: 1\nrounds: 3: 4\n", ":2: not readable as YAML: mapping values are not allowed in this context"},
        {"rounds: 3\nout: \"open\n", ":3: not readable as YAML: found unexpected end of stream"},
        {"rounds: 3\nout: \xff\n", ":2: not readable as YAML: invalid leading UTF-8 octet"},
        {"lr: 1\nout: \x01\n", ":2: not readable as YAML: control characters are not allowed"},
        {"\xff\xfe", ":1: not readable as YAML: invalid leading UTF-8 octet"}, // UTF-16
    };
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        Options options;
        options_defaults(&options);
        Error err = {.message = "(accepted)"};
        Status status = read_text(&options, refusals[i].text, strlen(refusals[i].text), &err);
        assert_string_equal(err.message, refusals[i].sentence);
        assert_int_equal(status, STATUS_USAGE);
    }
}

static void an_empty_experiment_file_sets_nothing(void **state) {
    (void)state;
    static const char *const texts[] = {"", "\n\n", "# nothing\n", "{}\n"};
    Options defaults;
    options_defaults(&defaults);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        Options options = defaults;
        Error err;
        check_ok(read_text(&options, texts[i], strlen(texts[i]), &err));
        assert_memory_equal(&options, &defaults, sizeof options);
    }
}

static void large_deep_and_damaged_experiment_files_end_quickly(void **state) {
    (void)state;
    enum { LIMIT = 64 * 1024 };
    char *text = malloc(LIMIT + 1);
    assert_non_null(text);
    Options options;
    options_defaults(&options);
    Error err;
    memset(text, '#', LIMIT + 1);
    check_ok(read_text(&options, text, LIMIT, &err));
    assert_int_equal(read_text(&options, text, LIMIT + 1, &err), STATUS_USAGE);
    assert_string_equal(err.message, ": larger than the 64 KiB that an experiment file may have");
    static const char fillers[] = {'[', '{', '"', '?', '-', '&', '!', '*', '\0', '\t', '|', ':', '%'};
    for (size_t i = 0; i < sizeof fillers; i++) {
        memset(text, fillers[i], LIMIT);
        assert_int_equal(read_text(&options, text, LIMIT, &err), STATUS_USAGE);
    }
    // Every truncation and every flipped bit of a good file: accepted or refused, never a crash.
    static const char good[] = "# a run\nmodel: \"conv 10 5; linear 10\"\nrounds: 3\nlr: 0.01\nquiet: true\nseed: 18\n";
    for (size_t length = 0; length < strlen(good); length++)
        if (read_text(&options, good, length, &err) != STATUS_OK) assert_int_equal(err.message[0], ':');
    for (size_t bit = 0; bit < 8 * strlen(good); bit++) {
        strcpy(text, good);
        text[bit / 8] = (char)(text[bit / 8] ^ (1 << bit % 8));
        if (read_text(&options, text, strlen(good), &err) != STATUS_OK) assert_int_equal(err.message[0], ':');
    }
    free(text);
}

static void write_and_read_back(Options *read_back, const Options *options) {
    char *text = NULL;
    size_t length = 0;
    Error err;
    FILE *file = open_memstream(&text, &length);
    assert_non_null(file);
    Status status = options_write_yaml(options, file, &err);
    fclose(file);
    check_ok(status);
    options_defaults(read_back);
    status = read_text(read_back, text, length, &err);
    free(text);
    check_ok(status);
}

// What is about one process alone is not written.
static void assert_same_values(const Options *a, const Options *b) {
    for (int i = 0; i < option_count; i++)
        if (!option_table[i].unsaved && !option_equal(a, b, &option_table[i]))
            fail_msg("--%s differs", option_table[i].name);
}

// Texts that YAML gives a meaning, or that need quotes or escapes.
static const char *const odd_texts[] = {"plain",
                                        "runs/2024-a",
                                        "null",
                                        "true",
                                        "12",
                                        "1e3",
                                        "~",
                                        "- x",
                                        "a: b",
                                        "a #b",
                                        "'",
                                        "\"\\",
                                        " lead",
                                        "trail ",
                                        "\xc3\xa4\xe2\x82\xac\xf0\x9f\x90\x97",
                                        "conv 10 5; relu; linear 10",
                                        "{a}",
                                        "[",
                                        "&a",
                                        "*a",
                                        "!t",
                                        "%",
                                        "@",
                                        "`",
                                        "x\xc2\x85y",
                                        "x\xe2\x80\xa8y",
                                        "\xef\xbb\xbfz",
                                        "?",
                                        ":",
                                        ",",
                                        "a,b",
                                        "---",
                                        "...",
                                        "|",
                                        ">",
                                        "=",
                                        "<<"};

static uint32_t count_choices(const Option *option) {
    uint32_t count = 0;
    while (count < OPTION_MAX_CHOICES && option->choices[count])
        count++;
    return count;
}

// A value within the option's own range, as text.
static void random_value(char value[OPTION_VALUE_BYTES], const Option *option, RngBlock random) {
    double share = (double)rng_float(random.word[0]) + (double)random.word[1] * 0x1p-60; // odd digits
    double between = option->minimum + share * (option->maximum - option->minimum);
    uint32_t word = random.word[2];
    uint64_t seed = (uint64_t)word << 32 | random.word[3];
    const char *text = odd_texts[rng_below(word, sizeof odd_texts / sizeof *odd_texts)];
    switch (option->type) {
    case OPTION_WHOLE:
        snprintf(value, OPTION_VALUE_BYTES, "%.0f", floor(between));
        break;
    case OPTION_SEED:
        snprintf(value, OPTION_VALUE_BYTES, "%" PRIu64, seed);
        break;
    case OPTION_REAL:
        snprintf(value, OPTION_VALUE_BYTES, "%.17g", between > 0 ? between : 0.5);
        break;
    case OPTION_FLOAT:
        snprintf(value, OPTION_VALUE_BYTES, "%.9g", between > 0 ? between : 0.5);
        break;
    case OPTION_FLAG:
        strcpy(value, word & 1 ? "true" : "false");
        break;
    case OPTION_CHOICE:
        strcpy(value, option->choices[rng_below(word, count_choices(option))]);
        break;
    case OPTION_TEXT:
        strcpy(value, text);
        break;
    }
}

static void randomise(Options *options, uint32_t trial) {
    options_defaults(options);
    for (int i = 0; i < option_count; i++) {
        char value[OPTION_VALUE_BYTES];
        RngBlock random = rng_block(rng_key(1, RNG_SYNTHETIC, trial, (uint32_t)i, 0), 0, 0, 0, 0);
        random_value(value, &option_table[i], random);
        Error err;
        check_ok(option_set(options, &option_table[i], value, "", &err));
    }
}

// Makes a random choice of options one that options_resolve accepts, as a run's effective options are.
static void make_consistent(Options *options) {
    static const char *const forms[] = {"contiguous",          "iid",    "dirichlet",
                                        "dirichlet alpha=0.1", "shards", "pathological classes=2 mode=random"};
    Options defaults;
    options_defaults(&defaults);
    strcpy(options->partition, forms[options->seed % (sizeof forms / sizeof *forms)]);
    options->device = DEVICE_CPU;
    options->resume[0] = '\0';
    options->training.optimizer_state = OPTIMIZER_FRESH; // not every algorithm lets a client keep another one
    snprintf(options->algorithm, sizeof options->algorithm, "%s",
             zoo_algorithms[options->seed % zoo_algorithm_count].name);
    Error ignored;
    assert_int_equal(recipe_parse(&options->recipe, options->algorithm, &ignored), STATUS_OK);
    if (options_engine(options) != ENGINE_ROUNDS) options->clients = options->workers;
    if (options_engine(options) != ENGINE_ROUNDS || options->clients_per_round > options->clients)
        options->clients_per_round = options->clients;
    World *world = &options->world;
    if (options->recipe.parts[PART_RELEASE].row != RELEASE_EXACT)
        world->sampling = SAMPLING_UNIFORM, world->over_selection = 1;
    if (options->recipe.parts[PART_RELEASE].row == RELEASE_TREE)
        world->sampling = SAMPLING_CYCLIC, world->cycle_shuffle = false;
    const bool all = combine_rules[options->recipe.parts[PART_COMBINE].row]->learn != NULL;
    if (all) options->clients_per_round = options->clients, world->drop_out = 0;
    if (all || engine_facts[options_engine(options)].buffers) {
        world->sampling = SAMPLING_UNIFORM, world->over_selection = 1;
        world->stragglers = world->deadline = 0;
    }
    strcpy(options->clock, options->seed % 2 ? "simulated" : "replay:file");
    if (options->recipe.parts[PART_CLIP].row == CLIP_ADAPTIVE) strcat(options->algorithm, " noise=0.01");
    options->privacy_rounds = options->rounds;
    strcpy(options->attack, options->seed % 2 ? "label-flip" : "label-flip from=3 to=1");
    strcpy(options->attackers, options->seed % 3 ? "0.25" : "0");
    strcpy(options->client_noise, options->seed % 3 ? "gaussian sigma=0.1" : "block");
    strcpy(options->drift, "labels round=20");
    world->candidates = options->clients_per_round;
    LrSchedule *schedule = &options->training.schedule;
    schedule->rounds = (uint32_t)options->rounds;
    schedule->minimum = fmin(schedule->minimum, (double)options->training.sgd.lr);
    if (walk_by_steps(&options->recipe.parts[PART_SCHEDULE])) world->straggler_work = STRAGGLERS_DROP;
    if (world->straggler_work == STRAGGLERS_PARTIAL) options->training.local_epochs++;
    if (world->client_time == CLIENT_TIME_FILE) strcpy(options->client_file, "file");
    if (world->time_minimum > world->time_mean) world->time_mean = world->time_minimum;
    for (int pass = 0; pass < 2; pass++) // what makes an option apply may itself not apply
        for (int i = 0; i < option_count; i++)
            if (!option_applies(options, &option_table[i])) {
                option_copy(options, &defaults, &option_table[i]);
                options->given[i] = false;
            }
}

static void the_echo_reads_back_to_the_same_values(void **state) {
    (void)state;
    for (uint32_t trial = 0; trial < 2000; trial++) {
        Options options, read_back;
        Error err;
        randomise(&options, trial);
        make_consistent(&options);
        check_ok(options_resolve(&options, &err));
        write_and_read_back(&read_back, &options);
        assert_same_values(&options, &read_back);
        check_ok(options_resolve(&read_back, &err)); // and it can be run
        assert_same_values(&options, &read_back);
    }
}

// Else a configuration would freeze what nobody asked for: two clients of ten in each round.
static void what_followed_from_other_options_is_a_comment_and_follows_again(void **state) {
    (void)state;
    Options options, read_back;
    Error err;
    char *text = NULL;
    size_t length = 0;
    options_defaults(&options);
    check_ok(
        options_parse(&options, 6, (char *[]){"--workers", "2", "--quiet", "--log-level", "debug", "--out=x"}, &err));
    check_ok(options_resolve(&options, &err));
    assert_int_equal(options.clients_per_round, 2);
    FILE *file = open_memstream(&text, &length);
    check_ok(options_write_yaml(&options, file, &err));
    fclose(file);
    assert_non_null(strstr(text, "\nworkers: 2\n"));
    assert_non_null(strstr(text, "\n# clients: 2 (as many as workers)\n# clients-per-round: 2 (all clients)\n"));
    assert_null(strstr(text, "\nclients"));
    const char *const unsaved[] = {"\nquiet:", "\nlog-level:", "\nout:", "\ntrace:", "\nresume:"};
    for (size_t i = 0; i < sizeof unsaved / sizeof *unsaved; i++)
        if (strstr(text, unsaved[i])) fail_msg("%s is written", unsaved[i]);
    free(text);
    write_and_read_back(&read_back, &options);
    check_ok(option_set(&read_back, option_find("clients"), "10", "--", &err));
    check_ok(options_resolve(&read_back, &err));
    assert_int_equal(read_back.clients_per_round, 10);
}

static void unresolved_options_and_odd_texts_survive_the_echo(void **state) {
    (void)state;
    Options options, read_back;
    options_defaults(&options);
    write_and_read_back(&read_back, &options);
    assert_same_values(&options, &read_back);
    for (size_t length = 1; length < OPTION_TEXT_BYTES; length += 97) {
        memset(options.model, 'x', length);
        options.model[length / 2] = ' ';
        write_and_read_back(&read_back, &options);
        assert_same_values(&options, &read_back);
    }
}

static void numbers_are_written_with_the_fewest_digits_that_read_back(void **state) {
    (void)state;
    static const struct {
        const char *option, *value; // alpha is a double, lr a float
    } rows[] = {{"alpha", "0.01"},
                {"alpha", "0.30000000000000004"},
                {"alpha", "1.0000000000000002"},
                {"alpha", "3.3"},
                {"lr", "0.01"},
                {"lr", "0.3"},
                {"lr", "100"},
                {"lr", "1e-05"},
                {"lr", "1.0000001"}};
    Options options;
    Error err;
    options_defaults(&options);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[OPTION_VALUE_BYTES];
        const Option *option = option_find(rows[i].option);
        check_ok(option_set(&options, option, rows[i].value, "", &err));
        option_format(text, &options, option);
        assert_string_equal(text, rows[i].value);
    }
}

static void the_echo_reports_a_full_disk(void **state) {
    (void)state;
    Options options;
    options_defaults(&options);
    FILE *file = fopen("/dev/full", "w");
    assert_non_null(file);
    Error err;
    Status status = options_write_yaml(&options, file, &err);
    fclose(file);
    assert_int_equal(status, STATUS_IO);
    assert_string_equal(err.message, "the configuration cannot be written: No space left on device");
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_command_line_wins_over_the_experiment_file),
        cmocka_unit_test(what_the_command_line_makes_useless_in_the_file_is_left_out),
        cmocka_unit_test(a_contradiction_in_the_file_is_cited_with_its_line),
        cmocka_unit_test(the_folder_in_the_file_yields_to_resume),
        cmocka_unit_test(yaml_is_read_as_people_and_editors_write_it),
        cmocka_unit_test(an_experiment_file_that_cannot_be_read_is_named),
        cmocka_unit_test(a_hostile_experiment_file_is_refused_with_its_line),
        cmocka_unit_test(an_empty_experiment_file_sets_nothing),
        cmocka_unit_test(large_deep_and_damaged_experiment_files_end_quickly),
        cmocka_unit_test(the_echo_reads_back_to_the_same_values),
        cmocka_unit_test(what_followed_from_other_options_is_a_comment_and_follows_again),
        cmocka_unit_test(unresolved_options_and_odd_texts_survive_the_echo),
        cmocka_unit_test(numbers_are_written_with_the_fewest_digits_that_read_back),
        cmocka_unit_test(the_echo_reports_a_full_disk),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}

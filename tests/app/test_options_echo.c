// The echo of options as YAML: what a run writes into config.yaml reads back to the same values.
#include "app/options/options.h"

#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/options/option_table.h"
#include "base/rng.h"
#include "fedavg/rules/combine/combine_rules.h"
#include "fedavg/rules/local/local_rules.h"
#include "fedavg/rules/send/send_rules.h"
#include "fedavg/rules/world/walk.h"
#include "tests/app/experiment_file.h"
#include "tests/check.h"

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
    const FormRow *row;
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
    case OPTION_FORM:
        row = &option->form->table.rows[word % option->form->table.count];
        strcpy(value, row->leads                       ? "0.25 work=partial"
                      : !row->unnamed                  ? row->name
                      : option->form == &failures_form ? "mtbf=7.5 state=kept"
                                                       : "clip=0.5 noise=1.5");
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

static void leave_out(Options *options, const char *name) {
    Options defaults;
    options_defaults(&defaults);
    option_copy(options, &defaults, option_find(name));
    options->given[option_index(option_find(name))] = false;
}

static void leave_out_what_goes_with_little(Options *options) {
    static const char *const names[] = {"trainer", "aggregator", "without", "new-clients", "client-weights", "plan"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        leave_out(options, names[i]);
}

static void set(Options *options, const char *name, const char *value) {
    Error err;
    check_ok(option_set(options, option_find(name), value, "", &err));
}

static void fit_noise_key(Options *options) {
    if (options->seed % 2) leave_out(options, "trace"); // a key of the system's hides what it tells
    strcpy(options->noise_key,
           options->seed % 2 ? "system" : "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff");
}

// Private steps do not go with all algorithms and options.
static void fit_private_steps(Options *options) {
    fit_noise_key(options);
    if (strncmp(options->algorithm, "fed", 3) == 0 && options->recipe.combine.row == COMBINE_ROW_mean &&
        options->recipe.personal.row == PERSONAL_NONE)
        leave_out(options, "class-weights"), leave_out(options, "finetune-epochs"), set(options, "sampling", "uniform");
    else
        set(options, "dp-sgd", "none");
}

// The loss has weights of classes, smooth labels, or labels of 0 and 1.
static void fit_loss(Options *options) {
    static const char *const names[] = {"class-weights", "label-smoothing", "loss"};
    for (uint64_t i = 0; i < 3; i++)
        if (i != options->seed % 3) leave_out(options, names[i]);
}

static void make_goals_consistent(Options *options) {
    strcpy(options->target, options->seed % 2 ? "accuracy=0.5" : "loss=1e-3");
    strcpy(options->patience_by, options->seed % 2 ? "accuracy" : "loss"); // the target's figure
    strcpy(options->until, options->seed % 2 ? "seconds=600" : "none");
}

// Makes a random choice of options one that options_resolve accepts, as a run's effective options are.
static void make_consistent(Options *options) {
    static const char *const forms[] = {"contiguous",          "iid",    "dirichlet",
                                        "dirichlet alpha=0.1", "shards", "pathological classes=2 mode=random"};
    Options defaults;
    options_defaults(&defaults);
    strcpy(options->partition, forms[options->seed % (sizeof forms / sizeof *forms)]);
    options->device = DEVICE_CPU;
    set(options, "cohort-schedule", "constant");
    options->resume[0] = '\0';
    options->training.optimizer_state = OPTIMIZER_FRESH; // not every algorithm lets a client keep another one
    snprintf(options->algorithm, sizeof options->algorithm, "%s",
             zoo_algorithms[options->seed % zoo_algorithm_count].name);
    Error ignored;
    assert_int_equal(recipe_parse(&options->recipe, options->algorithm, &ignored), STATUS_OK);
    if (recipe_engine(&options->recipe) != ENGINE_ROUNDS) options->clients = options->workers;
    if (recipe_engine(&options->recipe) != ENGINE_ROUNDS || options->clients_per_round > options->clients)
        options->clients_per_round = options->clients;
    World *world = &options->world;
    if (options->recipe.release.row != RELEASE_EXACT) set(options, "sampling", "uniform"), world->over_selection = 1;
    if (options->recipe.noise.row != NOISE_NONE) set(options, "sampling", "uniform");
    if (options->recipe.release.row == RELEASE_TREE) set(options, "sampling", "cyclic");
    const bool all = combine_rules[options->recipe.combine.row]->learn != NULL;
    const bool arrive = local_rules[options->recipe.local.row]->replicas && // whose clients all do
                        options_algorithm(options).engine->buffers;
    if (all || arrive) options->clients_per_round = options->clients, world->drop_out = 0;
    if (all || options_algorithm(options).engine->buffers) {
        set(options, "sampling", "uniform"), world->over_selection = 1;
        set(options, "stragglers", "0"), set(options, "failures", "none"), leave_out(options, "deadline");
    }
    if (world->sampling == SAMPLING_POWER_OF_CHOICE) set(options, "failures", "none");
    if (options->clients_per_round == options->clients) world->over_selection = 1;
    strcpy(options->clock, arrive || options->seed % 2 ? "simulated" : "replay:file");
    if (options->recipe.clip.row == CLIP_ADAPTIVE) strcat(options->algorithm, " noise=0.01");
    options->privacy_rounds = options->rounds;
    strcpy(options->attack, options->seed % 2 ? "label-flip" : "label-flip from=3 to=1");
    strcpy(options->attackers, options->seed % 3 ? "1.0" : "0");
    strcpy(options->client_noise, options->seed % 3 ? "gaussian sigma=0.1" : "block");
    if (options->seed % 2)
        options->training.augment = defaults.training.augment; // noise would be cropped with the image
    else
        leave_out(options, "client-noise");
    if (options_algorithm(options).engine->writes_weights) leave_out(options, "freeze");
    leave_out_what_goes_with_little(options);
    const uint32_t personal = options->recipe.personal.row;
    if (personal == PERSONAL_MOREAU) options->training.sgd.weight_decay = 0;
    if (personal == PERSONAL_MOREAU || personal == PERSONAL_MIXED) options->training.clip = 0;
    fit_private_steps(options);
    fit_loss(options);
    strcpy(options->drift, "labels round=20");
    make_goals_consistent(options);
    if (walk_by_steps(&options->recipe.schedule)) set(options, "stragglers", "0");
    if (world->straggler_work == STRAGGLERS_PARTIAL) options->training.local_epochs++;
    if (world->client_time == CLIENT_TIME_FILE) set(options, "client-time", "file noise=0.1:file");
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

static char *written(const Options *options) {
    char *text = NULL;
    size_t length = 0;
    Error err;
    FILE *file = open_memstream(&text, &length);
    check_ok(options_write_yaml(options, file, &err));
    fclose(file);
    return text;
}

// Writes what a process that resumes the run of `saved` writes; rounds: its --rounds, 0: not given.
static char *resumed(Options *saved, int rounds) {
    Options options;
    Error err;
    char text[16];
    snprintf(text, sizeof text, "%d", rounds);
    options_defaults(&options);
    check_ok(option_set(&options, option_find("resume"), "run", "--", &err));
    if (rounds > 0) check_ok(option_set(&options, option_find("rounds"), text, "--", &err));
    check_ok(options_resume(&options, saved, &err));
    check_ok(options_resolve(&options, &err));
    write_and_read_back(saved, &options);
    return written(&options);
}

// Otherwise tables would tell runs that were interrupted, or begun with fewer rounds, from those that were not.
static void a_run_that_is_resumed_has_the_options_of_one_that_is_not(void **state) {
    (void)state;
    for (uint32_t trial = 0; trial < 400; trial++) {
        Options options, saved;
        Error err;
        randomise(&options, trial);
        make_consistent(&options);
        if (trial % 2) leave_out(&options, "privacy-rounds");
        check_ok(options_resolve(&options, &err));
        write_and_read_back(&saved, &options);
        char *const once = written(&options), *const again = resumed(&saved, 0),
                    *const shorter = resumed(&saved, options.rounds / 2 + 1),
                    *const whole = resumed(&saved, options.rounds);
        assert_string_equal(once, again);
        assert_true(options.rounds < 3 || strcmp(once, shorter) != 0);
        assert_string_equal(once, whole);
        free(once);
        free(again);
        free(shorter);
        free(whole);
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
    char *const words[] = {"--workers", "2", "--gpu", "0", "--quiet", "--log-level", "debug", "--out=x"};
    check_ok(options_parse(&options, 8, (char **)words, &err));
    check_ok(options_resolve(&options, &err));
    assert_int_equal(options.clients_per_round, 2);
    FILE *file = open_memstream(&text, &length);
    check_ok(options_write_yaml(&options, file, &err));
    fclose(file);
    assert_non_null(strstr(text, "\nworkers: 2\n"));
    assert_non_null(strstr(text, "\ngpu: 0\n")); // the first GPU, not that of the local rank
    assert_non_null(strstr(text, "\n# clients: 2 (as many as workers, or as the data has users)\n"
                                 "# clients-per-round: 2 (all clients)\n"));
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

// Where cores say how many clients there are, the configuration does, so that the run is the same on one core.
static void what_followed_from_the_machine_is_a_value(void **state) {
    (void)state;
    static const char *const algorithms[] = {"fedavg", "ssgd", "hogwild", "fedbuff"};
    cpu_set_t before, one;
    CPU_ZERO(&one);
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    for (size_t cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
    for (size_t i = 0; i < sizeof algorithms / sizeof *algorithms; i++) {
        Options options, read_back;
        Error err;
        options_defaults(&options);
        check_ok(options_parse(&options, 2, (char *[]){"--algorithm", (char *)algorithms[i]}, &err));
        check_ok(options_resolve(&options, &err));
        assert_true(options.clients_by_machine);
        write_and_read_back(&read_back, &options);
        assert_int_equal(read_back.clients, options.clients);
        assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
        const Status status = options_resolve(&read_back, &err);
        assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
        check_ok(status);
        assert_int_equal(read_back.clients, options.clients);
        assert_int_equal(read_back.clients_per_round, options.clients_per_round);
    }
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
        cmocka_unit_test(the_echo_reads_back_to_the_same_values),
        cmocka_unit_test(a_run_that_is_resumed_has_the_options_of_one_that_is_not),
        cmocka_unit_test(what_followed_from_other_options_is_a_comment_and_follows_again),
        cmocka_unit_test(what_followed_from_the_machine_is_a_value),
        cmocka_unit_test(unresolved_options_and_odd_texts_survive_the_echo),
        cmocka_unit_test(numbers_are_written_with_the_fewest_digits_that_read_back),
        cmocka_unit_test(the_echo_reports_a_full_disk),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}

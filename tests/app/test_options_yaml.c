// Experiment files: what the command line makes of them, how people and editors write them, hostile ones.
#include "app/options/options.h"

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/options/option_table.h"
#include "base/rng.h"
#include "fedavg/rules/combine/combine_rules.h"
#include "fedavg/rules/send/send_rules.h"
#include "fedavg/rules/world/walk.h"
#include "tests/app/experiment_file.h"
#include "tests/check.h"

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
    assert_int_equal(options_parse(&options, 1, (char *[]){"/dev"}, &err), STATUS_USAGE);
    assert_string_equal(err.message, "/dev: a folder; give an experiment file, or --option value");
    char run[] = "/tmp/sounder-run-XXXXXX", config[64], expected[256];
    assert_non_null(mkdtemp(run));
    snprintf(config, sizeof config, "%s/config.yaml", run);
    assert_int_equal(options_read_run(&options, run, &err), STATUS_NOINPUT);
    snprintf(expected, sizeof expected,
             "%s: there is no run in it, since it has no config.yaml; give the folder of one (train's --out)", run);
    assert_string_equal(err.message, expected);
    close(open(config, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    assert_int_equal(options_read_run(&options, run, &err), STATUS_OK);
    assert_int_equal(options_parse(&options, 1, (char *[]){run}, &err), STATUS_USAGE);
    snprintf(expected, sizeof expected,
             "%s: the folder of a run; give %s for a new run like it, or --resume %s to go on with it", run, config,
             run);
    assert_string_equal(err.message, expected);
    unlink(config);
    rmdir(run);
    assert_int_equal(options_read_run(&options, run, &err), STATUS_NOINPUT);
    snprintf(expected, sizeof expected,
             "%s: there is no run; give the folder of one (train's --out): No such file or directory", run);
    assert_string_equal(err.message, expected);
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
    check_ok(parse_over(&options, "alpha: 0.1\n", 2, (char *[]){"--partition", "iid"}, &err)); // dirichlet is meant
    assert_string_equal(options.partition, "iid");
    assert_false(options_given(&options, "alpha"));
    check_ok(parse_over(&options, "algorithm: hogwild update=atomic\n", 2, (char *[]){"--algorithm", "fedavg"}, &err));
    check_ok(parse_over(&options, "algorithm: ssgd\npartition: iid\n", 2,
                        (char *[]){"--algorithm", "ssgd batch=global"}, &err));
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
        {"partition: iid\nalpha: 0.1\n",
         ":2: alpha 0.1: only used with --partition dirichlet; add that or leave alpha out"},
        {"clients: 3\n\nclients-per-round: 4\n",
         ":3: clients-per-round 4: there are only 3 clients; lower it or raise --clients"},
        {"algorithm: hogwild\nclients: 3\nworkers: 2\n", ":2: clients 3: with --algorithm hogwild every client is a "
                                                         "worker, and --workers is 2; make them equal or leave "
                                                         "one out"},
        {"algorithm: ssgd batch=global\npartition: iid\n",
         ":2: partition iid: only used with clients that have samples of their own (hogwild with data=shard, ssgd "
         "without "
         "batch=global); add that or leave partition out"},
        {"lr: 1\nsampling: uniform candidates=5\n",
         ":2: sampling uniform: candidates=5 is no part of it; write uniform"},
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
    static const char text[] = "\xef\xbb\xbfquiet: True\nrandom_flip: yes\nstandalone-model: 1\n";
    options_defaults(&options);
    assert_int_equal(read_text(&options, text, strlen(text), &err), STATUS_USAGE);
    assert_string_equal(err.message, ":3: standalone-model: unknown option; `sounder help train` lists them");
    assert_true(options.quiet && options.training.augment.flip);
    static const char blocks[] = "model: >\n  conv 10 5;\n  linear 10\nout: |\n  a\ndata: |\n  b\n  c\nquiet: OFF\n";
    check_ok(read_text(&options, blocks, strlen(blocks), &err));
    assert_string_equal(options.model, "conv 10 5; linear 10");
    assert_string_equal(options.out, "a");
    assert_string_equal(options.data, "b c");
    assert_false(options.quiet);
    static const char lines[] = "model: |\n  linear 8\n  relu\n\n  linear 10;\nalgorithm: |\n  local prox\n";
    check_ok(read_text(&options, lines, strlen(lines), &err));
    assert_string_equal(options.model, "linear 8; relu; linear 10;");
    assert_string_equal(options.algorithm, "local prox");
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
        {"lr: 1\njson: true\n", ":2: json: an option of `sounder eval`; leave it out"},
        {"client: 3\n", ":1: client: an option of `sounder eval`; did you mean clients?"},
        {"out: ~/runs\n", ":1: out ~/runs: nothing has replaced the ~; write the whole path"},
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
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}

// Options: every sentence that a user can meet, what follows from what, what --resume lets change.
#include "app/options/option_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cores.h"
#include "base/suggest.h"
#include "tests/check.h"

enum { MAX_ARGUMENTS = 32, LINE_BYTES = 1 << 15 };

// Splits a command line at '|' (values may hold blanks) and parses it.
static Status parse(Options *options, const char *line, Error *err) {
    static char text[LINE_BYTES]; // options and errors never borrow from it beyond the call
    char *arguments[MAX_ARGUMENTS], *rest = text;
    int count = 0;
    assert_true(strlen(line) < sizeof text);
    strcpy(text, line);
    while (*line && rest)
        arguments[count++] = strsep(&rest, "|");
    options_defaults(options);
    return options_parse(options, count, arguments, err);
}

static Status parse_and_resolve(Options *options, const char *line, Error *err) {
    TRY(parse(options, line, err));
    return options_resolve(options, err);
}

static void defaults_are_the_seed_job(void **state) {
    (void)state;
    Options options;
    options_defaults(&options);
    assert_string_equal(options.data, "fashion-mnist");
    assert_string_equal(options.model, "lenet");
    assert_string_equal(options.algorithm, "fedavg");
    assert_int_equal(options.rounds, 3);
    assert_int_equal(options.training.local_epochs, 1);
    assert_int_equal(options.training.batch_size, 64);
    assert_true(options.training.sgd.lr == 0.01f && options.training.sgd.momentum == 0 &&
                options.training.sgd.weight_decay == 0);
    assert_int_equal(options.seed, 1);
    assert_int_equal(options.log_level, LOG_WARNING);
    assert_true(options.hang_seconds == 60);
    assert_int_equal(options.checkpoint_every, 1);
    for (int i = 0; i < OPTION_MAX_COUNT; i++)
        assert_false(options.given[i]);

    Error err;
    check_ok(options_resolve(&options, &err));
    assert_int_equal(options.workers, cores_usable() < 256 ? cores_usable() : 256);
    assert_int_equal(options.clients, options.workers);
    assert_int_equal(options.clients_per_round, options.clients);
}

static void options_are_taken_in_both_spellings(void **state) {
    (void)state;
    Options options;
    Error err;
    check_ok(parse(&options, "--rounds|7|--lr=1e-3|--quiet|--seed|18446744073709551615", &err));
    assert_int_equal(options.rounds, 7);
    assert_true(options.training.sgd.lr == 0.001f);
    assert_true(options.quiet);
    assert_true(options.seed == UINT64_MAX);
    assert_true(options_given(&options, "lr"));
    assert_false(options_given(&options, "momentum"));
    check_ok(parse(&options, "--quiet=false|--model=conv 10 5; pool 2; linear 10|--out|a=b", &err));
    assert_false(options.quiet);
    assert_string_equal(options.model, "conv 10 5; pool 2; linear 10");
    assert_string_equal(options.out, "a=b");
    check_ok(parse(&options, "--out|runs/\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", &err)); // two, three and four bytes
    assert_string_equal(options.out, "runs/\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
}

static void names_may_have_underscores(void **state) {
    (void)state;
    Options options;
    Error err;
    check_ok(parse(&options, "--clients_per_round|3|--batch_size=5|--clients|9", &err));
    assert_int_equal(options.clients_per_round, 3);
    assert_int_equal(options.training.batch_size, 5);
    assert_int_equal(parse(&options, "--l_r|3", &err), STATUS_USAGE);
}

typedef struct Refusal {
    const char *line;
    const char *sentence;
} Refusal;

static void check_refusals(const Refusal *refusals, size_t count, Status expected) {
    for (size_t i = 0; i < count; i++) {
        Options options;
        Error err = {.message = "(accepted)"};
        Status status = parse_and_resolve(&options, refusals[i].line, &err);
        assert_string_equal(err.message, refusals[i].sentence);
        assert_int_equal(status, expected);
    }
}

static void a_value_that_does_not_fit_is_refused_by_name(void **state) {
    (void)state;
    static const Refusal refusals[] = {
        {"--rounds|0", "--rounds 0: needs a whole number from 1 to 1000000"},
        {"--rounds|1000001", "--rounds 1000001: needs a whole number from 1 to 1000000"},
        {"--rounds|3x", "--rounds 3x: needs a whole number from 1 to 1000000"},
        {"--rounds|3.0", "--rounds 3.0: needs a whole number from 1 to 1000000"},
        {"--rounds| 3", "--rounds  3: needs a whole number from 1 to 1000000"},
        {"--rounds|99999999999999999999", "--rounds 99999999999999999999: needs a whole number from 1 to 1000000"},
        {"--rounds=", "--rounds \"\": needs a whole number from 1 to 1000000"},
        {"--workers|-1", "--workers -1: needs a whole number from 1 to 256"},
        {"--workers|257", "--workers 257: needs a whole number from 1 to 256"},
        {"--clients|1000001", "--clients 1000001: needs a whole number from 1 to 1000000"},
        {"--clients-per-round|0", "--clients-per-round 0: needs a whole number from 1 to 1000000"},
        {"--checkpoint-every|-1", "--checkpoint-every -1: needs a whole number from 0 to 1000000"},
        {"--lr|0", "--lr 0: needs a number above 0, at most 1000"},
        {"--lr|nan", "--lr nan: needs a number above 0, at most 1000"},
        {"--lr|inf", "--lr inf: needs a number above 0, at most 1000"},
        {"--lr|0x1p-3", "--lr 0x1p-3: needs a number above 0, at most 1000"},
        {"--lr|1e-400", "--lr 1e-400: needs a number above 0, at most 1000"},
        {"--lr|1e999", "--lr 1e999: needs a number above 0, at most 1000"},
        {"--lr|0.1.2", "--lr 0.1.2: needs a number above 0, at most 1000"},
        {"--lr|e", "--lr e: needs a number above 0, at most 1000"},
        {"--momentum|1", "--momentum 1: needs a number from 0 to below 1"},
        {"--momentum|-0.1", "--momentum -0.1: needs a number from 0 to below 1"},
        {"--weight-decay|2", "--weight-decay 2: needs a number from 0 to 1"},
        {"--hang-seconds|1e6", "--hang-seconds 1e6: needs a number from 0 to 86400"},
        {"--seed|-1", "--seed -1: needs a whole number from 0 to 18446744073709551615"},
        {"--seed|18446744073709551616",
         "--seed 18446744073709551616: needs a whole number from 0 to 18446744073709551615"},
        {"--quiet=maybe", "--quiet maybe: needs true or false"},
        {"--device|gpu", "--device gpu: needs auto, cpu or cuda; did you mean cuda?"},
        {"--log-level|loud", "--log-level loud: needs error, warning, info or debug"},
        {"--on-worker-death|panic", "--on-worker-death panic: needs continue, respawn or abort"},
        {"--out=", "--out \"\": needs a UTF-8 text of 1 to 2047 bytes without control characters"},
        {"--out|a\nb", "--out a?b: needs a UTF-8 text of 1 to 2047 bytes without control characters"},
        {"--out|a\x1b[31m", "--out a?[31m: needs a UTF-8 text of 1 to 2047 bytes without control characters"},
        {"--out|\xc3", "--out ?: needs a UTF-8 text of 1 to 2047 bytes without control characters"},
        {"--out|\xc0\xaf", "--out ??: needs a UTF-8 text of 1 to 2047 bytes without control characters"}, // overlong
        {"--out|\xed\xa0\x80",
         "--out ???: needs a UTF-8 text of 1 to 2047 bytes without control characters"}, // surrogate
        {"--out|\xf4\x90\x80\x80",
         "--out ????: needs a UTF-8 text of 1 to 2047 bytes without control characters"}, // 110000
        {"--out|\xe2\x82", "--out ??: needs a UTF-8 text of 1 to 2047 bytes without control characters"},
    };
    check_refusals(refusals, sizeof refusals / sizeof *refusals, STATUS_USAGE);
}

static void an_unknown_option_names_what_was_probably_meant(void **state) {
    (void)state;
    static const Refusal refusals[] = {
        {"--round|3", "--round: unknown option; did you mean --rounds?"},
        {"--ruonds|3", "--ruonds: unknown option; did you mean --rounds?"},
        {"--batch=3", "--batch: unknown option; did you mean --batch-size?"},
        {"--local_epoch|3", "--local_epoch: unknown option; did you mean --local-epochs?"},
        {"--learning-rate|0.1", "--learning-rate: unknown option; did you mean --lr?"},
        {"--learning_rate|0.1", "--learning_rate: unknown option; did you mean --lr?"},
        {"--epochs|5", "--epochs: unknown option; did you mean --local-epochs?"},
        {"--num-clients=5", "--num-clients: unknown option; did you mean --clients?"},
        {"--fraction-fit|0.1", "--fraction-fit: unknown option; did you mean --clients-per-round?"},
        {"-w|2", "-w: unknown option; did you mean --workers?"},
        {"-w2", "-w: unknown option; did you mean --workers?"},
        {"--quiet|true", "--quiet true: a value of this option needs '='; write --quiet=true"},
        {"--client|3", "--client: an option of `sounder eval`; did you mean --clients?"},
        {"--frobnicate|3", "--frobnicate: unknown option; `sounder help train` lists them"},
        {"--xy|3", "--xy: unknown option; `sounder help train` lists them"},
        {"--", "--\"\": unknown option; `sounder help train` lists them"},
        {"-r|3", "-r: unknown option; `sounder help train` lists them"},
        {"--out", "--out: needs a value; write --out FOLDER"},
        {"--rounds|--quiet", "--rounds: needs a value; write --rounds N"},
    };
    check_refusals(refusals, sizeof refusals / sizeof *refusals, STATUS_USAGE);

    char line[LINE_BYTES] = "--";
    memset(line + 2, 'x', 3000);
    line[3002] = '\0';
    Options options;
    Error err;
    assert_int_equal(parse(&options, line, &err), STATUS_USAGE);
    assert_non_null(strstr(err.message, "xxx...: unknown option"));
    const struct {
        const char *option;
        size_t most;
    } texts[] = {{"--data=", OPTION_TEXT_BYTES}, {"--model=", OPTION_NET_BYTES}}; // the byte that ends a text included
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const size_t end = strlen(texts[i].option) + texts[i].most - 1;
        memset(line, 'x', end + 1);
        memcpy(line, texts[i].option, strlen(texts[i].option));
        line[end] = '\0';
        check_ok(parse(&options, line, &err));
        line[end] = 'x';
        line[end + 1] = '\0';
        assert_int_equal(parse(&options, line, &err), STATUS_USAGE);
    }
}

static void what_robust_rules_codes_and_releases_do_not_go_with_is_refused(void **state) {
    (void)state;
    static const Refusal refusals[] = {
        {"--algorithm|send threshold|--up-bandwidth|1000", "--up-bandwidth 1000 does not go with send threshold of "
                                                           "--algorithm: how much a client sends is known only when it "
                                                           "has "
                                                           "trained; take send top-k"},
        {"--algorithm|dp-fedavg|--sampling|by-size", "--sampling by-size does not go with release gaussian of "
                                                     "--algorithm: its epsilon is known only for cohorts of "
                                                     "--sampling uniform or poisson that are all kept; change it"},
        {"--algorithm|dp-ftrl|--sampling|cyclic|--over-selection|1.5",
         "--over-selection 1.5 does not go with release tree of --algorithm: its epsilon is known only for cohorts of "
         "--sampling cyclic without shuffle=yes that are all kept; change it"},
        {"--over-selection|1.5",
         "--over-selection 1.5 does not go with --clients-per-round 2: there are no more clients "
         "to ask; lower --clients-per-round"},
        {"--algorithm|fedasync|--client-weights|1,2",
         "--client-weights 1,2 does not go with schedule buffered of --algorithm: an update that makes a step alone "
         "counts whole; raise K, or leave one of the two out"},
        {"--algorithm|local elastic; server elastic|--client-weights|1,2",
         "--client-weights 1,2 does not go with local elastic of --algorithm: what replicas give counts alike; leave "
         "one of the two out"},
        {"--algorithm|dp-fedavg noise=1 epsilon=2",
         "--algorithm: release gaussian: one of noise and epsilon follows from the other; leave one of the two out"},
        {"--algorithm|dp-fedavg epsilon=8|--clients|100|--clients-per-round|10|--privacy-rounds|4|--rounds|5",
         "--rounds 5: the noise spends epsilon in 4 rounds, and more would spend more; lower that or begin a run with "
         "more "
         "--privacy-rounds"},
        {"--algorithm|dp-fedavg|--privacy-rounds|4", "--privacy-rounds 4: only used with epsilon=E of a release in "
                                                     "--algorithm; add that or leave --privacy-rounds out"},
        {"--algorithm|krum byzantine=3|--clients|8",
         "--clients-per-round 8: combine krum of --algorithm needs at least 9 updates; raise it or lower byzantine"},
        {"--algorithm|trimmed|--clients|4",
         "--clients-per-round 4: combine trimmed of --algorithm needs at least 5 updates; raise it or raise share"},
        {"--algorithm|trimmed 0.0833|--clients|12",
         "--clients-per-round 12: combine trimmed of --algorithm needs at least 13 updates; raise it or raise share"},
        {"--attack|backdoor 3 fraction=0.01|--attackers|0|--clients|4|--batch-size|20",
         "--attack backdoor 3 fraction=0.01: fraction=0.01 marks none of the 20 samples of a batch; raise it"},
        {"--algorithm|mix nearest byzantine=4; combine median|--clients|7",
         "--clients-per-round 7: mix nearest makes 0 of these updates, and combine median of --algorithm needs at "
         "least 1 updates; raise it or lower byzantine"},
        {"--algorithm|mix buckets 3; combine bulyan|--clients|18",
         "--clients-per-round 18: mix buckets makes 6 of these updates, and combine bulyan of --algorithm needs at "
         "least 7 updates; raise it or lower byzantine"},
    };
    check_refusals(refusals, sizeof refusals / sizeof *refusals, STATUS_USAGE);
}

static void an_attack_without_attackers_and_what_it_does_not_go_with_is_refused(void **state) {
    (void)state;
    static const Refusal refusals[] = {
        {"--attack|sign-flip", "--attack sign-flip: no client attacks; name the attackers, such as --attackers 0.2"},
        {"--attackers|0.2", "--attackers 0.2: only used with --attack; add that or leave --attackers out"},
        {"--clients|8|--attack|zero|--attackers|8",
         "--attackers 8: needs a part of the clients, with a point: 0.2, or clients from 0 to 7: 3,7"},
        {"--attack|sign_flip|--attackers|0.2",
         "--attack: sign_flip: no such attack, did you mean sign-flip?; there are label-flip, sign-flip, scaled, "
         "gaussian, zero, free-rider, alie, ipm, min-max, min-sum, mimic, backdoor"},
        {"--attack|zero|--attackers|0.2|--algorithm|scaffold",
         "--attack zero does not go with local scaffold of --algorithm: its clients keep what follows from their "
         "update; "
         "take label-flip"},
        {"--attack|label-flip|--attackers|0.2|--algorithm|ssgd",
         "--attack label-flip: only used with an --algorithm with rounds (not ssgd, hogwild); add that or leave "
         "--attack out"},
    };
    check_refusals(refusals, sizeof refusals / sizeof *refusals, STATUS_USAGE);
}

static void parts_of_a_form_are_checked(void **state) {
    (void)state;
    static const Refusal refusals[] = {
        {"--client-time|lognormal meen=2", "--client-time lognormal: meen=2 is no part of it (did you mean mean?); "
                                           "write lognormal [mean=1] [deviation=1] "
                                           "[noise=X]"},
        {"--sampling|power",
         "--sampling power: no such sampling (did you mean power-of-choice?); `sounder help sampling` lists them"},
        {"--stragglers|1.5", "--stragglers 1.5: needs a number from 0 to 1"},
        {"--stragglers|0.5 work=some", "--stragglers SHARE: work=some: needs one of drop partial"},
        {"--client-time|file", "--client-time file: needs a file; write file:FILE"},
        {"--lr-schedule|step,cosine",
         "--lr-schedule step,cosine: needs one value; for several: sounder sweep --lr-schedule step,cosine"},
    };
    check_refusals(refusals, sizeof refusals / sizeof *refusals, STATUS_USAGE);
}

static void options_that_contradict_each_other_are_refused(void **state) {
    (void)state;
    static const Refusal refusals[] = {
        {"--clients|4|--clients-per-round|5",
         "--clients-per-round 5: there are only 4 clients; lower it or raise --clients"},
        {"--clients|1|--clients-per-round|2",
         "--clients-per-round 2: there is only 1 client; lower it or raise --clients"},
        {"--partition|dirichelt",
         "--partition dirichelt: no such partition (did you mean dirichlet?); `sounder help partitions` lists them"},
        {"--partition|whole", "--partition whole: no such partition; `sounder help partitions` lists them"},
        {"--partition|dirichlet alpha=0.1|--alpha|0.3",
         "--alpha: --partition \"dirichlet alpha=0.1\" says it, too; leave one of the two out"},
        {"--partition|shards per-client=0", "--partition shards: per-client=0: needs a whole number from 1 to 1000000"},
        {"--partition|iid|--alpha|0.5",
         "--alpha 0.5: only used with --partition dirichlet; add that or leave --alpha out"},
        {"--partition|dirichlet:0.1", "--partition dirichlet: :0.1 is no part of it; write dirichlet [alpha=0.5,...] "
                                      "[form=topped|plain|balanced|niid-bench] [minimum=10]"},
        {"--algorithm|fedavg update=atomic",
         "--algorithm: part 1 (\"fedavg update=atomic\"): fedavg has no number \"update\"; it has none of its own"},
        {"--algorithm|ssgd data=shard",
         "--algorithm: part 1 (\"ssgd data=shard\"): ssgd has no number \"data\"; it has batch"},
        {"--client-optimizer-state|keep|--algorithm|scaffold",
         "--client-optimizer-state keep does not go with local scaffold of --algorithm: a client keeps one of the two"},
        {"--client-optimizer-state|keep|--algorithm|fednova",
         "--client-optimizer-state keep does not go with combine nova of --algorithm: the length of a training is "
         "known only "
         "where the optimizer starts anew"},
        {"--client-optimizer-state|keep|--algorithm|fedper",
         "--client-optimizer-state keep does not go with personal head of --algorithm: a client keeps one of the two"},
        {"--algorithm|hogwild|--partition|iid", "--partition iid: only used with clients that have samples of their "
                                                "own (hogwild with data=shard, ssgd without "
                                                "batch=global); add that or leave --partition out"},
        {"--algorithm|hogwild|--workers|4|--clients|8",
         "--clients 8: with --algorithm hogwild every client is a worker, and --workers is 4; make them equal or leave "
         "one out"},
        {"--algorithm|hogwild|--clients|300",
         "--clients 300: with --algorithm hogwild every client is a worker; give at most 256"},
        {"--algorithm|hogwild|--workers|4|--clients-per-round|2",
         "--clients-per-round 2: with --algorithm hogwild all 4 clients train in every round; leave it out"},
        {"--algorithm|ssgd|--workers|4|--clients|2",
         "--clients 2: with --algorithm ssgd every worker needs a client, and --workers is 4; raise --clients or lower "
         "--workers"},
        {"--algorithm|ssgd|--clients|8|--clients-per-round|4",
         "--clients-per-round 4: with --algorithm ssgd all 8 clients train in every round; leave it out"},
        {"--device|cpu|--gpu|1", "--gpu 1: only used with --device cuda; add that or leave --gpu out"},
        {"--device|cpu|--tf32", "--tf32 true: only used with --device cuda; add that or leave --tf32 out"},
        {"--algorithm|hogwild|--models-per-launch|8",
         "--models-per-launch 8: only used with --device cuda and another --algorithm than hogwild; add that or leave "
         "--models-per-launch out"},
        {"--resume|runs/a|--out|runs/b",
         "--out runs/b: --resume runs/a goes on in its own folder; leave one of the two out"},
    };
    check_refusals(refusals, sizeof refusals / sizeof *refusals, STATUS_USAGE);
}

#define NO_MOMENTUM                                                                                                    \
    "only used with optimizer sgd in --algorithm, without personal moreau or a single step from a fresh start; add "   \
    "that or leave --momentum out"

static void what_has_no_effect_without_momentum_is_refused_and_a_momentum_without_effect(void **state) {
    (void)state;
    static const Refusal refusals[] = {
        {"--algorithm|asgd|--momentum|0.9", "--momentum 0.9: " NO_MOMENTUM},
        {"--algorithm|dc-asgd|--momentum|0.1", "--momentum 0.1: " NO_MOMENTUM},
        {"--algorithm|local-sgd steps=1|--client-optimizer-state|fresh|--momentum|0.5", "--momentum 0.5: " NO_MOMENTUM},
        {"--algorithm|eamsgd", "--algorithm: optimizer sgd nesterov=yes has no effect without momentum; add --momentum "
                               "0.9 or write nesterov=no"},
        {"--client-optimizer-state|keep", "--client-optimizer-state keep has no effect without momentum; add "
                                          "--momentum 0.9 or leave --client-optimizer-state out"},
        {"--client-optimizer-state|average|--momentum|0",
         "--client-optimizer-state average has no effect without momentum; add --momentum 0.9 or leave "
         "--client-optimizer-state out"},
    };
    check_refusals(refusals, sizeof refusals / sizeof *refusals, STATUS_USAGE);
}

static void a_momentum_is_taken_wherever_a_step_follows_another(void **state) {
    (void)state;
    static const char *const lines[] = {
        "--algorithm|downpour|--momentum|0.9", "--algorithm|local-sgd steps=1|--momentum|0.9",
        "--algorithm|async-eamsgd steps=1|--momentum|0.9", "--algorithm|hogwild|--momentum|0.9",
        "--client-optimizer-state|keep|--algorithm|optimizer adam"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        Options options;
        Error err;
        check_ok(parse_and_resolve(&options, lines[i], &err));
    }
}

// So a script or a sweep can give one list of options to all algorithms.
static void defaults_that_ask_for_nothing_are_taken_by_every_algorithm_and_count_as_not_given(void **state) {
    (void)state;
    static const char *const algorithms[] = {"fedavg", "ssgd", "hogwild", "asgd", "pfedme", "local-sgd steps=1"};
    int left_out = 0;
    for (int i = 0; i < option_count; i++)
        for (size_t a = 0; option_table[i].neutral && a < sizeof algorithms / sizeof *algorithms; a++) {
            const Option *option = &option_table[i];
            Options options;
            Error err;
            char line[256];
            snprintf(line, sizeof line, "--algorithm|%s|--device|cpu|--%s=%s", algorithms[a], option->name,
                     option->preset ? option->preset : option->derived);
            if (parse_and_resolve(&options, line, &err) != STATUS_OK) fail_msg("%s: %s", line, err.message);
            assert_true(options.given[i] == option_applies(&options, option));
            left_out += !options.given[i];
        }
    assert_true(left_out > 60);
}

static void workers_and_clients_follow_from_each_other(void **state) {
    (void)state;
    Options options;
    Error err;
    check_ok(parse_and_resolve(&options, "--workers|3", &err));
    assert_int_equal(options.clients, 3);
    assert_int_equal(options.clients_per_round, 3);
    check_ok(parse_and_resolve(&options, "--workers|8|--clients|2", &err)); // idle workers are allowed
    assert_int_equal(options.workers, 8);
    check_ok(parse_and_resolve(&options, "--clients|1000|--workers|2|--clients-per-round|100", &err));
    assert_int_equal(options.clients_per_round, 100);
    check_ok(parse_and_resolve(&options, "--algorithm|hogwild|--clients|7", &err));
    assert_int_equal(options.workers, 7);
    check_ok(parse_and_resolve(&options, "--algorithm|hogwild data=shard|--workers|3|--partition|iid", &err));
    assert_int_equal(options.clients, 3);
    check_ok(parse_and_resolve(&options, "--algorithm|ssgd|--clients|1|--local-epochs|2|--partition|iid", &err));
    assert_int_equal(options.workers, 1);
    check_ok(parse_and_resolve(&options, "--algorithm|ssgd|--clients|9|--workers|2", &err));
    assert_int_equal(options.clients_per_round, 9);
    check_ok(parse_and_resolve(&options, "--quiet|--log-level|debug|--device|cpu", &err));
}

static void the_number_of_a_partition_alone_asks_for_that_partition(void **state) {
    (void)state;
    Options options;
    Error err;
    check_ok(parse_and_resolve(&options, "--alpha|0.1", &err));
    assert_string_equal(options.partition, "dirichlet");
    assert_true(options.alpha == 0.1);
}

static void a_line_end_ends_a_part_of_a_net_or_an_algorithm(void **state) {
    (void)state;
    static const char *const nets[] = {"conv 16 3; relu; linear 10", "conv 16 3\nrelu\nlinear 10",
                                       "\n  conv 16 3;\r\n\trelu;\n\n  linear 10\n", "conv 16 3;\n\n relu;\nlinear 10"};
    for (size_t i = 0; i < sizeof nets / sizeof *nets; i++) {
        Options options;
        Error err;
        char line[LINE_BYTES];
        snprintf(line, sizeof line, "--model|%s|--algorithm|local prox mu=1\nserver adam", nets[i]);
        check_ok(parse_and_resolve(&options, line, &err));
        assert_string_equal(options.model, nets[0]);
        assert_string_equal(options.algorithm, "local prox mu=1; server adam");
    }
    Options options;
    Error err;
    assert_int_equal(parse_and_resolve(&options, "--out|a\nb", &err), STATUS_USAGE); // a path has no line end
}

static Status resume(Options *options, const char *saved_line, const char *line, Error *err) {
    Options saved;
    TRY(parse_and_resolve(&saved, saved_line, err));
    TRY(parse(options, line, err));
    TRY(options_resume(options, &saved, err));
    return options_resolve(options, err);
}

static void resume_keeps_what_decides_the_bits_and_lets_the_rest_change(void **state) {
    (void)state;
    Options options;
    Error err;
    const char *saved = "--clients|8|--workers|4|--lr|0.2|--rounds|5|--partition|dirichlet|--alpha|0.3|--out|runs/a";
    check_ok(resume(&options, saved, "--resume|moved/b|--workers|2|--rounds|9|--quiet|--hang-seconds|7", &err));
    assert_int_equal(options.clients, 8);
    assert_int_equal(options.workers, 2);
    assert_int_equal(options.rounds, 9);
    assert_true(options.training.sgd.lr == 0.2f && options.alpha == 0.3 && options.hang_seconds == 7);
    assert_true(options.quiet);
    assert_string_equal(options.out, "moved/b");
    assert_string_equal(options.resume, "moved/b");

    check_ok(resume(&options, saved, "--resume|moved/b", &err));
    assert_int_equal(options.workers, 4);
    assert_int_equal(options.rounds, 5);
    check_ok(resume(&options, saved, "--resume|moved/b|--lr|0.2|--clients|8", &err)); // the same again is fine
}

static void resume_refuses_what_would_be_another_run(void **state) {
    (void)state;
    static const Refusal refusals[] = {
        {"--resume|b|--lr|0.1",
         "--lr 0.1: the run in b has 0.2, and another value would be another run; leave --lr out"},
        {"--resume|b|--seed|2",
         "--seed 2: the run in b has 1, and another value would be another run; leave --seed out"},
        {"--resume|b|--model|cnn",
         "--model cnn: the run in b has lenet, and another value would be another run; leave --model out"},
        {"--resume|b|--clients|4",
         "--clients 4: the run in b has 8, and another value would be another run; leave --clients out"},
        {"--resume|b|--model|conv 3 3; pool 2; relu; conv 3 3; pool 2; relu; linear 100; relu; linear 10",
         "--model \"conv 3 3; pool 2; relu; conv 3 3; pool 2; relu; linear 100; ...\": the run in b has lenet, and "
         "another "
         "value would be another run; leave --model out"},
        {"--resume|b|--out|c", "--out c: --resume b goes on in its own folder; leave one of the two out"},
    };
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        Options options;
        Error err = {.message = "(accepted)"};
        Status status = resume(&options, "--clients|8|--workers|4|--lr|0.2|--out|runs/a", refusals[i].line, &err);
        assert_string_equal(err.message, refusals[i].sentence);
        assert_int_equal(status, STATUS_USAGE);
    }
    Options options;
    Error err;
    Status status = resume(&options, "--algorithm|hogwild|--workers|4", "--resume|b|--workers|2", &err);
    assert_int_equal(status, STATUS_USAGE); // in hogwild the workers are the clients
}

static void eval_takes_one_model_and_its_own_options(void **state) {
    (void)state;
    Options options;
    Error err;
    const char *model = NULL;
    options_defaults(&options);
    check_ok(options_parse_eval(&options, &model, 3, (char *[]){"--data", "mnist", "m.safetensors"}, &err));
    assert_string_equal(model, "m.safetensors");
    assert_string_equal(options.data, "mnist");
    assert_int_equal(options_parse_eval(&options, &model, 0, NULL, &err), STATUS_USAGE);
    assert_string_equal(err.message, "sounder eval: needs a model; write sounder eval MODEL.safetensors --data NAME");
    assert_int_equal(options_parse_eval(&options, &model, 3, (char *[]){"m", "--rounds", "3"}, &err), STATUS_USAGE);
    assert_string_equal(err.message, "--rounds: no option of `sounder eval`; `sounder help eval` lists them");
    assert_int_equal(options_parse_eval(&options, &model, 3, (char *[]){"m", "--format", "json"}, &err), STATUS_USAGE);
    assert_string_equal(err.message, "--format: of sounder runs, not of sounder eval; write --json");
    assert_int_equal(options_parse_eval(&options, &model, 2, (char *[]){"m", "--xyzzy"}, &err), STATUS_USAGE);
    assert_string_equal(err.message, "--xyzzy: unknown option; `sounder help eval` lists them");
    assert_int_equal(options_parse_eval(&options, &model, 2, (char *[]){"m", "n"}, &err), STATUS_USAGE);
    assert_string_equal(err.message, "n: a second model, after m; give one");
    check_ok(options_parse_eval(&options, &model, 3, (char *[]){"m", "--device=cuda", "--gpu=1"}, &err));
    assert_int_equal(options.gpu, 1);
    options_defaults(&options);
    assert_int_equal(options_parse_eval(&options, &model, 3, (char *[]){"m", "--device=cpu", "--tf32"}, &err),
                     STATUS_USAGE);
    assert_string_equal(err.message, "--tf32 true: only used with --device cuda; add that or leave --tf32 out");
}

static void a_suggestion_is_at_most_two_edits_or_a_beginning_away(void **state) {
    (void)state;
    static const struct {
        const char *typed, *word;
        bool close;
    } pairs[] = {
        {"rounds", "rounds", true},
        {"ruonds", "rounds", true},
        {"rouns", "rounds", true},
        {"roundsss", "rounds", true},
        {"roundssss", "rounds", false},
        {"xounxs", "rounds", true},
        {"xoxnxs", "rounds", false},
        {"lr", "lx", true},
        {"xy", "lr", false},
        {"b", "batch-size", false},
        {"ba", "batch-size", true},
        {"", "lr", false},
        {"FedAvg", "fedavg", true},
        {"FashionMNIST", "fashion-mnist", true},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        Suggestion suggestion = {.typed = pairs[i].typed};
        suggestion_consider(&suggestion, pairs[i].word);
        if ((suggestion.best != NULL) != pairs[i].close) fail_msg("%s, %s", pairs[i].typed, pairs[i].word);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_the_seed_job),
        cmocka_unit_test(options_are_taken_in_both_spellings),
        cmocka_unit_test(names_may_have_underscores),
        cmocka_unit_test(a_value_that_does_not_fit_is_refused_by_name),
        cmocka_unit_test(an_unknown_option_names_what_was_probably_meant),
        cmocka_unit_test(what_robust_rules_codes_and_releases_do_not_go_with_is_refused),
        cmocka_unit_test(an_attack_without_attackers_and_what_it_does_not_go_with_is_refused),
        cmocka_unit_test(parts_of_a_form_are_checked),
        cmocka_unit_test(options_that_contradict_each_other_are_refused),
        cmocka_unit_test(defaults_that_ask_for_nothing_are_taken_by_every_algorithm_and_count_as_not_given),
        cmocka_unit_test(what_has_no_effect_without_momentum_is_refused_and_a_momentum_without_effect),
        cmocka_unit_test(a_momentum_is_taken_wherever_a_step_follows_another),
        cmocka_unit_test(workers_and_clients_follow_from_each_other),
        cmocka_unit_test(the_number_of_a_partition_alone_asks_for_that_partition),
        cmocka_unit_test(a_line_end_ends_a_part_of_a_net_or_an_algorithm),
        cmocka_unit_test(resume_keeps_what_decides_the_bits_and_lets_the_rest_change),
        cmocka_unit_test(resume_refuses_what_would_be_another_run),
        cmocka_unit_test(eval_takes_one_model_and_its_own_options),
        cmocka_unit_test(a_suggestion_is_at_most_two_edits_or_a_beginning_away),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}

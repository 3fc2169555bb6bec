// All pairs of algorithms, rules and options: which go together, and which are refused. clashes.txt is the record: a
// line for each first of a pair, a column for each second; '.' is taken, 'x' refused. A new algorithm may have no line.
//
//   test_clashes FILE      compares with FILE; where it differs, writes what was found to ./clashes.found
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/options/options.h"
#include "tests/check.h"
#include "tests/scratch.h"

// What stands beside an algorithm: a rule of a part, options, or both.
typedef struct Side {
    const char *part, *options;
} Side;

static const Side sides[] = {
    {"local prox", ""},
    {"local scaffold; server scaffold", ""},
    {"local scaffold option=I; server scaffold", ""},
    {"local dyn; server dyn", ""},
    {"local elastic; server elastic", ""},
    {"local elastic", ""},
    {"optimizer sgd nesterov=yes", "--momentum|0.5"},
    {"optimizer adam", ""},
    {"personal head", ""},
    {"personal norms", ""},
    {"personal ditto", ""},
    {"personal moreau", ""},
    {"send clip", ""},
    {"send adaptive-clip", ""},
    {"send noise", ""},
    {"send clip; send noise", ""},
    {"send top-k", ""},
    {"send top-k feedback=no", ""},
    {"send threshold", ""},
    {"send qsgd", ""},
    {"send sign", ""},
    {"send scaled-sign feedback=no", ""},
    {"send masked", ""},
    {"mix buckets", ""},
    {"mix nearest", ""},
    {"combine mean uniform", ""},
    {"combine nova", ""},
    {"combine qffl", ""},
    {"combine median", ""},
    {"combine geometric weights=uniform", ""},
    {"combine krum", ""},
    {"combine centered", ""},
    {"combine bound 1", ""},
    {"combine dga", ""},
    {"combine afl", ""},
    {"combine fltrust", ""},
    {"send clip; combine mean uniform; release gaussian", ""},
    {"release gaussian", ""},
    {"send clip; combine mean uniform; release tree", "--sampling|cyclic"},
    {"release tree", ""},
    {"server momentum", ""},
    {"send sign; combine mean uniform; server vote", ""},
    {"server vote", ""},
    {"server rounds-mean", ""},
    {"server scaffold", ""},
    {"schedule rounds steps=3", ""},
    {"schedule rounds steps=4 fragments=2 delay=1", ""},
    {"schedule wild", ""},
    {"schedule wild steps=2 bound=1", ""},
    {"schedule lockstep", ""},
    {"schedule buffered", ""},
    {"schedule buffered K=1 steps=1", ""},
    {"schedule buffered K=1 mixes=models", ""},
    {"schedule buffered dispatch=publish", ""},
    {"schedule buffered bound=2", ""},
    {"schedule buffered lag=1", ""},
    {"schedule buffered twice=no", ""},
    {"combine mean uniform; schedule buffered", "--clock|real"},
    {"schedule buffered", "--clock|real"},
    {"schedule buffered K=1 steps=1", "--clock|real"},
    {"stale poly", ""},
    {"stale compensate", ""},
    {"", "--client-optimizer-state|keep|--momentum|0.5"},
    {"optimizer adam", "--client-optimizer-state|keep"},
    {"", "--client-optimizer-state|average|--momentum|0.5"},
    {"", "--attack|label-flip|--attackers|0.2"},
    {"", "--attack|sign-flip|--attackers|0.2"},
    {"", "--attack|scaled|--attackers|0.2"},
    {"", "--attack|scaled factor=2|--attackers|0.2"},
    {"", "--attack|alie|--attackers|0.2"},
    {"", "--attack|backdoor 3|--attackers|0.2"},
    {"", "--attack|backdoor 3 factor=4|--attackers|0.2"},
    {"", "--clients-per-round|12"},
    {"", "--sampling|poisson"},
    {"", "--sampling|by-size"},
    {"", "--sampling|cyclic"},
    {"", "--sampling|power-of-choice"},
    {"", "--over-selection|1.5|--clients-per-round|12"},
    {"", "--drop-out|0.1"},
    {"", "--failures|mtbf=3"},
    {"", "--stragglers|0.5"},
    {"", "--stragglers|0.5 work=partial|--local-epochs|2"},
    {"", "--deadline|3"},
    {"", "--up-bandwidth|1000"},
    {"", "--down-bandwidth|1000"},
    {"", "--client-time|lognormal"},
    {"", "--clock|real"},
    {"", "--lr-schedule|cosine"},
    {"", "--warm-up|1"},
    {"", "--client-noise|gaussian"},
    {"", "--drift|classes"},
    {"", "--drift|labels"},
    {"", "--drift|pixels"},
    {"", "--weight-decay|0.1"},
    {"", "--clip-grad-norm|1"},
    {"", "--freeze|conv*"},
    {"", "--random-crop|2"},
    {"", "--random-flip"},
    {"", "--label-smoothing|0.1"},
    {"", "--class-weights|balanced"},
    {"", "--loss|bce"},
    {"schedule lockstep batch=global", ""},
    {"", "--partition|iid"},
    {"", "--eval-clients-every|1"},
    {"", "--without|3,7"},
    {"", "--new-clients|0.2"},
    {"", "--client-weights|1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16"},
};

enum { SIDES = sizeof sides / sizeof *sides, MAX_ARGUMENTS = 40, LINE_BYTES = 1024, FIRST_BYTES = 64 };

// Words between '|'.
static int split(char **arguments, char *line) {
    int count = 0;
    for (char *rest = line; rest && *rest;)
        arguments[count++] = strsep(&rest, "|");
    return count;
}

// Whether one of the options stands in both: a line has it only once.
static bool share_option(const char *a, const char *b) {
    char first[LINE_BYTES], *words[MAX_ARGUMENTS];
    snprintf(first, sizeof first, "%s", a);
    for (int count = split(words, first), i = 0; i < count; i++)
        if (strncmp(words[i], "--", 2) == 0 && strstr(b, words[i])) return true;
    return false;
}

static bool are_taken(const Side *first, const Side *second) {
    char line[LINE_BYTES], *arguments[MAX_ARGUMENTS];
    const char *more = share_option(second->options, first->options) ? "" : second->options;
    snprintf(line, sizeof line, "--algorithm|%s%s%s|--workers|16|--clients|16|--data|synthetic:1x8x8:200:50%s%s%s%s",
             *first->part || *second->part ? first->part : "fedavg", *first->part && *second->part ? "; " : "",
             second->part, *first->options ? "|" : "", first->options, *more ? "|" : "", more);
    Options options;
    Error err;
    const int count = split(arguments, line);
    options_defaults(&options);
    return options_parse(&options, count, arguments, &err) == STATUS_OK && options_resolve(&options, &err) == STATUS_OK;
}

static void add_line(FILE *found, const Side *first) {
    for (int i = 0; i < SIDES; i++)
        fputc(are_taken(first, &sides[i]) ? '.' : 'x', found);
    fprintf(found, " %s%s%s\n", first->part, *first->part && *first->options ? " " : "", first->options);
}

static const char *record;

static void pairs_are_taken_and_refused_as_in_the_record(void **state) {
    (void)state;
    char *found = NULL;
    size_t bytes = 0, recorded_bytes;
    FILE *file = open_memstream(&found, &bytes);
    assert_non_null(file);
    for (size_t i = 0; i < zoo_algorithm_count; i++)
        add_line(file, &(Side){zoo_algorithms[i].name, ""});
    for (int i = 0; i < SIDES; i++)
        add_line(file, &sides[i]);
    assert_int_equal(fclose(file), 0);
    char *recorded = scratch_read(record, &recorded_bytes);
    for (char *rest = recorded, *line; (line = strsep(&rest, "\n")) && *line;) {
        char whole[LINE_BYTES];
        snprintf(whole, sizeof whole, "%s\n", line);
        if (strstr(found, whole)) continue;
        scratch_write("clashes.found", found, bytes);
        fail_msg("other pairs are refused than %s says: diff it with ./clashes.found, or take that", record);
    }
    free(recorded);
    free(found);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(pairs_are_taken_and_refused_as_in_the_record)};
    assert_true(argc > 1);
    log_init(LOG_ERROR, 0);
    record = argv[1];
    return run_cases(argc - 1, argv + 1, tests, NULL, NULL);
}

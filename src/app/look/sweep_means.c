#include "sweep_means.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/look/against.h"
#include "app/look/paired_test.h"
#include "app/look/runs.h"
#include "base/log.h"
#include "base/text.h"

static bool is_varied(const SweepAxis *axis) {
    return axis->count > 1 && !axis->repeats;
}

static bool has_value(const SweepAxis *axis, const char *typed) {
    char same[OPTION_VALUE_BYTES], value[OPTION_VALUE_BYTES];
    against_value(same, axis->option, typed);
    for (size_t i = 0; i < axis->count; i++) {
        against_value(value, axis->option, axis->values[i]);
        if (strcmp(value, same) == 0) return true;
    }
    return false;
}

Status sweep_means_check(const SweepPlan *plan, const LookOptions *options, Error *err) {
    const char *typed = options->against;
    const Option *found = NULL;
    char shown[OPTION_SHOWN_BYTES];
    option_printable(shown, typed);
    if (!*typed) return STATUS_OK;
    if (plan->search == SWEEP_HALVING)
        return fail(
            err, STATUS_USAGE,
            "--against: does not go with --search halving, which stops most runs early; leave one of the two out");
    for (size_t i = 0; i < plan->axis_count; i++) {
        const SweepAxis *axis = &plan->axes[i];
        const char *value = against_value_of(axis->option, typed);
        if (!is_varied(axis) || !value || !has_value(axis, value)) continue;
        if (found) return against_refuse_two(found, axis->option, typed, err);
        found = axis->option;
    }
    if (found) return STATUS_OK;
    return fail(
        err, STATUS_USAGE,
        "--against %s: is no value of an option with several values; give one, such as the first --algorithm of "
        "two",
        shown);
}

// A run whose best test is among its last has not converged: with more rounds a slower algorithm may win.
static void say_if_unfinished(const PastRuns *runs) {
    size_t rising = 0;
    for (size_t i = 0; i < runs->count; i++)
        rising += runs->all[i].rounds >= 5 && runs->all[i].best_round > runs->all[i].rounds - runs->all[i].rounds / 5;
    if (2 * rising > runs->count)
        printf("%zu of %zu runs were best in the last fifth of their rounds: more --rounds may change the order\n",
               rising, runs->count);
}

// All options with several values, except the seed and others that repeat an experiment.
static void name_varied(char by[OPTION_TEXT_BYTES], const SweepPlan *plan) {
    size_t length = 0;
    by[0] = '\0';
    for (size_t i = 0; i < plan->axis_count && length < OPTION_TEXT_BYTES; i++)
        if (is_varied(&plan->axes[i]))
            length += (size_t)snprintf(by + length, OPTION_TEXT_BYTES - length, "%s%s", length ? "," : "",
                                       plan->axes[i].option->name);
    if (!*by) snprintf(by, OPTION_TEXT_BYTES, "algorithm");
}

// The runs are done: a table that cannot be made is told, and is no failure.
static Status print_tables(PastRuns *runs, const char *by, const LookOptions *options, Error *err) {
    Status status = runs_print_means(runs, by, options->show, TABLE_TEXT, err);
    if (status == STATUS_USAGE && options->show[0]) {
        log_warning("%s", err->message);
        status = runs_print_means(runs, by, "", TABLE_TEXT, err);
    }
    if (status != STATUS_OK || !options->against[0]) return status;
    status = against_print(runs, &(Against){options->against, "", "", options->over}, TABLE_TEXT, err);
    if (status == STATUS_USAGE) log_warning("%s", err->message);
    return status == STATUS_USAGE ? STATUS_OK : status;
}

// Algorithms with enough seeds can be compared, which the means do not do.
static void say_commands(const SweepPlan *plan, const LookOptions *options, const char *by) {
    char word[SHELL_WORD_BYTES], value[SHELL_WORD_BYTES];
    const char *first = NULL;
    size_t pairs = 1;
    for (size_t i = 0; i < plan->axis_count; i++) {
        const SweepAxis *axis = &plan->axes[i];
        if (axis->repeats) pairs *= axis->count;
        if (strcmp(axis->option->name, "algorithm") == 0 && is_varied(axis)) first = axis->values[0];
    }
    shell_path(word, options->out);
    printf("look: sounder report %s    sounder runs %s --by %s", word, word, by);
    if (first && pairs >= PAIRED_TEST_LEAST && !options->against[0] && plan->search == SWEEP_GRID)
        printf("    sounder runs %s --against %s%s%s", word, shell_word(value, first), *options->over ? " --over " : "",
               options->over);
    putchar('\n');
}

static Status find_runs(PastRuns *runs, const SweepPlan *plan, const Job *jobs, Error *err) {
    char **folders = calloc(plan->count, sizeof *folders);
    int count = 0;
    if (!folders) return fail(err, STATUS_OS, "no memory for %zu runs", plan->count);
    for (size_t i = 0; i < plan->count; i++)
        if (sweep_job_has_begun(&jobs[i])) folders[count++] = (char *)jobs[i].folder;
    const Status status = past_runs_find(runs, folders, count, err);
    free(folders);
    return status;
}

Status sweep_means_print(const SweepPlan *plan, const Job *jobs, const LookOptions *options, Error *err) {
    char by[OPTION_TEXT_BYTES];
    PastRuns runs;
    name_varied(by, plan);
    TRY(find_runs(&runs, plan, jobs, err));
    Status status = print_tables(&runs, by, options, err);
    if (status == STATUS_OK) say_if_unfinished(&runs);
    past_runs_free(&runs);
    if (status == STATUS_OK) say_commands(plan, options, by);
    return status;
}

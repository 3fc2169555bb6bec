#include "against_question.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/look/replicates.h"
#include "base/text_stream.h"

// The number of rounds may change when a run is resumed; yet runs of other rounds are no pair.
static bool tells_apart(const Option *option, const ByOptions *over) {
    if (option->unsaved || by_options_have(over, option)) return false;
    return !option->may_change || strcmp(option->name, "rounds") == 0;
}

void against_value(char value[OPTION_VALUE_BYTES], const Option *option, const char *typed) {
    Options scratch;
    Error ignored;
    options_defaults(&scratch);
    snprintf(value, OPTION_VALUE_BYTES, "%s", typed);
    if (option_set(&scratch, option, typed, "--", &ignored) == STATUS_OK) option_format(value, &scratch, option);
}

const char *against_value_of(const Option *option, const char *typed) {
    char name[64];
    const char *equals = strchr(typed, '=');
    snprintf(name, sizeof name, "%.*s", equals ? (int)(equals - typed) : 0, typed);
    const Option *named = *name ? option_find(name) : NULL;
    if (named && named != option) return NULL;
    return named ? equals + 1 : typed;
}

Status against_refuse_two(const Option *first, const Option *second, const char *typed, Error *err) {
    char shown[OPTION_SHOWN_BYTES];
    option_printable(shown, typed);
    return fail(err, STATUS_USAGE, "--against %s: is a value of %s and of %s; write --against %s=%s", shown,
                first->name, second->name, first->name, shown);
}

// Finds the value as runs write it. false: no run has it.
static bool find_value(char found[OPTION_VALUE_BYTES], const Option *option, const char *typed, const PastRuns *runs) {
    char same[OPTION_VALUE_BYTES];
    against_value(same, option, typed);
    for (size_t i = 0; i < runs->count; i++) {
        past_run_option(found, &runs->all[i], option);
        if (*found && strcmp(found, same) == 0) return true;
    }
    return false;
}

// Appends "algorithm (fedavg, scaffold)", the first values in the order of the runs.
static void print_values(FILE *file, const Option *option, const PastRuns *runs) {
    enum { MOST = 6 };
    char values[MOST][OPTION_VALUE_BYTES], value[OPTION_VALUE_BYTES], shown[OPTION_SHOWN_BYTES];
    int count = 0;
    fprintf(file, "%s (", option->name);
    for (size_t i = 0; i < runs->count && count <= MOST; i++) {
        bool known = false;
        past_run_option(value, &runs->all[i], option);
        for (int k = 0; k < count; k++)
            known |= strcmp(values[k], value) == 0;
        if (known || !*value) continue;
        if (count == MOST) {
            fputs(", ...", file);
            break;
        }
        option_printable(shown, value);
        fprintf(file, "%s%s", count ? ", " : "", shown);
        memcpy(values[count++], value, sizeof value);
    }
    fputc(')', file);
}

static Status refuse_value(const PastRuns *runs, const char *typed, const ByOptions *over, Error *err) {
    TextStream stream;
    const char *separator = "";
    char shown[OPTION_SHOWN_BYTES];
    FILE *file = text_open(&stream);
    for (int i = 0; i < option_count && file; i++) {
        if (!tells_apart(&option_table[i], over) || !past_runs_differ(runs->all, runs->count, &option_table[i]))
            continue;
        fputs(separator, file);
        print_values(file, &option_table[i], runs);
        separator = ", ";
    }
    if (!text_close(&stream)) return fail(err, STATUS_OS, "no memory for the values of the runs");
    option_printable(shown, typed);
    const Status status =
        stream.text[0] ? fail(err, STATUS_USAGE, "--against %s: no run has this value; the runs differ in %.700s",
                              shown, stream.text)
                       : fail(err, STATUS_USAGE,
                              "--against %s: the runs do not differ, except in their seeds; give the folders of runs "
                              "with several values of an option, such as two algorithms",
                              shown);
    free(stream.text);
    return status;
}

static Status find_option(Question *question, const PastRuns *runs, const char *typed, Error *err) {
    char value[OPTION_VALUE_BYTES];
    question->option = NULL;
    for (int i = 0; i < option_count; i++) {
        const Option *option = &option_table[i];
        const char *of = tells_apart(option, &question->over) ? against_value_of(option, typed) : NULL;
        if (!of || !past_runs_differ(runs->all, runs->count, option) || !find_value(value, option, of, runs)) continue;
        if (question->option) return against_refuse_two(question->option, option, typed, err);
        question->option = option;
        memcpy(question->value, value, sizeof value);
    }
    return question->option ? STATUS_OK : refuse_value(runs, typed, &question->over, err);
}

// The option is the last one, so that groups which are compared are side by side.
static Status find_groups(Question *question, const PastRuns *runs, const char *names, Error *err) {
    ByOptions named = {0};
    if (*names) TRY(by_options_read(&named, "--by", names, err));
    for (int i = 0; i < option_count && !*names; i++)
        if (tells_apart(&option_table[i], &question->over) &&
            past_runs_differ(runs->all, runs->count, &option_table[i]))
            by_options_add(&named, &option_table[i]);
    by_options_add_inputs(&named, runs->all, runs->count);
    question->others = (ByOptions){0};
    for (int i = 0; i < named.count; i++)
        if (named.all[i] != question->option) by_options_add(&question->others, named.all[i]);
    question->by = question->others;
    by_options_add(&question->by, question->option);
    return STATUS_OK;
}

static Status find_named(Question *question, const PastRuns *runs, const char *name, Error *err) {
    Table table = {0};
    RunColumns columns;
    Status status = run_columns_add(&columns, &table, runs, name, err);
    if (status == STATUS_OK && columns.count > 1)
        status = fail(err, STATUS_USAGE, "--show %.200s: --against compares one figure; name one", name);
    if (status == STATUS_OK && !table.no_memory) {
        question->column = columns.all[0];
        question->decimals = table.columns[0].decimals;
        memcpy(question->title, table.columns[0].title, sizeof question->title);
    }
    if (status == STATUS_OK && table.no_memory) status = fail(err, STATUS_OS, "no memory for the comparison");
    table_free(&table);
    return status;
}

// With a validation set the last test is the one on the test set.
static Status find_figure(Question *question, const PastRuns *runs, const char *name, Error *err) {
    question->is_named = *name;
    if (*name) return find_named(question, runs, name, err);
    char names[2][RUN_FIGURE_NAME_BYTES];
    for (size_t i = 1; i < runs->count; i++)
        if (!run_figure_same(&runs->all[i].figure, &runs->all[0].figure))
            return fail(
                err, STATUS_USAGE,
                "--against: %.300s is about its %s and %.300s about its %s; name what to compare, such as --show "
                "accuracy_percent",
                runs->all[0].path, run_figure_name(names[0], &runs->all[0].figure), runs->all[i].path,
                run_figure_name(names[1], &runs->all[i].figure));
    question->figure = runs->all[0].figure;
    if (question->figure.validates) question->figure = run_figure_on_test(&question->figure);
    const bool is_share = run_figure_has(&question->figure, FIGURE_IS_SHARE);
    question->decimals = is_share ? 2 : 4;
    snprintf(question->title, sizeof question->title, "%s%s", run_figure_name(names[0], &question->figure),
             is_share ? " %" : "");
    disarm_text(question->title); // a record names a metric
    return STATUS_OK;
}

Status against_question_read(Question *question, const PastRuns *runs, const Against *asked, Error *err) {
    TRY(replicates_read(&question->over, asked->over, runs, err));
    TRY(find_option(question, runs, asked->value, err));
    TRY(find_groups(question, runs, asked->by, err));
    return find_figure(question, runs, asked->show, err);
}

double against_question_value(const PastRun *run, const Question *question) {
    const bool is_share = run_figure_has(&question->figure, FIGURE_IS_SHARE);
    if (question->is_named) return run_column_value(&question->column, run);
    return (is_share ? 100 : 1) * run_figure_in(run->values, &question->figure);
}

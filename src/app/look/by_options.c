#include "by_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool by_options_have(const ByOptions *by, const Option *option) {
    for (int i = 0; i < by->count; i++)
        if (by->all[i] == option) return true;
    return false;
}

void by_options_add(ByOptions *by, const Option *option) {
    if (!by_options_have(by, option)) by->all[by->count++] = option;
}

Status by_options_read(ByOptions *by, const char *typed, const char *text, Error *err) {
    char names[OPTION_TEXT_BYTES], where[16], *rest;
    *by = (ByOptions){0};
    snprintf(names, sizeof names, "%s", text);
    snprintf(where, sizeof where, "%s ", typed);
    for (char *name = strtok_r(names, ", ", &rest); name; name = strtok_r(NULL, ", ", &rest)) {
        const Option *option = option_find(name);
        for (int i = 0; i < RUN_INPUTS && !option; i++)
            if (option_same_name(run_inputs[i].trait.name, name)) option = &run_inputs[i].trait;
        if (!option) return option_unknown(name, where, err);
        if (option->unsaved || option->not_train)
            return fail(err, STATUS_USAGE,
                        "%s %s: is about one process, no run has a value of it; give one that stands "
                        "in config.yaml, such as alpha",
                        typed, option->name);
        by_options_add(by, option);
    }
    if (by->count > 0) return STATUS_OK;
    return fail(err, STATUS_USAGE, "%s: needs the name of an option, such as alpha", typed);
}

void by_options_add_columns(ByOptions *by, Table *table) {
    by->first_column = table->column_count;
    for (int i = 0; i < by->count; i++)
        if (run_input_of(by->all[i]))
            table_add_column(table, by->all[i]->name, by->all[i]->name, -1); // "123456" is no number
        else
            table_add_values(table, by->all[i]->name);
}

void by_options_add_inputs(ByOptions *by, const PastRun *runs, size_t count) {
    for (int i = 0; i < RUN_INPUTS; i++)
        if (past_runs_differ(runs, count, &run_inputs[i].trait)) by_options_add(by, &run_inputs[i].trait);
}

void by_options_text(char *text, const PastRun *run, const Option *trait) {
    char hash[OPTION_VALUE_BYTES];
    past_run_option(text, run, trait);
    const RunInput *input = run_input_of(trait);
    if (!input || input->is_version || !*text) return;
    strcpy(hash, text);
    const char *last = strchr(hash, ',');
    snprintf(text, OPTION_VALUE_BYTES, "%.6s%.8s", hash, last ? last : "");
}

void by_options_put(Table *table, const ByOptions *by, const PastRun *run) {
    for (int i = 0; i < by->count; i++) {
        char text[OPTION_VALUE_BYTES];
        by_options_text(text, run, by->all[i]);
        if (*text) table_put_text(table, by->first_column + (size_t)i, text);
    }
}

int by_options_compare(const PastRun *a, const PastRun *b, const ByOptions *by) {
    for (int i = 0; i < by->count; i++) {
        char left[OPTION_VALUE_BYTES], right[OPTION_VALUE_BYTES], *left_end, *right_end;
        past_run_option(left, a, by->all[i]);
        past_run_option(right, b, by->all[i]);
        if (strcmp(left, right) == 0) continue;
        const double x = strtod(left, &left_end), y = strtod(right, &right_end);
        const bool numbers = *left && *right && !*left_end && !*right_end;
        if (numbers && x != y) return x < y ? -1 : 1;
        return strcmp(left, right);
    }
    return 0;
}

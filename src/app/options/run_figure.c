#include "run_figure.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char metrics_key[] = "test_metrics";

// clang-format off
#define KEYS(figure)      .key = figure, .best = "best_" figure
#define TEST_KEYS(figure) .key = "test_" figure, .best = "best_" figure

// Figures of single classes, on the test set and on the validation set.
#define OF_CLASSES(figure, name_) \
    {TEST_KEYS(figure), .name = name_, .word = name_ " ", .is_share = true, .of_classes = true, .loss = FIGURE_LOSS}
#define OF_VALIDATION(figure, name_, on_test_) \
    {KEYS("validation_" figure), .name = "validation " name_, .word = "validation " name_ " ", .is_validation = true, \
     .is_share = true, .of_classes = true, .loss = FIGURE_VALIDATION_LOSS, .on_test = on_test_}

const FigureFacts figure_facts[FIGURE_KINDS] = {
    [FIGURE_ACCURACY] = {TEST_KEYS("accuracy"), .name = "accuracy", .word = "", .is_share = true, .loss = FIGURE_LOSS},
    [FIGURE_LOSS] = {TEST_KEYS("loss"), .name = "loss", .word = "loss ", .is_loss = true, .loss = FIGURE_LOSS},
    [FIGURE_PERSONAL_ACCURACY] = {KEYS("personal_accuracy"), .name = "personal accuracy", .word = "personal ",
                                  .is_personal = true, .is_share = true, .loss = FIGURE_PERSONAL_LOSS},
    [FIGURE_PERSONAL_LOSS] = {KEYS("personal_loss"), .name = "personal loss", .word = "personal loss ",
                              .is_personal = true, .is_loss = true, .loss = FIGURE_PERSONAL_LOSS},
    [FIGURE_CLIENT_ACCURACY] = {KEYS("client_accuracy"), .name = "client accuracy", .word = "clients ",
                                .is_clients = true, .is_share = true, .loss = FIGURE_CLIENT_LOSS},
    [FIGURE_CLIENT_LOSS] = {KEYS("client_loss"), .name = "client loss", .word = "client loss ",
                            .is_clients = true, .is_loss = true, .loss = FIGURE_CLIENT_LOSS},
    [FIGURE_VALIDATION_ACCURACY] = {KEYS("validation_accuracy"), .name = "validation accuracy", .word = "validation ",
                                    .is_validation = true, .is_share = true, .loss = FIGURE_VALIDATION_LOSS,
                                    .on_test = FIGURE_ACCURACY},
    [FIGURE_VALIDATION_LOSS] = {KEYS("validation_loss"), .name = "validation loss", .word = "validation loss ",
                                .is_validation = true, .is_loss = true, .loss = FIGURE_VALIDATION_LOSS,
                                .on_test = FIGURE_LOSS},
    [FIGURE_BALANCED_ACCURACY] = OF_CLASSES("balanced_accuracy", "balanced accuracy"),
    [FIGURE_MACRO_F1] = OF_CLASSES("macro_f1", "macro F1"),
    [FIGURE_AUC] = OF_CLASSES("auc", "AUC"),
    [FIGURE_VALIDATION_BALANCED_ACCURACY] =
        OF_VALIDATION("balanced_accuracy", "balanced accuracy", FIGURE_BALANCED_ACCURACY),
    [FIGURE_VALIDATION_MACRO_F1] = OF_VALIDATION("macro_f1", "macro F1", FIGURE_MACRO_F1),
    [FIGURE_VALIDATION_AUC] = OF_VALIDATION("auc", "AUC", FIGURE_AUC),
    [FIGURE_METRIC] = {.key = metrics_key, .name = "metric", .best = "best_metric", .word = "", .loss = FIGURE_LOSS},
};
// clang-format on

bool run_figure_tests_clients(const RunFigure *figure) {
    return figure_facts[figure->kind].is_personal || figure_facts[figure->kind].is_clients;
}

RunFigure run_figure_on_test(const RunFigure *figure) {
    const FigureFacts *facts = &figure_facts[figure->kind];
    if (figure->kind == FIGURE_METRIC) return *figure;
    if (facts->is_validation) return (RunFigure){.kind = facts->on_test};
    return (RunFigure){.kind = facts->is_loss ? FIGURE_LOSS : FIGURE_ACCURACY};
}

bool run_figure_same(const RunFigure *a, const RunFigure *b) {
    return a->kind == b->kind && a->falls == b->falls && strcmp(a->metric, b->metric) == 0;
}

const char *run_figure_name(const RunFigure *figure) {
    return figure->kind == FIGURE_METRIC ? figure->metric : figure_facts[figure->kind].name;
}

bool run_figure_is_better(const RunFigure *figure, double a, double b) {
    if (isnan(a) || isnan(b)) return !isnan(a);
    return figure_facts[figure->kind].is_loss || figure->falls ? a < b : a > b;
}

void run_figure_key(char key[METRIC_NAME_BYTES + 16], const RunFigure *figure) {
    const bool is_metric = figure->kind == FIGURE_METRIC;
    snprintf(key, METRIC_NAME_BYTES + 16, "%s%s%s", figure_facts[figure->kind].key, is_metric ? "." : "",
             figure->metric);
}

RunFigure run_figure_told(const json_t *start) {
    const char *key = json_string_value(json_object_get(start, "figure"));
    const size_t prefix = sizeof metrics_key - 1;
    RunFigure figure = {.kind = FIGURE_ACCURACY};
    for (int kind = 0; kind < FIGURE_METRIC && key; kind++)
        if (strcmp(figure_facts[kind].key, key) == 0) figure.kind = (FigureKind)kind;
    if (!key || strncmp(key, metrics_key, prefix) != 0 || key[prefix] != '.') return figure;
    figure = (RunFigure){.kind = FIGURE_METRIC, .falls = json_is_true(json_object_get(start, "lower_is_better"))};
    snprintf(figure.metric, sizeof figure.metric, "%s", key + prefix + 1);
    return figure;
}

static double number_of(const json_t *line, const char *key) {
    const json_t *value = json_object_get(line, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

double run_figure_in(const json_t *round, const RunFigure *figure) {
    if (figure->kind != FIGURE_METRIC) return number_of(round, figure_facts[figure->kind].key);
    return number_of(json_object_get(round, metrics_key), figure->metric);
}

bool run_figure_settle(RunFigure *figure, const json_t *round) {
    const FigureFacts *facts = &figure_facts[figure->kind];
    if (!facts->is_share || json_object_get(round, facts->key)) return false;
    if (!json_is_number(json_object_get(round, figure_facts[facts->loss].key))) return false;
    *figure = (RunFigure){.kind = facts->loss};
    return true;
}

const char *metric_text(char text[RUN_FIGURE_TEXT_BYTES], double value) {
    const bool is_small = value != 0 && fabs(value) < 0.01;
    snprintf(text, RUN_FIGURE_TEXT_BYTES, is_small ? "%.4g" : "%.4f", value);
    return text;
}

const char *run_figure_number(char text[RUN_FIGURE_TEXT_BYTES], const RunFigure *figure, double value) {
    if (figure->kind == FIGURE_METRIC) return metric_text(text, value);
    const bool is_share = figure_facts[figure->kind].is_share;
    snprintf(text, RUN_FIGURE_TEXT_BYTES, is_share ? "%.2f%%" : "%.4f", is_share ? 100 * value : value);
    return text;
}

const char *run_figure_text(char text[RUN_FIGURE_TEXT_BYTES], const RunFigure *figure, double value) {
    const bool is_metric = figure->kind == FIGURE_METRIC;
    char number[RUN_FIGURE_TEXT_BYTES];
    run_figure_number(number, figure, value);
    snprintf(text, RUN_FIGURE_TEXT_BYTES, "%s%s%s%.80s", figure->metric, is_metric ? " " : "",
             figure_facts[figure->kind].word, number);
    return text;
}

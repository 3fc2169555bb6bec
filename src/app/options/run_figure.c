#include "run_figure.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const Figure *run_figure_row(const RunFigure *figure) {
    return figure->row ? figure->row : figure_find(FIGURE_OF_MODEL, "accuracy");
}

bool run_figure_has(const RunFigure *figure, unsigned trait) {
    return run_figure_row(figure)->traits & trait;
}

bool run_figure_is_metric(const RunFigure *figure) {
    return figure->row == &figure_metric;
}

RunFigure run_figure_of_key(const char *key) {
    bool validates = false;
    const Figure *row = figure_of_key(&validates, key);
    return row && figure_is_goal(row) ? (RunFigure){.row = row, .validates = validates} : (RunFigure){0};
}

RunFigure run_figure_loss(const RunFigure *figure) {
    const Figure *loss = figure_find(run_figure_row(figure)->of, "loss");
    return (RunFigure){.row = loss ? loss : figure_find(FIGURE_OF_MODEL, "loss"), .validates = figure->validates};
}

bool run_figure_tests_clients(const RunFigure *figure) {
    return figure_is_of_clients(run_figure_row(figure));
}

RunFigure run_figure_on_test(const RunFigure *figure) {
    if (run_figure_is_metric(figure)) return *figure;
    if (figure->validates) return (RunFigure){.row = figure->row};
    return (RunFigure){.row = figure_find(FIGURE_OF_MODEL, run_figure_has(figure, FIGURE_FALLS) ? "loss" : "accuracy")};
}

bool run_figure_same(const RunFigure *a, const RunFigure *b) {
    return run_figure_row(a) == run_figure_row(b) && a->validates == b->validates && a->falls == b->falls &&
           strcmp(a->metric, b->metric) == 0;
}

const char *run_figure_name(char text[RUN_FIGURE_NAME_BYTES], const RunFigure *figure) {
    snprintf(text, RUN_FIGURE_NAME_BYTES, "%s%s", figure->validates ? "validation " : "",
             run_figure_is_metric(figure) ? figure->metric : run_figure_row(figure)->title);
    return text;
}

bool run_figure_is_better(const RunFigure *figure, double a, double b) {
    if (isnan(a) || isnan(b)) return !isnan(a);
    return run_figure_has(figure, FIGURE_FALLS) || figure->falls ? a < b : a > b;
}

void run_figure_key(char key[FIGURE_KEY_BYTES], const RunFigure *figure) {
    char of[FIGURE_KEY_BYTES];
    figure_key(of, run_figure_row(figure), figure->validates);
    snprintf(key, FIGURE_KEY_BYTES, "%.31s%s%s", of, run_figure_is_metric(figure) ? "." : "", figure->metric);
}

const char *run_figure_best_key(char key[FIGURE_KEY_BYTES], const RunFigure *figure) {
    static const char test[] = "test_";
    char of[FIGURE_KEY_BYTES];
    run_figure_key(of, figure);
    const bool is_test = strncmp(of, test, sizeof test - 1) == 0;
    snprintf(key, FIGURE_KEY_BYTES, "best_%.75s",
             run_figure_is_metric(figure) ? "metric" : of + (is_test ? sizeof test - 1 : 0));
    return key;
}

RunFigure run_figure_told(const json_t *start) {
    const char *key = json_string_value(json_object_get(start, "figure"));
    const size_t prefix = strlen(figure_metric.key);
    if (!key) return (RunFigure){0};
    if (strncmp(key, figure_metric.key, prefix) != 0 || key[prefix] != '.') return run_figure_of_key(key);
    RunFigure figure = {.row = &figure_metric, .falls = json_is_true(json_object_get(start, "lower_is_better"))};
    snprintf(figure.metric, sizeof figure.metric, "%s", key + prefix + 1);
    return figure;
}

static double number_of(const json_t *line, const char *key) {
    const json_t *value = json_object_get(line, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

double run_figure_in(const json_t *round, const RunFigure *figure) {
    char key[FIGURE_KEY_BYTES];
    if (run_figure_is_metric(figure)) return number_of(json_object_get(round, figure_metric.key), figure->metric);
    return number_of(round, figure_key(key, run_figure_row(figure), figure->validates));
}

bool run_figure_settle(RunFigure *figure, const json_t *round) {
    char key[FIGURE_KEY_BYTES];
    const RunFigure loss = run_figure_loss(figure);
    run_figure_key(key, figure);
    if (!run_figure_has(figure, FIGURE_IS_SHARE) || json_object_get(round, key)) return false;
    if (isnan(run_figure_in(round, &loss))) return false;
    *figure = loss;
    return true;
}

const char *metric_text(char text[RUN_FIGURE_TEXT_BYTES], double value) {
    const bool is_small = value != 0 && fabs(value) < 0.01;
    snprintf(text, RUN_FIGURE_TEXT_BYTES, is_small ? "%.4g" : "%.4f", value);
    return text;
}

const char *run_figure_number(char text[RUN_FIGURE_TEXT_BYTES], const RunFigure *figure, double value) {
    if (run_figure_is_metric(figure)) return metric_text(text, value);
    const bool is_share = run_figure_has(figure, FIGURE_IS_SHARE);
    snprintf(text, RUN_FIGURE_TEXT_BYTES, is_share ? "%.2f%%" : "%.4f", is_share ? 100 * value : value);
    return text;
}

const char *run_figure_text(char text[RUN_FIGURE_TEXT_BYTES], const RunFigure *figure, double value) {
    const bool is_metric = run_figure_is_metric(figure);
    const Figure *row = run_figure_row(figure);
    char number[RUN_FIGURE_TEXT_BYTES];
    run_figure_number(number, figure, value);
    snprintf(text, RUN_FIGURE_TEXT_BYTES, "%s%s%s%.80s", figure->validates ? "validation " : "",
             is_metric   ? figure->metric
             : row->word ? row->word
                         : row->title,
             is_metric || !row->word ? " " : "", number);
    return text;
}

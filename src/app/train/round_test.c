#include "round_test.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

RoundTest round_test_none(const Dataset *data) {
    return (RoundTest){.has_targets = dataset_has_numbers(&data->items),
                       .judged = !dataset_has_numbers(&data->items),
                       .loss = NAN,
                       .accuracy = NAN,
                       .rmse = NAN,
                       .r2 = NAN,
                       .figures = answer_figures_none(),
                       .attack_success = NAN,
                       .personal = client_tests_none(),
                       .clients = client_tests_none(),
                       .new_clients = client_tests_none(),
                       .new_tuned = client_tests_none()};
}

RoundTest round_test_of(const RoundReport *report, const RunMemory *memory) {
    const Dataset *data = &memory->data;
    const Partition *partition = &memory->partition;
    RoundTest test = round_test_none(data);
    test.tested = true;
    assert(report->test_count > 0 && report->test_hits <= report->test_count);
    test.validates = report->validates;
    test.loss = report->test_loss;
    test.judged &= report->test_judged;
    test.metrics = report->test_metrics;
    test.figures = report->test_figures;
    if (test.has_targets) {
        test.rmse = loss_as_rmse(test.loss);
        test.r2 = loss_as_r2(test.loss, !test.validates ? test_variance(data)
                                                        : target_variance(data, &data->train, partition->validation,
                                                                          partition->validation_count));
    } else if (test.judged) {
        test.accuracy = (double)report->test_hits / report->test_count;
    }
    if (report->backdoor_count > 0) test.attack_success = (double)report->backdoor_hits / report->backdoor_count;
    return test;
}

double round_test_value(const RoundTest *test, const RunFigure *figure) {
    const Figure *row = run_figure_row(figure);
    if (run_figure_is_metric(figure)) return metric_sums_value(&test->metrics, figure->metric);
    if (row->of == FIGURE_OF_MODEL && figure->validates != test->validates) return NAN;
    return row->value(&(RoundFacts){.test = test});
}

double target_variance(const Dataset *data, const DatasetSplit *split, const uint32_t *indices, uint32_t count) {
    double sum = 0, squares = 0;
    if (!dataset_has_targets(&data->items)) return NAN;
    const uint8_t *targets = (const uint8_t *)split->labels;
    for (uint32_t i = 0; i < count; i++)
        sum += (double)dataset_number(targets, indices ? indices[i] : i);
    for (uint32_t i = 0; i < count; i++) {
        const double off = (double)dataset_number(targets, indices ? indices[i] : i) - sum / count;
        squares += off * off;
    }
    return squares / count;
}

double test_variance(const Dataset *data) {
    return target_variance(data, &data->test, NULL, data->test.count);
}

double loss_as_rmse(double loss) {
    return sqrt(loss);
}

double loss_as_r2(double loss, double variance) {
    return variance > 0 ? 1 - loss / variance : NAN;
}

const char *regression_text(char text[RUN_FIGURE_TEXT_BYTES], double rmse, double r2) {
    snprintf(text, RUN_FIGURE_TEXT_BYTES, isnan(r2) ? "RMSE %.4f" : "RMSE %.4f, R2 %.4f", rmse, r2);
    return text;
}

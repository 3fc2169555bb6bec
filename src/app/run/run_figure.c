#include "run_figure.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "fedavg/rules/personal_rules.h"

const RunFigureFacts run_figures[RUN_FIGURES] = {
    [FIGURE_ACCURACY] = {.key = "test_accuracy", .name = "accuracy", .best = "best_accuracy", .loss = FIGURE_LOSS},
    [FIGURE_LOSS] = {.key = "test_loss", .name = "loss", .best = "best_loss", .is_loss = true, .loss = FIGURE_LOSS},
    [FIGURE_PERSONAL_ACCURACY] = {.key = "personal_accuracy",
                                  .name = "personal accuracy",
                                  .best = "best_personal_accuracy",
                                  .is_personal = true,
                                  .loss = FIGURE_PERSONAL_LOSS},
    [FIGURE_PERSONAL_LOSS] = {.key = "personal_loss",
                              .name = "personal loss",
                              .best = "best_personal_loss",
                              .is_personal = true,
                              .is_loss = true,
                              .loss = FIGURE_PERSONAL_LOSS},
};

RunFigure run_figure_of(const Recipe *recipe, bool has_targets) {
    if (recipe->parts[PART_PERSONAL].row != PERSONAL_NONE)
        return has_targets ? FIGURE_PERSONAL_LOSS : FIGURE_PERSONAL_ACCURACY;
    return has_targets ? FIGURE_LOSS : FIGURE_ACCURACY;
}

RunFigure run_figure_named(const char *key) {
    for (int figure = 0; figure < RUN_FIGURES && key; figure++)
        if (strcmp(run_figures[figure].key, key) == 0) return (RunFigure)figure;
    return FIGURE_ACCURACY;
}

bool run_figure_is_better(RunFigure figure, double a, double b) {
    if (isnan(a) || isnan(b)) return !isnan(a);
    return run_figures[figure].is_loss ? a < b : a > b;
}

const char *run_figure_text(char text[RUN_FIGURE_TEXT_BYTES], RunFigure figure, double value) {
    const RunFigureFacts *facts = &run_figures[figure];
    if (facts->is_loss)
        snprintf(text, RUN_FIGURE_TEXT_BYTES, "%s %.4f", facts->name, value);
    else
        snprintf(text, RUN_FIGURE_TEXT_BYTES, "%s%.2f%%", facts->is_personal ? "personal " : "", 100 * value);
    return text;
}

// A round's tests ----------------------------------------------------------------------------------------------------

RoundTest round_test_none(const Dataset *data) {
    return (RoundTest){.has_targets = dataset_has_targets(&data->items),
                       .loss = NAN,
                       .accuracy = NAN,
                       .rmse = NAN,
                       .r2 = NAN,
                       .attack_success = NAN,
                       .personal = client_tests_none()};
}

RoundTest round_test_of(const RoundReport *report, const Dataset *data, double variance) {
    RoundTest test = round_test_none(data);
    test.tested = true;
    test.loss = report->test_loss;
    if (test.has_targets) {
        test.rmse = loss_as_rmse(test.loss);
        test.r2 = loss_as_r2(test.loss, variance);
    } else {
        test.accuracy = (double)report->test_hits / report->test_count;
    }
    if (report->backdoor_count > 0) test.attack_success = (double)report->backdoor_hits / report->backdoor_count;
    return test;
}

double round_test_value(const RoundTest *test, RunFigure figure) {
    const double values[RUN_FIGURES] = {[FIGURE_ACCURACY] = test->accuracy,
                                        [FIGURE_LOSS] = test->loss,
                                        [FIGURE_PERSONAL_ACCURACY] = test->personal.accuracy.mean,
                                        [FIGURE_PERSONAL_LOSS] = test->personal.loss.mean};
    return values[figure];
}

double target_variance(const Dataset *data) {
    double sum = 0, squares = 0;
    const uint32_t count = data->test.count;
    if (!dataset_has_targets(&data->items)) return NAN;
    const uint8_t *targets = (const uint8_t *)data->test.labels;
    for (uint32_t i = 0; i < count; i++)
        sum += (double)dataset_number(targets, i);
    for (uint32_t i = 0; i < count; i++) {
        const double off = (double)dataset_number(targets, i) - sum / count;
        squares += off * off;
    }
    return squares / count;
}

double loss_as_rmse(double loss) {
    return sqrt(2 * loss);
}

double loss_as_r2(double loss, double variance) {
    return variance > 0 ? 1 - 2 * loss / variance : NAN;
}

const char *regression_text(char text[RUN_FIGURE_TEXT_BYTES], double rmse, double r2) {
    snprintf(text, RUN_FIGURE_TEXT_BYTES, isnan(r2) ? "RMSE %.4f" : "RMSE %.4f, R2 %.4f", rmse, r2);
    return text;
}

#include "run_figure.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "fedavg/rules/local/personal_rules.h"

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
    if (recipe->personal.row != PERSONAL_NONE) return has_targets ? FIGURE_PERSONAL_LOSS : FIGURE_PERSONAL_ACCURACY;
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

const char *run_figure_number(char text[RUN_FIGURE_TEXT_BYTES], RunFigure figure, double value) {
    const bool is_loss = run_figures[figure].is_loss;
    snprintf(text, RUN_FIGURE_TEXT_BYTES, is_loss ? "%.4f" : "%.2f%%", is_loss ? value : 100 * value);
    return text;
}

const char *run_figure_text(char text[RUN_FIGURE_TEXT_BYTES], RunFigure figure, double value) {
    static const char *const words[RUN_FIGURES] = {"", "loss ", "personal ", "personal loss "};
    char number[RUN_FIGURE_TEXT_BYTES];
    run_figure_number(number, figure, value);
    snprintf(text, RUN_FIGURE_TEXT_BYTES, "%s%.64s", words[figure], number);
    return text;
}

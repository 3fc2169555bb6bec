// Figures of a net's answers, against values by scikit-learn 1.5 (balanced_accuracy_score, f1_score, roc_auc_score).
#include "nn/answers.h"

#include <math.h>

#include "tests/check.h"

static void check_near(double value, double expected) {
    assert_true(fabs(value - expected) < 1e-12);
}

static void a_minority_that_is_never_predicted_shows_in_the_mean_over_classes(void **state) {
    (void)state;
    Answer answers[50] = {0};
    AnswerFigures figures;
    Error err;
    double recalls[3], f1[3];
    answers[49].label = 1; // 2% of class 1, all predicted as class 0
    check_ok(answer_figures(&figures, answers, 50, 3, &err));
    check_near(figures.balanced_accuracy, 0.5);
    check_near(figures.macro_f1, 0.5 * 98.0 / 99.0); // class 2 neither occurs nor is predicted
    assert_true(isnan(figures.auc) && isnan(figures.mae));
    check_ok(answer_by_class(recalls, f1, answers, 50, 3, &err));
    check_near(f1[0], 98.0 / 99.0);
    assert_true(f1[1] == 0 && isnan(f1[2]));
    assert_true(recalls[0] == 1 && recalls[1] == 0 && isnan(recalls[2]));
    answers[0].predicted = 2; // a class that does not occur has an F1 of 0, and no recall
    check_ok(answer_figures(&figures, answers, 50, 3, &err));
    check_near(figures.balanced_accuracy, 48.0 / 49 / 2);
    check_near(figures.macro_f1, 2 * 48.0 / (49 + 49) / 3);
}

static void the_area_under_the_curve_counts_equal_values_half(void **state) {
    (void)state;
    static const struct {
        float values[6];
        uint16_t labels[6];
        double auc;
    } cases[] = {{{1, 2, 3, 4, 5, 6}, {0, 0, 0, 1, 1, 1}, 1},
                 {{6, 5, 4, 3, 2, 1}, {0, 0, 0, 1, 1, 1}, 0},
                 {{1, 1, 1, 1, 1, 1}, {0, 1, 0, 1, 0, 1}, 0.5},
                 {{-1, 0.5f, 0.5f, 2, 0.5f, 3}, {0, 0, 1, 0, 1, 1}, 6.0 / 9},
                 {{1, 2, 3, 4, 5, 6}, {1, 1, 1, 1, 1, 1}, (double)NAN}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        Answer answers[6];
        AnswerFigures figures;
        Error err;
        for (int i = 0; i < 6; i++)
            answers[i] = (Answer){.label = cases[c].labels[i], .value = cases[c].values[i]};
        check_ok(answer_figures(&figures, answers, 6, 2, &err));
        if (isnan(cases[c].auc))
            assert_true(isnan(figures.auc));
        else
            check_near(figures.auc, cases[c].auc);
    }
}

static void answers_follow_from_logits_and_the_first_of_equal_ones_is_predicted(void **state) {
    (void)state;
    static const float logits[] = {1, 3, 2, 2, 0, -1}, targets[] = {0.5f, 4, 2};
    static const uint16_t labels[] = {1, 0, 1};
    Answer answers[3];
    AnswerFigures figures;
    Error err;
    answers_of_logits(answers, logits, labels, 3, 2);
    assert_true(answers[0].predicted == 1 && answers[1].predicted == 0 && answers[2].predicted == 0);
    assert_true(answers[0].value == 2 && answers[1].value == 0 && answers[2].value == -1 && answers[2].label == 1);
    answers_of_logits(answers, logits, (const uint16_t *)(const void *)targets, 3, 0);
    check_ok(answer_figures(&figures, answers, 3, 0, &err));
    check_near(figures.mae, (0.5 + 1 + 0) / 3);
    assert_true(isnan(figures.macro_f1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_minority_that_is_never_predicted_shows_in_the_mean_over_classes),
        cmocka_unit_test(the_area_under_the_curve_counts_equal_values_half),
        cmocka_unit_test(answers_follow_from_logits_and_the_first_of_equal_ones_is_predicted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

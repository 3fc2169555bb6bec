// The named figures of a trainer: means over all turns, in one order, with names that are checked.
#include "fedavg/rules/metric_sums.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/check.h"

static void a_metric_is_a_mean_by_weight(void **state) {
    (void)state;
    MetricSums all = {0}, part = {0};
    Error err;
    check_ok(metric_sums_add(&all, "recall", 0.5 * 500, 500, &err));
    check_ok(metric_sums_add(&part, "recall", 0.8 * 100, 100, &err));
    check_ok(metric_sums_add(&part, "auc", 90, 100, &err));
    check_ok(metric_sums_join(&all, &part, &err));
    assert_int_equal(all.count, 2);
    assert_true(metric_sums_value(&all, "recall") == 330.0 / 600);
    assert_true(metric_sums_value(&all, "auc") == 0.9);
    assert_true(isnan(metric_sums_value(&all, "rec")));
    check_ok(metric_sums_add(&all, "auc", NAN, 1, &err)); // a value that is not finite
    assert_true(isnan(metric_sums_value(&all, "auc")));
    check_ok(metric_sums_add(&all, "empty", 0, 0, &err));
    assert_true(isnan(metric_sums_value(&all, "empty")));
}

static void metrics_are_ordered_by_name_however_they_come(void **state) {
    (void)state;
    static const char *const names[] = {"top5", "auc", "recall", "f1", "top-1"};
    static const char *const sorted[] = {"auc", "f1", "recall", "top-1", "top5"};
    MetricSums sums = {0};
    Error err;
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 5; i++)
            check_ok(metric_sums_add(&sums, names[i], i, 1, &err));
    assert_int_equal(sums.count, 5);
    for (int i = 0; i < 5; i++)
        assert_string_equal(sums.all[i].name, sorted[i]);
    assert_true(metric_sums_find(&sums, "top5")->weight == 2);
}

static void bad_names_weights_and_a_metric_too_many_are_refused(void **state) {
    (void)state;
    static const char *const bad[] = {"",         "5top",      "a b",  "a=1",           "caf\xc3\xa9", "<b>",
                                      "accuracy", "test_loss", "loss", "client_recall", "personal-f1"};
    char name[80];
    MetricSums sums = {0};
    Error err;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(metric_sums_add(&sums, bad[i], 1, 1, &err), STATUS_DATA);
    memset(name, 'a', sizeof name);
    name[65] = '\0';
    assert_int_equal(metric_name_check(name, &err), STATUS_DATA);
    name[64] = '\0';
    check_ok(metric_name_check(name, &err));
    assert_int_equal(metric_sums_add(&sums, "recall", 1, -1, &err), STATUS_DATA);
    assert_string_equal(err.message, "the metric recall has the weight -1; it is a number of samples");
    assert_int_equal(sums.count, 0);
    for (int i = 0; i < METRICS_MOST; i++) {
        snprintf(name, sizeof name, "m%d", i);
        check_ok(metric_sums_add(&sums, name, 1, 1, &err));
    }
    assert_int_equal(metric_sums_add(&sums, "more", 1, 1, &err), STATUS_DATA);
    assert_string_equal(err.message, "more is a metric too many; there may be 32");
    check_ok(metric_sums_add(&sums, "m7", 1, 1, &err));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_metric_is_a_mean_by_weight),
        cmocka_unit_test(metrics_are_ordered_by_name_however_they_come),
        cmocka_unit_test(bad_names_weights_and_a_metric_too_many_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

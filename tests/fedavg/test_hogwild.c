// A bound on hogwild's workers: who waits for others, as those see it that look for workers that hang.
#include "fedavg/worker/hogwild.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"

enum { WORKERS = 3 };

// What the workers have told: updates + 1 of each (0: it trains nothing), and which of them say that they wait.
static Control *control_of(double bound, const uint64_t updates[WORKERS], const uint32_t waits[WORKERS]) {
    Control *control = aligned_alloc(64, (sizeof *control + 63) / 64 * 64);
    assert_non_null(control);
    memset(control, 0, sizeof *control);
    control->config.workers = WORKERS;
    control->config.recipe.schedule.number[WILD_BOUND] = bound;
    for (uint32_t rank = 0; rank < WORKERS; rank++) {
        atomic_store(&control->clocks[rank].updates, updates[rank]);
        atomic_store(&control->clocks[rank].waits, waits[rank]);
    }
    return control;
}

static void check_waits(double bound, const uint64_t updates[WORKERS], const uint32_t waits[WORKERS],
                        const bool expected[WORKERS]) {
    Control *control = control_of(bound, updates, waits);
    for (uint32_t rank = 0; rank < WORKERS; rank++)
        assert_int_equal(hogwild_waits(control, rank), expected[rank]);
    free(control);
}

static const uint32_t all_wait[WORKERS] = {1, 1, 1};

static void who_is_ahead_of_the_slowest_by_more_than_the_bound_waits(void **state) {
    (void)state;
    check_waits(0, (const uint64_t[]){6, 5, 6}, (const uint32_t[]){1, 0, 1}, (const bool[]){true, false, true});
    check_waits(3, (const uint64_t[]){9, 5, 8}, (const uint32_t[]){1, 0, 0}, (const bool[]){true, false, false});
}

static void who_has_been_reached_waits_no_longer_whatever_it_last_said(void **state) {
    (void)state;
    check_waits(0, (const uint64_t[]){6, 7, 7}, all_wait, (const bool[]){false, true, true});
    check_waits(3, (const uint64_t[]){6, 10, 10}, all_wait, (const bool[]){false, true, true});
}

static void nobody_waits_for_who_trains_nothing(void **state) {
    (void)state;
    check_waits(0, (const uint64_t[]){6, 0, 0}, all_wait, (const bool[]){false, false, false});
    check_waits(0, (const uint64_t[]){6, 0, 5}, all_wait, (const bool[]){true, false, false});
}

static void of_workers_that_all_say_that_they_wait_one_at_least_does_not(void **state) {
    (void)state;
    for (uint32_t code = 0; code < 4 * 4 * 4; code++) {
        const uint64_t updates[WORKERS] = {code % 4, code / 4 % 4, code / 16};
        Control *control = control_of(code % 2, updates, all_wait);
        bool all = true;
        for (uint32_t rank = 0; rank < WORKERS; rank++)
            all &= hogwild_waits(control, rank);
        assert_false(all);
        free(control);
    }
}

static void without_a_bound_nobody_waits(void **state) {
    (void)state;
    check_waits(NAN, (const uint64_t[]){0, 0, 0}, (const uint32_t[]){0, 0, 0}, (const bool[]){false, false, false});
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_ahead_of_the_slowest_by_more_than_the_bound_waits),
        cmocka_unit_test(who_has_been_reached_waits_no_longer_whatever_it_last_said),
        cmocka_unit_test(nobody_waits_for_who_trains_nothing),
        cmocka_unit_test(of_workers_that_all_say_that_they_wait_one_at_least_does_not),
        cmocka_unit_test(without_a_bound_nobody_waits),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}

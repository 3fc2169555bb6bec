// The remedy for too many coalitions is one that fits.
#include <stdlib.h>
#include <string.h>

#include "app/look/coalitions.h"
#include "app/look/look_options.h"

#include "tests/check.h"

enum { CLIENTS = SWEEP_MOST_RUNS };

static Status plan(size_t players, size_t samples, Error *err) {
    static uint32_t numbers[CLIENTS];
    static uint8_t absent[CLIENTS];
    Coalitions coalitions;
    for (uint32_t i = 0; i < CLIENTS; i++)
        numbers[i] = i;
    const Status status = coalitions_plan(&coalitions, numbers, players, (uint32_t)players, absent, samples, err);
    if (status == STATUS_OK) coalitions_free(&coalitions);
    return status;
}

static void the_samples_that_a_refusal_names_fit(void **state) {
    (void)state;
    static const size_t players[] = {700};
    for (size_t i = 0; i < sizeof players / sizeof *players; i++) {
        Error err = {.message = ""};
        size_t most = 0;
        assert_int_equal(plan(players[i], 200, &err), STATUS_USAGE);
        const char *told = strstr(err.message, "give --samples ");
        assert_non_null(told);
        assert_int_equal(sscanf(told, "give --samples %zu", &most), 1);
        check_ok(plan(players[i], most, &err));
        assert_int_equal(plan(players[i], most + 1, &err), STATUS_USAGE);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_samples_that_a_refusal_names_fit)};
    return run_cases(argc, argv, tests, NULL, NULL);
}

// Arrays that a struct owns: as many as it wants, zeroed, and given back by one call.
#include "base/owned.h"

#include "tests/no_memory.h"

enum { ARRAYS = 40, ITEMS = 37 };

static Status own_many(void *context, Error *err) {
    Owned owned = {0};
    (void)context;
    for (size_t i = 0; i < ARRAYS; i++) {
        uint32_t *array = own(&owned, ITEMS, sizeof *array);
        if (!array) continue;
        assert_int_equal((uintptr_t)array % OWNED_LINE_BYTES, 0);
        for (size_t k = 0; k < ITEMS; k++) {
            assert_int_equal(array[k], 0);
            array[k] = UINT32_MAX;
        }
    }
    const bool lacks_memory = owned.lacks_memory;
    owned_free(&owned);
    assert_false(owned.lacks_memory);
    return lacks_memory ? fail(err, STATUS_OS, "no memory for arrays") : STATUS_OK;
}

static void any_number_of_arrays_is_given_back_whichever_is_missing(void **state) {
    (void)state;
    no_memory_sweep("arrays", own_many, NULL);
}

static void no_items_are_no_lack_of_memory(void **state) {
    (void)state;
    Owned owned = {0};
    assert_null(own(&owned, 0, sizeof(double)));
    assert_false(owned.lacks_memory);
    owned_free(&owned);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_arrays_is_given_back_whichever_is_missing),
        cmocka_unit_test(no_items_are_no_lack_of_memory),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}

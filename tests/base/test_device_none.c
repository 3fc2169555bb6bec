// A program built without CUDA says so when it is asked for a GPU.
#include <string.h>

#include "base/device.h"
#include "tests/check.h"

static void a_program_without_cuda_says_what_to_do(void **state) {
    (void)state;
    Device device;
    Error err;
    assert_false(device_is_built());
    assert_int_equal(device_open(&device, -1, &err), STATUS_UNAVAILABLE);
    assert_non_null(strstr(err.message, "built without CUDA: use --device cpu"));
    assert_int_equal(device_sleep_when_waiting(0, &err), STATUS_UNAVAILABLE);
    device_close();
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_program_without_cuda_says_what_to_do)};
    return run_cases(argc, argv, tests, NULL, NULL);
}

// First thing in the main of a test that runs on a GPU, real or emulated:
//
//   if (gpu_is_missing()) return GPU_TEST_SKIPPED;
#ifndef SOUNDER_TESTS_GPU_GPU_H
#define SOUNDER_TESTS_GPU_GPU_H

#include <stdbool.h>
#include <stdio.h>

#include "base/device.h"

enum { GPU_TEST_SKIPPED = 77 }; // ctest's SKIP_RETURN_CODE

static inline bool gpu_is_missing(void) {
    Device device;
    Error err;
    if (device_open(&device, -1, &err) == STATUS_OK) return false;
    fprintf(stderr, "skipped: %s\n", err.message);
    return true;
}

#endif

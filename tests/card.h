// What tests on a card, real or emulated, have in common. First thing in main:
//
//   if (card_is_missing()) return CARD_TEST_SKIPPED;
//
// And arrays on it: filled from the host, read back, and between guard bands that are checked at the end.
#ifndef SOUNDER_TESTS_CARD_H
#define SOUNDER_TESTS_CARD_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/device.h"
#include "check.h"

enum { CARD_TEST_SKIPPED = 77 }; // ctest's SKIP_RETURN_CODE

static inline bool card_is_missing(void) {
    Device device;
    Error err;
    if (device_open(&device, -1, &err) == STATUS_OK) return false;
    fprintf(stderr, "skipped: %s\n", err.message);
    return true;
}

enum { CARD_GUARD_BYTES = 256 };

typedef struct CardArray {
    void *at; // device memory, aligned as cudaMalloc's
    size_t bytes;
} CardArray;

#define check_cuda(call)                                                                                               \
    do {                                                                                                               \
        cudaError_t check_error_ = (call);                                                                             \
        if (check_error_ != cudaSuccess) fail_msg("%s: %s", #call, cudaGetErrorString(check_error_));                  \
    } while (0)

// values NULL: NaNs, so that what is read before it is written shows.
static inline CardArray card_array(const void *values, size_t bytes) {
    char *base;
    check_cuda(cudaMalloc((void **)&base, bytes + 2 * CARD_GUARD_BYTES));
    check_cuda(cudaMemset(base, 0xff, bytes + 2 * CARD_GUARD_BYTES));
    if (values) check_cuda(cudaMemcpy(base + CARD_GUARD_BYTES, values, bytes, cudaMemcpyHostToDevice));
    return (CardArray){base + CARD_GUARD_BYTES, bytes};
}

static inline CardArray card_zeros(size_t bytes) {
    CardArray array = card_array(NULL, bytes);
    check_cuda(cudaMemset(array.at, 0, bytes));
    return array;
}

// After all work on the card.
static inline void card_read(void *to, CardArray from) {
    check_cuda(cudaDeviceSynchronize());
    check_cuda(cudaMemcpy(to, from.at, from.bytes, cudaMemcpyDeviceToHost));
}

// Fails if something was written outside.
static inline void card_free(CardArray array) {
    unsigned char guards[2 * CARD_GUARD_BYTES];
    char *base = (char *)array.at - CARD_GUARD_BYTES;
    check_cuda(cudaDeviceSynchronize());
    check_cuda(cudaMemcpy(guards, base, CARD_GUARD_BYTES, cudaMemcpyDeviceToHost));
    check_cuda(cudaMemcpy(guards + CARD_GUARD_BYTES, (char *)array.at + array.bytes, CARD_GUARD_BYTES,
                          cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < sizeof guards; i++)
        if (guards[i] != 0xff) fail_msg("a guard band on the card was overwritten");
    check_cuda(cudaFree(base));
}

#endif

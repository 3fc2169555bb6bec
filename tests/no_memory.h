// Allocations that fail when told to. Only for a test that tests/CMakeLists.txt gives sounder_no_memory: the linker
// then sends the calls of everything under test here (malloc, calloc, realloc, aligned_alloc, mmap; not those of
// libraries).
//
//   no_memory_sweep("a net", make_a_net, &context);
//
// runs make_a_net with the first such call failing, then the second, and so on until none is left to fail. Each must
// return OS and one sentence, and give everything back that it had taken.
#ifndef SOUNDER_TESTS_NO_MEMORY_H
#define SOUNDER_TESTS_NO_MEMORY_H

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>

#include "check.h"

typedef struct NoMemory {
    long until_failure; // calls; 0: none fails
    long held;          // pieces not given back
} NoMemory;
static NoMemory no_memory;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *piece, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void __real_free(void *piece);
void *__real_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *piece, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void __wrap_free(void *piece);
void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);

static inline bool no_memory_now(void) {
    if (no_memory.until_failure == 0 || --no_memory.until_failure > 0) return false;
    errno = ENOMEM;
    return true;
}

static inline void *no_memory_took(void *piece) {
    no_memory.held += piece != NULL;
    return piece;
}

void *__wrap_malloc(size_t bytes) {
    return no_memory_now() ? NULL : no_memory_took(__real_malloc(bytes));
}

void *__wrap_calloc(size_t count, size_t bytes) {
    return no_memory_now() ? NULL : no_memory_took(__real_calloc(count, bytes));
}

void *__wrap_realloc(void *piece, size_t bytes) {
    if (no_memory_now()) return NULL;
    void *moved = __real_realloc(piece, bytes);
    return piece ? moved : no_memory_took(moved);
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes) {
    return no_memory_now() ? NULL : no_memory_took(__real_aligned_alloc(alignment, bytes));
}

void __wrap_free(void *piece) {
    no_memory.held -= piece != NULL;
    __real_free(piece);
}

void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset) {
    const bool in_place = flags & MAP_FIXED; // of another mapping: takes none
    return !in_place && no_memory_now() ? MAP_FAILED : __real_mmap(address, bytes, protection, flags, fd, offset);
}

// work: does something and undoes it again; what it does must be possible. At least one call must have failed.
static inline void no_memory_sweep(const char *what, Status (*work)(void *context, Error *err), void *context) {
    for (long failing = 1;; failing++) {
        Error err = {.message = ""};
        long held = no_memory.held;
        no_memory.until_failure = failing;
        Status status = work(context, &err);
        bool failed = no_memory.until_failure == 0;
        no_memory.until_failure = 0;
        if (no_memory.held != held)
            fail_msg("%s: allocation %ld fails: %ld pieces left", what, failing, no_memory.held - held);
        if (!failed) {
            if (status != STATUS_OK || failing == 1) fail_msg("%s: after %ld: %s", what, failing - 1, err.message);
            return;
        }
        if (status != STATUS_OS || strlen(err.message) < 10 || strchr(err.message, '\n'))
            fail_msg("%s: allocation %ld fails: %s, \"%s\"", what, failing, status_name(status), err.message);
    }
}

#endif

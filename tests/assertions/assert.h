// The build with sanitizers finds this header before the C library's: its assert also records that it was executed.
//
//   SOUNDER_ASSERTIONS=FILE ctest --preset sanitize; tests/house --assertions FILE
//
// Each process appends "path:line" to FILE when it executes an assertion for the first time. Without the variable
// nothing is written.
#ifndef SOUNDER_TESTS_ASSERTIONS_ASSERT_H
#define SOUNDER_TESTS_ASSERTIONS_ASSERT_H

#include_next <assert.h>

#ifndef NDEBUG // with it, the C library's assert does nothing

#include <errno.h>
#include <sys/syscall.h>

#ifdef __cplusplus
extern "C" {
#endif
// Under names of their own: files that include <assert.h> need not know the headers of these, and may use their names.
char *assertions_getenv(const char *name) __asm__("getenv");
long assertions_syscall(long number, ...) __asm__("syscall");
#ifdef __cplusplus
}
#endif

enum { ASSERTIONS_FOLDER = -100, ASSERTIONS_FLAGS = 02002101 }; // AT_FDCWD; O_WRONLY, O_CREAT, O_APPEND, O_CLOEXEC

// Makes the system calls itself: tests replace the library's open, write and close by functions that fail.
static __attribute__((cold, noinline, unused)) void assertions_note(const char *place) {
    const char *path = assertions_getenv("SOUNDER_ASSERTIONS");
    if (!path || !*path) return;
    const int before = errno;
    const long fd = assertions_syscall(SYS_openat, ASSERTIONS_FOLDER, path, ASSERTIONS_FLAGS, 0644);
    if (fd >= 0) {
        assertions_syscall(SYS_write, fd, place, __builtin_strlen(place));
        assertions_syscall(SYS_close, fd);
    }
    errno = before;
}

#define ASSERTIONS_TEXT(line)  #line
#define ASSERTIONS_PLACE(line) __FILE__ ":" ASSERTIONS_TEXT(line) "\n"

#undef assert
#define assert(condition)                                                                                              \
    (__extension__({                                                                                                   \
        static unsigned char is_noted;                                                                                 \
        if (!is_noted) {                                                                                               \
            is_noted = 1;                                                                                              \
            assertions_note(ASSERTIONS_PLACE(__LINE__));                                                               \
        }                                                                                                              \
        if (!(condition)) __assert_fail(#condition, __FILE__, __LINE__, __extension__ __PRETTY_FUNCTION__);            \
    }))

#endif
#endif

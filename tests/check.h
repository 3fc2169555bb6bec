// What every test includes: cmocka in the order it wants, and a check that prints the Error's sentence.
#ifndef SOUNDER_TESTS_CHECK_H
#define SOUNDER_TESTS_CHECK_H

#include <fnmatch.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#undef fail // cmocka's macro; base/err.h has a function of this name
#undef fail_msg
#define fail_msg(format, ...)                                                                                          \
    do {                                                                                                               \
        print_error("ERROR: " format "\n", ##__VA_ARGS__);                                                             \
        _fail(__FILE__, __LINE__);                                                                                     \
    } while (0)

#include "base/err.h"

// check_ok(call using &err): fails the test with the sentence.
#define check_ok(call)                                                                                                 \
    do {                                                                                                               \
        Status check_status_ = (call);                                                                                 \
        if (check_status_ != STATUS_OK) fail_msg("%s: %s: %s", #call, status_name(check_status_), err.message);        \
    } while (0)

// Whether there is anything to run; the first argument, if there is one, becomes the filter.
static inline bool choose_cases(int argc, char **argv, const struct CMUnitTest *tests, size_t count) {
    if (argc < 2) return true;
    cmocka_set_test_filter(argv[1]);
    for (size_t i = 0; i < count; i++)
        if (fnmatch(argv[1], tests[i].name, 0) == 0) return true;
    print_error("%s: no case has a name like %s; the cases are:\n", argv[0], argv[1]);
    for (size_t i = 0; i < count; i++)
        print_error("    %s\n", tests[i].name);
    return false;
}

// run_cases(argc, argv, tests, set_up, tear_down), for main to return: all cases, or those whose names fit the first
// argument, where * stands for anything: build/tests/test_barrier 'survivors*'. That none fits is a failure.
#define run_cases(argc, argv, tests, set_up, tear_down)                                                                \
    (choose_cases(argc, argv, tests, sizeof(tests) / sizeof *(tests))                                                  \
         ? cmocka_run_group_tests(tests, set_up, tear_down)                                                            \
         : 64)

#endif

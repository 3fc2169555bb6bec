// What every test includes: cmocka in the order it wants, and a check that prints the Error's sentence.
#ifndef SOUNDER_TESTS_CHECK_H
#define SOUNDER_TESTS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
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

#endif

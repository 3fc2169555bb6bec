// Sentences of failures: the reason decides the status where it says more than the caller knows, and nothing in a sentence
// commands a terminal.
#include "base/err.h"

#include <errno.h>
#include <string.h>

#include "tests/check.h"

static void a_reason_that_says_more_than_the_caller_decides_the_status(void **state) {
    (void)state;
    static const struct {
        int reason;
        Status status;
    } rows[] = {{ENOMEM, STATUS_OS},      {EMFILE, STATUS_OS}, {ENFILE, STATUS_OS},
                {EIO, STATUS_IO},         {ESTALE, STATUS_IO}, {ENOENT, STATUS_NOINPUT},
                {EACCES, STATUS_NOINPUT}, {0, STATUS_NOINPUT}, {ENOSPC, STATUS_NOINPUT}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Error err;
        errno = rows[i].reason;
        assert_int_equal(fail_errno(&err, STATUS_NOINPUT, "%s", "here"), rows[i].status);
        assert_memory_equal(err.message, "here: ", 6);
        assert_string_equal(err.message + 6, strerror(rows[i].reason));
        errno = rows[i].reason;
        assert_int_equal(fail_errno(NULL, STATUS_NOINPUT, "nobody reads this"), rows[i].status);
    }
}

static void what_a_terminal_would_obey_is_shown_as_a_question_mark(void **state) {
    (void)state;
    static const struct {
        const char *text, *shown;
    } rows[] = {{"plain", "plain"},
                {"\x1b[31mred\x1b]52;c;aGk=\x07", "?[31mred?]52;c;aGk=?"},
                {"a\nb\tc\rd\x7f", "a?b?c?d?"},
                {"\xc2\x9b"
                 "31m",
                 "??31m"},                                        // CSI in one character
                {"\xc3\xa9\xe2\x82\xac", "\xc3\xa9\xe2\x82\xac"}, // letters beyond ASCII stay
                {"\xc2\xa0", "\xc2\xa0"},
                {"\xc2", "\xc2"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Error err;
        assert_int_equal(fail(&err, STATUS_DATA, "%s", rows[i].text), STATUS_DATA);
        assert_string_equal(err.message, rows[i].shown);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reason_that_says_more_than_the_caller_decides_the_status),
        cmocka_unit_test(what_a_terminal_would_obey_is_shown_as_a_question_mark),
    };
    return cmocka_run_group_tests_name("err", tests, NULL, NULL);
}

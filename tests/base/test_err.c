// Sentences of failures: the reason decides the status where it says more than the caller knows, and nothing in a
// sentence commands a terminal.
#include "base/err.h"

#include <errno.h>
#include <stdio.h>
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
        assert_memory_equal(err.message + 6, strerror(rows[i].reason), strlen(strerror(rows[i].reason)));
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
                {"caf\xc3", "caf?"}, // cut, or not UTF-8 at all: JSON would refuse it
                {"M\xfcnchen", "M?nchen"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Error err;
        assert_int_equal(fail(&err, STATUS_DATA, "%s", rows[i].text), STATUS_DATA);
        assert_string_equal(err.message, rows[i].shown);
    }
}

static void a_sketch_has_carets_below_the_word_that_is_wrong(void **state) {
    (void)state;
    static const char forty[] = "0123456789012345678901234567890123456789";
    static const struct {
        const char *text, *word; // the first place of it
        const char *sketch;
    } rows[] = {{"conv 10 5; foo 3", "foo", "conv 10 5; foo 3\n           ^^^"},
                {"first", "first", "first\n^^^^^"},
                {"ends", "", "ends\n    ^"},    // something is missing there
                {"a \x8b", "\x8b", "a ?\n  ^"}, // no letter of UTF-8
                {"a\tb\x1b", "b", "a b?\n  ^"},
                {"h\xc3\xa9 x\xc3\xa9", "x\xc3\xa9", "h\xc3\xa9 x\xc3\xa9\n   ^^"}};
    Error err;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fail(&err, STATUS_USAGE, "wrong");
        const char *word = *rows[i].word ? strstr(rows[i].text, rows[i].word) : rows[i].text + strlen(rows[i].text);
        error_sketch(&err, rows[i].text, (size_t)(word - rows[i].text), strlen(rows[i].word));
        assert_string_equal(err.sketch, rows[i].sketch);
    }
    char text[300], sketch[ERROR_SKETCH_BYTES];
    snprintf(text, sizeof text, "%s%s%s%s%s", forty, "wrong", forty, forty, forty);
    error_sketch(&err, text, 40, 5);
    snprintf(sketch, sizeof sketch, "%s%s%.27s...\n%40s^^^^^", forty, "wrong", forty, "");
    assert_string_equal(err.sketch, sketch);
    error_sketch(&err, text, 85, 300); // to the end, of which little is shown
    snprintf(sketch, sizeof sketch, "...%s%.32s...\n%43s", forty, forty, "");
    memset(sketch + strlen(sketch), '^', 33);
    assert_memory_equal(err.sketch, sketch, strlen(err.sketch));
    assert_int_equal(strlen(err.sketch), 3 + 72 + 3 + 1 + 43 + 32);

    memset(text, '\x8b', 100); // no letter begins anywhere
    text[100] = '\0';
    error_sketch(&err, text, 90, 5);
    assert_string_equal(err.sketch, "...\n^");

    Error outer;
    fail(&outer, STATUS_USAGE, "--model: %s", err.message);
    assert_string_equal(outer.sketch, ""); // nothing of an earlier failure, nor of what memory held
    error_keep_sketch(&outer, &err);
    assert_string_equal(outer.sketch, err.sketch);
    fail_errno(&outer, STATUS_IO, "another");
    assert_string_equal(outer.sketch, "");
}

static void some_reasons_come_with_a_remedy(void **state) {
    (void)state;
    Error err;
    errno = EMFILE;
    fail_errno(&err, STATUS_IO, "run.csv cannot be opened");
    assert_string_equal(err.message,
                        "run.csv cannot be opened: Too many open files; raise the limit of open files (ulimit -n)");
    errno = ENOLCK;
    fail_errno(&err, STATUS_IO, "cannot lock the run folder r");
    assert_string_equal(err.message,
                        "cannot lock the run folder r: No locks available; a network file system without a "
                        "lock service? Give a folder on another file system");
    errno = ENOENT;
    fail_errno(&err, STATUS_IO, "r");
    assert_string_equal(err.message, "r: No such file or directory");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(some_reasons_come_with_a_remedy),
        cmocka_unit_test(a_sketch_has_carets_below_the_word_that_is_wrong),
        cmocka_unit_test(a_reason_that_says_more_than_the_caller_decides_the_status),
        cmocka_unit_test(what_a_terminal_would_obey_is_shown_as_a_question_mark),
    };
    return cmocka_run_group_tests_name("err", tests, NULL, NULL);
}

// Texts of users: cut between letters, made UTF-8, and quoted for a shell, which must hand back the same bytes.
#include "base/text.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text_stream.h"
#include "tests/no_memory.h"

static void a_letter_has_one_to_four_bytes_and_bad_bytes_have_none(void **state) {
    (void)state;
    assert_int_equal(text_letter("a"), 1);
    assert_int_equal(text_letter("é"), 2);
    assert_int_equal(text_letter("中"), 3);
    assert_int_equal(text_letter("😀"), 4);
    static const char *const bad[] = {"",
                                      "\x80",
                                      "\xc3",
                                      "\xc3x",
                                      "\xe4\xb8",
                                      "\xc0\xaf",
                                      "\xe0\x80z",
                                      "\xed\xa0\x80",
                                      "\xf4\x90\x80\x80",
                                      "\xf8\x88\x80\x80\x80",
                                      "\xff"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(text_letter(bad[i]), 0);
}

static void signs_that_a_terminal_obeys_are_raw(void **state) {
    (void)state;
    static const char *const raw[] = {"\x1b",   "\x7f",   "\xc2\x9b", "\u202e",    "\u2066",
                                      "\u200f", "\u061c", "\ufeff",   "\U000e0041"};
    static const char *const shown[] = {" ", "a", "é", "\u00a0", "中", "😀", "\u200d", "\u200c", "\u2010"};
    for (size_t i = 0; i < sizeof raw / sizeof *raw; i++)
        assert_true(text_is_raw(raw[i], text_letter(raw[i])));
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++)
        assert_false(text_is_raw(shown[i], text_letter(shown[i])));
    char word[SHELL_WORD_BYTES];
    assert_string_equal(shell_word(word, "a\u202e\U000e0041"), "$'a\\342\\200\\256\\363\\240\\201\\201'");
}

static void a_cut_ends_before_the_letter_that_does_not_fit(void **state) {
    (void)state;
    char text[8];
    assert_string_equal(text_cut(text, 8, "abcdefgh"), "abcdefg");
    assert_string_equal(text_cut(text, 8, "ab中中"), "ab中");
    assert_string_equal(text_cut(text, 8, "é"), "é");
    assert_string_equal(text_cut(text, 3, "aé"), "a");
    assert_string_equal(text_cut(text, 8, "m\xfcnchen"), "m\xfcnchen");
    assert_string_equal(text_cut(text, 1, "a"), "");
}

static void bytes_that_are_not_utf8_become_the_replacement_letter(void **state) {
    (void)state;
    char text[32];
    assert_string_equal(text_utf8(text, sizeof text, "m\xfcnchen"), "m\xef\xbf\xbdnchen");
    assert_string_equal(text_utf8(text, sizeof text, "\xe4\xb8"), "\xef\xbf\xbd\xef\xbf\xbd");
    assert_string_equal(text_utf8(text, 6, "\xff\xff"), "\xef\xbf\xbd");
    assert_string_equal(text_utf8(text, sizeof text, "中"), "中");
}

static void a_list_takes_names_that_fit_whole(void **state) {
    (void)state;
    char list[12] = "";
    text_list(list, sizeof list, "one", 3);
    text_list(list, sizeof list, "another", 7);
    text_list(list, sizeof list, "two more", 3);
    assert_string_equal(list, "one, two");
    text_list(list, sizeof list, "e", 1);
    assert_string_equal(list, "one, two, e");
    text_list(list, sizeof list, "", 0);
    assert_string_equal(list, "one, two, e");
}

static void a_text_that_is_full_takes_no_more(void **state) {
    (void)state;
    char text[12] = "";
    text_add(text, 8, "%d, ", 1234);
    text_add(text, 8, "%s", "and on");
    text_add(text, 8, "%s", "and on");
    assert_string_equal(text, "1234, a");
}

static void a_whole_number_has_digits_alone(void **state) {
    (void)state;
    long number;
    assert_string_equal(text_whole(&number, "29500,1"), ",1");
    assert_int_equal(number, 29500);
    static const char *const others[] = {"", "-1", "+1", " 1", "x"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_ptr_equal(text_whole(&number, others[i]), others[i]);
        assert_int_equal(number, -1);
    }
    assert_string_equal(text_whole(&number, "99999999999999999999"), "");
    assert_true(number == LONG_MAX);
}

static void an_address_is_a_host_and_a_port(void **state) {
    (void)state;
    static const struct {
        const char *address, *host, *port;
    } rows[] = {
        {"node0:29500", "node0", "29500"}, {"node0", "node0", NULL}, {"[::1]:1", "::1", "1"}, {"[::1]", "::1", NULL},
        {"node0:", "node0", ""},           {"[x", "[x", NULL},       {"[a]b:1", "[a]b", "1"}};
    char host[8];
    const char *port;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_true(text_split_address(host, sizeof host, &port, rows[i].address));
        assert_string_equal(host, rows[i].host);
        assert_true(rows[i].port ? port && strcmp(port, rows[i].port) == 0 : !port);
    }
    static const char *const refused[] = {"", ":1", "[]:1", "a.longer.host:1"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        assert_false(text_split_address(host, sizeof host, &port, refused[i]));
}

static void a_word_is_quoted_only_where_a_shell_would_see_more_in_it(void **state) {
    (void)state;
    static const struct {
        const char *text, *word;
    } rows[] = {
        {"runs/a-1", "runs/a-1"}, {"", "''"},         {"my run", "'my run'"},         {"$(id)", "'$(id)'"},
        {"it's", "'it'\\''s'"},   {"`id`", "'`id`'"}, {"a\nb", "$'a\\012b'"},         {"münchen", "'münchen'"},
        {"m\xfc", "$'m\\374'"},   {"~", "'~'"},       {"\\'\x1b", "$'\\\\\\'\\033'"}, {"\xc2\x9b", "$'\\302\\233'"}};
    char word[SHELL_WORD_BYTES];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(shell_word(word, rows[i].text), rows[i].word);
    assert_string_equal(shell_word(word, "-1"), "-1");
    assert_string_equal(shell_path(word, "-x"), "./-x");
    assert_string_equal(shell_path(word, "-x y"), "./'-x y'");
    assert_string_equal(shell_path(word, "a b"), "'a b'");
}

static void a_shell_reads_back_what_was_quoted(void **state) {
    (void)state;
    static const char hostile[] =
        "a b;c|d&e<f>g(h)i$j`k\\l\"m'n*o?p[q]r#s~t=u%v!w{x}y\tz\n\x01\x7f\xfc\xff 中 $(id) ${HOME}";
    char word[SHELL_WORD_BYTES], command[SHELL_WORD_BYTES + 64], told[sizeof hostile + 16];
    snprintf(command, sizeof command, "printf %%s %s", shell_word(word, hostile));
    setenv("COMMAND", command, 1);
    FILE *shell = popen("bash -c \"$COMMAND\"", "r");
    assert_non_null(shell);
    told[fread(told, 1, sizeof told - 1, shell)] = '\0';
    pclose(shell);
    assert_string_equal(told, hostile);
}

static void a_text_that_does_not_fit_is_cut_with_its_quotes_closed(void **state) {
    (void)state;
    static char text[2 * SHELL_WORD_BYTES], word[SHELL_WORD_BYTES];
    memset(text, '\'', sizeof text - 1);
    shell_word(word, text);
    const size_t length = strlen(word);
    assert_in_range(length, SHELL_WORD_BYTES - 8, SHELL_WORD_BYTES - 1);
    assert_int_equal(word[length - 1], '\'');
    assert_int_equal((length - 2) % 4, 0);
}

static Status print_numbers(void *context, Error *err) {
    (void)context;
    TextStream stream;
    FILE *file = text_open(&stream);
    for (int i = 0; i < 20000 && file; i++)
        fprintf(file, "%05d\n", i);
    if (!text_close(&stream)) return fail(err, STATUS_OS, "no memory for the numbers");
    assert_int_equal(stream.bytes, 20000 * 6);
    assert_memory_equal(stream.text + 6 * 12345, "12345\n", 6);
    free(stream.text);
    return STATUS_OK;
}

static void a_stream_has_all_that_was_printed_or_nothing(void **state) {
    (void)state;
    TextStream stream;
    assert_non_null(text_open(&stream));
    assert_true(text_close(&stream));
    assert_string_equal(stream.text, "");
    free(stream.text);
    no_memory_sweep("a text stream", print_numbers, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_letter_has_one_to_four_bytes_and_bad_bytes_have_none),
        cmocka_unit_test(signs_that_a_terminal_obeys_are_raw),
        cmocka_unit_test(a_cut_ends_before_the_letter_that_does_not_fit),
        cmocka_unit_test(bytes_that_are_not_utf8_become_the_replacement_letter),
        cmocka_unit_test(a_list_takes_names_that_fit_whole),
        cmocka_unit_test(a_text_that_is_full_takes_no_more),
        cmocka_unit_test(a_whole_number_has_digits_alone),
        cmocka_unit_test(an_address_is_a_host_and_a_port),
        cmocka_unit_test(a_word_is_quoted_only_where_a_shell_would_see_more_in_it),
        cmocka_unit_test(a_shell_reads_back_what_was_quoted),
        cmocka_unit_test(a_text_that_does_not_fit_is_cut_with_its_quotes_closed),
        cmocka_unit_test(a_stream_has_all_that_was_printed_or_nothing),
    };
    return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}

// The launcher's output: bytes into lines, lines onto a console that may be slow, full or gone.
#include "app/launch/launch_output.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/check.h"

// A rank's pipe, its stream, and a console whose bytes the test reads from memory.
typedef struct Fixture {
    Console console;
    RankStream stream;
    int write_end;
} Fixture;

static int set_up(void **state) {
    Fixture *fixture = calloc(1, sizeof *fixture);
    int ends[2];
    if (!fixture || pipe2(ends, O_NONBLOCK) != 0) return -1;
    fixture->console.fd = -1;
    rank_stream_init(&fixture->stream, ends[0], -1, &fixture->console, 7);
    fixture->write_end = ends[1];
    *state = fixture;
    return 0;
}

static int tear_down(void **state) {
    Fixture *fixture = *state;
    if (fixture->write_end >= 0) close(fixture->write_end);
    rank_stream_close(&fixture->stream);
    free(fixture);
    return 0;
}

static void feed(Fixture *fixture, const char *text) {
    assert_int_equal(write(fixture->write_end, text, strlen(text)), strlen(text));
    rank_stream_read(&fixture->stream);
}

static void assert_console(const Fixture *fixture, const char *expected) {
    const Console *console = &fixture->console;
    assert_int_equal(console->end - console->start, strlen(expected));
    assert_memory_equal(console->bytes + console->start, expected, strlen(expected));
}

static void bytes_that_come_in_pieces_become_whole_lines(void **state) {
    Fixture *fixture = *state;
    feed(fixture, "one\ntw");
    assert_console(fixture, "[7] one\n");
    rank_stream_read(&fixture->stream); // nothing there: no end
    feed(fixture, "o\n\nthr");
    assert_console(fixture, "[7] one\n[7] two\n[7] \n");
    assert_true(fixture->stream.fd >= 0);
    close(fixture->write_end);
    fixture->write_end = -1;
    rank_stream_read(&fixture->stream);
    assert_int_equal(fixture->stream.fd, -1);
    assert_console(fixture, "[7] one\n[7] two\n[7] \n[7] thr\n");
}

static void carriage_returns_end_lines_and_make_no_empty_ones(void **state) {
    Fixture *fixture = *state;
    feed(fixture, "\r10%");
    feed(fixture, "\r20%\r\r30%\r");
    feed(fixture, "\ndone\r\n\nend\n");
    assert_console(fixture, "[7] 10%\n[7] 20%\n[7] 30%\n[7] done\n[7] \n[7] end\n");
}

static void the_parts_of_a_line_show_at_once_where_they_are_wanted(void **state) {
    Fixture *fixture = *state;
    fixture->stream.shows_parts = true;
    feed(fixture, "one\nname? ");
    assert_console(fixture, "[7] one\n[7] name? ");
    feed(fixture, "you");
    feed(fixture, "\n\n50%\r100%\r\nend");
    assert_console(fixture, "[7] one\n[7] name? you\n[7] \n[7] 50%\n[7] 100%\n[7] end");
    rank_stream_close(&fixture->stream);
    assert_console(fixture, "[7] one\n[7] name? you\n[7] \n[7] 50%\n[7] 100%\n[7] end\n");
}

static void a_line_that_is_too_long_is_cut_and_loses_nothing(void **state) {
    Fixture *fixture = *state;
    enum { LENGTH = 2 * LAUNCH_LINE_BYTES + 5 };
    char *text = malloc(LENGTH + 1);
    assert_non_null(text);
    for (int i = 0; i < LENGTH; i++)
        text[i] = (char)('a' + i % 26);
    text[LENGTH] = '\n';
    for (int i = 0; i < LENGTH + 1; i += 1000) {
        size_t bytes = (size_t)(LENGTH + 1 - i < 1000 ? LENGTH + 1 - i : 1000);
        assert_int_equal(write(fixture->write_end, text + i, bytes), bytes);
        rank_stream_read(&fixture->stream);
    }
    const char *line = fixture->console.bytes;
    for (int at = 0; at < LENGTH; at += LAUNCH_LINE_BYTES) {
        size_t bytes = (size_t)(LENGTH - at < LAUNCH_LINE_BYTES ? LENGTH - at : LAUNCH_LINE_BYTES);
        assert_memory_equal(line, "[7] ", 4);
        assert_memory_equal(line + 4, text + at, bytes);
        assert_int_equal(line[4 + bytes], '\n');
        line += 4 + bytes + 1;
    }
    assert_ptr_equal(line, fixture->console.bytes + fixture->console.end);
    free(text);
}

// A reader slower than the ranks: whatever is read while there is room arrives, whole and in order.
static void a_slow_console_fills_up_and_loses_nothing(void **state) {
    Fixture *fixture = *state;
    int ends[2], sent = 0, received = 0;
    char bytes[8192];
    size_t held = 0;
    assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
    fixture->console.fd = ends[1];
    bool was_full = false;
    while (received < 200000) {
        for (int i = 0; i < 50 && sent < 200000; i++, sent++) {
            if (!console_has_room(&fixture->console)) {
                was_full = true;
                break;
            }
            char line[16];
            snprintf(line, sizeof line, "%d\n", sent);
            feed(fixture, line);
        }
        if (!console_is_empty(&fixture->console)) console_write(&fixture->console);
        ssize_t count = read(ends[0], bytes + held, was_full ? sizeof bytes - held : 100);
        held += count > 0 ? (size_t)count : 0;
        for (char *end; (end = memchr(bytes, '\n', held)); received++) {
            int number = -1;
            assert_int_equal(sscanf(bytes, "[7] %d", &number), 1);
            assert_int_equal(number, received);
            held -= (size_t)(end + 1 - bytes);
            memmove(bytes, end + 1, held);
        }
    }
    assert_true(was_full);
    assert_true(console_is_empty(&fixture->console));
    close(ends[0]);
    close(ends[1]);
}

static void a_console_without_a_reader_drops_what_comes(void **state) {
    Fixture *fixture = *state;
    int ends[2];
    signal(SIGPIPE, SIG_IGN);
    assert_int_equal(pipe(ends), 0);
    close(ends[0]);
    fixture->console.fd = ends[1];
    feed(fixture, "one\n");
    console_write(&fixture->console);
    assert_int_equal(fixture->console.write_error, EPIPE);
    feed(fixture, "two\n");
    assert_true(console_is_empty(&fixture->console));
    assert_true(console_has_room(&fixture->console));
    close(ends[1]);
}

static void a_log_gets_every_byte_and_says_when_the_disk_is_full(void **state) {
    Fixture *fixture = *state;
    int log = open("/tmp", O_TMPFILE | O_RDWR, 0600);
    assert_true(log >= 0);
    fixture->stream.log_fd = dup(log);
    feed(fixture, "a\r\nb");
    char bytes[8];
    assert_int_equal(pread(log, bytes, sizeof bytes, 0), 4);
    assert_memory_equal(bytes, "a\r\nb", 4);
    close(log);
    close(fixture->stream.log_fd);
    fixture->stream.log_fd = open("/dev/full", O_WRONLY);
    feed(fixture, "c\nd\n");
    assert_int_equal(fixture->stream.log_fd, -1);
    feed(fixture, "e\n");
    assert_console(fixture, "[7] a\n[7] this log file ends here: No space left on device\n[7] bc\n[7] d\n[7] e\n");
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(bytes_that_come_in_pieces_become_whole_lines, set_up, tear_down),
        cmocka_unit_test_setup_teardown(carriage_returns_end_lines_and_make_no_empty_ones, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_parts_of_a_line_show_at_once_where_they_are_wanted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_line_that_is_too_long_is_cut_and_loses_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_slow_console_fills_up_and_loses_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_console_without_a_reader_drops_what_comes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_log_gets_every_byte_and_says_when_the_disk_is_full, set_up, tear_down),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}

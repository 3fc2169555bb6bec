// Shared memory: zeroed, nameless, write-protected where promised, checked before use, and never a SIGBUS.
#include "shm/segment.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "own_folder.h"
#include "tests/check.h"
#include "tests/deadline.h"

static int copy_of(int fd) {
    int copy = dup(fd);
    assert_true(copy >= 0);
    return copy;
}

static void what_one_mapping_writes_the_other_reads(void **state) {
    (void)state;
    Error err;
    Segment writer, reader;
    check_ok(segment_create(&writer, "weights", 100000, &err));
    assert_int_equal(writer.bytes, 100000);
    assert_int_equal((uintptr_t)writer.memory % 64, 0);
    for (size_t i = 0; i < writer.bytes; i++)
        assert_int_equal(((char *)writer.memory)[i], 0);
    memset(writer.memory, 7, writer.bytes);
    segment_publish(&writer);

    check_ok(segment_map(&reader, copy_of(writer.fd), SEGMENT_READ_WRITE, &err));
    assert_int_equal(reader.bytes, writer.bytes);
    assert_memory_equal(reader.memory, writer.memory, writer.bytes);
    ((char *)reader.memory)[99999] = 9;
    assert_int_equal(((char *)writer.memory)[99999], 9);
    segment_free(&reader);
    segment_free(&writer);
    segment_free(&writer); // freeing twice is harmless
}

static void segments_have_no_name_and_are_not_inherited_by_accident(void **state) {
    (void)state;
    Error err;
    Segment segment;
    int readonly;
    check_ok(segment_create(&segment, "weights", 4096, &err));
    check_ok(segment_reopen_readonly(&readonly, &segment, &err));
    struct stat file;
    assert_int_equal(fstat(segment.fd, &file), 0);
    assert_int_equal(file.st_nlink, 0);
    assert_int_equal(file.st_mode & 0777, 0600);
    assert_true(file.st_blocks * 512 >= 4096 + 64); // allocated, not merely sized
    assert_true(fcntl(segment.fd, F_GETFD) & FD_CLOEXEC);
    assert_true(fcntl(readonly, F_GETFD) & FD_CLOEXEC);
    close(readonly);
    segment_free(&segment);
}

static void a_readonly_descriptor_cannot_be_mapped_for_writing(void **state) {
    (void)state;
    Error err = {0};
    Segment segment, reader;
    int readonly;
    check_ok(segment_create(&segment, "weights", 4096, &err));
    strcpy(segment.memory, "seen");
    segment_publish(&segment);
    check_ok(segment_reopen_readonly(&readonly, &segment, &err));
    assert_int_equal(segment_map(&reader, copy_of(readonly), SEGMENT_READ_WRITE, &err), STATUS_OS);
    assert_non_null(strstr(err.message, "for writing"));
    assert_true(write(readonly, "x", 1) < 0);
    check_ok(segment_map(&reader, readonly, SEGMENT_READ, &err));
    assert_string_equal(reader.memory, "seen");
    assert_int_equal(mprotect(reader.mapping, reader.mapping_bytes, PROT_READ | PROT_WRITE), -1);
    segment_free(&reader);
    segment_free(&segment);
}

static void a_raw_segment_is_a_file_of_nothing_but_its_payload(void **state) {
    (void)state;
    Error err;
    Segment segment, mapped;
    check_ok(segment_create_raw(&segment, "safetensors", 12345, &err));
    memset(segment.memory, 'x', segment.bytes);
    char path[64], text[20000];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", getpid(), segment.fd);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(text, 1, sizeof text, file), 12345);
    assert_memory_equal(text, segment.memory, 12345);
    fclose(file);

    int readonly;
    check_ok(segment_reopen_readonly(&readonly, &segment, &err));
    check_ok(segment_map_raw(&mapped, readonly, SEGMENT_READ, &err));
    assert_int_equal(mapped.bytes, 12345);
    assert_memory_equal(mapped.memory, segment.memory, 12345);
    segment_free(&mapped);
    segment_free(&segment);
}

static void a_segment_is_refused_until_it_is_published(void **state) {
    (void)state;
    Error err = {0};
    Segment segment, reader;
    check_ok(segment_create(&segment, "weights", 4096, &err));
    assert_int_equal(segment_map(&reader, copy_of(segment.fd), SEGMENT_READ, &err), STATUS_DATA);
    assert_non_null(strstr(err.message, "not published"));
    segment_publish(&segment);
    check_ok(segment_map(&reader, copy_of(segment.fd), SEGMENT_READ, &err));
    segment_free(&reader);
    segment_free(&segment);
}

static void a_damaged_header_is_refused_wherever_it_is_damaged(void **state) {
    (void)state;
    enum { HEADER_BYTES_IN_USE = 24 };
    Error err = {0};
    Segment segment, reader;
    check_ok(segment_create(&segment, "weights", 4096, &err));
    segment_publish(&segment);
    unsigned char *header = segment.mapping;
    for (int bit = 0; bit < 8 * HEADER_BYTES_IN_USE; bit++) {
        header[bit / 8] ^= (unsigned char)(1 << bit % 8);
        assert_int_equal(segment_map(&reader, copy_of(segment.fd), SEGMENT_READ, &err), STATUS_DATA);
        assert_null(reader.mapping);
        header[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    check_ok(segment_map(&reader, copy_of(segment.fd), SEGMENT_READ, &err));
    segment_free(&reader);
    for (off_t bytes = 4096 + 63; bytes >= 0; bytes -= 613) {
        assert_int_equal(ftruncate(segment.fd, bytes), 0);
        assert_int_equal(segment_map(&reader, copy_of(segment.fd), SEGMENT_READ, &err), STATUS_DATA);
    }
    segment_free(&segment);
}

static void a_descriptor_that_is_no_file_is_refused_and_closed(void **state) {
    (void)state;
    Error err = {0};
    Segment reader;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(segment_map(&reader, ends[0], SEGMENT_READ, &err), STATUS_DATA);
    assert_int_equal(fcntl(ends[0], F_GETFD), -1);
    assert_int_equal(segment_map_raw(&reader, ends[1], SEGMENT_READ, &err), STATUS_DATA);
    assert_int_equal(segment_map(&reader, 12345, SEGMENT_READ, &err), STATUS_OS);
    assert_non_null(strstr(err.message, "12345"));
}

static void an_impossible_size_is_refused_with_name_need_and_limit(void **state) {
    (void)state;
    Error err = {0};
    Segment segment;
    assert_int_equal(segment_create(&segment, "dataset", (size_t)1 << 50, &err), STATUS_OS);
    assert_non_null(strstr(err.message, "dataset"));
    assert_non_null(strstr(err.message, "1125899906842688")); // with the header
    assert_non_null(strstr(err.message, "available"));
    assert_int_equal(segment_create(&segment, "dataset", SIZE_MAX, &err), STATUS_OS);
    assert_int_equal(segment_create_raw(&segment, "dataset", 0, &err), STATUS_OS);
    segment_free(&segment); // a failed creation leaves nothing, and freeing that is harmless
}

static void a_size_that_neither_kind_of_memory_grants_is_refused_with_both_reasons(void **state) {
    (void)state;
    pid_t child = fork();
    if (child == 0) { // which may not have files of more than 1 MiB, in memory or elsewhere
        Error err = {0};
        Segment segment;
        deadline_join();
        signal(SIGXFSZ, SIG_IGN);
        if (setrlimit(RLIMIT_FSIZE, &(struct rlimit){.rlim_cur = 1 << 20, .rlim_max = 1 << 20}) != 0) _exit(1);
        if (segment_create_raw(&segment, "dataset", 1 << 20, &err) != STATUS_OK) _exit(2);
        if (segment_create_raw(&segment, "dataset", 4 << 20, &err) != STATUS_OS) _exit(3);
        if (!strstr(err.message, "segment dataset needs 4194304 bytes") || !strstr(err.message, "memfd")) _exit(4);
        _exit(0);
    }
    int exit_status;
    assert_int_equal(waitpid(child, &exit_status, 0), child);
    assert_true(WIFEXITED(exit_status));
    assert_int_equal(WEXITSTATUS(exit_status), 0);
}

static uint32_t count_open_descriptors(void) {
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    uint32_t count = 0;
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

static void failures_leave_no_descriptor_open(void **state) {
    (void)state;
    uint32_t before = count_open_descriptors();
    a_damaged_header_is_refused_wherever_it_is_damaged(state);
    an_impossible_size_is_refused_with_name_need_and_limit(state);
    a_readonly_descriptor_cannot_be_mapped_for_writing(state);
    assert_int_equal(count_open_descriptors(), before);
}

enum { CHILD_SKIPPED = 77 };

// In a mount namespace of its own, with 1 MiB of /dev/shm: what a container with a small one is like.
static int use_a_small_shared_memory_folder(int warnings) {
    Error err = {0};
    Segment segment;
    if (!own_folder("size=1m")) return CHILD_SKIPPED;
    dup2(warnings, STDERR_FILENO);
    if (segment_create(&segment, "small", 1000, &err) != STATUS_OK) return 1;
    segment_free(&segment);
    Segment first;
    if (segment_create(&first, "large", 4 << 20, &err) != STATUS_OK) return 6;
    if (segment_create(&segment, "larger", 4 << 20, &err) != STATUS_OK) return 2; // said once
    memset(segment.memory, 1, segment.bytes);                                     // a SIGBUS here would be the failure
    int readonly;
    if (segment_reopen_readonly(&readonly, &segment, &err) != STATUS_OK) return 3;
    segment_publish(&segment);
    Segment reader;
    if (segment_map(&reader, readonly, SEGMENT_READ, &err) != STATUS_OK) return 4;
    if (memcmp(reader.memory, segment.memory, segment.bytes) != 0) return 5;
    return 0;
}

static void a_shared_memory_folder_too_small_is_replaced_with_one_line_in_the_log(void **state) {
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        deadline_join();
        _exit(use_a_small_shared_memory_folder(ends[1]));
    }
    close(ends[1]);
    char text[4096] = "";
    ssize_t length = 0, count;
    while ((count = read(ends[0], text + length, sizeof text - 1 - (size_t)length)) > 0)
        length += count;
    close(ends[0]);
    int exit_status;
    assert_int_equal(waitpid(child, &exit_status, 0), child);
    assert_true(WIFEXITED(exit_status));
    if (WEXITSTATUS(exit_status) == CHILD_SKIPPED) skip(); // not allowed to mount
    assert_int_equal(WEXITSTATUS(exit_status), 0);
    assert_non_null(strstr(text, "segment large: /dev/shm has "));
    assert_non_null(
        strstr(text, " bytes free, needs 4194368 (No space left on device); memfd_create serves as well\n"));
    assert_null(strstr(text, "segment small"));
    assert_ptr_equal(strchr(text, '\n'), text + length - 1); // one line
}

int main(int argc, char **argv) {
    deadline_set(60);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_one_mapping_writes_the_other_reads),
        cmocka_unit_test(segments_have_no_name_and_are_not_inherited_by_accident),
        cmocka_unit_test(a_readonly_descriptor_cannot_be_mapped_for_writing),
        cmocka_unit_test(a_raw_segment_is_a_file_of_nothing_but_its_payload),
        cmocka_unit_test(a_segment_is_refused_until_it_is_published),
        cmocka_unit_test(a_damaged_header_is_refused_wherever_it_is_damaged),
        cmocka_unit_test(a_descriptor_that_is_no_file_is_refused_and_closed),
        cmocka_unit_test(an_impossible_size_is_refused_with_name_need_and_limit),
        cmocka_unit_test(a_size_that_neither_kind_of_memory_grants_is_refused_with_both_reasons),
        cmocka_unit_test(failures_leave_no_descriptor_open),
        cmocka_unit_test(a_shared_memory_folder_too_small_is_replaced_with_one_line_in_the_log),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}

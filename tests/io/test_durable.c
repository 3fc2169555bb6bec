// Durable files: the new version or the old one, and no temporary file, whatever goes wrong.
#include "io/durable.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/scratch.h"

static int entries_in(const char *folder) {
    int count = 0;
    DIR *listing = opendir(folder);
    assert_non_null(listing);
    while (readdir(listing))
        count++;
    closedir(listing);
    return count - 2; // . and ..
}

static void expect_contents(const char *path, const char *expected) {
    size_t count;
    char *bytes = scratch_read(path, &count);
    assert_int_equal(count, strlen(expected));
    assert_string_equal(bytes, expected);
    free(bytes);
}

// The folder of path/name, open for as long as one write.
static Status write_parts(const char *path, const FilePart *parts, size_t count, Error *err) {
    char parent[SCRATCH_PATH_BYTES];
    snprintf(parent, sizeof parent, "%s", path);
    char *name = strrchr(parent, '/');
    *name++ = '\0';
    Folder folder = {.fd = open(parent, O_RDONLY | O_DIRECTORY), .path = parent};
    assert_true(folder.fd >= 0);
    Status status = durable_write(&folder, name, parts, count, err);
    close(folder.fd);
    return status;
}

static Status write_text(const char *path, const char *text, Error *err) {
    return write_parts(path, &(FilePart){text, strlen(text)}, 1, err);
}

static void parts_are_written_one_after_another(void **state) {
    char path[SCRATCH_PATH_BYTES];
    Error err;
    const FilePart parts[] = {{"one ", 4}, {NULL, 0}, {"two", 3}};
    check_ok(write_parts(scratch_path(path, *state, "parts"), parts, 3, &err));
    expect_contents(path, "one two");
    check_ok(write_parts(path, NULL, 0, &err));
    expect_contents(path, "");
    check_ok(write_text(path, "new", &err));
    expect_contents(path, "new");
    assert_int_equal(entries_in(*state), 1);
    assert_int_equal(unlink(path), 0);
}

static void a_file_goes_into_the_open_folder_whatever_has_its_path_now(void **state) {
    char before[SCRATCH_PATH_BYTES], after[SCRATCH_PATH_BYTES], path[SCRATCH_PATH_BYTES];
    Error err;
    assert_int_equal(mkdir(scratch_path(before, *state, "folder"), 0700), 0);
    Folder folder = {.fd = open(before, O_RDONLY | O_DIRECTORY), .path = before};
    assert_int_equal(rename(before, scratch_path(after, *state, "moved")), 0);
    assert_int_equal(mkdir(before, 0700), 0);
    check_ok(durable_write(&folder, "file", &(FilePart){"text", 4}, 1, &err));
    assert_int_equal(entries_in(before), 0);
    expect_contents(scratch_path(path, after, "file"), "text");
    assert_int_equal(unlink(path) + rmdir(before) + rmdir(after), 0);
    assert_int_equal(durable_write(&folder, "file", &(FilePart){"text", 4}, 1, &err), STATUS_IO); // removed
    assert_non_null(strstr(err.message, "/folder/file cannot be written"));
    close(folder.fd);
}

static void what_a_killed_writer_left_is_overwritten(void **state) {
    char path[SCRATCH_PATH_BYTES], partial[SCRATCH_PATH_BYTES];
    Error err;
    scratch_write(scratch_path(partial, *state, ".file.partial"), "a long half of something", 24);
    check_ok(write_text(scratch_path(path, *state, "file"), "whole", &err));
    expect_contents(path, "whole");
    assert_int_equal(entries_in(*state), 1);
    assert_int_equal(unlink(path), 0);
}

static void a_link_in_place_of_the_temporary_file_leads_nowhere(void **state) {
    char path[SCRATCH_PATH_BYTES], partial[SCRATCH_PATH_BYTES], other[SCRATCH_PATH_BYTES];
    Error err;
    scratch_write(scratch_path(other, *state, "other"), "mine", 4);
    scratch_path(partial, *state, ".file.partial");
    assert_int_equal(link(other, partial), 0);
    check_ok(write_text(scratch_path(path, *state, "file"), "one", &err));
    assert_int_equal(symlink(other, partial), 0);
    check_ok(write_text(path, "two", &err));
    expect_contents(path, "two");
    expect_contents(other, "mine");
    assert_int_equal(unlink(path) | unlink(other), 0);
}

static void only_a_regular_file_with_one_name_is_written_into(void **state) {
    char path[SCRATCH_PATH_BYTES], other[SCRATCH_PATH_BYTES];
    Error err;
    scratch_write(scratch_path(path, *state, "own"), "1", 1);
    int fd = open(path, O_RDWR);
    check_ok(file_check_own(fd, path, &err));
    assert_int_equal(link(path, scratch_path(other, *state, "twin")), 0);
    assert_int_equal(file_check_own(fd, path, &err), STATUS_USAGE);
    assert_non_null(strstr(err.message, "another name"));
    assert_int_equal(unlink(other), 0);
    if (geteuid() == 0 && fchown(fd, 1, 1) == 0) {
        assert_int_equal(file_check_own(fd, path, &err), STATUS_USAGE);
        assert_non_null(strstr(err.message, "another user"));
    }
    close(fd);
    assert_int_equal(unlink(path), 0);
    fd = open("/dev/null", O_RDWR);
    assert_int_equal(file_check_own(fd, "/dev/null", &err), STATUS_USAGE);
    assert_non_null(strstr(err.message, "no regular file"));
    close(fd);
}

static void a_files_sha256_is_compared_without_following_links(void **state) {
    static const char abc[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    char path[SCRATCH_PATH_BYTES], other[SCRATCH_PATH_BYTES];
    Folder folder = {.fd = open(*state, O_RDONLY | O_DIRECTORY), .path = *state};
    assert_false(file_has_sha256(&folder, "abc", abc));
    scratch_write(scratch_path(path, *state, "abc"), "abc", 3);
    assert_true(file_has_sha256(&folder, "abc", abc));
    assert_int_equal(symlink(path, scratch_path(other, *state, "link")), 0);
    assert_false(file_has_sha256(&folder, "link", abc));
    scratch_write(path, "abd", 3);
    assert_false(file_has_sha256(&folder, "abc", abc));
    scratch_write(path, "", 0);
    assert_false(file_has_sha256(&folder, "abc", abc));
    assert_int_equal(unlink(path) | unlink(other), 0);
    close(folder.fd);
}

static void failures_name_the_path_and_the_reason(void **state) {
    char path[SCRATCH_PATH_BYTES], long_name[300];
    Error err;
    assert_int_equal(mkdir(scratch_path(path, *state, "in-the-way"), 0700), 0);
    assert_int_equal(write_text(path, "x", &err), STATUS_IO);
    assert_non_null(strstr(err.message, path));
    assert_non_null(strstr(err.message, strerror(EISDIR)));
    assert_int_equal(rmdir(path), 0);
    memset(long_name, 'x', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    assert_int_equal(write_text(scratch_path(path, *state, long_name), "x", &err), STATUS_IO);
    assert_int_equal(entries_in(*state), 0);
}

// The disk is full in the middle of a write of 8 MiB: the limit on file sizes fails it as a full disk would.
static void a_write_that_fails_half_way_leaves_the_predecessor(void **state) {
    enum { BYTES = 8 << 20 };
    char path[SCRATCH_PATH_BYTES];
    struct rlimit before, limit;
    Error err;
    char *bytes = calloc(BYTES, 1);
    check_ok(write_text(scratch_path(path, *state, "limited"), "predecessor", &err));
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    limit = before;
    limit.rlim_cur = BYTES / 2 + 17;
    setrlimit(RLIMIT_FSIZE, &limit);
    Status status = write_parts(path, &(FilePart){bytes, BYTES}, 1, &err);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(status, STATUS_IO);
    assert_non_null(strstr(err.message, strerror(EFBIG)));
    expect_contents(path, "predecessor");
    assert_int_equal(entries_in(*state), 1);
    assert_int_equal(unlink(path), 0);
    free(bytes);
}

static void a_full_disk_leaves_the_predecessor(void **state) {
    enum { BYTES = 1 << 20 };
    char folder[SCRATCH_PATH_BYTES], path[SCRATCH_PATH_BYTES];
    Error err;
    assert_int_equal(mkdir(scratch_path(folder, *state, "small-disk"), 0700), 0);
    if (mount("none", folder, "tmpfs", 0, "size=256k") != 0) {
        rmdir(folder);
        skip(); // only root may mount
    }
    char *bytes = calloc(BYTES, 1);
    check_ok(write_text(scratch_path(path, folder, "file"), "predecessor", &err));
    Status status = write_parts(path, &(FilePart){bytes, BYTES}, 1, &err);
    size_t count;
    char *kept = scratch_read(path, &count);
    int entries = entries_in(folder);
    umount(folder);
    rmdir(folder);
    assert_int_equal(status, STATUS_IO);
    assert_non_null(strstr(err.message, strerror(ENOSPC)));
    assert_string_equal(kept, "predecessor");
    assert_int_equal(entries, 1);
    free(kept);
    free(bytes);
}

// A writer is killed at random moments; a reader then always finds one version, whole.
static void a_killed_writer_leaves_one_whole_version(void **state) {
    enum { KILLS = 100, BYTES = 1 << 18 };
    char path[SCRATCH_PATH_BYTES];
    static char versions[2][BYTES + 1];
    Error err;
    for (int v = 0; v < 2; v++)
        memset(versions[v], 'a' + v, BYTES);
    check_ok(write_text(scratch_path(path, *state, "contested"), versions[0], &err));
    srand(1);
    for (int kill_count = 0; kill_count < KILLS; kill_count++) {
        pid_t writer = fork();
        assert_true(writer >= 0);
        if (writer == 0) {
            for (int v = 0;; v = !v)
                if (write_text(path, versions[v], NULL) != STATUS_OK) _exit(1);
        }
        nanosleep(&(struct timespec){0, 1000 * (rand() % 8000)}, NULL);
        kill(writer, SIGKILL);
        int status;
        assert_int_equal(waitpid(writer, &status, 0), writer);
        assert_true(WIFSIGNALED(status));
        size_t count;
        char *found = scratch_read(path, &count);
        assert_int_equal(count, BYTES);
        assert_string_equal(found, versions[found[0] - 'a']);
        free(found);
    }
    check_ok(write_text(path, "at last", &err));
    assert_int_equal(entries_in(*state), 1);
}

static void a_file_that_the_user_names_is_removed_if_it_is_cut_short_but_no_device(void **state) {
    static const char bytes[10000];
    const FilePart parts[] = {{bytes, sizeof bytes}, {"end", 3}};
    char path[SCRATCH_PATH_BYTES];
    struct stat about;
    Error err;
    const struct rlimit little = {4096, RLIM_INFINITY};
    struct rlimit before;
    scratch_path(path, *state, "cut");
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
    assert_int_equal(file_write(path, parts, 2, &err), STATUS_IO);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_non_null(strstr(err.message, "/cut cannot be written: File too large"));
    assert_int_equal(access(path, F_OK), -1);
    if (mknod(path, S_IFCHR | 0600, makedev(1, 7)) != 0) skip(); // /dev/full; only root makes one
    assert_int_not_equal(file_write(path, parts, 2, &err), STATUS_OK);
    assert_true(stat(path, &about) == 0 && S_ISCHR(about.st_mode));
}

static void sha256_is_that_of_the_joined_parts(void **state) {
    (void)state;
    char hex[65];
    sha256_hex(hex, NULL, 0);
    assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    sha256_hex(hex, (FilePart[]){{"a", 1}, {"bc", 2}}, 2);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_written_one_after_another),
        cmocka_unit_test(a_file_goes_into_the_open_folder_whatever_has_its_path_now),
        cmocka_unit_test(what_a_killed_writer_left_is_overwritten),
        cmocka_unit_test(a_link_in_place_of_the_temporary_file_leads_nowhere),
        cmocka_unit_test(only_a_regular_file_with_one_name_is_written_into),
        cmocka_unit_test(a_files_sha256_is_compared_without_following_links),
        cmocka_unit_test(failures_name_the_path_and_the_reason),
        cmocka_unit_test(a_write_that_fails_half_way_leaves_the_predecessor),
        cmocka_unit_test(a_full_disk_leaves_the_predecessor),
        cmocka_unit_test(a_killed_writer_leaves_one_whole_version),
        cmocka_unit_test(a_file_that_the_user_names_is_removed_if_it_is_cut_short_but_no_device),
        cmocka_unit_test(sha256_is_that_of_the_joined_parts),
    };
    return run_cases(argc, argv, tests, scratch_set_up, scratch_tear_down);
}

// Unpacked copies of data sets: used by later runs if they are good, replaced if they are not.
#include "datasets/unpacked_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "loaded.h"

// The one file in the cache's folder for unpacked copies.
static const char *cached_copy(char path[SCRATCH_PATH_BYTES], const char *cache_home) {
    char folder[SCRATCH_PATH_BYTES];
    DIR *listing = opendir(scratch_path(folder, cache_home, "sounder/unpacked"));
    path[0] = '\0';
    for (struct dirent *file; listing && (file = readdir(listing));)
        if (file->d_name[0] != '.') scratch_path(path, folder, file->d_name);
    if (listing) closedir(listing);
    return path;
}

// A copy, if there is one, is not good enough.
static void expect_unpacks_gray_set(const char *folder) {
    Loaded loaded;
    Error err;
    check_ok(load(&loaded, folder, 1, &err));
    assert_false(loaded.from_copy);
    expect_gray_set(&loaded);
    free(loaded.block);
}

static void packed_files_are_unpacked_once_and_every_damage_to_the_copy_is_noticed(void **state) {
    char home[SCRATCH_PATH_BYTES], folder[SCRATCH_PATH_BYTES], copy[SCRATCH_PATH_BYTES];
    struct stat first, again;
    Loaded fresh, cached;
    size_t whole;
    Error err;
    setenv("SOUNDER_CACHE", "on", 1);
    setenv("XDG_CACHE_HOME", scratch_path(home, *state, "cache-of-copies"), 1); // does not exist yet
    idx_files_write(new_folder(folder, *state, "cached"), GRAY_SET, true);
    check_ok(load(&fresh, folder, 1, &err));
    assert_int_equal(stat(cached_copy(copy, home), &first), 0);
    assert_int_equal(first.st_mode & 0777, 0400);
    check_ok(load(&cached, folder, 1, &err));
    assert_false(fresh.from_copy);
    assert_true(cached.from_copy);
    assert_memory_equal(fresh.block, cached.block, fresh.bytes);
    assert_int_equal(stat(copy, &again), 0);
    assert_int_equal(first.st_ino, again.st_ino); // used, not written anew
    free(fresh.block);
    free(cached.block);

    char *bytes = scratch_read(copy, &whole);
    for (size_t byte = 0; byte < whole; byte++) {
        bytes[byte] = (char)(bytes[byte] ^ 4);
        scratch_write(copy, bytes, whole);
        expect_unpacks_gray_set(folder);
        bytes[byte] = (char)(bytes[byte] ^ 4);
        size_t healed_bytes;
        char *healed = scratch_read(cached_copy(copy, home), &healed_bytes);
        assert_int_equal(healed_bytes, whole);
        assert_memory_equal(healed, bytes, whole);
        free(healed);
    }
    for (size_t count = 0; count < whole; count++) {
        scratch_write(copy, bytes, count);
        expect_unpacks_gray_set(folder);
    }
    free(bytes);
    setenv("SOUNDER_CACHE", "off", 1);
    unsetenv("XDG_CACHE_HOME");
}

static void a_copy_of_other_files_or_one_that_others_may_write_is_not_used(void **state) {
    char home[SCRATCH_PATH_BYTES], folder[SCRATCH_PATH_BYTES], copy[SCRATCH_PATH_BYTES], path[SCRATCH_PATH_BYTES];
    struct stat first, again;
    Loaded loaded;
    uint8_t bytes[IDX_FILE_ROOM];
    Error err;
    setenv("SOUNDER_CACHE", "on", 1);
    setenv("XDG_CACHE_HOME", scratch_path(home, *state, "cache-of-others"), 1);
    idx_files_write(new_folder(folder, *state, "changed"), GRAY_SET, true);
    expect_unpacks_gray_set(folder);
    assert_int_equal(stat(cached_copy(copy, home), &first), 0);

    assert_int_equal(chmod(copy, 0422), 0);
    expect_unpacks_gray_set(folder);
    assert_int_equal(stat(copy, &again), 0);
    assert_int_equal(again.st_mode & 0777, 0400); // replaced

    IdxFile changed = GRAY_SET[1];
    changed.bytes[8] = 2; // the first training label
    scratch_write(idx_file_path(path, folder, &changed, true), bytes, idx_file_bytes(bytes, &changed, true));
    // In one tick of the clock its time would be the same.
    const struct timespec then[] = {{1600000000, 0}, {1600000000, 0}};
    assert_int_equal(utimensat(AT_FDCWD, path, then, 0), 0);
    check_ok(load(&loaded, folder, 1, &err));
    assert_false(loaded.from_copy);
    assert_int_equal(loaded.data.train.labels[0], 2);
    free(loaded.block);
    setenv("SOUNDER_CACHE", "off", 1);
    unsetenv("XDG_CACHE_HOME");
}

// The same bytes at another time could be other bytes of the same size: a second counts, and so does a nanosecond.
static void a_copy_of_files_of_another_time_is_not_used(void **state) {
    char home[SCRATCH_PATH_BYTES], folder[SCRATCH_PATH_BYTES], path[SCRATCH_PATH_BYTES];
    const struct timespec then = {1600000000, 500}, later[] = {{1600000001, 500}, {1600000000, 501}};
    Loaded loaded;
    Error err;
    setenv("SOUNDER_CACHE", "on", 1);
    setenv("XDG_CACHE_HOME", scratch_path(home, *state, "cache-of-times"), 1);
    idx_files_write(new_folder(folder, *state, "times"), GRAY_SET, true);
    for (int f = 0; f < IDX_FILES; f++)
        for (size_t i = 0; i < sizeof later / sizeof *later; i++) {
            idx_file_path(path, folder, &GRAY_SET[f], true);
            assert_int_equal(utimensat(AT_FDCWD, path, (struct timespec[]){then, then}, 0), 0);
            expect_unpacks_gray_set(folder);
            check_ok(load(&loaded, folder, 1, &err));
            assert_true(loaded.from_copy);
            free(loaded.block);
            assert_int_equal(utimensat(AT_FDCWD, path, (struct timespec[]){later[i], later[i]}, 0), 0);
            expect_unpacks_gray_set(folder);
        }
    setenv("SOUNDER_CACHE", "off", 1);
    unsetenv("XDG_CACHE_HOME");
}

static void who_has_a_copy_open_keeps_it_when_a_newer_one_replaces_it(void **state) {
    char home[SCRATCH_PATH_BYTES], folder[SCRATCH_PATH_BYTES], path[SCRATCH_PATH_BYTES];
    uint8_t bytes[IDX_FILE_ROOM];
    struct timespec changed;
    DatasetSource source;
    Loaded fresh;
    Error err;
    int fd;
    setenv("SOUNDER_CACHE", "on", 1);
    setenv("XDG_CACHE_HOME", scratch_path(home, *state, "cache-in-use"), 1);
    idx_files_write(new_folder(folder, *state, "in-use"), GRAY_SET, true);
    check_ok(load(&fresh, folder, 1, &err));
    check_ok(dataset_find(&source, folder, 1, &err));
    assert_true(unpacked_cache_open(&fd, &changed, &source));
    void *mapped = mmap(NULL, source.block_bytes, PROT_READ, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(mapped, MAP_FAILED);

    IdxFile other = GRAY_SET[0];
    other.bytes[16] = 77;
    scratch_write(idx_file_path(path, folder, &other, true), bytes, idx_file_bytes(bytes, &other, true));
    // In one tick of the clock its time would be the same.
    const struct timespec then[] = {{1600000000, 0}, {1600000000, 0}};
    assert_int_equal(utimensat(AT_FDCWD, path, then, 0), 0);
    Loaded newer;
    check_ok(load(&newer, folder, 1, &err));
    assert_int_equal(newer.data.train.pixels[0], 77);
    assert_memory_equal(mapped, fresh.block, fresh.bytes);
    struct stat about;
    assert_int_equal(fstat(fd, &about), 0);
    assert_int_equal(about.st_mtim.tv_nsec, changed.tv_nsec); // losing its name is no change
    munmap(mapped, source.block_bytes);
    close(fd);
    free(newer.block);
    free(fresh.block);
    setenv("SOUNDER_CACHE", "off", 1);
    unsetenv("XDG_CACHE_HOME");
}

static void no_copy_is_kept_of_plain_files_or_when_it_is_turned_off_or_cannot_be_written(void **state) {
    char home[SCRATCH_PATH_BYTES], plain[SCRATCH_PATH_BYTES], packed[SCRATCH_PATH_BYTES], copy[SCRATCH_PATH_BYTES];
    idx_files_write(new_folder(plain, *state, "no-copy-plain"), GRAY_SET, false);
    idx_files_write(new_folder(packed, *state, "no-copy-packed"), GRAY_SET, true);
    setenv("XDG_CACHE_HOME", scratch_path(home, *state, "no-cache"), 1);
    expect_unpacks_gray_set(packed); // SOUNDER_CACHE is off
    setenv("SOUNDER_CACHE", "on", 1);
    expect_unpacks_gray_set(plain);
    assert_int_equal(strlen(cached_copy(copy, home)), 0);
    scratch_write(home, "a file in the way", 17);
    expect_unpacks_gray_set(packed);
    assert_int_equal(unlink(home), 0);

    struct rlimit before, limit; // as on a full disk
    void (*ignored)(int) = signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    limit = (struct rlimit){.rlim_cur = 100, .rlim_max = before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
    expect_unpacks_gray_set(packed);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, ignored);
    assert_int_equal(strlen(cached_copy(copy, home)), 0);
    setenv("SOUNDER_CACHE", "off", 1);
    unsetenv("XDG_CACHE_HOME");
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_files_are_unpacked_once_and_every_damage_to_the_copy_is_noticed),
        cmocka_unit_test(a_copy_of_other_files_or_one_that_others_may_write_is_not_used),
        cmocka_unit_test(a_copy_of_files_of_another_time_is_not_used),
        cmocka_unit_test(who_has_a_copy_open_keeps_it_when_a_newer_one_replaces_it),
        cmocka_unit_test(no_copy_is_kept_of_plain_files_or_when_it_is_turned_off_or_cannot_be_written),
    };
    setenv("SOUNDER_CACHE", "off", 1);
    unsetenv("SOUNDER_DATA");
    return run_cases(argc, argv, tests, scratch_set_up, scratch_tear_down);
}

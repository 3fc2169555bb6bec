// Checkpoints: the same bits come back, the last two are kept, and a damaged one is noticed and passed over.
#include "io/checkpoint.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "tests/scratch.h"

// A disk whose folders give an error after so many entries; -1: a good one. It stands before libc's own readdir.
static int fail_readdir_after = -1;

struct dirent *readdir(DIR *listing) {
    if (fail_readdir_after-- == 0) {
        errno = EIO;
        return NULL;
    }
    struct dirent *(*real)(DIR *) = (struct dirent * (*)(DIR *)) dlsym(RTLD_NEXT, "readdir");
    return real(listing);
}

static const float WEIGHT[6] = {1.5f, -2, 3.25e-30f, INFINITY, -0.0f, 6};
static const float VELOCITY[2] = {0.1f, 0.2f};
static const NamedTensor TENSORS[2] = {
    {.name = "fc1.weight", .rank = 2, .shape = {2, 3}, .values = WEIGHT},
    {.name = "momentum/fc1.bias", .rank = 1, .shape = {2}, .values = VELOCITY},
};
static const TensorNote NOTES[1] = {{"options", "lr: 0.01\n"}};

static Folder open_folder(const char *path) {
    Folder folder = {.fd = open(path, O_RDONLY | O_DIRECTORY), .path = path};
    assert_true(folder.fd >= 0);
    return folder;
}

static Status write_round(const char *path, uint32_t round, Error *err) {
    Folder folder = open_folder(path);
    Status status = checkpoint_write(&folder, round, TENSORS, 2, NOTES, 1, false, err);
    close(folder.fd);
    return status;
}

static Status open_last(Safetensors *file, bool *found, uint32_t *rounds_done, const char *path, Error *err) {
    Folder folder = open_folder(path);
    Status status = checkpoint_open_last(file, found, rounds_done, &folder, err);
    close(folder.fd);
    return status;
}

static const char *round_path(char path[SCRATCH_PATH_BYTES], const char *folder, uint32_t round) {
    char name[64];
    snprintf(name, sizeof name, "round-%06u.safetensors", round);
    return scratch_path(path, folder, name);
}

static bool exists(const char *folder, uint32_t round) {
    char path[SCRATCH_PATH_BYTES];
    return access(round_path(path, folder, round), F_OK) == 0;
}

static const char *new_folder(char path[SCRATCH_PATH_BYTES], const char *parent, const char *name) {
    assert_int_equal(mkdir(scratch_path(path, parent, name), 0700), 0);
    return path;
}

static void expect_last(const char *folder, uint32_t expected) {
    Safetensors file;
    uint32_t rounds_done;
    float weight[6], velocity[2];
    bool found;
    Error err;
    check_ok(open_last(&file, &found, &rounds_done, folder, &err));
    assert_true(found);
    assert_int_equal(rounds_done, expected);
    check_ok(checkpoint_load(weight, &file, &TENSORS[0], &err));
    check_ok(checkpoint_load(velocity, &file, &TENSORS[1], &err));
    assert_memory_equal(weight, WEIGHT, sizeof weight);
    assert_memory_equal(velocity, VELOCITY, sizeof velocity);
    assert_string_equal(safetensors_note(&file, "options"), "lr: 0.01\n");
    safetensors_close(&file);
}

static void the_last_checkpoint_comes_back_to_the_bit_and_two_are_kept(void **state) {
    char folder[SCRATCH_PATH_BYTES], path[SCRATCH_PATH_BYTES];
    Error err;
    new_folder(folder, *state, "kept");
    scratch_write(scratch_path(path, folder, "round-1.safetensors"), "not ours", 8);
    scratch_write(scratch_path(path, folder, "notes.txt"), "not ours", 8);
    const uint32_t rounds[] = {1, 2, 5, 1000000};
    for (size_t i = 0; i < sizeof rounds / sizeof *rounds; i++) {
        check_ok(write_round(folder, rounds[i], &err));
        expect_last(folder, rounds[i]);
        for (size_t before = 0; before < i; before++)
            assert_int_equal(exists(folder, rounds[before]), before + 1 == i);
    }
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(access(scratch_path(path, folder, "round-1.safetensors"), F_OK), 0);
}

static void equal_states_give_equal_files(void **state) {
    char folders[2][SCRATCH_PATH_BYTES], path[SCRATCH_PATH_BYTES];
    char *bytes[2];
    size_t counts[2];
    Error err;
    for (int i = 0; i < 2; i++) {
        new_folder(folders[i], *state, i ? "equal-b" : "equal-a");
        check_ok(write_round(folders[i], 3, &err));
        bytes[i] = scratch_read(round_path(path, folders[i], 3), &counts[i]);
    }
    assert_int_equal(counts[0], counts[1]);
    assert_memory_equal(bytes[0], bytes[1], counts[0]);
    free(bytes[0]);
    free(bytes[1]);
}

static void a_folder_without_checkpoints_is_told(void **state) {
    char folder[SCRATCH_PATH_BYTES];
    Safetensors file;
    uint32_t rounds_done;
    bool found = true;
    Error err;
    check_ok(open_last(&file, &found, &rounds_done, new_folder(folder, *state, "empty"), &err));
    assert_false(found);
}

// An error of the folder is no empty folder, and a file that cannot be read is no damaged one: who takes them for that
// starts over and loses what is there.
static void what_cannot_be_read_ends_the_search(void **state) {
    char path[SCRATCH_PATH_BYTES], folder_path[SCRATCH_PATH_BYTES];
    Safetensors file;
    uint32_t rounds_done;
    bool found;
    Error err;
    check_ok(write_round(new_folder(folder_path, *state, "unreadable"), 3, &err));
    check_ok(write_round(folder_path, 4, &err));
    Folder folder = open_folder(folder_path);
    fail_readdir_after = 1;
    assert_int_equal(checkpoint_open_last(&file, &found, &rounds_done, &folder, &err), STATUS_IO);
    assert_non_null(strstr(err.message, "unreadable cannot be listed"));
    fail_readdir_after = 1;
    assert_int_equal(checkpoint_write(&folder, 1, TENSORS, 2, NOTES, 1, false, &err), STATUS_IO);
    fail_readdir_after = -1;
    assert_true(exists(folder_path, 3) && exists(folder_path, 4));
    assert_int_equal(unlink(round_path(path, folder_path, 4)), 0);
    assert_int_equal(symlink("round-000004.safetensors", path), 0); // ELOOP
    assert_int_equal(checkpoint_open_last(&file, &found, &rounds_done, &folder, &err), STATUS_NOINPUT);
    close(folder.fd);
}

static void a_good_checkpoint_of_a_later_round_is_never_removed(void **state) {
    char folder[SCRATCH_PATH_BYTES];
    Error err;
    new_folder(folder, *state, "later");
    check_ok(write_round(folder, 499, &err));
    check_ok(write_round(folder, 500, &err));
    for (uint32_t round = 1; round <= 3; round++)
        check_ok(write_round(folder, round, &err));
    assert_true(exists(folder, 499) && exists(folder, 500));
    assert_false(exists(folder, 1));
    expect_last(folder, 500);
}

// Any flipped bit and any truncation of the newest makes the one before it the last.
static void a_damaged_checkpoint_is_passed_over(void **state) {
    char folder[SCRATCH_PATH_BYTES], path[SCRATCH_PATH_BYTES];
    size_t whole;
    Error err;
    new_folder(folder, *state, "damaged");
    check_ok(write_round(folder, 7, &err));
    check_ok(write_round(folder, 8, &err));
    char *bytes = scratch_read(round_path(path, folder, 8), &whole);
    for (size_t bit = 0; bit < 8 * whole; bit++) {
        bytes[bit / 8] = (char)(bytes[bit / 8] ^ 1 << bit % 8);
        scratch_write(path, bytes, whole);
        expect_last(folder, 7);
        bytes[bit / 8] = (char)(bytes[bit / 8] ^ 1 << bit % 8);
    }
    for (size_t count = 0; count < whole; count++) {
        scratch_write(path, bytes, count);
        expect_last(folder, 7);
    }
    scratch_write(path, bytes, whole);
    expect_last(folder, 8);
    // A copy under another round's name is no checkpoint of that round.
    scratch_write(round_path(path, folder, 9), bytes, whole);
    expect_last(folder, 8);
    free(bytes);
}

static void the_one_before_is_found_without_its_checksum(void **state) {
    char folder[SCRATCH_PATH_BYTES], path[SCRATCH_PATH_BYTES];
    Safetensors file;
    Error err;
    bool found;
    new_folder(folder, *state, "before");
    const Folder open_folder = {.fd = open(folder, O_RDONLY | O_DIRECTORY), .path = folder};
    check_ok(write_round(folder, 3, &err));
    check_ok(checkpoint_open_before(&file, &found, 3, &open_folder, &err));
    assert_false(found);
    check_ok(write_round(folder, 7, &err));
    for (int damaged = 0; damaged < 2; damaged++) {
        check_ok(checkpoint_open_before(&file, &found, 7, &open_folder, &err));
        assert_true(found);
        assert_string_equal(safetensors_note(&file, "rounds_done"), "3");
        safetensors_close(&file);
        size_t count;
        char *bytes = scratch_read(round_path(path, folder, 3), &count);
        bytes[count - 1] ^= 1;
        scratch_write(path, bytes, count);
        free(bytes);
    }
    scratch_write(path, "no such file", 12);
    check_ok(checkpoint_open_before(&file, &found, 7, &open_folder, &err));
    assert_false(found);
    close(open_folder.fd);
}

static void damaged_later_checkpoints_never_displace_the_new_one(void **state) {
    char folder[SCRATCH_PATH_BYTES], path[SCRATCH_PATH_BYTES];
    Error err;
    new_folder(folder, *state, "displaced");
    check_ok(write_round(folder, 8, &err));
    scratch_write(round_path(path, folder, 10), "damaged", 7);
    scratch_write(round_path(path, folder, 12), "damaged", 7);
    expect_last(folder, 8);
    check_ok(write_round(folder, 9, &err));
    assert_true(exists(folder, 8));
    assert_false(exists(folder, 10) || exists(folder, 12));
    expect_last(folder, 9);
}

static void what_a_killed_writer_left_is_removed(void **state) {
    char folder[SCRATCH_PATH_BYTES], path[SCRATCH_PATH_BYTES];
    Error err;
    new_folder(folder, *state, "partial");
    scratch_write(scratch_path(path, folder, ".round-000004.safetensors.partial"), "half", 4);
    check_ok(write_round(folder, 3, &err));
    assert_int_not_equal(access(path, F_OK), 0);
}

static void expect_refused(const Safetensors *file, const NamedTensor *tensor, const char *sentence) {
    float values[6] = {0};
    Error err;
    assert_int_equal(checkpoint_load(values, file, tensor, &err), STATUS_DATA);
    assert_non_null(strstr(err.message, sentence));
    assert_true(values[0] == 0);
}

static void loading_checks_name_shape_and_type(void **state) {
    char folder[SCRATCH_PATH_BYTES], why[CHECKPOINT_WHY_BYTES];
    Safetensors file;
    uint32_t rounds_done;
    bool found;
    Error err;
    new_folder(folder, *state, "loading");
    check_ok(write_round(folder, 1, &err));
    check_ok(open_last(&file, &found, &rounds_done, folder, &err));
    NamedTensor wanted = {.name = "fc2.weight", .rank = 2, .shape = {2, 3}};
    expect_refused(&file, &wanted, "fc2.weight is missing");
    strcpy(wanted.name, "fc1.weight");
    wanted.shape[1] = 4;
    expect_refused(&file, &wanted, "fc1.weight is 2x3, not 2x4;");
    wanted = (NamedTensor){.name = "fc1.weight", .rank = 2, .shape = {3, 2}}; // as many values, in another order
    expect_refused(&file, &wanted, "fc1.weight is 2x3, not 3x2 (save its transpose)");
    wanted = (NamedTensor){.name = "fc1.weight", .rank = 1, .shape = {6}};
    expect_refused(&file, &wanted, "fc1.weight is 2x3, not 6;");
    wanted = (NamedTensor){.name = "fc1.weight", .type = TENSOR_I32, .rank = 2, .shape = {2, 3}};
    expect_refused(&file, &wanted, "fc1.weight is of type F32, not I32");
    assert_false(checkpoint_fits(why, &file, &TENSORS[0], true)); // one weight is infinite
    assert_string_equal(why, "fc1.weight has values that are not finite");
    assert_true(checkpoint_fits(why, &file, &TENSORS[1], true));
    safetensors_close(&file);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_checkpoint_comes_back_to_the_bit_and_two_are_kept),
        cmocka_unit_test(equal_states_give_equal_files),
        cmocka_unit_test(a_folder_without_checkpoints_is_told),
        cmocka_unit_test(what_cannot_be_read_ends_the_search),
        cmocka_unit_test(a_good_checkpoint_of_a_later_round_is_never_removed),
        cmocka_unit_test(a_damaged_checkpoint_is_passed_over),
        cmocka_unit_test(the_one_before_is_found_without_its_checksum),
        cmocka_unit_test(damaged_later_checkpoints_never_displace_the_new_one),
        cmocka_unit_test(what_a_killed_writer_left_is_removed),
        cmocka_unit_test(loading_checks_name_shape_and_type),
    };
    log_init(LOG_ERROR, LOG_RANK_PARENT); // thousands of damaged checkpoints would each be warned of
    return run_cases(argc, argv, tests, scratch_set_up, scratch_tear_down);
}

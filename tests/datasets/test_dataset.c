// Data sets: how they are found, read into one block and viewed, and that damage is never more than a sentence.
#include "datasets/dataset.h"

#include <math.h>
#include <stdbool.h>

#include "loaded.h"

static void expect_failure(const char *data, Status expected, const char *sentence_part) {
    Loaded loaded;
    Error err = {.message = ""};
    assert_int_equal(load(&loaded, data, 1, &err), expected);
    if (!strstr(err.message, sentence_part)) fail_msg("\"%s\" does not say \"%s\"", err.message, sentence_part);
}

static void plain_and_packed_folders_give_equal_blocks(void **state) {
    char plain[SCRATCH_PATH_BYTES], packed[SCRATCH_PATH_BYTES], parent[SCRATCH_PATH_BYTES];
    Loaded from_plain, from_packed;
    Error err;
    idx_files_write(new_folder(plain, *state, "same-name"), GRAY_SET, false);
    new_folder(parent, *state, "elsewhere");
    idx_files_write(new_folder(packed, parent, "same-name"), GRAY_SET, true);
    check_ok(load(&from_plain, plain, 1, &err));
    check_ok(load(&from_packed, packed, 1, &err));
    expect_gray_set(&from_plain);
    assert_string_equal(from_plain.data.name, "same-name");
    assert_int_equal(from_plain.bytes, from_packed.bytes);
    assert_memory_equal(from_plain.block, from_packed.block, from_plain.bytes);
    free(from_plain.block);
    free(from_packed.block);
}

static void a_seed_gives_made_up_data_of_its_own(void **state) {
    (void)state;
    Loaded loaded[3];
    Error err;
    for (int i = 0; i < 3; i++)
        check_ok(load(&loaded[i], "synthetic:1x4x4:20:10", i < 2 ? 1 : 2, &err));
    assert_memory_equal(loaded[0].data.train.pixels, loaded[1].data.train.pixels, 20 * 16);
    assert_memory_not_equal(loaded[0].data.train.pixels, loaded[2].data.train.pixels, 20 * 16);
    for (int i = 0; i < 3; i++)
        free(loaded[i].block);
}

static void a_plain_file_is_preferred_to_a_packed_one(void **state) {
    char folder[SCRATCH_PATH_BYTES], path[SCRATCH_PATH_BYTES];
    Loaded loaded;
    Error err;
    idx_files_write(new_folder(folder, *state, "both"), GRAY_SET, false);
    scratch_write(scratch_path(path, folder, "train-images-idx3-ubyte.gz"), "not gzip", 8);
    check_ok(load(&loaded, folder, 1, &err));
    expect_gray_set(&loaded);
    free(loaded.block);
}

static void file_names_with_dots_are_found(void **state) {
    char folder[SCRATCH_PATH_BYTES], from[SCRATCH_PATH_BYTES], to[SCRATCH_PATH_BYTES];
    Loaded loaded;
    Error err;
    idx_files_write(new_folder(folder, *state, "dots"), GRAY_SET, true);
    assert_int_equal(rename(scratch_path(from, folder, "train-images-idx3-ubyte.gz"),
                            scratch_path(to, folder, "train-images.idx3-ubyte.gz")),
                     0);
    check_ok(load(&loaded, folder, 1, &err));
    expect_gray_set(&loaded);
    free(loaded.block);
}

static void one_channel_is_normalised_as_mnist(void **state) {
    char folder[SCRATCH_PATH_BYTES];
    Loaded loaded;
    Error err;
    idx_files_write(new_folder(folder, *state, "gray"), GRAY_SET, false);
    check_ok(load(&loaded, folder, 1, &err));
    for (int pixel = 0; pixel < 256; pixel++) {
        float entering = (float)pixel * loaded.data.scale[0] + loaded.data.shift[0];
        assert_true(fabs((double)entering - (pixel / 255.0 - 0.1307) / 0.3081) < 1e-6);
    }
    free(loaded.block);
}

static void several_channels_are_normalised_by_their_training_split(void **state) {
    char folder[SCRATCH_PATH_BYTES];
    Loaded loaded;
    Error err;
    idx_files_write(new_folder(folder, *state, "colour"), COLOUR_SET, false);
    check_ok(load(&loaded, folder, 1, &err));
    assert_int_equal(loaded.data.shape.channels, 2);
    assert_int_equal(loaded.data.classes, 2);
    const double pixels[4] = {0, 100, 200, 20}; // channel 0 of the training images
    double sum = 0, squares = 0;
    for (int i = 0; i < 4; i++) {
        double entering = pixels[i] * (double)loaded.data.scale[0] + (double)loaded.data.shift[0];
        sum += entering;
        squares += entering * entering;
    }
    assert_true(fabs(sum / 4) < 1e-5);
    assert_true(fabs(squares / 4 - 1) < 1e-5);
    // A constant channel is centred, not divided by zero.
    assert_true(fabs(51 * (double)loaded.data.scale[1] + (double)loaded.data.shift[1]) < 1e-6);
    free(loaded.block);
}

static void names_are_looked_for_in_the_search_path_in_order(void **state) {
    char data[SCRATCH_PATH_BYTES], cache[SCRATCH_PATH_BYTES], sounder[SCRATCH_PATH_BYTES], folder[SCRATCH_PATH_BYTES];
    DatasetSource source;
    Error err;
    setenv("SOUNDER_DATA", new_folder(data, *state, "data"), 1);
    setenv("XDG_CACHE_HOME", new_folder(cache, *state, "cache"), 1);
    new_folder(sounder, cache, "sounder");
    assert_int_equal(dataset_find(&source, "little", 1, &err), STATUS_NOINPUT);

    idx_files_write(new_folder(folder, sounder, "little"), GRAY_SET, true);
    check_ok(dataset_find(&source, "little", 1, &err));
    assert_string_equal(source.folder, folder);
    assert_string_equal(source.name, "little");

    new_folder(folder, data, "little"); // empty: passed over
    check_ok(dataset_find(&source, "little", 1, &err));
    assert_string_not_equal(source.folder, folder);
    idx_files_write(folder, GRAY_SET, true);
    check_ok(dataset_find(&source, "little", 1, &err));
    assert_string_equal(source.folder, folder);

    // A folder here of that name comes first; a file of that name is none.
    char before[SCRATCH_PATH_BYTES];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(*state), 0);
    scratch_write("little", "no folder", 9);
    check_ok(dataset_find(&source, "little", 1, &err));
    assert_string_equal(source.folder, folder);
    assert_int_equal(unlink("little"), 0);
    idx_files_write(new_folder(folder, *state, "little"), GRAY_SET, true);
    check_ok(dataset_find(&source, "little", 1, &err));
    assert_string_equal(source.folder, folder);
    assert_int_equal(chdir(before), 0);
    unsetenv("SOUNDER_DATA");
    unsetenv("XDG_CACHE_HOME");
}

static void the_cache_folder_is_in_the_home_by_default(void **state) {
    char home[SCRATCH_PATH_BYTES], cache[SCRATCH_PATH_BYTES], sounder[SCRATCH_PATH_BYTES], folder[SCRATCH_PATH_BYTES];
    const char *home_before = getenv("HOME");
    char *kept = home_before ? strdup(home_before) : NULL;
    DatasetSource source;
    Error err;
    setenv("HOME", new_folder(home, *state, "home"), 1);
    new_folder(cache, home, ".cache");
    new_folder(sounder, cache, "sounder");
    idx_files_write(new_folder(folder, sounder, "little"), GRAY_SET, false);
    setenv("XDG_CACHE_HOME", "relative/paths/are/ignored", 1);
    check_ok(dataset_find(&source, "little", 1, &err));
    assert_string_equal(source.folder, folder);
    unsetenv("XDG_CACHE_HOME");
    if (kept) setenv("HOME", kept, 1);
    free(kept);
}

static void a_missing_set_says_where_it_was_looked_for_and_how_to_get_it(void **state) {
    char data[SCRATCH_PATH_BYTES], folder[SCRATCH_PATH_BYTES], archive[SCRATCH_PATH_BYTES];
    setenv("SOUNDER_DATA", scratch_path(data, *state, "nowhere"), 1);
    setenv("XDG_CACHE_HOME", data, 1);
    expect_failure("mnist", STATUS_NOINPUT, "sounder data get mnist");
    expect_failure("mnist", STATUS_NOINPUT, data);
    expect_failure("no-such-set", STATUS_NOINPUT, "/usr/share/datasets/no-such-set");
    unsetenv("SOUNDER_DATA");
    unsetenv("XDG_CACHE_HOME");
    expect_failure(scratch_path(data, *state, "nowhere"), STATUS_NOINPUT, data);
    expect_failure(new_folder(folder, *state, "empty"), STATUS_NOINPUT, "no file train-images-idx3-ubyte");
    scratch_write(scratch_path(archive, folder, "mine.npz"), "", 0);
    expect_failure(folder, STATUS_NOINPUT, archive);
    scratch_write(scratch_path(archive, folder, "other.npz"), "", 0); // which of two is meant cannot be known
    expect_failure(folder, STATUS_NOINPUT, "no file train-images-idx3-ubyte");
}

static void one_array_is_a_file_and_no_folder_of_its_name(void **state) {
    char path[SCRATCH_PATH_BYTES];
    expect_failure(new_folder(path, *state, "folder.npy"), STATUS_NOINPUT, "no file train-images-idx3-ubyte");
    scratch_write(scratch_path(path, *state, "file.npy"), "", 0);
    expect_failure(path, STATUS_NOINPUT, "one array");
}

// Writes the gray set with file `f` replaced, and expects a refusal that says so.
static void expect_contradiction(const char *parent, int f, const uint8_t *bytes, size_t count, const char *part) {
    char folder[SCRATCH_PATH_BYTES], path[SCRATCH_PATH_BYTES];
    scratch_path(folder, parent, "contradiction");
    mkdir(folder, 0700);
    idx_files_write(folder, GRAY_SET, false);
    scratch_write(idx_file_path(path, folder, &GRAY_SET[f], false), bytes, count);
    expect_failure(folder, STATUS_DATA, path);
    expect_failure(folder, STATUS_DATA, part);
}

static void files_that_contradict_each_other_are_refused(void **state) {
    const uint8_t too_few_labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 0, 2};
    const uint8_t unknown_label[] = {0, 0, 8, 1, 0, 0, 0, 2, 1, 3};
    const uint8_t other_shape[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1, 7, 7};
    const uint8_t flat_images[] = {0, 0, 8, 2, 0, 0, 0, 3, 0, 0, 0, 1, 7, 7, 7};
    const uint8_t deep_labels[] = {0, 0, 8, 2, 0, 0, 0, 3, 0, 0, 0, 1, 0, 1, 2};
    expect_contradiction(*state, 1, too_few_labels, sizeof too_few_labels, "2 labels (byte 4) for the 3 images");
    expect_contradiction(*state, 3, unknown_label, sizeof unknown_label, "label 3 of sample 1");
    expect_contradiction(*state, 2, other_shape, sizeof other_shape, "1x1x1");
    expect_contradiction(*state, 0, flat_images, sizeof flat_images, "rank 2 at byte 3");
    expect_contradiction(*state, 1, deep_labels, sizeof deep_labels, "rank 2 at byte 3");
}

// Whatever was changed in one file: a set that holds together, or DATA and a sentence with the folder.
static void expect_consistent_or_refused(const char *folder) {
    Loaded loaded;
    Error err = {.message = ""};
    Status status = load(&loaded, folder, 1, &err);
    if (status != STATUS_OK) {
        assert_int_equal(status, STATUS_DATA);
        assert_non_null(strstr(err.message, folder));
        return;
    }
    const Dataset *data = &loaded.data;
    assert_int_equal(data->train.count, 3);
    assert_int_equal(data->test.count, 2);
    assert_int_equal(shape_size(data->shape), 6);
    for (uint32_t i = 0; i < 3; i++)
        assert_in_range(data->train.labels[i], 0, data->classes - 1);
    for (uint32_t i = 0; i < 2; i++)
        assert_in_range(data->test.labels[i], 0, data->classes - 1);
    free(loaded.block);
}

static void damage_every_file(const char *folder, bool packed) {
    char path[SCRATCH_PATH_BYTES];
    uint8_t bytes[IDX_FILE_ROOM];
    idx_files_write(folder, GRAY_SET, packed);
    for (int f = 0; f < IDX_FILES; f++) {
        size_t whole = idx_file_bytes(bytes, &GRAY_SET[f], packed);
        idx_file_path(path, folder, &GRAY_SET[f], packed);
        for (size_t count = 0; count < whole; count++) {
            scratch_write(path, bytes, count);
            expect_failure(folder, STATUS_DATA, path);
        }
        for (size_t bit = 0; bit < 8 * whole; bit++) {
            bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
            scratch_write(path, bytes, whole);
            expect_consistent_or_refused(folder);
            bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        scratch_write(path, bytes, whole);
    }
}

static void every_truncation_and_flipped_bit_of_plain_files_is_survived(void **state) {
    char folder[SCRATCH_PATH_BYTES];
    damage_every_file(new_folder(folder, *state, "damaged-plain"), false);
}

static void every_truncation_and_flipped_bit_of_packed_files_is_survived(void **state) {
    char folder[SCRATCH_PATH_BYTES];
    damage_every_file(new_folder(folder, *state, "damaged-packed"), true);
}

static void of_several_damaged_files_the_first_is_named_whichever_is_read_first(void **state) {
    char folder[SCRATCH_PATH_BYTES], path[IDX_FILES][SCRATCH_PATH_BYTES];
    uint8_t bytes[IDX_FILE_ROOM];
    idx_files_write(new_folder(folder, *state, "all-damaged"), GRAY_SET, true);
    for (int f = IDX_FILES - 1; f >= 0; f--) {
        size_t whole = idx_file_bytes(bytes, &GRAY_SET[f], true);
        bytes[whole - 5] ^= 1; // of the checksum, which comes after everything else
        scratch_write(idx_file_path(path[f], folder, &GRAY_SET[f], true), bytes, whole);
        expect_failure(folder, STATUS_DATA, path[f]);
        expect_failure(folder, STATUS_DATA, "wrong checksum");
    }
}

static void files_that_change_between_finding_and_reading_are_refused(void **state) {
    char folder[SCRATCH_PATH_BYTES];
    DatasetSource source;
    Error err;
    idx_files_write(new_folder(folder, *state, "changing"), GRAY_SET, false);
    check_ok(dataset_find(&source, folder, 1, &err));
    void *block = aligned_alloc(64, source.block_bytes);
    source.counts[DATASET_TEST] = 1;
    assert_int_equal(dataset_read(block, &source, &err), STATUS_DATA);
    assert_non_null(strstr(err.message, "changed"));
    check_ok(dataset_find(&source, folder, 1, &err));
    for (int f = 0; f < IDX_FILES; f++) {
        char path[SCRATCH_PATH_BYTES];
        assert_int_equal(unlink(idx_file_path(path, folder, &GRAY_SET[f], false)), 0);
        assert_int_equal(dataset_read(block, &source, &err), STATUS_NOINPUT);
        assert_non_null(strstr(err.message, GRAY_SET[f].name));
        idx_files_write(folder, GRAY_SET, false);
    }
    check_ok(dataset_read(block, &source, &err));
    free(block);
}

// A plain file's size is known before anything is read, so that nobody makes room for what is not there.
static void a_truncated_plain_file_is_refused_when_it_is_found(void **state) {
    char folder[SCRATCH_PATH_BYTES], path[SCRATCH_PATH_BYTES];
    DatasetSource source;
    Error err;
    new_folder(folder, *state, "truncated");
    for (int f = 0; f < IDX_FILES; f++) {
        idx_files_write(folder, GRAY_SET, false);
        scratch_write(idx_file_path(path, folder, &GRAY_SET[f], false), GRAY_SET[f].bytes, GRAY_SET[f].count - 1);
        assert_int_equal(dataset_find(&source, folder, 1, &err), STATUS_DATA);
        assert_non_null(strstr(err.message, path));
    }
}

static void a_block_works_at_any_address_and_a_damaged_header_is_refused(void **state) {
    (void)state;
    Loaded loaded;
    Dataset data;
    Error err;
    check_ok(load(&loaded, "synthetic:1x4x4:20:10", 1, &err));
    uint8_t *moved = aligned_alloc(64, loaded.bytes);
    memcpy(moved, loaded.block, loaded.bytes);
    check_ok(dataset_view(&data, moved, loaded.bytes, &err));
    assert_ptr_equal(data.train.pixels - moved, loaded.data.train.pixels - (uint8_t *)loaded.block);
    for (size_t shorter = 0; shorter < loaded.bytes; shorter++)
        assert_int_equal(dataset_view(&data, moved, shorter, &err), STATUS_DATA);
    for (size_t bit = 0; bit < 8 * 64; bit++) { // magic, version, shape, classes, counts, offsets
        moved[bit / 8] ^= (uint8_t)(1 << bit % 8);
        Status status = dataset_view(&data, moved, loaded.bytes, &err);
        if (status == STATUS_OK) assert_int_equal(data.train.count, 20);
        moved[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    free(moved);
    free(loaded.block);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_and_packed_folders_give_equal_blocks),
        cmocka_unit_test(a_seed_gives_made_up_data_of_its_own),
        cmocka_unit_test(a_plain_file_is_preferred_to_a_packed_one),
        cmocka_unit_test(file_names_with_dots_are_found),
        cmocka_unit_test(one_channel_is_normalised_as_mnist),
        cmocka_unit_test(several_channels_are_normalised_by_their_training_split),
        cmocka_unit_test(names_are_looked_for_in_the_search_path_in_order),
        cmocka_unit_test(the_cache_folder_is_in_the_home_by_default),
        cmocka_unit_test(a_missing_set_says_where_it_was_looked_for_and_how_to_get_it),
        cmocka_unit_test(one_array_is_a_file_and_no_folder_of_its_name),
        cmocka_unit_test(files_that_contradict_each_other_are_refused),
        cmocka_unit_test(every_truncation_and_flipped_bit_of_plain_files_is_survived),
        cmocka_unit_test(every_truncation_and_flipped_bit_of_packed_files_is_survived),
        cmocka_unit_test(of_several_damaged_files_the_first_is_named_whichever_is_read_first),
        cmocka_unit_test(files_that_change_between_finding_and_reading_are_refused),
        cmocka_unit_test(a_truncated_plain_file_is_refused_when_it_is_found),
        cmocka_unit_test(a_block_works_at_any_address_and_a_damaged_header_is_refused),
    };
    setenv("SOUNDER_CACHE", "off", 1);
    unsetenv("SOUNDER_DATA");
    return run_cases(argc, argv, tests, scratch_set_up, scratch_tear_down);
}

// Where samples lie: in the data set's block, or in their file as long as they stand there as they enter a net.
#include "datasets/samples_file.h"

#include "array_files.h"
#include "loaded.h"

// 3: the samples of both splits stay in their files.
static void expect_outside(const char *place, uint32_t expected) {
    DatasetSource source;
    Error err;
    check_ok(dataset_find(&source, place, 1, &err));
    assert_int_equal(source.items.outside, expected);
    Loaded loaded;
    check_ok(load(&loaded, place, 1, &err));
    assert_int_equal(loaded.data.items.outside, expected);
    free(loaded.block);
}

static void samples_stay_in_their_files_if_they_lie_there_as_they_enter_a_net(void **state) {
    static const float one[] = {1};
    const double wide[4] = {4, 40, 5, 50};
    char path[SCRATCH_PATH_BYTES], file[SCRATCH_PATH_BYTES];
    Altered pixels = altered(GRAY_ARRAYS), numbers = numbers_set();
    put(&pixels, "mean", "<f4", "(1,)", one, sizeof one);
    put(&pixels, "std", "<f4", "(1,)", one, sizeof one);
    expect_outside(arrays_write(path, *state, "pixels", pixels.files, ARRAYS_IN_FOLDER), 3);
    expect_outside(arrays_write(path, *state, "pixels", pixels.files, ARRAYS_STORED), 3);
    expect_outside(arrays_write(path, *state, "pixels", pixels.files, ARRAYS_DEFLATED), 0);
    expect_outside(arrays_write(path, *state, "numbers", numbers.files, ARRAYS_IN_FOLDER), 3);
    expect_outside(arrays_write(path, *state, "numbers", numbers.files, ARRAYS_STORED), 3); // at odd bytes
    put(&numbers, "x_test", "<f8", "(2, 2)", wide, sizeof wide);
    expect_outside(arrays_write(path, *state, "wide", numbers.files, ARRAYS_STORED), 1);
    put(&numbers, "mean", "<f4", "(1,)", one, sizeof one);
    put(&numbers, "std", "<f4", "(1,)", one, sizeof one);
    expect_outside(arrays_write(path, *state, "normal", numbers.files, ARRAYS_STORED), 0);
    uint8_t bytes[ARRAY_ROOM];
    arrays_write(path, *state, "zipped", GRAY_ARRAYS, ARRAYS_IN_FOLDER);
    gzFile packed = gzopen(scratch_path(file, path, "x_train.npy"), "wb");
    const size_t count = array_bytes(bytes, GRAY_ARRAYS);
    assert_int_equal(gzwrite(packed, bytes, (unsigned)count), count);
    gzclose(packed);
    expect_outside(path, 2);
}

static void a_file_that_is_cut_off_while_it_is_mapped_reads_as_zeros_and_is_named(void **state) {
    char path[SCRATCH_PATH_BYTES];
    DatasetSource source;
    SamplesFile files[2];
    Error err = {.message = ""};
    check_ok(dataset_find(&source, arrays_write(path, *state, "cut", GRAY_ARRAYS, ARRAYS_STORED), 1, &err));
    check_ok(samples_file_open(&files[0], &source, DATASET_TRAIN, &err));
    check_ok(samples_file_open(&files[1], &source, DATASET_TEST, &err));
    assert_memory_equal(files[0].samples, GRAY_SET[0].bytes + 16, 18);
    check_ok(samples_file_check(&files[0], &err));
    assert_int_equal(truncate(path, 0), 0);
    for (int i = 0; i < 18; i++)
        assert_int_equal(files[0].samples[i], 0); // a SIGBUS here would be the failure
    assert_int_equal(files[1].samples[11], 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(samples_file_check(&files[i], &err), STATUS_DATA);
        assert_non_null(strstr(err.message, path));
        assert_non_null(strstr(err.message, "was written to, or its time changed"));
        samples_file_free(&files[i]);
        assert_int_equal(files[i].fd, -1);
    }
    assert_int_equal(samples_file_open(&files[0], &source, DATASET_TRAIN, &err), STATUS_DATA);
    assert_non_null(
        strstr(err.message,
               "cut.npz: x_train: changed while the data set was being read; start again when nobody writes to it"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(samples_file_open(&files[0], &source, DATASET_TRAIN, &err), STATUS_NOINPUT);
}

static void samples_of_several_channels_are_normalised_where_they_lie(void **state) {
    static const uint8_t pixels[] = {0, 10, 20, 30, 255, 245, 5, 15};
    static const int32_t labels[2] = {0, 1};
    char path[SCRATCH_PATH_BYTES];
    Loaded from_file, from_block;
    Error err;
    Altered set = {0};
    put(&set, "x_train", "|u1", "(2, 2, 1, 2)", pixels, sizeof pixels);
    put(&set, "y_train", "<i4", "(2,)", labels, sizeof labels);
    put(&set, "x_test", "|u1", "(2, 2, 1, 2)", pixels, sizeof pixels);
    put(&set, "y_test", "<i4", "(2,)", labels, sizeof labels);
    check_ok(load(&from_file, arrays_write(path, *state, "colours", set.files, ARRAYS_STORED), 1, &err));
    check_ok(load(&from_block, arrays_write(path, *state, "colours", set.files, ARRAYS_DEFLATED), 1, &err));
    assert_int_equal(from_file.data.items.outside, 3);
    assert_int_equal(from_block.data.items.outside, 0);
    assert_true(from_file.data.scale[0] != from_file.data.scale[1]);
    assert_memory_equal(from_file.data.scale, from_block.data.scale, sizeof from_block.data.scale);
    assert_memory_equal(from_file.data.shift, from_block.data.shift, sizeof from_block.data.shift);
    free(from_file.block);
    free(from_block.block);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_stay_in_their_files_if_they_lie_there_as_they_enter_a_net),
        cmocka_unit_test(a_file_that_is_cut_off_while_it_is_mapped_reads_as_zeros_and_is_named),
        cmocka_unit_test(samples_of_several_channels_are_normalised_where_they_lie),
    };
    setenv("SOUNDER_CACHE", "off", 1);
    return run_cases(argc, argv, tests, scratch_set_up, scratch_tear_down);
}

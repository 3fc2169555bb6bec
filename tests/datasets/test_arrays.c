// NumPy's arrays as data sets: folders and archives, pixels and numbers, classes and targets, and every damage.
#include <math.h>

#include "array_files.h"
#include "loaded.h"

static const float *floats_of(const void *bytes) {
    return bytes;
}

static void folders_and_archives_of_arrays_hold_what_idx_files_hold(void **state) {
    char idx[SCRATCH_PATH_BYTES], path[SCRATCH_PATH_BYTES];
    Loaded from_idx, from_arrays;
    Error err;
    idx_files_write(new_folder(idx, *state, "idx"), GRAY_SET, false);
    check_ok(load(&from_idx, idx, 1, &err));
    for (ArrayPacking packing = ARRAYS_IN_FOLDER; packing <= ARRAYS_DEFLATED; packing++) {
        check_ok(load(&from_arrays, arrays_write(path, *state, "arrays", GRAY_ARRAYS, packing), 1, &err));
        expect_gray_set(&from_arrays);
        assert_memory_equal(from_arrays.data.scale, from_idx.data.scale, sizeof from_idx.data.scale);
        assert_memory_equal(from_arrays.data.shift, from_idx.data.shift, sizeof from_idx.data.shift);
        free(from_arrays.block);
    }
    char upper[SCRATCH_PATH_BYTES]; // of the last archive
    assert_int_equal(rename(path, scratch_path(upper, *state, "UPPER.NPZ")), 0);
    check_ok(load(&from_arrays, upper, 1, &err));
    expect_gray_set(&from_arrays);
    free(from_arrays.block);
    free(from_idx.block);
}

static void labels_alone_have_counts_and_classes_but_no_samples(void **state) {
    const ArrayFile files[] = {GRAY_ARRAYS[1], GRAY_ARRAYS[3], {0}};
    const ArrayFile with_mean[] = {GRAY_ARRAYS[1],
                                   GRAY_ARRAYS[3],
                                   {"mean", "<f4", "(1,)", "\0\0\0\0", 4},
                                   {"std", "<f4", "(1,)", "\0\0\x80\x3f", 4},
                                   {0}};
    char path[SCRATCH_PATH_BYTES];
    Loaded whole, alone;
    Error err;
    check_ok(load(&whole, arrays_write(path, *state, "whole", GRAY_ARRAYS, ARRAYS_STORED), 1, &err));
    for (ArrayPacking packing = ARRAYS_IN_FOLDER; packing <= ARRAYS_DEFLATED; packing++) {
        check_ok(load(&alone, arrays_write(path, *state, "alone", files, packing), 1, &err));
        assert_true(dataset_has_samples(&whole.data.items) && !dataset_has_samples(&alone.data.items));
        assert_int_equal(alone.data.train.count, whole.data.train.count);
        assert_int_equal(alone.data.test.count, whole.data.test.count);
        assert_int_equal(alone.data.classes, whole.data.classes);
        assert_memory_equal(alone.data.train.labels, whole.data.train.labels, 3 * sizeof(uint16_t));
        assert_int_equal(dataset_sample_bytes(&alone.data, &alone.data.train), 0);
        free(alone.block);
    }
    assert_int_equal(load(&alone, arrays_write(path, *state, "mean", with_mean, ARRAYS_STORED), 1, &err), STATUS_DATA);
    assert_non_null(strstr(err.message, "mean and std of samples that are not there"));
    free(whole.block);
}

static void numbers_and_targets_come_as_single_precision(void **state) {
    char path[SCRATCH_PATH_BYTES];
    Loaded loaded;
    Error err;
    Altered set = numbers_set();
    check_ok(load(&loaded, arrays_write(path, *state, "numbers", set.files, ARRAYS_STORED), 1, &err));
    assert_int_equal(loaded.data.items.pixel_bytes, 4);
    assert_int_equal(loaded.data.items.label_bytes, 4);
    assert_int_equal(loaded.data.classes, 1);
    assert_int_equal(shape_size(loaded.data.shape), 2);
    assert_memory_equal(loaded.data.train.pixels, TRAIN_NUMBERS, sizeof TRAIN_NUMBERS);
    for (int i = 0; i < 3; i++)
        assert_true(fabs((double)floats_of(loaded.data.train.labels)[i] - TRAIN_TARGETS[i]) == 0);
    free(loaded.block);

    const double wide[4] = {4, 40, 5, 50};
    put(&set, "x_test", "<f8", "(2, 2)", wide, sizeof wide);
    put(&set, "y_train", "|u1", "(3,)", "\0\1\0", 3);
    put(&set, "y_test", "|b1", "(2,)", "\1\0", 2);
    check_ok(load(&loaded, arrays_write(path, *state, "numbers", set.files, ARRAYS_STORED), 1, &err));
    assert_memory_equal(loaded.data.test.pixels, TEST_NUMBERS, sizeof TEST_NUMBERS);
    assert_false(dataset_has_targets(&loaded.data.items));
    assert_int_equal(loaded.data.classes, 2);
    free(loaded.block);
}

static void samples_have_up_to_four_dimensions(void **state) {
    static const struct {
        const char *shape;
        Shape expected;
    } cases[] = {{"(4,)", {1, 1, 1}}, {"(2, 2)", {1, 1, 2}}, {"(1, 2, 2)", {1, 2, 2}}, {"(1, 2, 1, 2)", {2, 1, 2}}};
    static const int32_t labels[4] = {0};
    static const uint32_t counts[] = {4, 2, 1, 1};
    static const char *const columns[] = {"(4,)", "(2,)", "(1,)", "(1,)"};
    char path[SCRATCH_PATH_BYTES];
    Loaded loaded;
    Error err;
    for (int i = 0; i < 4; i++) {
        Altered set = {0};
        put(&set, "x_train", "|u1", cases[i].shape, "abcd", 4);
        put(&set, "y_train", "<i4", columns[i], labels, counts[i] * sizeof *labels);
        put(&set, "x_test", "|u1", cases[i].shape, "abcd", 4);
        put(&set, "y_test", "<i4", columns[i], labels, counts[i] * sizeof *labels);
        check_ok(load(&loaded, arrays_write(path, *state, "shapes", set.files, ARRAYS_IN_FOLDER), 1, &err));
        assert_memory_equal(&loaded.data.shape, &cases[i].expected, sizeof(Shape));
        assert_int_equal(loaded.data.train.count, counts[i]);
        free(loaded.block);
    }
}

static void clients_own_their_samples(void **state) {
    static const uint16_t train[3] = {1, 0, 1}, test[2] = {1, 1};
    char path[SCRATCH_PATH_BYTES];
    Loaded loaded;
    Error err;
    Altered set = altered(GRAY_ARRAYS);
    put(&set, "client_train", "<u2", "(3,)", train, sizeof train);
    check_ok(load(&loaded, arrays_write(path, *state, "clients", set.files, ARRAYS_STORED), 1, &err));
    assert_int_equal(loaded.data.users, 2);
    for (int i = 0; i < 3; i++)
        assert_int_equal(loaded.data.train.owners[i], train[i]);
    assert_int_equal(loaded.data.test.owners[0], UINT32_MAX); // nobody's
    free(loaded.block);
    put(&set, "client_test", "<u2", "(2,)", test, sizeof test);
    check_ok(load(&loaded, arrays_write(path, *state, "clients", set.files, ARRAYS_STORED), 1, &err));
    assert_int_equal(loaded.data.test.owners[0], 1);
    free(loaded.block);
}

static void mean_and_std_say_how_samples_enter_a_net(void **state) {
    static const double mean[] = {0.5}, std[] = {0.25};
    static const float means[] = {2, 20}, stds[] = {1, 10};
    char path[SCRATCH_PATH_BYTES];
    Loaded loaded;
    Error err;
    Altered set = altered(GRAY_ARRAYS);
    put(&set, "mean", "<f8", "(1,)", mean, sizeof mean);
    put(&set, "std", "<f8", "(1,)", std, sizeof std);
    check_ok(load(&loaded, arrays_write(path, *state, "normal", set.files, ARRAYS_STORED), 1, &err));
    assert_true(fabs(51 * (double)loaded.data.scale[0] + (double)loaded.data.shift[0] - (0.2 - 0.5) / 0.25) < 1e-6);
    free(loaded.block);
    set = numbers_set();
    put(&set, "mean", "<f4", "(2,)", means, sizeof means);
    put(&set, "std", "<f4", "(2,)", stds, sizeof stds);
    check_ok(load(&loaded, arrays_write(path, *state, "normal", set.files, ARRAYS_DEFLATED), 1, &err));
    const float expected[6] = {-1, -1, 0, 0, 1, 1}, expected_tests[4] = {2, 2, 3, 3};
    assert_memory_equal(loaded.data.train.pixels, expected, sizeof expected);
    assert_memory_equal(loaded.data.test.pixels, expected_tests, sizeof expected_tests);
    free(loaded.block);
}

// The altered set, stored under this name, is refused with a sentence that has this part and the path.
static void must_be_refused(const Altered *set, void **state, const char *name, ArrayPacking packing,
                            const char *part) {
    char path[SCRATCH_PATH_BYTES];
    Loaded loaded;
    Error err = {.message = ""};
    assert_int_equal(load(&loaded, arrays_write(path, *state, name, set->files, packing), 1, &err), STATUS_DATA);
    if (!strstr(err.message, part) || !strstr(err.message, path))
        fail_msg("\"%s\" does not say \"%s\" of %s", err.message, part, path);
}

static void what_does_not_fit_is_refused_by_its_name(void **state) {
    static const int64_t negative[3] = {0, -1, 2}, unknown[2] = {1, 3}, huge[3] = {0, 70000, 1};
    static const uint32_t gap[3] = {0, 2, 2};
    static const uint8_t zeros[51];
    static const struct {
        const char *name, *type, *shape;
        const void *values;
        size_t bytes;
        const char *part;
    } cases[] = {
        {"x_train", "<i4", "(3, 1)", negative, 12,
         "x_test.npy: of type |u1 and shape (2, 2, 3), and the training set's of type <i4"},
        {"x_train", "<c8", "(3, 1)", negative, 24,
         "x_train.npy: values of type <c8; only whole and floating-point numbers of at most 64 bits are read: "
         "x.astype('float32')"},
        {"x_train", "<U1", "(3, 1)", negative, 12, "values of type <U1; only whole and floating-point"},
        {"y_train", ">i8", "(3,)", negative, 24, "y_train.npy: value 1 is -1; labels go from 0"},
        {"y_train", "<f16", "(3,)", negative, 24, "are read: y.astype('float32')"},
        {"y_train", "<U2", "(3,)", negative, 24, "are read: numpy.unique(y, return_inverse=True)[1]"},
        {"y_test", "|O", "(2,)", negative, 16, "are read: numpy.unique(y, return_inverse=True)[1]"},
        {"y_test", "<M8[ns]", "(2,)", negative, 16, "values of type <M8[ns]; only"},
        {"y_train", ">f8", "(3,)", negative, 24, "y_test.npy: of type <i8 and shape (2)"},
        {"client_train", "<U2", "(3,)", negative, 24, "are read: numpy.unique(client, return_inverse=True)[1]"},
        {"x_train", "|u1", "(2, 2, 3)", TRAIN_NUMBERS, 12, "y_train.npy: of shape (3), for 2 samples"},
        {"x_train", "|u1", "(3, 3, 2)", TRAIN_NUMBERS, 18,
         "x_test.npy: of type |u1 and shape (2, 2, 3), and the training set's"},
        {"x_train", "|u1", "(1, 1, 1, 1, 3)", TRAIN_NUMBERS, 3,
         "x_train.npy: an array of 5 dimensions; at most 4 are read"},
        {"x_train", "|u1", "(3, 17, 1, 1)", zeros, 51, "channels first: x.transpose(0, 3, 1, 2)"},
        {"x_train", "|u1", "(3, 0)", TRAIN_NUMBERS, 0, "samples of 1x1x0"},
        {"x_train", "|u1", "()", TRAIN_NUMBERS, 1, "a single number"},
        {"x_test", "<f4", "(2, 2, 3)", zeros, 48, "x_test.npy: of type <f4"},
        {"y_train", "<i8", "(3,)", negative, 24, "y_train.npy: value 1 is -1; labels go from 0"},
        {"y_train", "<i8", "(3,)", huge, 24, "y_train.npy: value 1 is 70000; labels go from 0"},
        {"y_test", "<i8", "(2,)", unknown, 16, "y_test.npy: label 3 of sample 1; the training labels go up to 2"},
        {"y_test", "<f8", "(2,)", TEST_TARGETS, 16, "y_test.npy: of type <f8"},
        {"client_train", "<u4", "(3,)", gap, 12, "client 1 has no samples, client 2 has"},
        {"y_train", "|u1", "(3, 2)", zeros, 6,
         "y_test.npy: of type <i8 and shape (2), and the training set's of type |u1 and shape (3, 2)"},
        {"y_train", "|u1", "(2, 3)", zeros, 6,
         "of shape (2, 3), for 3 samples; give one number for each sample, or a row of zeros and ones"},
        {"client_train", "<u4", "(2,)", gap, 8, "client_train.npy: of shape (2), for 3 samples"},
        {"client_test", "<u4", "(2,)", gap, 8, "client_test without client_train"},
        {"mean", "<f4", "(1,)", TRAIN_NUMBERS, 4, "only one of mean and std"},
    };
    char name[32];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Altered set = altered(GRAY_ARRAYS);
        put(&set, cases[i].name, cases[i].type, cases[i].shape, cases[i].values, cases[i].bytes);
        snprintf(name, sizeof name, "refused-%zu", i);
        must_be_refused(&set, state, name, ARRAYS_IN_FOLDER, cases[i].part);
    }
}

static void a_test_sample_of_a_client_without_training_samples_is_refused(void **state) {
    static const uint32_t trained[3] = {0, 1, 1}, tested[2] = {0, 5};
    Altered set = altered(GRAY_ARRAYS);
    put(&set, "client_train", "<u4", "(3,)", trained, sizeof trained);
    put(&set, "client_test", "<u4", "(2,)", tested, sizeof tested);
    must_be_refused(&set, state, "stranger", ARRAYS_IN_FOLDER,
                    "client_test.npy: value 1 is 5; clients with training samples");
}

// Its checksum alone tells that a number is another one.
static void a_damaged_mean_is_refused(void **state) {
    static const double mean[] = {0.5}, std[] = {0.25};
    char path[SCRATCH_PATH_BYTES];
    Loaded loaded;
    Error err = {.message = ""};
    size_t bytes;
    Altered set = altered(GRAY_ARRAYS);
    put(&set, "mean", "<f8", "(1,)", mean, sizeof mean);
    put(&set, "std", "<f8", "(1,)", std, sizeof std);
    arrays_write(path, *state, "damaged-mean", set.files, ARRAYS_STORED);
    char *content = scratch_read(path, &bytes), *at = memmem(content, bytes, mean, sizeof mean);
    assert_non_null(at);
    at[0] ^= 1;
    scratch_write(path, content, bytes);
    free(content);
    assert_int_equal(load(&loaded, path, 1, &err), STATUS_DATA);
    if (!strstr(err.message, ": mean: corrupt: checksum")) fail_msg("%s", err.message);
}

static void a_mean_of_pixels_is_that_of_numbers_up_to_one(void **state) {
    static const double mean[] = {33.3}, std[] = {78.6};
    Altered set = altered(GRAY_ARRAYS);
    put(&set, "mean", "<f8", "(1,)", mean, sizeof mean);
    put(&set, "std", "<f8", "(1,)", std, sizeof std);
    must_be_refused(&set, state, "scale", ARRAYS_STORED,
                    "mean: value 0 is 33.3, and that of std 78.6; those of pixels are of p / 255");
}

static void a_header_that_is_no_dictionary_is_refused(void **state) {
    char path[SCRATCH_PATH_BYTES], file[SCRATCH_PATH_BYTES];
    Loaded loaded;
    Error err = {.message = ""};
    size_t bytes;
    arrays_write(path, *state, "header", GRAY_ARRAYS, ARRAYS_IN_FOLDER);
    char *content = scratch_read(scratch_path(file, path, "x_train.npy"), &bytes);
    *(char *)memchr(content, '{', bytes) = '(';
    scratch_write(file, content, bytes);
    free(content);
    assert_int_equal(load(&loaded, path, 1, &err), STATUS_DATA);
    if (!strstr(err.message, "x_train.npy: its header at byte 10 is not that of one plain array"))
        fail_msg("%s", err.message);
}

static void a_header_without_type_or_shape_or_with_more_behind_it_is_refused(void **state) {
    static const char *const headers[] = {"{'descr': '|u1', 'fortran_order': False, }",
                                          "{'fortran_order': False, 'shape': (3, 2, 3), }",
                                          "{'descr': '|u1', 'fortran_order': False, 'shape': (3, 2, 3), } more", "{}"};
    char path[SCRATCH_PATH_BYTES], file[SCRATCH_PATH_BYTES];
    uint8_t bytes[ARRAY_ROOM];
    Loaded loaded;
    arrays_write(path, *state, "headers", GRAY_ARRAYS, ARRAYS_IN_FOLDER);
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        Error err = {.message = ""};
        const size_t length = strlen(headers[i]);
        memcpy(bytes, "\x93NUMPY\1\0", 8);
        bytes[8] = (uint8_t)length;
        bytes[9] = 0;
        memcpy(bytes + 10, headers[i], length);
        memset(bytes + 10 + length, 1, 18); // numbers enough for the shape
        scratch_write(scratch_path(file, path, "x_train.npy"), bytes, 10 + length + 18);
        assert_int_equal(load(&loaded, path, 1, &err), STATUS_DATA);
        if (!strstr(err.message, "x_train.npy: its header at byte 10 is not that of one plain array"))
            fail_msg("%s: %s", headers[i], err.message);
    }
}

static void numbers_that_do_not_fit_are_refused_by_their_place(void **state) {
    static const float lost[6] = {1, 2, 3, NAN, 5, 6};
    static const double wide[6] = {1, 2, 3, 1e300, 5, 6};
    static const uint16_t half[6] = {0x3c00, 0x4000, 0x7c00, 0, 0, 0}; // 1, 2, infinity
    const struct {
        const char *type, *shape;
        const void *values;
        size_t bytes;
        const char *part;
    } numbers[] = {{"<f4", "(3, 2)", lost, sizeof lost, "feature 1 of sample 1 is nan"},
                   {"<f8", "(3, 2)", wide, sizeof wide, "feature 1 of sample 1 is infinite in single precision"},
                   {"<f2", "(3, 2)", half, sizeof half, "feature 0 of sample 1 is infinite in single precision"}};
    char name[32];
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        Altered set = numbers_set();
        put(&set, "x_train", numbers[i].type, numbers[i].shape, numbers[i].values, numbers[i].bytes);
        snprintf(name, sizeof name, "numbers-%zu", i);
        must_be_refused(&set, state, name, ARRAYS_STORED, numbers[i].part);
    }
}

static void a_missing_array_is_named_with_how_to_save_it(void **state) {
    char path[SCRATCH_PATH_BYTES];
    Loaded loaded;
    Error err = {.message = ""};
    assert_int_equal(load(&loaded, arrays_write(path, *state, "missing", GRAY_ARRAYS + 1, ARRAYS_STORED), 1, &err),
                     STATUS_NOINPUT);
    assert_non_null(strstr(err.message, "no array x_train; save it with numpy.savez"));
    assert_int_equal(load(&loaded, arrays_write(path, *state, "missing", GRAY_ARRAYS + 1, ARRAYS_IN_FOLDER), 1, &err),
                     STATUS_NOINPUT);
    assert_non_null(strstr(err.message, "no array x_train; save"));
    arrays_write(path, *state, "missing", GRAY_ARRAYS, ARRAYS_IN_FOLDER);
    char from[SCRATCH_PATH_BYTES], to[SCRATCH_PATH_BYTES];
    assert_int_equal(rename(scratch_path(from, path, "x_train.npy"), scratch_path(to, path, "x_trains.npy")), 0);
    assert_int_equal(load(&loaded, path, 1, &err), STATUS_NOINPUT);
    assert_non_null(strstr(err.message, "no array x_train, but there are x_trains.npy; save it with"));
    const ArrayFile images = {.name = "train_pics", .type = "|u1", .shape = "(3,)", .values = "abc", .bytes = 3};
    Altered medical = altered(GRAY_ARRAYS);
    medical.files[0] = images;
    arrays_write(path, *state, "named", medical.files, ARRAYS_STORED);
    assert_int_equal(load(&loaded, path, 1, &err), STATUS_NOINPUT);
    assert_non_null(strstr(err.message, "no array x_train, but there are train_pics.npy; save it with"));
    assert_int_equal(load(&loaded, scratch_path(path, *state, "gone.npz"), 1, &err), STATUS_NOINPUT);
    assert_non_null(strstr(err.message, "gone.npz: No such file or directory"));
}

// An archive has checksums: it is whole or refused. A folder holds together or is refused.
static void expect_whole_or_refused(const char *path, bool has_checksums) {
    Loaded loaded;
    Error err = {.message = ""};
    Status status = load(&loaded, path, 1, &err);
    if (status == STATUS_OK) {
        if (has_checksums) expect_gray_set(&loaded);
        assert_int_equal(loaded.data.train.count, 3);
        for (uint32_t i = 0; i < 2 && !dataset_has_targets(&loaded.data.items); i++)
            assert_in_range(loaded.data.test.labels[i], 0, loaded.data.classes - 1);
        free(loaded.block);
        return;
    }
    assert_true(status == STATUS_DATA || status == STATUS_NOINPUT);
    assert_non_null(strstr(err.message, path));
}

static void damage(const char *file, const char *path, bool has_checksums) {
    size_t whole;
    uint8_t *bytes = (uint8_t *)scratch_read(file, &whole);
    for (size_t count = 0; count < whole; count++) {
        Loaded loaded;
        Error err = {.message = ""};
        scratch_write(file, bytes, count);
        assert_int_equal(load(&loaded, path, 1, &err), STATUS_DATA);
        assert_non_null(strstr(err.message, path));
    }
    for (size_t byte = 0; byte < whole; byte++) {
        bytes[byte] ^= (uint8_t)(1 << byte % 8);
        scratch_write(file, bytes, whole);
        expect_whole_or_refused(path, has_checksums);
        bytes[byte] ^= (uint8_t)(1 << byte % 8);
    }
    scratch_write(file, bytes, whole);
    free(bytes);
}

// As zip writes it where four bytes are too few for the directory's place: a record of zip64 has that, whose own place
// stands in front of the end.
static void the_directory_of_a_large_archive_is_found(void **state) {
    enum { END_BYTES = 22, LARGE_END_BYTES = 56, LOCATOR_BYTES = 20 };
    uint8_t archive[ARCHIVE_ROOM + LARGE_END_BYTES + LOCATOR_BYTES], end[END_BYTES];
    char path[SCRATCH_PATH_BYTES];
    Loaded loaded;
    Error err;
    uint8_t *to = archive + archive_bytes(archive, GRAY_ARRAYS, false) - END_BYTES, *large = to;
    memcpy(end, to, END_BYTES);
    memcpy(to, "PK\6\6", 4);
    to = put_number(put_number(to + 4, LARGE_END_BYTES - 12, 4), 0, 4);
    memset(to, 0, LARGE_END_BYTES - 12);
    memcpy(large + 40, end + 12, 4); // the directory's bytes and its place
    memcpy(large + 48, end + 16, 4);
    to = large + LARGE_END_BYTES;
    memcpy(to, "PK\6\7\0\0\0\0", 8);
    to = put_number(put_number(put_number(to + 8, (uint32_t)(large - archive), 4), 0, 4), 1, 4);
    memset(end + 12, 0xff, 8);
    memcpy(to, end, END_BYTES);
    scratch_write(scratch_path(path, *state, "large.npz"), archive, (size_t)(to - archive) + END_BYTES);
    check_ok(load(&loaded, path, 1, &err));
    assert_int_equal(loaded.data.train.count, 3);
    free(loaded.block);
    memset(to - LOCATOR_BYTES, 0, 4); // without it nobody knows where the directory is
    scratch_write(path, archive, (size_t)(to - archive) + END_BYTES);
    assert_int_equal(load(&loaded, path, 1, &err), STATUS_DATA);
    assert_non_null(strstr(err.message, "large.npz: a corrupt zip archive"));
}

static void every_truncation_and_a_flipped_bit_of_every_byte_is_survived(void **state) {
    char path[SCRATCH_PATH_BYTES], file[SCRATCH_PATH_BYTES];
    arrays_write(path, *state, "damaged", GRAY_ARRAYS, ARRAYS_STORED);
    damage(path, path, true);
    arrays_write(path, *state, "damaged", GRAY_ARRAYS, ARRAYS_DEFLATED);
    damage(path, path, true);
    arrays_write(path, *state, "damaged", GRAY_ARRAYS, ARRAYS_IN_FOLDER);
    damage(scratch_path(file, path, "x_train.npy"), path, false);
    damage(scratch_path(file, path, "y_test.npy"), path, false);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folders_and_archives_of_arrays_hold_what_idx_files_hold),
        cmocka_unit_test(labels_alone_have_counts_and_classes_but_no_samples),
        cmocka_unit_test(numbers_and_targets_come_as_single_precision),
        cmocka_unit_test(samples_have_up_to_four_dimensions),
        cmocka_unit_test(clients_own_their_samples),
        cmocka_unit_test(mean_and_std_say_how_samples_enter_a_net),
        cmocka_unit_test(what_does_not_fit_is_refused_by_its_name),
        cmocka_unit_test(a_test_sample_of_a_client_without_training_samples_is_refused),
        cmocka_unit_test(a_damaged_mean_is_refused),
        cmocka_unit_test(a_mean_of_pixels_is_that_of_numbers_up_to_one),
        cmocka_unit_test(a_header_that_is_no_dictionary_is_refused),
        cmocka_unit_test(a_header_without_type_or_shape_or_with_more_behind_it_is_refused),
        cmocka_unit_test(numbers_that_do_not_fit_are_refused_by_their_place),
        cmocka_unit_test(a_missing_array_is_named_with_how_to_save_it),
        cmocka_unit_test(the_directory_of_a_large_archive_is_found),
        cmocka_unit_test(every_truncation_and_a_flipped_bit_of_every_byte_is_survived),
    };
    setenv("SOUNDER_CACHE", "off", 1);
    return run_cases(argc, argv, tests, scratch_set_up, scratch_tear_down);
}

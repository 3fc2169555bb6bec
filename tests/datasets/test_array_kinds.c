// Arrays as other programs save them: their names, their types of numbers, the axis of their channels, and one set of
// all samples.
#include "array_files.h"
#include "loaded.h"

enum { DATA_BYTES = SCRATCH_PATH_BYTES + 128 };

static void load_set(Loaded *loaded, const char *path, const char *settings) {
    char data[DATA_BYTES];
    Error err = {.message = ""};
    snprintf(data, sizeof data, "%s%s%s", path, *settings ? " " : "", settings);
    if (load(loaded, data, 1, &err) != STATUS_OK) fail_msg("%s", err.message);
}

static void expect_refusal(const char *path, const char *settings, Status expected, const char *part) {
    char data[DATA_BYTES];
    Loaded loaded;
    Error err = {.message = ""};
    snprintf(data, sizeof data, "%s%s%s", path, *settings ? " " : "", settings);
    assert_int_equal(load(&loaded, data, 1, &err), expected);
    if (!strstr(err.message, part)) fail_msg("\"%s\" does not say \"%s\"", err.message, part);
}

static void expect_numbers(const DatasetSplit *split, const float *expected, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (dataset_number(split->pixels, i) != expected[i])
            fail_msg("number %zu is %g, not %g", i, (double)dataset_number(split->pixels, i), (double)expected[i]);
}

// Two samples of the numbers 1, -2 and 300, 0.5, or what of these a type can hold.
static void numbers_of_every_type_and_byte_order_become_single_precision(void **state) {
    static const struct {
        const char *type, *bytes;
        size_t count;
        float expected[4];
    } cases[] = {
        {"<f4", "\0\0\x80\x3f\0\0\0\xc0\0\0\x96\x43\0\0\0\x3f", 16, {1, -2, 300, 0.5F}},
        {">f4", "\x3f\x80\0\0\xc0\0\0\0\x43\x96\0\0\x3f\0\0\0", 16, {1, -2, 300, 0.5F}},
        {"<f2", "\0\x3c\0\xc0\xb0\x5c\0\x38", 8, {1, -2, 300, 0.5F}},
        {">f2", "\x3c\0\xc0\0\x5c\xb0\0\1", 8, {1, -2, 300, 0x1p-24F}}, // the smallest
        {">f8",
         "\x3f\xf0\0\0\0\0\0\0\xc0\0\0\0\0\0\0\0\x40\x72\xc0\0\0\0\0\0\x3f\xe0\0\0\0\0\0\0",
         32,
         {1, -2, 300, 0.5F}},
        {"|i1", "\1\xfe\x7f\x80", 4, {1, -2, 127, -128}},
        {"<i2", "\1\0\xfe\xff\x2c\1\0\x80", 8, {1, -2, 300, -32768}},
        {">i4", "\0\0\0\1\xff\xff\xff\xfe\0\0\1\x2c\0\0\0\0", 16, {1, -2, 300, 0}},
        {"<u2", "\1\0\2\0\x2c\1\xff\xff", 8, {1, 2, 300, 65535}},
        {"|b1", "\1\0\0\1", 4, {1, 0, 0, 1}},
    };
    static const uint8_t labels[2] = {0, 1};
    char path[SCRATCH_PATH_BYTES];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Loaded loaded;
        Altered set = {0};
        put(&set, "x_train", cases[i].type, "(2, 2)", cases[i].bytes, cases[i].count);
        put(&set, "y_train", "|u1", "(2,)", labels, 2);
        put(&set, "x_test", cases[i].type, "(2, 2)", cases[i].bytes, cases[i].count);
        put(&set, "y_test", "|u1", "(2,)", labels, 2);
        for (ArrayPacking packing = ARRAYS_IN_FOLDER; packing <= ARRAYS_DEFLATED; packing++) {
            char name[16];
            snprintf(name, sizeof name, "type-%zu", i);
            load_set(&loaded, arrays_write(path, *state, name, set.files, packing), "");
            assert_int_equal(loaded.data.items.pixel_bytes, 4);
            expect_numbers(&loaded.data.train, cases[i].expected, 4);
            free(loaded.block);
        }
    }
}

static void labels_may_be_one_hot_rows_or_of_any_byte_order(void **state) {
    static const float rows[9] = {0, 1, 0, 1, 0, 0, 0, 1, 0}; // no sample of class 2
    static const uint8_t several[9] = {0, 1, 0, 1, 0, 1, 0, 1, 0}, wrong[9] = {0, 1, 0, 1, 0, 2, 0, 1, 0},
                         bools[6] = {1, 0, 0, 0, 1, 0};
    char path[SCRATCH_PATH_BYTES];
    Loaded loaded;
    Altered set = altered(GRAY_ARRAYS);
    put(&set, "y_train", "<f4", "(3, 3)", rows, sizeof rows);
    put(&set, "y_test", "|b1", "(2, 3)", bools, sizeof bools);
    load_set(&loaded, arrays_write(path, *state, "hot", set.files, ARRAYS_STORED), "");
    assert_int_equal(loaded.data.classes, 3);
    assert_false(dataset_has_targets(&loaded.data.items));
    const uint16_t expected[3] = {1, 0, 1};
    assert_memory_equal(loaded.data.train.labels, expected, sizeof expected);
    assert_int_equal(loaded.data.test.labels[1], 1);
    free(loaded.block);
    expect_refusal(path, "classes=2", STATUS_USAGE,
                   "y_train: rows of 3 classes, and --data says classes=2; leave that");
    put(&set, "y_train", "|u1", "(3, 3)", several, sizeof several);
    load_set(&loaded, arrays_write(path, *state, "hot", set.files, ARRAYS_STORED), "");
    assert_int_equal(loaded.data.classes, 3);
    assert_true(dataset_has_rows(&loaded.data.items));
    const float *labels = (const float *)(const void *)loaded.data.train.labels;
    for (int i = 0; i < 9; i++)
        assert_true(labels[i] == (float)several[i]);
    free(loaded.block);
    put(&set, "y_train", "|u1", "(3, 3)", wrong, sizeof wrong);
    expect_refusal(arrays_write(path, *state, "hot", set.files, ARRAYS_STORED), "", STATUS_DATA,
                   "y_train: row 1 is not one-hot (zeros and a single 1)");
    put(&set, "y_train", ">i2", "(3,)", "\0\2\0\0\0\1", 6);
    put(&set, "y_test", "<u4", "(2, 1)", "\1\0\0\0\2\0\0\0", 8);
    load_set(&loaded, arrays_write(path, *state, "hot", set.files, ARRAYS_STORED), "");
    assert_int_equal(loaded.data.classes, 3);
    assert_int_equal(loaded.data.train.labels[0], 2);
    free(loaded.block);
}

static void names_of_other_programs_are_known(void **state) {
    static const char *const known[][4] = {{"X_train", "y_train", "X_test", "y_test"},
                                           {"train_images", "train_labels", "test_images", "test_labels"},
                                           {"train_x", "train_y", "test_x", "test_y"}};
    char path[SCRATCH_PATH_BYTES], name[16];
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        for (ArrayPacking packing = ARRAYS_IN_FOLDER; packing <= ARRAYS_DEFLATED; packing++) {
            Loaded loaded;
            Altered set = altered(GRAY_ARRAYS);
            snprintf(name, sizeof name, "named-%zu", i);
            for (int role = 0; role < 4; role++)
                set.files[role].name = known[i][role];
            load_set(&loaded, arrays_write(path, *state, name, set.files, packing), "");
            expect_gray_set(&loaded);
            free(loaded.block);
            put(&set, "val_images", "|u1", "(1, 2, 3)", GRAY_SET[0].bytes + 16, 6);
            put(&set, "val_labels", "|u1", "(1, 1)", "\2", 1);
            load_set(&loaded, arrays_write(path, *state, name, set.files, packing), "");
            assert_int_equal(loaded.data.validation_count, 1);
            assert_int_equal(loaded.data.train.count, 4);
            assert_int_equal(loaded.data.train.labels[3], 2);
            free(loaded.block);
        }
    }
}

// Two samples of 2x2 with three channels: number 10 r + c of channel k is 100 k + 10 r + c.
static void channels_may_be_the_last_axis(void **state) {
    static const uint8_t last[24] = {0,  100, 200, 1,  101, 201, 10, 110, 210, 11, 111, 211,
                                     50, 150, 250, 51, 151, 251, 60, 160, 255, 61, 161, 254};
    static const uint8_t first[12] = {0, 1, 10, 11, 100, 101, 110, 111, 200, 201, 210, 211};
    static const uint8_t labels[2] = {0, 1};
    char path[SCRATCH_PATH_BYTES];
    for (int medical = 0; medical < 2; medical++) { // known by MedMNIST's names, and by the setting
        Loaded loaded;
        Altered set = {0};
        put(&set, medical ? "train_images" : "x_train", "|u1", "(2, 2, 2, 3)", last, sizeof last);
        put(&set, medical ? "train_labels" : "y_train", "|u1", "(2, 1)", labels, 2);
        put(&set, medical ? "test_images" : "x_test", "|u1", "(2, 2, 2, 3)", last, sizeof last);
        put(&set, medical ? "test_labels" : "y_test", "|u1", "(2, 1)", labels, 2);
        load_set(&loaded, arrays_write(path, *state, "last", set.files, ARRAYS_STORED), medical ? "" : "channels=last");
        assert_int_equal(loaded.data.shape.channels, 3);
        assert_int_equal(loaded.data.shape.columns, 2);
        assert_memory_equal(loaded.data.train.pixels, first, sizeof first);
        assert_int_equal(loaded.data.test.pixels[12 + 4], 150);
        free(loaded.block);
    }
    expect_refusal(arrays_write(path, *state, "gray", GRAY_ARRAYS, ARRAYS_STORED), "channels=last", STATUS_USAGE,
                   "x_train: of shape (3, 2, 3); channels=last is for samples of (N,H,W,C)");
}

enum { ALL = 20 };

// The first of them would count, without a word.
static void arrays_of_two_forms_are_refused(void **state) {
    static const uint8_t pixels[4] = {0}, labels[2] = {0, 1};
    char path[SCRATCH_PATH_BYTES];
    Altered both = altered(GRAY_ARRAYS);
    put(&both, "X", "|u1", "(2, 2)", pixels, sizeof pixels);
    put(&both, "y", "|u1", "(2,)", labels, sizeof labels);
    expect_refusal(arrays_write(path, *state, "both", both.files, ARRAYS_STORED), "", STATUS_DATA,
                   "has both x_train and X;");
    both = altered(GRAY_ARRAYS);
    put(&both, "train_images", "|u1", "(2, 2)", pixels, sizeof pixels);
    expect_refusal(arrays_write(path, *state, "both", both.files, ARRAYS_STORED), "", STATUS_DATA,
                   "has both x_train and train_images; a data set has one of them");
}

static void one_set_of_all_samples_gives_a_share_to_the_tests(void **state) {
    static const char *const known[][2] = {{"x", "y"}, {"X", "y"}, {"data", "target"}, {"images", "labels"}};
    uint8_t pixels[ALL * 2], labels[ALL], clients[ALL];
    char path[SCRATCH_PATH_BYTES];
    for (int i = 0; i < ALL; i++) {
        pixels[2 * i] = (uint8_t)i;
        pixels[2 * i + 1] = (uint8_t)(i + 100);
        labels[i] = (uint8_t)(i % 2);
        clients[i] = (uint8_t)(i / 10);
    }
    for (size_t n = 0; n < sizeof known / sizeof *known; n++) {
        Loaded loaded;
        Altered set = {0};
        int of_class[2] = {0};
        put(&set, known[n][0], "|u1", "(20, 2)", pixels, sizeof pixels);
        put(&set, known[n][1], "|u1", "(20,)", labels, sizeof labels);
        load_set(&loaded, arrays_write(path, *state, "single", set.files, n % 2 ? ARRAYS_DEFLATED : ARRAYS_STORED),
                 n == 0 ? "" : "test-fraction=0.2");
        assert_int_equal(loaded.data.train.count, 16);
        assert_int_equal(loaded.data.test.count, 4);
        for (uint32_t s = 0; s < 4; s++) {
            const uint8_t *sample = loaded.data.test.pixels + 2 * s;
            assert_int_equal(sample[1], sample[0] + 100);
            assert_int_equal(loaded.data.test.labels[s], sample[0] % 2);
            of_class[loaded.data.test.labels[s]]++;
        }
        for (uint32_t s = 0; s < 16; s++)
            assert_int_equal(loaded.data.train.labels[s], loaded.data.train.pixels[2 * s] % 2);
        assert_int_equal(of_class[0], 2);
        free(loaded.block);
        put(&set, "client", "|u1", "(20,)", clients, sizeof clients);
        load_set(&loaded, arrays_write(path, *state, "single", set.files, ARRAYS_STORED), "test-seed=3");
        assert_int_equal(loaded.data.users, 2);
        for (uint32_t s = 0; s < 4; s++)
            assert_int_equal(loaded.data.test.owners[s], loaded.data.test.pixels[2 * s] / 10);
        free(loaded.block);
    }
    Loaded tests;
    load_set(&tests, path, "test-fraction=1");
    assert_int_equal(tests.data.test.count, ALL);
    assert_int_equal(tests.data.classes, 2);
    free(tests.block);
    Altered parts = altered(GRAY_ARRAYS);
    parts.files[2] = (ArrayFile){0};
    arrays_write(path, *state, "parts", parts.files, ARRAYS_STORED);
    expect_refusal(path, "", STATUS_NOINPUT, "no array x_test; save it with");
    expect_refusal(path, "", STATUS_NOINPUT, "or say test-fraction=0.2 in --data: a share of the samples is then for");
    parts.files[1].values = "\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    arrays_write(path, *state, "parts", parts.files, ARRAYS_STORED);
    Loaded loaded;
    load_set(&loaded, path, "test-fraction=0.4");
    assert_int_equal(loaded.data.test.count, 1);
    free(loaded.block);
    expect_refusal(arrays_write(path, *state, "whole", GRAY_ARRAYS, ARRAYS_STORED), "test-fraction=0.2", STATUS_USAGE,
                   "has test samples of its own; leave out test-fraction");
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_of_every_type_and_byte_order_become_single_precision),
        cmocka_unit_test(labels_may_be_one_hot_rows_or_of_any_byte_order),
        cmocka_unit_test(names_of_other_programs_are_known),
        cmocka_unit_test(channels_may_be_the_last_axis),
        cmocka_unit_test(arrays_of_two_forms_are_refused),
        cmocka_unit_test(one_set_of_all_samples_gives_a_share_to_the_tests),
    };
    setenv("SOUNDER_CACHE", "off", 1);
    return run_cases(argc, argv, tests, scratch_set_up, scratch_tear_down);
}

// Settings that give samples another shape or scale, whatever the form of their files, and models that others' samples
// follow.
#include <math.h>

#include "datasets/doubts.h"

#include "array_files.h"
#include "loaded.h"

enum { DATA_BYTES = SCRATCH_PATH_BYTES + 128 };

static void write_text(const char *folder, const char *name, const char *text) {
    char path[SCRATCH_PATH_BYTES];
    scratch_write(scratch_path(path, folder, name), text, strlen(text));
}

static const char *data_of(char data[DATA_BYTES], const char *place, const char *settings) {
    snprintf(data, DATA_BYTES, "%s%s%s", place, *settings ? " " : "", settings);
    return data;
}

static void load_all(Loaded *loaded, const char *place, const char *settings) {
    char data[DATA_BYTES];
    Error err = {.message = ""};
    if (load(loaded, data_of(data, place, settings), 1, &err) != STATUS_OK) fail_msg("%s: %s", settings, err.message);
}

static void expect_refusal(const char *place, const char *settings, const char *part) {
    char data[DATA_BYTES];
    Loaded loaded;
    Error err = {.message = ""};
    assert_int_equal(load(&loaded, data_of(data, place, settings), 1, &err), STATUS_USAGE);
    if (!strstr(err.message, part)) fail_msg("\"%s\" does not say \"%s\"", err.message, part);
}

static const float numbers[2][4] = {{0, 2, 7, 1}, {4, 6, 7, 3}}; // two training samples of four features

static void write_table(const char *folder) {
    write_text(folder, "train.csv", "a,b,c,d,label\n0,2,7,1,0\n4,6,7,3,1\n");
    write_text(folder, "test.csv", "a,b,c,d,label\n2,8,9,2,1\n");
}

static void write_leaf(const char *folder) {
    char path[SCRATCH_PATH_BYTES];
    new_folder(path, folder, "train");
    new_folder(path, folder, "test");
    write_text(folder, "train/f.json",
               "{\"users\": [\"u\"], \"user_data\": {\"u\": {\"x\": [[0, 2, 7, 1], [4, 6, 7, 3]], \"y\": [0, 1]}}}");
    write_text(folder, "test/f.json",
               "{\"users\": [\"u\"], \"user_data\": {\"u\": {\"x\": [[2, 8, 9, 2]], \"y\": [1]}}}");
}

static void write_numbers(const char *folder) {
    static const float tests[4] = {2, 8, 9, 2};
    static const uint8_t labels[2] = {0, 1};
    const ArrayFile arrays[] = {{"x_train.npy", "<f4", "(2, 4)", numbers, sizeof numbers},
                                {"x_test.npy", "<f4", "(1, 4)", tests, sizeof tests},
                                {"y_train.npy", "|u1", "(2,)", labels, 2},
                                {"y_test.npy", "|u1", "(1,)", labels + 1, 1}};
    for (size_t i = 0; i < 4; i++) {
        char path[SCRATCH_PATH_BYTES];
        uint8_t bytes[ARRAY_ROOM];
        scratch_write(scratch_path(path, folder, arrays[i].name), bytes, array_bytes(bytes, &arrays[i]));
    }
}

static void (*const writers[])(const char *) = {write_table, write_leaf, write_numbers};
enum { WRITERS = sizeof writers / sizeof *writers };

static const char *write_set(char folder[SCRATCH_PATH_BYTES], const char *parent, size_t writer) {
    char name[16];
    snprintf(name, sizeof name, "set-%zu", writer);
    new_folder(folder, parent, name);
    writers[writer](folder);
    return folder;
}

static void expect_numbers(const DatasetSplit *split, const float *expected, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (dataset_number(split->pixels, i) != expected[i])
            fail_msg("number %zu is %g, not %g", i, (double)dataset_number(split->pixels, i), (double)expected[i]);
}

static void features_are_normalised_by_those_of_the_training_samples(void **state) {
    static const float train[8] = {-1, -1, 0, -1, 1, 1, 0, 1}, test[4] = {0, 2, 2, 0}; // c is constant: only centred
    static const double means[4] = {2, 4, 7, 2}, deviations[4] = {2, 2, 1, 1};
    char parent[SCRATCH_PATH_BYTES], folder[SCRATCH_PATH_BYTES];
    new_folder(parent, *state, "features");
    for (size_t i = 0; i < WRITERS; i++) {
        Loaded loaded;
        load_all(&loaded, write_set(folder, parent, i), "normalize=yes");
        expect_numbers(&loaded.data.train, train, 8);
        expect_numbers(&loaded.data.test, test, 4);
        assert_int_equal(loaded.data.items.scales, 4);
        assert_memory_equal(loaded.data.means, means, sizeof means);
        assert_memory_equal(loaded.data.stddevs, deviations, sizeof deviations);
        free(loaded.block);
        load_all(&loaded, folder, ""); // as they are
        expect_numbers(&loaded.data.train, numbers[0], 8);
        assert_null(loaded.data.means);
        free(loaded.block);
    }
}

static void write_times_as_table(const char *folder) {
    write_text(folder, "train.csv", "time,label\n1700000000,0\n1700000001,1\n1700000002,0\n1700000005,1\n");
    write_text(folder, "test.csv", "time,label\n1700000003,1\n");
}

static void write_times_as_leaf(const char *folder) {
    char path[SCRATCH_PATH_BYTES];
    new_folder(path, folder, "train");
    new_folder(path, folder, "test");
    write_text(folder, "train/f.json",
               "{\"users\": [\"u\"], \"user_data\": {\"u\": {\"x\": [[1700000000], [1700000001], [1700000002], "
               "[1700000005]], \"y\": [0, 1, 0, 1]}}}");
    write_text(folder, "test/f.json",
               "{\"users\": [\"u\"], \"user_data\": {\"u\": {\"x\": [[1700000003]], \"y\": [1]}}}");
}

// mean, std: a folder that brings its own; NULL: the setting computes them.
static void write_time_arrays(const char *folder, const double *mean, const double *std) {
    static const double times[5] = {1700000000, 1700000001, 1700000002, 1700000005, 1700000003};
    static const uint8_t labels[5] = {0, 1, 0, 1, 1};
    const ArrayFile arrays[] = {{"x_train.npy", "<f8", "(4, 1)", times, 4 * sizeof *times},
                                {"x_test.npy", "<f8", "(1, 1)", times + 4, sizeof *times},
                                {"y_train.npy", "|u1", "(4,)", labels, 4},
                                {"y_test.npy", "|u1", "(1,)", labels + 4, 1},
                                {"mean.npy", "<f8", "(1,)", mean, sizeof *mean},
                                {"std.npy", "<f8", "(1,)", std, sizeof *std}};
    for (size_t i = 0; i < (mean ? 6 : 4); i++) {
        char path[SCRATCH_PATH_BYTES];
        uint8_t bytes[ARRAY_ROOM];
        scratch_write(scratch_path(path, folder, arrays[i].name), bytes, array_bytes(bytes, &arrays[i]));
    }
}

// Seconds since 1970 are 128 apart as float32: rounded first, all would be one number.
static void numbers_are_scaled_before_they_are_rounded(void **state) {
    const double mean = 1700000002, deviation = sqrt(3.5);
    const float train[4] = {(float)(-2 / deviation), (float)(-1 / deviation), 0, (float)(3 / deviation)},
                test[1] = {(float)(1 / deviation)};
    char parent[SCRATCH_PATH_BYTES], folder[SCRATCH_PATH_BYTES];
    new_folder(parent, *state, "times");
    for (int form = 0; form < 4; form++) {
        Loaded loaded;
        char name[16];
        snprintf(name, sizeof name, "form-%d", form);
        new_folder(folder, parent, name);
        if (form == 0) write_times_as_table(folder);
        if (form == 1) write_times_as_leaf(folder);
        if (form > 1) write_time_arrays(folder, form == 3 ? &mean : NULL, &deviation);
        load_all(&loaded, folder, form == 3 ? "" : "normalize=yes");
        expect_numbers(&loaded.data.train, train, 4);
        expect_numbers(&loaded.data.test, test, 1);
        if (form < 3) assert_true(loaded.data.means[0] == mean && loaded.data.stddevs[0] == deviation);
        free(loaded.block);
    }
}

static void flat_samples_get_a_shape_and_are_normalised_by_channel(void **state) {
    static const struct {
        const char *settings;
        Shape shape;
        uint32_t scales;
        float first; // number of the first training sample
    } cases[] = {
        {"shape=2x2", {1, 2, 2}, 0, 0},
        {"shape=2x1x2", {2, 1, 2}, 0, 0},
        {"shape=1x4x1 normalize=yes", {1, 4, 1}, 1, -3.75F}, // mean 3.75 of all numbers
        {"normalize=yes shape=2x2x1", {2, 2, 1}, 2, -3},     // mean 3 of a and b
        {"shape=1x1x4 normalize=yes", {1, 1, 4}, 4, -2},
    };
    char parent[SCRATCH_PATH_BYTES], folder[SCRATCH_PATH_BYTES];
    new_folder(parent, *state, "shapes");
    for (size_t i = 0; i < WRITERS; i++) {
        write_set(folder, parent, i);
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            Loaded loaded;
            load_all(&loaded, folder, cases[c].settings);
            assert_memory_equal(&loaded.data.shape, &cases[c].shape, sizeof cases[c].shape);
            assert_int_equal(loaded.data.items.scales, cases[c].scales);
            const double scale = cases[c].scales ? loaded.data.stddevs[0] : 1;
            const double first = (double)dataset_number(loaded.data.train.pixels, 0) * scale;
            assert_true(fabs(first - (double)cases[c].first) < 1e-5);
            free(loaded.block);
        }
        expect_refusal(folder, "shape=3x3", "shape=3x3: 9 numbers, but a sample has 4 (1x1x4)");
        expect_refusal(folder, "shape=2by2", "shape=2by2: write channels, rows and columns: shape=1x28x28");
        expect_refusal(folder, "shape=0x4", "shape=0x4: write channels, rows and columns");
        expect_refusal(folder, "normalize=maybe", "normalize=maybe: needs one of no yes");
    }
}

static void pixels_are_normalised_by_their_own_mean_if_asked(void **state) {
    static const uint8_t pixels[8] = {0, 0, 0, 0, 255, 255, 255, 255}, labels[2] = {0, 1};
    const ArrayFile x = {"x", "|u1", "(2, 4)", pixels, sizeof pixels}, y = {"y", "|u1", "(2,)", labels, 2};
    char folder[SCRATCH_PATH_BYTES], path[SCRATCH_PATH_BYTES];
    uint8_t bytes[ARRAY_ROOM];
    Loaded loaded;
    new_folder(folder, *state, "pixels");
    for (int split = 0; split < 2; split++) {
        scratch_write(scratch_path(path, folder, split ? "x_test.npy" : "x_train.npy"), bytes, array_bytes(bytes, &x));
        scratch_write(scratch_path(path, folder, split ? "y_test.npy" : "y_train.npy"), bytes, array_bytes(bytes, &y));
    }
    load_all(&loaded, folder, "shape=2x2 normalize=yes"); // mean and deviation 0.5
    assert_true(fabsf(loaded.data.scale[0] * 255 - 2) < 1e-6F && fabsf(loaded.data.shift[0] + 1) < 1e-6F);
    assert_int_equal(loaded.data.shape.rows, 2);
    free(loaded.block);
    expect_refusal(folder, "label=x", "label=x: no setting of data of the form NumPy");
    expect_refusal("synthetic:1x4x4:20:10", "shape=4x4", "");
}

static void pixels_in_a_table_are_doubted_until_they_are_normalised(void **state) {
    enum { PIXELS = 64, SAMPLES = 4 };
    char folder[SCRATCH_PATH_BYTES], path[SCRATCH_PATH_BYTES], data[DATA_BYTES], text[2048], *to = text;
    new_folder(folder, *state, "kaggle");
    to += sprintf(to, "label");
    for (int p = 0; p < PIXELS; p++)
        to += sprintf(to, ",pixel%d", p);
    for (int s = 0; s < SAMPLES; s++) {
        to += sprintf(to, "\n%d", s % 2);
        for (int p = 0; p < PIXELS; p++)
            to += sprintf(to, ",%d", (p + s) % 6 * 51);
    }
    write_text(folder, "digits.csv", text);
    static const char *const settings[] = {"", "shape=8x8 normalize=yes"};
    for (int i = 0; i < 2; i++) {
        Loaded loaded;
        DatasetSource source;
        DatasetDoubts doubts;
        Error err;
        load_all(&loaded, scratch_path(path, folder, "digits.csv"), settings[i]);
        check_ok(dataset_find(&source, data_of(data, path, settings[i]), 1, &err));
        dataset_find_doubts(&doubts, &loaded.data, &source);
        assert_int_equal(doubts.count, 1 - i);
        if (i == 0)
            assert_non_null(strstr(doubts.sentences[0],
                                   "whole numbers from 0 to 255 and enter the net as they are; if they "
                                   "are pixels, say normalize=yes in --data"));
        free(loaded.block);
    }
}

// The samples of another table, as a model that knows names, means and deviations is to see them.
static void samples_for_a_model_enter_as_those_that_it_was_trained_on(void **state) {
    char names[] = "10\0cat\0dog\0";
    double means[2] = {1, 2}, deviations[2] = {2, 4};
    const DatasetModel model = {.class_names = names, .means = means, .stddevs = deviations, .scales = 2};
    char folder[SCRATCH_PATH_BYTES], data[DATA_BYTES], path[SCRATCH_PATH_BYTES];
    DatasetSource source;
    Dataset seen;
    Error err = {.message = ""};
    new_folder(folder, *state, "model");
    write_text(folder, "new.csv", "a,b,kind\n3,2,dog\n1,6,dog\n1,2,10\n");
    data_of(data, scratch_path(path, folder, "new.csv"), "label=kind test-fraction=1");
    check_ok(dataset_find_for(&source, data, 1, &model, &err));
    void *block = aligned_alloc(64, source.block_bytes);
    check_ok(dataset_read(block, &source, &err));
    check_ok(dataset_view(&seen, block, source.block_bytes, &err));
    assert_int_equal(seen.test.count, 3);
    assert_int_equal(seen.classes, 3);
    assert_int_equal(seen.test.labels[0], 2);
    assert_int_equal(seen.test.labels[2], 0);
    expect_numbers(&seen.test, (const float[]){1, 0, 0, 1, 0, 0}, 6);
    assert_string_equal(dataset_class_name(&seen, 1), "cat");
    free(block);
    static const struct {
        char *names;
        const char *part;
    } others[] = {{"dog\0cat\0dog\0", "names \"dog\" twice"}, {"1.0\0two\0", "a class that the model does not know"}};
    for (size_t i = 0; i < 2; i++) {
        DatasetModel other = model;
        other.class_names = others[i].names;
        assert_int_equal(dataset_find_for(&source, data, 1, &other, &err), STATUS_DATA);
        assert_non_null(strstr(err.message, others[i].part));
    }
    write_text(folder, "new.csv", "a,b,kind\n3,2,dog\n1,6,cow\n");
    assert_int_equal(dataset_find_for(&source, data, 1, &model, &err), STATUS_DATA);
    assert_non_null(strstr(err.message, "column kind has \"cow\", a class that the model does not know"));
    write_text(folder, "new.csv", "a,kind\n3,dog\n1,cat\n");
    check_ok(dataset_find_for(&source, data, 1, &model, &err));
    block = aligned_alloc(64, source.block_bytes);
    assert_int_equal(dataset_read(block, &source, &err), STATUS_USAGE);
    assert_non_null(strstr(err.message, "the model was trained on 2 normalised features, but samples have 1"));
    free(block);
}

// Another order of columns, or other values of texts, would be other numbers to the model.
static void features_that_a_model_was_not_trained_on_are_refused(void **state) {
    const char *const others[] = {"b,a,t,kind\n1,2,u,dog\n1,6,v,cat\n", "a,b,t,kind\n1,2,u,dog\n1,6,w,cat\n"};
    char folder[SCRATCH_PATH_BYTES], data[DATA_BYTES], path[SCRATCH_PATH_BYTES];
    DatasetSource source;
    DatasetModel model = {0};
    Error err = {.message = ""};
    new_folder(folder, *state, "other features");
    write_text(folder, "t.csv", "a,b,t,kind\n1,2,u,dog\n1,6,v,cat\n");
    data_of(data, scratch_path(path, folder, "t.csv"), "label=kind text=one-hot test-fraction=1");
    check_ok(dataset_find(&source, data, 1, &err));
    model.features = source.items.features;
    assert_true(model.features != 0);
    check_ok(dataset_find_for(&source, data, 1, &model, &err));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        write_text(folder, "t.csv", others[i]);
        assert_int_equal(dataset_find_for(&source, data, 1, &model, &err), STATUS_DATA);
        assert_non_null(strstr(err.message, "its features are not those of the table that the model was trained on"));
    }
}

// A table with some of the values that the model has seen becomes the model's features; also where these look like
// numbers, and whatever its settings.
static void values_of_texts_have_the_features_of_the_model(void **state) {
    static const char features[] = "sex\x1f"
                                   "f\0sex\x1fm\0age\0kin\x1f"
                                   "0\0kin\x1f"
                                   "1\0kin\x1f"
                                   "3?+\0";
    char folder[SCRATCH_PATH_BYTES], data[DATA_BYTES], path[SCRATCH_PATH_BYTES];
    DatasetSource source;
    DatasetModel model = {0};
    Dataset seen;
    Error err = {.message = ""};
    new_folder(folder, *state, "values");
    write_text(folder, "t.csv", "sex,age,kin,label\nf,2,0,0\nm,6,1,1\nf,7,3\001+,0\nm,8,0,1\n");
    data_of(data, scratch_path(path, folder, "t.csv"), "text=one-hot test-fraction=0.5");
    check_ok(dataset_find(&source, data, 1, &err));
    void *block = aligned_alloc(64, source.block_bytes);
    check_ok(dataset_read(block, &source, &err));
    check_ok(dataset_view(&seen, block, source.block_bytes, &err));
    assert_int_equal(seen.items.feature_bytes, sizeof features - 1);
    assert_memory_equal(seen.feature_names, features, sizeof features - 1);
    free(block);
    model.features = source.items.features;
    model.feature_names = (char *)(uintptr_t)features;
    write_text(folder, "t.csv", "sex,age,kin,label\nm,3,1.0,1\nm,4,3\001+,0\n");
    data_of(data, path, "test-fraction=1");
    check_ok(dataset_find_for(&source, data, 1, &model, &err));
    block = aligned_alloc(64, source.block_bytes);
    check_ok(dataset_read(block, &source, &err));
    check_ok(dataset_view(&seen, block, source.block_bytes, &err));
    expect_numbers(&seen.test, (const float[]){0, 1, 3, 0, 1, 0, 0, 1, 4, 0, 0, 1}, 12);
    free(block);
    write_text(folder, "t.csv", "sex,age,kin,label\nm,3,1,1\nd,4,0,0\n");
    assert_int_equal(dataset_find_for(&source, data, 1, &model, &err), STATUS_DATA);
    if (!strstr(err.message, "t.csv: column sex has \"d\", a value that the model does not know; it knows f, m; leave"))
        fail_msg("%s", err.message);
    write_text(folder, "t.csv", "age,sex,kin,label\n3,m,1,1\n4,m,0,0\n");
    assert_int_equal(dataset_find_for(&source, data, 1, &model, &err), STATUS_DATA);
}

// Labels that are numbers keep them: also a class that no sample has, or tests alone.
static void there_may_be_more_classes_than_the_samples_have(void **state) {
    char folder[SCRATCH_PATH_BYTES], data[DATA_BYTES], path[SCRATCH_PATH_BYTES];
    Loaded loaded;
    Error err = {.message = ""};
    new_folder(folder, *state, "classes");
    write_text(folder, "train.csv", "a,label\n1,3\n2,1\n");
    write_text(folder, "test.csv", "a,label\n1,4\n");
    load_all(&loaded, folder, "classes=6");
    assert_int_equal(loaded.data.classes, 6);
    assert_int_equal(loaded.data.train.labels[0], 3);
    assert_int_equal(loaded.data.test.labels[0], 4);
    assert_null(loaded.data.class_names);
    free(loaded.block);
    data_of(data, folder, "classes=3");
    assert_int_equal(load(&loaded, data, 1, &err), STATUS_DATA);
    if (!strstr(err.message, "column label has \"3\"; 3 classes are whole numbers from 0 to 2"))
        fail_msg("%s", err.message);
    const DatasetModel model = {.outputs = 5};
    DatasetSource source;
    check_ok(dataset_find_for(&source, data_of(data, folder, ""), 1, &model, &err));
    void *block = aligned_alloc(64, source.block_bytes);
    check_ok(dataset_read(block, &source, &err));
    check_ok(dataset_view(&loaded.data, block, source.block_bytes, &err));
    assert_int_equal(loaded.data.classes, 5); // the model's
    assert_int_equal(loaded.data.test.labels[0], 4);
    free(block);
    new_folder(folder, *state, "leaf of classes");
    new_folder(path, folder, "train");
    write_text(path, "t.json", "{\"users\": [\"a\"], \"user_data\": {\"a\": {\"x\": [[1], [2]], \"y\": [0, 1]}}}");
    new_folder(path, folder, "test");
    write_text(path, "t.json", "{\"users\": [\"a\"], \"user_data\": {\"a\": {\"x\": [[1]], \"y\": [7]}}}");
    assert_int_equal(load(&loaded, folder, 1, &err), STATUS_DATA);
    if (!strstr(err.message, "classes=8 in --data makes it a class that no training sample has"))
        fail_msg("%s", err.message);
    load_all(&loaded, folder, "classes=8");
    assert_int_equal(loaded.data.classes, 8);
    free(loaded.block);
    new_folder(path, *state, "targets");
    write_text(path, "t.csv", "a,target\n1,0.5\n2,1\n3,2\n");
    snprintf(data, sizeof data, "%s/t.csv classes=5", path);
    assert_int_equal(load(&loaded, data, 1, &err), STATUS_USAGE);
    assert_non_null(strstr(err.message, "t.csv: its samples have targets, no classes; leave out classes"));
    assert_int_equal(load(&loaded, data_of(data, folder, "classes=5"), 1, &err), STATUS_DATA);
    if (!strstr(err.message, "label 7 of test sample 0; --data says 5 classes, from 0 to 4; give a larger classes="))
        fail_msg("%s", err.message);
}

// Each remedy is one that can be typed.
static void columns_are_named_as_data_takes_them(void **state) {
    char folder[SCRATCH_PATH_BYTES], data[DATA_BYTES], path[SCRATCH_PATH_BYTES];
    DatasetSource source;
    Error err = {.message = ""};
    new_folder(folder, *state, "words");
    write_text(folder, "t.csv", "x,the name,town,label\n1,Ann,Rome,0\n2,Bob,Bonn,1\n3,Cy,Oslo,1\n4,Di,Kiel,0\n");
    data_of(data, scratch_path(path, folder, "t.csv"), "");
    assert_int_equal(dataset_find(&source, data, 1, &err), STATUS_DATA);
    assert_non_null(strstr(err.message, "without='the name,town' leaves columns out"));
    data_of(data, path, "without='the name,town'");
    check_ok(dataset_find(&source, data, 1, &err));
    write_text(folder, "t.csv", "x,\"last, first\",last,label\n1,Ann,7,0\n2,Bob,8,1\n3,Cy,9,1\n4,Di,8,0\n");
    data_of(data, path, "");
    assert_int_equal(dataset_find(&source, data, 1, &err), STATUS_DATA);
    assert_non_null(strstr(err.message, "without='last, first' leaves the column out"));
    data_of(data, path, "without='last, first,x'"); // the longest name that fits, then x
    check_ok(dataset_find(&source, data, 1, &err));
    assert_int_equal(source.shape.columns, 1);
    write_text(folder, "t.csv",
               "a-name-that-is-longer-than-a-sentence-has-room-for-and-goes-on-and-on,label\nAnn,0\nBob,1\n");
    data_of(data, path, "");
    assert_int_equal(dataset_find(&source, data, 1, &err), STATUS_DATA);
    assert_non_null(strstr(err.message, "without=COLUMN leaves the column out"));
}

static void names_of_classes_are_kept_where_they_say_more_than_numbers(void **state) {
    char folder[SCRATCH_PATH_BYTES], home[SCRATCH_PATH_BYTES];
    Loaded loaded;
    new_folder(folder, *state, "names");
    setenv("SOUNDER_CACHE", "on", 1);
    setenv("XDG_CACHE_HOME", new_folder(home, *state, "cache-of-names"), 1);
    write_text(folder, "test.csv", "a,label\n1,2\n");
    write_text(folder, "train.csv", "a,label\n1,1\n2,2\n");
    for (int again = 0; again < 2; again++) { // the second time from the copy
        load_all(&loaded, folder, "");
        assert_int_equal(loaded.from_copy, again);
        assert_string_equal(dataset_class_name(&loaded.data, 1), "2");
        free(loaded.block);
    }
    load_all(&loaded, folder, "normalize=yes"); // other settings, another copy
    assert_false(loaded.from_copy);
    free(loaded.block);
    write_text(folder, "train.csv", "a,label\n1,a\u202eb\n2,\x1b[1m\n3,2\n"); // signs that a terminal obeys
    load_all(&loaded, folder, "");
    assert_string_equal(dataset_class_name(&loaded.data, 1), "?[1m");
    assert_string_equal(dataset_class_name(&loaded.data, 2), "a???b");
    free(loaded.block);
    write_text(folder, "train.csv", "a,label\n1,0\n2,1\n3,2\n");
    load_all(&loaded, folder, "");
    assert_null(loaded.data.class_names);
    free(loaded.block);
    setenv("SOUNDER_CACHE", "off", 1);
    unsetenv("XDG_CACHE_HOME");
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(features_are_normalised_by_those_of_the_training_samples),
        cmocka_unit_test(numbers_are_scaled_before_they_are_rounded),
        cmocka_unit_test(flat_samples_get_a_shape_and_are_normalised_by_channel),
        cmocka_unit_test(pixels_are_normalised_by_their_own_mean_if_asked),
        cmocka_unit_test(pixels_in_a_table_are_doubted_until_they_are_normalised),
        cmocka_unit_test(samples_for_a_model_enter_as_those_that_it_was_trained_on),
        cmocka_unit_test(features_that_a_model_was_not_trained_on_are_refused),
        cmocka_unit_test(values_of_texts_have_the_features_of_the_model),
        cmocka_unit_test(there_may_be_more_classes_than_the_samples_have),
        cmocka_unit_test(columns_are_named_as_data_takes_them),
        cmocka_unit_test(names_of_classes_are_kept_where_they_say_more_than_numbers),
    };
    setenv("SOUNDER_CACHE", "off", 1);
    return run_cases(argc, argv, tests, scratch_set_up, scratch_tear_down);
}

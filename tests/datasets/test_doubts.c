// Data sets that can be read, but may have been meant otherwise: one sentence about each, none about others.
#include "datasets/doubts.h"

#include "array_files.h"
#include "loaded.h"

enum { SAMPLES = 24, SIDE = 8 };

static void read_set(DatasetDoubts *doubts, const char *place) {
    Loaded loaded;
    DatasetSource source;
    Error err;
    check_ok(load(&loaded, place, 1, &err));
    check_ok(dataset_find(&source, place, 1, &err));
    dataset_find_doubts(doubts, &loaded.data, &source);
    free(loaded.block);
}

// The sentences about a table of one column `name` beside a feature.
static void doubt_table(DatasetDoubts *doubts, const char *parent, const char *name, const char *const *values,
                        int count) {
    char folder[SCRATCH_PATH_BYTES], path[SCRATCH_PATH_BYTES], text[1024];
    int used = snprintf(text, sizeof text, "a,%s\n", name);
    for (int i = 0; i < SAMPLES; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, "%d.5,%s\n", i, values[i % count]);
    new_folder(folder, parent, "table");
    scratch_write(scratch_path(path, folder, "train.csv"), text, strlen(text));
    scratch_write(scratch_path(path, folder, "test.csv"), text, strlen(text));
    read_set(doubts, folder);
}

static void expect(const DatasetDoubts *doubts, const char *sentence) {
    assert_int_equal(doubts->count, sentence ? 1 : 0);
    if (sentence && !strstr(doubts->sentences[0], sentence))
        fail_msg("\"%s\" does not say \"%s\"", doubts->sentences[0], sentence);
}

static void labels_that_may_be_meant_otherwise_are_doubted(void **state) {
    static const struct {
        const char *name, *values[12];
        int count;
        const char *sentence;
    } cases[] = {
        {"label", {"0", "1", "2"}, 3, NULL},
        {"target", {"0.5", "1", "2"}, 3, NULL},
        {"target", {"-1", "1"}, 2, NULL},
        {"target", {"0", "346", "25"}, 3, NULL}, // more numbers than samples: a quantity
        {"target",
         {"0", "1.0", "2"},
         3,
         "table: all targets are whole numbers, from 0 to 2, and will be learned as quantities, by the squared loss; "
         "if "
         "they are classes, call the column label"},
        {"label", {"2"}, 1, "table: every training sample is of class 0; there is nothing to tell apart"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        DatasetDoubts doubts;
        char parent[SCRATCH_PATH_BYTES], name[16];
        snprintf(name, sizeof name, "labels-%zu", i);
        doubt_table(&doubts, new_folder(parent, *state, name), cases[i].name, cases[i].values, cases[i].count);
        expect(&doubts, cases[i].sentence);
    }
}

// The labels of arrays are numbers of classes; those of tables are numbered (test_tables.c).
static void labels_of_arrays_that_may_be_meant_otherwise_are_doubted(void **state) {
    static const struct {
        uint16_t labels[3];
        const char *sentence;
    } cases[] = {
        {{0, 1, 2}, NULL},
        {{1, 2, 3},
         "arrays: class 0 of 4 has no training sample; if that is not meant, number them from 0 without gaps"},
        {{2, 2, 2}, "arrays: every training sample is of class 2; there is nothing to tell apart"},
        {{0, 3, 0}, "arrays: 2 of 4 classes have no training sample, 1 is the first"},
        {{0, 662, 0},
         "arrays: 663 classes for 24 training samples; if the labels are quantities, save y.astype('float32')"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        DatasetDoubts doubts;
        char parent[SCRATCH_PATH_BYTES], folder[SCRATCH_PATH_BYTES], path[SCRATCH_PATH_BYTES], name[16];
        uint8_t bytes[ARRAY_ROOM], features[SAMPLES] = {0};
        uint16_t labels[SAMPLES];
        for (int s = 0; s < SAMPLES; s++)
            labels[s] = cases[i].labels[s % 3];
        snprintf(name, sizeof name, "arrays-%zu", i);
        new_folder(folder, new_folder(parent, *state, name), "arrays");
        const ArrayFile x = {.type = "|u1", .shape = "(24, 1)", .values = features, .bytes = sizeof features};
        const ArrayFile y = {.type = "<u2", .shape = "(24,)", .values = labels, .bytes = sizeof labels};
        for (int split = 0; split < 2; split++) {
            scratch_write(scratch_path(path, folder, split ? "x_test.npy" : "x_train.npy"), bytes,
                          array_bytes(bytes, &x));
            scratch_write(scratch_path(path, folder, split ? "y_test.npy" : "y_train.npy"), bytes,
                          array_bytes(bytes, &y));
        }
        read_set(&doubts, folder);
        expect(&doubts, cases[i].sentence);
    }
}

// The sentences about images of float32 of this shape, all of whose numbers are multiples of `step`.
static void doubt_images(DatasetDoubts *doubts, const char *parent, const char *shape, float step, const char *type) {
    enum { IMAGES = 2, NUMBERS = IMAGES * SIDE * SIDE };
    uint8_t bytes[ARRAY_ROOM * 2], labels[IMAGES] = {0, 1};
    float numbers[NUMBERS];
    char folder[SCRATCH_PATH_BYTES], path[SCRATCH_PATH_BYTES];
    new_folder(folder, parent, "images");
    for (int i = 0; i < NUMBERS; i++)
        numbers[i] = (float)(i % 52) * step;
    for (int split = 0; split < 2; split++) {
        const int length =
            snprintf((char *)bytes + 10, 200, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }\n", type, shape);
        memcpy(bytes, "\x93NUMPY\1\0", 8);
        bytes[8] = (uint8_t)length;
        bytes[9] = 0;
        memcpy(bytes + 10 + length, numbers, sizeof numbers);
        const size_t whole = 10 + (size_t)length + (strcmp(type, "|u1") == 0 ? NUMBERS : sizeof numbers);
        scratch_write(scratch_path(path, folder, split ? "x_test.npy" : "x_train.npy"), bytes, whole);
        const ArrayFile y = {.type = "|u1", .shape = "(2,)", .values = labels, .bytes = IMAGES};
        const size_t label_bytes = array_bytes(bytes, &y);
        scratch_write(scratch_path(path, folder, split ? "y_test.npy" : "y_train.npy"), bytes, label_bytes);
    }
    read_set(doubts, folder);
}

static void images_that_may_be_meant_otherwise_are_doubted(void **state) {
    static const struct {
        const char *shape, *type;
        float step;
        const char *sentence;
    } cases[] = {
        {"(2, 8, 8)", "<f4", 5,
         "images: samples are whole numbers from 0 to 255 and enter the net as they are; if they are pixels, save "
         "x.astype('uint8')"},
        {"(2, 8, 8)", "<f4", 0.02F, NULL},
        {"(2, 8, 8)", "|u1", 5, NULL},
        {"(2, 1, 8, 8)", "<f4", 0.02F, NULL},
        {"(2, 8, 8, 1)", "<f4", 0.02F,
         "images: samples are read as 8 channels of 8x1; if they are images of 8x8 with their channels last, save "
         "x.transpose(0, 3, 1, 2)"},
        {"(2, 8, 8, 1)", "|u1", 1, "read as 8 channels of 8x1"},
        {"(2, 4, 8, 2)", "<f4", 0.02F, // satellite bands, or activity windows
         "images: samples are read as 4 channels of 8x2; if they are images of 4x8 with their channels last"},
        {"(2, 2, 8, 4)", "<f4", 0.02F, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        DatasetDoubts doubts;
        char parent[SCRATCH_PATH_BYTES], name[16];
        snprintf(name, sizeof name, "images-%zu", i);
        doubt_images(&doubts, new_folder(parent, *state, name), cases[i].shape, cases[i].step, cases[i].type);
        expect(&doubts, cases[i].sentence);
    }
}

// A table of 40 rows by settings; `row` writes row i.
static void doubt_rows(DatasetDoubts *doubts, const char *parent, const char *header, int (*row)(char *to, int i),
                       const char *settings) {
    char folder[SCRATCH_PATH_BYTES], path[SCRATCH_PATH_BYTES], text[4096], data[SCRATCH_PATH_BYTES + 128];
    int used = snprintf(text, sizeof text, "%s\n", header);
    for (int i = 0; i < 40; i++)
        used += row(text + used, i);
    new_folder(folder, parent, "rows");
    scratch_write(scratch_path(path, folder, "t.csv"), text, strlen(text));
    snprintf(data, sizeof data, "%s %s", path, settings);
    read_set(doubts, data);
}

static int ascending(char *to, int i) {
    return sprintf(to, "%d,%d.5,%d\n", 3 * i + 100, i * 7 % 5, i % 2);
}

static int shuffled(char *to, int i) {
    return sprintf(to, "%d,%d.5,%d\n", i * 7 % 40, i * 7 % 5, i % 2);
}

static int far_apart(char *to, int i) { // a price, say
    return sprintf(to, "%d,%d.5,%d\n", i * 7 % 40 * 100000 + i, i * 7 % 5, i % 2);
}

static int repeated(char *to, int i) {
    return sprintf(to, "%d,%d.5,%d\n", i / 2, i * 7 % 5, i % 2);
}

static int copied(char *to, int i) { // the second column is the first in other words
    return sprintf(to, "%s,%s,%d.5,%d\n", i % 2 ? "yes" : "no", i % 2 ? "alive" : "dead", i * 7 % 5, i % 3);
}

static int as_number(char *to, int i) {
    return sprintf(to, "%d.25,%d.25,%d.5,%d\n", i * 3 % 40, i * 3 % 40, i * 7 % 5, i % 3);
}

static int seconds(char *to, int i) {
    return sprintf(to, "%d,%d.5,%d\n", 1700000000 + i * i, i * 7 % 5, i % 2);
}

static int large(char *to, int i) { // a population, say
    return sprintf(to, "%d,%d.5,%d\n", 1700000000 + i / 2 * 1000000, i * 7 % 5, i % 2);
}

static int serial(char *to, int i) {
    return sprintf(to, "%lld,%d.5,%d\n", 100000000000LL + i, i * 7 % 5, i % 2);
}

static int named(char *to, int i) {
    return sprintf(to, "Mr %c%c,%s,%d\n", 'a' + i % 26, 'a' + i / 26, i % 3 ? "x" : "y", i % 2);
}

static void columns_that_should_be_left_out_are_doubted(void **state) {
    static const struct {
        const char *header;
        int (*row)(char *to, int i);
        const char *settings, *sentence;
    } cases[] = {
        {"id,x,label", ascending, "",
         "t.csv: column id has another whole number in each row; if it only numbers samples, leave it out: without=id "
         "in --data"},
        {"my id,x,label", shuffled, "normalize=yes", "leave it out: without='my id' in --data"},
        {"price,x,label", far_apart, "", "t.csv: the deviations of features are up to "},
        {"price,x,label", far_apart, "normalize=yes", NULL},
        {"User_ID,x,label", repeated, "",
         "t.csv: column User_ID is a feature; if it names who has a sample, make it the client: client=User_ID in "
         "--data"},
        {"User_ID,x,label", repeated, "client=User_ID", NULL},
        {"name,x,label", named, "text=one-hot",
         "t.csv: column name has so many texts that most are of one or two samples, and each is a feature;"},
        {"number,x,label", serial, "normalize=yes",
         "column number has another whole number in each row; if it only numbers samples, leave it out: "
         "without=number"},
        {"time,x,label", seconds, "",
         "t.csv: 1 feature (time) loses digits in which samples differ: as float32, which a net takes, numbers near "},
        {"people,x,label", large, "", "normalize=yes in --data lets all weigh alike"},
        {"pair,x,label", repeated, "", NULL},
        {"a,b,x,n", copied, "label=a text=one-hot without=n",
         "t.csv: column b alone says the answer to each sample; if it was made from what is to be learned, leave it "
         "out: without=n,b in --data"},
        {"a,b,x,n", as_number, "target=a normalize=yes", "column b alone says the answer to each sample"},
        {"a,Target,x,n", copied, "label=a text=one-hot",
         "t.csv: column Target is a feature, for another column is to be learned; if it says the answer, too, leave it "
         "out: without=Target in --data"},
        {"a,label,x,n", copied, "label=a without=label", NULL},
        {"a,label,x,target", copied, "label=a text=one-hot",
         "t.csv: columns label,target are features, for another column is to be learned; if they say the answer, too, "
         "leave them out: without=label,target in --data"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        DatasetDoubts doubts;
        char parent[SCRATCH_PATH_BYTES], name[16];
        snprintf(name, sizeof name, "columns-%zu", i);
        doubt_rows(&doubts, new_folder(parent, *state, name), cases[i].header, cases[i].row, cases[i].settings);
        expect(&doubts, cases[i].sentence);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_that_may_be_meant_otherwise_are_doubted),
        cmocka_unit_test(labels_of_arrays_that_may_be_meant_otherwise_are_doubted),
        cmocka_unit_test(columns_that_should_be_left_out_are_doubted),
        cmocka_unit_test(images_that_may_be_meant_otherwise_are_doubted),
    };
    setenv("SOUNDER_CACHE", "off", 1);
    return run_cases(argc, argv, tests, scratch_set_up, scratch_tear_down);
}

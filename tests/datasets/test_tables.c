// One table is a data set: its columns by settings, its texts and gaps, its part for tests, whatever separates it.
#include <math.h>

#include "gzip_bytes.h"
#include "loaded.h"

static void write_text(const char *folder, const char *name, const char *text) {
    char path[SCRATCH_PATH_BYTES];
    scratch_write(scratch_path(path, folder, name), text, strlen(text));
}

// A value of --data: the file in the folder, and settings.
static const char *data_of(char data[SCRATCH_PATH_BYTES + 128], const char *folder, const char *name,
                           const char *settings) {
    snprintf(data, SCRATCH_PATH_BYTES + 128, "%s/%s %s", folder, name, settings);
    return data;
}

static void load_table(Loaded *loaded, const char *folder, const char *text, const char *settings) {
    char data[SCRATCH_PATH_BYTES + 128];
    Error err = {.message = ""};
    write_text(folder, "table.csv", text);
    const Status status = load(loaded, data_of(data, folder, "table.csv", settings), 1, &err);
    if (status != STATUS_OK) fail_msg("%s: %s", settings, err.message);
}

static void expect_refusal(const char *folder, const char *text, const char *settings, Status expected,
                           const char *part) {
    char data[SCRATCH_PATH_BYTES + 128];
    Loaded loaded;
    Error err = {.message = ""};
    write_text(folder, "table.csv", text);
    assert_int_equal(load(&loaded, data_of(data, folder, "table.csv", settings), 1, &err), expected);
    if (!strstr(err.message, part)) fail_msg("\"%s\" does not say \"%s\"", err.message, part);
}

// Ten rows of each of three classes; the number is the row's.
static const char *three_classes(char text[4096], const char *first, const char *second, const char *third) {
    const char *const names[] = {first, second, third};
    int used = snprintf(text, 4096, "row,species\n");
    for (int i = 0; i < 30; i++)
        used += snprintf(text + used, 4096 - (size_t)used, "%d,%s\n", i, names[i % 3]);
    return text;
}

static float number_of(const DatasetSplit *split, size_t place) {
    return dataset_number(split->pixels, place);
}

static void classes_are_numbered_by_their_sorted_names(void **state) {
    static const struct {
        const char *names[3];
        int expected[3];
    } cases[] = {
        {{"virginica", "setosa", "versicolor"}, {2, 0, 1}},
        {{"1", "2", "3"}, {0, 1, 2}},
        {{"10", "2", "1.0"}, {2, 1, 0}}, // by size
        {{"0", "-1", "1"}, {1, 0, 2}},
        {{"True", "False", "None so"}, {2, 0, 1}},
        {{"\"a, b\"", "a", "\"a \"\"c\"\"\""}, {2, 0, 1}}, // by bytes: a, a "c", a, b
    };
    char folder[SCRATCH_PATH_BYTES], text[4096];
    new_folder(folder, *state, "classes");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Loaded loaded;
        load_table(&loaded, folder, three_classes(text, cases[i].names[0], cases[i].names[1], cases[i].names[2]),
                   "label=species");
        assert_int_equal(loaded.data.classes, 3);
        assert_int_equal(loaded.data.train.count, 24);
        assert_int_equal(loaded.data.test.count, 6);
        for (uint32_t s = 0; s < 24; s++)
            assert_int_equal(loaded.data.train.labels[s], cases[i].expected[(int)number_of(&loaded.data.train, s) % 3]);
        free(loaded.block);
    }
}

static void each_class_gives_its_share_to_the_tests_by_the_seed(void **state) {
    char folder[SCRATCH_PATH_BYTES], text[4096];
    Loaded first, again, other;
    int per_class[3] = {0}, differ = 0;
    bool seen[30] = {false};
    new_folder(folder, *state, "split");
    three_classes(text, "a", "b", "c");
    load_table(&first, folder, text, "label=species test-fraction=0.4");
    load_table(&again, folder, text, "label=species  test-fraction=0.4 test-seed=1");
    load_table(&other, folder, text, "label=species test-fraction=0.4 test-seed=2");
    assert_int_equal(first.data.test.count, 12);
    assert_memory_equal(first.data.test.pixels, again.data.test.pixels, 12 * sizeof(float));
    for (uint32_t s = 0; s < 12; s++) {
        per_class[first.data.test.labels[s]]++;
        seen[(int)number_of(&first.data.test, s)] = true;
        differ += number_of(&first.data.test, s) != number_of(&other.data.test, s);
    }
    for (int c = 0; c < 3; c++)
        assert_int_equal(per_class[c], 4);
    for (uint32_t s = 0; s < 18; s++) // in the order of the file, and no sample in both parts
        assert_false(seen[(int)number_of(&first.data.train, s)] ||
                     (s > 0 && number_of(&first.data.train, s) < number_of(&first.data.train, s - 1)));
    assert_true(differ > 0);
    free(first.block);
    free(again.block);
    free(other.block);
    load_table(&first, folder, "a,label\n1,x\n2,x\n3,x\n4,x\n5,y\n", "test-fraction=0.9");
    assert_int_equal(first.data.train.count, 2); // each class keeps one
    assert_int_equal(first.data.classes, 2);
    free(first.block);
    expect_refusal(folder, "a,label\n1,x\n2,y\n", "", STATUS_DATA, "table.csv: 2 samples, none of which can be spared");
}

static void folds_share_no_sample_and_have_all(void **state) {
    char folder[SCRATCH_PATH_BYTES], text[4096], settings[64];
    int seen[30] = {0};
    new_folder(folder, *state, "folds");
    three_classes(text, "a", "b", "c");
    for (int fold = 1; fold <= 4; fold++) {
        int per_class[3] = {0};
        Loaded loaded;
        snprintf(settings, sizeof settings, "label=species fold=%d/4", fold);
        load_table(&loaded, folder, text, settings);
        assert_int_equal(loaded.data.train.count + loaded.data.test.count, 30);
        assert_in_range(loaded.data.test.count, 7, 8);
        for (uint32_t s = 0; s < loaded.data.test.count; s++) {
            per_class[loaded.data.test.labels[s]]++;
            seen[(int)number_of(&loaded.data.test, s)]++;
        }
        for (int c = 0; c < 3; c++)
            assert_in_range(per_class[c], 2, 3); // of ten
        free(loaded.block);
    }
    for (int i = 0; i < 30; i++)
        assert_int_equal(seen[i], 1);
    static const char *const wrong[] = {"0/4", "5/4", "1/1", "1", "1/4x", "-1/4"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(settings, sizeof settings, "label=species fold=%s", wrong[i]);
        expect_refusal(folder, text, settings, STATUS_USAGE,
                       "write which of how many parts is for tests, such as fold");
    }
    expect_refusal(folder, text, "label=species fold=1/4 test-fraction=0.2", STATUS_USAGE, "fold and test-fraction");
    expect_refusal(folder, "a,label\n1,x\n2,y\n3,x\n", "fold=4/5", STATUS_DATA,
                   "none of the 3 samples; give fewer folds");
}

static void write_rows(const char *folder, const char *name, int first) {
    char text[256];
    int used = snprintf(text, sizeof text, "a,label\n");
    for (int i = 0; i < 5; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, "%d,%d\n", first + i, i % 2);
    write_text(folder, name, text);
}

// Three layouts of the tables of clients b9 and b10: 90 to 94 and 100 to 104, and the tests.
static void each_file_or_folder_may_be_a_client(void **state) {
    static const struct {
        const char *folders[2], *names[4]; // of b10, b9, and their tests; empty: none
        bool has_tests;
    } cases[] = {{{"", ""}, {"b10.csv", "b9.tsv", "", ""}, false},
                 {{"b10", "b9"}, {"b10/train.csv", "b9/x_train.csv", "b10/test.csv", "b9/x_test.csv"}, true},
                 {{"train", "test"}, {"train/b10.csv", "train/b9.csv", "test/b10.csv", "test/b9.csv"}, true}};
    char folder[SCRATCH_PATH_BYTES], path[SCRATCH_PATH_BYTES], data[SCRATCH_PATH_BYTES + 128];
    Error err = {.message = ""};
    Loaded loaded;
    for (size_t c = 0; c < 3; c++) {
        snprintf(path, sizeof path, "clients-%zu", c);
        new_folder(folder, *state, path);
        for (int i = 0; i < 2 && *cases[c].folders[i]; i++)
            new_folder(path, folder, cases[c].folders[i]);
        for (int i = 0; i < 4 && *cases[c].names[i]; i++)
            write_rows(folder, cases[c].names[i], (i % 2 ? 90 : 100) + 200 * (i / 2));
        assert_int_equal(load(&loaded, folder, 1, &err), STATUS_NOINPUT);
        assert_non_null(strstr(err.message, "say client=file in --data, with the column to be learned"));
        check_ok(load(&loaded, data_of(data, folder, "", "client=file"), 1, &err));
        assert_int_equal(loaded.data.users, 2);
        assert_string_equal(loaded.data.user_names, "b10"); // numbered as the values of a column are
        assert_string_equal(loaded.data.user_names + 4, "b9");
        assert_int_equal(loaded.data.test.count, cases[c].has_tests ? 10 : 2);
        for (uint32_t s = 0; s < loaded.data.test.count; s++)
            assert_int_equal(loaded.data.test.owners[s], (int)number_of(&loaded.data.test, s) % 100 >= 90);
        for (uint32_t s = 0; s < loaded.data.train.count; s++)
            assert_int_equal(loaded.data.train.owners[s], (int)number_of(&loaded.data.train, s) % 100 >= 90);
        free(loaded.block);
    }
    write_rows(folder, "more.csv", 0);
    assert_int_equal(load(&loaded, data_of(data, folder, "", "client=file"), 1, &err), STATUS_DATA);
    assert_non_null(strstr(err.message, "a table for each client, and a folder; give all the same form"));
    new_folder(folder, *state, "clients-named-file");
    write_text(folder, "b.csv", "file,label\n1,2\n");
    assert_int_equal(load(&loaded, data_of(data, folder, "", "client=file"), 1, &err), STATUS_DATA);
    assert_non_null(strstr(err.message, "b.csv:1: a column is called file"));
}

static void a_pair_may_have_other_names(void **state) {
    static const char *const names[][2] = {
        {"mnist_train.csv", "mnist_test.csv"}, {"Gun_TRAIN.tsv", "Gun_TEST.tsv"}, {"x-Train.csv", "x-Test.csv"}};
    char folder[SCRATCH_PATH_BYTES], name[32];
    Error err = {.message = ""};
    Loaded loaded;
    for (size_t c = 0; c < 3; c++) {
        snprintf(name, sizeof name, "pair-%zu", c);
        new_folder(folder, *state, name);
        write_rows(folder, names[c][0], 0);
        write_rows(folder, names[c][1], 50);
        check_ok(load(&loaded, folder, 1, &err));
        assert_int_equal(loaded.data.test.count, 5);
        assert_true(number_of(&loaded.data.test, 0) == 50 && number_of(&loaded.data.train, 0) == 0);
        free(loaded.block);
    }
    write_rows(folder, "y_train.csv", 0); // two pairs: neither is meant
    write_rows(folder, "y_test.csv", 0);
    assert_int_equal(load(&loaded, folder, 1, &err), STATUS_NOINPUT);
}

static void clients_are_named_by_any_column_and_keep_tests_of_their_own(void **state) {
    char folder[SCRATCH_PATH_BYTES], text[4096];
    Loaded loaded;
    int used = snprintf(text, sizeof text, "x,y,hospital\n");
    for (int i = 0; i < 20; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, "%d,%d.5,%s\n", i, i, i % 2 ? "Ulm" : "Bonn");
    new_folder(folder, *state, "clients");
    load_table(&loaded, folder, text, "target=y client=hospital");
    assert_int_equal(loaded.data.users, 2);
    assert_int_equal(loaded.data.items.label_bytes, 4);
    assert_int_equal(loaded.data.test.count, 4);
    int of_ulm = 0;
    for (uint32_t s = 0; s < 4; s++) {
        assert_int_equal(loaded.data.test.owners[s], (int)number_of(&loaded.data.test, s) % 2); // Bonn, Ulm
        assert_true(dataset_number((const uint8_t *)loaded.data.test.labels, s) ==
                    number_of(&loaded.data.test, s) + 0.5F);
        of_ulm += loaded.data.test.owners[s] == 1;
    }
    assert_int_equal(of_ulm, 2);
    free(loaded.block);
}

static void the_first_line_tells_the_separator(void **state) {
    static const char *const tables[] = {
        "a;b, c;label\n1;2;0\n3;4;1\n5;6;0\n7;8;1\n",
        "a\tb c\tlabel\n1\t2\t0\n3\t4\t1\n5\t6\t0\n7\t8\t1\n",
        "a|b|label\n1|2|0\n3|4|1\n5|6|0\n7|8|1\n",
        "\"a;;;\",b,label\r\n1,2,0\r\n3,4,1\r\n\r\n   \r\n5,6,0\r\n7,8,1",
        "\"a\nb\",\"c\"\"d\",label\n\"1\",2,\"0\"\n3,\"4\",1\n5,6,0\n7,8,1\n",
    };
    char folder[SCRATCH_PATH_BYTES];
    new_folder(folder, *state, "separators");
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        Loaded loaded;
        load_table(&loaded, folder, tables[i], "test-fraction=0.5");
        assert_int_equal(loaded.data.shape.columns, 2);
        for (uint32_t s = 0; s < 2; s++) {
            assert_true(number_of(&loaded.data.train, 2 * s + 1) == number_of(&loaded.data.train, 2 * s) + 1);
            assert_int_equal(loaded.data.train.labels[s], ((int)number_of(&loaded.data.train, 2 * s) - 1) / 2 % 2);
        }
        free(loaded.block);
    }
}

static void a_table_may_be_packed(void **state) {
    static const char text[] = "a,label\n1,0\n2,1\n3,0\n4,1\n";
    char folder[SCRATCH_PATH_BYTES], path[SCRATCH_PATH_BYTES], other[SCRATCH_PATH_BYTES],
        data[SCRATCH_PATH_BYTES + 128];
    uint8_t packed[256];
    Loaded loaded;
    Error err = {.message = ""};
    new_folder(folder, *state, "packed");
    const size_t bytes = gzip_bytes(packed, sizeof packed, (const uint8_t *)text, strlen(text));
    scratch_write(scratch_path(path, folder, "t.csv.gz"), packed, bytes);
    check_ok(load(&loaded, data_of(data, folder, "t.csv.gz", "test-fraction=0.5"), 1, &err));
    assert_int_equal(loaded.data.train.count, 2);
    free(loaded.block);
    scratch_write(scratch_path(other, folder, "t.data"), text, strlen(text));
    assert_int_equal(load(&loaded, other, 1, &err), STATUS_NOINPUT);
    assert_non_null(strstr(err.message, "t.data: if it is a table whose columns are separated by"));
    check_ok(load(&loaded, data_of(data, folder, "t.data", "label=label"), 1, &err)); // the setting says that it is one
    free(loaded.block);
    packed[bytes - 6] ^= 1; // of the checksum
    scratch_write(path, packed, bytes);
    assert_int_equal(load(&loaded, path, 1, &err), STATUS_DATA);
    if (!strstr(err.message, "t.csv.gz: corrupt gzip data")) fail_msg("%s", err.message);
}

static void a_packed_table_may_have_several_members_and_no_endless_line(void **state) {
    enum { ROW_BYTES = (64 << 20) + 4096 };
    static const char first[] = "a,label\n1,0\n2,", second[] = "1\n3,0\n4,1\n";
    char folder[SCRATCH_PATH_BYTES], path[SCRATCH_PATH_BYTES];
    Loaded loaded;
    Error err = {.message = ""};
    new_folder(folder, *state, "members");
    uint8_t *packed = malloc(1 << 20), *row = malloc(ROW_BYTES);
    size_t bytes = gzip_bytes(packed, 256, (const uint8_t *)first, strlen(first));
    bytes += gzip_bytes(packed + bytes, 256, (const uint8_t *)second, strlen(second));
    scratch_write(scratch_path(path, folder, "t.csv.gz"), packed, bytes);
    check_ok(load(&loaded, path, 1, &err));
    assert_int_equal(loaded.data.train.count + loaded.data.test.count, 4);
    free(loaded.block);
    for (int quoted = 0; quoted < 2; quoted++) { // without an end of a line, and with many in quotes that stay open
        memset(row, 'x', ROW_BYTES);
        for (size_t i = 1023; i < ROW_BYTES && quoted; i += 1024)
            row[i] = '\n';
        if (quoted) memcpy(row, "a,label\n\"", 9);
        scratch_write(path, packed, gzip_bytes_with(packed, 1 << 20, row, ROW_BYTES, 1, NULL));
        assert_int_equal(load(&loaded, path, 1, &err), STATUS_DATA);
        if (!strstr(err.message,
                    quoted ? "t.csv.gz:2: a row of more than 64 MiB" : "t.csv.gz: a line of more than 64 MiB"))
            fail_msg("%s", err.message);
    }
    free(row);
    free(packed);
}

static const char passengers[] = "name,sex,age,deck,label\n"
                                 "Ann,female,30,1,0\nBob,male,,2,1\nCem,male,20,?,1\nDoe,female,40,3,0\n"
                                 "Eva,female,50,10,1\nFay,female,60,2,0\nGil,male,70,4,0\n";

static void one_sentence_names_all_columns_that_are_no_numbers(void **state) {
    char folder[SCRATCH_PATH_BYTES];
    new_folder(folder, *state, "unfit");
    expect_refusal(
        folder, passengers, "", STATUS_DATA,
        "table.csv: texts in name (\"Ann\" in line 2), sex (\"female\" in line 2), and gaps in age (1), deck "
        "(1); in --data, without=name,sex leaves columns out, text=one-hot makes a number of each value, "
        "missing=drop leaves out the rows with gaps, missing=mean fills those of features");
    expect_refusal(
        folder, passengers, "without=name,sex,deck", STATUS_DATA,
        "table.csv:3: column age has \"\", \"?\", \"nan\" or the like, in 1 row; missing=drop in --data leaves "
        "such rows out, missing=mean fills them with the mean of the training samples, and without=age");
    expect_refusal(folder, "a,label\n1,\n2,1\n", "", STATUS_DATA, "table.csv:2: column label has \"\"");
    expect_refusal(folder, "a b,label\nx,0\n2,1\n", "", STATUS_DATA, "without='a b' leaves the column out");
    expect_refusal(folder, "a,label\n1,2\ninf,1\n", "text=one-hot", STATUS_DATA,
                   "table.csv:3: column a has \"inf\"; it needs a finite number");
    char text[4096];
    int used = snprintf(text, sizeof text, "a,label\n");
    for (int i = 0; i < 60; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, "%d,%d\n", i, i % 2);
    snprintf(text + used, sizeof text - (size_t)used, "12O,1\n"); // a slip of the pen
    expect_refusal(
        folder, text, "text=one-hot", STATUS_DATA,
        "table.csv:62: column a has \"12O\" among 60 numbers and 1 texts, of too many values for text=one-hot");
}

static void texts_become_numbers_and_rows_with_gaps_are_left_out(void **state) {
    char folder[SCRATCH_PATH_BYTES];
    Loaded loaded;
    new_folder(folder, *state, "hot");
    load_table(&loaded, folder, passengers, "text=one-hot missing=drop without=name test-fraction=0.25");
    assert_int_equal(loaded.data.shape.columns, 4); // female, male, age, deck
    assert_int_equal(loaded.data.train.count + loaded.data.test.count, 5);
    for (uint32_t s = 0; s < loaded.data.train.count; s++) {
        const float *row = (const float *)(const void *)loaded.data.train.pixels + 4 * s;
        assert_true(row[0] == (row[2] != 70) && row[1] == (row[2] == 70)); // Gil is the only man without a gap
    }
    free(loaded.block);
    load_table(&loaded, folder, "kin,ok,label\n0,True,a\n1,FALSE,b\n3+,true,a\n1,false,b\n",
               "text=one-hot test-fraction=0.25");
    assert_int_equal(loaded.data.shape.columns, 4); // 0, 1, 3+, and truth values are numbers
    for (uint32_t s = 0; s < loaded.data.train.count; s++) {
        const float *row = (const float *)(const void *)loaded.data.train.pixels + 4 * s;
        assert_true(row[0] + row[1] + row[2] == 1);
        assert_true(row[3] == (loaded.data.train.labels[s] == 0));
    }
    free(loaded.block);
}

static void expect_row(const Loaded *loaded, uint32_t sample, size_t columns, const float *expected) {
    assert_int_equal(loaded->data.shape.columns, columns);
    for (size_t i = 0; i < columns; i++)
        assert_true(((const float *)(const void *)loaded->data.train.pixels)[sample * columns + i] == expected[i]);
}

static void load_folder(Loaded *loaded, const char *folder, const char *settings) {
    char data[SCRATCH_PATH_BYTES + 128];
    Error err = {.message = ""};
    snprintf(data, sizeof data, "%s %s", folder, settings);
    if (load(loaded, data, 1, &err) != STATUS_OK) fail_msg("%s: %s", settings, err.message);
}

static void gaps_are_filled_by_the_training_samples(void **state) {
    static const char train[] = "a,b,kind,label\n1,7,x,0\n,7,y,1\n3,NA,,0\n8,7,x,1\n5,7,x,?\n",
                      tests[] = "a,b,kind,label\n100,,x,0\n?,7,x,1\n";
    char folder[SCRATCH_PATH_BYTES];
    Loaded loaded;
    new_folder(folder, *state, "filled");
    write_text(folder, "train.csv", train);
    write_text(folder, "test.csv", tests);
    const struct {
        const char *missing;
        float middle; // of 1, 3, 8
    } cases[] = {{"mean", 4}, {"median", 3}};
    for (size_t i = 0; i < 2; i++) {
        char settings[64];
        snprintf(settings, sizeof settings, "text=one-hot missing=%s", cases[i].missing);
        load_folder(&loaded, folder, settings);
        assert_int_equal(loaded.data.train.count, 4); // the row without label is left out
        assert_int_equal(loaded.data.items.dropped, 1);
        expect_row(&loaded, 1, 4, (const float[]){cases[i].middle, 7, 0, 1});
        expect_row(&loaded, 2, 4, (const float[]){3, 7, 0, 0});
        assert_true(((const float *)(const void *)loaded.data.test.pixels)[4] == cases[i].middle); // 100 is a test's
        assert_true(loaded.data.fills[0] == (double)cases[i].middle && loaded.data.fills[1] == 7);
        free(loaded.block);
    }
    load_folder(&loaded, folder, "text=one-hot missing=flag");
    expect_row(&loaded, 1, 7, (const float[]){4, 1, 7, 0, 0, 1, 0});
    expect_row(&loaded, 2, 7, (const float[]){3, 0, 7, 1, 0, 0, 1});
    free(loaded.block);
    load_folder(&loaded, folder, "text=one-hot missing=mean normalize=yes"); // filled first
    assert_true(loaded.data.means[0] == 4);
    expect_row(&loaded, 1, 4, (const float[]){0, 0, -1, 1.7320508F});
    free(loaded.block);
    write_text(folder, "train.csv", "a,b,kind,label\n1,,x,0\n,NA,y,1\n");
    Error err;
    char data[SCRATCH_PATH_BYTES + 128];
    assert_int_equal(load(&loaded, data_of(data, folder, "", "text=one-hot missing=mean"), 1, &err), STATUS_DATA);
    assert_non_null(strstr(err.message, "no training sample has a value of feature 1"));
}

// A category of each value would leave nothing to learn: a value of the tests has no feature.
static void numbers_in_other_writing_are_named_and_can_be_read(void **state) {
    char folder[SCRATCH_PATH_BYTES], text[512], *to = text;
    Loaded loaded;
    new_folder(folder, *state, "writing");
    load_table(&loaded, folder, "a;b;label\n0,64;1.234,5;0\n-1,5;7;1\n-;2;0\nunknown;2;1\n2e1;1.234.567,25;0\n1;2;1\n",
               "decimal=, gaps=-,unknown missing=drop test-fraction=0.5");
    assert_int_equal(loaded.data.train.count + loaded.data.test.count, 4);
    float sum = 0;
    for (uint32_t s = 0; s < 2; s++)
        sum += number_of(&loaded.data.train, 2 * s) + number_of(&loaded.data.test, 2 * s) +
               number_of(&loaded.data.train, 2 * s + 1) + number_of(&loaded.data.test, 2 * s + 1);
    assert_true(fabsf(sum - (0.64F - 1.5F + 20 + 1 + 1234.5F + 7 + 1234567.25F + 2)) < 0.3F);
    free(loaded.block);
    expect_refusal(folder, "a;label\n1.234;0\n1,5;1\n", "decimal=,", STATUS_DATA, "column a has \"1.234\"; it needs");
    expect_refusal(
        folder, "a;b;label\n0,64;1,5;0\n0,65;2;1\n", "", STATUS_DATA,
        "texts in a (\"0,64\" in line 2, a number with a decimal comma), b (\"1,5\" in line 2, a number with a "
        "decimal comma); in --data, decimal=, reads numbers with a decimal comma, without=a,b leaves columns out");
    expect_refusal(
        folder, "day,label\n2024-01-01 10:00,0\n2024-01-02 9:00,1\n", "", STATUS_DATA,
        "\"2024-01-01 10:00\", a date; it needs a finite number, with a point; in --data, without=day leaves the "
        "column out; a date may enter as a number of days or seconds");
    expect_refusal(
        folder, "a,label\n1,0\n2,1\n3,0\n-,1\n", "", STATUS_DATA,
        "\"-\", probably a gap; it needs a finite number, with a point; in --data, gaps=- makes such a text a gap");
    expect_refusal(folder, "hospital,a,label\nNorth,1,0\nSouth,2,1\n", "", STATUS_DATA,
                   "in --data, client=hospital gives each its samples, without=hospital leaves the column out");
    to += sprintf(to, "a,label\n");
    for (int i = 0; i < 12; i++)
        to += sprintf(to, "%d%%,%d\n", i + 10, i % 2);
    for (int hot = 0; hot < 2; hot++) // also where it is asked for
        expect_refusal(folder, text, hot ? "text=one-hot" : "", STATUS_DATA, "a number with a percent sign");
}

static void a_table_without_names_has_numbered_columns(void **state) {
    char folder[SCRATCH_PATH_BYTES];
    Loaded loaded;
    new_folder(folder, *state, "nameless");
    load_table(&loaded, folder, "1,5,b\n2,6,a\n3,7,b\n4,8,a\n", "header=no label=3 test-fraction=0.5");
    assert_int_equal(loaded.data.train.count + loaded.data.test.count, 4);
    assert_int_equal(loaded.data.shape.columns, 2);
    free(loaded.block);
    expect_refusal(folder, "1,5\n2,6\n", "", STATUS_DATA,
                   "say so and name columns by their numbers: --data \"FILE header=no label=COLUMN\"");
    expect_refusal(folder, "1,5.5\n0,6\n1,7\n0,8\n", "", STATUS_DATA, "--data \"FILE header=no label=1\"");
    expect_refusal(folder, "1.5,0\n0,1\n1,0\n7,1\n", "", STATUS_DATA, "--data \"FILE header=no label=2\"");
    load_table(&loaded, folder, "0,1,LABEL\n1,5,b\n2,6,a\n3,7,b\n4,8,a\n", "test-fraction=0.5"); // numbers that count
    assert_int_equal(loaded.data.shape.columns, 2);
    free(loaded.block);
    load_table(&loaded, folder, "7,1,label\n1,5,b\n2,6,a\n3,7,b\n4,8,a\n", "header=yes test-fraction=0.5");
    free(loaded.block);
    expect_refusal(folder, ",a,label\n0,1,0\n1,2,1\n", "", STATUS_DATA, "column 1 has no name, as pandas'");
}

static void a_setting_that_cannot_be_meant_is_refused(void **state) {
    static const char table[] = "width,kind\n1,a\n2,b\n";
    static const struct {
        const char *settings, *part;
        Status status;
    } cases[] = {
        {"", "no column is called label or target; there are width, kind; name the one to be learned", STATUS_DATA},
        {"label=knd", "label=knd: no column is called so (did you mean kind?); there are width, kind", STATUS_DATA},
        {"label=kind without=kind", "column kind cannot be two things", STATUS_DATA},
        {"label=kind target=width", "--data: label and target; give one of them", STATUS_USAGE},
        {"label=kind without=width", "no column is left for a sample's numbers", STATUS_DATA},
        {"target=kind", "column kind has \"a\"; a target is a finite number, with a point; for classes say label=kind",
         STATUS_DATA},
        {"lable=kind", "lable=kind is no part of it (did you mean label?)", STATUS_USAGE},
        {"label=kind test-fraction=1.5", "test-fraction=1.5: needs a number from 0.001 to 1", STATUS_USAGE},
        {"label=kind text=hot", "text=hot: needs one of refuse one-hot", STATUS_USAGE},
    };
    char folder[SCRATCH_PATH_BYTES], path[SCRATCH_PATH_BYTES], data[SCRATCH_PATH_BYTES + 128];
    Loaded loaded;
    Error err;
    new_folder(folder, *state, "settings");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_refusal(folder, table, cases[i].settings, cases[i].status, cases[i].part);
    write_text(folder, "train.csv", table);
    write_text(folder, "test.csv", table);
    snprintf(data, sizeof data, "%s label=kind test-fraction=0.2", folder);
    assert_int_equal(load(&loaded, data, 1, &err), STATUS_USAGE);
    assert_non_null(strstr(err.message, "has test.csv; leave out test-fraction"));
    assert_int_equal(unlink(scratch_path(path, folder, "train.csv")), 0);
    assert_int_equal(unlink(scratch_path(path, folder, "test.csv")), 0);
    write_text(folder, "train.txt", "abc");
    write_text(folder, "test.txt", "abc");
    assert_int_equal(unlink(scratch_path(path, folder, "table.csv")), 0);
    snprintf(data, sizeof data, "%s label=kind", folder);
    assert_int_equal(load(&loaded, data, 1, &err), STATUS_USAGE);
    if (!strstr(err.message, "--data: label=kind: no setting of data of the form text")) fail_msg("%s", err.message);
}

static void names_of_files_and_columns_may_have_blanks(void **state) {
    static const char table[] = "petal width,my kind\n1,a\n2,b\n3,a\n4,b\n";
    char folder[SCRATCH_PATH_BYTES], data[SCRATCH_PATH_BYTES + 128];
    Loaded loaded;
    Error err = {.message = ""};
    new_folder(folder, *state, "my data a=b");
    write_text(folder, "x=1 table.csv", table);
    check_ok(load(&loaded, data_of(data, folder, "x=1 table.csv", "label='my kind'"), 1, &err));
    assert_int_equal(loaded.data.classes, 2);
    free(loaded.block);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_are_numbered_by_their_sorted_names),
        cmocka_unit_test(each_class_gives_its_share_to_the_tests_by_the_seed),
        cmocka_unit_test(folds_share_no_sample_and_have_all),
        cmocka_unit_test(each_file_or_folder_may_be_a_client),
        cmocka_unit_test(a_pair_may_have_other_names),
        cmocka_unit_test(clients_are_named_by_any_column_and_keep_tests_of_their_own),
        cmocka_unit_test(the_first_line_tells_the_separator),
        cmocka_unit_test(a_table_may_be_packed),
        cmocka_unit_test(a_packed_table_may_have_several_members_and_no_endless_line),
        cmocka_unit_test(one_sentence_names_all_columns_that_are_no_numbers),
        cmocka_unit_test(texts_become_numbers_and_rows_with_gaps_are_left_out),
        cmocka_unit_test(gaps_are_filled_by_the_training_samples),
        cmocka_unit_test(numbers_in_other_writing_are_named_and_can_be_read),
        cmocka_unit_test(a_table_without_names_has_numbered_columns),
        cmocka_unit_test(a_setting_that_cannot_be_meant_is_refused),
        cmocka_unit_test(names_of_files_and_columns_may_have_blanks),
    };
    setenv("SOUNDER_CACHE", "off", 1);
    return run_cases(argc, argv, tests, scratch_set_up, scratch_tear_down);
}

// Tables, LEAF's JSON and CIFAR's records as data sets: what is in them arrives, what does not fit is one sentence.
#include "datasets/formats/format.h"

#include "loaded.h"

static void write_text(const char *folder, const char *name, const char *text) {
    char path[SCRATCH_PATH_BYTES];
    scratch_write(scratch_path(path, folder, name), text, strlen(text));
}

static const float *floats_of(const void *bytes) {
    return bytes;
}

static void expect_refusal(const char *folder, Status expected, const char *part) {
    Loaded loaded;
    Error err = {.message = ""};
    assert_int_equal(load(&loaded, folder, 1, &err), expected);
    if (!strstr(err.message, part) || !strstr(err.message, folder))
        fail_msg("\"%s\" does not say \"%s\" of %s", err.message, part, folder);
}

// Texts ---------------------------------------------------------------------------------------------------------------

static void characters_of_texts_are_numbered_and_sections_are_clients(void **state) {
    char folder[SCRATCH_PATH_BYTES];
    Loaded loaded;
    Error err;
    new_folder(folder, *state, "text");
    write_text(folder, "train.txt", "bacab;c;bbd");
    write_text(folder, "test.txt", "dac;abcd;aaa");
    write_text(folder, "text.json", "{\"length\": 2, \"separator\": \";\"}");
    check_ok(load(&loaded, folder, 1, &err));
    // ';' is a character, too, though none of a sample: 0, and a to d are 1 to 4. "c" makes no sample, its section no
    // client.
    const uint8_t train[8] = {2, 1, 1, 3, 3, 1, 2, 2}, test[8] = {4, 1, 1, 2, 2, 3, 1, 1};
    const uint16_t train_labels[4] = {3, 1, 2, 4}, test_labels[4] = {3, 3, 4, 1};
    const uint32_t train_owners[4] = {0, 0, 0, 1}, test_owners[4] = {0, UINT32_MAX, UINT32_MAX, 1};
    const Dataset *data = &loaded.data;
    assert_int_equal(data->train.count, 4);
    assert_int_equal(data->test.count, 4);
    assert_int_equal(data->shape.channels * data->shape.rows, 1);
    assert_int_equal(data->shape.columns, 2);
    assert_int_equal(data->classes, 5);
    assert_int_equal(data->users, 2);
    assert_memory_equal(data->train.pixels, train, sizeof train);
    assert_memory_equal(data->test.pixels, test, sizeof test);
    assert_memory_equal(data->train.labels, train_labels, sizeof train_labels);
    assert_memory_equal(data->test.labels, test_labels, sizeof test_labels);
    assert_memory_equal(data->train.owners, train_owners, sizeof train_owners);
    assert_memory_equal(data->test.owners, test_owners, sizeof test_owners);
    assert_true(data->scale[0] == 1 && data->shift[0] == 0);
    assert_int_equal(data->items.vocabulary, 5);
    assert_memory_equal(data->feature_names, ";\0a\0b\0c\0d", 10);
    free(loaded.block);
    write_text(folder, "text.json", "{\"length\": 4, \"step\": 3}");
    check_ok(load(&loaded, folder, 1, &err));
    assert_int_equal(loaded.data.train.count, 3); // of 11 characters: those that begin at 0, 3, 6
    assert_int_equal(loaded.data.users, 0);
    assert_int_equal(loaded.data.train.labels[2], 4);
    free(loaded.block);
}

static void texts_for_a_model_are_numbered_by_its_vocabulary(void **state) {
    static const struct {
        char *tokens;
        const char *test, *refusal;
        uint8_t numbers[4]; // of the bytes a, b, 0xff, b
    } cases[] = {{"b\0x\0a\0\\xff\0", "bab", NULL, {2, 0, 3, 0}},
                 {"\xc3\xa9\0\\xFF\0\\xff\0b\0a\0", "bab", NULL, {4, 3, 2, 3}},
                 {"b\0a\0\\xff\0", "b\ncc", "not in the model's vocabulary (2, in 3 places): \\n, c; leave", {0}},
                 {"a\0", "bab", "not in the model's vocabulary (2, in 5 places): b, \\xff; leave", {0}}};
    char folder[SCRATCH_PATH_BYTES];
    new_folder(folder, *state, "numbered-text");
    write_text(folder, "train.txt", "ab\377b");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const DatasetModel model = {.feature_names = cases[i].tokens, .are_tokens = true};
        char data[SCRATCH_PATH_BYTES + 16];
        Loaded loaded;
        Error err = {.message = ""};
        write_text(folder, "test.txt", cases[i].test);
        snprintf(data, sizeof data, "%s length=2", folder);
        const Status status = load_for(&loaded, data, 1, &model, &err);
        if (cases[i].refusal) {
            assert_int_equal(status, STATUS_DATA);
            if (!strstr(err.message, cases[i].refusal))
                fail_msg("\"%s\" does not say \"%s\"", err.message, cases[i].refusal);
            continue;
        }
        check_ok(status);
        assert_memory_equal(
            loaded.data.train.pixels,
            ((uint8_t[]){cases[i].numbers[0], cases[i].numbers[1], cases[i].numbers[1], cases[i].numbers[2]}), 4);
        assert_int_equal(loaded.data.train.labels[0], cases[i].numbers[2]);
        assert_int_equal(loaded.data.train.labels[1], cases[i].numbers[3]);
        free(loaded.block);
    }
}

static void each_file_of_texts_tells_whether_a_copy_is_stale(void **state) {
    static const char *const files[] = {"train.txt", "test.txt", "text.json"};
    static const char *const texts[] = {"abababab", "babababa", "{\"length\": 2 }"};
    char folder[SCRATCH_PATH_BYTES];
    Error err;
    new_folder(folder, *state, "stale-text");
    for (int i = 0; i < 3; i++)
        write_text(folder, files[i], i == 2 ? "{\"length\": 2}" : "abcdabcd");
    DatasetSource before, after;
    check_ok(dataset_find(&before, folder, 1, &err));
    for (int i = 0; i < 3; i++, before = after) {
        write_text(folder, files[i], texts[i]);
        check_ok(dataset_find(&after, folder, 1, &err));
        assert_memory_not_equal(before.origin.states, after.origin.states, sizeof after.origin.states);
    }
}

static void what_is_wrong_with_texts_is_told(void **state) {
    static const struct {
        const char *settings, *train, *part;
    } cases[] = {
        {"{\"length\": 5}", "abcde", "train.txt: 5 bytes make 0 samples of 5 characters and one that follows"},
        {"{\"length\": 0}", "abcde", "text.json: length needs a whole number from 1 to 65535"},
        {"{\"step\": 1.5}", "abcde", "text.json: step needs a whole number"},
        {"{\"separator\": \"\"}", "abcde", "text.json: separator needs a text"},
        {"{\"size\": 3}", "abcde", "text.json: \"size\" is unknown"},
        {"{\n\"length\" 3}", "abcde", "text.json:2: "},
        {"[3]", "abcde", "text.json: needs an object"},
    };
    char folder[SCRATCH_PATH_BYTES];
    new_folder(folder, *state, "bad-text");
    write_text(folder, "test.txt", "abcdefgh");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text(folder, "train.txt", cases[i].train);
        write_text(folder, "text.json", cases[i].settings);
        expect_refusal(folder, STATUS_DATA, cases[i].part);
    }
}

// CSV -----------------------------------------------------------------------------------------------------------------

static void tables_have_numbers_labels_and_clients(void **state) {
    char folder[SCRATCH_PATH_BYTES];
    Loaded loaded;
    Error err;
    new_folder(folder, *state, "csv");
    write_text(folder, "train.csv",
               "\xef\xbb\xbfwidth,label,client, \"height\"\r\n1,0,0,2.5\r\n\r\n -3e2 ,2,1,4\r\n5,1.0,0,\"6\"\r\n");
    write_text(folder, "test.csv", "width,label,client,height\n7,2,0,8\n9,1,5,10");
    check_ok(load(&loaded, folder, 1, &err));
    const float train[6] = {1, 2.5F, -300, 4, 5, 6}, test[4] = {7, 8, 9, 10};
    assert_int_equal(loaded.data.shape.columns, 2);
    assert_int_equal(loaded.data.classes, 3);
    assert_int_equal(loaded.data.users, 2);
    assert_memory_equal(loaded.data.train.pixels, train, sizeof train);
    assert_memory_equal(loaded.data.test.pixels, test, sizeof test);
    const uint32_t labels[3] = {0, 2, 1}, owners[3] = {0, 1, 0};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(loaded.data.train.labels[i], labels[i]);
        assert_int_equal(loaded.data.train.owners[i], owners[i]);
    }
    assert_int_equal(loaded.data.test.owners[1], UINT32_MAX); // client 5 trains on nothing
    free(loaded.block);
    write_text(folder, "train.csv", "x,target\n1,-0.5\n2,1e-3\n");
    write_text(folder, "test.csv", "x,target\n3,7\n");
    check_ok(load(&loaded, folder, 1, &err));
    assert_int_equal(loaded.data.items.label_bytes, 4);
    assert_true(floats_of(loaded.data.train.labels)[0] == -0.5F);
    free(loaded.block);
}

static void what_is_wrong_with_a_table_is_told_with_its_line(void **state) {
    static const struct {
        const char *train, *test, *part;
    } cases[] = {
        {"a,label\n1,0\n", "a,label\n1,1\n", "test.csv:2: column label has \"1\", a class that no training sample has"},
        {"a,label\n1,0\n2\n", "a,label\n1,0\n", "train.csv:3: fewer columns than the 2"},
        {"a,label\n1,0,3\n", "a,label\n1,0\n", "train.csv:2: more columns than the 2"},
        {"a,label\n1,0\n", "b,label\n1,0\n", "test.csv:1: other columns than those of"},
        {"a,b\n1,0\n", "a,b\n1,0\n", "train.csv:1: no column is called label or target"},
        {"label\n0\n", "label\n0\n", "train.csv:1: no column is left"},
        {"a,label,label\n1,0,0\n", "a,label,label\n1,0,0\n", "two columns are called label"},
        {"a,label\nx1,0\n", "a,label\n1,0\n", "train.csv:2: column a has \"x1\"; it needs a finite number"},
        {"a,label\n,0\n", "a,label\n1,0\n",
         "train.csv:2: column a has \"\", \"?\", \"nan\" or the like, in 1 row; missing=drop"},
        {"a,label\n1,0\n", "a,label\nnan,0\n", "test.csv:2: column a has"},
        {"a,label\n1,cat\n", "a,label\n1,0\n", "column label has \"0\", a class that no training sample has"},
        {"a,label\n1,0.5\n2,1\n", "a,label\n1,1\n",
         "has \"0.5\"; classes are whole numbers or names; for quantities say"},
        {"a,label\n", "a,label\n1,0\n", "train.csv: no lines but the first"},
        {"", "a,label\n1,0\n", "train.csv: empty"},
    };
    char folder[SCRATCH_PATH_BYTES], path[SCRATCH_PATH_BYTES];
    new_folder(folder, *state, "bad-csv");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text(folder, "train.csv", cases[i].train);
        write_text(folder, "test.csv", cases[i].test);
        expect_refusal(folder, STATUS_DATA, cases[i].part);
    }
    scratch_write(scratch_path(path, folder, "train.csv"), "a,label\n1\0,0\n", 13);
    expect_refusal(folder, STATUS_DATA, "train.csv:2: a zero byte");
    assert_int_equal(unlink(scratch_path(path, folder, "test.csv")), 0);
    write_text(folder, "train.csv", "a,label\n1,0\n");
    expect_refusal(folder, STATUS_NOINPUT, "test.csv");
}

// What was read once is known from the copy, until a file changes; a damaged copy is as good as none.
static void tables_are_read_once(void **state) {
    char folder[SCRATCH_PATH_BYTES], home[SCRATCH_PATH_BYTES], path[SCRATCH_PATH_BYTES];
    Loaded first, again;
    DatasetSource source;
    Error err;
    new_folder(folder, *state, "once");
    write_text(folder, "train.csv", "a,label,client\n1,0,0\n2,1,1\n");
    write_text(folder, "test.csv", "a,label,client\n3,1,0\n");
    setenv("SOUNDER_CACHE", "on", 1);
    setenv("XDG_CACHE_HOME", new_folder(home, *state, "cache-of-tables"), 1);
    check_ok(load(&first, folder, 1, &err));
    assert_false(first.from_copy);
    source = (DatasetSource){0};
    check_ok(dataset_find(&source, folder, 1, &err));
    assert_int_equal(source.counts[DATASET_TRAIN], 2);
    assert_int_equal(source.users, 2);
    check_ok(load(&again, folder, 1, &err));
    assert_true(again.from_copy);
    assert_int_equal(again.bytes, first.bytes);
    assert_memory_equal(again.block, first.block, first.bytes);
    free(first.block);
    free(again.block);
    write_text(folder, "test.csv", "a,label,client\n3,1,0\n4,0,1\n");
    check_ok(load(&again, folder, 1, &err));
    assert_false(again.from_copy);
    assert_int_equal(again.data.test.count, 2);
    free(again.block);
    DatasetSource other = {.packed = true};
    check_ok(dataset_note_file(&other, scratch_path(path, folder, "train.csv"), &err));
    assert_false(unpacked_cache_describe(&other));
    setenv("SOUNDER_CACHE", "off", 1);
    unsetenv("XDG_CACHE_HOME");
}

// LEAF ----------------------------------------------------------------------------------------------------------------

static void leaf_folder(char folder[SCRATCH_PATH_BYTES], const char *parent, const char *name) {
    char path[SCRATCH_PATH_BYTES];
    new_folder(folder, parent, name);
    new_folder(path, folder, "train");
    new_folder(path, folder, "test");
}

static void users_of_leaf_are_clients_in_the_order_of_their_files(void **state) {
    char folder[SCRATCH_PATH_BYTES];
    Loaded loaded;
    Error err;
    leaf_folder(folder, *state, "leaf");
    write_text(folder, "train/b.JSON",
               "{\"users\": [\"z\"], \"num_samples\": [1], \"user_data\": {\"z\": {\"x\": [[5, 6]], \"y\": [2]}}}");
    write_text(folder, "train/a.json",
               "{\"users\": [\"n\", \"m\"], \"user_data\": {\"m\": {\"x\": [[1, 2.5]], \"y\": [1]}, \"n\": {\"x\": "
               "[[3, 4], [7, 8]], \"y\": "
               "[0, 0]}}}");
    write_text(folder, "test/t.json",
               "{\"users\": [\"z\", \"new\"], \"user_data\": {\"z\": {\"x\": [[9, 9]], \"y\": [0]}, \"new\": {\"x\": "
               "[[8, 8]], \"y\": [1]}}}");
    check_ok(load(&loaded, folder, 1, &err));
    const float train[8] = {3, 4, 7, 8, 1, 2.5F, 5, 6};
    const uint32_t owners[4] = {0, 0, 1, 2};
    assert_int_equal(loaded.data.users, 3);
    assert_int_equal(loaded.data.classes, 3);
    assert_memory_equal(loaded.data.train.pixels, train, sizeof train);
    assert_memory_equal(loaded.data.train.owners, owners, sizeof owners);
    assert_int_equal(loaded.data.test.owners[0], 2);
    assert_int_equal(loaded.data.test.owners[1], UINT32_MAX); // who trains on nothing
    free(loaded.block);
}

// As LEAF's scripts write them: a user without samples, and counts that nothing depends on.
static void users_of_leaf_without_samples_are_no_clients(void **state) {
    char folder[SCRATCH_PATH_BYTES];
    Loaded loaded;
    Error err;
    leaf_folder(folder, *state, "empty users");
    write_text(
        folder, "train/t.json",
        "{\"users\": [\"none\", \"a\"], \"num_samples\": [7, 9], \"user_data\": {\"none\": {\"x\": [], \"y\": []}, "
        "\"a\": {\"x\": [[1], [2]], \"y\": [0, 1]}}}");
    write_text(folder, "test/t.json", "{\"users\": [\"a\"], \"user_data\": {\"a\": {\"x\": [[1]], \"y\": [1]}}}");
    check_ok(load(&loaded, folder, 1, &err));
    assert_int_equal(loaded.data.users, 1);
    assert_int_equal(loaded.data.train.count, 2);
    free(loaded.block);
}

static const char shakespeare[] =
    "{\"users\": [\"A\", \"B\"], \"user_data\": {\"A\": {\"x\": [\"abca\", \"bcab\"], \"y\": [\"b\", \"\\n\"]}, "
    "\"B\": {\"x\": [\"\\u00e9 ab\"], \"y\": [\"c\"]}}}";

// The characters of both folders are numbered in the order of their bytes, and are the classes.
static void characters_of_leaf_are_numbers_and_the_one_that_follows_is_the_class(void **state) {
    char folder[SCRATCH_PATH_BYTES];
    Loaded loaded;
    Error err = {.message = ""};
    leaf_folder(folder, *state, "shakespeare");
    write_text(folder, "train/t.json", shakespeare);
    write_text(folder, "test/t.json",
               "{\"users\": [\"B\"], \"user_data\": {\"B\": {\"x\": [\"cdab\"], \"y\": [\"d\"]}}}");
    check_ok(load(&loaded, folder, 1, &err));
    const uint8_t train[] = {2, 3, 4, 2, 3, 4, 2, 3, 6, 1, 2, 3},
                  test[] = {4, 5, 2, 3}; // \n, blank, a, b, c, d, e acute
    const Dataset *data = &loaded.data;
    assert_int_equal(data->items.vocabulary, 7);
    assert_int_equal(data->classes, 7);
    assert_int_equal(data->shape.columns, 4);
    assert_int_equal(data->items.pixel_bytes, 1);
    assert_memory_equal(data->train.pixels, train, sizeof train);
    assert_memory_equal(data->test.pixels, test, sizeof test);
    assert_int_equal(data->train.labels[1], 0);
    assert_int_equal(data->test.labels[0], 5); // a character that no training label is
    assert_int_equal(data->test.owners[0], 1);
    assert_true(data->scale[0] == 1 && data->shift[0] == 0);
    assert_string_equal(dataset_class_name(data, 0), "\\n");
    assert_string_equal(dataset_class_name(data, 1), "' '");
    free(loaded.block);
    char place[SCRATCH_PATH_BYTES + 32];
    snprintf(place, sizeof place, "%s length=2", folder); // the last two before the one that follows
    check_ok(load(&loaded, place, 1, &err));
    assert_memory_equal(loaded.data.test.pixels, ((uint8_t[]){2, 3}), 2);
    free(loaded.block);
    static const char *const refused[][2] = {
        {"length=5", "a text x has 4 characters; where y are characters that follow, each x needs at least the 5"},
        {"tokens=words", "y are characters that follow x; leave out tokens=words"},
        {"vocabulary=9", "its vocabulary is all characters; leave out vocabulary"},
        {"classes=9", "its classes are the characters that follow; leave out classes"},
        {"normalize=yes", "its samples are texts; leave out shape and normalize"}};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        snprintf(place, sizeof place, "%s %s", folder, refused[i][0]);
        assert_true(load(&loaded, place, 1, &err) != STATUS_OK);
        if (!strstr(err.message, refused[i][1])) fail_msg("%s", err.message);
    }
}

static const char tweets[] =
    "{\"users\": [\"A\"], \"user_data\": {\"A\": {\"x\": [[\"1\", \"Mon\", \"no query\", \"A\", \"Good, GOOD day!\"], "
    "[\"2\", \"Mon\", \"no query\", \"A\", \"a bad day\"]], \"y\": [1, 0]}}}";

// Short texts are filled up in front, words that are not among the most frequent are 0.
static void words_of_leaf_are_numbers_by_their_vocabulary(void **state) {
    static const struct {
        const char *settings;
        uint8_t train[2 * 4];
        uint32_t vocabulary;
    } cases[] = {
        {"tokens=words length=4", {6, 2, 6, 5, 0, 3, 4, 5}, 7},              // ! , a bad day good
        {"tokens=words length=4 vocabulary=2", {2, 0, 2, 1, 0, 0, 0, 1}, 3}, // day good
    };
    char folder[SCRATCH_PATH_BYTES], place[SCRATCH_PATH_BYTES + 64];
    leaf_folder(folder, *state, "sent140");
    write_text(folder, "train/t.json", tweets);
    write_text(folder, "test/t.json", tweets);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Loaded loaded;
        Error err = {.message = ""};
        snprintf(place, sizeof place, "%s %s", folder, cases[i].settings);
        if (load(&loaded, place, 1, &err) != STATUS_OK) fail_msg("%s", err.message);
        assert_int_equal(loaded.data.items.vocabulary, cases[i].vocabulary);
        assert_int_equal(loaded.data.classes, 2);
        assert_memory_equal(loaded.data.train.pixels, cases[i].train, 8);
        free(loaded.block);
    }
}

static void what_is_wrong_with_leaf_is_told_with_file_and_user(void **state) {
    static const char good[] = "{\"users\": [\"a\"], \"user_data\": {\"a\": {\"x\": [[1]], \"y\": [0]}}}";
    static const struct {
        const char *train, *test, *part;
    } cases[] = {
        {"{\"users\": [\"a\"", good, "train/f.json:1: column 14: not JSON"},
        {"[]", good, "no \"users\" and \"user_data\""},
        {"{\"users\": [3], \"user_data\": {}}", good, "entry 0 of \"users\" is no text"},
        {"{\"users\": [\"a\"], \"user_data\": {}}", good, "user a: no x and y of the same length"},
        {"{\"users\": [\"a\"], \"user_data\": {\"a\": {\"x\": [[1], [2]], \"y\": [0]}}}", good, "user a: no x and y"},
        {"{\"users\": [\"a\"], \"user_data\": {\"a\": {\"x\": [[1], [2, 3]], \"y\": [0, 0]}}}", good,
         "x of sample 1 is of another length"},
        {"{\"users\": [\"a\"], \"user_data\": {\"a\": {\"x\": [\"0001.jpg\"], \"y\": [1]}}}", good,
         "x of sample 0 is the name of an image; images are read from arrays (.npz)"},
        {"{\"users\": [\"a\"], \"user_data\": {\"a\": {\"x\": [[NaN]], \"y\": [1]}}}", good, "not JSON"},
        {"{\"users\": [\"a\"], \"user_data\": {\"a\": {\"x\": [[1]], \"y\": [\"1\"]}}}", good,
         "y of sample 0 is no number; classes are whole numbers from 0"},
        {"{\"users\": [\"a\"], \"user_data\": {\"a\": {\"x\": [\"to be\"], \"y\": [\"or\"]}}}", good,
         "y of sample 0 is not one character, the one that follows x"},
        {"{\"users\": [\"a\"], \"user_data\": {\"a\": {\"x\": [\"to be\"], \"y\": [\"o\"]}}}", good,
         "x of sample 0 is no text, as those before are"},
        {"{\"users\": [\"a\"], \"user_data\": {\"a\": {\"x\": [\"to\", \"be\"], \"y\": [1, \"o\"]}}}", good,
         "y of sample 1 is of another kind than those before"},
        {"{\"users\": [\"a\"], \"user_data\": {\"a\": {\"x\": [[1]], \"y\": [-1]}}}", good,
         "y of sample 0 is out of range"},
        {"{\"users\": [\"a\"], \"user_data\": {\"a\": {\"x\": [[1], [1]], \"y\": [1, 0.5]}}}", good, "of another kind"},
        {"{\"users\": [\"a\"], \"user_data\": {\"a\": {\"x\": [[1], [1]], \"y\": [1, 0.5]}}}",
         "{\"users\": [\"a\"], \"user_data\": {\"a\": {\"x\": [[1]], \"y\": [0.5]}}}",
         "y of sample 1 is of another kind"},
        {"{\"users\": [\"a\", \"a\"], \"user_data\": {\"a\": {\"x\": [[1]], \"y\": [0]}}}", good,
         "user a stands in the training files twice"},
        {"{\"users\": [], \"user_data\": {}}", good, "train: no samples"},
        {good, "{\"users\": [\"a\"], \"user_data\": {\"a\": {\"x\": [[1]], \"y\": [3]}}}", "label 3 of sample 0"},
    };
    char folder[SCRATCH_PATH_BYTES], path[SCRATCH_PATH_BYTES];
    leaf_folder(folder, *state, "bad-leaf");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text(folder, "train/f.json", cases[i].train);
        write_text(folder, "test/f.json", cases[i].test);
        expect_refusal(folder, STATUS_DATA, cases[i].part);
    }
    write_text(folder, "train/f.json", good);
    assert_int_equal(unlink(scratch_path(path, folder, "test/f.json")), 0);
    expect_refusal(folder, STATUS_NOINPUT, "test: no file .json");
}

// CIFAR ---------------------------------------------------------------------------------------------------------------

enum { CIFAR_PIXELS = 3072, CIFAR_MOST = 4 * (2 + CIFAR_PIXELS) };

// Records whose pixels are all their first number; `labels` bytes of labels before them.
static void write_records(const char *folder, const char *name, const uint8_t *numbers, int records, int labels) {
    uint8_t bytes[CIFAR_MOST], *to = bytes;
    char path[SCRATCH_PATH_BYTES];
    for (int i = 0; i < records; i++) {
        for (int l = labels; l > 0; l--)
            *to++ = l == 1 ? numbers[i] : 3;
        memset(to, numbers[i], CIFAR_PIXELS);
        to += CIFAR_PIXELS;
    }
    scratch_write(scratch_path(path, folder, name), bytes, (size_t)(to - bytes));
}

static void both_kinds_of_cifar_are_known_by_their_files(void **state) {
    static const uint8_t first[] = {1, 9}, second[] = {4}, tests[] = {0};
    char ten[SCRATCH_PATH_BYTES], hundred[SCRATCH_PATH_BYTES];
    Loaded loaded;
    Error err;
    new_folder(ten, *state, "ten");
    write_records(ten, "data_batch_1.bin", first, 2, 1);
    write_records(ten, "data_batch_2.bin", second, 1, 1);
    write_records(ten, "test_batch.bin", tests, 1, 1);
    check_ok(load(&loaded, ten, 1, &err));
    assert_int_equal(loaded.data.classes, 10);
    assert_int_equal(loaded.data.train.count, 3);
    assert_int_equal(loaded.data.shape.channels, 3);
    const uint8_t labels[3] = {1, 9, 4};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(loaded.data.train.labels[i], labels[i]);
        assert_int_equal(loaded.data.train.pixels[i * CIFAR_PIXELS], labels[i]);
        assert_int_equal(loaded.data.train.pixels[i * CIFAR_PIXELS + CIFAR_PIXELS - 1], labels[i]);
    }
    free(loaded.block);
    static const uint8_t fine[] = {99, 7};
    new_folder(hundred, *state, "hundred");
    write_records(hundred, "train.bin", fine, 2, 2);
    write_records(hundred, "test.bin", fine, 1, 2);
    check_ok(load(&loaded, hundred, 1, &err));
    assert_int_equal(loaded.data.classes, 100);
    assert_int_equal(loaded.data.train.labels[0], 99);
    assert_int_equal(loaded.data.train.pixels[CIFAR_PIXELS], 7);
    free(loaded.block);
}

static void cut_and_corrupt_records_are_refused(void **state) {
    static const uint8_t good[] = {1, 2}, bad[] = {1, 10};
    static uint8_t cut[CIFAR_PIXELS];
    char folder[SCRATCH_PATH_BYTES], path[SCRATCH_PATH_BYTES];
    new_folder(folder, *state, "bad-cifar");
    write_records(folder, "data_batch_1.bin", bad, 2, 1);
    expect_refusal(folder, STATUS_NOINPUT, "test_batch.bin");
    write_records(folder, "test_batch.bin", good, 2, 1);
    expect_refusal(folder, STATUS_DATA, "data_batch_1.bin: corrupt: label 10 at byte 3073");
    write_records(folder, "data_batch_1.bin", good, 2, 1);
    scratch_write(scratch_path(path, folder, "data_batch_2.bin"), cut, sizeof cut);
    expect_refusal(folder, STATUS_DATA,
                   "data_batch_2.bin: truncated or corrupt: 3072 bytes are no multiple of the 3073");
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_have_numbers_labels_and_clients),
        cmocka_unit_test(what_is_wrong_with_a_table_is_told_with_its_line),
        cmocka_unit_test(tables_are_read_once),
        cmocka_unit_test(characters_of_texts_are_numbered_and_sections_are_clients),
        cmocka_unit_test(texts_for_a_model_are_numbered_by_its_vocabulary),
        cmocka_unit_test(each_file_of_texts_tells_whether_a_copy_is_stale),
        cmocka_unit_test(what_is_wrong_with_texts_is_told),
        cmocka_unit_test(users_of_leaf_are_clients_in_the_order_of_their_files),
        cmocka_unit_test(users_of_leaf_without_samples_are_no_clients),
        cmocka_unit_test(characters_of_leaf_are_numbers_and_the_one_that_follows_is_the_class),
        cmocka_unit_test(words_of_leaf_are_numbers_by_their_vocabulary),
        cmocka_unit_test(what_is_wrong_with_leaf_is_told_with_file_and_user),
        cmocka_unit_test(both_kinds_of_cifar_are_known_by_their_files),
        cmocka_unit_test(cut_and_corrupt_records_are_refused),
    };
    setenv("SOUNDER_CACHE", "off", 1);
    return run_cases(argc, argv, tests, scratch_set_up, scratch_tear_down);
}

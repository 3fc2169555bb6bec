// Tables as other programs write them: each kind is the plain table again, or one sentence.
#include "gzip_bytes.h"
#include "loaded.h"

enum { ROWS = 12, TABLE_BYTES = 2048 };

// How a table differs from the plain one, which has columns a, b and label. NULL and 0: as the plain one.
typedef struct Kind {
    const char *names;                // first line
    const char *a, *b, *label;        // of the third row, in place of its own
    const char *between, *end, *tail; // separator, end of a line, what follows the last row
    const char *quote;                // around every field
    const char *labels[3];
} Kind;

static const char *or_else(const char *text, const char *otherwise) {
    return text ? text : otherwise;
}

static void make_table(char text[TABLE_BYTES], const Kind *kind) {
    static const char *const usual[] = {"0", "1", "2"};
    const char *between = or_else(kind->between, ","), *end = or_else(kind->end, "\n"),
               *quote = or_else(kind->quote, "");
    int used = snprintf(text, TABLE_BYTES, "%s%s", or_else(kind->names, "a,b,label"), end);
    for (int i = 0; i < ROWS; i++) {
        char a[16], b[16];
        snprintf(a, sizeof a, "%d.5", i);
        snprintf(b, sizeof b, "%d", -7 * i % 5);
        const char *label = kind->labels[0] ? kind->labels[i % 3] : usual[i % 3];
        const char *const fields[] = {i == 2 ? or_else(kind->a, a) : a, i == 2 ? or_else(kind->b, b) : b,
                                      i == 2 ? or_else(kind->label, label) : label};
        for (int f = 0; f < 3; f++)
            used += snprintf(text + used, TABLE_BYTES - (size_t)used, "%s%s%s%s", quote, fields[f], quote,
                             f < 2                         ? between
                             : i + 1 < ROWS || !kind->tail ? end
                                                           : kind->tail);
    }
}

static Status load_kind(Loaded *loaded, const char *folder, const Kind *kind, const char *settings, Error *err) {
    char path[SCRATCH_PATH_BYTES], text[TABLE_BYTES], data[SCRATCH_PATH_BYTES + 64];
    make_table(text, kind);
    scratch_write(scratch_path(path, folder, "t.csv"), text, strlen(text));
    snprintf(data, sizeof data, "%s %s", path, settings);
    return load(loaded, data, 1, err);
}

static void tables_of_other_programs_are_the_plain_one(void **state) {
    static const Kind kinds[] = {
        {.names = "\xef\xbb\xbf"
                  "a,b,label"},                            // a byte order mark
        {.end = "\r\n"},                                   // Windows
        {.end = "\n\n"},                                   // blank lines
        {.tail = ""},                                      // no end of the last line
        {.tail = "\n  \n"},                                // a line of blanks
        {.names = "a;b;label", .between = ";"},            // Excel in Europe
        {.names = "a\tb\tlabel", .between = "\t"},         //
        {.names = "a, b , label", .between = " , "},       // blanks around fields
        {.names = "\"a\",\"b\",\"label\"", .quote = "\""}, // every field in quotes
        {.names = "a,a,label"},                            // two features of one name
        {.names = "gr\xf6\xdf"
                  "e,b,label"},               // Latin-1
        {.names = "\"a \"\"x\"\"\",b,label"}, // quotes in a name
        {.a = "+2.5"},                        //
        {.a = "0x2.8"},                       // as C reads numbers
        {.a = "25e-1"},                       //
        {.labels = {"0.0", "1.0", "2.0"}},    // pandas, if the column had a gap
        {.labels = {"1", "2", "3"}},          // from 1
        {.labels = {"-1", "0", "1"}},         //
        {.labels = {"0", "1000", "65535"}},   // with gaps
        {.labels = {"cat", "dog", "owl"}},    //
    };
    char folder[SCRATCH_PATH_BYTES];
    Loaded plain, loaded;
    Error err = {.message = ""};
    new_folder(folder, *state, "same");
    check_ok(load_kind(&plain, folder, &(Kind){0}, "", &err));
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (load_kind(&loaded, folder, &kinds[i], "", &err) != STATUS_OK) fail_msg("kind %zu: %s", i, err.message);
        assert_int_equal(loaded.data.classes, 3);
        assert_int_equal(loaded.data.train.count, plain.data.train.count);
        assert_memory_equal(loaded.data.train.pixels, plain.data.train.pixels,
                            plain.data.train.count * 2 * sizeof(float));
        assert_memory_equal(loaded.data.train.labels, plain.data.train.labels,
                            plain.data.train.count * sizeof(uint16_t));
        free(loaded.block);
    }
    free(plain.block);
}

static void what_a_table_cannot_mean_is_one_sentence(void **state) {
    static const struct {
        Kind kind;
        const char *part;
    } cases[] = {
        {{.a = "1.5d3"}, "t.csv:4: column a has \"1.5d3\"; it needs a finite number, with a point"}, // Fortran
        {{.a = "1e400"}, "t.csv:4: column a has \"1e400\"; it needs a finite number"},
        {{.a = "-inf"}, "column a has \"-inf\"; it needs a finite number"},
        {{.a = "15%"}, "column a has \"15%\", a number with a percent sign; it needs a finite number"},
        {{.a = "2,5", .names = "a;b;label", .between = ";"},
         "column a has \"2,5\", a number with a decimal comma; it needs a finite number, with a point; in --data, "
         "decimal=, reads"},
        {{.a = "2024-01-02"}, "column a has \"2024-01-02\""},
        {{.a = "?"}, "t.csv:4: column a has \"\", \"?\", \"nan\" or the like, in 1 row"},
        {{.a = "NA"}, "or the like, in 1 row"},
        {{.a = "null"}, "or the like, in 1 row"},
        {{.a = "", .b = "", .label = ""}, "gaps in a (1), b (1), label (1); in --data, missing=drop"},
        {{.label = ""}, "t.csv:4: column label has \"\""},
        {{.label = "0.5"}, "column label has \"0.5\"; classes are whole numbers or names"},
        {{.end = ",\n"}, "t.csv:1: column 4 has no name; leave out the comma at the end of the line"},
        {{.label = "2,"}, "t.csv:4: more columns than the 3 of the first line"},
        {{.a = "# a comment\n1"}, "t.csv:4: fewer columns than the 3 of the first line"},
        {{.names = "a,b,label_0"}, "no column is called label or target; there are a, b, label_0"},
    };
    char folder[SCRATCH_PATH_BYTES], path[SCRATCH_PATH_BYTES];
    Loaded loaded;
    Error err = {.message = ""};
    new_folder(folder, *state, "refused");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(load_kind(&loaded, folder, &cases[i].kind, "", &err), STATUS_DATA);
        if (!strstr(err.message, cases[i].part)) fail_msg("\"%s\" does not say \"%s\"", err.message, cases[i].part);
    }
    char data[2 * SCRATCH_PATH_BYTES];
    static const char wide[] = "\xff\xfe"
                               "a\0,\0l\0a\0b\0e\0l\0\n\0";
    scratch_write(scratch_path(path, folder, "t.csv"), wide, sizeof wide); // UTF-16
    assert_int_equal(load(&loaded, path, 1, &err), STATUS_DATA);
    assert_non_null(strstr(err.message, "t.csv:1: a zero byte; give a text in UTF-8"));
    static const char *const settings[] = {"label=b", "label=a text=one-hot"};
    for (int i = 0; i < 2; i++) { // names that would be one if other bytes became '?'
        const char *latin = "a,b\n1,\344\n2,\366\n";
        scratch_write(scratch_path(path, folder, "t.csv"), latin, strlen(latin));
        snprintf(data, sizeof data, "%s/t.csv %s test-fraction=1", folder, settings[i]);
        assert_int_equal(load(&loaded, data, 1, &err), STATUS_DATA);
        assert_non_null(
            strstr(err.message, "t.csv:2: column b has \"?\", which is not UTF-8; save the table so: iconv -f"));
    }
}

static void parts_may_be_packed_and_have_to_fit_each_other(void **state) {
    static const struct {
        const char *test, *part;
    } cases[] = {
        {"a,b,label\n1,2,3\n",
         "has \"3\", a class that no training sample has; classes=N in --data says that labels are numbers below N"},
        {"b,a,label\n1,2,0\n", "test.csv:1: other columns than those of"},
        {"a,b\n1,2\n", "test.csv:1: no column label, which"},
        {"a\n1\n", "test.csv:1: other columns than those of"},
        {"a,b,label\n", "test.csv: no lines but the first"},
    };
    char folder[SCRATCH_PATH_BYTES], path[SCRATCH_PATH_BYTES], text[TABLE_BYTES];
    uint8_t packed[TABLE_BYTES];
    Loaded loaded;
    Error err = {.message = ""};
    new_folder(folder, *state, "parts");
    make_table(text, &(Kind){0});
    const size_t bytes = gzip_bytes(packed, sizeof packed, (const uint8_t *)text, strlen(text));
    scratch_write(scratch_path(path, folder, "train.csv.gz"), packed, bytes);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scratch_write(scratch_path(path, folder, "test.csv"), cases[i].test, strlen(cases[i].test));
        assert_int_equal(load(&loaded, folder, 1, &err), STATUS_DATA);
        if (!strstr(err.message, cases[i].part)) fail_msg("\"%s\" does not say \"%s\"", err.message, cases[i].part);
    }
    assert_int_equal(unlink(path), 0);
    scratch_write(scratch_path(path, folder, "test.csv.gz"), packed, bytes);
    check_ok(load(&loaded, folder, 1, &err));
    assert_int_equal(loaded.data.train.count, ROWS);
    assert_int_equal(loaded.data.test.count, ROWS);
    free(loaded.block);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_of_other_programs_are_the_plain_one),
        cmocka_unit_test(what_a_table_cannot_mean_is_one_sentence),
        cmocka_unit_test(parts_may_be_packed_and_have_to_fit_each_other),
    };
    setenv("SOUNDER_CACHE", "off", 1);
    return run_cases(argc, argv, tests, scratch_set_up, scratch_tear_down);
}

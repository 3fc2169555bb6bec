// The first line of a table, files of other names beside it, and folders that hold two data sets: each a sentence with
// its remedy, and no column is learned from that was not meant.
#include "loaded.h"

static void write_text(const char *folder, const char *name, const char *text) {
    char path[SCRATCH_PATH_BYTES];
    scratch_write(scratch_path(path, folder, name), text, strlen(text));
}

static void expect_refusal(const char *place, Status expected, const char *part) {
    Loaded loaded;
    Error err = {.message = ""};
    assert_int_equal(load(&loaded, place, 1, &err), expected);
    if (!strstr(err.message, part)) fail_msg("\"%s\" does not say \"%s\"", err.message, part);
}

static void row_numbers_are_no_feature(void **state) {
    static const struct {
        const char *names, *part;
    } cases[] = {
        {",a,label", "train.csv:1: column 1 has no name, as pandas' and R's row numbers have"}, // DataFrame.to_csv
        {"\"\",a,label", "train.csv:1: column 1 has no name"},                                  // R's write.csv
        {"Unnamed: 0,a,label", "column 1 has the name Unnamed: 0, as pandas'"}, // read and written again
        {"a,Unnamed: 1,label", "df.to_csv(FILE, index=False)"},
        {"label,a,", "column 3 has no name; leave out the comma at the end of the line"},
        {"label,,a", "column 2 has no name; each column needs one"},
    };
    char folder[SCRATCH_PATH_BYTES], text[128];
    new_folder(folder, *state, "numbered");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(text, sizeof text, "%s\n0,1,0\n1,0,1\n", cases[i].names);
        write_text(folder, "train.csv", text);
        write_text(folder, "test.csv", text);
        expect_refusal(folder, STATUS_DATA, cases[i].part);
    }
}

static void a_first_line_that_is_no_list_of_names_is_told_by_what_it_is(void **state) {
    static const struct {
        const char *train, *part;
    } cases[] = {
        {"5.1,-3,0\n4,1e3,1\n", "train.csv:1: numbers; the first line has the names of the columns, one of them label"},
        {"a,label\r1,0\r2,1\r", "lines end with carriage returns alone; end them with newlines: tr '\\r' '\\n'"},
        {"# made by me, today\na,label\n1,0\n", "train.csv:1: a comment; the first line has the names"},
        {"\"a\",label\n\"1\n", "train.csv:2: a quote that is not closed; a quote within quotes is written twice"},
        {"a,label\n\"1\"2,0\n", "train.csv:2: field 1 goes on after its closing quote"},
        {"a,b,Kind\n1,2,0\n",
         "no column is called label or target; there are a, b, Kind; name the one to be learned after "
         "the place: --data \"PLACE label=COLUMN\" (classes), or target=COLUMN (numbers)"},
        {"Class,a,b\n1,2,0\n", "--data \"PLACE label=Class\" (classes)"},
        {"label,Label,LABEL\n0,inf,2\n", "column Label has \"inf\""}, // the exact name counts
        {"Target,target,Label,LABEL\ninf,inf,0,2\n", "column Target has \"inf\""},
        {"5.1,3,setosa\n4,2,other\n",
         "names of columns are numbers, such as 5.1; if the first line has values, say so"},
        {"a,b,c,d,e,f,g,h,species\n", "there are a, b, c, d, e, f, g, h, ...; name"},
        {"a,label,target\n1,2,0\n", "one column is called label and one target; leave one of them out: without=target"},
        {"a,label\n\"1,234\",0\n", "train.csv:2: column a has \"1,234\", a number with a comma; it needs a finite "
                                   "number, with a point; in --data, "
                                   "without=a leaves the column out; sed -E"},
        {"a,label\n1e39,0\n", "column a has \"1e39\"; it needs a number of single precision, at most 3.4e38"},
    };
    char folder[SCRATCH_PATH_BYTES];
    new_folder(folder, *state, "first-line");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text(folder, "train.csv", cases[i].train);
        write_text(folder, "test.csv", cases[i].train);
        expect_refusal(folder, STATUS_DATA, cases[i].part);
    }
}

// In as many steps as there are columns: a walk over the names before each would be 10^12.
static void a_million_columns_are_compared_at_once(void **state) {
    enum { COLUMNS = 1000000, MOST = 10 };
    char folder[SCRATCH_PATH_BYTES], *text = malloc(COLUMNS * MOST + 64), *to = text;
    assert_non_null(text);
    new_folder(folder, *state, "wide");
    for (int i = 0; i < COLUMNS; i++)
        to += sprintf(to, "g%d,", i);
    strcpy(to, "label\n0\n");
    write_text(folder, "train.csv", text);
    write_text(folder, "test.csv", text);
    expect_refusal(folder, STATUS_DATA, "samples of 1x1x1000000");
    text[1] = '1';
    write_text(folder, "test.csv", text);
    expect_refusal(folder, STATUS_DATA, "test.csv:1: other columns than those of");
    free(text);
}

static void tables_of_other_names_are_named_with_what_they_should_be_called(void **state) {
    static const char table[] = "a,label\n1,0\n2,1\n";
    char folder[SCRATCH_PATH_BYTES], path[SCRATCH_PATH_BYTES];
    new_folder(folder, *state, "names");
    write_text(folder, "iris.csv", table);
    expect_refusal(folder, STATUS_NOINPUT, "the table iris.csv in it is one by itself: name it in --data");
    scratch_path(path, folder, "iris.csv");
    assert_int_equal(rename(path, scratch_path((char[SCRATCH_PATH_BYTES]){0}, folder, "Train.CSV")), 0);
    expect_refusal(folder, STATUS_NOINPUT, "the table Train.CSV in it is one by itself");
    write_text(folder, "train.csv", table);
    expect_refusal(folder, STATUS_NOINPUT,
                   "no file test.csv, where Train.CSV is; a table's parts are called train.csv");
    write_text(folder, "test.csv", table);
    Loaded loaded;
    Error err;
    check_ok(load(&loaded, folder, 1, &err));
    free(loaded.block);
}

static void a_whole_data_set_comes_before_a_stray_file_and_two_are_refused(void **state) {
    static const char table[] = "a,label\n1,0\n2,1\n";
    char folder[SCRATCH_PATH_BYTES];
    Loaded loaded;
    Error err;
    new_folder(folder, *state, "two");
    write_text(folder, "train.csv", table);
    write_text(folder, "test.csv", table);
    write_text(folder, "y_test.npy", "predictions");
    write_text(folder, "train.txt", "a note");
    check_ok(load(&loaded, folder, 1, &err));
    assert_int_equal(loaded.data.train.count, 2);
    free(loaded.block);
    write_text(folder, "test.txt", "another note");
    expect_refusal(folder, STATUS_DATA,
                   "two data sets, by train.csv (CSV) and by train.txt (text); give each a folder");
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(row_numbers_are_no_feature),
        cmocka_unit_test(a_first_line_that_is_no_list_of_names_is_told_by_what_it_is),
        cmocka_unit_test(a_million_columns_are_compared_at_once),
        cmocka_unit_test(tables_of_other_names_are_named_with_what_they_should_be_called),
        cmocka_unit_test(a_whole_data_set_comes_before_a_stray_file_and_two_are_refused),
    };
    setenv("SOUNDER_CACHE", "off", 1);
    return run_cases(argc, argv, tests, scratch_set_up, scratch_tear_down);
}

// Any tables, with any settings: they are a data set, or refused. One table alone is a set, too, and its columns are
// told.
#include "fuzz_format.h"

static void measure(void *to, const DatasetColumn *column) {
    size_t *bytes = to;
    *bytes += strlen(column->name) + strlen(column->values) + strlen(column->becomes);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t bytes) {
    static const char *const names[] = {"train.csv", "test.csv"};
    const uint8_t *line = memchr(input, '\n', bytes);
    if (!line) return 0;
    char *settings = text_of(input, (size_t)(line - input));
    const size_t left = bytes - (size_t)(line - input) - 1;
    write_files("csv", names, 2, "|||", line + 1, left);
    const bool is_one = !memmem(line + 1, left, "|||", 3);
    const DatasetFormat *format = format_named("CSV");
    find_and_read_with(format, is_one ? "csv/train.csv" : "csv", settings, NULL);
    Error err = {.message = ""};
    Form form;
    size_t told = 0;
    if (is_one && settings_parse(&form, settings, &err) == STATUS_OK)
        refused_with_a_sentence(format->tell(measure, &told, "csv/train.csv", &form, &err), &err);
    free(settings);
    return 0;
}

// Any two tables: they are a data set, or refused.
#include "fuzz_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t bytes) {
    static const char *const names[] = {"train.csv", "test.csv"};
    write_files("csv", names, 2, "|||", input, bytes);
    find_and_read(format_named("CSV"), "csv");
    return 0;
}

// Any archive of arrays: it is a data set, or refused.
#include "fuzz_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t bytes) {
    write_file("input.npz", input, bytes);
    find_and_read(format_named("NumPy"), "input.npz");
    return 0;
}

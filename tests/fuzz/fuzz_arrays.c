// Any folder of arrays: they are a data set, or refused.
#include "fuzz_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t bytes) {
    static const char *const names[] = {"x_train.npy",      "y_train.npy",     "x_test.npy", "y_test.npy",
                                        "client_train.npy", "client_test.npy", "mean.npy",   "std.npy"};
    write_files("arrays", names, 8, "|||", input, bytes);
    find_and_read(format_named("NumPy"), "arrays");
    return 0;
}

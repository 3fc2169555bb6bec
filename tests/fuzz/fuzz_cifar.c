// Any pair of CIFAR's files, of either kind: records whose labels are classes, or refused.
#include "fuzz_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t bytes) {
    static const char *const ten[] = {"data_batch_1.bin", "test_batch.bin", "data_batch_2.bin"};
    static const char *const hundred[] = {"train.bin", "test.bin"};
    if (bytes == 0) return 0;
    if (input[0] % 2)
        write_files("hundred", hundred, 2, "|||", input + 1, bytes - 1);
    else
        write_files("ten", ten, 3, "|||", input + 1, bytes - 1);
    find_and_read(format_named("CIFAR"), input[0] % 2 ? "hundred" : "ten");
    return 0;
}

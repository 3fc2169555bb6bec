// Any JSON files of users: they are a data set, or refused.
#include "fuzz_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t bytes) {
    static const char *const names[] = {"train/a.json", "test/a.json", "train/b.json"};
    mkdir("leaf", 0700);
    mkdir("leaf/train", 0700);
    mkdir("leaf/test", 0700);
    char *tokens;
    bytes = take_tokens(&tokens, input, bytes);
    write_files("leaf", names, 3, "|||", input, bytes);
    find_and_read_for(format_named("LEAF"), "leaf", tokens);
    return 0;
}

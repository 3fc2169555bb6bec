// Any two texts, cut in any way: they are a data set, or refused.
#include "fuzz_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t bytes) {
    static const char *const names[] = {"train.txt", "test.txt", "text.json"};
    char *tokens;
    bytes = take_tokens(&tokens, input, bytes);
    write_files("text", names, 3, "|||", input, bytes);
    find_and_read_for(format_named("text"), "text", tokens);
    return 0;
}

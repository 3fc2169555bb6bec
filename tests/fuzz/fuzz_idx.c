// Any file, plain or packed: a header announces no more than the file holds, and what is read is what was announced.
#include "fuzz.h"

#include <stdbool.h>

#include "datasets/formats/idx.h"

enum { MOST_BYTES = 1 << 26 };

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t bytes) {
    IdxHeader header;
    Error err = {.message = ""};
    write_file("input", input, bytes);
    if (refused_with_a_sentence(idx_header(&header, "input", &err), &err) != STATUS_OK) return 0;
    if (header.payload_bytes > MOST_BYTES) return 0;
    uint8_t *payload = malloc(header.payload_bytes + 1);
    must(payload);
    Status status = refused_with_a_sentence(idx_read(payload, &header, "input", &err), &err);
    bool packed = bytes >= 2 && input[0] == 0x1f && input[1] == 0x8b;
    if (status == STATUS_OK && !packed)
        must(memcmp(payload, input + bytes - header.payload_bytes, header.payload_bytes) == 0);
    free(payload);
    return 0;
}

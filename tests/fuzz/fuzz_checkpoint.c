// Any checkpoint: one that is taken has the round of its name, and tensors load or are refused. Where the input has a
// checksum it is made right, so that what lies behind it is reached, too.
#include "fuzz.h"

#include <stdbool.h>
#include <sys/stat.h>

#include "base/log.h"
#include "io/checkpoint.h"

enum { DIGITS = 64 };

static void mend_checksum(char *bytes, size_t count) {
    static const char key[] = "\"sha256\":\"";
    char *found = memmem(bytes, count, key, sizeof key - 1), hex[DIGITS + 1];
    if (!found || (size_t)(bytes + count - found) < sizeof key - 1 + DIGITS) return;
    memset(found + sizeof key - 1, '0', DIGITS);
    sha256_hex(hex, &(FilePart){bytes, count}, 1);
    memcpy(found + sizeof key - 1, hex, DIGITS);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t bytes) {
    log_init(LOG_ERROR, LOG_RANK_PARENT); // of damaged checkpoints there is a warning each
    char *file_bytes = text_of(input, bytes);
    mend_checksum(file_bytes, bytes);
    mkdir("checkpoints", 0700);
    write_file("checkpoints/round-000001.safetensors", file_bytes, bytes);
    free(file_bytes);
    Folder folder = {.fd = open("checkpoints", O_RDONLY | O_DIRECTORY | O_CLOEXEC), .path = "checkpoints"};
    must(folder.fd >= 0);
    Safetensors file;
    bool found = false;
    uint32_t rounds_done = 0;
    Error err = {.message = ""};
    Status status = refused_with_a_sentence(checkpoint_open_last(&file, &found, &rounds_done, &folder, &err), &err);
    if (status == STATUS_OK && found) {
        float values[16];
        must(rounds_done == 1);
        const NamedTensor tensor = {.name = "conv1.weight", .rank = 4, .shape = {4, 1, 2, 2}};
        refused_with_a_sentence(checkpoint_load(values, &file, &tensor, &err), &err);
        safetensors_close(&file);
    }
    close(folder.fd);
    return 0;
}

// Any file: what is opened lies within the mapping, tensor by tensor, and each is found by its name.
#include "fuzz.h"

#include "io/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t bytes) {
    Safetensors file;
    Error err = {.message = ""};
    write_file("input", input, bytes);
    if (refused_with_a_sentence(safetensors_open(&file, "input", &err), &err) != STATUS_OK) return 0;
    unsigned sum = 0;
    for (size_t i = 0; i < file.count; i++) {
        const TensorEntry *entry = &file.entries[i];
        size_t size;
        must(entry->first_byte <= file.payload_bytes && entry->bytes <= file.payload_bytes - entry->first_byte);
        must(tensor_entry_size(&size, entry) && size == entry->bytes);
        for (size_t b = 0; b < entry->bytes; b++)
            sum += file.payload[entry->first_byte + b];
        must(safetensors_find(&file, entry->name) == entry);
    }
    const char *note = safetensors_note(&file, "sounder.model");
    must(!note || strlen(note) + sum < SIZE_MAX);
    safetensors_close(&file);
    return 0;
}

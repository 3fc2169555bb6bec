// Part of safetensors.h: the writing side of the safetensors format: from a list of tensors to the bytes before the
// payload.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "io/json.h"
#include "io/safetensors.h"

static const struct {
    const char *name;
    size_t bytes;
} TYPES[] = {[TENSOR_F32] = {"F32", 4},   [TENSOR_F64] = {"F64", 8},         [TENSOR_I32] = {"I32", 4},
             [TENSOR_I64] = {"I64", 8},   [TENSOR_U8] = {"U8", 1},           [TENSOR_F16] = {"F16", 2},
             [TENSOR_BF16] = {"BF16", 2}, [TENSOR_BOOL] = {"BOOL", 1},       [TENSOR_I8] = {"I8", 1},
             [TENSOR_I16] = {"I16", 2},   [TENSOR_U16] = {"U16", 2},         [TENSOR_U32] = {"U32", 4},
             [TENSOR_U64] = {"U64", 8},   [TENSOR_F8_E4M3] = {"F8_E4M3", 1}, [TENSOR_F8_E5M2] = {"F8_E5M2", 1}};

const char *tensor_type_name(TensorType type) {
    assert(type < TENSOR_TYPES);
    return TYPES[type].name;
}
size_t tensor_type_bytes(TensorType type) {
    assert(type < TENSOR_TYPES);
    return TYPES[type].bytes;
}

bool tensor_entry_size(size_t *bytes, const TensorEntry *entry) {
    *bytes = TYPES[entry->type].bytes;
    for (int d = 0; d < entry->rank; d++)
        if (entry->shape[d] < 0 || __builtin_mul_overflow(*bytes, (size_t)entry->shape[d], bytes)) return false;
    return *bytes <= PTRDIFF_MAX;
}

// Sets the positions of the tensors, one after another, and checks names and ranks.
static Status place(TensorEntry *entries, size_t count, Error *err) {
    size_t end = 0;
    if (count > SAFETENSORS_MAX_TENSORS)
        return fail(err, STATUS_SOFTWARE, "%zu tensors; a safetensors file takes at most %d", count,
                    SAFETENSORS_MAX_TENSORS);
    for (size_t i = 0; i < count; i++) {
        TensorEntry *entry = &entries[i];
        if (entry->name[0] == '\0' || !memchr(entry->name, '\0', sizeof entry->name) || entry->rank < 0 ||
            entry->rank > SAFETENSORS_MAX_RANK || strcmp(entry->name, SAFETENSORS_NOTES) == 0)
            return fail(err, STATUS_SOFTWARE,
                        "tensor %zu (\"%.*s\", rank %d) has no name or rank that safetensors takes", i,
                        SAFETENSORS_NAME_BYTES - 1, entry->name, entry->rank);
        entry->first_byte = end;
        if (!tensor_entry_size(&entry->bytes, entry) || __builtin_add_overflow(end, entry->bytes, &end) ||
            end > PTRDIFF_MAX)
            return fail(err, STATUS_SOFTWARE, "tensor %s: its shape does not fit in memory", entry->name);
    }
    return STATUS_OK;
}

static void describe(JsonObject *root, const TensorEntry *entry) {
    const int64_t offsets[] = {(int64_t)entry->first_byte, (int64_t)(entry->first_byte + entry->bytes)};
    JsonObject tensor;
    json_begin(&tensor);
    put_text(&tensor, "dtype", tensor_type_name(entry->type));
    put_wholes(&tensor, "shape", entry->shape, (size_t)entry->rank);
    put_wholes(&tensor, "data_offsets", offsets, 2);
    put_object(root, entry->name, &tensor);
}

// The length includes the padding, so that readers find the payload at a multiple of 64.
Status safetensors_header(char **header, size_t *header_bytes, TensorEntry *entries, size_t count,
                          const TensorNote *notes, size_t note_count, Error *err) {
    enum { LENGTH_BYTES = 8 };
    JsonObject root, metadata;
    char *text;
    size_t text_bytes;
    TRY(place(entries, count, err));
    json_begin(&root);
    if (note_count > 0) {
        json_begin(&metadata);
        for (size_t i = 0; i < note_count; i++)
            put_text(&metadata, notes[i].key, notes[i].value);
        put_object(&root, SAFETENSORS_NOTES, &metadata);
    }
    for (size_t i = 0; i < count; i++)
        describe(&root, &entries[i]);
    TRY(json_text(&text, &text_bytes, &root, JSON_COMPACT, "a safetensors header", err));
    Status status = STATUS_OK;
    size_t used = LENGTH_BYTES + text_bytes;
    size_t total = (used + SAFETENSORS_ALIGNMENT - 1) / SAFETENSORS_ALIGNMENT * SAFETENSORS_ALIGNMENT;
    *header = NULL;
    if (total - LENGTH_BYTES > SAFETENSORS_MAX_HEADER_BYTES) {
        status = fail(err, STATUS_SOFTWARE, "a safetensors header of %zu bytes; at most %d are allowed",
                      total - LENGTH_BYTES, SAFETENSORS_MAX_HEADER_BYTES);
        goto fail;
    }
    *header = malloc(total);
    if (!*header) {
        status = fail(err, STATUS_OS, "no memory for the header of %zu tensors", count);
        goto fail;
    }
    for (int i = 0; i < LENGTH_BYTES; i++)
        (*header)[i] = (char)((total - LENGTH_BYTES) >> 8 * i & 0xff);
    memcpy(*header + LENGTH_BYTES, text, used - LENGTH_BYTES);
    memset(*header + used, ' ', total - used);
    *header_bytes = total;
fail:
    free(text);
    return status;
}

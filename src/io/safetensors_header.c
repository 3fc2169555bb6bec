// The writing side of the safetensors format: from a list of tensors to the bytes before the payload.
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "io/safetensors.h"

static const struct {
    const char *name;
    size_t bytes;
} TYPES[] = {[TENSOR_F32] = {"F32", 4},
             [TENSOR_F64] = {"F64", 8},
             [TENSOR_I32] = {"I32", 4},
             [TENSOR_I64] = {"I64", 8},
             [TENSOR_U8] = {"U8", 1}};

const char *tensor_type_name(TensorType type) {
    return TYPES[type].name;
}
size_t tensor_type_bytes(TensorType type) {
    return TYPES[type].bytes;
}

bool tensor_entry_size(size_t *bytes, const TensorEntry *entry) {
    *bytes = TYPES[entry->type].bytes;
    for (int d = 0; d < entry->rank; d++)
        if (entry->shape[d] < 0 || __builtin_mul_overflow(*bytes, (size_t)entry->shape[d], bytes)) return false;
    return *bytes <= PTRDIFF_MAX;
}

// Fills in where the tensors lie, one after another.
static Status place(TensorEntry *entries, size_t count, Error *err) {
    size_t end = 0;
    if (count > SAFETENSORS_MAX_TENSORS)
        return fail(err, STATUS_SOFTWARE, "%zu tensors; a safetensors file takes at most %d", count,
                    SAFETENSORS_MAX_TENSORS);
    for (size_t i = 0; i < count; i++) {
        TensorEntry *entry = &entries[i];
        if (entry->name[0] == '\0' || !memchr(entry->name, '\0', sizeof entry->name) || entry->rank < 0 ||
            entry->rank > SAFETENSORS_MAX_RANK || strcmp(entry->name, "__metadata__") == 0)
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

static json_t *describe(const TensorEntry *entry) {
    json_t *shape = json_array();
    for (int d = 0; d < entry->rank; d++)
        json_array_append_new(shape, json_integer(entry->shape[d]));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", tensor_type_name(entry->type), "shape", shape, "data_offsets",
                     (json_int_t)entry->first_byte, (json_int_t)(entry->first_byte + entry->bytes));
}

// Adds a new key and takes over the value. Refuses a key that is there already and text that is not UTF-8.
static Status add_new(json_t *object, const char *key, json_t *value, const char *what, Error *err) {
    if (json_object_get(object, key)) {
        json_decref(value);
        return fail(err, STATUS_SOFTWARE, "two %ss are called %s", what, key);
    }
    if (json_object_set_new(object, key, value) != 0)
        return fail(err, STATUS_SOFTWARE, "the %s %s is not UTF-8, or there is no memory for it", what, key);
    return STATUS_OK;
}

static Status build_json(json_t *root, const TensorEntry *entries, size_t count, const TensorNote *notes,
                         size_t note_count, Error *err) {
    if (note_count > 0) {
        json_t *metadata = json_object();
        TRY(add_new(root, "__metadata__", metadata, "tensor", err));
        for (size_t i = 0; i < note_count; i++)
            TRY(add_new(metadata, notes[i].key, json_string(notes[i].value), "note", err));
    }
    for (size_t i = 0; i < count; i++)
        TRY(add_new(root, entries[i].name, describe(&entries[i]), "tensor", err));
    return STATUS_OK;
}

Status safetensors_header(char **header, size_t *header_bytes, TensorEntry *entries, size_t count,
                          const TensorNote *notes, size_t note_count, Error *err) {
    enum { LENGTH_BYTES = 8 };
    TRY(place(entries, count, err));
    json_t *root = json_object();
    char *text = NULL;
    Status status;
    TRY_GOTO(fail, build_json(root, entries, count, notes, note_count, err));
    text = json_dumps(root, JSON_COMPACT);
    size_t used = LENGTH_BYTES + (text ? strlen(text) : 0);
    size_t total = (used + SAFETENSORS_ALIGNMENT - 1) / SAFETENSORS_ALIGNMENT * SAFETENSORS_ALIGNMENT;
    *header = text ? malloc(total) : NULL;
    if (!*header) {
        status = fail(err, STATUS_OS, "no memory for the header of %zu tensors", count);
        goto fail;
    }
    if (total - LENGTH_BYTES > SAFETENSORS_MAX_HEADER_BYTES) {
        status = fail(err, STATUS_SOFTWARE, "a safetensors header of %zu bytes; at most %d are allowed",
                      total - LENGTH_BYTES, SAFETENSORS_MAX_HEADER_BYTES);
        free(*header);
        goto fail;
    }
    for (int i = 0; i < LENGTH_BYTES; i++)
        (*header)[i] = (char)((total - LENGTH_BYTES) >> 8 * i & 0xff);
    memcpy(*header + LENGTH_BYTES, text, used - LENGTH_BYTES);
    memset(*header + used, ' ', total - used);
    *header_bytes = total;
fail:
    free(text);
    json_decref(root);
    return status;
}

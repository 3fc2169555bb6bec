#include "io/json.h"

#include <inttypes.h>
#include <stdbool.h>

// The byte at which nesting first exceeds JSON_MAX_DEPTH, or `bytes` when it never does.
static size_t too_deep_at(const char *text, size_t bytes) {
    int depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < bytes; i++) {
        const char c = text[i];
        if (in_string) {
            if (c == '\\')
                i++; // whatever is escaped does not end the string
            else
                in_string = c != '"';
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            if (++depth > JSON_MAX_DEPTH) return i;
        } else if (c == '}' || c == ']') {
            depth--;
        }
    }
    return bytes;
}

Status json_read_object(json_t **object, const char *text, size_t bytes, const char *path, uint64_t first_byte,
                        Error *err) {
    size_t deep = too_deep_at(text, bytes);
    if (deep < bytes)
        return fail(err, STATUS_DATA, "%s: JSON nested deeper than %d at byte %" PRIu64, path, JSON_MAX_DEPTH,
                    first_byte + deep);
    json_error_t where;
    *object = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &where);
    if (!*object)
        return fail(err, STATUS_DATA, "%s: bad JSON at byte %" PRIu64 ": %s", path,
                    first_byte + (uint64_t)(where.position > 0 ? where.position : 0), where.text);
    if (!json_is_object(*object)) {
        json_decref(*object);
        return fail(err, STATUS_DATA, "%s: the JSON at byte %" PRIu64 " is not an object", path, first_byte);
    }
    return STATUS_OK;
}

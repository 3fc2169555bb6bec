#include "io/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

// jansson does not report a failed allocation reliably: sometimes a token just lacks its end, sometimes the text counts
// as bad, and the errno that the allocator sets is 0 again after the next number. So this allocator remembers failures,
// per thread.
static _Thread_local bool ran_out;
static json_malloc_t underlying; // the allocator before: jansson's own, or one that the program has set

static void *allocate(size_t bytes) {
    void *memory = underlying(bytes);
    if (!memory) ran_out = true;
    return memory;
}

// To be called before jansson allocates.
static void watch_memory(void) {
    json_malloc_t current;
    json_free_t release;
    json_get_alloc_funcs(&current, &release);
    if (current != allocate) {
        underlying = current;
        json_set_alloc_funcs(allocate, release);
    }
    ran_out = false;
}

Status json_read_object(json_t **object, const char *text, size_t bytes, const char *path, uint64_t first_byte,
                        Error *err) {
    json_error_t where;
    watch_memory();
    *object = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &where);
    if (!ran_out && json_is_object(*object)) return STATUS_OK;
    const bool is_json = *object != NULL;
    json_decref(*object);
    *object = NULL;
    if (ran_out) return fail(err, STATUS_OS, "%s: no memory to read its JSON", path);
    if (is_json) return fail(err, STATUS_DATA, "%s: the JSON at byte %" PRIu64 " is not an object", path, first_byte);
    return fail(err, STATUS_DATA, "%s: bad JSON at byte %" PRIu64 ": %s", path,
                first_byte + (uint64_t)(where.position > 0 ? where.position : 0), where.text);
}

// Only the first failure is kept.
static void spoil(JsonObject *object, const char *key, const char *problem) {
    if (object->status != STATUS_OK) return;
    if (!key) key = "an element";
    object->status = ran_out ? fail(&object->why, STATUS_OS, "no memory for %s", key)
                             : fail(&object->why, STATUS_SOFTWARE, "%s %s", key, problem);
}

void json_begin(JsonObject *object) {
    watch_memory();
    *object = (JsonObject){.root = json_object()};
    if (!object->root) spoil(object, "an object", "cannot be made");
}

void json_begin_array(JsonObject *array) {
    watch_memory();
    *array = (JsonObject){.root = json_array()};
    if (!array->root) spoil(array, "an array", "cannot be made");
}

void json_drop(JsonObject *object) {
    json_decref(object->root);
    object->root = NULL;
}

// Consumes the value. NULL: it could not be created, because memory ran out or its text is not UTF-8.
static void put(JsonObject *object, const char *key, json_t *value) {
    if (!value) spoil(object, key, "is not UTF-8");
    if (object->status == STATUS_OK) {
        watch_memory();
        if (!key && json_array_append(object->root, value) != 0)
            spoil(object, key, "cannot be added");
        else if (key && json_object_get(object->root, key))
            spoil(object, key, "is there twice");
        else if (key && json_object_set(object->root, key, value) != 0)
            spoil(object, key, "is not UTF-8");
    }
    json_decref(value);
}

// Stands for a value that could not be created, because memory ran out before.
static json_t *no_memory(void) {
    ran_out = true;
    return NULL;
}

void put_text(JsonObject *object, const char *key, const char *value) {
    watch_memory();
    put(object, key, value ? json_string(value) : no_memory());
}

void put_readable(JsonObject *object, const char *key, const char *value) {
    const size_t bytes = value ? 3 * strlen(value) + 1 : 0;
    char *readable = value ? malloc(bytes) : NULL;
    put_text(object, key, readable ? text_utf8(readable, bytes, value) : NULL);
    free(readable);
}

void put_whole(JsonObject *object, const char *key, int64_t value) {
    put(object, key, json_integer(value));
}

void put_flag(JsonObject *object, const char *key, bool value) {
    put(object, key, json_boolean(value));
}

void put_null(JsonObject *object, const char *key) {
    put(object, key, json_null());
}

static json_t *real(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

void put_real(JsonObject *object, const char *key, double value) {
    put(object, key, real(value));
}

// Builds an array; `element` is an expression for its i-th value.
#define PUT_ARRAY(element)                                                                                             \
    watch_memory();                                                                                                    \
    json_t *array = json_array();                                                                                      \
    for (size_t i = 0; i < count && array; i++) {                                                                      \
        if (json_array_append_new(array, element) == 0) continue;                                                      \
        json_decref(array);                                                                                            \
        array = NULL;                                                                                                  \
    }                                                                                                                  \
    put(object, key, array)

void put_reals(JsonObject *object, const char *key, const double *values, size_t count) {
    PUT_ARRAY(real(values[i]));
}

void put_wholes(JsonObject *object, const char *key, const int64_t *values, size_t count) {
    PUT_ARRAY(json_integer(values[i]));
}

void put_texts(JsonObject *object, const char *key, const char *const *values, size_t count) {
    PUT_ARRAY(values[i] ? json_string(values[i]) : no_memory());
}

void put_object(JsonObject *object, const char *key, JsonObject *value) {
    if (object->status == STATUS_OK && value->status != STATUS_OK) {
        object->status = value->status;
        object->why = value->why;
    }
    put(object, key, value->root);
    value->root = NULL;
}

void put_value(JsonObject *object, const char *key, json_t *value) {
    put(object, key, value ? value : no_memory());
}

Status json_check(const JsonObject *object, const char *what, Error *err) {
    if (object->status == STATUS_OK) return STATUS_OK;
    return fail(err, object->status, "%s: %s", what, object->why.message);
}

// json_dumps returns a truncated text if memory runs out. json_dumpb cannot: it returns how many bytes the whole has.
Status json_text(char **text, size_t *bytes, JsonObject *object, size_t flags, const char *what, Error *err) {
    *text = NULL;
    Status status = json_check(object, what, err);
    if (status == STATUS_OK) {
        *bytes = json_dumpb(object->root, NULL, 0, flags); // 0: jansson had no memory for its list of visited objects
        *text = *bytes > 0 ? malloc(*bytes + 1) : NULL;
        if (*text && json_dumpb(object->root, *text, *bytes, flags) == *bytes) {
            (*text)[*bytes] = '\0';
        } else {
            status = fail(err, STATUS_OS, "%s: no memory for its text", what);
            free(*text);
            *text = NULL;
        }
    }
    json_drop(object);
    return status;
}

Status json_print(FILE *file, JsonObject *object, size_t flags, const char *what, Error *err) {
    char *text;
    size_t bytes;
    TRY(json_text(&text, &bytes, object, flags, what, err));
    fprintf(file, "%s\n", text);
    free(text);
    return STATUS_OK;
}

// JSON: reads objects from files that are not trusted, and builds objects field by field.
//
//   JsonObject round;
//   json_begin(&round);
//   put_text(&round, "type", "round");
//   put_real(&round, "seconds", 0.5);
//   TRY(json_text(&text, &bytes, &round, JSON_COMPACT, "metrics.jsonl", err));   // fails if a call above failed
#ifndef SOUNDER_IO_JSON_H
#define SOUNDER_IO_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

// Parses `text` (`bytes` bytes, without terminator) as one object. The caller releases *object with json_decref. Fails
// with DATA, the path and the byte in the file (`text` begins at first_byte), for anything else and for a key that
// occurs twice; with OS if memory runs out. jansson itself refuses more than 2048 nested levels; each reader limits the
// depth of its format (at most 3 levels for all formats that are read here).
Status json_read_object(json_t **object, const char *text, size_t bytes, const char *path, uint64_t first_byte,
                        Error *err);

// An object or array under construction. It remembers the first part that could not be added, and json_text reports it.
typedef struct JsonObject {
    json_t *root; // owned until json_text, put_object or json_drop
    Status status;
    Error why;
} JsonObject;

void json_begin(JsonObject *object);
void json_begin_array(JsonObject *array);

// Each call adds a field to an object, or, with NULL for the key, an element to an array. Failures are remembered: OS
// if memory runs out; SOFTWARE for a text that is not UTF-8 and for a key that the object has already.
void put_text(JsonObject *object, const char *key, const char *value);     // NULL: counts as out of memory
void put_readable(JsonObject *object, const char *key, const char *value); // as put_text; bad UTF-8 becomes U+FFFD
void put_whole(JsonObject *object, const char *key, int64_t value);
void put_flag(JsonObject *object, const char *key, bool value);
void put_null(JsonObject *object, const char *key);
void put_real(JsonObject *object, const char *key, double value); // null for a NaN or an infinity, which JSON lacks
void put_reals(JsonObject *object, const char *key, const double *values, size_t count);
void put_wholes(JsonObject *object, const char *key, const int64_t *values, size_t count);
void put_texts(JsonObject *object, const char *key, const char *const *values, size_t count);
void put_object(JsonObject *object, const char *key, JsonObject *value); // consumes the content of `value`
void put_value(JsonObject *object, const char *key, json_t *value);      // consumes `value`; NULL: out of memory

// Writes the object with jansson's `flags` to a malloc'ed text of *bytes bytes and '\0', and frees the object, also on
// failure. Fails with the object's first failure, its sentence after `what`.
Status json_text(char **text, size_t *bytes, JsonObject *object, size_t flags, const char *what, Error *err);

// Prints that text and a newline.
Status json_print(FILE *file, JsonObject *object, size_t flags, const char *what, Error *err);

// Returns the object's status so far; on failure the sentence is `what` and the reason.
Status json_check(const JsonObject *object, const char *what, Error *err);

void json_drop(JsonObject *object);

#endif

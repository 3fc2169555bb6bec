// JSON: objects from files that are not trusted, and objects put together field by field.
//
//   JsonObject round;
//   json_begin(&round);
//   put_text(&round, "type", "round");
//   put_real(&round, "seconds", 0.5);
//   TRY(json_text(&text, &bytes, &round, JSON_COMPACT, "metrics.jsonl", err));   // fails if any of them did
#ifndef SOUNDER_IO_JSON_H
#define SOUNDER_IO_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

// Parses `text` (bytes long, no terminator needed) as one object; *object is the caller's, to be json_decref'ed. DATA,
// naming path and the byte (first_byte is where text starts in the file), for anything else and for a key that occurs
// twice. jansson itself refuses nesting deeper than 2048; what may nest how deep is the reader's question: all formats
// that are read here have at most 3 levels and refuse more. OS without memory, which says nothing about the file.
Status json_read_object(json_t **object, const char *text, size_t bytes, const char *path, uint64_t first_byte,
                        Error *err);

// An object, or an array, under way. The first part that cannot be added spoils it; json_text tells why.
typedef struct JsonObject {
    json_t *root; // owned until json_text, put_object or json_drop
    Status status;
    Error why;
} JsonObject;

void json_begin(JsonObject *object);
void json_begin_array(JsonObject *array);

// Each adds a field to an object; to an array, with NULL for the key, an element. What spoils it: no memory (OS); a
// text that is not UTF-8, or a key that it has already (SOFTWARE).
void put_text(JsonObject *object, const char *key, const char *value);     // NULL: no memory for it
void put_readable(JsonObject *object, const char *key, const char *value); // likewise; bad UTF-8 becomes U+FFFD
void put_whole(JsonObject *object, const char *key, int64_t value);
void put_flag(JsonObject *object, const char *key, bool value);
void put_null(JsonObject *object, const char *key);
void put_real(JsonObject *object, const char *key, double value); // null for a NaN or an infinity, which JSON lacks
void put_reals(JsonObject *object, const char *key, const double *values, size_t count);
void put_wholes(JsonObject *object, const char *key, const int64_t *values, size_t count);
void put_texts(JsonObject *object, const char *key, const char *const *values, size_t count);
void put_object(JsonObject *object, const char *key, JsonObject *value); // takes over what is in value
void put_value(JsonObject *object, const char *key, json_t *value);      // takes it over; NULL: no memory for it

// The text of the object (bytes long, then a terminator), malloc'ed, with jansson's flags; the object is gone, also on
// failure: the first that befell it, behind `what`.
Status json_text(char **text, size_t *bytes, JsonObject *object, size_t flags, const char *what, Error *err);

// The status of the object so far, its sentence behind `what`.
Status json_check(const JsonObject *object, const char *what, Error *err);

void json_drop(JsonObject *object);

#endif

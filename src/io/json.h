// JSON that comes from a file and is not trusted.
#ifndef SOUNDER_IO_JSON_H
#define SOUNDER_IO_JSON_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { JSON_MAX_DEPTH = 64 };

// Parses `text` (bytes long, no terminator needed) as one object; *object is the caller's, to be json_decref'ed. DATA,
// naming path and the byte (first_byte is where text starts in the file), for anything else, for a key that occurs
// twice, and for nesting deeper than JSON_MAX_DEPTH, which is found out before the recursive parser runs.
Status json_read_object(json_t **object, const char *text, size_t bytes, const char *path, uint64_t first_byte,
                        Error *err);

#endif

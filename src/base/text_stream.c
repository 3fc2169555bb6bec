#include "text_stream.h"

#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

// Returns 0 if there is no memory: the file then has an error, which ferror reports to text_close.
static ssize_t append(void *context, const char *bytes, size_t count) {
    TextStream *stream = context;
    if (stream->bytes + count + 1 > stream->capacity) {
        const size_t capacity = 2 * stream->capacity + count + 4096;
        char *text = realloc(stream->text, capacity);
        if (!text) return 0;
        stream->text = text;
        stream->capacity = capacity;
    }
    memcpy(stream->text + stream->bytes, bytes, count);
    stream->bytes += count;
    stream->text[stream->bytes] = '\0';
    return (ssize_t)count;
}

FILE *text_open(TextStream *stream) {
    *stream = (TextStream){.text = calloc(1, 1), .capacity = 1};
    if (stream->text) stream->file = fopencookie(stream, "w", (cookie_io_functions_t){.write = append});
    return stream->file;
}

bool text_close(TextStream *stream) {
    const bool written = stream->file && fflush(stream->file) == 0 && !ferror(stream->file);
    const bool whole = stream->file && fclose(stream->file) == 0 && written;
    stream->file = NULL;
    if (!whole) {
        free(stream->text);
        stream->text = NULL;
    }
    return whole;
}

// A FILE that prints into memory and reports lost output. open_memstream drops the bytes for which there is no memory,
// continues, and reports nothing.
//
//   TextStream stream;
//   FILE *file = text_open(&stream);
//   if (file) fprintf(file, "%d", 1);
//   if (!text_close(&stream)) return fail(err, STATUS_OS, "no memory for ...");   // the text is freed already
//   puts(stream.text);
//   free(stream.text);
#ifndef SOUNDER_BASE_TEXT_STREAM_H
#define SOUNDER_BASE_TEXT_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef struct TextStream {
    FILE *file; // owned until text_close
    char *text; // the caller frees it after text_close; `bytes` bytes and '\0'
    size_t bytes, capacity;
} TextStream;

// Returns NULL if there is no memory; text_close may be called nevertheless.
FILE *text_open(TextStream *stream);

// Returns true if the text contains everything that was printed; otherwise frees it and sets it to NULL.
bool text_close(TextStream *stream);

#endif

// A text in memory that is printed into as a file, and that is whole or not there. open_memstream loses what it finds
// no memory for, goes on, and says nothing of it.
//
//   TextStream stream;
//   FILE *file = text_open(&stream);
//   if (file) fprintf(file, "%d", 1);
//   if (!text_close(&stream)) return fail(err, STATUS_OS, "no memory for ...");   // nothing is left to free
//   puts(stream.text);
//   free(stream.text);
#ifndef SOUNDER_BASE_TEXT_STREAM_H
#define SOUNDER_BASE_TEXT_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef struct TextStream {
    FILE *file; // owned until text_close
    char *text; // owned, the caller's to free after text_close; ends with '\0' after `bytes`
    size_t bytes, capacity;
} TextStream;

// NULL: no memory; text_close may be called all the same.
FILE *text_open(TextStream *stream);

// Whether all that was printed is in the text. If not, the text is freed and NULL.
bool text_close(TextStream *stream);

#endif

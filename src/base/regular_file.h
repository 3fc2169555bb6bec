// Opening a file that a user names, for reading it from its beginning to its end.
#ifndef SOUNDER_BASE_REGULAR_FILE_H
#define SOUNDER_BASE_REGULAR_FILE_H

#include <stdio.h>

#include "base/err.h"

// *file: to be closed by the caller. Whatever is no regular file is refused: opening a named pipe would wait for a
// writer without end, and what it gives can be read only once. NOINPUT. Nothing to close on failure.
Status regular_file_open(FILE **file, const char *path, Error *err);

#endif

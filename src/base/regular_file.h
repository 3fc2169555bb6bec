// Opens a file that a user names, for reading from beginning to end.
#ifndef SOUNDER_BASE_REGULAR_FILE_H
#define SOUNDER_BASE_REGULAR_FILE_H

#include <stdio.h>

#include "base/err.h"

// The caller closes *file. Fails with NOINPUT, with nothing to close, if the path is no regular file: opening a named
// pipe would wait for a writer without end, and its contents can be read only once.
Status regular_file_open(FILE **file, const char *path, Error *err);

#endif

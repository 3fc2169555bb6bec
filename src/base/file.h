// Files: opens one that a user names, writes all bytes, creates folders.
#ifndef SOUNDER_BASE_FILE_H
#define SOUNDER_BASE_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/err.h"

// Opens a regular file that a user names, for reading from beginning to end. The caller closes *file. Fails with
// NOINPUT, with nothing to close, if the path is no regular file: opening a named pipe would wait for a writer without
// end, and its contents can be read only once.
Status regular_file_open(FILE **file, const char *path, Error *err);

// Opens a file that a user names, for writing from its beginning. The caller closes *file with file_close. An earlier
// file is replaced only if it is empty or has the text `mark` at this byte, as files of this kind have (NULL: always).
// Fails with CANTCREATE and a remedy if it has not, if the path is a named pipe without a reader, or if it cannot be
// made.
Status output_file_open(FILE **file, const char *path, const char *mark, off_t at, Error *err);

// Reads the number in the first line of a file that is `key`, a blank and the number ("MemAvailable:   123 kB"), as the
// kernel tells about itself. Returns false if there is no such line.
bool file_number(uint64_t *number, const char *path, const char *key, int base);

// Closes a file that was written from its beginning. Unless all of it could be written, removes it, if it is a regular
// file (/dev/full stays), and fails with IO, the path and the reason.
Status file_close(FILE *file, const char *path, Error *err);

// Writes all bytes, also if write(2) is interrupted or writes a part. Returns the number of bytes written: `count`, or
// fewer with errno.
size_t file_write_all(int fd, const void *bytes, size_t count);

// Whether a folder of PATH has a program of this name, as execvp searches it.
bool program_is_on_path(const char *program);

enum { FOLDER_PATH_BYTES = 4096 };

// Creates the folder and its missing parents with this mode, as mkdir -p. `path` is shorter than FOLDER_PATH_BYTES.
// Returns 0, or -1 with errno if a part of the path cannot be created.
int make_folders(const char *path, mode_t mode);

#endif

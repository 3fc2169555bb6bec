// Files that are either the old version or the new one, never half of each, whatever dies when:
// temporary file in the same folder, write, fsync, rename, fsync of the folder.
//
// The temporary file of NAME is .NAME.partial: what a killed writer left is overwritten by the next one. So a name has
// one writer at a time; a run makes sure of that by locking its folder.
#ifndef SOUNDER_IO_DURABLE_H
#define SOUNDER_IO_DURABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

// A folder that is open. Its files are found through the descriptor: what is renamed to its path meanwhile is another
// folder, and is left alone.
typedef struct Folder {
    int fd;           // borrowed
    const char *path; // borrowed; for sentences alone
} Folder;

typedef struct FilePart {
    const void *bytes;
    size_t count;
} FilePart;

// Writes the parts one after another to the file `name` in the folder. On failure (IO, with the path and the reason)
// the predecessor is intact and the temporary file is gone. (Only when the last step fails, the sync of the folder, is
// the new file in place already.)
Status durable_write(const Folder *folder, const char *name, const FilePart *parts, size_t part_count, Error *err);

// USAGE, with the path and a remedy, unless the file that was opened is regular, the user's own, and has no other name:
// what is written into it in place would otherwise change another file, to which a folder from elsewhere leads.
Status file_check_own(int fd, const char *path, Error *err);

// Lower-case hexadecimal SHA-256 of the parts, 64 characters and a terminator.
void sha256_hex(char hex[65], const FilePart *parts, size_t part_count);

// Whether the folder has a regular file `name` (not a link) whose bytes have this SHA-256.
bool file_has_sha256(const Folder *folder, const char *name, const char *hex);

// mkdir -p.

enum { FOLDER_PATH_BYTES = 4096 };

// Makes the folder and those above it, unless they exist. path: shorter than FOLDER_PATH_BYTES. -1 with errno set when
// a part of the path cannot be made, otherwise 0.
int make_folders(const char *path);

#endif

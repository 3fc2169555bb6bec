// Files that contain either their old version or the new one, never a part of each, whenever a process dies: write a
// temporary file in the same folder, fsync, rename, fsync of the folder.
//
// The temporary file of NAME is .NAME.partial; the next writer overwrites a file that a killed writer left. A name must
// therefore have one writer at a time; a run ensures that with a lock on its folder.
#ifndef SOUNDER_IO_DURABLE_H
#define SOUNDER_IO_DURABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/file.h"

// An open folder. Its files are found through the descriptor, so that a folder that is renamed to its path in the
// meantime is not touched.
typedef struct Folder {
    int fd;           // borrowed
    const char *path; // borrowed; only for error messages
} Folder;

typedef struct FilePart {
    const void *bytes;
    size_t count;
} FilePart;

// Writes the parts one after another to the file `name` in the folder. On failure (IO, with the path and the reason)
// the old file is intact and the temporary file is removed. Only if the last step fails, the fsync of the folder, is
// the new file already in place.
Status durable_write(const Folder *folder, const char *name, const FilePart *parts, size_t part_count, Error *err);

// As durable_write, with a file of this mode (less the umask) in place of 0666.
Status durable_write_as(const Folder *folder, const char *name, mode_t mode, const FilePart *parts, size_t part_count,
                        Error *err);

// Writes the parts one after another to a file that the user names. Fails as output_file_open and file_close do.
Status file_write(const char *path, const FilePart *parts, size_t part_count, Error *err);

// Does this for a safetensors file: an earlier file is replaced only if it is one.
Status file_write_safetensors(const char *path, const FilePart *parts, size_t part_count, Error *err);

// Appends the bytes to the file; removes them again if only a part can be written. what: their name in the sentence, "a
// line". Fails with IO, the path and the reason.
Status file_append(int fd, const char *path, const char *what, const void *bytes, size_t count, Error *err);

// Fails with USAGE, the path and a remedy unless the open file is regular, belongs to the user and has no other name.
// Writing in place into such a file could change a file elsewhere, to which a link in a copied folder leads.
Status file_check_own(int fd, const char *path, Error *err);

// Writes the SHA-256 of the parts in lower-case hexadecimal: 64 characters and '\0'.
void sha256_hex(char hex[65], const FilePart *parts, size_t part_count);

// Says whether the folder has a regular file `name` (no link) whose bytes have this SHA-256.
bool file_has_sha256(const Folder *folder, const char *name, const char *hex);

#endif

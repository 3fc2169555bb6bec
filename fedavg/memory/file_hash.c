#include "file_hash.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "fedavg/memory/fingerprint.h"

Status file_hash(uint64_t *hash, const char *path, Error *err) {
    static const size_t chunk_bytes = 1 << 16;
    FILE *file;
    TRY(regular_file_open(&file, path, err));
    char *chunk = malloc(chunk_bytes);
    XXH3_state_t *state = chunk ? XXH3_createState() : NULL;
    Status status = state ? STATUS_OK : fail(err, STATUS_OS, "no memory to read %.500s", path);
    if (state) XXH3_64bits_reset(state);
    for (size_t bytes; state && (bytes = fread(chunk, 1, chunk_bytes, file)) > 0;)
        XXH3_64bits_update(state, chunk, bytes);
    if (state && ferror(file)) status = fail_errno(err, STATUS_IO, "%.500s cannot be read", path);
    if (state) *hash = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    free(chunk);
    fclose(file);
    return status;
}

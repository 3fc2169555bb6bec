#include "io/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "io/durable.h"

enum { KEPT = 2, SHA256_DIGITS = 64 };

// The checksum stands in the file it is of: it is computed with these zeros in its place.
static const char NO_CHECKSUM[] = "0000000000000000000000000000000000000000000000000000000000000000";

// A safetensors file as the parts of a durable write: the header, then each tensor from where it lies.
typedef struct TensorParts {
    char *header;    // owned
    FilePart *parts; // owned; parts[0] is the header
    size_t count;
} TensorParts;

static void parts_free(TensorParts *parts) {
    free(parts->header);
    free(parts->parts);
}

static Status parts_init(TensorParts *parts, const NamedTensor *tensors, size_t count, const TensorNote *notes,
                         size_t note_count, Error *err) {
    TensorEntry *entries = calloc(count + 1, sizeof *entries);
    size_t header_bytes;
    Status status;
    *parts = (TensorParts){.parts = calloc(count + 1, sizeof *parts->parts), .count = count + 1};
    if (!entries || !parts->parts) {
        status = fail(err, STATUS_OS, "no memory for writing %zu tensors", count);
        goto fail;
    }
    for (size_t i = 0; i < count; i++) {
        entries[i].type = TENSOR_F32;
        entries[i].rank = tensors[i].rank;
        memcpy(entries[i].name, tensors[i].name, sizeof entries[i].name);
        memcpy(entries[i].shape, tensors[i].shape, sizeof tensors[i].shape);
    }
    TRY_GOTO(fail, safetensors_header(&parts->header, &header_bytes, entries, count, notes, note_count, err));
    parts->parts[0] = (FilePart){parts->header, header_bytes};
    for (size_t i = 0; i < count; i++)
        parts->parts[i + 1] = (FilePart){tensors[i].values, entries[i].bytes};
    free(entries);
    return STATUS_OK;
fail:
    free(entries);
    parts_free(parts);
    return status;
}

Status tensors_write(const char *path, const NamedTensor *tensors, size_t count, const TensorNote *notes,
                     size_t note_count, Error *err) {
    TensorParts parts;
    TRY(parts_init(&parts, tensors, count, notes, note_count, err));
    Status status = durable_write(path, parts.parts, parts.count, err);
    parts_free(&parts);
    return status;
}

static Status checkpoint_path(char path[PATH_MAX], const char *folder, const char *before, uint32_t round,
                              const char *after, Error *err) {
    int length = snprintf(path, PATH_MAX, "%s/%sround-%06" PRIu32 ".safetensors%s", folder, before, round, after);
    if (length >= PATH_MAX) return fail(err, STATUS_CANTCREATE, "%s: the path is too long", folder);
    return STATUS_OK;
}

static int later_first(const void *left, const void *right) {
    const uint32_t *a = left, *b = right;
    return *a < *b ? 1 : *a > *b ? -1 : 0;
}

// The rounds of which folder has a file <before>round-NNNNNN.safetensors<after>, latest first, malloc'ed.
static Status list_rounds(uint32_t **rounds, size_t *count, const char *folder, const char *before, const char *after,
                          Error *err) {
    char name[NAME_MAX + 1];
    *rounds = NULL;
    *count = 0;
    DIR *listing = opendir(folder);
    if (!listing) return fail_errno(err, errno == ENOENT ? STATUS_NOINPUT : STATUS_IO, "%s", folder);
    for (struct dirent *file; (file = readdir(listing));) {
        size_t prefix = strlen(before);
        uint32_t round;
        if (strncmp(file->d_name, before, prefix) != 0 || sscanf(file->d_name + prefix, "round-%" SCNu32, &round) != 1)
            continue;
        snprintf(name, sizeof name, "%sround-%06" PRIu32 ".safetensors%s", before, round, after);
        if (strcmp(name, file->d_name) != 0) continue;
        uint32_t *longer = realloc(*rounds, (*count + 1) * sizeof **rounds);
        if (!longer) {
            free(*rounds);
            closedir(listing);
            return fail(err, STATUS_OS, "no memory for the list of %zu checkpoints", *count);
        }
        *rounds = longer;
        (*rounds)[(*count)++] = round;
    }
    closedir(listing);
    if (*count > 0) qsort(*rounds, *count, sizeof **rounds, later_first);
    return STATUS_OK;
}

// Removes the files of a kind, but keeps the KEPT latest up to and with round `newest`. Later rounds are of a future
// that the run has left: it was resumed from an earlier checkpoint because those were damaged.
static Status prune(const char *folder, const char *before, const char *after, uint32_t newest, size_t kept,
                    Error *err) {
    uint32_t *rounds;
    size_t count, seen = 0;
    char path[PATH_MAX];
    Status status = STATUS_OK;
    TRY(list_rounds(&rounds, &count, folder, before, after, err));
    for (size_t i = 0; i < count && status == STATUS_OK; i++) {
        if (rounds[i] <= newest && seen++ < kept) continue;
        status = checkpoint_path(path, folder, before, rounds[i], after, err);
        if (status == STATUS_OK && unlink(path) != 0) status = fail_errno(err, STATUS_IO, "%s", path);
    }
    free(rounds);
    return status;
}

Status checkpoint_write(const char *folder, uint32_t rounds_done, const NamedTensor *tensors, size_t count,
                        const TensorNote *notes, size_t note_count, Error *err) {
    char path[PATH_MAX], round_text[16], checksum[SHA256_DIGITS + 1];
    TensorParts parts;
    Status status;
    TRY(checkpoint_path(path, folder, "", rounds_done, "", err));
    TensorNote *all = calloc(note_count + 2, sizeof *all);
    if (!all) return fail(err, STATUS_OS, "%s: no memory for %zu notes", path, note_count);
    snprintf(round_text, sizeof round_text, "%" PRIu32, rounds_done);
    all[0] = (TensorNote){"sha256", NO_CHECKSUM};
    all[1] = (TensorNote){"rounds_done", round_text};
    for (size_t i = 0; i < note_count; i++)
        all[i + 2] = notes[i];
    status = parts_init(&parts, tensors, count, all, note_count + 2, err);
    free(all);
    TRY(status);
    sha256_hex(checksum, parts.parts, parts.count);
    // The note was put first, so these are the first such zeros.
    memcpy(memmem(parts.header, parts.parts[0].count, NO_CHECKSUM, SHA256_DIGITS), checksum, SHA256_DIGITS);
    status = durable_write(path, parts.parts, parts.count, err);
    parts_free(&parts);
    TRY(status);
    TRY(prune(folder, ".", ".partial", rounds_done, 0, err)); // what a killed writer left
    return prune(folder, "", "", rounds_done, KEPT, err);
}

static Status check_contents(const Safetensors *file, const char *path, uint32_t round, Error *err) {
    const char *round_text = safetensors_note(file, "rounds_done"), *checksum = safetensors_note(file, "sha256");
    char expected[16], actual[SHA256_DIGITS + 1];
    snprintf(expected, sizeof expected, "%" PRIu32, round);
    if (!round_text || strcmp(round_text, expected) != 0)
        return fail(err, STATUS_DATA, "%s: rounds_done in the header at byte 8 is %s", path,
                    round_text ? round_text : "missing");
    const char *first = file->mapping, *end = first + file->mapping_bytes;
    const char *place = !checksum || strlen(checksum) != SHA256_DIGITS
                            ? NULL
                            : memmem(first, (size_t)((const char *)file->payload - first), checksum, SHA256_DIGITS);
    if (!place) return fail(err, STATUS_DATA, "%s: no sha256 in the header at byte 8", path);
    const char *rest = place + SHA256_DIGITS;
    const FilePart parts[] = {
        {first, (size_t)(place - first)}, {NO_CHECKSUM, SHA256_DIGITS}, {rest, (size_t)(end - rest)}};
    sha256_hex(actual, parts, 3);
    if (strcmp(actual, checksum) != 0)
        return fail(err, STATUS_DATA, "%s: damaged: its bytes have the sha256 %s, the note at byte %zu says %s", path,
                    actual, (size_t)(place - first), checksum);
    return STATUS_OK;
}

Status checkpoint_open_last(Safetensors *file, uint32_t *rounds_done, const char *folder, Error *err) {
    uint32_t *rounds;
    size_t count;
    char path[PATH_MAX];
    Error why;
    TRY(list_rounds(&rounds, &count, folder, "", "", err));
    Status found = STATUS_NOINPUT;
    for (size_t i = 0; i < count && found != STATUS_OK; i++) {
        found = checkpoint_path(path, folder, "", rounds[i], "", &why);
        if (found == STATUS_OK) found = safetensors_open(file, path, &why);
        if (found == STATUS_OK) {
            found = check_contents(file, path, rounds[i], &why);
            if (found != STATUS_OK) safetensors_close(file);
        }
        if (found == STATUS_OK)
            *rounds_done = rounds[i];
        else
            log_warning("%s; this checkpoint is skipped", why.message);
    }
    free(rounds);
    if (found == STATUS_OK) return STATUS_OK;
    if (count == 0) return fail(err, STATUS_NOINPUT, "%s holds no checkpoint", folder);
    return fail(err, STATUS_DATA, "%s: none of its %zu checkpoints can be used; the last one tried: %s", folder, count,
                why.message);
}

Status checkpoint_load(float *values, size_t count, const Safetensors *file, const char *name, Error *err) {
    const TensorEntry *entry = safetensors_find(file, name);
    if (!entry) return fail(err, STATUS_DATA, "the checkpoint has no tensor %s; was it made by another model?", name);
    if (entry->type != TENSOR_F32 || entry->bytes / sizeof *values != count)
        return fail(err, STATUS_DATA,
                    "the checkpoint's tensor %s has %zu values of type %s, not %zu of F32; was it made "
                    "by another model?",
                    name, entry->bytes / tensor_type_bytes(entry->type), tensor_type_name(entry->type), count);
    memcpy(values, file->payload + entry->first_byte, entry->bytes);
    return STATUS_OK;
}

#include "io/checkpoint.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/half.h"
#include "base/log.h"
#include "base/owned.h"
#include "base/sorting.h"
#include "base/text.h"
#include "io/durable.h"

enum { KEPT = 2, SHA256_DIGITS = 64, SHAPE_TEXT_BYTES = 96 };

// The checksum is stored in the file itself: it is computed with these zeros in its place.
static const char NO_CHECKSUM[] = "0000000000000000000000000000000000000000000000000000000000000000";

// A kind of file in the folder: <before>round-NNNNNN.safetensors<after>.
typedef struct NameKind {
    const char *before, *after;
} NameKind;

static const NameKind WHOLE = {"", ""}, PARTIAL = {".", ".partial"};

static const char *name_of(char name[NAME_MAX + 1], const NameKind *kind, uint32_t round) {
    snprintf(name, NAME_MAX + 1, "%sround-%06" PRIu32 ".safetensors%s", kind->before, round, kind->after);
    return name;
}

static bool has_round(uint32_t *round, const char *found, const NameKind *kind) {
    char name[NAME_MAX + 1];
    size_t prefix = strlen(kind->before);
    return strncmp(found, kind->before, prefix) == 0 && sscanf(found + prefix, "round-%" SCNu32, round) == 1 &&
           strcmp(name_of(name, kind, *round), found) == 0;
}

static Status read_rounds(uint32_t **rounds, size_t *count, DIR *listing, const char *path, const NameKind *kind,
                          Error *err) {
    assert(listing && *count == 0);
    for (;;) {
        uint32_t round;
        errno = 0; // readdir returns NULL at the end and on errors; only errno tells them apart
        const struct dirent *file = readdir(listing);
        if (!file && errno) return fail_errno(err, STATUS_IO, "%s cannot be listed", path);
        if (!file) return STATUS_OK;
        if (!has_round(&round, file->d_name, kind)) continue;
        uint32_t *longer = realloc(*rounds, (*count + 1) * sizeof **rounds);
        if (!longer) return fail(err, STATUS_OS, "no memory for the list of %zu checkpoints", *count);
        *rounds = longer;
        (*rounds)[(*count)++] = round;
    }
}

// Lists the rounds of which the folder has a file of this kind, latest first. The caller frees *rounds.
static Status list_rounds(uint32_t **rounds, size_t *count, const Folder *folder, const NameKind *kind, Error *err) {
    *rounds = NULL;
    *count = 0;
    int fd = openat(folder->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *listing = fd < 0 ? NULL : fdopendir(fd);
    if (!listing) {
        Status status = fail_errno(err, STATUS_IO, "%s cannot be listed", folder->path);
        if (fd >= 0) close(fd);
        return status;
    }
    Status status = read_rounds(rounds, count, listing, folder->path, kind, err);
    closedir(listing);
    if (status != STATUS_OK) free(*rounds);
    if (status == STATUS_OK && *count > 0) qsort(*rounds, *count, sizeof **rounds, descending_wholes);
    assert(*count == 0 || status != STATUS_OK || (*rounds)[0] >= (*rounds)[*count - 1]); // latest first
    return status;
}

// The note "rounds_done" has to agree with the file's name, so that a renamed file is not taken for another round. The
// checksum's place is found by its value: the 64 digits occur in the header once, in the note.
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
    assert(place >= first && rest <= end);
    const FilePart parts[] = {
        {first, (size_t)(place - first)}, {NO_CHECKSUM, SHA256_DIGITS}, {rest, (size_t)(end - rest)}};
    sha256_hex(actual, parts, 3);
    if (strcmp(actual, checksum) != 0)
        return fail(err, STATUS_DATA, "%s: damaged: its bytes have the sha256 %s, the note at byte %zu says %s", path,
                    actual, (size_t)(place - first), checksum);
    return STATUS_OK;
}

// Opens the checkpoint of a round. Fails with DATA if it was read and is damaged.
static Status open_round(Safetensors *file, const Folder *folder, uint32_t round, Error *err) {
    char name[NAME_MAX + 1], path[PATH_MAX];
    TRY(safetensors_open_at(file, folder, name_of(name, &WHOLE, round), err));
    snprintf(path, sizeof path, "%s/%s", folder->path, name);
    Status status = check_contents(file, path, round, err);
    if (status != STATUS_OK) safetensors_close(file);
    return status;
}

static bool is_damaged(const Folder *folder, uint32_t round) {
    Safetensors file;
    Status status = open_round(&file, folder, round, NULL);
    if (status == STATUS_OK) safetensors_close(&file);
    return status == STATUS_DATA;
}

// Keeps the KEPT latest checkpoints up to round `newest`. Later ones exist after a run was resumed from an earlier one:
// a damaged one is the reason for that and is removed; a valid one was put there by a user and stays. PARTIAL removes
// the temporary files that killed writers left.
static Status prune(const Folder *folder, const NameKind *kind, uint32_t newest, Error *err) {
    uint32_t *rounds;
    size_t count, seen = 0;
    char name[NAME_MAX + 1];
    Status status = STATUS_OK;
    TRY(list_rounds(&rounds, &count, folder, kind, err));
    for (size_t i = 0; i < count && status == STATUS_OK; i++) {
        if (kind == &WHOLE && (rounds[i] <= newest ? seen++ < KEPT : !is_damaged(folder, rounds[i]))) continue;
        if (unlinkat(folder->fd, name_of(name, kind, rounds[i]), 0) != 0 && errno != ENOENT)
            status = fail_errno(err, STATUS_IO, "%s/%s cannot be removed", folder->path, name);
    }
    free(rounds);
    return status;
}

// The note of the checksum is put first, so the first 64 zeros in the header are its value: the file is hashed with the
// zeros and written with the checksum in their place. The tensors are not copied: each is a part of the durable write.
Status checkpoint_write(const Folder *folder, uint32_t rounds_done, const NamedTensor *tensors, size_t count,
                        const TensorNote *notes, size_t note_count, bool is_secret, Error *err) {
    char name[NAME_MAX + 1], round_text[16], checksum[SHA256_DIGITS + 1], *header = NULL;
    size_t header_bytes;
    Owned owned = {0};
    TensorNote *all = own(&owned, note_count + 2, sizeof *all);
    TensorEntry *entries = own(&owned, count + 1, sizeof *entries);
    FilePart *parts = own(&owned, count + 1, sizeof *parts);
    Status status = STATUS_OK;
    if (owned.lacks_memory) {
        status = fail(err, STATUS_OS, "no memory for writing %zu tensors", count);
        goto fail;
    }
    snprintf(round_text, sizeof round_text, "%" PRIu32, rounds_done);
    all[0] = (TensorNote){"sha256", NO_CHECKSUM};
    all[1] = (TensorNote){"rounds_done", round_text};
    for (size_t i = 0; i < note_count; i++)
        all[i + 2] = notes[i];
    for (size_t i = 0; i < count; i++) {
        entries[i].type = tensors[i].type;
        entries[i].rank = tensors[i].rank;
        memcpy(entries[i].name, tensors[i].name, sizeof entries[i].name);
        memcpy(entries[i].shape, tensors[i].shape, sizeof tensors[i].shape);
    }
    TRY_GOTO(fail, safetensors_header(&header, &header_bytes, entries, count, all, note_count + 2, err));
    parts[0] = (FilePart){header, header_bytes};
    for (size_t i = 0; i < count; i++)
        parts[i + 1] = (FilePart){tensors[i].values, entries[i].bytes};
    sha256_hex(checksum, parts, count + 1);
    assert(strlen(checksum) == SHA256_DIGITS && header_bytes % 8 == 0);
    memcpy(memmem(header, header_bytes, NO_CHECKSUM, SHA256_DIGITS), checksum, SHA256_DIGITS);
    status =
        durable_write_as(folder, name_of(name, &WHOLE, rounds_done), is_secret ? 0600 : 0666, parts, count + 1, err);
fail:
    free(header);
    owned_free(&owned);
    TRY(status);
    return checkpoint_prune(folder, rounds_done, err);
}

Status checkpoint_prune(const Folder *folder, uint32_t rounds_done, Error *err) {
    TRY(prune(folder, &PARTIAL, 0, err));
    return prune(folder, &WHOLE, rounds_done, err);
}

Status checkpoint_open_last(Safetensors *file, bool *found, uint32_t *rounds_done, const Folder *folder, Error *err) {
    uint32_t *rounds;
    size_t count;
    Error why;
    TRY(list_rounds(&rounds, &count, folder, &WHOLE, err));
    *found = count > 0;
    Status status = count > 0 ? STATUS_DATA : STATUS_OK;
    for (size_t i = 0; i < count && status == STATUS_DATA; i++) {
        status = open_round(file, folder, rounds[i], &why);
        *rounds_done = rounds[i];
        if (status == STATUS_DATA) log_warning("%s; this checkpoint is skipped", why.message);
    }
    free(rounds);
    if (status == STATUS_OK) return STATUS_OK;
    if (status != STATUS_DATA) return fail(err, status, "%s", why.message);
    return fail(err, STATUS_DATA, "%s: none of its %zu checkpoint%s can be used; the last one tried: %s", folder->path,
                count, count == 1 ? "" : "s", why.message);
}

Status checkpoint_open_before(Safetensors *file, bool *found, uint32_t round, const Folder *folder, Error *err) {
    uint32_t *rounds;
    size_t count, i = 0;
    char name[NAME_MAX + 1];
    TRY(list_rounds(&rounds, &count, folder, &WHOLE, err));
    while (i < count && rounds[i] >= round)
        i++;
    const bool exists = i < count;
    if (exists) name_of(name, &WHOLE, rounds[i]);
    free(rounds);
    const Status status = exists ? safetensors_open_at(file, folder, name, err) : STATUS_DATA;
    *found = status == STATUS_OK;
    return status == STATUS_DATA ? STATUS_OK : status;
}

// Writes "16x64"; "a single number" for rank 0.
static void write_shape(char text[SHAPE_TEXT_BYTES], const int64_t *shape, int rank) {
    snprintf(text, SHAPE_TEXT_BYTES, rank == 0 ? "a single number" : "");
    for (int d = 0; d < rank; d++)
        text_add(text, SHAPE_TEXT_BYTES, "%s%" PRId64, d > 0 ? "x" : "", shape[d]);
}

static bool is_float(TensorType type) {
    return type == TENSOR_F32 || type == TENSOR_F64 || type == TENSOR_F16 || type == TENSOR_BF16;
}

// Number `place` of a tensor of any floating-point type.
static float float_at(const TensorEntry *entry, const Safetensors *file, size_t place) {
    const size_t bytes = tensor_type_bytes(entry->type);
    assert(entry->first_byte + (place + 1) * bytes <= file->payload_bytes);
    const uint8_t *from = file->payload + entry->first_byte + place * bytes;
    uint16_t half;
    float single;
    double number;
    if (entry->type == TENSOR_F64) {
        memcpy(&number, from, sizeof number);
        return (float)number;
    }
    memcpy(&half, from, sizeof half);
    if (entry->type == TENSOR_F16) return half_number(half);
    if (entry->type == TENSOR_BF16) return bfloat_number(half);
    memcpy(&single, from, sizeof single);
    return single;
}

static bool has_finite_values(const TensorEntry *entry, const Safetensors *file) {
    bool finite = true;
    for (size_t i = 0; i < entry->bytes / tensor_type_bytes(entry->type) && finite; i++)
        finite = isfinite(float_at(entry, file, i));
    return finite;
}

bool checkpoint_fits(char why_not[CHECKPOINT_WHY_BYTES], const Safetensors *file, const NamedTensor *tensor,
                     bool are_floats) {
    const TensorEntry *entry = safetensors_find(file, tensor->name);
    const int64_t *shape = tensor->shape;
    char here[SHAPE_TEXT_BYTES], there[SHAPE_TEXT_BYTES];
    *why_not = '\0';
    if (!entry) {
        snprintf(why_not, CHECKPOINT_WHY_BYTES, "%s is missing", tensor->name);
        return false;
    }
    write_shape(here, shape, tensor->rank);
    write_shape(there, entry->shape, entry->rank);
    const bool is_transposed = entry->rank == 2 && tensor->rank == 2 && entry->shape[0] == shape[1] &&
                               entry->shape[1] == shape[0] && shape[0] != shape[1];
    if (entry->type != tensor->type && !(are_floats && is_float(entry->type)))
        snprintf(why_not, CHECKPOINT_WHY_BYTES, "%s is of type %s, not %s", tensor->name, tensor_type_name(entry->type),
                 tensor_type_name(tensor->type));
    else if (strcmp(here, there) != 0)
        snprintf(why_not, CHECKPOINT_WHY_BYTES, "%s is %s, not %s%s", tensor->name, there, here,
                 is_transposed ? " (save its transpose)" : "");
    else if (are_floats && !has_finite_values(entry, file))
        snprintf(why_not, CHECKPOINT_WHY_BYTES, "%s has values that are not finite", tensor->name);
    return *why_not == '\0';
}

void checkpoint_load_floats(float *values, const Safetensors *file, const NamedTensor *tensor) {
    assert(safetensors_find(file, tensor->name)); // checkpoint_fits has found it
    const TensorEntry *entry = safetensors_find(file, tensor->name);
    for (size_t i = 0; i < entry->bytes / tensor_type_bytes(entry->type); i++)
        values[i] = float_at(entry, file, i);
}

Status checkpoint_load(void *values, const Safetensors *file, const NamedTensor *tensor, Error *err) {
    char why_not[CHECKPOINT_WHY_BYTES];
    if (!checkpoint_fits(why_not, file, tensor, false))
        return fail(err, STATUS_DATA, "the checkpoint's tensor %s; was it made by another model?", why_not);
    const TensorEntry *entry = safetensors_find(file, tensor->name);
    assert(entry->first_byte + entry->bytes <= file->payload_bytes);
    memcpy(values, file->payload + entry->first_byte, entry->bytes);
    return STATUS_OK;
}

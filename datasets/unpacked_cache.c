#include "datasets/unpacked_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/file.h"
#include "base/log.h"

// The end of a copy's file, after the block.
typedef struct CopyEnd {
    DatasetOrigin origin;
    uint64_t checksum; // of the block and the origin
} CopyEnd;

_Static_assert(sizeof(CopyEnd) == sizeof(DatasetOrigin) + 8, "an end is written without padding");

// Location of a data set's copy. The file name is a hash of the data set's paths, so that a newer copy replaces it.
typedef struct CopyPlace {
    char folder[DATASET_PATH_BYTES];
    char path[DATASET_PATH_BYTES]; // of the file in `folder`
} CopyPlace;

Status unpacked_cache_check(Error *err) {
    const char *choice = getenv("SOUNDER_CACHE");
    if (!choice || !*choice || strcmp(choice, "on") == 0 || strcmp(choice, "off") == 0) return STATUS_OK;
    return fail(err, STATUS_USAGE,
                "SOUNDER_CACHE=%.60s: needs on or off; the folder of copies is sounder in XDG_CACHE_HOME", choice);
}

// Returns false if no copy is wanted or there is no place for one.
static bool find_place(CopyPlace *place, const DatasetSource *source) {
    char parent[DATASET_PATH_BYTES];
    const char *choice = getenv("SOUNDER_CACHE");
    const bool off = choice && strcmp(choice, "off") == 0;
    return source->packed && !off && user_cache_folder(parent, sizeof parent) &&
           snprintf(place->folder, sizeof place->folder, "%s/unpacked", parent) < DATASET_PATH_BYTES &&
           snprintf(place->path, sizeof place->path, "%s/%016" PRIx64, place->folder, source->origin.paths[0]) <
               DATASET_PATH_BYTES;
}

static uint64_t checksum_of(const void *block, const DatasetSource *source) {
    uint64_t origin = XXH3_64bits(&source->origin, sizeof source->origin);
    return XXH3_64bits_withSeed(block, source->block_bytes, origin);
}

// Loading ------------------------------------------------------------------------------------------------------------

static bool is_ours(const struct stat *about) {
    return S_ISREG(about->st_mode) && about->st_uid == geteuid() && (about->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

static bool has_tokens_of(const Dataset *data, const DatasetModel *model) {
    const char *token = data->feature_names, *end = token + data->items.feature_bytes, *known = model->feature_names;
    while (token < end && *known && strcmp(token, known) == 0) {
        token += strlen(token) + 1;
        known += strlen(known) + 1;
    }
    return token == end && !*known;
}

// Copies are of data sets as they are by themselves.
static bool serves(const Dataset *data, const DatasetModel *model) {
    return !model ||
           (model->numbers_alone && model->fills == 0 && (data->items.vocabulary == 0 || has_tokens_of(data, model)));
}

// Verifies the copy and sets *data from its header; the pointers in *data are not valid afterwards.
static bool has_good_contents(Dataset *data, int fd, const DatasetSource *source) {
    CopyEnd end;
    if (pread(fd, &end, sizeof end, (off_t)source->block_bytes) != (ssize_t)sizeof end ||
        memcmp(&end.origin, &source->origin, sizeof end.origin) != 0)
        return false;
    void *block = mmap(NULL, source->block_bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (block == MAP_FAILED) return false;
    bool good = checksum_of(block, source) == end.checksum &&
                dataset_view(data, block, source->block_bytes, NULL) == STATUS_OK && serves(data, source->model);
    munmap(block, source->block_bytes);
    return good;
}

// Opens the copy of a source. Returns -1 if there is none.
static int open_copy(struct stat *about, const DatasetSource *source) {
    CopyPlace place;
    if (!find_place(&place, source)) return -1;
    int fd = open(place.path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || (fstat(fd, about) == 0 && is_ours(about))) return fd;
    close(fd);
    return -1;
}

bool unpacked_cache_open(int *fd, struct timespec *changed, const DatasetSource *source) {
    struct stat about;
    Dataset data;
    *fd = open_copy(&about, source);
    if (*fd < 0) return false;
    // The time is read before the check: a later change is seen either by the checksum or by the time.
    bool good =
        about.st_size == (off_t)(source->block_bytes + sizeof(CopyEnd)) && has_good_contents(&data, *fd, source);
    log_debug("data set: %s copy of %s", good ? "unpacked" : "no use for the", source->folder);
    *changed = about.st_mtim;
    if (!good) close(*fd);
    return good;
}

bool unpacked_cache_describe(DatasetSource *source) {
    struct stat about;
    Dataset data;
    int fd = open_copy(&about, source);
    if (fd < 0) return false;
    source->block_bytes = about.st_size > (off_t)sizeof(CopyEnd) ? (size_t)about.st_size - sizeof(CopyEnd) : 0;
    bool good = source->block_bytes > 0 && has_good_contents(&data, fd, source);
    close(fd);
    if (!good) return false;
    source->shape = data.shape;
    source->items = data.items;
    source->users = data.users;
    source->counts[DATASET_TRAIN] = data.train.count;
    source->validation_count = data.validation_count;
    source->counts[DATASET_TEST] = data.test.count;
    return true;
}

// Keeping ------------------------------------------------------------------------------------------------------------

void unpacked_cache_keep(const void *block, const DatasetSource *source) {
    CopyPlace place;
    char unnamed[64];
    if (!find_place(&place, source)) return;
    const CopyEnd end = {source->origin, checksum_of(block, source)};
    make_folders(place.folder, 0700); // if this fails, opening a file in the folder fails, too
    // The file gets its name only when it is complete, so that nothing remains if the process dies here. It is not
    // synced: the checksum detects a copy that a power failure has torn.
    int fd = open(place.folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0400);
    bool good = fd >= 0 && file_write_all(fd, block, source->block_bytes) == source->block_bytes &&
                file_write_all(fd, &end, sizeof end) == sizeof end;
    if (good) {
        snprintf(unnamed, sizeof unnamed, "/proc/self/fd/%d", fd);
        unlink(place.path); // an older copy; linkat does not replace
        good = linkat(AT_FDCWD, unnamed, AT_FDCWD, place.path, AT_SYMLINK_FOLLOW) == 0;
    }
    if (!good) log_debug("data set: no unpacked copy is kept in %s: %s", place.path, strerror(errno));
    if (fd >= 0) close(fd);
}

bool user_cache_folder(char *folder, size_t bytes) {
    // The specification says that relative paths are ignored.
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int length = -1;
    if (cache && cache[0] == '/')
        length = snprintf(folder, bytes, "%s/sounder", cache);
    else if (home && home[0] == '/')
        length = snprintf(folder, bytes, "%s/.cache/sounder", home);
    return length >= 0 && (size_t)length < bytes;
}

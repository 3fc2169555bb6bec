#include "datasets/unpacked_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/log.h"
#include "datasets/user_cache.h"

static bool is_packed(const IdxFolder *files) {
    for (IdxRole role = 0; role < IDX_ROLES; role++) {
        const char *ending = strrchr(files->path[role], '.');
        if (ending && strcmp(ending, ".gz") == 0) return true;
    }
    return false;
}

// Writes down everything that decides what the arrays hold. False when a file is gone.
static bool make_key(UnpackedCache *cache, const DatasetBlock *block, const IdxFolder *files) {
    const size_t room = sizeof cache->key;
    memset(cache->key, 0, room);
    int used =
        snprintf(cache->key, room, "sounder unpacked data set %d: %dx%dx%d, %u + %u samples\n", DATASET_VERSION,
                 block->shape.channels, block->shape.rows, block->shape.columns, block->train_count, block->test_count);
    for (IdxRole role = 0; role < IDX_ROLES; role++) {
        struct stat about;
        if (stat(files->path[role], &about) != 0) return false;
        used +=
            snprintf(cache->key + used, room - (size_t)used, "%s %lld bytes, changed %lld.%09ld\n", files->path[role],
                     (long long)about.st_size, (long long)about.st_mtim.tv_sec, about.st_mtim.tv_nsec);
        if ((size_t)used >= room) return false;
    }
    return true;
}

// The copy's name is that of the data set in short, so that a newer copy replaces it.
static bool make_path(UnpackedCache *cache, const IdxFolder *files) {
    char parent[DATASET_PATH_BYTES];
    if (!user_cache_folder(parent, sizeof parent)) return false;
    const char *first = files->path[IDX_TRAIN_IMAGES];
    unsigned long long name = XXH3_64bits(first, strlen(first));
    return snprintf(cache->folder, DATASET_PATH_BYTES, "%s/unpacked", parent) < DATASET_PATH_BYTES &&
           snprintf(cache->path, DATASET_PATH_BYTES, "%s/%016llx", cache->folder, name) < DATASET_PATH_BYTES;
}

void unpacked_cache_init(UnpackedCache *cache, const DatasetBlock *block, const IdxFolder *files) {
    const char *choice = getenv("SOUNDER_CACHE");
    const bool off = choice && strcmp(choice, "off") == 0;
    cache->usable = !off && is_packed(files) && make_path(cache, files) && make_key(cache, block, files);
}

static uint8_t *arrays(const DatasetBlock *block) {
    return (uint8_t *)(uintptr_t)block + block->layout.train_pixels;
}

static size_t arrays_bytes(const DatasetBlock *block) {
    return (size_t)(block->layout.block_bytes - block->layout.train_pixels);
}

static bool read_all(int fd, void *bytes, size_t count) {
    uint8_t *next = bytes;
    while (count > 0) {
        ssize_t got = read(fd, next, count);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        next += got;
        count -= (size_t)got;
    }
    return true;
}

static bool write_all(int fd, const void *bytes, size_t count) {
    const uint8_t *next = bytes;
    while (count > 0) {
        ssize_t written = write(fd, next, count);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return false;
        next += written;
        count -= (size_t)written;
    }
    return true;
}

static bool is_ours(int fd, size_t bytes) {
    struct stat about;
    return fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && about.st_uid == geteuid() &&
           (about.st_mode & (S_IWGRP | S_IWOTH)) == 0 && about.st_size == (off_t)bytes;
}

bool unpacked_cache_load(DatasetBlock *block, const UnpackedCache *cache) {
    char key[sizeof cache->key];
    uint64_t checksum;
    if (!cache->usable) return false;
    int fd = open(cache->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return false;
    bool good = is_ours(fd, sizeof key + sizeof checksum + arrays_bytes(block)) && read_all(fd, key, sizeof key) &&
                memcmp(key, cache->key, sizeof key) == 0 && read_all(fd, &checksum, sizeof checksum) &&
                read_all(fd, arrays(block), arrays_bytes(block)) &&
                checksum == XXH3_64bits(arrays(block), arrays_bytes(block));
    close(fd);
    log_debug("data set: %s %s", good ? "unpacked copy from" : "no use for", cache->path);
    return good;
}

static void make_folders(const char *folder) {
    char path[DATASET_PATH_BYTES];
    for (size_t i = 1; folder[i - 1]; i++)
        if (folder[i] == '/' || folder[i] == '\0') {
            memcpy(path, folder, i);
            path[i] = '\0';
            mkdir(path, 0700); // if it cannot be made, opening in it will tell
        }
}

void unpacked_cache_store(const UnpackedCache *cache, const DatasetBlock *block) {
    char unnamed[64];
    if (!cache->usable) return;
    const uint64_t checksum = XXH3_64bits(arrays(block), arrays_bytes(block));
    make_folders(cache->folder);
    // The file has no name until it is whole, so that nothing is left of a process that dies here. There is no need to
    // sync it: the checksum tells a copy that a power failure has torn.
    int fd = open(cache->folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    bool good = fd >= 0 && write_all(fd, cache->key, sizeof cache->key) && write_all(fd, &checksum, sizeof checksum) &&
                write_all(fd, arrays(block), arrays_bytes(block));
    if (good) {
        snprintf(unnamed, sizeof unnamed, "/proc/self/fd/%d", fd);
        unlink(cache->path); // an older copy; linkat does not replace
        good = linkat(AT_FDCWD, unnamed, AT_FDCWD, cache->path, AT_SYMLINK_FOLLOW) == 0;
    }
    if (!good) log_debug("data set: no unpacked copy is kept in %s: %s", cache->path, strerror(errno));
    if (fd >= 0) close(fd);
}

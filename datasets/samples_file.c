#include "datasets/samples_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <isa-l/crc.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "datasets/formats/npy.h"

// Cut-off files ------------------------------------------------------------------------------------------------------

enum { MOST_MAPPINGS = 16 };

// A global table, because a signal handler gets no argument for it. bytes 0: the entry is free; 1: it is being filled.
static struct {
    _Atomic uintptr_t begin;
    _Atomic size_t bytes;
    _Atomic int fd;
    _Atomic uint64_t end; // of the samples in the file
} mappings[MOST_MAPPINGS];

// The handler of SIGBUS: replaces the mapping that contains the address by zeros if its file has become shorter. It
// only makes system calls and reads lock-free atomics, because it may interrupt any code. For any other cause the
// default action follows.
static void replace_by_zeros(int number, siginfo_t *info, void *context) {
    (void)context;
    const int before = errno;
    const uintptr_t at = (uintptr_t)info->si_addr;
    for (int i = 0; i < MOST_MAPPINGS; i++) {
        // Acquire, pairs with the release in note_mapping.
        const size_t bytes = atomic_load_explicit(&mappings[i].bytes, memory_order_acquire);
        const uintptr_t begin = atomic_load_explicit(&mappings[i].begin, memory_order_relaxed);
        if (bytes <= 1 || at < begin || at - begin >= bytes) continue;
        struct stat about; // a file that is as long as before cannot be read: zeros would hide that
        if (fstat(atomic_load_explicit(&mappings[i].fd, memory_order_relaxed), &about) != 0 ||
            (uint64_t)about.st_size >= atomic_load_explicit(&mappings[i].end, memory_order_relaxed))
            break;
        // NOLINTNEXTLINE(performance-no-int-to-ptr): an address that mmap gave
        if (mmap((void *)begin, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) !=
            MAP_FAILED) {
            errno = before;
            return;
        }
    }
    sigaction(number, &(struct sigaction){.sa_handler = SIG_DFL}, NULL); // not in one of these mappings: it recurs,
    if (info->si_code <= 0) raise(number);                               // or was sent by kill
}

static void note_mapping(const SamplesFile *file, uint64_t end) {
    struct sigaction action = {.sa_sigaction = replace_by_zeros, .sa_flags = SA_SIGINFO};
    for (int i = 0; i < MOST_MAPPINGS; i++) {
        size_t free = 0;
        if (!atomic_compare_exchange_strong_explicit(&mappings[i].bytes, &free, 1, memory_order_relaxed,
                                                     memory_order_relaxed))
            continue;
        atomic_store_explicit(&mappings[i].begin, (uintptr_t)file->mapping, memory_order_relaxed);
        atomic_store_explicit(&mappings[i].fd, file->fd, memory_order_relaxed);
        atomic_store_explicit(&mappings[i].end, end, memory_order_relaxed);
        // Release, pairs with the acquire in replace_by_zeros: a handler that sees the size also sees the other fields.
        atomic_store_explicit(&mappings[i].bytes, file->mapping_bytes, memory_order_release);
        break;
    }
    sigaction(SIGBUS, &action, NULL);
}

static void forget_mapping(const SamplesFile *file) {
    for (int i = 0; i < MOST_MAPPINGS; i++)
        if (atomic_load_explicit(&mappings[i].begin, memory_order_relaxed) == (uintptr_t)file->mapping) {
            atomic_store_explicit(&mappings[i].begin, 0, memory_order_relaxed);
            atomic_store_explicit(&mappings[i].bytes, 0, memory_order_relaxed);
        }
}

// Opening ------------------------------------------------------------------------------------------------------------

Status samples_file_state(DatasetFileState *state, int fd, const char *path, Error *err) {
    struct stat about;
    if (fstat(fd, &about) != 0) return fail_errno(err, STATUS_IO, "%s", path);
    *state = (DatasetFileState){.file = (uint64_t)about.st_ino,
                                .bytes = (uint64_t)about.st_size,
                                .changed_seconds = about.st_mtim.tv_sec,
                                .changed_nanoseconds = about.st_mtim.tv_nsec};
    return STATUS_OK;
}

Status samples_file_map(SamplesFile *file, int fd, uint64_t begin, size_t bytes, Error *err) {
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), skipped = begin % page;
    fcntl(fd, F_SETFD, FD_CLOEXEC); // inheriting the descriptor needed the flag cleared
    void *mapping = mmap(NULL, skipped + bytes, PROT_READ, MAP_SHARED, fd, (off_t)(begin - skipped));
    if (mapping == MAP_FAILED) {
        Status status = fail_errno(err, STATUS_OS,
                                   "cannot map %zu bytes of samples from byte %" PRIu64
                                   " on; a copy of the file on another file system may serve",
                                   bytes, begin);
        close(fd);
        return status;
    }
    file->fd = fd;
    file->mapping = mapping;
    file->mapping_bytes = skipped + bytes;
    file->samples = (const uint8_t *)mapping + skipped;
    note_mapping(file, begin + bytes);
    return STATUS_OK;
}

// Sentences about a changed file: before its samples are used, and while they are used.
static const char changed_early[] = ": changed while the data set was being read; start again when nobody writes to it";
static const char changed_late[] = " was written to, or its time changed, while its samples were read where they lie; "
                                   "start again, a run with --resume if the file is what it was";

static Status check_state(const SamplesFile *file, int fd, const char *sentence, Error *err) {
    DatasetFileState state;
    TRY(samples_file_state(&state, fd, file->said, err));
    if (memcmp(&state, &file->state, sizeof state) == 0) return STATUS_OK;
    return fail(err, STATUS_DATA, "%s%s", file->said, sentence);
}

// Sets the names for sentences; a member of an archive is called as by the reader of arrays.
static void set_names(SamplesFile *file, char path[DATASET_PATH_BYTES], const DatasetSource *source,
                      const DatasetSamples *at) {
    const int stem = (int)strcspn(at->name, ".");
    snprintf(path, DATASET_PATH_BYTES, at->is_member ? "%.4000s" : "%.4000s/%s", source->folder, at->name);
    if (at->is_member)
        snprintf(file->said, sizeof file->said, "%.4000s: %.*s", source->folder, stem, at->name);
    else
        memcpy(file->said, path, sizeof file->said);
}

Status samples_file_open(SamplesFile *file, const DatasetSource *source, DatasetSplitKind split, Error *err) {
    const DatasetSamples *at = &source->samples[split];
    char path[DATASET_PATH_BYTES];
    *file = NO_SAMPLES_FILE;
    file->state = at->state;
    set_names(file, path, source, at);
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return fail_errno(err, STATUS_NOINPUT, "%s", path);
    // No page may be read before the file is known to have its length.
    const Status status = check_state(file, fd, changed_early, err);
    if (status == STATUS_OK) return samples_file_map(file, fd, at->begin, at->bytes, err);
    close(fd);
    return status;
}

static Status verify_checksum(const SamplesFile *file, const DatasetSamples *at, Error *err) {
    uint8_t head[DATASET_MOST_HEAD_BYTES];
    if (!at->is_member) return STATUS_OK;
    if (pread(file->fd, head, at->head_bytes, (off_t)(at->begin - at->head_bytes)) != (ssize_t)at->head_bytes)
        return fail(err, STATUS_DATA, "%s: truncated while it was read", file->said);
    const uint32_t checksum = crc32_gzip_refl(crc32_gzip_refl(0, head, at->head_bytes), file->samples, at->bytes);
    if (checksum == at->checksum) return STATUS_OK;
    return fail(err, STATUS_DATA, "%s: corrupt: checksum %08" PRIx32 ", and the archive says %08" PRIx32, file->said,
                checksum, at->checksum);
}

Status samples_file_verify(const SamplesFile *file, const DatasetSource *source, DatasetSplitKind split, Error *err) {
    const DatasetSamples *at = &source->samples[split];
    Error found;
    Status status = verify_checksum(file, at, &found);
    const uint64_t numbers = source->items.pixel_bytes > 1 ? at->bytes / sizeof(float) : 0;
    for (uint64_t i = 0; i < numbers && status == STATUS_OK; i++) {
        const float value = dataset_number(file->samples, i);
        if (!isfinite(value)) status = npy_not_finite(file->said, i, shape_size(source->shape), value, &found);
    }
    TRY(check_state(file, file->fd, changed_early, err)); // a change explains any other finding
    return status == STATUS_OK ? status : fail(err, status, "%s", found.message);
}

Status samples_file_check(const SamplesFile *file, Error *err) {
    if (file->fd < 0) return STATUS_OK;
    return check_state(file, file->fd, changed_late, err);
}

void samples_file_free(SamplesFile *file) {
    if (file->fd < 0) return;
    forget_mapping(file);
    munmap(file->mapping, file->mapping_bytes);
    close(file->fd);
    *file = NO_SAMPLES_FILE;
}

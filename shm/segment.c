#include "shm/segment.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/file.h"
#include "base/log.h"

static const char shared_memory_folder[] = "/dev/shm";

enum { SEGMENT_VERSION = 1, PAYLOAD_OFFSET = 64 };
static const char segment_magic[8] = "SOUNDER";

typedef struct SegmentHeader {
    char magic[8];
    uint32_t version;
    _Atomic uint32_t ready; // 1: the payload is complete
    uint64_t bytes;         // of the payload
} SegmentHeader;

_Static_assert(offsetof(SegmentHeader, version) == 8, "layout of version 1");
_Static_assert(offsetof(SegmentHeader, ready) == 12, "layout of version 1");
_Static_assert(offsetof(SegmentHeader, bytes) == 16, "layout of version 1");
_Static_assert(sizeof(SegmentHeader) <= PAYLOAD_OFFSET, "the header must fit before the payload");

static uint64_t available_on_machine(void) {
    uint64_t kibibytes;
    return file_number(&kibibytes, "/proc/meminfo", "MemAvailable:", 10) ? kibibytes * 1024 : UINT64_MAX;
}

// In a container /proc/meminfo shows the host's memory, so the control group's limit counts, too.
uint64_t segment_available(void) {
    const uint64_t machine = available_on_machine(), group = cgroup_memory_left(CGROUP_MEMBERSHIP, CGROUP_ROOT);
    return group < machine ? group : machine;
}

static uint64_t free_in_shared_memory_folder(void) {
    struct statvfs space;
    return statvfs(shared_memory_folder, &space) == 0 ? (uint64_t)space.f_bavail * space.f_frsize : 0;
}

// Reserves every page now: a later page fault on a full file system would be a SIGBUS. Returns -1 with errno on
// failure.
static int allocate_or_close(int fd, size_t bytes) {
    assert(bytes > 0);
    if (fd < 0) return -1;
    int error;
    do {
        error = posix_fallocate(fd, 0, (off_t)bytes);
    } while (error == EINTR);
    if (error == 0) return fd;
    close(fd);
    errno = error;
    return -1;
}

// Returns a descriptor of `bytes` zeroed bytes without a name. O_TMPFILE is used instead of shm_open and shm_unlink,
// between which a SIGKILL would leave the name.
static Status nameless_memory(int *fd, const char *name, size_t bytes, Error *err) {
    uint64_t available = segment_available();
    if (bytes > available) // filling the machine would end in the out-of-memory killer, not in an error
        return fail(err, STATUS_OS,
                    "segment %s needs %zu bytes of shared memory, where %lu are available; take fewer workers, a "
                    "smaller model or less data",
                    name, bytes, available);
    *fd = allocate_or_close(open(shared_memory_folder, O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600), bytes);
    if (*fd >= 0) return STATUS_OK;

    int error = errno;
    uint64_t room = free_in_shared_memory_folder();
    *fd = allocate_or_close(memfd_create(name, MFD_CLOEXEC), bytes);
    if (*fd < 0 && errno == EMFILE) return fail_errno(err, STATUS_OS, "segment %s needs a file descriptor", name);
    if (*fd < 0)
        return fail_errno(err, STATUS_OS,
                          "segment %s needs %zu bytes of shared memory, but %s with %lu bytes free refuses them (%s), "
                          "and so does memfd_create",
                          name, bytes, shared_memory_folder, room, strerror(error));
    log_warning_once("segment %s: %s has %lu bytes free, needs %zu (%s); memfd_create serves as well", name,
                     shared_memory_folder, room, bytes, strerror(error));
    return STATUS_OK;
}

// Maps the descriptor and fills in the segment. Takes ownership of the descriptor, also on failure.
static Status map_descriptor(Segment *segment, int fd, size_t mapping_bytes, size_t payload_offset,
                             SegmentAccess access, int more_flags, Error *err) {
    int protection = access == SEGMENT_READ ? PROT_READ : PROT_READ | PROT_WRITE;
    char *mapping = mmap(NULL, mapping_bytes, protection, MAP_SHARED | more_flags, fd, 0);
    if (mapping == MAP_FAILED) {
        Status status = fail_errno(err, STATUS_OS, "cannot map %zu bytes of shared memory for %s", mapping_bytes,
                                   access == SEGMENT_READ ? "reading" : "writing");
        close(fd);
        return status;
    }
    *segment = (Segment){.fd = fd,
                         .memory = mapping + payload_offset,
                         .bytes = mapping_bytes - payload_offset,
                         .mapping = mapping,
                         .mapping_bytes = mapping_bytes};
    assert(segment->bytes > 0 && (uintptr_t)segment->memory % 64 == 0);
    assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    return STATUS_OK;
}

static Status create(Segment *segment, const char *name, size_t bytes, size_t payload_offset, Error *err) {
    *segment = (Segment){.fd = -1};
    if (bytes == 0 || bytes > (size_t)INT64_MAX - payload_offset)
        return fail(err, STATUS_OS, "segment %s cannot have a size of %zu bytes", name, bytes);
    int fd;
    TRY(nameless_memory(&fd, name, bytes + payload_offset, err));
    // The creator is about to fill all of it: populating it at once avoids a page fault per 4 KiB.
    return map_descriptor(segment, fd, bytes + payload_offset, payload_offset, SEGMENT_READ_WRITE, MAP_POPULATE, err);
}

Status segment_create(Segment *segment, const char *name, size_t bytes, Error *err) {
    TRY(create(segment, name, bytes, PAYLOAD_OFFSET, err));
    SegmentHeader *header = segment->mapping;
    memcpy(header->magic, segment_magic, sizeof header->magic);
    header->version = SEGMENT_VERSION;
    header->bytes = bytes;
    return STATUS_OK;
}

Status segment_create_raw(Segment *segment, const char *name, size_t bytes, Error *err) {
    return create(segment, name, bytes, 0, err);
}

void segment_publish(Segment *segment) {
    assert(segment->mapping && segment->memory != segment->mapping); // raw segments have no header
    SegmentHeader *header = segment->mapping;
    assert(memcmp(header->magic, segment_magic, sizeof header->magic) == 0 && header->bytes == segment->bytes);
    assert(atomic_load_explicit(&header->ready, memory_order_relaxed) == 0); // complete means that it does not change
    atomic_store_explicit(&header->ready, 1, memory_order_release);          // pairs with the load in check_header
}

static Status check_header(const Segment *segment, Error *err) {
    const SegmentHeader *header = segment->mapping;
    if (memcmp(header->magic, segment_magic, sizeof header->magic) != 0)
        return fail(err, STATUS_DATA, "descriptor %d is not a segment: its magic number is wrong", segment->fd);
    if (header->version != SEGMENT_VERSION)
        return fail(err, STATUS_DATA, "descriptor %d is a segment of version %u; this program reads version %d",
                    segment->fd, header->version, SEGMENT_VERSION);
    if (header->bytes != segment->bytes)
        return fail(err, STATUS_DATA, "descriptor %d is a segment of %zu bytes, but its header says %lu", segment->fd,
                    segment->bytes, header->bytes);
    // Acquire, pairs with the store in segment_publish: the payload read after this is the published one.
    if (atomic_load_explicit(&header->ready, memory_order_acquire) != 1)
        return fail(err, STATUS_DATA, "descriptor %d is a segment that its creator has not published yet", segment->fd);
    return STATUS_OK;
}

// Maps the whole file of an inherited descriptor; its first payload_offset bytes are the header.
static Status map_inherited(Segment *segment, int fd, size_t payload_offset, SegmentAccess access, Error *err) {
    *segment = (Segment){.fd = -1};
    struct stat file;
    if (fstat(fd, &file) != 0) return fail_errno(err, STATUS_OS, "descriptor %d is not open", fd);
    if (!S_ISREG(file.st_mode) || file.st_size <= (off_t)payload_offset) {
        Status status = fail(err, STATUS_DATA, "descriptor %d is no shared memory: %lld bytes, more than %zu expected",
                             fd, (long long)file.st_size, payload_offset);
        close(fd);
        return status;
    }
    fcntl(fd, F_SETFD, FD_CLOEXEC); // inheriting the descriptor needed the flag cleared
    return map_descriptor(segment, fd, (size_t)file.st_size, payload_offset, access, 0, err);
}

Status segment_map(Segment *segment, int fd, SegmentAccess access, Error *err) {
    TRY(map_inherited(segment, fd, PAYLOAD_OFFSET, access, err));
    Status status = check_header(segment, err);
    if (status != STATUS_OK) segment_free(segment);
    return status;
}

Status segment_map_raw(Segment *segment, int fd, SegmentAccess access, Error *err) {
    return map_inherited(segment, fd, 0, access, err);
}

Status segment_reopen_readonly(int *fd, const Segment *segment, Error *err) {
    assert(segment->mapping && segment->fd >= 0);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", segment->fd);
    int readonly = open(path, O_RDONLY | O_CLOEXEC);
    if (readonly < 0)
        return fail_errno(err, STATUS_OS, "cannot open shared memory again for reading through %s%s", path,
                          errno == ENOENT ? " (is /proc mounted?)" : "");
    void *writable = mmap(NULL, 1, PROT_READ | PROT_WRITE, MAP_SHARED, readonly, 0);
    if (writable != MAP_FAILED) {
        munmap(writable, 1);
        close(readonly);
        return fail(err, STATUS_OS, "shared memory opened for reading through %s can be written", path);
    }
    *fd = readonly;
    return STATUS_OK;
}

void segment_free(Segment *segment) {
    if (!segment->mapping) return;
    assert(segment->fd >= 0 && segment->mapping_bytes >= segment->bytes);
    munmap(segment->mapping, segment->mapping_bytes);
    close(segment->fd);
    *segment = (Segment){.fd = -1};
}

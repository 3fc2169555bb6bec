// One piece of shared memory: created by the parent, inherited by the workers as a file descriptor, without a name.
//
//   parent:  TRY(segment_create(&weights, "weights", bytes, err));
//            ... weights.memory (bytes, 64-byte aligned, zeroed), read and write; segment_publish when it is filled
//            TRY(segment_reopen_readonly(&fd, &weights, err));   // for workers that may not write
//   worker:  TRY(segment_map(&weights, fd, SEGMENT_READ, err)); ...
//   both:    segment_free(&weights);
//
// A segment is created in /dev/shm with O_TMPFILE, mode 0600, and never has a name (shm_open and shm_unlink would need
// two steps, and a SIGKILL between them would leave the name): no death at any time can leave anything in /dev/shm. All
// pages are allocated at once (posix_fallocate), so a full /dev/shm is an error here and never a SIGBUS later. If
// /dev/shm is missing or too small (Docker gives 64 MB), memfd_create is used instead, which the log says once per
// process; a size above the machine's available memory or a control group's limit is refused before. The first 64 bytes
// are a header (magic, version, size, ready), which segment_map checks before anything else is read; the payload
// follows.
#ifndef SOUNDER_SHM_SEGMENT_H
#define SOUNDER_SHM_SEGMENT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

typedef enum SegmentAccess { SEGMENT_READ, SEGMENT_READ_WRITE } SegmentAccess;

typedef struct Segment {
    int fd;        // owned; close-on-exec
    void *memory;  // owned mapping; the payload, 64-byte aligned
    size_t bytes;  // of the payload
    void *mapping; // the whole mapping, header included
    size_t mapping_bytes;
} Segment;

// Fails with OS, the name, the bytes needed and the limit. Nothing to free on failure.
Status segment_create(Segment *segment, const char *name, size_t bytes, Error *err);

// Creates a file that consists of the payload alone (the safetensors segment): no header, memory == mapping
// (page-aligned), and exactly `bytes` long for a program that opens /proc/PID/fd/N.
Status segment_create_raw(Segment *segment, const char *name, size_t bytes, Error *err);

// Declares the payload complete (release). segment_map in another process does not wait: it refuses a segment that is
// not ready (acquire). Not for raw segments, which have no header.
void segment_publish(Segment *segment);

// Map an inherited descriptor and take ownership of it (on failure it is closed). Fail with DATA if the header is not
// that of a ready segment (a raw segment: if the file is empty), OS if it cannot be mapped, for example a read-only
// descriptor for writing.
Status segment_map(Segment *segment, int fd, SegmentAccess access, Error *err);
Status segment_map_raw(Segment *segment, int fd, SegmentAccess access, Error *err);

// Returns in *fd a new descriptor of the same memory (owned by the caller, close-on-exec) through which the memory
// cannot be written: it is opened O_RDONLY via /proc/self/fd, and the call verifies that a writable mapping of it is
// refused.
Status segment_reopen_readonly(int *fd, const Segment *segment, Error *err);

// Bytes of memory that this process can still fill: the machine's memory that is available without swapping, or less
// under the limit of a control group (base/cgroup.h); UINT64_MAX or close to it if the kernel does not report it.
uint64_t segment_available(void);

// Does nothing for a zeroed, failed or already freed segment.
void segment_free(Segment *segment);

#endif

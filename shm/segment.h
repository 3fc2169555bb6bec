// One piece of shared memory: created by the parent, inherited by the workers as a file descriptor, named nowhere.
//
//   parent:  TRY(segment_create(&weights, "weights", bytes, err));
//            ... weights.memory (bytes, 64-byte aligned, zeroed), read and write; segment_publish when it is filled
//            TRY(segment_reopen_readonly(&fd, &weights, err)); // what a worker that may not write inherits
//   worker:  TRY(segment_map(&weights, fd, SEGMENT_READ, err)); ...
//   both:    segment_free(&weights);
//
// Created in /dev/shm with O_TMPFILE, mode 0600, that is without ever having a name (what shm_open and shm_unlink do in
// two steps, with a moment in between when a SIGKILL would leave the name): nothing can be left in /dev/shm whatever
// dies when. Pages are allocated at once (posix_fallocate), so a full /dev/shm is an error here and never a SIGBUS
// later. If /dev/shm is missing or too small (Docker gives 64 MB), memfd_create serves instead, which the log says once
// per process; more than the machine or a control group's limit leaves is refused beforehand. The first 64 bytes are a
// header (magic, version, size, ready) that segment_map checks before anything else is read; the payload follows it.
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

// OS with the name, the bytes needed and the limit met. Leaves nothing to free on failure.
Status segment_create(Segment *segment, const char *name, size_t bytes, Error *err);

// A file that is nothing but its payload (the safetensors segment): no header, memory == mapping (page-aligned), and
// exactly `bytes` long for whoever opens /proc/PID/fd/N.
Status segment_create_raw(Segment *segment, const char *name, size_t bytes, Error *err);

// The creator declares the payload complete (release); segment_map of another process waits for nothing and refuses a
// segment that is not ready (acquire). Not for a raw segment, which has no header to say it in.
void segment_publish(Segment *segment);

// Maps an inherited descriptor and takes it over (on failure it is closed). DATA when the header is not that of a ready
// segment, OS when it cannot be mapped, for example a read-only descriptor for writing.
Status segment_map(Segment *segment, int fd, SegmentAccess access, Error *err);
Status segment_map_raw(Segment *segment, int fd, SegmentAccess access, Error *err);

// A new descriptor (owned by the caller, close-on-exec) of the same memory through which nobody can write: opened
// O_RDONLY via /proc/self/fd, and it is tried out that a writable mapping of it is refused.
Status segment_reopen_readonly(int *fd, const Segment *segment, Error *err);

// Bytes of memory that this process can still fill: what the machine has without swapping, or less under the limit of a
// control group (base/cgroup.h); practically unlimited where the kernel does not tell.
uint64_t segment_available(void);

// Does nothing for a segment that is zeroed, failed or already freed.
void segment_free(Segment *segment);

#endif

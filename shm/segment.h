// One piece of shared memory: created by the parent, inherited by the workers as a file descriptor, named nowhere.
//
//   parent:  TRY(segment_create(&weights, "weights", bytes, err));
//            ... weights.memory (bytes, page-aligned, zeroed), read and write
//            int fd = segment_reopen_readonly(&weights, err)   // what a worker that may not write inherits
//   worker:  TRY(segment_map(&weights, fd, SEGMENT_READ, err)); ...
//   both:    segment_free(&weights);
//
// Created with shm_open(O_CREAT|O_EXCL, 0600) under a random name that is unlinked at once, so nothing can be left in
// /dev/shm whatever dies when; pages are allocated at once (posix_fallocate), so a full /dev/shm is an error here and
// never a SIGBUS later. If /dev/shm is missing or too small (Docker gives 64 MB), memfd_create serves instead, which the
// log says once per segment. The first 64 bytes are a header (magic, version, size, ready) that segment_map checks
// before anything else is read; the payload follows it.
#ifndef SOUNDER_SHM_SEGMENT_H
#define SOUNDER_SHM_SEGMENT_H

#include <stddef.h>

#include "base/err.h"

typedef enum SegmentAccess { SEGMENT_READ, SEGMENT_READ_WRITE } SegmentAccess;

typedef struct Segment {
    int fd;             // owned; close-on-exec
    void *memory;       // owned mapping; the payload, 64-byte aligned
    size_t bytes;       // of the payload
    void *mapping;      // the whole mapping, header included
    size_t mapping_bytes;
} Segment;

// OS with the name, the bytes needed and the limit met. Leaves nothing to free on failure.
Status segment_create(Segment *segment, const char *name, size_t bytes, Error *err);

// A file that is nothing but its payload (the safetensors segment): no header, memory == mapping.
Status segment_create_raw(Segment *segment, const char *name, size_t bytes, Error *err);

// The creator declares the payload complete (release); segment_map of another process waits for nothing and refuses a
// segment that is not ready (acquire).
void segment_publish(Segment *segment);

// Maps an inherited descriptor and takes it over. DATA when the header is not that of a ready segment.
Status segment_map(Segment *segment, int fd, SegmentAccess access, Error *err);
Status segment_map_raw(Segment *segment, int fd, SegmentAccess access, Error *err);

// A new descriptor of the same memory through which nobody can write (opened O_RDONLY via /proc/self/fd).
Status segment_reopen_readonly(int *fd, const Segment *segment, Error *err);

void segment_free(Segment *segment);

#endif

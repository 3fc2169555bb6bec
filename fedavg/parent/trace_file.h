// The file of --trace: the spans of all processes in Chrome's trace format, for chrome://tracing, Perfetto and the
// like.
//
//   TRY(trace_file_open(&file, path, &memory, &nodes, err));    // path "": no trace, and all that follows does nothing
//   TRY(trace_file_drain(&file, &memory, &nodes, err));         // while all workers wait
//   TRY(trace_file_close(&file, err));
//
// A JSON array of complete events ("ph": "X"), in microseconds since the run began; a node is a process, its parent
// thread 0, its worker of rank r thread r + 1. Node 0 writes the file, the others send it their spans. Clocks of
// different machines are set by a meeting at the start, which takes about as long as a message. A run that is killed
// leaves an array without its end, which the viewers accept.
#ifndef SOUNDER_FEDAVG_PARENT_TRACE_FILE_H
#define SOUNDER_FEDAVG_PARENT_TRACE_FILE_H

#include <stdio.h>

#include "base/err.h"
#include "fedavg/memory/run_memory.h"
#include "fedavg/memory/trace.h"
#include "fedavg/nodes/nodes.h"

typedef struct TraceFile {
    FILE *stream; // owned; NULL where nothing is written
    const char *path;
    uint64_t origin_nanoseconds;
    uint64_t dropped; // spans of this node that found no room
} TraceFile;

// path is borrowed. CANTCREATE when it cannot be written. Nothing to free on failure.
Status trace_file_open(TraceFile *file, const char *path, const RunMemory *memory, Nodes *nodes, Error *err);

// Takes the spans out of the buffers and writes them. All nodes together.
Status trace_file_drain(TraceFile *file, const RunMemory *memory, Nodes *nodes, Error *err);

// Ends the array. IO when the file could not be written to its end.
Status trace_file_close(TraceFile *file, Error *err);

#endif

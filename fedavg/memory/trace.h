// What happened when, for --trace: spans of time, each written by the process it happened in.
//
//   worker:  TraceBuffer *trace = run_memory_trace(memory, rank);       // NULL unless the run is traced
//            uint64_t begin = trace_begin(trace);
//            ...
//            trace_end(trace, TRACE_CLIENT, begin, round, client);
//   parent:  the same with rank == workers; trace_file.h writes them all, between rounds
//
// A buffer is a ring with one writer and one reader, who need not wait for each other: a span costs two readings of the
// clock and 32 bytes, without a trace one comparison. What does not fit is counted and dropped. A span that ends inside
// another of the same writer began inside it too: spans nest.
#ifndef SOUNDER_FEDAVG_MEMORY_TRACE_H
#define SOUNDER_FEDAVG_MEMORY_TRACE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"

// kind, name in the trace, what `number` counts if that is not the round
#define TRACE_LIST(X)                                                                                                  \
    X(ROUND, "round", NULL)                                                                                            \
    X(TRAIN, "train", NULL)                                                                                            \
    X(EVALUATE, "evaluate", NULL)                                                                                      \
    X(AVERAGE, "average", NULL)                                                                                        \
    X(CHECKPOINT, "checkpoint", NULL)                                                                                  \
    X(CLIENT, "client", "client")                                                                                      \
    X(CHUNK, "test", "first_sample")                                                                                   \
    X(BARRIER, "barrier", NULL)                                                                                        \
    X(GRADIENT, "gradient", "step")                                                                                    \
    X(SUM, "sum bucket", "bucket")                                                                                     \
    X(STEP, "step bucket", "bucket")                                                                                   \
    X(WAIT, "wait", "step")                                                                                            \
    X(EXCHANGE, "exchange bucket", "bucket")

typedef enum TraceKind {
#define X(kind, name, counts) TRACE_##kind,
    TRACE_LIST(X)
#undef X
} TraceKind;

typedef struct TraceSpan {
    uint64_t begin_nanoseconds, end_nanoseconds; // CLOCK_MONOTONIC
    uint32_t kind;                               // TraceKind
    uint32_t round, number;
    uint32_t rank; // filled in by the reader
} TraceSpan;

// In shared memory.
typedef struct TraceBuffer {
    _Alignas(64) _Atomic uint64_t written; // spans so far; one is complete before it is counted
    _Atomic uint32_t dropped;
    uint32_t capacity;
    _Alignas(64) _Atomic uint64_t taken; // by the parent
    _Alignas(64) TraceSpan spans[];      // (capacity): a ring
} TraceBuffer;

static inline size_t trace_buffer_bytes(uint32_t capacity) {
    return sizeof(TraceBuffer) + ((size_t)capacity * sizeof(TraceSpan) + 63) / 64 * 64;
}

static inline uint64_t trace_begin(const TraceBuffer *trace) {
    return trace ? clock_nanoseconds() : 0;
}

// Records what began at begin_nanoseconds and ends now.
static inline void trace_end(TraceBuffer *trace, TraceKind kind, uint64_t begin_nanoseconds, uint32_t round,
                             uint32_t number) {
    if (!trace) return;
    const uint64_t written =
        atomic_load_explicit(&trace->written, memory_order_relaxed); // this process alone writes it
    // Acquire, pairs with trace_take: what is written over has been read.
    if (written - atomic_load_explicit(&trace->taken, memory_order_acquire) == trace->capacity) {
        atomic_fetch_add_explicit(&trace->dropped, 1, memory_order_relaxed);
        return;
    }
    trace->spans[written % trace->capacity] = (TraceSpan){.begin_nanoseconds = begin_nanoseconds,
                                                          .end_nanoseconds = clock_nanoseconds(),
                                                          .kind = kind,
                                                          .round = round,
                                                          .number = number};
    // Release, pairs with trace_ready: a writer that is killed here leaves no half of a span.
    atomic_store_explicit(&trace->written, written + 1, memory_order_release);
}

// The parent, also while the writer writes: so many spans wait, span i of them, and the first `count` are done with.
static inline size_t trace_ready(const TraceBuffer *trace) {
    return (size_t)(atomic_load_explicit(&trace->written, memory_order_acquire) - // pairs with trace_end
                    atomic_load_explicit(&trace->taken, memory_order_relaxed));
}

static inline const TraceSpan *trace_next(const TraceBuffer *trace, size_t i) {
    return &trace->spans[(atomic_load_explicit(&trace->taken, memory_order_relaxed) + i) % trace->capacity];
}

static inline void trace_take(TraceBuffer *trace, size_t count) {
    atomic_fetch_add_explicit(&trace->taken, count, memory_order_release); // pairs with trace_end
}

#endif

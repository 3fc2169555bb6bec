// Spans of time for --trace, each recorded by the process it happened in.
//
//   worker:  TraceBuffer *trace = run_memory_trace(memory, rank);       // NULL unless the run is traced
//            uint64_t begin = trace_begin(trace);
//            ...
//            trace_end(trace, TRACE_CLIENT, begin, round, client);
//   parent:  the same with rank == workers; trace_file.h writes them all, between rounds
//
// A buffer is a ring with one writer and one reader, neither of which waits for the other. A span costs two clock
// readings and 32 bytes; without a trace, one comparison. Spans that do not fit are counted and dropped. Spans of one
// writer nest: a span that ends inside another one also began inside it.
#ifndef SOUNDER_FEDAVG_MEMORY_TRACE_H
#define SOUNDER_FEDAVG_MEMORY_TRACE_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"

// Kind; name in the trace; what `number` counts, if it is not the round.
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

// In shared memory. The writer's count and the reader's are on lines of their own: neither slows the other down.
typedef struct TraceBuffer {
    _Alignas(64) _Atomic uint64_t written; // spans so far; a span is complete before it is counted
    _Atomic uint32_t dropped;
    uint32_t capacity;
    _Alignas(64) _Atomic uint64_t taken; // spans that the parent has read
    _Alignas(64) TraceSpan spans[];      // (capacity): a ring
} TraceBuffer;

// Whole cache lines: buffers of two writers follow each other in the segment.
static inline size_t trace_buffer_bytes(uint32_t capacity) {
    return sizeof(TraceBuffer) + ((size_t)capacity * sizeof(TraceSpan) + 63) / 64 * 64;
}

static inline uint64_t trace_begin(const TraceBuffer *trace) {
    return trace ? clock_nanoseconds() : 0;
}

// Records a span from begin_nanoseconds to now.
static inline void trace_end(TraceBuffer *trace, TraceKind kind, uint64_t begin_nanoseconds, uint32_t round,
                             uint32_t number) {
    if (!trace) return;
    const uint64_t written =
        atomic_load_explicit(&trace->written, memory_order_relaxed); // this process alone writes it
    assert(kind <= TRACE_EXCHANGE && trace->capacity > 0);
    assert(written >=
           atomic_load_explicit(&trace->taken, memory_order_relaxed)); // a span is written before it is taken
    // Acquire, pairs with trace_take: the span that is overwritten has been read.
    if (written - atomic_load_explicit(&trace->taken, memory_order_acquire) == trace->capacity) {
        atomic_fetch_add_explicit(&trace->dropped, 1, memory_order_relaxed);
        return;
    }
    trace->spans[written % trace->capacity] = (TraceSpan){.begin_nanoseconds = begin_nanoseconds,
                                                          .end_nanoseconds = clock_nanoseconds(),
                                                          .kind = kind,
                                                          .round = round,
                                                          .number = number};
    // Release, pairs with trace_ready: if the writer is killed before it, the span is not counted.
    atomic_store_explicit(&trace->written, written + 1, memory_order_release);
}

// For the parent, also while the writer writes: the number of unread spans; span i of them; marks the first `count` as
// read.
static inline size_t trace_ready(const TraceBuffer *trace) {
    return (size_t)(atomic_load_explicit(&trace->written, memory_order_acquire) - // pairs with trace_end
                    atomic_load_explicit(&trace->taken, memory_order_relaxed));
}

static inline const TraceSpan *trace_next(const TraceBuffer *trace, size_t i) {
    assert(i < trace_ready(trace));
    return &trace->spans[(atomic_load_explicit(&trace->taken, memory_order_relaxed) + i) % trace->capacity];
}

static inline void trace_take(TraceBuffer *trace, size_t count) {
    assert(count <= trace_ready(trace));
    atomic_fetch_add_explicit(&trace->taken, count, memory_order_release); // pairs with trace_end
}

#endif

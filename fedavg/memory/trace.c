#include "trace.h"

void trace_end(TraceBuffer *trace, TraceKind kind, uint64_t begin_nanoseconds, uint32_t round, uint32_t number) {
    if (!trace) return;
    uint32_t count = atomic_load_explicit(&trace->count, memory_order_relaxed); // nobody else writes it meanwhile
    if (count == trace->capacity) {
        trace->dropped++;
        return;
    }
    trace->spans[count] = (TraceSpan){.begin_nanoseconds = begin_nanoseconds,
                                      .end_nanoseconds = clock_nanoseconds(),
                                      .kind = kind,
                                      .round = round,
                                      .number = number};
    // Release, pairs with the load in trace_file_collect: a writer that is killed here leaves no half of a span.
    atomic_store_explicit(&trace->count, count + 1, memory_order_release);
}

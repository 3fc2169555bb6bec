#include "trace_file.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"

// A new kind of span is one line in trace.h.
static const struct {
    const char *name, *counts;
} kinds[] = {
#define X(kind, name, counts) {name, counts},
    TRACE_LIST(X)
#undef X
};

// Events of type M name the tracks; without them a viewer shows numbers.
static void write_names(const TraceFile *file, const RunConfig *config, uint32_t nodes) {
    for (uint32_t node = 0; node < nodes; node++) {
        fprintf(file->stream, "%s{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%u,\"args\":{\"name\":\"node %u\"}}",
                node ? ",\n" : "[\n", node, node);
        fprintf(file->stream,
                ",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%u,\"tid\":0,\"args\":{\"name\":\"parent\"}}", node);
        for (uint32_t rank = 0; rank < config->workers; rank++)
            fprintf(
                file->stream,
                ",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%u,\"tid\":%u,\"args\":{\"name\":\"worker %u\"}}",
                node, rank + 1, rank);
    }
}

// Clocks of different machines have nothing in common. A sum over the nodes is a barrier: it ends nearly at once
// everywhere, and every node counts from there.
Status trace_file_open(TraceFile *file, const char *path, const RunMemory *memory, Nodes *nodes, Error *err) {
    *file = (TraceFile){.path = path};
    if (!path[0]) return STATUS_OK;
    TRY(nodes_sum(nodes, &(int64_t){0}, 1, err)); // everybody gets here, then all clocks begin
    file->origin_nanoseconds = clock_nanoseconds();
    if (nodes->rank > 0) return STATUS_OK;
    file->stream = fopen(path, "we");
    if (!file->stream) return fail_errno(err, STATUS_CANTCREATE, "--trace %s: cannot be written", path);
    write_names(file, memory->config, nodes->size);
    return STATUS_OK;
}

// Takes the spans of all writers. Times become those since the trace began; a span from before (a worker's wait for the
// first order) is cut there. In real time workers write while the parent reads, and it takes what is complete.
static TraceSpan *take_spans(TraceFile *file, const RunMemory *memory, size_t *count) {
    const RunConfig *config = memory->config;
    size_t taken[MAX_WORKERS + 1];
    *count = 0;
    for (uint32_t rank = 0; rank <= config->workers; rank++)
        *count += taken[rank] = trace_ready(run_memory_trace(memory, rank));
    TraceSpan *spans = malloc((*count + 1) * sizeof *spans), *next = spans;
    for (uint32_t rank = 0; rank <= config->workers && spans; rank++) {
        TraceBuffer *buffer = run_memory_trace(memory, rank);
        for (size_t i = 0; i < taken[rank]; i++, next++) {
            *next = *trace_next(buffer, i);
            next->rank = rank;
            uint64_t origin = file->origin_nanoseconds;
            next->begin_nanoseconds = next->begin_nanoseconds > origin ? next->begin_nanoseconds - origin : 0;
            next->end_nanoseconds = next->end_nanoseconds > origin ? next->end_nanoseconds - origin : 0;
        }
        file->dropped += atomic_exchange_explicit(&buffer->dropped, 0, memory_order_relaxed);
        trace_take(buffer, taken[rank]);
    }
    return spans;
}

// A worker's track number is its rank + 1. The parent, whose rank follows the workers', has track 0. Times are printed
// from integers, microseconds and three digits: a double would lose the nanoseconds of a long run.
static void write_span(FILE *stream, const TraceSpan *span, uint32_t node, uint32_t workers) {
    uint64_t begin = span->begin_nanoseconds, duration = span->end_nanoseconds - begin;
    bool is_parent = span->rank == workers;
    const char *name = kinds[span->kind].name, *counts = kinds[span->kind].counts;
    fprintf(stream,
            ",\n{\"name\":\"%s %u\",\"cat\":\"%s\",\"ph\":\"X\",\"ts\":%llu.%03llu,\"dur\":%llu.%03llu,\"pid\":%u,"
            "\"tid\":%u,\"args\":{\"round\":%u",
            name, span->number, name, (unsigned long long)begin / 1000, (unsigned long long)begin % 1000,
            (unsigned long long)duration / 1000, (unsigned long long)duration % 1000, node,
            is_parent ? 0 : span->rank + 1, span->round);
    if (counts) fprintf(stream, ",\"%s\":%u", counts, span->number);
    if (!is_parent) fprintf(stream, ",\"rank\":%u", span->rank);
    fputs("}}", stream);
}

// All nodes take part in the gather, but only node 0 has a file. Buffers are emptied on each call, so that they need
// room only for what is traced between two calls.
Status trace_file_drain(TraceFile *file, const RunMemory *memory, Nodes *nodes, Error *err) {
    if (!file->path[0]) return STATUS_OK;
    size_t count, *counts = malloc(nodes->size * sizeof *counts);
    TraceSpan *mine = take_spans(file, memory, &count);
    void *all = NULL;
    Status status = mine && counts ? nodes_collect(nodes, &all, counts, mine, count * sizeof *mine, err)
                                   : fail(err, STATUS_OS, "no memory for a trace of %zu spans", count);
    const TraceSpan *next = all;
    for (uint32_t node = 0; node < nodes->size && status == STATUS_OK && file->stream; node++)
        for (size_t i = 0; i < counts[node] / sizeof *next; i++)
            write_span(file->stream, next++, node, memory->config->workers);
    free(all);
    free(counts);
    free(mine);
    return status;
}

// ferror remembers a failed write of any event, so that one look at the end is enough.
Status trace_file_close(TraceFile *file, Error *err) {
    if (file->dropped > 0)
        log_warning("--trace %s: %llu spans found no room and are missing", file->path,
                    (unsigned long long)file->dropped);
    if (!file->stream) return STATUS_OK;
    fputs("\n]\n", file->stream);
    bool failed = ferror(file->stream);
    if (fclose(file->stream) != 0 || failed)
        return fail_errno(err, STATUS_IO, "--trace %s: cannot be written", file->path);
    return STATUS_OK;
}

// Part of watchers.h: the file of --trace, which is opened first: if it cannot be written, the run does not begin.
#include "app/train/watchers.h"
#include "fedavg/parent/trace_file.h"

static bool wanted(const Run *run) {
    return run->options.trace[0] && !run->options.plan;
}

static Status open(Run *run, void *state, const Seen *seen, Error *err) {
    (void)seen;
    return trace_file_open(state, run->options.trace, &run->memory, &run->nodes, err);
}

static Status done(Run *run, void *state, const Seen *seen, Error *err) {
    trace_end(run->rounds.trace, TRACE_ROUND, seen->began, seen->round, seen->round);
    return trace_file_drain(state, &run->memory, &run->nodes, err);
}

static Status stop(Run *run, void *state, const Seen *seen, Error *err) {
    TraceFile *trace = state;
    (void)run;
    const Status status = trace_file_close(trace, seen->status == STATUS_OK ? err : NULL);
    *trace = (TraceFile){0};
    return status;
}

static void close_file(void *state) {
    trace_file_close(state, NULL);
}

const Watcher trace_watcher = {.bytes = sizeof(TraceFile),
                               .all_nodes = true,
                               .wanted = wanted,
                               .at = {[MOMENT_OPEN] = open, [MOMENT_DONE] = done, [MOMENT_STOP] = stop},
                               .close = close_file};

// Part of watchers.h: RUN/live, links to the memory of a running process.
#include "app/train/watchers.h"

static Status start(Run *run, void *state, const Seen *seen, Error *err) {
    (void)state, (void)seen;
    return run_folder_link_live(&run->folder, run->memory.weights_segment.fd, run->memory.control_segment.fd, err);
}

static Status stop(Run *run, void *state, const Seen *seen, Error *err) {
    (void)state, (void)seen, (void)err;
    run_folder_unlink_live(&run->folder);
    return STATUS_OK;
}

const Watcher live_watcher = {.at = {[MOMENT_START] = start, [MOMENT_STOP] = stop}};

// Part of watchers.h: TensorBoard's files (tensorboard.h), from the lines of the record.
#include "app/train/tensorboard.h"
#include "app/train/watch_record.h"
#include "app/train/watchers.h"

static bool wanted(const Run *run) {
    return run->options.tensorboard;
}

static void note_line(void *state, const json_t *line) {
    tensorboard_note(state, line);
}

static Status start(Run *run, void *state, const Seen *seen, Error *err) {
    (void)seen, (void)err;
    const Folder folder = run_folder_at(&run->folder);
    tensorboard_begin(state, &folder, &run->options, run->rounds_done);
    record_follow(run, note_line, state);
    return STATUS_OK;
}

static void close_file(void *state) {
    tensorboard_end(state);
}

const Watcher tensorboard_watcher = {
    .bytes = sizeof(Tensorboard), .wanted = wanted, .at = {[MOMENT_START] = start}, .close = close_file};

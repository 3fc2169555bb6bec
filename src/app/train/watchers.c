#include "watchers.h"

#include <assert.h>
#include <stdlib.h>

// In the order of calls: the model is written before the record says so, the record goes to the disk before a
// checkpoint, a trace has the checkpoint's span, and a line of progress tells what the record has.
static const Watcher *const watchers[WATCHERS] = {
    &energy_watcher,     &model_watcher, &best_model_watcher, &record_watcher, &tensorboard_watcher, &schedule_watcher,
    &checkpoint_watcher, &live_watcher,  &trace_watcher,      &doubts_watcher, &progress_watcher};

static bool is_wanted(const Run *run, const Watcher *watcher) {
    return (watcher->all_nodes || train_is_first(run)) && (!watcher->wanted || watcher->wanted(run));
}

Status watchers_open(Run *run, Error *err) {
    Status status = STATUS_OK;
    for (size_t i = 0; i < WATCHERS && status == STATUS_OK; i++) {
        assert(!run->watched[i]);
        if (!is_wanted(run, watchers[i])) continue;
        run->watched[i] = calloc(1, watchers[i]->bytes + 1); // some have no state
        if (!run->watched[i]) status = fail(err, STATUS_OS, "no memory");
    }
    if (status == STATUS_OK) status = watchers_tell(run, MOMENT_OPEN, &(Seen){0}, err);
    return nodes_agree(&run->nodes, status, err);
}

Status watchers_tell(Run *run, Moment moment, const Seen *seen, Error *err) {
    for (size_t i = 0; i < WATCHERS; i++)
        if (run->watched[i] && watchers[i]->at[moment]) TRY(watchers[i]->at[moment](run, run->watched[i], seen, err));
    return STATUS_OK;
}

Status watchers_stop(Run *run, Status status, Error *err) {
    for (size_t i = 0; i < WATCHERS; i++) {
        Error why;
        if (!run->watched[i] || !watchers[i]->at[MOMENT_STOP]) continue;
        const Seen seen = {.round = run->rounds_done, .status = status};
        const Status mine = watchers[i]->at[MOMENT_STOP](run, run->watched[i], &seen, status == STATUS_OK ? err : &why);
        if (status == STATUS_OK) status = mine;
    }
    return status;
}

void watchers_tick(void *context) {
    Run *run = context;
    for (size_t i = 0; i < WATCHERS; i++)
        if (run->watched[i] && watchers[i]->tick) watchers[i]->tick(run, run->watched[i]);
}

void watchers_close(Run *run) {
    for (size_t i = 0; i < WATCHERS; i++) {
        if (run->watched[i] && watchers[i]->close) watchers[i]->close(run->watched[i]);
        free(run->watched[i]);
        run->watched[i] = NULL;
    }
}

void *watcher_state(const Run *run, const Watcher *watcher) {
    size_t i = 0;
    while (watchers[i] != watcher)
        i++;
    return run->watched[i];
}

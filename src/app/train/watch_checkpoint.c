// Part of watchers.h: checkpoints, and after a GPU has failed that of the last published round.
#include "app/train/train_steps.h"
#include "app/train/watchers.h"
#include "base/log.h"
#include "base/text.h"

typedef struct Checkpoints {
    uint32_t published; // round of the model in the shared memory, which is published before the round counts as done
    uint32_t saved;     // round of the last checkpoint
} Checkpoints;

static Status start(Run *run, void *state, const Seen *seen, Error *err) {
    (void)seen, (void)err;
    *(Checkpoints *)state = (Checkpoints){.published = run->rounds_done, .saved = run->rounds_done};
    return STATUS_OK;
}

static Status trained(Run *run, void *state, const Seen *seen, Error *err) {
    (void)run, (void)err;
    ((Checkpoints *)state)->published = seen->round;
    return STATUS_OK;
}

static Status write_checkpoint(Run *run, void *state, const Seen *seen, Error *err) {
    TRY(run_checkpoint_write(&run->folder, &run->memory, &run->model.spec, &run->model.about, &run->record, seen->round,
                             err));
    ((Checkpoints *)state)->saved = seen->round;
    client_state_rows_saved(&run->rounds.client_states, seen->round);
    return STATUS_OK;
}

static Status done(Run *run, void *state, const Seen *seen, Error *err) {
    (void)state;
    const uint64_t begin = trace_begin(run->rounds.trace);
    if (!seen->is_last && !train_is_due(run->options.checkpoint_every, seen->round)) return STATUS_OK;
    TRY(watchers_tell(run, MOMENT_CHECKPOINT, seen, err));
    trace_end(run->rounds.trace, TRACE_CHECKPOINT, begin, seen->round, seen->round);
    return STATUS_OK;
}

// Saves the last published round after a GPU failed: its model is in the shared memory, which the GPU cannot damage.
static Status stop(Run *run, void *state, const Seen *seen, Error *err) {
    const Checkpoints *self = state;
    char word[SHELL_WORD_BYTES];
    if (seen->status == STATUS_OK || !run->device.on_gpu || self->published == self->saved) return STATUS_OK;
    run->rounds_done = self->published;
    if (watchers_tell(run, MOMENT_CHECKPOINT, &(Seen){.round = self->published}, err) == STATUS_OK)
        log_warning("round %u is saved; continue with: sounder train --resume %s", self->saved,
                    shell_path(word, run->folder.path));
    else
        log_warning("round %u cannot be saved: %s", self->published, err->message);
    return STATUS_OK;
}

const Watcher checkpoint_watcher = {.bytes = sizeof(Checkpoints),
                                    .at = {[MOMENT_START] = start,
                                           [MOMENT_TRAINED] = trained,
                                           [MOMENT_DONE] = done,
                                           [MOMENT_CHECKPOINT] = write_checkpoint,
                                           [MOMENT_STOP] = stop}};

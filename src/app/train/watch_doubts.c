// Part of watchers.h: warnings of a run that may not do what its user wants: a loss that is not finite, rounds in which
// no client arrives, options that no turn of the trainer reads. Each is said once.
#include <math.h>

#include "app/train/watchers.h"
#include "base/log.h"

typedef struct Doubts {
    bool warned_of_loss;
    bool checked_reads;
    bool has_trained; // some client has arrived in some round of this process
    uint32_t first;   // rounds done before
} Doubts;

static Status start(Run *run, void *state, const Seen *seen, Error *err) {
    (void)seen, (void)err;
    ((Doubts *)state)->first = run->rounds_done;
    return STATUS_OK;
}

static Status tested(Run *run, void *state, const Seen *seen, Error *err) {
    Doubts *self = state;
    // JSON has null for such a loss, and charts a gap.
    if (!self->warned_of_loss && !isfinite(seen->test->loss)) {
        self->warned_of_loss = true;
        log_warning("round %u: the loss of the test is %g: answers of the net are not finite%s; a smaller --lr (now "
                    "%g) or server step may help",
                    seen->round, seen->test->loss, run->options.trainer[0] ? ", or the trainer gives no loss" : "",
                    (double)run->options.training.sgd.lr);
    }
    if (!run->options.trainer[0] || self->checked_reads) return STATUS_OK;
    self->checked_reads = true;
    return run_check_reads(&run->options, &run->memory, err);
}

static Status round_done(Run *run, void *state, const Seen *seen, Error *err) {
    (void)seen, (void)err;
    ((Doubts *)state)->has_trained |= run->results.report.samples > 0;
    return STATUS_OK;
}

// With --noise-key system a warning would tell who was drawn.
static Status stop(Run *run, void *state, const Seen *seen, Error *err) {
    (void)err;
    const Doubts *self = state;
    const uint32_t rounds = run->rounds_done - self->first;
    if (seen->status != STATUS_OK || self->has_trained || rounds == 0 || options_hide_cohorts(&run->options) ||
        options_without_all(&run->options))
        return STATUS_OK;
    if (rounds == 1)
        log_warning("no client arrived in round %u: the model has learned nothing in it", run->rounds_done);
    else
        log_warning("no client arrived in any of the %u rounds since round %u: the model has learned nothing in them",
                    rounds, self->first);
    return STATUS_OK;
}

const Watcher doubts_watcher = {
    .bytes = sizeof(Doubts),
    .at = {[MOMENT_START] = start, [MOMENT_TESTED] = tested, [MOMENT_ROUND] = round_done, [MOMENT_STOP] = stop}};

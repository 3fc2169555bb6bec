// Part of watchers.h: schedule.csv (run_schedule.h).
#include "app/train/run_schedule.h"
#include "app/train/train_steps.h"
#include "app/train/watchers.h"

static Status start(Run *run, void *state, const Seen *seen, Error *err) {
    (void)state, (void)seen;
    const Folder folder = run_folder_at(&run->folder);
    return run->memory.schedule.count > 0 ? run_schedule_write(&folder, &run->memory.schedule, err) : STATUS_OK;
}

// On the real clock the order of arrivals is known only at the end.
static Status stop(Run *run, void *state, const Seen *seen, Error *err) {
    (void)state;
    const Folder folder = run_folder_at(&run->folder);
    if (seen->status != STATUS_OK || !train_is_in_real_time(run)) return STATUS_OK;
    return run_schedule_write(&folder, &run->rounds.clock.log, err);
}

const Watcher schedule_watcher = {.at = {[MOMENT_START] = start, [MOMENT_STOP] = stop}};

// Part of watchers.h: the run's record: config.yaml, and the lines of metrics.jsonl.
#include "app/train/watch_record.h"

#include <math.h>
#include <sys/resource.h>

#include "app/options/option_table.h"
#include "app/train/energy_meter.h"
#include "app/train/hidden_figures.h"
#include "app/train/predictions.h"
#include "app/train/process_memory.h"
#include "app/train/run_goals.h"
#include "app/train/run_metrics.h"
#include "app/train/train_steps.h"
#include "app/train/watchers.h"
#include "base/clock.h"

typedef struct Record {
    Metrics metrics;
    bool is_open;
    double cold_start_seconds; // from the process's start to the first sample of the first worker; 0: none so far
    uint64_t worker_bytes;     // worker_private_bytes while the workers lived; 0: unknown
    uint64_t trainer_bytes;    // trainer_private_bytes, then; 0: unknown
    bool forks;                // trainers were forks of one program
} Record;

void record_follow(const Run *run, void (*on_line)(void *context, const json_t *line), void *context) {
    Record *self = watcher_state(run, &record_watcher);
    self->metrics.on_line = on_line;
    self->metrics.context = context;
}

// The record of a private run keeps the clients' numbers.
static Status write_start(Run *run, Metrics *metrics, Error *err) {
    ClientNames names = {0};
    if (!options_add_noise(&run->options)) TRY(client_names_find(&names, &run->memory, &run->options, err));
    const Status status =
        run_record_write(metrics, &run->record, &run->options, &names, run->call.argc, run->call.argv, err);
    client_names_free(&names);
    return status;
}

// The workers are ready by then, so a run that cannot start leaves nothing to resume.
static Status start(Run *run, void *state, const Seen *seen, Error *err) {
    (void)seen;
    Record *self = state;
    RunKept *kept = &run->past.kept;
    const Folder folder = run_folder_at(&run->folder);
    TRY(run_config_write(&run->folder, &run->options, err));
    TRY(run->options.resume[0] ? metrics_reopen(&self->metrics, &folder, run->rounds_done, err)
                               : metrics_create(&self->metrics, &folder, err));
    self->is_open = true;
    TRY(run_record_kept(kept, &run->folder, run->rounds_done, err));
    run->results.workers_lost = kept->workers_lost;
    run->record.rounds_done = run->rounds_done;
    run->record.figure = run->ends.figure;
    run->record.tensors = run->memory.tensors.count;
    return write_start(run, &self->metrics, err);
}

static Status trained(Run *run, void *state, const Seen *seen, Error *err) {
    return report_clients(&((Record *)state)->metrics, &run->memory, seen->round, err);
}

// An earlier process may have written the lines of a round that is tested once more.
static Status clients(Run *run, void *state, const Seen *seen, Error *err) {
    if (run->past.kept.tested_round == seen->round) return STATUS_OK;
    return report_client_tests(&((Record *)state)->metrics, &run->memory, seen->round, seen->model, seen->tests,
                               seen->each, err);
}

static void note_cold_start(Record *self, const Run *run) {
    const Control *control = run->memory.control;
    uint64_t first = UINT64_MAX;
    for (uint32_t rank = 0; rank < control->config.workers; rank++) {
        const uint64_t began = control->tallies[rank].first_sample_nanoseconds;
        if (began != 0 && began < first) first = began;
    }
    if (first != UINT64_MAX) self->cold_start_seconds = (double)(first - run->call.start_nanoseconds) * 1e-9;
}

static Status round_over(Run *run, void *state, const Seen *seen, Error *err) {
    Record *self = state;
    if (self->cold_start_seconds == 0) note_cold_start(self, run);
    return report_round(&self->metrics, &run->memory, &run->results.report, seen->test, &run->ends.figure,
                        run_device_name(&run->device), (RunCosts){train_seconds(run), energy_joules(run)}, err);
}

// After a power loss the record has all rounds of the checkpoint.
static Status sync_record(Run *run, void *state, const Seen *seen, Error *err) {
    (void)run, (void)seen;
    return metrics_sync(&((Record *)state)->metrics, err);
}

static Status stop(Run *run, void *state, const Seen *seen, Error *err) {
    (void)seen, (void)err;
    Record *self = state;
    self->worker_bytes = worker_private_bytes(&run->rounds.phases.supervisor);
    self->trainer_bytes = trainer_private_bytes(run->memory.control);
    self->forks = atomic_load(&run->memory.control->forks) != 0;
    return STATUS_OK;
}

// Adds the tests of the final and of the best model.
static void put_tests(JsonObject *line, const Run *run) {
    const RunResults *results = &run->results;
    const Dataset *data = &run->memory.data;
    const size_t classes = (size_t)data->classes;
    put_test(line, &results->tested, &run->ends.figure);
    if (results->tested.validates) put_figures_of(line, FIGURE_OF_MODEL, &(RoundFacts){.test = &results->final}, "");
    const char *each = dataset_has_rows(&data->items) ? "test_accuracy_by_label" : "test_accuracy_by_class";
    if (results->recalls) put_reals(line, each, results->recalls, classes);
    if (results->f1) put_reals(line, "test_f1_by_class", results->f1, classes);
    if (results->recalls) put_class_names(line, data);
    if (results->best_final.tested)
        put_figures_of(line, FIGURE_OF_MODEL, &(RoundFacts){.test = &results->best_final}, "best_model_");
    goals_put(line, &run->memory.control->goals, &run->options, &run->ends.figure);
}

static int64_t own_peak_bytes(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (int64_t)usage.ru_maxrss * 1024;
}

static void put_processes(JsonObject *line, const Record *self, const Run *run) {
    const char *const *starts = option_find("trainer-start")->choices;
    JsonObject peak;
    put_real(line, "seconds", run->results.seconds);
    put_real(line, "cold_start_seconds", self->cold_start_seconds);
    put_whole(line, "workers_lost", run->results.workers_lost);
    json_begin(&peak);
    put_whole(&peak, "parent", own_peak_bytes());
    if (self->trainer_bytes > 0) put_whole(&peak, "trainer", (int64_t)self->trainer_bytes);
    put_object(line, "peak_memory_bytes", &peak);
    if (run->options.trainer[0]) put_text(line, "trainer_start", starts[self->forks ? TRAINER_FORK : TRAINER_EACH]);
    if (!isnan(run->results.joules)) put_real(line, "measured_joules", run->results.joules);
    if (self->worker_bytes > 0) put_whole(line, "worker_private_bytes", (int64_t)self->worker_bytes);
}

static Status end(Run *run, void *state, const Seen *seen, Error *err) {
    (void)seen;
    Record *self = state;
    JsonObject line;
    if (!run->results.final.tested) return fail(err, STATUS_SOFTWARE, "a summary of a model that was not tested");
    run->results.seconds = train_seconds(run);
    run->results.joules = energy_joules(run);
    metrics_begin(&line, "summary");
    put_whole(&line, "rounds", run->rounds_done);
    put_tests(&line, run);
    put_processes(&line, self, run);
    put_whole(&line, "parameters", (int64_t)run->memory.config->parameters);
    put_text(&line, "model_sha256", run->results.sha256);
    put_text(&line, "device", run_device_name(&run->device));
    return hidden_append(&self->metrics, &line, run->memory.config, err);
}

static void close_record(void *state) {
    Record *self = state;
    if (self->is_open) metrics_close(&self->metrics);
}

const Watcher record_watcher = {.bytes = sizeof(Record),
                                .at = {[MOMENT_START] = start,
                                       [MOMENT_TRAINED] = trained,
                                       [MOMENT_CLIENTS] = clients,
                                       [MOMENT_ROUND] = round_over,
                                       [MOMENT_CHECKPOINT] = sync_record,
                                       [MOMENT_STOP] = stop,
                                       [MOMENT_END] = end},
                                .close = close_record};

#include "run_programs.h"

#include <math.h>

#include "app/options/option_table.h"
#include "io/metrics.h"

enum { MOST_FAULTS = 100 };

static bool note_fault(RunPrograms *programs, json_t *line) {
    const double seconds = past_run_number(line, "seconds");
    if (seconds > 0) programs->lost_seconds += seconds;
    if (!programs->faults) programs->faults = json_array();
    return json_array_size(programs->faults) >= MOST_FAULTS || json_array_append(programs->faults, line) == 0;
}

static void note_client(RunPrograms *programs, const json_t *line) {
    const double seconds = past_run_number(line, "seconds"), within = past_run_number(line, "trainer_seconds");
    if (isnan(seconds) || isnan(within)) return;
    programs->turn_seconds += seconds;
    programs->trainer_seconds += within;
}

// Each node has as many workers as the first one, whose waits the line has.
static void note_round(RunPrograms *programs, const json_t *line) {
    const size_t workers = json_array_size(json_object_get(line, "barrier_wait_seconds"));
    const double seconds = past_run_number(line, "seconds"), nodes = past_run_number(line, "nodes");
    if (!isnan(seconds)) programs->worker_seconds += seconds * (double)workers * (isnan(nodes) ? 1 : nodes);
}

bool programs_note(RunPrograms *programs, const PastRun *run, json_t *line) {
    if (!run->options.trainer[0]) return true;
    if (metrics_is(line, "trainer_fault")) return note_fault(programs, line);
    if (metrics_is(line, "client")) note_client(programs, line);
    if (metrics_is(line, "round")) note_round(programs, line);
    return true;
}

static void put_faults(JsonObject *trainer, const RunPrograms *programs) {
    static const char *const numbers[] = {"round", "client", "rank", "seconds"};
    JsonObject faults;
    json_begin_array(&faults);
    for (size_t i = 0; i < json_array_size(programs->faults); i++) {
        const json_t *line = json_array_get(programs->faults, i);
        const char *what = json_string_value(json_object_get(line, "what"));
        JsonObject fault;
        json_begin(&fault);
        for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++)
            put_real(&fault, numbers[n], past_run_number(line, numbers[n]));
        put_readable(&fault, "what", what ? what : "");
        put_object(&faults, NULL, &fault);
    }
    put_object(trainer, "faults", &faults);
}

// A NaN becomes null: the run has no turns or rounds yet.
static void put_shares(JsonObject *trainer, const RunPrograms *programs) {
    const double turns = programs->turn_seconds, within = programs->trainer_seconds, all = programs->worker_seconds;
    put_real(trainer, "outside", turns > 0 ? fmax(0, turns - within) / turns : (double)NAN);
    put_real(trainer, "in_trainers", all > 0 ? within / all : (double)NAN);
}

static void put_trainer(JsonObject *details, const RunPrograms *programs, const PastRun *run) {
    const json_t *repeats = json_object_get(run->start, "trainer_repeats");
    const char *start = json_string_value(json_object_get(run->summary, "trainer_start"));
    JsonObject trainer;
    json_begin(&trainer);
    put_readable(&trainer, "command", run->options.trainer);
    put_readable(&trainer, "options", run->options.trainer_option);
    put_whole(&trainer, "threads", run->options.trainer_threads);
    put_text(&trainer, "asked", option_find("trainer-start")->choices[run->options.trainer_start]);
    if (start)
        put_readable(&trainer, "start", start);
    else
        put_null(&trainer, "start");
    put_value(&trainer, "repeats", json_is_boolean(repeats) ? json_boolean(json_is_true(repeats)) : json_null());
    put_real(&trainer, "restarts", run->trainer_restarts);
    put_real(&trainer, "lost_seconds", programs->lost_seconds);
    put_shares(&trainer, programs);
    put_real(&trainer, "memory_bytes", past_run_number(json_object_get(run->summary, "peak_memory_bytes"), "trainer"));
    put_faults(&trainer, programs);
    put_object(details, "trainer", &trainer);
}

void programs_put(JsonObject *details, const RunPrograms *programs, const PastRun *run) {
    JsonObject aggregator;
    if (run->options.trainer[0]) put_trainer(details, programs, run);
    if (!run->options.aggregator[0]) return;
    json_begin(&aggregator);
    put_readable(&aggregator, "command", run->options.aggregator);
    put_whole(&aggregator, "keeps", run->options.aggregator_keeps);
    put_object(details, "aggregator", &aggregator);
}

void programs_free(RunPrograms *programs) {
    json_decref(programs->faults);
    programs->faults = NULL;
}

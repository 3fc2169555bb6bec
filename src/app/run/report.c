#include "report.h"

#include <sys/resource.h>

Status report_clients(Metrics *metrics, const RunMemory *memory, uint32_t round, Error *err) {
    for (uint32_t i = 0; i < memory->queue->count; i++) {
        const Job *job = &memory->queue->jobs[i];
        uint32_t owner = atomic_load_explicit(&job->owner, memory_order_relaxed);
        uint32_t state = atomic_load_explicit(&job->state, memory_order_relaxed);
        json_t *object =
            json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:b}", "type", "client", "round", (json_int_t)round,
                      "client", (json_int_t)job->client, "node", (json_int_t)job->node, "rank", (json_int_t)owner - 1,
                      "samples", (json_int_t)job->samples, "loss", metrics_real(job->loss_sum / (double)job->samples),
                      "seconds", metrics_real(job->seconds), "refused", state == JOB_REFUSED);
        TRY(metrics_append(metrics, object, err));
    }
    return STATUS_OK;
}

static json_t *per_rank(const double *values, uint32_t workers) {
    json_t *array = json_array();
    for (uint32_t rank = 0; rank < workers; rank++)
        json_array_append_new(array, metrics_real(values[rank]));
    return array;
}

// Per rank, and the mean over the ranks; between nodes.
static void add_synchronisation(json_t *object, const RoundReport *report, const RunConfig *config) {
    double total = report->synchronising_seconds, hidden = report->hidden_seconds;
    json_object_set_new(object, "synchronising_seconds", per_rank(report->worker_sync_seconds, config->workers));
    json_object_set_new(object, "synchronising_hidden_seconds",
                        per_rank(report->worker_hidden_seconds, config->workers));
    json_object_set_new(object, "gradient_sync_seconds", metrics_real(total));
    json_object_set_new(object, "gradient_sync_hidden_seconds", metrics_real(hidden));
    json_object_set_new(object, "gradient_sync_exposed_seconds", metrics_real(total - hidden));
    if (config->nodes == 1) return;
    json_object_set_new(object, "exchange_seconds", metrics_real(report->exchange_seconds));
    json_object_set_new(object, "exchange_hidden_seconds", metrics_real(report->exchange_hidden_seconds));
}

// How many updates had staleness 0, 1, 2, ...; the last entry of a full histogram: that many or more.
static json_t *staleness_histogram(const Control *control) {
    uint64_t sums[STALENESS_BUCKETS] = {0};
    size_t used = 0;
    for (uint32_t rank = 0; rank < control->config.workers; rank++)
        for (size_t bucket = 0; bucket < STALENESS_BUCKETS; bucket++)
            sums[bucket] += control->tallies[rank].staleness[bucket];
    json_t *array = json_array();
    for (size_t bucket = 0; bucket < STALENESS_BUCKETS; bucket++)
        if (sums[bucket] > 0) used = bucket + 1;
    for (size_t bucket = 0; bucket < used; bucket++)
        json_array_append_new(array, json_integer((json_int_t)sums[bucket]));
    return array;
}

Status report_round(Metrics *metrics, const RunMemory *memory, const RoundReport *report, bool evaluated,
                    const char *device, Error *err) {
    const Control *control = memory->control;
    json_t *object = json_pack(
        "{s:s, s:I, s:s, s:o, s:o, s:o, s:o, s:o, s:I, s:o, s:o, s:I, s:I}", "type", "round", "round",
        (json_int_t)report->round, "device", device, "train_loss", metrics_real(report->train_loss), "test_loss",
        evaluated ? metrics_real(report->test_loss) : json_null(), "test_accuracy",
        evaluated ? metrics_real((double)report->test_hits / report->test_count) : json_null(), "seconds",
        metrics_real(report->seconds), "eval_seconds", evaluated ? metrics_real(report->evaluate_seconds) : json_null(),
        "samples", (json_int_t)report->samples, "samples_per_second",
        metrics_real((double)report->samples / report->seconds), "barrier_wait_seconds",
        per_rank(report->barrier_wait_seconds, control->config.workers), "workers_lost",
        (json_int_t)report->workers_lost, "updates_refused", (json_int_t)report->refused);
    if (object && control->config.engine == ENGINE_LOCKSTEP) add_synchronisation(object, report, &control->config);
    if (object && control->config.nodes > 1)
        json_object_set_new(object, "nodes", json_integer((json_int_t)control->config.nodes));
    if (object && control->config.engine == ENGINE_WILD) {
        uint64_t updates = atomic_load_explicit(&control->updates, memory_order_relaxed);
        json_object_set_new(object, "updates", json_integer((json_int_t)updates));
        json_object_set_new(object, "steps_refused", json_integer((json_int_t)report->refused_steps));
        json_object_set_new(object, "staleness", staleness_histogram(control));
    }
    return metrics_append(metrics, object, err);
}

static json_int_t peak_bytes(int who) {
    struct rusage usage;
    getrusage(who, &usage);
    return (json_int_t)usage.ru_maxrss * 1024;
}

Status report_summary(Metrics *metrics, const RunMemory *memory, const RunSummary *summary, Error *err) {
    const RoundReport *last = summary->last;
    json_t *object = json_pack(
        "{s:s, s:I, s:o, s:o, s:o, s:o, s:I, s:{s:I, s:I}, s:I, s:s, s:s}", "type", "summary", "rounds",
        (json_int_t)summary->rounds, "test_loss", last->test_count ? metrics_real(last->test_loss) : json_null(),
        "test_accuracy", last->test_count ? metrics_real((double)last->test_hits / last->test_count) : json_null(),
        "seconds", metrics_real(summary->seconds), "cold_start_seconds", metrics_real(summary->cold_start_seconds),
        "workers_lost", (json_int_t)summary->workers_lost, "peak_memory_bytes", "parent", peak_bytes(RUSAGE_SELF),
        "largest_worker", peak_bytes(RUSAGE_CHILDREN), "parameters", (json_int_t)memory->config->parameters,
        "model_sha256", summary->model_sha256, "device", summary->device);
    return metrics_append(metrics, object, err);
}

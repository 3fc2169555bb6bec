#include "external.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "fedavg/memory/state.h"
#include "fedavg/rules/send/send_rules.h"
#include "fedavg/rules/sum/aggregate.h"

static const double MOST_UPDATE = 0x1p20; // of a weight: what the exact sums hold (aggregate.h)

// The program reads the rows of the run itself, through a read-only descriptor: no update is copied for it.
Status external_open(External *external, Combine *combine, const Parent *parent, TrainerHost *host,
                     const TrainerWait *wait, Error *err) {
    const RunConfig *config = combine->memory ? combine->memory->config : NULL;
    *external = (External){.host = host};
    if (!config || !config->aggregator.command[0]) return STATUS_OK;
    external->block = own(&external->owned, (size_t)config->cohort * EXTERNAL_BLOCK, sizeof *external->block);
    const int output = host ? trainer_output_fd(&host->output, OUTPUT_OF_AGGREGATOR) : -1;
    const Status status = external->owned.lacks_memory
                              ? fail(err, STATUS_OS, "no memory to combine the updates of %u clients", config->cohort)
                              : aggregator_open(&external->aggregator, combine->memory, output, wait, err);
    if (host && status == STATUS_UNAVAILABLE)
        trainer_output_print_last(&host->output, OUTPUT_OF_AGGREGATOR, err->message);
    if (status != STATUS_OK) {
        external_close(external);
        return status;
    }
    external->combine = combine;
    external->parent = parent;
    return STATUS_OK;
}

void external_close(External *external) {
    if (external->combine) aggregator_close(&external->aggregator);
    owned_free(&external->owned);
    *external = (External){0};
}

// Input --------------------------------------------------------------------------------------------------------------

AGGREGATE_VECTORS static void subtract(float *restrict update, const float *restrict trained,
                                       const float *restrict global, size_t count) {
    for (size_t i = 0; i < count; i++)
        update[i] = trained[i] - global[i];
}

// Rows hold weights, in the order of the jobs. The program gets updates, in the order of the clients: one pass makes
// them in place, since nothing else reads the rows after this.
static void make_updates(const External *external) {
    assert(external->combine->count <= external->combine->memory->config->cohort);
    const Combine *combine = external->combine;
    const RunMemory *memory = combine->memory;
    const size_t parameters = memory->config->parameters;
    for (size_t first = 0; first < parameters; first += EXTERNAL_BLOCK) {
        const size_t count = parameters - first < EXTERNAL_BLOCK ? parameters - first : EXTERNAL_BLOCK;
        for (uint32_t row = 0; row < combine->count; row++) {
            const float *trained = run_memory_row(memory, combine->jobs[row]->place) + first;
            subtract(external->block + row * EXTERNAL_BLOCK, trained, memory->weights + first, count);
        }
        for (uint32_t row = 0; row < combine->count; row++)
            memcpy(run_memory_row(memory, row) + first, external->block + row * EXTERNAL_BLOCK, count * sizeof(float));
    }
}

// Copies between the desk, whose vectors follow each other, and the slots, whose vectors have a stride.
static void copy_state(const External *external, bool to_desk) {
    const RunMemory *memory = external->combine->memory;
    const size_t parameters = memory->config->parameters;
    for (uint32_t k = 0; k < memory->config->aggregator_keeps; k++) {
        float *desk = external->aggregator.state + k * parameters;
        float *kept = run_memory_vector(memory, state_vector(memory, STATE_AGGREGATOR) + k);
        memcpy(to_desk ? desk : kept, to_desk ? kept : desk, parameters * sizeof *desk);
    }
}

// Losses and figures of clients are made of their samples without noise: what the program makes of them would go into a
// model whose epsilon does not count them. So the rules of algorithm/clashes.c that weigh by losses are refused there.
static bool hides_figures(const RunConfig *config) {
    return config->training.privacy.clip > 0 || config->release.local_noise > 0 || config->release.hides;
}

static void fill_metrics(const External *external) {
    assert(external->aggregator.named.count <= METRICS_MOST);
    const RunMemory *memory = external->combine->memory;
    const Aggregator *desk = &external->aggregator;
    for (uint32_t m = 0; m < desk->named.count; m++)
        for (uint32_t row = 0; row < external->combine->count; row++) {
            const MetricSums *own = run_memory_metrics(memory, external->combine->jobs[row]);
            desk->metrics[m * memory->config->cohort + row] =
                own && !hides_figures(memory->config) ? metric_sums_value(own, desk->named.all[m].name) : NAN;
        }
}

// A program that has failed may have written anything to the desk: every attempt begins with a new one.
static void fill_desk(const External *external) {
    const Combine *combine = external->combine;
    const bool hides = hides_figures(combine->memory->config);
    const Aggregator *desk = &external->aggregator;
    for (uint32_t row = 0; row < combine->count; row++) {
        const Job *job = combine->jobs[row];
        desk->clients[row] = job->client;
        desk->shares[row] = combine->weights[row];
        desk->losses[row] = hides ? NAN : job->loss_sum / (double)job->samples;
        desk->samples[row] = job->count;
        desk->steps[row] = job->steps;
    }
    copy_state(external, true);
    if (combine->memory->metrics) fill_metrics(external);
}

// Answer -------------------------------------------------------------------------------------------------------------

static Status refuse(const External *external, size_t i, bool is_weight, Error *err) {
    const ParameterTensor *tensor = tensors_at(&external->combine->memory->tensors, i);
    return fail(err, STATUS_UNAVAILABLE, "it made %g of %s %zu of %s; a weight may change by less than %g",
                log_real(external->aggregator.answer[i]), is_weight ? "weight" : "the update of weight",
                i - tensor->first, tensor->name, MOST_UPDATE);
}

// Reads an update, or new weights less the old ones, into the total. Weights that clients do not send keep still.
static Status read_answer(External *external, const float *less, Error *err) {
    const RunMemory *memory = external->combine->memory;
    const double *answer = external->aggregator.answer;
    int64_t *total = external->combine->total;
    SentWeights sent;
    sent_weights(&sent, &memory->tensors, &memory->config->personal, NULL, 0);
    memset(total, 0, memory->config->parameters * sizeof *total);
    for (uint32_t r = 0; r < sent.run_count; r++)
        for (size_t i = sent.runs[r].first; i < sent.runs[r].end; i++) {
            const double change = answer[i] - (less ? (double)less[i] : 0);
            if (!(fabs(change) < MOST_UPDATE)) return refuse(external, i, less != NULL, err);
            total[i] = llrint(change * AGGREGATE_UNIT);
        }
    return STATUS_OK;
}

// The noise of a release joins the update before a server rule sees it, be that the program's or the run's.
static Status attempt(External *external, double noise, uint32_t round, Error *err) {
    const Combine *combine = external->combine;
    Aggregator *aggregator = &external->aggregator;
    fill_desk(external);
    TRY(aggregator_ask(aggregator, "combine", round, combine->count, err));
    TRY(read_answer(external, NULL, err));
    if (noise > 0) parent_add_noise(combine->total, external->parent, noise, round);
    if (!aggregator->has_server) return STATUS_OK;
    for (size_t i = 0; i < combine->memory->config->parameters; i++)
        aggregator->answer[i] = (double)combine->total[i] / AGGREGATE_UNIT;
    TRY(aggregator_ask(aggregator, "server", round, combine->count, err));
    return read_answer(external, combine->memory->weights, err);
}

// A program that failed is started again once, and the round is done again from its rows: these hold updates now, which
// a program can read but not change. A second failure ends the run. Metrics are joined before: too many names are the
// trainer's fault, which no other aggregator mends.
Status external_combine(External *external, double noise, uint32_t round, Error *err) {
    Error why;
    if (!external->combine) return STATUS_OK;
    TRY(run_memory_join_metrics(&external->aggregator.named, external->combine->memory, err));
    make_updates(external);
    Status status = attempt(external, noise, round, &why);
    if (status == STATUS_UNAVAILABLE) {
        const Error first = why;
        status = aggregator_restart(&external->aggregator, &why);
        if (status == STATUS_OK) status = attempt(external, noise, round, &why);
        if (status == STATUS_OK)
            log_warning("the aggregator failed in round %u: %s; another one has done the round again", round,
                        first.message);
    }
    if (status == STATUS_OK) return STATUS_OK;
    if (status == STATUS_CANCELLED) return fail(err, status, "%s", why.message);
    if (external->host) trainer_host_blame(external->host, OUTPUT_OF_AGGREGATOR);
    return fail(err, STATUS_UNAVAILABLE, "--aggregator, round %u: %s", round, why.message);
}

void external_conclude(External *external) {
    if (external->combine) copy_state(external, false);
}

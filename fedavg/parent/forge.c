#include "forge.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "fedavg/rules/sum/aggregate.h"
#include "fedavg/rules/attack/attack_rules.h"
#include "fedavg/rules/attack/forgery.h"

static const RunConfig *config_of(const Forge *forge) {
    return forge->combine->memory->config;
}

Status forge_init(Forge *forge, Combine *combine, Error *err) {
    const RunConfig *config = combine->memory->config;
    *forge = (Forge){0};
    if (!attack_is_forged(&config->attack)) return STATUS_OK;
    forge->combine = combine;
    const size_t rows = (size_t)config->cohort + 1, parameters = config->parameters;
    bool enough = (forge->jobs = malloc(rows * sizeof *forge->jobs)) != NULL;
    enough = enough && (forge->update = malloc(parameters * sizeof *forge->update)) &&
             (forge->values = malloc(parameters * sizeof *forge->values));
    if (enough && forgery_wants_products(&config->attack))
        enough = (forge->products = malloc((ROW_SECTIONS + 1) * rows * rows * sizeof *forge->products)) &&
                 (forge->workspace = aligned_alloc(64, rows * ROW_PRODUCT_BLOCK * sizeof *forge->workspace));
    if (enough) return STATUS_OK;
    forge_free(forge);
    return fail(err, STATUS_OS, "no memory to forge the updates of %u clients", config->cohort);
}

void forge_free(Forge *forge) {
    free(forge->workspace);
    free(forge->products);
    free(forge->values);
    free(forge->update);
    free(forge->jobs);
    *forge = (Forge){0};
}

// Those whom attackers know, of all that are done; how many of these there are, and how many attack.
static int by_client(const void *a, const void *b) {
    const Job *x = *(Job *const *)a, *y = *(Job *const *)b;
    return (x->client > y->client) - (x->client < y->client);
}

static void list_known(Forge *forge, uint32_t *clients, uint32_t *attackers) {
    const Queue *queue = forge->combine->memory->queue;
    const Chosen *attack = &config_of(forge)->attack;
    const int knowledge = attack->row == ATTACK_ALIE ? 1 : 0; // which number it is
    const bool asks = attack->row != ATTACK_IPM && attack->row != ATTACK_MIMIC,
               own = asks && attack->number[knowledge] == 1;
    forge->count = *clients = *attackers = 0;
    for (uint32_t i = 0; i < queue->count; i++) {
        const Job *job = &queue->jobs[i];
        if (job->state != JOB_DONE) continue;
        *clients += 1;
        *attackers += job->attacks;
        if (own == (job->attacks != 0)) forge->jobs[forge->count++] = job;
    }
    qsort(forge->jobs, forge->count, sizeof *forge->jobs, by_client);
}

static Status walk(Forge *forge, const float *aside, RowVisit visit, Error *err) {
    return row_walk(&forge->combine->walk, forge->jobs, forge->count, aside, visit, forge, err);
}

// Every node's part of forge->update, for all of them: as bits, which a sum with zeros leaves as they are.
static Status share_update(Forge *forge, Error *err) {
    static_assert(sizeof(int64_t) == sizeof *forge->update, "they are summed as such");
    const size_t parameters = config_of(forge)->parameters;
    int64_t *total = forge->combine->total; // nothing is in it yet
    if (forge->combine->nodes->size == 1) return STATUS_OK;
    memcpy(total, forge->update, parameters * sizeof *total);
    TRY(nodes_sum(forge->combine->nodes, total, parameters, err));
    memcpy(forge->update, total, parameters * sizeof *total);
    return STATUS_OK;
}

// Distances -----------------------------------------------------------------------------------------------------------

static void visit_deviations(void *context, const Rows *rows, uint32_t section, size_t first, size_t count) {
    const Forge *forge = context;
    (void)section;
    forgery_deviations(forge->update + first, rows, count);
}

static void visit_products(void *context, const Rows *rows, uint32_t section, size_t first, size_t count) {
    const Forge *forge = context;
    (void)first;
    rows_products(forge->products + (size_t)section * rows->count * rows->count, rows, forge->combine->blas,
                  forge->workspace, count);
}

// *products (rows, rows) of the updates, and of what is aside.
static Status find_products(const double **products, Forge *forge, const float *aside, Error *err) {
    const size_t rows = forge->count + (aside ? 1 : 0), square = rows * rows;
    double *sum = forge->products + ROW_SECTIONS * square;
    memset(forge->products, 0, (ROW_SECTIONS + 1) * square * sizeof *sum);
    TRY(walk(forge, aside, visit_products, err));
    TRY(row_walk_gather(&forge->combine->walk, forge->products, square * sizeof *sum, err));
    for (uint32_t section = 0; section < ROW_SECTIONS; section++)
        for (size_t i = 0; i < square; i++)
            sum[i] += forge->products[section * square + i];
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < i; j++)
            sum[i * rows + j] = sum[j * rows + i];
    *products = sum;
    return STATUS_OK;
}

static Status find_reach(Forge *forge, Error *err) {
    const double *products;
    memset(forge->update, 0, config_of(forge)->parameters * sizeof *forge->update);
    TRY(walk(forge, NULL, visit_deviations, err));
    TRY(share_update(forge, err));
    for (size_t i = 0; i < config_of(forge)->parameters; i++)
        forge->values[i] = (float)forge->update[i];
    TRY(find_products(&products, forge, forge->values, err));
    forge->of_deviation = forgery_reach(products, forge->count, &config_of(forge)->attack, forge->workspace);
    return STATUS_OK;
}

// One victim is copied for good, so that it counts too much: the client that is named, or the furthest in the first
// round that is attacked. In rounds without it the furthest is copied.
static Status find_copied(Forge *forge, Error *err) {
    const double *products, named = config_of(forge)->attack.number[0];
    uint32_t *victim = &forge->combine->memory->control->victim;
    if (!isnan(named)) *victim = (uint32_t)named + 1;
    for (uint32_t row = 0; row < forge->count; row++)
        if (forge->jobs[row]->client + 1 == *victim) forge->copied = row;
    if (forge->copied != UINT32_MAX) return STATUS_OK;
    TRY(find_products(&products, forge, NULL, err));
    forge->copied = forgery_furthest(products, forge->count, forge->workspace);
    if (*victim == 0) *victim = forge->jobs[forge->copied]->client + 1;
    return STATUS_OK;
}

// Forging -------------------------------------------------------------------------------------------------------------

// How much of the mean and of the deviations it is, or whose copy.
static Status plan_update(Forge *forge, uint32_t clients, uint32_t attackers, Error *err) {
    const Chosen *attack = &config_of(forge)->attack;
    forge->of_mean = 1, forge->of_deviation = 0, forge->copied = UINT32_MAX;
    switch (attack->row) {
    case ATTACK_ALIE: // erfc is the first node's
        forge->of_deviation = isnan(attack->number[0]) ? forgery_alie(clients, attackers) : attack->number[0];
        return nodes_broadcast(forge->combine->nodes, &forge->of_deviation, sizeof forge->of_deviation, err);
    case ATTACK_IPM:
        forge->of_mean = -attack->number[0];
        return STATUS_OK;
    case ATTACK_MIMIC:
        return find_copied(forge, err);
    default:
        return find_reach(forge, err);
    }
}

static void visit_update(void *context, const Rows *rows, uint32_t section, size_t first, size_t count) {
    const Forge *forge = context;
    (void)section;
    if (forge->copied == UINT32_MAX) {
        forgery_forge(forge->update + first, rows, forge->of_mean, forge->of_deviation, count);
        return;
    }
    for (size_t i = 0; i < count; i++)
        forge->update[first + i] = (double)rows->values[forge->copied][i] - (double)rows->from[forge->copied][i];
}

// The attackers' rows, of which each node has those of its own clients; all see that one fits or does not.
static void hand_in(Forge *forge) {
    const RunMemory *memory = forge->combine->memory;
    const size_t parameters = memory->config->parameters;
    Queue *queue = memory->queue;
    float *forged = forge->values;
    size_t unfit = 0;
    double squared_length = NAN;
    for (size_t i = 0; i < parameters; i++)
        forged[i] = (float)((double)memory->weights[i] + forge->update[i]);
    unfit = aggregate_first_unfit(forged, memory->weights, parameters);
    if (memory->config->inspects_updates)
        squared_length = aggregate_squared_update(forged, memory->weights, parameters);
    for (uint32_t i = 0; i < queue->count; i++) {
        Job *job = &queue->jobs[i];
        if (job->state != JOB_DONE || !job->attacks) continue;
        job->squared_length = squared_length;
        if (unfit < parameters) {
            job->state = JOB_REFUSED;
            log_warning("client %u: update refused: its attack %s made %g of a weight of %s", job->client,
                        attack_rules[memory->config->attack.row].name, log_real((double)forged[unfit]),
                        spec_tensor_name(&memory->config->spec, unfit));
        } else if (job->node == forge->combine->nodes->rank) {
            memcpy(run_memory_row(memory, job->place), forged, parameters * sizeof *forged);
        }
    }
}

Status forge_rows(Forge *forge, Error *err) {
    uint32_t clients, attackers;
    if (!forge->combine) return STATUS_OK;
    list_known(forge, &clients, &attackers);
    if (attackers == 0 || forge->count == 0) return STATUS_OK;
    TRY(plan_update(forge, clients, attackers, err));
    memset(forge->update, 0, config_of(forge)->parameters * sizeof *forge->update);
    TRY(walk(forge, NULL, visit_update, err));
    TRY(share_update(forge, err));
    hand_in(forge);
    return STATUS_OK;
}

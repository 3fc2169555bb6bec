#include "crafting.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "fedavg/rules/attack/attack_rules.h"
#include "fedavg/rules/attack/crafted.h"
#include "fedavg/rules/sum/aggregate.h"

static const RunConfig *config_of(const Crafting *crafting) {
    return crafting->combine->memory->config;
}

// One row more than the cohort has: the vector of deviations takes part in the products (find_reach).
Status crafting_init(Crafting *crafting, Combine *combine, Error *err) {
    const RunConfig *config = combine->memory->config;
    *crafting = (Crafting){0};
    if (!attack_is_crafted(&config->attack)) return STATUS_OK;
    crafting->combine = combine;
    const size_t rows = (size_t)config->cohort + 1, parameters = config->parameters;
    crafting->jobs = own(&crafting->owned, rows, sizeof *crafting->jobs);
    crafting->update = own(&crafting->owned, parameters, sizeof *crafting->update);
    crafting->values = own(&crafting->owned, parameters, sizeof *crafting->values);
    if (crafted_wants_products(&config->attack)) {
        crafting->products = own(&crafting->owned, rows * rows, sizeof *crafting->products);
        crafting->workspace = own(&crafting->owned, 3 * rows, sizeof *crafting->workspace);
    }
    if (!crafting->owned.lacks_memory) return STATUS_OK;
    crafting_free(crafting);
    return fail(err, STATUS_OS, "no memory to forge the updates of %u clients", config->cohort);
}

void crafting_free(Crafting *crafting) {
    owned_free(&crafting->owned);
    *crafting = (Crafting){0};
}

// Lists the clients that attackers know, of all that are done; counts these clients, and the attackers among them.
// Attackers know either each other's updates or those of the honest clients; IPM and mimic always use the honest ones.
static void list_known(Crafting *crafting, uint32_t *clients, uint32_t *attackers) {
    const Queue *queue = crafting->combine->memory->queue;
    const Chosen *attack = &config_of(crafting)->attack;
    const bool own = rule_number(attack, &attack_rules[attack->row], "knowledge") == KNOWLEDGE_OWN;
    crafting->count = *clients = *attackers = 0;
    for (uint32_t i = 0; i < queue->count; i++) {
        const Job *job = &queue->jobs[i];
        if (job->state != JOB_DONE) continue;
        *clients += 1;
        *attackers += job->attacks;
        if (own == (job->attacks != 0)) crafting->jobs[crafting->count++] = job;
    }
    qsort(crafting->jobs, crafting->count, sizeof *crafting->jobs, row_walk_by_client);
}

// All nodes walk together, each over its own sections of the weights, whatever an attack does with them.
static Status walk(Crafting *crafting, const float *aside, RowVisit visit, Error *err) {
    return row_walk(&crafting->combine->walk, crafting->jobs, crafting->count, aside, visit, crafting, err);
}

// Shares every node's part of crafting->update with all others: as bits, which a sum with zeros leaves as they are.
static Status share_update(Crafting *crafting, Error *err) {
    static_assert(sizeof(int64_t) == sizeof *crafting->update, "they are summed as such");
    const size_t parameters = config_of(crafting)->parameters;
    int64_t *total = crafting->combine->total; // nothing is in it yet
    if (crafting->combine->nodes->size == 1) return STATUS_OK;
    memcpy(total, crafting->update, parameters * sizeof *total);
    TRY(nodes_sum(crafting->combine->nodes, total, parameters, err));
    memcpy(crafting->update, total, parameters * sizeof *total);
    return STATUS_OK;
}

// Distances -----------------------------------------------------------------------------------------------------------

static void visit_deviations(void *context, const Rows *rows, uint32_t section, size_t first, size_t count) {
    const Crafting *crafting = context;
    (void)section;
    crafted_deviations(crafting->update + first, rows, count);
}

static Status find_products(Crafting *crafting, const float *aside, Error *err) {
    return row_walk_products(&crafting->combine->walk, crafting->products, crafting->jobs, crafting->count, aside, err);
}

// The vector of deviations takes part in the products as one more row, because the reach follows from distances along
// it: so the rows are walked twice, first for the deviations, then for the products.
static Status find_reach(Crafting *crafting, Error *err) {
    memset(crafting->update, 0, config_of(crafting)->parameters * sizeof *crafting->update);
    TRY(walk(crafting, NULL, visit_deviations, err));
    TRY(share_update(crafting, err));
    for (size_t i = 0; i < config_of(crafting)->parameters; i++)
        crafting->values[i] = (float)crafting->update[i];
    TRY(find_products(crafting, crafting->values, err));
    crafting->of_deviation =
        crafted_reach(crafting->products, crafting->count, &config_of(crafting)->attack, crafting->workspace);
    return STATUS_OK;
}

// One victim is copied in all rounds, so that it counts too much: the client that is named, or the furthest in the
// first attacked round. In rounds without it the furthest is copied.
static Status find_copied(Crafting *crafting, Error *err) {
    const double named = config_of(crafting)->attack.number[0];
    uint32_t *victim = &crafting->combine->memory->control->victim;
    if (!isnan(named)) *victim = (uint32_t)named + 1;
    for (uint32_t row = 0; row < crafting->count; row++)
        if (crafting->jobs[row]->client + 1 == *victim) crafting->copied = row;
    if (crafting->copied != UINT32_MAX) return STATUS_OK;
    TRY(find_products(crafting, NULL, err));
    crafting->copied = crafted_furthest(crafting->products, crafting->count, crafting->workspace);
    if (*victim == 0) *victim = crafting->jobs[crafting->copied]->client + 1;
    return STATUS_OK;
}

// Forging -------------------------------------------------------------------------------------------------------------

// Finds how much of the mean and of the deviations the update is, or which row it copies. Functions of the C library
// (erfc) are evaluated on node 0 alone, whose result all nodes use.
static Status plan_update(Crafting *crafting, uint32_t clients, uint32_t attackers, Error *err) {
    const Chosen *attack = &config_of(crafting)->attack;
    crafting->of_mean = 1, crafting->of_deviation = 0, crafting->copied = UINT32_MAX;
    switch (attack->row) {
    case ATTACK_ALIE: // erfc is the first node's
        crafting->of_deviation = isnan(attack->number[0]) ? crafted_alie(clients, attackers) : attack->number[0];
        return nodes_broadcast(crafting->combine->nodes, &crafting->of_deviation, sizeof crafting->of_deviation, err);
    case ATTACK_IPM:
        crafting->of_mean = -attack->number[0];
        return STATUS_OK;
    case ATTACK_MIMIC:
        return find_copied(crafting, err);
    default:
        return find_reach(crafting, err);
    }
}

// The weights of other nodes' sections stay 0, so that a sum over the nodes joins them.
static void visit_update(void *context, const Rows *rows, uint32_t section, size_t first, size_t count) {
    const Crafting *crafting = context;
    (void)section;
    if (crafting->copied == UINT32_MAX) {
        crafted_make(crafting->update + first, rows, crafting->of_mean, crafting->of_deviation, count);
        return;
    }
    for (size_t i = 0; i < count; i++)
        crafting->update[first + i] =
            (double)rows->values[crafting->copied][i] - (double)rows->from[crafting->copied][i];
}

// Writes the crafted update into the attackers' rows, of which each node has those of its own clients. Every node
// checks it for itself, with one result.
static void hand_in(Crafting *crafting) {
    const RunMemory *memory = crafting->combine->memory;
    const size_t parameters = memory->config->parameters;
    Queue *queue = memory->queue;
    float *crafted = crafting->values;
    size_t unfit = 0;
    assert(crafting->copied == UINT32_MAX || crafting->copied < crafting->count);
    double squared_length = NAN;
    for (size_t i = 0; i < parameters; i++)
        crafted[i] = (float)((double)memory->weights[i] + crafting->update[i]);
    unfit = aggregate_first_unfit(crafted, memory->weights, parameters);
    if (memory->config->inspects_updates)
        squared_length = aggregate_squared_update(crafted, memory->weights, parameters);
    for (uint32_t i = 0; i < queue->count; i++) {
        Job *job = &queue->jobs[i];
        if (job->state != JOB_DONE || !job->attacks) continue;
        job->squared_length = squared_length;
        if (unfit < parameters) {
            job->state = JOB_REFUSED;
            log_warning("client %u: update refused: its attack %s made %g of a weight of %s", job->client,
                        attack_rules[memory->config->attack.row].name, log_real((double)crafted[unfit]),
                        tensors_at(&memory->tensors, unfit)->name);
        } else if (job->node == crafting->combine->nodes->rank) {
            memcpy(run_memory_row(memory, job->place), crafted, parameters * sizeof *crafted);
        }
    }
}

// Attackers that know no update hand in what they have trained. Every node returns here with one decision, since all of
// them have the jobs of all nodes: no collective is left out by one of them.
Status crafting_rows(Crafting *crafting, Error *err) {
    uint32_t clients, attackers;
    if (!crafting->combine) return STATUS_OK;
    list_known(crafting, &clients, &attackers);
    if (attackers == 0 || crafting->count == 0) return STATUS_OK;
    TRY(plan_update(crafting, clients, attackers, err));
    memset(crafting->update, 0, config_of(crafting)->parameters * sizeof *crafting->update);
    TRY(walk(crafting, NULL, visit_update, err));
    TRY(share_update(crafting, err));
    hand_in(crafting);
    return STATUS_OK;
}

// Part of cohort.h: shares that the plan of a round cannot know. They follow from the model's loss on the samples of
// each member, which is known before training, or from the steps that trainers have made, which are known after it.
#include "cohort.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

// A rule that weighs by losses needs them before training, because an update is multiplied by its share as it is added.
bool cohort_wants_losses(const Cohort *cohort) {
    return cohort->memory->algorithm.traits.has[TRAIT_BY_LOSSES] && cohort->jobs > 0;
}

// Notes each client's mean loss, by which a later draw may prefer clients.
void cohort_note(Cohort *cohort, const Queue *queue) {
    const RunMemory *memory = cohort->memory;
    if (!memory->client_notes || memory->algorithm.combine->learn) return;
    assert(queue->count <= queue->capacity);
    for (uint32_t i = 0; i < queue->count; i++) {
        const Job *job = &queue->jobs[i];
        if (job->state == JOB_DONE)
            memory->client_notes[job->client] = run_objective(memory->config) * job->loss_sum / (double)job->samples;
    }
}

// The shares are the weights learned so far; those of the next round follow from the losses. drawn and losses are free.
// The first round begins with equal weights, since no loss is known. Every node computes them from equal losses;
// cohort_weigh then broadcasts node 0's result, in which a function of the C library may be.
static Status learn_weights(Cohort *cohort, Error *err) {
    assert(cohort->jobs > 0 && cohort->jobs <= cohort->count);
    const RunMemory *memory = cohort->memory;
    double *notes = memory->client_notes, *weights = malloc(2 * cohort->jobs * sizeof *weights);
    if (!weights) return fail(err, STATUS_OS, "no memory for the weights of %u clients", cohort->jobs);
    double left = 0; // by clients that a drift has left without samples
    for (uint32_t i = cohort->jobs; i < cohort->count; i++) {
        left += notes[cohort->members[i].client];
        notes[cohort->members[i].client] = 0;
    }
    for (uint32_t place = 0; place < cohort->jobs; place++) {
        Member *member = &cohort->members[place];
        weights[place] = cohort->round == 1 ? 1.0 / cohort->jobs : notes[member->client] + left / cohort->jobs;
        member->share = weights[place];
    }
    memory->algorithm.combine->learn(weights, cohort->losses, cohort->jobs, memory->config->recipe.combine.number,
                                     weights + cohort->jobs);
    for (uint32_t place = 0; place < cohort->jobs; place++)
        notes[cohort->members[place].client] = weights[place];
    free(weights);
    return STATUS_OK;
}

// A share that is no number would go into the sum as bits that make a finite one.
static Status check_weighed(const Cohort *cohort, Error *err) {
    const RuleText *rule = &cohort->memory->algorithm.combine->text;
    const double lr = (double)run_memory_training(cohort->memory).sgd.lr;
    for (uint32_t place = 0; place < cohort->jobs; place++) {
        const Member *member = &cohort->members[place];
        if (!isfinite(member->loss))
            return fail(err, STATUS_SOFTWARE,
                        "round %u: the model's loss on the samples of client %u is %g; lower --lr (now %g)",
                        cohort->round, member->client, member->loss, lr);
        if (!isfinite(member->share))
            return fail(
                err, STATUS_SOFTWARE,
                "round %u: what client %u counts by its loss of %g is no number; lower %s of combine %s, or --lr "
                "(now %g)",
                cohort->round, member->client, member->loss, rule->numbers[0].name, rule->name, lr);
    }
    return STATUS_OK;
}

// Shares can only be computed now, after the evaluation: the rule weighs clients by the model's loss on their samples.
// The check is after the broadcast, so that all nodes fail or none does.
Status cohort_weigh(Cohort *cohort, Nodes *nodes, Error *err) {
    const RunConfig *config = cohort->memory->config;
    if (cohort->memory->algorithm.combine->learn)
        TRY(learn_weights(cohort, err));
    else
        cohort_shares(&cohort->shares, cohort->members, cohort->count, &config->world, &config->recipe.combine);
    cohort->up_bytes += (uint64_t)cohort->jobs * REPORT_BYTES;
    for (uint32_t place = 0; place < cohort->jobs; place++)
        cohort->link_joules += world_link_joules(&cohort->members[place], &config->world, 0, REPORT_BYTES);
    TRY(nodes_broadcast(nodes, cohort->members, cohort->count * sizeof *cohort->members,
                        err)); // pow is the library's
    return check_weighed(cohort, err);
}

// With combine mean told, or tokens, an update was added as often as its trainer told samples, or tokens, in units: the
// mean divides by all.
static void weigh_by_told(Cohort *cohort, Queue *queue) {
    double total = 0;
    for (uint32_t place = 0; place < cohort->jobs; place++) {
        Job *job = &queue->jobs[place];
        job->share *= combine_told(&cohort->memory->config->recipe.combine, job->samples, job->tokens);
        total += job->share;
    }
    assert(total > 0 && isfinite(total));
    for (uint32_t place = 0; place < cohort->jobs; place++)
        cohort->members[place].share = queue->jobs[place].share /= total;
    cohort->shares.factor /= total;
}

// FedNova's shares follow from the steps. A worker divides by those that were made, but multiplies by the least planned
// reach of the cohort, since it cannot know the least one that is made: here the factor of the mean makes up for it.
void cohort_count_steps(Cohort *cohort, Queue *queue) {
    const RunConfig *config = cohort->memory->config;
    double planned = INFINITY, made = INFINITY;
    bool differ = false;
    if (combine_is_told(&config->recipe.combine)) weigh_by_told(cohort, queue);
    if (!cohort->memory->algorithm.combine->cut || !config->trainer.command[0]) return;
    assert(queue->count == cohort->jobs);
    for (uint32_t place = 0; place < cohort->jobs; place++) {
        Member *member = &cohort->members[place];
        const Job *job = &queue->jobs[place];
        planned = fmin(planned, member->reach), made = fmin(made, job->reach);
        differ |= job->reach != member->reach || job->steps != member->steps;
        member->reach = job->reach, member->steps = job->steps;
    }
    if (!differ) return;
    cohort_shares(&cohort->shares, cohort->members, cohort->count, &config->world, &config->recipe.combine);
    assert(made > 0 && planned > 0 && isfinite(made) && isfinite(planned));
    cohort->shares.factor *= made / planned;
    cohort->shares.total *= planned / made;
    for (uint32_t place = 0; place < cohort->jobs; place++)
        queue->jobs[place].share = cohort->members[place].share * planned / made;
}

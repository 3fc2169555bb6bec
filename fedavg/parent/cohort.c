#include "cohort.h"

#include <math.h>
#include <stdlib.h>

#include "fedavg/rules/local_rules.h"
#include "fedavg/rules/masks.h"
#include "fedavg/rules/sampler.h"
#include "fedavg/rules/send_rules.h"
#include "fedavg/rules/server_rules.h"

static void plan_bytes(Cohort *cohort) {
    const RunConfig *config = cohort->memory->config;
    const Chosen *parts = config->recipe.parts;
    const uint64_t whole = config->parameters * sizeof(float);
    SentWeights sent;
    sent_weights(&sent, &config->spec, &config->personal);
    cohort->down_each = sent.count * sizeof(float); // what stays is not sent
    if (parts[PART_SERVER].row == SERVER_ROW_vote) cohort->down_each = bytes_of_bits(sent.count, 2);
    if (server_rules[parts[PART_SERVER].row]->tells) cohort->down_each += whole;
    const bool averages = config->training.optimizer_state == OPTIMIZER_AVERAGED; // momenta travel, too
    if (averages) cohort->down_each += whole;
    cohort->sent_each = send_bytes(&parts[PART_CODE], &sent);
    cohort->up_each = cohort->sent_each + REPORT_BYTES;
    if (local_rules[parts[PART_LOCAL].row]->asks || averages)
        cohort->up_each += parts[PART_CODE].row == SEND_ROW_masked ? 2 * whole : whole; // by what its c_k has changed
}

Status cohort_init(Cohort *cohort, const RunMemory *memory, uint32_t clients_per_round, Error *err) {
    uint32_t clients = memory->config->clients;
    *cohort = (Cohort){.memory = memory, .wanted = clients_per_round};
    plan_bytes(cohort);
    cohort->drawn = malloc(clients * sizeof *cohort->drawn);
    cohort->losses = malloc(clients * sizeof *cohort->losses);
    cohort->samples = malloc(clients * sizeof *cohort->samples);
    cohort->scratch = malloc(((size_t)clients + 1) * sizeof *cohort->scratch);
    cohort->members = malloc(clients * sizeof *cohort->members);
    bool has_file = memory->world_files.presences != NULL;
    cohort->there = has_file ? malloc(clients) : NULL;
    if ((has_file && !cohort->there) || !cohort->drawn || !cohort->losses || !cohort->samples || !cohort->scratch ||
        !cohort->members) {
        cohort_free(cohort);
        return fail(err, STATUS_OS, "no memory for %u clients", clients);
    }
    for (uint32_t client = 0; client < clients; client++)
        partition_client(&memory->partition, client, &cohort->samples[client]);
    return STATUS_OK;
}

void cohort_free(Cohort *cohort) {
    free(cohort->there);
    free(cohort->members);
    free(cohort->scratch);
    free(cohort->samples);
    free(cohort->losses);
    free(cohort->drawn);
    *cohort = (Cohort){0};
}

// How many are drawn so that as many as wanted come.
static uint32_t selected(const World *world, uint32_t clients, uint32_t wanted) {
    double size = ceil(world->over_selection * wanted);
    return size < clients ? (uint32_t)size : clients;
}

uint32_t cohort_capacity(const World *world, uint32_t clients, uint32_t clients_per_round) {
    if (world->sampling == SAMPLING_POISSON) return clients;
    if (world->sampling == SAMPLING_POWER_OF_CHOICE) return (uint32_t)world->candidates;
    return selected(world, clients, clients_per_round);
}

// Of more than are wanted the first to come are kept.
uint32_t cohort_trains(const World *world, uint32_t clients, uint32_t clients_per_round) {
    return world->sampling == SAMPLING_POISSON ? clients : clients_per_round;
}

// The drawn clients as members, those that were drawn several times once.
static void enlist(Cohort *cohort, uint32_t drawn) {
    cohort->count = 0;
    for (uint32_t i = 0; i < drawn; i++) {
        uint32_t client = cohort->drawn[i];
        Member *last = cohort->count > 0 ? &cohort->members[cohort->count - 1] : NULL;
        if (last && last->client == client)
            last->times++;
        else
            cohort->members[cohort->count++] =
                (Member){.client = client, .samples = cohort->samples[client], .times = 1};
        const ClientPace *pace = cohort->memory->world_files.paces;
        Member *member = &cohort->members[cohort->count - 1];
        if (pace) member->seconds_per_sample = 1e-6 * pace[client].microseconds_per_sample;
        if (pace) member->bytes_per_second = pace[client].bytes_per_second;
    }
}

void cohort_begin(Cohort *cohort, uint32_t round) {
    const RunConfig *config = cohort->memory->config;
    const World *world = &config->world;
    Draw draw = {.world = world,
                 .samples = cohort->samples,
                 .there = cohort->there,
                 .scratch = cohort->scratch,
                 .clients = config->clients,
                 .size = selected(world, config->clients, cohort->wanted),
                 .seed = config->seed,
                 .round = round};
    cohort->nobody_until = UINT64_MAX;
    if (cohort->there)
        cohort->nobody_until = world_files_presence(cohort->there, &cohort->memory->world_files,
                                                    cohort->memory->control->totals.microseconds);
    uint32_t drawn = samplers[world->sampling](cohort->drawn, &draw);
    cohort->round = round;
    cohort->down_bytes = cohort->up_bytes = 0;
    cohort->candidates = world->sampling == SAMPLING_POWER_OF_CHOICE ? drawn : 0;
    if (cohort->candidates == 0) enlist(cohort, drawn);
}

// Candidates get the model to say what their loss is.
static bool asks_candidates(const RunConfig *config) {
    return config->world.sampling == SAMPLING_POWER_OF_CHOICE && config->world.candidates_by != CANDIDATES_LAST;
}

void cohort_choose(Cohort *cohort) {
    const RunConfig *config = cohort->memory->config;
    uint32_t size = selected(&config->world, config->clients, cohort->wanted);
    if (asks_candidates(config)) {
        cohort->down_bytes = cohort->candidates * cohort->down_each;
        cohort->up_bytes = (uint64_t)cohort->candidates * REPORT_BYTES;
    }
    enlist(cohort, sampler_keep_largest(cohort->drawn, cohort->losses, cohort->candidates, size));
    cohort->candidates = 0;
}

static Status find_durations(Cohort *cohort, Nodes *nodes, Error *err) {
    const RunConfig *config = cohort->memory->config;
    const Training training = run_memory_training(cohort->memory);
    for (uint32_t i = 0; i < cohort->count; i++) {
        Member *member = &cohort->members[i];
        uint32_t size = config->training.batch_size;
        member->steps = (uint64_t)member->epochs * (member->samples / size + (member->samples % size != 0));
        member->reach = local_turn(&config->recipe.parts[PART_LOCAL], &training, member->steps, 1).displacement /
                        (double)training.sgd.lr;
        member->end_microseconds = world_duration(member, &config->world, config->training.local_epochs,
                                                  cohort->down_each, cohort->up_each, config->seed, cohort->round);
    }
    if (!world_has_random_durations(&config->world)) return STATUS_OK;
    return nodes_broadcast(nodes, cohort->members, cohort->count * sizeof *cohort->members, err);
}

static void count_absences(Cohort *cohort) {
    uint64_t neighbours_bytes = 0;
    const bool masks = cohort->memory->config->recipe.parts[PART_CODE].row == SEND_ROW_masked;
    for (uint32_t i = 0; i < cohort->count && masks; i++)
        if (cohort->members[i].fate != MEMBER_HAS_NO_SAMPLES) neighbours_bytes += MASK_NEIGHBOUR_BYTES;
    if (neighbours_bytes > 0) neighbours_bytes -= MASK_NEIGHBOUR_BYTES; // all but the client itself
    const bool has_model = asks_candidates(cohort->memory->config);     // from its evaluation
    cohort->dropped_out = cohort->straggling = cohort->late = 0;
    for (uint32_t i = 0; i < cohort->count; i++) {
        const Member *member = &cohort->members[i];
        bool hands_in = member->fate == MEMBER_ARRIVES || member->fate == MEMBER_IS_LATE;
        cohort->dropped_out += member->fate == MEMBER_DROPS_OUT;
        cohort->straggling += member->straggles;
        cohort->late += member->fate == MEMBER_IS_LATE;
        if (!has_model) cohort->down_bytes += cohort->down_each;
        if (hands_in) cohort->up_bytes += cohort->up_each + neighbours_bytes;
    }
}

void cohort_count_sent(Cohort *cohort, const Queue *queue) {
    for (uint32_t i = 0; i < queue->count; i++)
        cohort->up_bytes = cohort->up_bytes - cohort->sent_each + queue->jobs[i].sent_bytes;
}

static int job_order(const void *a, const void *b) {
    const Member *x = a, *y = b;
    bool x_trains = x->fate == MEMBER_ARRIVES, y_trains = y->fate == MEMBER_ARRIVES;
    uint64_t x_work = (uint64_t)x->samples * x->epochs, y_work = (uint64_t)y->samples * y->epochs;
    if (x_trains != y_trains) return x_trains ? -1 : 1;
    if (x_work != y_work) return x_work > y_work ? -1 : 1; // so that the last job to end is a small one
    return (x->client > y->client) - (x->client < y->client);
}

bool cohort_wants_losses(const Cohort *cohort) {
    return combine_wants_losses(&cohort->memory->config->recipe.parts[PART_COMBINE]) && cohort->jobs > 0;
}

bool cohort_takes_notes(const RunConfig *config) {
    const World *world = &config->world;
    return combine_rules[config->recipe.parts[PART_COMBINE].row]->learn != NULL ||
           (world->sampling == SAMPLING_POWER_OF_CHOICE && world->candidates_by == CANDIDATES_LAST);
}

Status cohort_begin_notes(double **notes, const RunConfig *config, Error *err) {
    const bool weights = combine_rules[config->recipe.parts[PART_COMBINE].row]->learn != NULL;
    *notes = NULL;
    if (!cohort_takes_notes(config)) return STATUS_OK;
    *notes = malloc(config->clients * sizeof **notes);
    if (!*notes) return fail(err, STATUS_OS, "no memory for a list of %u clients", config->clients);
    for (uint32_t client = 0; client < config->clients; client++)
        (*notes)[client] = weights ? 0 : INFINITY;
    return STATUS_OK;
}

void cohort_note(Cohort *cohort, const Queue *queue) {
    const RunMemory *memory = cohort->memory;
    if (!memory->client_notes || combine_rules[memory->config->recipe.parts[PART_COMBINE].row]->learn) return;
    for (uint32_t i = 0; i < queue->count; i++) {
        const Job *job = &queue->jobs[i];
        if (job->state == JOB_DONE) memory->client_notes[job->client] = job->loss_sum / (double)job->samples;
    }
}

// The shares are the weights learned so far; those of the next round follow from the losses. drawn and losses are free.
static Status learn_weights(Cohort *cohort, Error *err) {
    const RunConfig *config = cohort->memory->config;
    const Chosen *chosen = &config->recipe.parts[PART_COMBINE];
    double *notes = cohort->memory->client_notes, *weights = malloc(2 * cohort->jobs * sizeof *weights);
    if (!weights) return fail(err, STATUS_OS, "no memory for the weights of %u clients", cohort->jobs);
    for (uint32_t place = 0; place < cohort->jobs; place++) {
        Member *member = &cohort->members[place];
        weights[place] = cohort->round == 1 ? 1.0 / cohort->jobs : notes[member->client];
        member->share = weights[place];
    }
    combine_rules[chosen->row]->learn(weights, cohort->losses, cohort->jobs, chosen->number, weights + cohort->jobs);
    for (uint32_t place = 0; place < cohort->jobs; place++)
        notes[cohort->members[place].client] = weights[place];
    free(weights);
    return STATUS_OK;
}

Status cohort_weigh(Cohort *cohort, Nodes *nodes, Error *err) {
    const RunConfig *config = cohort->memory->config;
    const Chosen *chosen = &config->recipe.parts[PART_COMBINE];
    if (combine_rules[chosen->row]->learn)
        TRY(learn_weights(cohort, err));
    else
        cohort_shares(&cohort->shares, cohort->members, cohort->count, &config->world, chosen);
    cohort->up_bytes += (uint64_t)cohort->jobs * REPORT_BYTES;
    return nodes_broadcast(nodes, cohort->members, cohort->count * sizeof *cohort->members,
                           err); // pow is the library's
}

Status cohort_complete(Cohort *cohort, Nodes *nodes, Error *err) {
    const RunConfig *config = cohort->memory->config;
    world_absences(cohort->members, cohort->count, &config->world, config->training.local_epochs, config->seed,
                   cohort->round);
    TRY(find_durations(cohort, nodes, err));
    Arrivals arrivals = world_arrivals(cohort->members, cohort->count, cohort->wanted, &config->world);
    cohort_shares(&cohort->shares, cohort->members, cohort->count, &config->world, &config->recipe.parts[PART_COMBINE]);
    if (config->release.hides) release_shares(&cohort->shares, cohort->members, cohort->count, cohort->wanted);
    count_absences(cohort);
    qsort(cohort->members, cohort->count, sizeof *cohort->members, job_order);
    cohort->microseconds = arrivals.microseconds;
    uint64_t now = cohort->memory->control->totals.microseconds;
    if (cohort->count == 0 && cohort->nobody_until != UINT64_MAX) cohort->microseconds = cohort->nobody_until - now;
    cohort->abandoned = arrivals.abandoned;
    cohort->jobs = arrivals.abandoned ? 0 : arrivals.count;
    return STATUS_OK;
}

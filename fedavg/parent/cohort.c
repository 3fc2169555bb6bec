#include "cohort.h"

#include <assert.h>
#include <stdlib.h>

#include "fedavg/memory/state.h"
#include "fedavg/rules/local/local_rules.h"
#include "fedavg/rules/send/masks.h"
#include "fedavg/rules/send/send_rules.h"
#include "fedavg/rules/world/sampler.h"
#include "fedavg/rules/world/walk.h"

// All of a round's chance but draws and weights by the model's loss is decided before any client trains: that saves the
// training of clients whose updates would be thrown away. Every node computes the cohort itself, from seed and round.
// Numbers that pass through exp, log or pow are taken from node 0, since C libraries differ in the last bit.

// Bytes that travel between the server and one client, if they were two machines. They are counted by the algorithm's
// definition, not by what this program copies, so that the figures compare with papers.
static CohortBytes bytes_of_each(const RunConfig *config, const TensorList *tensors, uint32_t round) {
    CohortBytes each;
    assert(tensors->count > 0);
    const Algorithm algorithm = run_algorithm(config);
    SentWeights sent;
    sent_weights(&sent, tensors, &config->personal, round > 1 ? &config->fragments : NULL, round - 1);
    assert(sent.count <= config->parameters);
    uint64_t whole = sent.count * sizeof(float); // what stays with clients, or is frozen, never travels
    each.down = state_models(config) * whole;
    sent_weights(&sent, tensors, &config->personal, &config->fragments, round);
    whole = sent.count * sizeof(float);
    if (algorithm.traits.has[TRAIT_VOTES]) each.down = bytes_of_bits(sent.count, 2);
    if (algorithm.server->tells) each.down += whole;
    const bool averages = config->training.optimizer_state == OPTIMIZER_AVERAGED; // momenta travel, too
    if (averages) each.down += whole;
    each.sent = send_bytes(&config->recipe.code, &sent);
    each.up = each.sent + REPORT_BYTES;
    if (algorithm.local->asks || averages)
        each.up += algorithm.traits.has[TRAIT_MASKS] ? 2 * whole : whole; // by what its c_k has changed
    return each;
}

static Member member_of(const RunMemory *memory, uint32_t client) {
    assert(client < memory->partition.clients);
    const ClientPace *pace = memory->world_files.paces;
    Member member = {.client = client, .times = 1};
    partition_client(&memory->partition, client, &member.samples);
    if (pace) member.seconds_per_sample = 1e-6 * pace[client].microseconds_per_sample;
    if (pace) member.bytes_per_second = pace[client].bytes_per_second;
    if (memory->world_files.weights) member.weight = memory->world_files.weights[client];
    const ClientPower *power = memory->world_files.powers;
    if (power) member.watts = power[client].watts, member.link_watts = power[client].link_watts;
    member.absent = run_memory_is_absent(memory, client);
    return member;
}

// The sum of the shares is not needed: no combine rule that knows a buffered schedule cuts it.
static void share_step(Member *members, uint32_t count, const World *world, const Chosen *combine) {
    CohortShares whole;
    cohort_shares(&whole, members, count, world, combine);
}

// Simulates the whole run's arrivals before its first round, since durations depend on clients and clock alone and not
// on weights. The schedule then says how many updates ever wait at once, which memory has to hold. All clients are
// listed, since any of them may be drawn in a later round.
static Status simulate(Schedule *schedule, const RunMemory *memory, const RunConfig *config, uint32_t rounds,
                       Error *err) {
    const Recipe *recipe = &config->recipe;
    const CohortBytes each = bytes_of_each(config, &memory->tensors, 1);
    Member *clients = malloc(config->clients * sizeof *clients);
    if (!clients) return fail(err, STATUS_OS, "no memory for %u clients", config->clients);
    for (uint32_t client = 0; client < config->clients; client++)
        clients[client] = member_of(memory, client);
    const ScheduleGiven given = {.world = &config->world,
                                 .clients = clients,
                                 .client_count = config->clients,
                                 .population = memory->population,
                                 .population_count = config->population,
                                 .local_epochs = config->training.local_epochs,
                                 .batch_size = config->training.batch_size,
                                 .down_bytes = each.down,
                                 .up_bytes = each.up,
                                 .seed = config->seed,
                                 .versions = rounds,
                                 .rule = &recipe->schedule,
                                 .stale = &recipe->stale,
                                 .share = share_step,
                                 .combine = &recipe->combine};
    Status status = schedule_simulate(schedule, &given, err);
    free(clients);
    return status;
}

// Durations are drawn with functions of the C library, whose last bits differ between machines: all nodes use node 0's
// schedule. Their number travels first, because a node's own schedule may have another number of trainings.
static Status share_schedule(Schedule *schedule, Nodes *nodes, Error *err) {
    uint32_t count = schedule->count;
    if (nodes->size == 1) return STATUS_OK;
    TRY(nodes_broadcast(nodes, &count, sizeof count, err));
    ScheduledJob *jobs = realloc(schedule->jobs, count * sizeof *jobs);
    if (!jobs) return fail(err, STATUS_OS, "no memory for a schedule of %u trainings", count);
    schedule->jobs = jobs;
    schedule->count = schedule->capacity = count;
    TRY(nodes_broadcast(nodes, jobs, count * sizeof *jobs, err));
    return schedule_complete(schedule, err);
}

// A place holds the integers of one update; where rules need the weights that it began with, a second place holds
// these. Replicas wait in their clients' state and need none.
void cohort_plan_pending(RunConfig *config, const Schedule *schedule) {
    const Traits traits = run_algorithm(config).traits;
    const uint32_t each = traits.has[TRAIT_NEEDS_BEGUN] ? 2 : 1;
    config->slots.pending = traits.has[TRAIT_REPLICAS] ? 0 : each * schedule->most_pending;
}

// In real time arrivals are not known in advance, and other engines wait for all clients of a round.
Status cohort_schedule(RunMemory *memory, RunConfig *config, uint32_t rounds, Nodes *nodes, Error *err) {
    Schedule *schedule = &memory->schedule;
    schedule_free(schedule);
    const EngineFacts *engine = run_algorithm(config).engine;
    if (!engine->buffers || engine->in_real_time) return STATUS_OK;
    TRY(simulate(schedule, memory, config, rounds, err));
    TRY(share_schedule(schedule, nodes, err));
    cohort_plan_pending(config, schedule);
    return STATUS_OK;
}

// With updates that may wait, a round can begin more trainings than there are clients, because a client may begin
// several times from one version: members has room for the largest number.
Status cohort_init(Cohort *cohort, const RunMemory *memory, uint32_t clients_per_round, Error *err) {
    uint32_t clients = memory->config->clients;
    const uint32_t flights = memory->schedule.most_jobs, members = flights > clients ? flights : clients;
    *cohort = (Cohort){
        .memory = memory, .most = clients_per_round, .each = bytes_of_each(memory->config, &memory->tensors, 1)};
    cohort->drawn = own(&cohort->owned, clients, sizeof *cohort->drawn);
    cohort->losses = own(&cohort->owned, 2 * (size_t)clients, sizeof *cohort->losses);
    cohort->samples = own(&cohort->owned, clients, sizeof *cohort->samples);
    cohort->scratch = own(&cohort->owned, (size_t)clients + 1, sizeof *cohort->scratch);
    cohort->members = own(&cohort->owned, members, sizeof *cohort->members);
    const uint32_t lives = memory->config->world.failures.mtbf > 0 ? clients : 0;
    cohort->failures.lives = own(&cohort->owned, lives, sizeof *cohort->failures.lives);
    if (memory->world_files.presences) cohort->there = own(&cohort->owned, clients, sizeof *cohort->there);
    if (cohort->owned.lacks_memory) {
        cohort_free(cohort);
        return fail(err, STATUS_OS, "no memory for %u clients", clients);
    }
    for (uint32_t client = 0; client < clients; client++)
        partition_client(&memory->partition, client, &cohort->samples[client]);
    return STATUS_OK;
}

void cohort_free(Cohort *cohort) {
    owned_free(&cohort->owned);
    *cohort = (Cohort){0};
}

// Clients to draw so that as many as wanted arrive.
static uint32_t selected(const World *world, uint32_t clients, uint32_t wanted) {
    const double size = ceil(world->over_selection * wanted - 1e-9); // 1.1 * 50 is a little more than 55
    return size < clients ? (uint32_t)size : clients;
}

uint32_t cohort_capacity(const World *world, uint32_t clients, uint32_t clients_per_round) {
    if (world->sampling == SAMPLING_POISSON) return clients;
    if (world->sampling == SAMPLING_POWER_OF_CHOICE) return (uint32_t)world->candidates;
    return selected(world, clients, clients_per_round);
}

// Only the first arrivals of a larger draw are kept, so that the others never train.
uint32_t cohort_trains(const World *world, uint32_t clients, uint32_t clients_per_round) {
    return world->sampling == SAMPLING_POISSON ? clients : clients_per_round;
}

// Makes members of the drawn clients; a client that was drawn several times is one member that counts several times.
// Samplers return the clients in ascending order, so that repetitions are neighbours.
static void enlist(Cohort *cohort, uint32_t drawn) {
    cohort->count = 0;
    for (uint32_t i = 0; i < drawn; i++) {
        uint32_t client = cohort->drawn[i];
        Member *last = cohort->count > 0 ? &cohort->members[cohort->count - 1] : NULL;
        assert(client < cohort->memory->config->clients && (!last || client >= last->client)); // ascending
        if (last && last->client == client) {
            last->times++;
            continue;
        }
        cohort->members[cohort->count] = member_of(cohort->memory, client);
        cohort->members[cohort->count++].samples = cohort->samples[client]; // that it holds in this round
    }
}

static bool is_scheduled(const Cohort *cohort) {
    return cohort->memory->schedule.count > 0;
}

// The clients that begin from this round's weights are its members, with the fate that the schedule gives them. Trust
// in a late update is part of the share, because it is known from the schedule how late it will be.
static void enlist_scheduled(Cohort *cohort) {
    const Schedule *schedule = &cohort->memory->schedule;
    assert(cohort->round >= 1 && cohort->round <= schedule->versions);
    cohort->count = 0;
    for (uint32_t flight = schedule->first[cohort->round - 1]; flight < schedule->first[cohort->round]; flight++) {
        const ScheduledJob *job = &schedule->jobs[flight];
        assert(job->start == cohort->round - 1 && (job->applied >= job->start || job->applied == NEVER_APPLIED));
        if (run_memory_is_absent(cohort->memory, job->client)) continue;
        Member *member = &cohort->members[cohort->count++];
        *member = member_of(cohort->memory, job->client);
        member->flight = flight;
        member->epochs = job->epochs;
        member->fate = job->fate;
        member->share = job->weight * job->trust;
    }
}

// With drift of classes a client holds another part of the data set in each round, so that its number of samples
// changes, too.
static void find_samples(Cohort *cohort, uint32_t round) {
    const RunConfig *config = cohort->memory->config;
    if (config->view.drift.row != VIEW_DRIFT_CLASSES) return;
    for (uint32_t client = 0; client < config->clients; client++)
        partition_client(&cohort->memory->partition,
                         view_holding(&config->view, config->seed, round, client, config->clients),
                         &cohort->samples[client]);
}

// The clock waits for the next client only if no client is there: one that its coin keeps out of this round may be
// drawn in the next.
static void find_presence(Cohort *cohort) {
    const RunMemory *memory = cohort->memory;
    const uint32_t *population = memory->population;
    cohort->nobody_until = UINT64_MAX;
    if (!cohort->there) return;
    const uint64_t now = memory->control->totals.microseconds;
    cohort->nobody_until = world_files_presence(cohort->there, &memory->world_files, now);
    for (uint32_t i = 0; i < memory->config->population; i++) {
        const uint32_t client = population ? population[i] : i;
        if (cohort->there[client] && !run_memory_is_absent(memory, client)) cohort->nobody_until = UINT64_MAX;
    }
}

void cohort_expect(Cohort *cohort, uint32_t round) {
    cohort->round = round;
    cohort->shares = (CohortShares){.factor = 1, .total = 1};
    cohort->count = cohort->jobs = cohort->late = 0;
    cohort->abandoned = false;
}

uint32_t cohort_draw(Cohort *cohort, uint32_t size, uint32_t round, bool in_order) {
    const RunConfig *config = cohort->memory->config;
    const Draw draw = {.world = &config->world,
                       .samples = cohort->samples,
                       .there = cohort->there,
                       .scratch = cohort->scratch,
                       .among = cohort->memory->population,
                       .clients = config->population,
                       .size = size,
                       .seed = config->seed,
                       .secret = run_memory_secret(cohort->memory),
                       .round = round,
                       .in_order = in_order};
    assert(round > 0 && size <= config->clients);
    return sampler_draw(cohort->drawn, &draw);
}

// Only `left` of the `drawn` clients are not absent. They are as many as a round can have; clients that were drawn
// beyond the wanted number take the places of absent ones.
static void leave_places(Cohort *cohort, uint32_t drawn, uint32_t left) {
    const uint32_t most = drawn > cohort->wanted ? drawn : cohort->wanted, places = most - (drawn - left);
    if (places < cohort->wanted) cohort->wanted = places;
}

// Absent clients are not asked for their loss.
static void name_candidates(Cohort *cohort, uint32_t drawn) {
    cohort->count = 0;
    for (uint32_t i = 0; i < drawn; i++)
        if (!run_memory_is_absent(cohort->memory, cohort->drawn[i]))
            cohort->drawn[cohort->candidates++] = cohort->drawn[i];
    leave_places(cohort, drawn, cohort->candidates);
}

// Draws as a pure function of seed, round and the simulated time, so that a resumed run draws the clients that it would
// have drawn. With power-of-choice the draw only names candidates, and their losses decide.
void cohort_begin(Cohort *cohort, uint32_t round) {
    const RunConfig *config = cohort->memory->config;
    const World *world = &config->world;
    cohort->wanted = world_cohort(world, cohort->most, round);
    assert(cohort->wanted >= 1 && cohort->wanted <= cohort->most);
    find_samples(cohort, round);
    find_presence(cohort);
    cohort->round = round;
    cohort->each = bytes_of_each(config, &cohort->memory->tensors, round);
    cohort->candidates = 0;
    cohort->down_bytes = cohort->up_bytes = 0;
    cohort->training_joules = cohort->link_joules = 0;
    if (is_scheduled(cohort)) {
        enlist_scheduled(cohort);
        return;
    }
    const uint32_t drawn = cohort_draw(cohort, selected(world, config->population, cohort->wanted), round, false);
    if (world->sampling == SAMPLING_POWER_OF_CHOICE)
        name_candidates(cohort, drawn);
    else
        enlist(cohort, drawn);
}

// Candidates that are asked for their loss get the model, which counts as traffic.
static bool asks_candidates(const RunConfig *config) {
    return config->world.sampling == SAMPLING_POWER_OF_CHOICE && config->world.candidates_by != CANDIDATES_LAST;
}

void cohort_choose(Cohort *cohort) {
    const RunConfig *config = cohort->memory->config;
    uint32_t size = selected(&config->world, config->population, cohort->wanted);
    assert(cohort->candidates > 0 && cohort->candidates <= config->population);
    for (uint32_t i = 0; i < cohort->candidates && asks_candidates(config); i++) {
        const Member candidate = member_of(cohort->memory, cohort->drawn[i]);
        cohort->down_bytes += cohort->each.down;
        cohort->up_bytes += REPORT_BYTES;
        cohort->link_joules += world_link_joules(&candidate, &config->world, cohort->each.down, REPORT_BYTES);
    }
    double *sorted = cohort->losses + config->clients;
    enlist(cohort, sampler_keep_largest(cohort->drawn, sorted, cohort->losses, cohort->candidates, size));
    cohort->candidates = 0;
}

// Plans the member's training: its steps, when it hands in, and its joules. key: of the training.
static void plan_training(Cohort *cohort, Member *member, uint32_t key) {
    const RunConfig *config = cohort->memory->config;
    const uint32_t size = config->training.batch_size, epochs = config->training.local_epochs;
    const uint64_t down = cohort->each.down, up = cohort->each.up;
    const Training training = run_memory_training(cohort->memory);
    const Walk walk = walk_of(&config->recipe.schedule, key, member->epochs);
    assert(member->client < config->clients && size > 0);
    Member work = *member; // as the clock sees it
    work.samples = walk_work(&walk, member->samples, size);
    work.overlap = walk_overlap(&config->recipe.schedule, key);
    member->steps = walk_steps(&walk, member->samples / size + (member->samples % size != 0));
    member->reach = local_reach(&config->recipe.local, &training, member->steps);
    member->end_microseconds = world_duration(&work, &config->world, epochs, down, up, config->seed, key);
    if (cohort->failures.lives)
        member->training_microseconds = world_duration(&work, &config->world, epochs, 0, 0, config->seed, key);
    cohort_failures_meet(&cohort->failures, member, cohort->memory->control->totals.microseconds);
    work.fate = member->fate, work.end_microseconds = member->end_microseconds;
    world_energy(&cohort->training_joules, &cohort->link_joules, &work, &config->world, epochs,
                 asks_candidates(config) ? 0 : down, up, config->seed, key);
}

// Random durations use functions of the C library: node 0's are taken by all nodes.
static Status find_durations(Cohort *cohort, Nodes *nodes, Error *err) {
    for (uint32_t i = 0; i < cohort->count; i++)
        plan_training(cohort, &cohort->members[i], cohort->round);
    if (!world_has_random_durations(&cohort->memory->config->world)) return STATUS_OK;
    return nodes_broadcast(nodes, cohort->members, cohort->count * sizeof *cohort->members, err);
}

// Counts members by their fate, and the traffic of the round. A client that drops out has had the model but sends
// nothing; one that is late has sent in vain. Masks cost every client one message per other member, because pairs of
// clients agree on them.
static void count_absences(Cohort *cohort) {
    const RunConfig *config = cohort->memory->config;
    uint64_t starting = 0, handing_in = 0, masks_bytes = 0;
    cohort->dropped_out = cohort->straggling = cohort->late = 0;
    for (uint32_t i = 0; i < cohort->count; i++) {
        const Member *member = &cohort->members[i];
        starting += member->fate != MEMBER_HAS_NO_SAMPLES;
        handing_in += world_hands_in(member);
        cohort->dropped_out += member->fate == MEMBER_DROPS_OUT;
        cohort->straggling += member->straggles;
        cohort->late += member->fate == MEMBER_IS_LATE;
    }
    if (cohort->memory->algorithm.traits.has[TRAIT_MASKS] && starting > 0)
        masks_bytes = (starting - 1) * MASK_NEIGHBOUR_BYTES;
    for (uint32_t i = 0; i < cohort->count && masks_bytes > 0; i++)
        if (world_hands_in(&cohort->members[i]))
            cohort->link_joules += world_link_joules(&cohort->members[i], &config->world, 0, masks_bytes);
    cohort->up_bytes += handing_in * (cohort->each.up + masks_bytes);
    if (!asks_candidates(config)) cohort->down_bytes += cohort->count * cohort->each.down;
}

// Until here every member counts with the size that the code has by definition; the jobs know the bytes that were
// really made, which vary with some codes.
void cohort_count_sent(Cohort *cohort, const Queue *queue) {
    for (uint32_t i = 0; i < queue->count; i++)
        cohort->up_bytes = cohort->up_bytes - cohort->each.sent + queue->jobs[i].sent_bytes;
}

// The largest jobs first: a large one at the end would have the other workers wait for it.
static int job_order(const void *a, const void *b) {
    const Member *x = a, *y = b;
    bool x_trains = x->fate == MEMBER_ARRIVES, y_trains = y->fate == MEMBER_ARRIVES;
    uint64_t x_work = (uint64_t)x->samples * x->epochs, y_work = (uint64_t)y->samples * y->epochs;
    if (x_trains != y_trains) return x_trains ? -1 : 1;
    if (x_work != y_work) return x_work > y_work ? -1 : 1;
    if (x->client != y->client) return x->client < y->client ? -1 : 1;
    return (x->flight > y->flight) - (x->flight < y->flight);
}

// A round ends with the next version. The updates that its clients send are counted in it, though they may arrive
// later. Nothing is simulated again: fates, shares and times were decided for the whole run before its first round.
static void complete_scheduled(Cohort *cohort) {
    const uint64_t *published = cohort->memory->schedule.published;
    cohort->shares = (CohortShares){.factor = 1, .total = 1};
    cohort->microseconds = published[cohort->round] - published[cohort->round - 1];
    assert(published[cohort->round] >= published[cohort->round - 1]); // no version exists before the one before it
    cohort->jobs = 0;
    for (uint32_t i = 0; i < cohort->count; i++) {
        Member *member = &cohort->members[i];
        const ScheduledJob *job = &cohort->memory->schedule.jobs[member->flight];
        plan_training(cohort, member, schedule_key(job->start, job->visit));
        cohort->jobs += member->fate == MEMBER_ARRIVES;
    }
    count_absences(cohort);
    qsort(cohort->members, cohort->count, sizeof *cohort->members, job_order);
}

// The places of absent clients stay empty: the server neither waits for them nor sends them anything. They are left out
// after stragglers are chosen, so that the fates of all others are those of the run with them.
static void leave_out_absent(Cohort *cohort) {
    const uint32_t drawn = cohort->count;
    cohort->count = 0;
    for (uint32_t i = 0; i < drawn; i++)
        if (!cohort->members[i].absent) cohort->members[cohort->count++] = cohort->members[i];
    leave_places(cohort, drawn, cohort->count);
}

// If all clients drawn are down, the round lasts until the first one works again.
static void leave_out_failed(Cohort *cohort, uint64_t now) {
    const uint32_t drawn = cohort->count;
    cohort->count =
        cohort_failures_leave_out(&cohort->failures, cohort->members, drawn, &cohort->memory->config->world, now);
    if (cohort->count == drawn) return;
    if (cohort->count == 0) cohort->nobody_until = cohort->failures.first_back;
    leave_places(cohort, drawn, cohort->count);
}

// Decides which members arrive before any client trains: those that drop out or are late would train for nothing.
// Shares follow from the members that arrive. Jobs are sorted last, since members keep their places from then on.
Status cohort_complete(Cohort *cohort, Nodes *nodes, Error *err) {
    const RunConfig *config = cohort->memory->config;
    if (is_scheduled(cohort)) {
        complete_scheduled(cohort);
        return STATUS_OK;
    }
    const uint64_t now = cohort->memory->control->totals.microseconds;
    TRY(cohort_failures_begin(&cohort->failures, config, now, nodes, err));
    world_absences(cohort->members, cohort->count, &config->world, config->training.local_epochs, config->seed,
                   cohort->round);
    leave_out_absent(cohort);
    leave_out_failed(cohort, now);
    TRY(find_durations(cohort, nodes, err));
    Arrivals arrivals = world_arrivals(cohort->members, cohort->count, cohort->wanted, &config->world);
    assert(arrivals.count <= cohort->count);
    cohort_shares(&cohort->shares, cohort->members, cohort->count, &config->world, &config->recipe.combine);
    if (config->release.hides)
        release_shares(&cohort->shares, cohort->members, cohort->count, config->release.arriving);
    count_absences(cohort);
    qsort(cohort->members, cohort->count, sizeof *cohort->members, job_order);
    cohort->microseconds = arrivals.microseconds;
    if (cohort->count == 0 && cohort->nobody_until != UINT64_MAX) cohort->microseconds = cohort->nobody_until - now;
    cohort_failures_conclude(&cohort->failures, &cohort->microseconds, cohort->members, cohort->count, &arrivals,
                             &config->world);
    cohort->abandoned = arrivals.abandoned;
    cohort->jobs = arrivals.abandoned ? 0 : arrivals.count;
    assert(cohort->jobs == 0 || cohort->members[cohort->jobs - 1].fate == MEMBER_ARRIVES); // they are first
    return STATUS_OK;
}

// Part of schedule.h: simulates which client trains when, on a clock that jumps from one arrival to the next.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fedavg/rules/world/sampler.h"
#include "fedavg/rules/world/schedule.h"
#include "fedavg/rules/world/stale_rules.h"
#include "fedavg/rules/world/walk.h"

enum {
    MOST_JOBS = 1 << 26,
    MOST_VERSIONS = 1000000, // of any run: an update that would arrive after this many joins none
    LATER_JOBS = 1 << 16,    // jobs after the versions asked for, before finished ones are removed
    FEW_PICKS = 16,          // spare picks: a version rarely begins more clients
};

typedef struct Simulation {
    const ScheduleGiven *given;
    Schedule *schedule;
    Owned owned;
    uint32_t *flying;  // owned (clients): running jobs, as a heap with the first to end at the top
    uint32_t *buffer;  // owned (clients): jobs that arrived since the last version
    uint8_t *busy;     // owned (clients): 1 while it trains; 2 if it must not have a second update in this version
    uint32_t *visits;  // owned (clients): trainings from this version
    uint32_t *picks;   // owned (clients): the order in which clients begin from this version
    uint32_t *samples; // owned (clients)
    uint64_t *scratch; // owned (clients + 1)
    Member *members;   // owned (clients): the clients in the buffer
    uint32_t in_flight, buffered, picked, next;
    uint32_t free_places; // the number of clients that may begin
    uint32_t owing;       // running or buffered jobs of the versions asked for
    uint32_t version;
    uint32_t asked; // jobs of the versions asked for, set when all of these are made
    uint32_t begun; // jobs so far; later ones that have ended may have left the schedule
    uint64_t now;
    uint32_t k, m;
} Simulation;

static const double *numbers(const Simulation *sim) {
    return sim->given->rule->number;
}

// Equal times are decided by the job's number, so that the schedule does not depend on how the heap was built.
static bool ends_before(const Simulation *sim, uint32_t a, uint32_t b) {
    const ScheduledJob *x = &sim->schedule->jobs[a], *y = &sim->schedule->jobs[b];
    return x->end_microseconds != y->end_microseconds ? x->end_microseconds < y->end_microseconds : a < b;
}

static void fly(Simulation *sim, uint32_t job) {
    uint32_t at = sim->in_flight++;
    for (; at > 0 && ends_before(sim, job, sim->flying[(at - 1) / 2]); at = (at - 1) / 2)
        sim->flying[at] = sim->flying[(at - 1) / 2];
    sim->flying[at] = job;
}

static uint32_t land(Simulation *sim) {
    const uint32_t landed = sim->flying[0], last = sim->flying[--sim->in_flight];
    uint32_t at = 0;
    for (uint32_t child; (child = 2 * at + 1) < sim->in_flight; at = child) {
        if (child + 1 < sim->in_flight && ends_before(sim, sim->flying[child + 1], sim->flying[child])) child++;
        if (ends_before(sim, last, sim->flying[child])) break;
        sim->flying[at] = sim->flying[child];
    }
    sim->flying[at] = last;
    return landed;
}

// Draws the order in which clients begin from this version, `size` of it. A longer draw has the same beginning.
static void draw(Simulation *sim, uint32_t size) {
    const ScheduleGiven *given = sim->given;
    const Draw draw = {.world = given->world,
                       .samples = sim->samples,
                       .scratch = sim->scratch,
                       .among = given->population,
                       .clients = given->population_count,
                       .size = size,
                       .seed = given->seed,
                       .round = sim->version + 1,
                       .in_order = true};
    sim->picked = sampler_draw(sim->picks, &draw);
}

// The next client that may begin, in the order of the version's draw, cyclically. Returns whether there is one. The
// draw is made in parts: FEW_PICKS clients beyond K at first, then four times as many whenever they are used up. Most
// versions begin few clients, and a full draw per version would take longer than all the rest of the simulation.
static bool pick(uint32_t *client, Simulation *sim) {
    const uint32_t clients = sim->given->population_count;
    for (uint32_t tried = 0; tried < clients + 1; tried++, sim->next++) {
        if (sim->next >= sim->picked && sim->picked < clients) {
            const uint32_t before = sim->picked, more = 4 * (before > FEW_PICKS ? before : FEW_PICKS);
            draw(sim, before < clients / 4 && more < clients ? more : clients);
            if (sim->picked == before) sim->next = 0; // by-size: the others have no samples
        }
        if (sim->next >= sim->picked) sim->next = 0;
        *client = sim->picks[sim->next];
        if (!sim->busy[*client] && sim->samples[*client] > 0) {
            sim->next++;
            return true;
        }
    }
    return false;
}

// Either so few updates arrive that the versions asked for are never made, or one of their clients is so slow that
// millions of other trainings end before it. The message says which, since the remedies differ.
static Status never_ends(const Simulation *sim, Error *err) {
    const uint32_t versions = sim->given->versions;
    if (sim->version < versions)
        return fail(
            err, STATUS_USAGE,
            "after %d trainings only %u of the %u versions are made; make the durations or the fates of clients "
            "less unequal",
            MOST_JOBS, sim->version, versions);
    uint32_t late = 0;
    while (late + 1 < sim->in_flight && sim->schedule->jobs[sim->flying[late]].start >= versions)
        late++;
    return fail(err, STATUS_USAGE,
                "client %u, which begins from one of the %u versions, has not arrived when %u more are made by %d "
                "trainings; make the durations of clients less unequal",
                sim->schedule->jobs[sim->flying[late]].client, versions, sim->version - versions, MOST_JOBS);
}

static int by_number(const void *a, const void *b) {
    const uint32_t x = **(uint32_t *const *)a, y = **(uint32_t *const *)b;
    return (x > y) - (x < y);
}

// Jobs after the versions asked for are needed only until they have arrived and joined a version. Moves the remaining
// ones together, in order, so that the schedule does not grow while it waits for a slow client.
static Status forget_landed(Simulation *sim, Error *err) {
    Schedule *schedule = sim->schedule;
    if (sim->asked == 0) sim->asked = schedule->count;
    const uint32_t wanted = sim->in_flight + sim->buffered;
    if (schedule->count - sim->asked < LATER_JOBS || schedule->count - sim->asked < 2 * wanted) return STATUS_OK;
    uint32_t **places = malloc((wanted + 1) * sizeof *places), count = 0;
    if (!places) return fail(err, STATUS_OS, "no memory for a list of %u trainings", wanted);
    for (uint32_t i = 0; i < sim->in_flight; i++)
        if (sim->flying[i] >= sim->asked) places[count++] = &sim->flying[i];
    for (uint32_t i = 0; i < sim->buffered; i++)
        if (sim->buffer[i] >= sim->asked) places[count++] = &sim->buffer[i];
    qsort(places, count, sizeof *places, by_number);
    for (uint32_t i = 0; i < count; i++) {
        schedule->jobs[sim->asked + i] = schedule->jobs[*places[i]];
        *places[i] = sim->asked + i;
    }
    schedule->count = sim->asked + count;
    free(places);
    return STATUS_OK;
}

// Starts a client's training from the current version: draws its fate and its duration with the keys of a training. The
// key is the round number of a member of an ordinary cohort (schedule_key), so that a schedule with K = M and
// dispatch=publish draws the fates of fedavg's rounds.
static Status begin(Simulation *sim, uint32_t client, Error *err) {
    const ScheduleGiven *given = sim->given;
    Schedule *schedule = sim->schedule;
    if (sim->begun++ == MOST_JOBS) return never_ends(sim, err);
    if (sim->version >= given->versions) TRY(forget_landed(sim, err));
    ScheduledJob job = {.client = client,
                        .visit = sim->visits[client]++,
                        .start = sim->version,
                        .applied = NEVER_APPLIED,
                        .pending = NO_PENDING,
                        .begin_microseconds = sim->now};
    const uint32_t key = schedule_key(job.start, job.visit);
    Member member = given->clients[client];
    world_absences(&member, 1, given->world, given->local_epochs, given->seed, key);
    job.epochs = member.epochs;
    job.fate = member.fate;
    const Walk walk = walk_of(given->rule, key, member.epochs);
    member.samples = walk_work(&walk, member.samples, given->batch_size);
    job.end_microseconds = sim->now + world_duration(&member, given->world, given->local_epochs, given->down_bytes,
                                                     given->up_bytes, given->seed, key);
    TRY(schedule_add(schedule, &job, err));
    sim->busy[client] = 1;
    if (job.start < given->versions) sim->owing++;
    fly(sim, schedule->count - 1);
    return STATUS_OK;
}

// Whether a client that began now would leave a running one too many versions behind.
static bool must_wait(const Simulation *sim) {
    const double bound = numbers(sim)[BUFFERED_BOUND];
    for (uint32_t i = 0; i < sim->in_flight && !isnan(bound); i++)
        if (sim->version - sim->schedule->jobs[sim->flying[i]].start > bound) return true;
    return false;
}

static Status dispatch(Simulation *sim, Error *err) {
    uint32_t client;
    if (sim->free_places == 0 || must_wait(sim)) return STATUS_OK; // which clients that begin now do not change
    for (; sim->free_places > 0 && pick(&client, sim); sim->free_places--)
        TRY(begin(sim, client, err));
    return STATUS_OK;
}

static int by_client(const void *a, const void *b) {
    const ScheduledJob *x = *(ScheduledJob *const *)a, *y = *(ScheduledJob *const *)b;
    if (x->client != y->client) return x->client < y->client ? -1 : 1;
    return (x > y) - (x < y);
}

// The share of each update in the buffer, as in a round of these clients. The jobs are sorted by client, so that sums
// over them do not depend on the order of arrival.
static Status weigh(Simulation *sim, Error *err) {
    const ScheduleGiven *given = sim->given;
    ScheduledJob **jobs = malloc(sim->k * sizeof *jobs);
    if (!jobs) return fail(err, STATUS_OS, "no memory for %u updates", sim->k);
    for (uint32_t i = 0; i < sim->k; i++)
        jobs[i] = &sim->schedule->jobs[sim->buffer[i]];
    qsort(jobs, sim->k, sizeof(ScheduledJob *), by_client);
    for (uint32_t i = 0; i < sim->k; i++) {
        sim->members[i] = given->clients[jobs[i]->client];
        sim->members[i].fate = MEMBER_ARRIVES;
    }
    given->share(sim->members, sim->k, given->world, given->combine);
    for (uint32_t i = 0; i < sim->k; i++) {
        jobs[i]->applied = sim->version;
        jobs[i]->weight = sim->members[i].share;
        jobs[i]->trust = stale_weight(given->stale, sim->version - jobs[i]->start);
        if (jobs[i]->start < given->versions) sim->owing--;
        sim->busy[jobs[i]->client] &= 1;
    }
    free(jobs);
    return STATUS_OK;
}

// Makes a version from the buffer, and draws the order for the next one.
static Status publish(Simulation *sim, Error *err) {
    TRY(weigh(sim, err));
    sim->buffered = 0;
    sim->version++;
    memset(sim->visits, 0, sim->given->client_count * sizeof *sim->visits);
    sim->next = sim->picked = 0;
    const uint32_t wanted = sim->k + FEW_PICKS, clients = sim->given->population_count;
    draw(sim, wanted < clients ? wanted : clients); // a version rarely begins more; pick draws further if it does
    if (numbers(sim)[BUFFERED_DISPATCH] == DISPATCH_PUBLISH) sim->free_places = sim->m - sim->in_flight;
    return STATUS_OK;
}

// Moves the clock to the next arrival. The update is dropped if it is too stale, else buffered; K buffered ones make a
// version. With twice=no the mark 2 keeps the client out until the version is made, where weigh clears it.
static Status arrive(Simulation *sim, Error *err) {
    const bool at_once = numbers(sim)[BUFFERED_DISPATCH] == DISPATCH_ARRIVAL;
    const uint32_t index = land(sim);
    ScheduledJob *job = &sim->schedule->jobs[index];
    sim->now = job->end_microseconds;
    sim->busy[job->client] = 0;
    if (job->fate == MEMBER_ARRIVES && sim->version - job->start > numbers(sim)[BUFFERED_LIMIT])
        job->fate = MEMBER_IS_LATE;
    if (job->fate != MEMBER_ARRIVES) {
        sim->owing -= job->start < sim->given->versions ? 1 : 0;
        sim->free_places++;
        return STATUS_OK;
    }
    if (numbers(sim)[BUFFERED_TWICE] == TWICE_NO) sim->busy[job->client] = 2;
    sim->buffer[sim->buffered++] = index;
    if (at_once) sim->free_places++;
    return sim->buffered == sim->k ? publish(sim, err) : STATUS_OK;
}

// M clients must be able to train at a time, or a place would stay empty for ever: clients without samples cannot.
static Status allocate(Simulation *sim, Error *err) {
    const uint32_t clients = sim->given->client_count, *population = sim->given->population;
    uint32_t able = 0;
    sim->flying = own(&sim->owned, sim->m, sizeof *sim->flying);
    sim->buffer = own(&sim->owned, sim->k, sizeof *sim->buffer);
    sim->busy = own(&sim->owned, clients, sizeof *sim->busy);
    sim->visits = own(&sim->owned, clients, sizeof *sim->visits);
    sim->picks = own(&sim->owned, clients, sizeof *sim->picks);
    sim->samples = own(&sim->owned, clients, sizeof *sim->samples);
    sim->scratch = own(&sim->owned, (size_t)clients + 1, sizeof *sim->scratch);
    sim->members = own(&sim->owned, sim->k, sizeof *sim->members);
    if (sim->owned.lacks_memory) return fail(err, STATUS_OS, "no memory for a schedule of %u clients", clients);
    for (uint32_t client = 0; client < clients; client++)
        sim->samples[client] = sim->given->clients[client].samples;
    for (uint32_t i = 0; i < sim->given->population_count; i++)
        able += sim->samples[population ? population[i] : i] > 0;
    if (able >= sim->m) return STATUS_OK;
    return fail(
        err, STATUS_USAGE,
        "%u clients train at a time (M), but only %u have samples; lower it, or take fewer --clients or another "
        "--partition",
        sim->m, able);
}

// M clients begin at time 0. From then on the clock jumps from one arrival to the next: between two of them nothing
// changes.
static Status run(Simulation *sim, Error *err) {
    TRY(allocate(sim, err));
    draw(sim, sim->given->population_count);
    sim->free_places = sim->m;
    TRY(dispatch(sim, err));
    // Jobs that begin from the last version are simulated to their arrival, too: the run reports when they arrive.
    while (sim->version < sim->given->versions || (sim->owing > 0 && sim->version < MOST_VERSIONS)) {
        TRY(arrive(sim, err));
        TRY(dispatch(sim, err));
    }
    return schedule_complete(sim->schedule, err);
}

Status schedule_simulate(Schedule *schedule, const ScheduleGiven *given, Error *err) {
    *schedule = (Schedule){.versions = given->versions};
    Simulation sim = {.given = given,
                      .schedule = schedule,
                      .k = (uint32_t)given->rule->number[BUFFERED_K],
                      .m = (uint32_t)given->rule->number[BUFFERED_M]};
    Status status = run(&sim, err);
    owned_free(&sim.owned);
    if (status != STATUS_OK) schedule_free(schedule);
    return status;
}

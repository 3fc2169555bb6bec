// Who trains from which version of the model, and which step each update is part of, where nobody waits for everybody
// (schedule buffered): on a simulated clock, before anything is trained.
//
//   TRY(schedule_simulate(&schedule, &given, err));
//   for each version v = 0, 1, ...: the jobs schedule.first[v] to schedule.first[v + 1] - 1 train from its weights, and
//       version v + 1 is made of the updates of the jobs with applied == v, which may have begun long before
//   schedule_free(&schedule);
//
// M clients train at a time, and each takes as long as the world says (world_duration). Updates arrive in a buffer; at
// K of them a server step makes the next version. dispatch=arrival (FedBuff, Nguyen et al., AISTATS 2022): each arrival
// starts the next client at once, from the version of then. dispatch=publish: the next clients start with the version.
// An update's staleness is the number of versions between the one that it began from and the one that its step moves;
// in the long run its mean is (M - 1) / K with arrival, M / K - 1 with publish. With K = M and publish this is FedAvg.
//
// No duration depends on what is trained: so the clients that begin from one version train as the cohort of one
// ordinary round, and an update that arrives later waits as its integer contribution, whose share is known
// (SlotPlan.pending update). Times are whole microseconds, ties go to the lower job; no client trains twice at a time.
#ifndef SOUNDER_FEDAVG_RULES_WORLD_SCHEDULE_H
#define SOUNDER_FEDAVG_RULES_WORLD_SCHEDULE_H

#include "base/err.h"
#include "fedavg/rules/rule.h"
#include "fedavg/rules/world/world.h"

// The numbers of the rule.
enum {
    BUFFERED_K,        // updates that make a version
    BUFFERED_M,        // clients that train at a time, at least K
    BUFFERED_DISPATCH, // DISPATCH_*
    BUFFERED_LAG,      // NAN, or the mean staleness that K follows from
    BUFFERED_BOUND,    // NAN, or: nobody begins while somebody trains from a version older than so many before
    BUFFERED_LIMIT,    // NAN, or: an update that is staler is dropped
    BUFFERED_MIXES,    // MIXES_*: what is averaged
    BUFFERED_TWICE,    // TWICE_*
    BUFFERED_STEPS,    // NAN, or: a client trains so many steps instead of epochs (rules/world/walk.h)
};

enum { DISPATCH_ARRIVAL, DISPATCH_PUBLISH };
enum { MIXES_UPDATES, MIXES_MODELS }; // models: the step goes to the client's weights from those of now (FedAsync)
enum { TWICE_YES, TWICE_NO };         // whether a client may have two updates in one buffer

#define BUFFERED_NUMBERS                                                                                               \
    {                                                                                                                  \
        {.name = "K", .preset = NAN, .minimum = 1, .maximum = 1000, .derived = "10, at most M", .whole = true},        \
            {.name = "M", .preset = NAN, .minimum = 1, .maximum = 1e6, .derived = "clients-per-round", .whole = true}, \
            {.name = "dispatch", .words = {"arrival", "publish"}},                                                     \
            {.name = "lag", .preset = NAN, .minimum = 0, .maximum = 1e6, .derived = "by K and M"},                     \
            {.name = "bound", .preset = NAN, .minimum = 0, .maximum = 1e6, .derived = "none", .whole = true},          \
            {.name = "max-staleness", .preset = NAN, .minimum = 0, .maximum = 1e6, .derived = "none", .whole = true},  \
            {.name = "mixes", .words = {"updates", "models"}}, {.name = "twice", .words = {"yes", "no"}}, {            \
            .name = "steps", .preset = NAN, .minimum = 1, .maximum = 1e6, .derived = "--local-epochs", .whole = true   \
        }                                                                                                              \
    }

enum { NEVER_APPLIED = UINT32_MAX, NO_PENDING = UINT32_MAX };

typedef struct ScheduledJob {
    uint32_t client;
    uint32_t visit;   // so many times the client has begun before from this version; on the real clock, in the run
    uint32_t start;   // the version: 0, 1, ...
    uint32_t applied; // the version whose weights its update moves, >= start; NEVER_APPLIED: none
    uint32_t epochs;  // it does
    uint32_t pending; // where its contribution waits, if applied > start; else NO_PENDING
    MemberFate fate;  // MEMBER_IS_LATE: too stale
    bool refused;     // what it came to; set by the parent
    double weight;    // among the updates of its step; they sum to 1
    double trust;     // what its staleness leaves of that
    uint64_t begin_microseconds, end_microseconds; // since the run began
} ScheduledJob;

typedef struct Schedule {
    ScheduledJob *jobs;  // owned (count): by version, in it as they began
    uint32_t *first;     // owned (versions + 1)
    uint64_t *published; // owned (versions + 1): microseconds until the version is there
    uint32_t count, versions;
    uint32_t most_jobs;    // that begin from one version
    uint32_t most_pending; // that wait at one time
    uint32_t *waiting;     // owned (most_pending): the jobs that wait now, in their order
    uint32_t waiting_count;
} Schedule;

// What the schedule follows from.
typedef struct ScheduleGiven {
    const World *world;    // of its samplings only uniform and by-size without replacement
    const Member *clients; // (client_count): who they are, with samples and pace
    uint32_t client_count, local_epochs, batch_size;
    uint64_t down_bytes, up_bytes; // of each
    uint64_t seed;
    uint32_t versions; // that the run makes; with more of them the beginning stays the same
    const Chosen *rule, *stale;
    // Fills in the shares of members (count) whose updates make a step; combine: its rule.
    void (*share)(Member *members, uint32_t count, const World *world, const Chosen *combine);
    const Chosen *combine;
} ScheduleGiven;

// USAGE where fewer than M clients have samples, or updates hardly ever arrive. Nothing to free on failure.
Status schedule_simulate(Schedule *schedule, const ScheduleGiven *given, Error *err);
void schedule_free(Schedule *schedule);

// Of jobs (count), in their order and with what became of them, the rest of a schedule of so many versions: for one
// that was not simulated. Nothing to free on failure, of the jobs neither.
Status schedule_complete(Schedule *schedule, Error *err);

// The key of the random numbers of a training: that of the round, another one for each visit. version: 0, 1, ...
uint32_t schedule_key(uint32_t version, uint32_t visit);
uint32_t schedule_round(uint32_t key); // version + 1, without the visit

// Fills in which jobs wait when so many versions are made: from the beginning, or from one version to the next.
void schedule_resume(Schedule *schedule, uint32_t versions);
void schedule_advance(Schedule *schedule, uint32_t versions);

#endif

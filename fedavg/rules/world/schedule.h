// The plan of an asynchronous run (schedule buffered): which client trains from which version of the model, and which
// step each update joins. It is simulated on a clock before anything is trained.
//
//   TRY(schedule_simulate(&schedule, &given, err));
//   for each version v = 0, 1, ...: the jobs schedule.first[v] to schedule.first[v + 1] - 1 train from its weights, and
//       version v + 1 is made of the updates of the jobs with applied == v, which may have begun long before
//   schedule_free(&schedule);
//
// M clients train at a time, each for as long as the world says (world_duration). Updates arrive in a buffer; K of them
// make a server step, which creates the next version. dispatch=arrival (FedBuff, Nguyen et al., AISTATS 2022): each
// arrival starts the next client at once, from the current version. dispatch=publish: the next clients start with the
// next version. The staleness of an update is the number of versions between the one it began from and the one that its
// step moves; in the long run its mean is (M - 1) / K with arrival and M / K - 1 with publish. With K = M and publish
// this is FedAvg.
//
// Durations do not depend on training results. So the clients that begin from one version train as the cohort of an
// ordinary round, and an update that joins a later step waits as its integer contribution, whose share is already known
// (SlotPlan.pending). Times are whole microseconds; of jobs that end at the same time the one with the lower index
// counts first; no client trains twice at a time.
#ifndef SOUNDER_FEDAVG_RULES_WORLD_SCHEDULE_H
#define SOUNDER_FEDAVG_RULES_WORLD_SCHEDULE_H

#include "base/err.h"
#include "base/owned.h"
#include "fedavg/rules/rule.h"
#include "fedavg/rules/world/world.h"

// The numbers of the rule.
enum {
    BUFFERED_K,        // updates per version
    BUFFERED_M,        // clients that train at a time, at least K
    BUFFERED_DISPATCH, // DISPATCH_*
    BUFFERED_LAG,      // NAN, or the mean staleness, from which K follows
    BUFFERED_BOUND,    // NAN, or how many versions the oldest client in training may be behind when another begins
    BUFFERED_LIMIT,    // NAN, or the largest staleness of an update that is used
    BUFFERED_MIXES,    // MIXES_*: what is averaged
    BUFFERED_TWICE,    // TWICE_*
    BUFFERED_STEPS,    // NAN, or the steps that a client trains instead of epochs (rules/world/walk.h)
};

enum { DISPATCH_ARRIVAL, DISPATCH_PUBLISH };
enum { MIXES_UPDATES, MIXES_MODELS }; // models: a step from the current weights towards the client's (FedAsync)
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
            .name = "steps", .preset = NAN, .minimum = 1, .maximum = 1e6, .derived = "--local-epochs", .also = "H",    \
            .whole = true                                                                                              \
        }                                                                                                              \
    }

enum { NEVER_APPLIED = UINT32_MAX, NO_PENDING = UINT32_MAX };

typedef struct ScheduledJob {
    uint32_t client;
    uint32_t visit;   // how often the client has begun before, from this version; on the real clock, in the run
    uint32_t start;   // the version: 0, 1, ...
    uint32_t applied; // the version that its update moves, >= start; NEVER_APPLIED: none
    uint32_t epochs;  // local epochs
    uint32_t pending; // the place where its contribution waits, if applied > start; else NO_PENDING
    MemberFate fate;  // MEMBER_IS_LATE: too stale
    bool refused;     // the update was refused; set by the parent
    double weight;    // among the updates of its step, where they sum to 1
    double trust;     // the factor that its staleness leaves of the weight
    uint64_t begin_microseconds, end_microseconds; // since the run began
} ScheduledJob;

typedef struct Schedule {
    ScheduledJob *jobs; // owned (count; with room for capacity): by version, and in order of their start
    Owned owned;
    uint32_t *first;     // owned (versions + 1): the first job of each version
    uint64_t *published; // owned (versions + 1): microseconds until the version exists
    uint32_t count, versions, capacity;
    uint32_t most_jobs;    // jobs that begin from one version, at most
    uint32_t most_pending; // jobs that wait at one time, at most
    uint32_t *waiting;     // owned (most_pending): the jobs that wait now, in order of their start
    uint32_t waiting_count;
} Schedule;

// The input of a simulation. Nothing here depends on weights, which is why the whole run can be simulated before its
// first round.
typedef struct ScheduleGiven {
    const World *world;         // sampling is uniform, or by-size without replacement
    const Member *clients;      // (client_count): with samples and pace
    const uint32_t *population; // (population_count), ascending: clients that are drawn; NULL: all
    uint32_t client_count, population_count, local_epochs, batch_size;
    uint64_t down_bytes, up_bytes; // per client
    uint64_t seed;
    uint32_t versions; // of the run; a schedule with more versions begins with the same jobs
    const Chosen *rule, *stale;
    // Fills in the shares of the members (count) whose updates make a step. combine: the combine rule.
    void (*share)(Member *members, uint32_t count, const World *world, const Chosen *combine);
    const Chosen *combine;
} ScheduleGiven;

// USAGE if fewer than M clients have samples, or if updates hardly ever arrive. Nothing to free on failure.
Status schedule_simulate(Schedule *schedule, const ScheduleGiven *given, Error *err);
void schedule_free(Schedule *schedule);

// Appends a job. OS without memory.
Status schedule_add(Schedule *schedule, const ScheduledJob *job, Error *err);

// Fills in the other fields of a schedule from jobs (count, in order, with their results) and `versions`. OS without
// memory.
Status schedule_complete(Schedule *schedule, Error *err);

// Returns the number that keys the training's random numbers: another one for each visit. version: 0, 1, ...
uint32_t schedule_key(uint32_t version, uint32_t visit);
uint32_t schedule_round(uint32_t key); // version + 1, without the visit

// Fills in the jobs that wait once `versions` versions are made: from the beginning, or from the previous version.
void schedule_resume(Schedule *schedule, uint32_t versions);
void schedule_advance(Schedule *schedule, uint32_t versions);

#endif

// The schedules of an algorithm: how the processes of a run work together, and what memory, options and workers have to
// know of it. Elsewhere nothing compares a kind: memory->algorithm.engine->in_lockstep says what there is to do.
#ifndef SOUNDER_FEDAVG_RULES_WORLD_ENGINE_FACTS_H
#define SOUNDER_FEDAVG_RULES_WORLD_ENGINE_FACTS_H

#include <stdbool.h>

#include "fedavg/rules/rule.h"

// How the processes of a run work together: a row for each schedule, then that of a schedule in real time.
typedef enum EngineKind {
    ENGINE_ROUNDS,     // clients train on their own from the global weights, then come together
    ENGINE_WILD,       // hogwild: workers write the global weights as they train, without locks
    ENGINE_LOCKSTEP,   // ssgd: all meet at every step
    ENGINE_BUFFERED,   // fedbuff: as in rounds, but an update may be part of a later step (rules/world/schedule.h)
    ENGINE_REAL_CLOCK, // schedule buffered with --clock real: updates are part of the step at which they arrive
} EngineKind;

enum { SCHEDULE_COUNT = ENGINE_BUFFERED + 1, ENGINE_COUNT = ENGINE_REAL_CLOCK + 1 };

// The numbers of ENGINE_WILD: a worker takes so many steps on its own before it adds what came of them; it is so many
// updates at most ahead of the slowest, NaN: any number.
// HOGWILD_*: how it writes the shared weights, and whether it trains on all samples or on its part.
enum { WILD_STEPS, WILD_BOUND, WILD_UPDATE, WILD_DATA };
enum { HOGWILD_PLAIN, HOGWILD_ATOMIC }; // plain stores, which may lose updates, or one compare-and-swap a weight
enum { HOGWILD_FULL, HOGWILD_SHARD };

// The number of ENGINE_LOCKSTEP: whether each client has a batch of its own, or all share each batch of all samples.
enum { LOCKSTEP_BATCH };
enum { LOCKSTEP_CLIENT, LOCKSTEP_GLOBAL };

// The facts that memory, options and workers have to know of an engine.
typedef struct EngineFacts {
    RuleText text;            // the schedule of this name; none for ENGINE_REAL_CLOCK
    bool whole_cohort;        // every client takes part in every round
    bool client_is_worker;    // there are as many clients as workers
    bool worker_needs_client; // ... at least as many
    bool writes_weights;      // workers write the global weights; otherwise they only read them
    bool in_lockstep;         // a worker's death ends the round for all, which start it over
    bool buffers;             // updates wait for the step that they are part of
    bool in_real_time;        // the machine decides which that is: no process plans the run, resumes or repeats it
} EngineFacts;

extern const EngineFacts engine_facts[ENGINE_COUNT];

#endif

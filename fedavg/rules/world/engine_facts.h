// The schedules of an algorithm: how the processes of a run work together, as far as memory, options and workers need
// to know. Other code does not compare kinds of engines, but asks a fact: memory->algorithm.engine->in_lockstep.
#ifndef SOUNDER_FEDAVG_RULES_WORLD_ENGINE_FACTS_H
#define SOUNDER_FEDAVG_RULES_WORLD_ENGINE_FACTS_H

#include <stdbool.h>

#include "fedavg/rules/rule.h"

// One kind for each schedule, then one for the buffered schedule in real time.
typedef enum EngineKind {
    ENGINE_ROUNDS,     // clients train on their own from the global weights; the server combines their updates
    ENGINE_WILD,       // hogwild: workers write the global weights as they train, without locks
    ENGINE_LOCKSTEP,   // ssgd: all workers meet at every step
    ENGINE_BUFFERED,   // fedbuff: as in rounds, but an update may join a later step (rules/world/schedule.h)
    ENGINE_REAL_CLOCK, // schedule buffered with --clock real: updates join the step at which they arrive
} EngineKind;

enum { SCHEDULE_COUNT = ENGINE_BUFFERED + 1, ENGINE_COUNT = ENGINE_REAL_CLOCK + 1 };

// The numbers of ENGINE_ROUNDS; ENGINE_BUFFERED has its own steps. steps: NaN if rounds are counted in epochs.
// fragments: NaN if the model travels whole. mix: NaN for 0.5 with a delay, 0 without.
enum { ROUNDS_STEPS, ROUNDS_WARMUP, ROUNDS_FRAGMENTS, ROUNDS_DELAY, ROUNDS_MIX };

// The numbers of ENGINE_WILD: the steps that a worker takes on its own before it adds their result; the most updates
// that it may be ahead of the slowest worker (NaN: any number); how it writes the shared weights (HOGWILD_PLAIN,
// HOGWILD_ATOMIC); whether it trains on all samples or on its part (HOGWILD_FULL, HOGWILD_SHARD).
enum { WILD_STEPS, WILD_BOUND, WILD_UPDATE, WILD_DATA };
enum { HOGWILD_PLAIN, HOGWILD_ATOMIC }; // plain stores, which may lose updates, or one compare-and-swap per weight
enum { HOGWILD_FULL, HOGWILD_SHARD };

// The number of ENGINE_LOCKSTEP: each client has its own batch, or all of them share each batch of all samples.
enum { LOCKSTEP_BATCH };
enum { LOCKSTEP_CLIENT, LOCKSTEP_GLOBAL };

// The facts about an engine that memory, options and workers use.
typedef struct EngineFacts {
    RuleText text;            // the schedule of this name; empty for ENGINE_REAL_CLOCK
    bool whole_cohort;        // every client takes part in every round
    bool client_is_worker;    // there are exactly as many clients as workers
    bool worker_needs_client; // there are at least as many clients as workers
    bool writes_weights;      // workers write the global weights; otherwise they only read them
    bool in_lockstep;         // the death of a worker ends the round for all workers, which start it again
    bool buffers;             // updates wait for their step
    bool in_real_time; // the machine decides the order of updates, so the run is not planned, resumed or repeated
} EngineFacts;

extern const EngineFacts engine_facts[ENGINE_COUNT];

#endif

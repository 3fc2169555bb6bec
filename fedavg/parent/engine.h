// How the parent drives a round, for each kind of engine (rules/world/engine_facts.h): one file and one row.
//
//   engine_rounds.c     the cohort's clients are jobs; the new model is the mean of what they send
//   engine_buffered.c   the same, but an update may be part of a later round's step
//   real_clock.c        the same in real time: the round ends when enough updates have arrived
//   engine_wild.c       every worker is a client and trains the one model in place
//   engine_lockstep.c   a round is all or nothing, and starts over when a worker dies
//
//   engine_plan(&config);                                    // before the memory is created
//   const Engine *engine = &engine_rounds;                   // rounds.c has the engine of each EngineKind
//   TRY(engine->run(rounds, round, err));                    // every job is done, however many workers died
//   TRY(engine->settle(rounds, round, err));                 // the weights are the new model
#ifndef SOUNDER_FEDAVG_PARENT_ENGINE_H
#define SOUNDER_FEDAVG_PARENT_ENGINE_H

#include "base/err.h"
#include "fedavg/memory/layout.h"
#include "fedavg/parent/cohort.h"

// Forward declared: rounds.h includes this header, and an engine's functions get the whole of the rounds.
typedef struct Rounds Rounds;

typedef struct Engine {
    // Plans the data that the slots segment holds beside the state that outlives a round (memory/state.h). NULL: none.
    void (*plan)(SlotPlan *slots, const RunConfig *config);

    // Draws the round's cohort. NULL: as World says (rounds_draw).
    void (*draw)(Cohort *cohort, uint32_t round);

    // Posts the jobs of the round and has the workers do them.
    Status (*run)(Rounds *rounds, uint32_t round, Error *err);

    // Makes what they did the new model. SOFTWARE, with the old one in its place, when it is not finite.
    Status (*settle)(Rounds *rounds, uint32_t round, Error *err);

    // Make and free the engine's own data in Rounds; NULL: it has none. Nothing to free on failure.
    Status (*init)(Rounds *rounds, Error *err);
    void (*free)(Rounds *rounds);

    // Does the parent's work for its workers while they train, as in supervisor.h. NULL: there is none.
    Status (*serve)(Rounds *rounds, bool *busy, Error *err);

    // For engines whose workers train on from round to round; NULL: all are at the barrier when `run` returns.
    // is_enough: whether the round has all its updates. rest: brings the workers to the barrier before they do other
    // work.
    bool (*is_enough)(const Rounds *rounds);
    Status (*rest)(Rounds *rounds, Error *err);

    // Whether a worker that trains waits for others or for a client, so that a lack of progress is no fault of its own.
    // NULL: no worker waits.
    bool (*is_waiting)(const Rounds *rounds, uint32_t rank);
} Engine;

extern const Engine engine_rounds, engine_wild, engine_lockstep, engine_buffered, engine_real_clock;

// *lr: the learning rate of the round's local trainings. Node 0 computes it, since its functions are the library's; all
// nodes use it.
Status engine_lr(float *lr, const RunMemory *memory, Nodes *nodes, uint32_t round, Error *err);

// Fills in config->slots.
void engine_plan(RunConfig *config);

// For engines whose jobs are clients: one for each client of the round's cohort that has samples, dealt to the nodes in
// turn, until all are done.
Status engine_run_clients(Rounds *rounds, uint32_t round, Error *err);

// used (MAX_WORKERS): this node's workers whose sums are part of the round's step; the queue has the jobs of all nodes.
void engine_find_used(bool *used, const Rounds *rounds);

// For engines whose workers write the weights themselves. Takes those for the model, unless they are not finite.
Status engine_adopt(Rounds *rounds, uint32_t round, Error *err);

// SOFTWARE: no update of the round was accepted; or the mean of those that were is not finite. Both name the round's
// learning rate.
Status engine_refused_all(const Rounds *rounds, uint32_t round, Error *err);
Status engine_mean_unfit(const Rounds *rounds, uint32_t round, Error *err);

// Puts the weights back as the round began and fails, since `what` ("weights", "gradients") are no longer finite.
Status engine_reject(Rounds *rounds, uint32_t round, const char *what, Error *err);

#endif

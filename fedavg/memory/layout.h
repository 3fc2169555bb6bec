// The control segment: every struct that the parent and its workers share, offsets only, no pointers.
//
//   [Control | Queue of jobs | MaskedCohort | traces] control segment, read and written by all; traces: one buffer
//                                      a writer, see fedavg/memory/trace.h
//   [data set block]                   data segment (or a file that holds one, see fedavg/memory/dataset_segment.h) and
//   [partition block]                  partition segment, both read-only in workers
//   [safetensors header | weights]     weights segment, a valid safetensors file; read-only in workers of fedavg
//   [lasting vectors | states | sums | pending update | vectors | rows]   slots segment: float vectors of one model
//   each, what
//                                      the server rule remembers (64 bits a weight), int64 sums of each worker, a
//                                      float row for each client of the cohort, as the engine plans them (SlotPlan)
//   [rows of floats]                   what clients keep, a file (memory/client_state_file.h)
//
// An array of the slots segment has one writer at a time, and no two share a cache line:
//   fedavg   a sum a worker: of its clients' weighted updates, see rules/sum/aggregate.h; the server rule's states,
//            written by the parent; a vector of what it tells the clients, if it does. Where the combine rule wants the
//            updates side by side, a row for each of the phase's jobs instead of sums: what that client hands in,
//            written by the job's worker, over again if need be. Where updates may come late, a sum for each that
//            waits, written likewise; the parent adds it to those of its step
//   hogwild  a vector a client (= worker): its velocity, kept from round to round
//   ssgd     the vectors of fedavg/worker/ssgd.h: the velocity, common to all; a gradient a shard
//
// A run on the GPU has weights, slots and data set in three blocks of the GPU's memory (GpuConfig says where). What
// lies here then is what the host needs: the partition, a copy of the weights, and of the slots the vectors that
// outlive a round (velocities, states), and all rows.
#ifndef SOUNDER_FEDAVG_MEMORY_LAYOUT_H
#define SOUNDER_FEDAVG_MEMORY_LAYOUT_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "fedavg/algorithm/recipe.h"
#include "fedavg/memory/client_state_file.h"
#include "fedavg/memory/queue.h"
#include "fedavg/rules/attack/attack_rules.h"
#include "fedavg/rules/local/personal_rules.h"
#include "fedavg/rules/privacy/release_rules.h"
#include "fedavg/rules/sum/shard_sum.h"
#include "fedavg/rules/training.h"
#include "fedavg/rules/world/view_rules.h"
#include "fedavg/rules/world/world.h"
#include "nn/spec.h"
#include "shm/barrier.h"
#include "shm/bell.h"
#include "shm/cuda_share.h"
#include "shm/supervisor.h"

enum { MAX_WORKERS = BARRIER_MAX_RANKS - 1, STALENESS_BUCKETS = 64 };

// The descriptors a worker inherits, from WORKER_FIRST_FD on.
enum {
    FD_CONTROL = WORKER_FIRST_FD,
    FD_DATA,
    FD_PARTITION,
    FD_WEIGHTS,
    FD_SLOTS,
    FD_CLIENT_STATE,
    FD_TRAIN,
    FD_TEST,
    FD_COUNT = 8
};

// The contents of the slots segment, or of the slots block of a run on the GPU.
typedef struct SlotPlan {
    uint32_t vectors; // float (parameters)
    uint32_t
        lasting; // the first so many of them outlive a round (memory/state.h); the others lie behind the pending update
    uint32_t kept;   // the first so many are put back, as the weights, when a round starts over
    uint32_t states; // 64 bits a weight (parameters), behind the lasting vectors; all of them last
    uint32_t sums;   // int64 (parameters), behind the states: `each` of every worker, side by side
    uint32_t each;   // 1; 2 where changes of what clients keep are summed, too, or their momenta
    uint32_t
        pending;   // int64 (parameters), behind the sums: updates that wait for the step they are part of; where those
                   // are compensated or mixed (rules/world/stale_rules.h) the second half are the floats they began
                   // with
    uint32_t rows; // float (parameters), one a job of this node, in the host's memory; vector_bytes apart
    uint64_t vector_bytes, sum_bytes; // strides, multiples of SLOT_ALIGNMENT; a state's is a sum's
} SlotPlan;

enum { SLOT_ALIGNMENT = 256 }; // bytes

// Without rows.
static inline uint64_t slots_bytes(const SlotPlan *slots) {
    return slots->vectors * slots->vector_bytes + (slots->states + slots->sums + slots->pending) * slots->sum_bytes;
}

static inline uint64_t slots_state_offset(const SlotPlan *slots, uint32_t index) {
    return slots->lasting * slots->vector_bytes + index * slots->sum_bytes;
}

// The bytes that are put back when a round starts over.
static inline uint64_t slots_kept_bytes(const SlotPlan *slots) {
    return slots->kept * slots->vector_bytes;
}

// The bytes of the first part, which outlives a round; the host of a run on the GPU has no other part.
static inline uint64_t slots_lasting_bytes(const SlotPlan *slots) {
    return slots_state_offset(slots, slots->states);
}

// The host's segment: rows lie behind the rest of it.
static inline uint64_t slots_host_bytes(const SlotPlan *slots, bool on_gpu) {
    return on_gpu ? slots_lasting_bytes(slots) : slots_bytes(slots);
}

static inline uint64_t slots_rows_bytes(const SlotPlan *slots) {
    return slots->rows * slots->vector_bytes;
}

// which: 0, the updates; 1, the changes of what clients keep.
static inline uint64_t slots_sum_offset(const SlotPlan *slots, uint32_t rank, uint32_t which) {
    return slots_state_offset(slots, slots->states + rank * slots->each + which);
}

static inline uint64_t slots_pending_offset(const SlotPlan *slots, uint32_t place) {
    return slots_state_offset(slots, slots->states + slots->sums + place);
}

static inline uint64_t slots_vector_offset(const SlotPlan *slots, uint32_t index) {
    if (index < slots->lasting) return index * slots->vector_bytes;
    return slots_pending_offset(slots, slots->pending) + (index - slots->lasting) * slots->vector_bytes;
}

// The places of a run's data on the GPU, in bytes from the start of each block.
typedef struct GpuConfig {
    uint32_t used;                                             // 0: the run is on the CPU, and the rest is zeros
    uint32_t gpu;                                              // as CUDA numbers the visible GPUs
    uint32_t models_per_launch;                                // clients that a worker trains in lockstep
    uint32_t tf32;                                             // 1: products may round their factors to 10 bits
    uint64_t updates_offset, generations_offset;               // weights block: weights, Hogwild's counter, words
    uint64_t test_pixels_offset;                               // data block: pixels of training and test samples,
    uint64_t train_labels_offset, test_labels_offset;          // then their labels
    uint64_t weights_bytes, slots_bytes, data_bytes;           // of the blocks
    uint64_t worker_bytes, context_bytes;                      // planned for a worker; of those, for its context
    CudaShareHandle weights_handle, slots_handle, data_handle; // set before the first worker starts
} GpuConfig;

// Constant from before the first worker starts to the end of the run.
typedef struct RunConfig {
    Spec spec; // the net
    Training training;
    World world;
    Recipe recipe;
    ReleasePlan release;      // of its sums
    EngineKind engine;        // of the recipe and the clock
    bool tests_clients;       // models are tested on all clients' own samples, too
    bool inspects_updates;    // their lengths and fingerprints are noted
    uint32_t finetune_epochs; // after which those are evaluated, too; 0: not
    SlotPlan slots;
    ClientStatePlan kept;
    PersonalPlan personal;
    bool begins_with_given; // the weights before the first round are not those that follow from the seed
    uint32_t workers, clients;
    Chosen attack;   // what attackers do (rules/attack/attack_rules.h)
    ViewPlan view;   // how clients see their samples
    uint32_t cohort; // clients that train in a round, at most
    uint32_t log_level;
    uint64_t seed;
    uint64_t parameters;     // floats in the model
    uint64_t weights_offset; // of the first weight in the weights segment, bytes
    uint64_t queue_offset;   // of the Queue in the control segment
    uint64_t masked_offset;  // of the MaskedCohort there; 0: updates are not masked
    uint32_t node, nodes;    // of several machines, each with workers: this one, how many
    uint32_t trace_capacity; // spans in each trace buffer; 0: nothing is traced
    uint64_t trace_offset;   // of the first in the control segment
    GpuConfig gpu;
} RunConfig;

typedef enum PhaseKind { PHASE_NONE, PHASE_TRAIN, PHASE_EVALUATE, PHASE_END } PhaseKind; // END: the worker exits

// An order to the workers. The parent writes it only while all of them stand at the barrier, and sets it back to
// PHASE_NONE when they stand there again: so a replacement that starts in the middle of a phase finds the phase and
// joins it, and one that starts between phases finds nothing to do and goes to the barrier.
typedef struct PhaseOrder {
    uint32_t kind;                  // PhaseKind
    uint32_t round;                 // 1, 2, ...
    float lr;                       // the round's, set when its cohort is drawn
    uint32_t members;               // ssgd: workers that take part
    uint32_t position[MAX_WORKERS]; // ssgd: a rank's place among them, 0 to members - 1
} PhaseOrder;

// The state of a worker's sum (fedavg), so that its finished work outlives it: written by that worker, and by the
// parent when it is dead.
typedef struct SumState {
    // The round whose updates the slot sums; anything else: clear it before the first.
    _Alignas(64) _Atomic uint32_t round;
    // 1 from before an update is added until its job is marked done: a worker that dies in between leaves a sum that
    // no process can use.
    _Atomic uint32_t adding;
} SumState;

// A worker's counts of this round; the parent clears them between rounds, otherwise that worker alone writes them.
typedef struct WorkerTally {
    _Alignas(64) uint64_t first_sample_nanoseconds; // when it began its first job of the run (0: not yet)
    uint64_t synchronising_nanoseconds;             // ssgd: waiting for others and summing gradients
    uint64_t hidden_nanoseconds;                    // of those: summing while a worker still computed gradients
    uint64_t refused_steps;                         // hogwild: steps whose gradient was not finite
    uint64_t staleness[STALENESS_BUCKETS]; // hogwild: updates by others between read and write; last: that many or more
    uint64_t staleness_sum;                // ... of all updates
} WorkerTally;

// hogwild with a bound: how many updates a worker has made in this round, as far as others wait for it. Written by that
// worker, and by the parent when it is dead.
typedef struct WildClock {
    _Alignas(64) _Atomic uint64_t updates; // + 1; 0: no worker waits for it, for it trains nothing
    _Atomic uint32_t waits;                // 1 while it waits for others, which is no fault of its own
} WildClock;

// ssgd: how far the gradients of a round are, bucket by bucket (fedavg/rules/sum/shard_sum.h). All counts are of the
// buckets since the round began, steps times buckets; zeroed by the parent before each attempt at a round.
typedef struct GradientPulse {
    _Alignas(64) _Atomic uint64_t complete; // buckets that this member's gradients are complete in
    _Atomic uint64_t finished_nanoseconds;  // when its gradients of the last step were all complete
} GradientPulse;

typedef struct GradientSync {
    GradientPulse members[MAX_WORKERS];                // by position
    _Atomic uint64_t taken[MAX_BUCKETS][MAX_WORKERS];  // slices: the step, + 1, for which a worker sums it
    _Alignas(64) _Atomic uint64_t summed[MAX_BUCKETS]; // slices summed
} GradientSync;

// The time on the simulated clock and the network traffic that all rounds so far needed.
typedef struct WorldTotals {
    uint64_t microseconds, down_bytes, up_bytes;
} WorldTotals;

// How far the tests of the model have come, see app/train/run_goals.h. All zeros: no test yet.
typedef struct Goals {
    uint32_t tested_round; // of the last test
    uint32_t best_round;   // whose test was the best
    double best;           // by the run's figure (app/train/run_figure.h)
    char figure[32];       // its key; "": no test yet, or by a version that named none, which is the accuracy
    uint32_t tests_since_best;
    uint32_t target_round;     // that first reached the target; 0: none has
    double target;             // accuracy; 0: none
    double target_crossing;    // where a line between two tests reached it, in rounds
    WorldTotals target_totals; // of the rounds until then
} Goals;

// The clients that mask updates against each other in this round (rules/send/masks.h): written by the parent when the
// cohort's jobs are posted.
typedef struct MaskedCohort {
    uint32_t count;
    uint32_t clients[]; // (as many as a cohort can have)
} MaskedCohort;

// The client that a worker trains on the real clock. The parent posts it, the worker lands it.
enum { FLIGHT_NONE, FLIGHT_POSTED, FLIGHT_LANDED };

typedef struct Flight {
    Job job;
    _Alignas(64) _Atomic uint32_t state;
    uint32_t version; // of the model that the client began from
    uint64_t begin_nanoseconds, end_nanoseconds;
    Bell bell; // rung by the parent: there is a client, or all are to land
} Flight;

typedef struct Control {
    RunConfig config;
    Barrier phase;    // ranks: the workers, then the parent
    Barrier step;     // ssgd, members of this phase only
    Barrier exchange; // ssgd on several nodes: the members, then the parent
    PhaseOrder order;
    WorldTotals totals; // the parent's, as are the goals
    Goals goals;
    double clip;                           // what updates are clipped to; the parent's, between rounds
    uint32_t victim;                       // of attack mimic: the client it copies, + 1; 0: not yet chosen
    GradientSync gradients;                // ssgd
    _Alignas(64) _Atomic uint64_t updates; // hogwild: steps applied in this round, counted exactly
    // The real clock: versions that are there, and being written; 1: workers are to come to the barrier.
    _Alignas(64) _Atomic uint32_t published;
    _Atomic uint32_t writing, all_land;
    Flight flights[MAX_WORKERS];
    WorkerPulse pulses[MAX_WORKERS];
    SumState sums[MAX_WORKERS];
    WorkerTally tallies[MAX_WORKERS];
    WildClock clocks[MAX_WORKERS];
    Bell clocks_bell; // rung when one of the clocks goes on or is taken out
} Control;

static_assert(offsetof(Control, config) == 0, "config comes first: a reader of any version finds it");
static_assert(offsetof(Control, phase) % 64 == 0 && offsetof(Control, step) % 64 == 0 &&
                  offsetof(Control, exchange) % 64 == 0,
              "barriers own their cache lines");
static_assert(sizeof(WorkerPulse) == 64, "one cache line a worker");

#endif

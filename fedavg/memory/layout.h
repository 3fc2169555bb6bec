// The control segment: all structs that the parent and its workers share. It has offsets instead of pointers.
//
//   [Control | Queue of jobs | MaskedCohort | tensors | metrics | answers | class weights | traces]   control segment,
//                                      read and written by all processes; tensors and metrics only with a trainer,
//                                      answers only without; traces: one buffer per writer, see fedavg/memory/trace.h
//   [data set block]                   data segment (or a file that holds one, see fedavg/memory/dataset_segment.h) and
//   [partition block]                  partition segment, both read-only in workers
//   [safetensors header | weights]     weights segment, a valid safetensors file; read-only in workers of fedavg
//   [lasting vectors | states | sums | pending updates | vectors | rows]   slots segment: float vectors of one model
//                                      each, the server rule's states (64 bits per weight), int64 sums of each worker,
//                                      a float row per client of the cohort, as the engine plans them (SlotPlan)
//   [rows of floats]                   client state, a file (memory/client_state_file.h)
//
// An array of the slots segment has one writer at a time, and no two arrays share a cache line:
//   fedavg   one sum per worker, of its clients' weighted updates, see rules/sum/aggregate.h; the server rule's states,
//            written by the parent; a vector that the server rule sends to the clients, if it has one. If the combine
//            rule needs updates side by side, there is one row per job of the phase instead of sums: the client's
//            update, written by the job's worker, again if the job is repeated. If updates may join a later step,
//            there is one sum per waiting update, written in the same way; the parent adds it to the sums of its step
//   hogwild  one vector per client (= worker): its velocity, kept from round to round
//   ssgd     the vectors of fedavg/worker/ssgd.h: one velocity for all, one gradient per shard
//
// A run on the GPU has weights, slots and data set in three blocks of GPU memory (GpuConfig has their layout). The
// segments then hold what the host needs: the partition, a copy of the weights, all rows, and of the slots the vectors
// that outlive a round (velocities, states).
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
#include "fedavg/rules/local/fragments.h"
#include "fedavg/rules/local/personal_rules.h"
#include "fedavg/rules/noise_key.h"
#include "fedavg/rules/privacy/release_rules.h"
#include "fedavg/rules/sum/shard_sum.h"
#include "fedavg/rules/trainer_plan.h"
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
    FD_NURSERY, // where trainers are asked for
    FD_COUNT = 9,
    FD_OUTPUT = WORKER_FIRST_FD + FD_COUNT // of a worker with a trainer: for its output
};

// The contents of the slots segment, or of the slots block of a run on the GPU.
typedef struct SlotPlan {
    uint32_t vectors; // float (parameters)
    uint32_t
        lasting; // the first ones, which outlive a round (memory/state.h); the others are after the pending updates
    uint32_t restored; // the first ones, which are restored with the weights when a round starts over
    uint32_t states;   // 64 bits per weight (parameters), after the lasting vectors; all of them outlive a round
    uint32_t sums;     // int64 (parameters), after the states: `each` per worker, side by side
    uint32_t each;     // sums per worker: 1, or 2 if client state or momenta are summed as well
    // int64 (parameters), after the sums: updates that wait for their step. If these are compensated or mixed
    // (rules/world/stale_rules.h), the second half are the floats that they began with.
    uint32_t pending;
    uint32_t rows;     // float (parameters), one per job of this node, in the host's memory; vector_bytes apart
    uint32_t recorded; // as many, after the rows: what each job's client handed in (RunConfig.records)
    uint64_t vector_bytes, sum_bytes; // strides, multiples of SLOT_ALIGNMENT; a state has the stride of a sum
} SlotPlan;

enum { SLOT_ALIGNMENT = 256 }; // bytes

// Without rows.
static inline uint64_t slots_bytes(const SlotPlan *slots) {
    assert(slots->vector_bytes % SLOT_ALIGNMENT == 0 && slots->sum_bytes % SLOT_ALIGNMENT == 0);
    return slots->vectors * slots->vector_bytes + (slots->states + slots->sums + slots->pending) * slots->sum_bytes;
}

// The parts of the slots follow each other without padding, since every stride is a multiple of SLOT_ALIGNMENT. All
// offsets are functions of the plan, so that each process finds an array without a table of addresses.
static inline uint64_t slots_state_offset(const SlotPlan *slots, uint32_t index) {
    return slots->lasting * slots->vector_bytes + index * slots->sum_bytes;
}

// The bytes that are restored when a round starts over.
static inline uint64_t slots_restored_bytes(const SlotPlan *slots) {
    return slots->restored * slots->vector_bytes;
}

// The bytes of the first part, which outlives a round. The host of a run on the GPU has only this part.
static inline uint64_t slots_lasting_bytes(const SlotPlan *slots) {
    return slots_state_offset(slots, slots->states);
}

// The host's segment, without rows, which come after it.
static inline uint64_t slots_host_bytes(const SlotPlan *slots, bool on_gpu) {
    return on_gpu ? slots_lasting_bytes(slots) : slots_bytes(slots);
}

static inline uint64_t slots_rows_bytes(const SlotPlan *slots) {
    return slots->rows * slots->vector_bytes;
}

static inline uint64_t slots_recorded_bytes(const SlotPlan *slots) {
    return slots->recorded * slots->vector_bytes;
}

// which: 0 for updates; 1 for changes of client state.
static inline uint64_t slots_sum_offset(const SlotPlan *slots, uint32_t rank, uint32_t which) {
    assert(which < slots->each);
    return slots_state_offset(slots, slots->states + rank * slots->each + which);
}

// Pending updates have the stride of sums and follow them.
static inline uint64_t slots_pending_offset(const SlotPlan *slots, uint32_t place) {
    assert(place <= slots->pending); // the end is where the other vectors begin
    return slots_state_offset(slots, slots->states + slots->sums + place);
}

// Lasting vectors are first and the others last. So the vectors and states that outlive a round are one run of bytes at
// the start, which is all that the host of a run on the GPU has.
static inline uint64_t slots_vector_offset(const SlotPlan *slots, uint32_t index) {
    assert(index <= slots->vectors && slots->lasting <= slots->vectors); // the end is that of the segment
    if (index < slots->lasting) return index * slots->vector_bytes;
    return slots_pending_offset(slots, slots->pending) + (index - slots->lasting) * slots->vector_bytes;
}

// The layout of a run's data on the GPU, in bytes from the start of each block.
typedef struct GpuConfig {
    uint32_t used;                                             // 0: the run is on the CPU, and the rest is zeros
    uint32_t gpu;                                              // as CUDA numbers the visible GPUs
    uint32_t models_per_launch;                                // clients that a worker trains side by side
    uint64_t stride;                                           // floats from one local model to the next
    uint32_t tf32;                                             // 1: products may round their factors to 10 bits
    uint64_t updates_offset, generations_offset;               // weights block: weights, Hogwild's counter, words
    uint64_t test_pixels_offset;                               // data block: pixels of training and test samples,
    uint64_t train_labels_offset, test_labels_offset;          // then their labels
    uint64_t weights_bytes, slots_bytes, data_bytes;           // of the blocks
    uint64_t worker_bytes, context_bytes;                      // planned per worker; the part of them for its context
    CudaShareHandle weights_handle, slots_handle, data_handle; // set before the first worker starts
} GpuConfig;

// Constant from before the first worker starts until the end of the run.
typedef struct RunConfig {
    Spec spec; // the net
    Training training;
    World world;
    Recipe recipe;
    ReleasePlan release;      // of its sums
    EngineKind engine;        // of the recipe and the clock
    bool tests_clients;       // models are also tested on each client's own samples
    bool inspects_updates;    // lengths and fingerprints of updates are recorded
    bool records;             // what each client hands in stays for the parent to read until the next round
    uint32_t finetune_epochs; // epochs of fine-tuning before a second test on clients' samples; 0: none
    SlotPlan slots;
    ClientStatePlan client_state;
    PersonalPlan personal;
    Fragments fragments;
    bool begins_with_given; // the initial weights are given, instead of following from the seed
    uint32_t workers, clients;
    uint32_t population;       // clients that are drawn: all but new ones
    uint32_t arriving;         // drawn clients that are not absent (--without); rules count these
    uint64_t arriving_samples; // samples of arriving clients, with those held out; 0: of all clients
    Chosen attack;             // the attackers' behaviour (rules/attack/attack_rules.h)
    ViewPlan view;             // how clients see their samples
    TrainerPlan trainer;
    TrainerPlan aggregator;    // the program that combines updates; no command: the algorithm's rule does
    uint32_t aggregator_keeps; // vectors (parameters) that it remembers
    uint32_t cohort;           // clients that train in a round, at most
    uint32_t log_level;
    uint64_t seed;
    uint32_t noise_key;      // NoiseKeyKind
    bool hides_cohorts;      // the record does not say who was drawn
    bool hides_batches;      // nor which samples, for a private step
    uint64_t parameters;     // floats in the model
    uint64_t tensors_offset; // of its tensors in the control segment; 0: they are the spec's
    uint32_t tensor_count;   // how many tensors it has
    uint64_t weights_offset; // of the first weight in the weights segment, bytes
    uint64_t queue_offset;   // of the Queue in the control segment
    uint64_t masked_offset;  // of the MaskedCohort there; 0: updates are not masked
    uint64_t metrics_offset; // of the trainer's metrics there, one MetricSums per job; 0: no trainer
    bool weighs_classes;     // a sample of each class counts by a weight in the local steps
    uint64_t balance_offset; // of the weights of classes there; 0: each is 1
    uint64_t answers_offset; // of the answers to the samples of a test there; 0: a trainer gives none
    uint32_t node, nodes;    // of several machines, each with workers: this one's index, their number
    uint32_t trace_capacity; // spans in each trace buffer; 0: no trace
    uint64_t trace_offset;   // of the first in the control segment
    GpuConfig gpu;
} RunConfig;

// The part of a loss that steps minimise, and by which rules weigh clients. Users see the squared loss as the mean
// square; the gradient, output - target, is that of half of it.
static inline double run_objective(const RunConfig *config) {
    return config->spec.squared_loss ? 0.5 : 1;
}

typedef enum PhaseKind { PHASE_NONE, PHASE_TRAIN, PHASE_EVALUATE, PHASE_END } PhaseKind; // END: the worker exits

// An order to the workers. The parent writes it only while all of them wait at the barrier, and sets it back to
// PHASE_NONE when they wait there again. So a replacement that starts during a phase finds the phase and joins it, and
// one that starts between phases finds nothing to do and goes to the barrier.
typedef struct PhaseOrder {
    uint32_t kind;                  // PhaseKind
    uint32_t round;                 // 1, 2, ...
    float lr;                       // the round's, set when its cohort is drawn and before each test
    uint32_t members;               // ssgd: workers that take part
    uint32_t most_steps;            // ssgd: of an epoch, in a rehearsal; 0: all
    uint32_t position[MAX_WORKERS]; // ssgd: a rank's index among them, 0 to members - 1
} PhaseOrder;

// The state of a worker's sum (fedavg), which keeps its finished work usable after its death: written by that worker,
// and by the parent once the worker is dead.
typedef struct SumState {
    // The round whose updates the slot sums; with any other value the slot is cleared before the first update.
    _Alignas(64) _Atomic uint32_t round;
    // 1 from before an update is added until its job is marked done: a worker that dies in between leaves a sum that is
    // unusable.
    _Atomic uint32_t adding;
} SumState;

// A worker's counts of this round. The parent clears them between rounds; otherwise only the worker writes them. Each
// tally has cache lines of its own, so that counting costs no traffic between cores.
typedef struct WorkerTally {
    _Alignas(64) uint64_t first_sample_nanoseconds; // when it began its first job of the run; 0: not yet
    uint64_t synchronising_nanoseconds;             // ssgd: time spent waiting for other workers and summing gradients
    uint64_t hidden_nanoseconds;           // the part of it during which another worker still computed gradients
    uint64_t refused_steps;                // hogwild: steps whose gradient was not finite
    uint64_t staleness[STALENESS_BUCKETS]; // hogwild: updates by others between read and write; last: that many or more
    uint64_t staleness_sum;                // ... of all updates
} WorkerTally;

// hogwild with a bound: the number of updates that a worker has made in this round. Written by that worker, and by the
// parent once the worker is dead.
typedef struct WildClock {
    _Alignas(64) _Atomic uint64_t updates; // updates made plus 1; 0 while it trains nothing, so no worker waits for it
    _Atomic uint32_t waits;                // 1 while it waits for others, which the watch for hangs must not count
} WildClock;

// ssgd: the progress of a round's gradients, bucket by bucket (fedavg/rules/sum/shard_sum.h). All counts are of buckets
// since the round began, steps times buckets; the parent zeroes them before each attempt at a round.
typedef struct GradientPulse {
    _Alignas(64) _Atomic uint64_t complete; // buckets that are complete in this member's gradients
    _Atomic uint64_t finished_nanoseconds;  // when its gradients of the last step were complete
} GradientPulse;

typedef struct GradientSync {
    GradientPulse members[MAX_WORKERS];                // by position
    _Atomic uint64_t taken[MAX_BUCKETS][MAX_WORKERS];  // slices: 1 + the step for which a worker sums it
    _Alignas(64) _Atomic uint64_t summed[MAX_BUCKETS]; // slices summed
} GradientSync;

// Simulated time, network traffic and energy of all rounds so far.
typedef struct WorldTotals {
    uint64_t microseconds, down_bytes, up_bytes;
    double training_joules, link_joules;                // 0 where the clients' watts are not known
    uint64_t tokens;                                    // 0 where trainers count none
    uint64_t useful_microseconds, replica_microseconds; // Cohort's; 0 without --failures
} WorldTotals;

// The progress of the model's tests, see app/train/run_goals.h. All zeros: no test yet.
typedef struct Goals {
    uint32_t tested_round; // of the last test
    uint32_t best_round;   // the round of the best test
    double best;           // its result, by the run's figure (app/options/run_figure.h)
    char figure[32]; // its key, a metric's name and side; "": no test yet, or a checkpoint of a version without it,
                     // whose figure is the accuracy
    uint32_t tests_since_best;
    uint32_t target_round;     // the first round that reached the target; 0: none has
    double target;             // value of --target; 0: none
    double target_crossing;    // in rounds: where the line between two tests crosses the target
    WorldTotals target_totals; // of the rounds until then
} Goals;

// The clients that mask updates against each other in this round (rules/send/masks.h); written by the parent when it
// posts the cohort's jobs.
typedef struct MaskedCohort {
    uint32_t count;
    uint32_t clients[]; // (as many as the largest cohort)
} MaskedCohort;

// The client that a worker trains on the real clock. The parent posts it; the worker reports it as landed.
enum { FLIGHT_NONE, FLIGHT_POSTED, FLIGHT_LANDED };

typedef struct Flight {
    Job job;
    _Alignas(64) _Atomic uint32_t state;
    uint32_t version; // of the model that the client began from
    uint64_t begin_nanoseconds, end_nanoseconds;
    Bell bell; // rung by the parent: a client is posted, or all flights must end
} Flight;

// A turn that a trainer did not finish.
enum { TRAINER_FAULTS = 4, TRAINER_FAULT_BYTES = 232 };

typedef struct TrainerFault {
    uint32_t round, client; // client: UINT32_MAX: the server's own job, as the test
    double seconds;         // that the turn had taken
    char what[TRAINER_FAULT_BYTES];
} TrainerFault;

typedef struct TrainerFaults {
    _Atomic uint32_t
        written;    // by the worker, in the run so far; last[written % TRAINER_FAULTS] is the next one's place
    uint32_t taken; // by the parent
    TrainerFault last[TRAINER_FAULTS];
} TrainerFaults;

// Its fields are of three kinds. The configuration is constant from before the first worker starts. The order, totals,
// goals and numbers of the parent are written while all workers wait at the barrier, so that plain stores suffice: the
// barrier publishes them. All else changes during a phase, and is atomic, or belongs to one writer until the next
// gather, or (a flight) changes hands by a store that its reader acquires.
typedef struct Control {
    RunConfig config;
    Barrier phase;    // ranks: the workers, then the parent
    Barrier step;     // ssgd, members of this phase only
    Barrier exchange; // ssgd on several nodes: the members, then the parent
    PhaseOrder order;
    WorldTotals totals; // the parent's, like the goals
    Goals goals;
    double clip;                           // the clipping norm; written by the parent between rounds
    NoiseKey noise_key;                    // constant, like the configuration; zeros without noise
    uint32_t victim;                       // attack mimic: 1 + the client that it copies; 0: not yet chosen
    uint32_t cluster;                      // of several models the one that is tested as the global one
    GradientSync gradients;                // ssgd
    _Alignas(64) _Atomic uint64_t updates; // hogwild: exact number of steps applied in this round
    // The real clock: versions that exist; that are being written; 1 when workers must return to the barrier.
    _Alignas(64) _Atomic uint32_t published;
    _Atomic uint32_t writing, all_land;
    Flight flights[MAX_WORKERS];
    WorkerPulse pulses[MAX_WORKERS];
    _Atomic uint32_t forks;                 // 1: trainers are asked for at FD_NURSERY
    uint32_t has_output;                    // 1: workers inherit FD_OUTPUT
    _Atomic uint32_t given_up[MAX_WORKERS]; // 1: the worker ends by a trainer that will not do better elsewhere
    _Atomic uint32_t samples_warned;        // 1: the log says that a turn was trained on more samples than it has
    _Atomic uint32_t steps_warned;          // 1: the log says that trainers make other steps than asked
    _Atomic uint32_t parts_warned;  // 1: the log says that a figure of a whole turn is a mean over parts of a test
    _Atomic uint32_t trainer_reads; // what trainers have read of the options (trainer/reads.h)
    TrainerFaults faults[MAX_WORKERS];
    _Atomic int32_t trainer_pids[MAX_WORKERS]; // as the trainer of a rank has told it; 0: it has not
    _Atomic int32_t guard_pids[MAX_WORKERS];   // of the guard of a rank's trainer; 0: it has none, or is a fork
    SumState sums[MAX_WORKERS];
    WorkerTally tallies[MAX_WORKERS];
    WildClock clocks[MAX_WORKERS];
    Bell clocks_bell; // rung when a clock advances or is taken out
} Control;

static_assert(offsetof(Control, config) == 0, "config comes first: a reader of any version finds it");
static_assert(offsetof(Control, phase) % 64 == 0 && offsetof(Control, step) % 64 == 0 &&
                  offsetof(Control, exchange) % 64 == 0,
              "barriers own their cache lines");
static_assert(sizeof(WorkerPulse) == 64, "one cache line a worker");

#endif

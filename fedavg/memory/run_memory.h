// One process's view of the segments of a run (fedavg/memory/layout.h describes their contents).
//
//   parent:  TRY(run_memory_load(&memory, &source, NULL, &partition, err)); // first the data: it has the classes
//            TRY(run_memory_create(&memory, &plan, err));                // then the segments sized by the model
//            run_memory_worker_fds(&memory, fds);
//   worker:  TRY(run_memory_attach(&memory, err));
//   both:    run_memory_free(&memory);
//
// The pointers below borrow from the segments and live as long as the RunMemory.
#ifndef SOUNDER_FEDAVG_MEMORY_RUN_MEMORY_H
#define SOUNDER_FEDAVG_MEMORY_RUN_MEMORY_H

#include "base/err.h"
#include "base/owned.h"
#include "datasets/dataset.h"
#include "datasets/partition.h"
#include "fedavg/algorithm/algorithm.h"
#include "fedavg/memory/dataset_segment.h"
#include "fedavg/memory/layout.h"
#include "fedavg/memory/queue.h"
#include "fedavg/memory/trace.h"
#include "fedavg/memory/world_files.h"
#include "fedavg/rules/metric_sums.h"
#include "fedavg/rules/send/masks.h"
#include "fedavg/rules/server/server_rule.h"
#include "fedavg/rules/world/schedule.h"
#include "nn/answers.h"
#include "shm/segment.h"

// The parent's plan of a run, made after the data is loaded.
typedef struct RunPlan {
    RunConfig config;           // offsets are filled in by run_memory_create
    uint32_t job_capacity;      // jobs in the largest phase
    const char *weights_header; // safetensors header (weights_header_bytes), a multiple of 64
    size_t weights_header_bytes;
    uint32_t spins;                    // of the barriers
    const Folder *client_state_folder; // folder of the client state file; NULL: in memory
    uint32_t trace_capacity;           // spans of one writer; 0: no trace
} RunPlan;

// Bytes of the segments that run_memory_create makes.
typedef struct RunMemorySizes {
    size_t weights, slots, control;
} RunMemorySizes;

// Segments and descriptors are owned by each process for itself. Arrays that only the parent has are marked: workers
// need no schedule, attackers or files, since a job says all that concerns its client.
typedef struct RunMemory {
    Segment control_segment, partition_segment, weights_segment, slots_segment;
    DatasetSegment data_segment;
    ClientStateFile client_state;
    Owned owned;                   // parent: the lists of clients below
    uint8_t *attackers;            // parent, owned (clients): 1 for attackers; NULL: there are none
    uint8_t *absent;               // parent, owned (clients): 1 for clients that never arrive; NULL: there are none
    uint8_t *new_clients;          // parent, owned (clients): 1 for clients that never train; NULL: there are none
    uint32_t *population;          // parent, owned (config.population): all others, ascending; NULL: all clients
    double *client_notes;          // parent, owned (clients): a number per client (parent/cohort.h); NULL: none
    uint64_t *client_steps;        // parent, owned (clients): private steps so far; NULL: steps are not private
    WorldFiles world_files;        // parent, owned; all zeros without files
    Schedule schedule;             // parent, owned; all zeros unless the schedule is buffered
    uint32_t *client_state_table;  // parent, owned (client_state_table_size): each client's row; NULL: none
    uint32_t *client_state_before; // parent, owned: the table of the checkpoint before the resumed one; NULL: none
    int partition_fd, weights_fd;  // parent: what workers inherit where they may not write; else -1
    Control *control;
    const RunConfig *config; // the control segment's
    Algorithm algorithm;     // of the run; private to this process
    Queue *queue;
    MetricSums *metrics;  // one per job of the queue, written by the job's worker; NULL without a trainer
    float *class_weights; // (classes) what a sample of each class counts in a local step; NULL: 1
    Answer *answers;      // of the last test, by the place of a sample in its set (spec_answers); NULL with a trainer
    Dataset data;
    Partition partition;
    float *weights;     // (parameters) the shared model
    TensorList tensors; // of the model; in the control segment, before run_memory_create the caller's
    uint8_t *slots;
} RunMemory;

// The algorithm of a run: its recipe's rules, with the engine that its clock asks for. For code with a RunConfig but no
// RunMemory.
Algorithm run_algorithm(const RunConfig *config);

// Maps or reads the data set and builds the partition, each in its segment. Nothing to free on failure. ready: the
// segment of a data set that is already loaded, which is taken over; NULL to load it.
Status run_memory_load(RunMemory *memory, const DatasetSource *source, const DatasetSegment *ready,
                       const PartitionSpec *partition, Error *err);

// Builds another partition of the same data; only before run_memory_create.
Status run_memory_partition(RunMemory *memory, const PartitionSpec *partition, Error *err);

// The sizes of the other segments; fills in the offsets of plan->config, and allocates nothing.
RunMemorySizes run_memory_sizes(const RunMemory *memory, RunPlan *plan);

// Creates the other segments. On failure the whole memory is freed, including the data.
Status run_memory_create(RunMemory *memory, RunPlan *plan, Error *err);

// In a worker: maps the descriptors that it inherits from FD_CONTROL on.
Status run_memory_attach(RunMemory *memory, Error *err);

// In the order of FD_CONTROL, FD_DATA, ...; owned by memory.
void run_memory_worker_fds(int fds[FD_COUNT], const RunMemory *memory);

void run_memory_free(RunMemory *memory);

// The arrays of the slots segment (parameters). For a run on the GPU only the lasting vectors and the states are in it.
// which: 0 for updates, 1 for changes of client state.
float *run_memory_vector(const RunMemory *memory, uint32_t index);
ServerState *run_memory_state(const RunMemory *memory, uint32_t index);
int64_t *run_memory_sum(const RunMemory *memory, uint32_t rank, uint32_t which);

// The row of the client at this place of the phase (parameters), if the plan has rows and the client belongs to this
// node. In the host's memory for a run on the GPU, too.
float *run_memory_row(const RunMemory *memory, uint32_t place);

// The weights that the client at this place of the phase has handed in (parameters), as the server reads them; only
// with RunConfig.records.
float *run_memory_recorded(const RunMemory *memory, uint32_t place);

// The update at this place, which waits for its step (parameters).
int64_t *run_memory_pending(const RunMemory *memory, uint32_t place);

// The weights that it began with (parameters); NULL if no rule uses them.
float *run_memory_begun(const RunMemory *memory, uint32_t place);

// The settings of this round's local trainings: those of the options, with the learning rate of the parent's order.
Training run_memory_training(const RunMemory *memory);

// Samples of a client, with those held out, in the mean over the clients that are drawn.
double run_memory_mean_samples(const RunMemory *memory);

// These say whether a client is drawn and never arrives (--without), is never drawn (--new-clients), or neither. They
// are for the parent, which has the lists.
static inline bool run_memory_is_absent(const RunMemory *memory, uint32_t client) {
    return memory->absent && memory->absent[client];
}
static inline bool run_memory_is_new(const RunMemory *memory, uint32_t client) {
    return memory->new_clients && memory->new_clients[client];
}
static inline bool run_memory_can_arrive(const RunMemory *memory, uint32_t client) {
    return !run_memory_is_absent(memory, client) && !run_memory_is_new(memory, client);
}

// The metrics that the trainer has reported in this job of the queue; NULL if there are none.
const MetricSums *run_memory_metrics(const RunMemory *memory, const Job *job);

// Adds those of all jobs in the queue, in its order. DATA for more metrics than there may be.
Status run_memory_join_metrics(MetricSums *all, const RunMemory *memory, Error *err);

// Notes in the worker's tally when it began its first job of the run.
void run_memory_note_start(const RunMemory *memory, uint32_t rank);

// The end of a message about a weight that moves too far: a remedy for this parameter's layer.
const char *run_memory_remedy(const RunMemory *memory, size_t parameter);

// The key of the draws that an epsilon takes for secret; NULL if they follow from the seed.
const NoiseKey *run_memory_secret(const RunMemory *memory);

// The masks in the sums of `round`; count 0 if updates are not masked.
Masking run_memory_masking(const RunMemory *memory, uint32_t round);
MaskedCohort *run_memory_masked(const RunMemory *memory); // NULL if updates are not masked

// The trace buffer of a rank, the parent's for rank == workers; NULL if the run is not traced.
TraceBuffer *run_memory_trace(const RunMemory *memory, uint32_t rank);

#endif

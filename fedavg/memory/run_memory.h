// One process's view of the five segments of a run (fedavg/memory/layout.h says what lies in them).
//
//   parent:  TRY(run_memory_load(&memory, &source, NULL, &partition, err)); // data first: it says how many classes
//            TRY(run_memory_create(&memory, &plan, err));                // then what the model's size decides
//            run_memory_worker_fds(&memory, fds);
//   worker:  TRY(run_memory_attach(&memory, err));
//   both:    run_memory_free(&memory);
//
// The pointers below borrow from the segments and live as long as the RunMemory.
#ifndef SOUNDER_FEDAVG_MEMORY_RUN_MEMORY_H
#define SOUNDER_FEDAVG_MEMORY_RUN_MEMORY_H

#include "base/err.h"
#include "datasets/dataset.h"
#include "datasets/partition.h"
#include "fedavg/algorithm/algorithm.h"
#include "fedavg/memory/dataset_segment.h"
#include "fedavg/memory/layout.h"
#include "fedavg/memory/queue.h"
#include "fedavg/memory/trace.h"
#include "fedavg/memory/world_files.h"
#include "fedavg/rules/send/masks.h"
#include "fedavg/rules/server/server_rule.h"
#include "fedavg/rules/world/schedule.h"
#include "shm/segment.h"

// What the parent decides once the data is there.
typedef struct RunPlan {
    RunConfig config;           // offsets are filled in by run_memory_create
    uint32_t job_capacity;      // jobs in the largest phase
    const char *weights_header; // safetensors header (weights_header_bytes), a multiple of 64
    size_t weights_header_bytes;
    uint32_t spins;            // of the barriers
    const Folder *kept_folder; // where the file of what clients keep lies; NULL: in memory
    uint32_t trace_capacity;   // spans of one writer; 0: no trace
} RunPlan;

typedef struct RunMemory {
    Segment control_segment, partition_segment, weights_segment, slots_segment;
    DatasetSegment data_segment;
    ClientStateFile kept;
    uint8_t *attackers;     // parent, owned (clients): 1 for those that attack; NULL: nobody does
    double *client_notes;   // parent, owned (clients): a number of each (parent/cohort.h); NULL: none
    WorldFiles world_files; // parent, owned: all zeros without files
    Schedule schedule;      // parent, owned: all zeros where updates never wait
    uint32_t *
        client_state_table; // parent, owned (client_state_table_size): whose row is which (client_state_rows.h); NULL: none
    uint32_t *kept_before;        // parent, owned: the table of the checkpoint before the one resumed; NULL: none
    int partition_fd, weights_fd; // parent: what workers inherit where they may not write, -1 otherwise
    Control *control;
    const RunConfig *config; // the control segment's
    Algorithm algorithm;     // the run's; this process's own
    Queue *queue;
    Dataset data;
    Partition partition;
    float *weights;     // (parameters) the shared model
    TensorList tensors; // the model's; the control segment's, and the caller's before run_memory_create
    uint8_t *slots;
} RunMemory;

// The algorithm of a run: its recipe's, with the engine that its clock asks for. For a RunConfig without a RunMemory.
Algorithm run_algorithm(const RunConfig *config);

// Maps or reads the data set and builds the partition, each in its segment. Nothing to free on failure. ready: the data
// set's segment where it is there already, which is taken over; NULL: it is not.
Status run_memory_load(RunMemory *memory, const DatasetSource *source, const DatasetSegment *ready,
                       const PartitionSpec *partition, Error *err);

// Builds another partition of the same data, before the other segments are created.
Status run_memory_partition(RunMemory *memory, const PartitionSpec *partition, Error *err);

// Creates the other segments. On failure the memory is freed, the data too.
Status run_memory_create(RunMemory *memory, RunPlan *plan, Error *err);

// Maps what the parent's worker inherits at FD_CONTROL and the numbers after it.
Status run_memory_attach(RunMemory *memory, Error *err);

// In the order of FD_CONTROL, FD_DATA, ...; owned by memory.
void run_memory_worker_fds(int fds[FD_COUNT], const RunMemory *memory);

void run_memory_free(RunMemory *memory);

// The arrays of the slots segment (parameters). On the GPU only the lasting vectors and the states are here. which: 0,
// the updates; 1, the changes of what clients keep.
float *run_memory_vector(const RunMemory *memory, uint32_t index);
ServerState *run_memory_state(const RunMemory *memory, uint32_t index);
int64_t *run_memory_sum(const RunMemory *memory, uint32_t rank, uint32_t which);

// What the client at this place of the phase hands in (parameters), where the plan has rows and the client is this
// node's; also on the GPU here.
float *run_memory_row(const RunMemory *memory, uint32_t place);

// An update that waits for the step that it is part of (parameters).
int64_t *run_memory_pending(const RunMemory *memory, uint32_t place);

// The weights that it began with (parameters); NULL: nobody wants them.
float *run_memory_begun(const RunMemory *memory, uint32_t place);

// The numbers of the local trainings of this round: those of the options, with the learning rate of the parent's order.
Training run_memory_training(const RunMemory *memory);

// A worker begins its first job of the run: when that was goes into its tally.
void run_memory_note_start(const RunMemory *memory, uint32_t rank);

// The end of a message about a weight of this parameter that moves too far.
const char *run_memory_remedy(const RunMemory *memory, size_t parameter);

// Whose masks are in the sums of `round`; of count 0 where updates are not masked.
Masking run_memory_masking(const RunMemory *memory, uint32_t round);
MaskedCohort *run_memory_masked(const RunMemory *memory); // NULL: updates are not masked

// The trace buffer of a rank, the parent's for rank == workers; NULL when the run is not traced.
TraceBuffer *run_memory_trace(const RunMemory *memory, uint32_t rank);

#endif

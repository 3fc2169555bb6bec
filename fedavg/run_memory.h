// One process's view of the four segments of a run (shm/layout.h says what lies in them).
//
//   parent:  TRY(run_memory_load(&memory, &source, &partition, err));    // data first: it says how many classes there
//   are
//            TRY(run_memory_create(&memory, &plan, err));                // then what the model's size decides
//            run_memory_worker_fds(&memory, fds);
//   worker:  TRY(run_memory_attach(&memory, err));
//   both:    run_memory_free(&memory);
//
// The pointers below borrow from the segments and live as long as the RunMemory.
#ifndef SOUNDER_FEDAVG_RUN_MEMORY_H
#define SOUNDER_FEDAVG_RUN_MEMORY_H

#include "base/err.h"
#include "datasets/dataset.h"
#include "datasets/partition.h"
#include "shm/layout.h"
#include "shm/queue.h"
#include "shm/segment.h"

// What the parent decides once the data is there.
typedef struct RunPlan {
    RunConfig config;           // sizes and offsets are filled in by run_memory_create
    uint32_t job_capacity;      // jobs in the largest phase
    const char *weights_header; // safetensors header (weights_header_bytes), a multiple of 64
    size_t weights_header_bytes;
    uint32_t spins; // of the barriers
} RunPlan;

typedef struct RunMemory {
    Segment control_segment, data_segment, weights_segment, slots_segment;
    int data_fd, weights_fd; // parent: what workers inherit (read-only where they may not write), -1 otherwise
    Control *control;
    Queue *queue;
    Dataset data;
    Partition partition;
    size_t dataset_bytes, partition_offset, partition_bytes; // in the data segment
    float *weights;                                          // (parameters) the shared model
    uint8_t *slots;
} RunMemory;

// Creates the data segment, reads the data set and builds the partition straight into it. Nothing to free on failure.
Status run_memory_load(RunMemory *memory, const DatasetSource *source, const PartitionSpec *partition, Error *err);

// Creates the other segments. On failure the memory is freed, the data too.
Status run_memory_create(RunMemory *memory, RunPlan *plan, Error *err);

// Maps what the parent's worker inherits at FD_CONTROL, FD_DATA, FD_WEIGHTS and FD_SLOTS.
Status run_memory_attach(RunMemory *memory, Error *err);

// In the order of FD_CONTROL, FD_DATA, ...; owned by memory.
void run_memory_worker_fds(int fds[FD_COUNT], const RunMemory *memory);

void run_memory_free(RunMemory *memory);

// Slot `index` as its algorithm sees it. On the card only the lasting ones are here.
int64_t *run_memory_sum(const RunMemory *memory, uint32_t rank);   // fedavg (parameters)
float *run_memory_floats(const RunMemory *memory, uint32_t index); // hogwild, ssgd (parameters)

// A worker begins its first job of the run: when that was goes into its tally.
void run_memory_note_start(const RunMemory *memory, uint32_t rank);

// How many slots an algorithm needs.
uint32_t run_slot_count(const RunConfig *config);

// Slots [*first, *end) outlive a round and belong in a checkpoint: hogwild one a client, ssgd the last, fedavg none.
void run_lasting_slots(uint32_t *first, uint32_t *end, const RunConfig *config);

#endif

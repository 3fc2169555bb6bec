#include "faults.h"

// One writer per ring, the worker, and one reader, the parent: neither waits for the other, and a worker that is killed
// in the middle of a note leaves a count that does not have it. The count of faults is exact; of more than
// TRAINER_FAULTS in one round only the last ones are described.
void trainer_fault_note(Control *control, uint32_t rank, const TrainerFault *fault) {
    TrainerFaults *ring = &control->faults[rank];
    const uint32_t written = atomic_load_explicit(&ring->written, memory_order_relaxed);
    ring->last[written % TRAINER_FAULTS] = *fault;
    atomic_store_explicit(&ring->written, written + 1, memory_order_release); // pairs with trainer_faults_take
}

uint32_t trainer_faults_take(TrainerFault faults[TRAINER_FAULTS], uint32_t *count, Control *control, uint32_t rank) {
    TrainerFaults *ring = &control->faults[rank];
    const uint32_t written = atomic_load_explicit(&ring->written, memory_order_acquire), all = written - ring->taken;
    *count = all < TRAINER_FAULTS ? all : TRAINER_FAULTS;
    for (uint32_t i = 0; i < *count; i++)
        faults[i] = ring->last[(written - *count + i) % TRAINER_FAULTS];
    ring->taken = written;
    return all;
}

uint32_t trainer_faults_total(const Control *control) {
    uint32_t total = 0;
    for (uint32_t rank = 0; rank < control->config.workers; rank++)
        total += atomic_load_explicit(&control->faults[rank].written, memory_order_relaxed);
    return total;
}

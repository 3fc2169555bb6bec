#include "fedavg/memory/queue.h"

#include <assert.h>
#include <string.h>

size_t queue_bytes(uint32_t capacity) {
    assert(capacity > 0);
    return sizeof(Queue) + capacity * sizeof(Job);
}

void queue_init(Queue *queue, uint32_t capacity) {
    assert((uintptr_t)queue % _Alignof(Queue) == 0);
    memset(queue, 0, queue_bytes(capacity));
    queue->capacity = capacity;
}

void queue_clear(Queue *queue) {
    assert(queue->count <= queue->capacity);
    queue->count = 0;
    atomic_store_explicit(&queue->next, 0, memory_order_relaxed); // the barrier shows it to the workers
}

// A job is cleared whole, so that a field that this phase does not set has no value of an earlier phase.
Job *queue_post(Queue *queue) {
    if (queue->count == queue->capacity) return NULL;
    assert(queue->count < queue->capacity);
    Job *job = &queue->jobs[queue->count++];
    memset(job, 0, sizeof *job);
    return job;
}

// The compare-and-swap decides which of several takers gets the job. Its acquire pairs with the release of job_open for
// jobs that were opened during the phase; other jobs were written before the barrier that began the phase.
Job *queue_take(Queue *queue, uint32_t rank) {
    for (uint32_t i = atomic_load_explicit(&queue->next, memory_order_relaxed); i < queue->count; i++) {
        Job *job = &queue->jobs[i];
        uint32_t free = 0;
        if (!atomic_compare_exchange_strong_explicit(&job->owner, &free, rank + 1, memory_order_acquire,
                                                     memory_order_relaxed))
            continue;
        assert(atomic_load_explicit(&job->state, memory_order_relaxed) == JOB_OPEN); // a finished job keeps its owner
        // All jobs up to this one are claimed. A slower worker may set the hint back, which costs the next one a few
        // steps, or past a job that the parent has just opened again, which queue.h allows.
        atomic_store_explicit(&queue->next, i + 1, memory_order_relaxed);
        return job;
    }
    return NULL;
}

void queue_finish(Job *job, uint32_t state) {
    assert(state == JOB_DONE || state == JOB_REFUSED);
    assert(atomic_load_explicit(&job->state, memory_order_relaxed) == JOB_OPEN); // a job is finished once
    // Release, pairs with the load in queue_reopen: a job that is seen finished has its results complete, even if its
    // owner was killed right after this store.
    atomic_store_explicit(&job->state, state, memory_order_release);
}

// Results are cleared before the owner, so that no worker can claim a job with results of another worker in it.
static void job_open(Job *job) {
    job->hits = 0;
    job->loss_sum = 0;
    job->samples = 0;
    job->seconds = 0;
    job->metrics = 0;
    atomic_store_explicit(&job->state, JOB_OPEN, memory_order_relaxed);
    // Release, pairs with the compare-and-swap of queue_take: a living worker that takes it finds it cleared.
    atomic_store_explicit(&job->owner, 0, memory_order_release);
}

static bool is_unfinished(const Job *job) {
    assert(atomic_load_explicit(&job->state, memory_order_relaxed) <= JOB_REFUSED);
    return atomic_load_explicit(&job->state, memory_order_acquire) == JOB_OPEN; // pairs with queue_finish
}

uint32_t queue_unfinished(const Queue *queue) {
    uint32_t unfinished = 0;
    for (uint32_t i = 0; i < queue->count; i++)
        unfinished += is_unfinished(&queue->jobs[i]);
    return unfinished;
}

// owner: rank + 1; 0: any.
static uint32_t reopen(Queue *queue, uint32_t owner, bool finished_too) {
    uint32_t opened = 0;
    for (uint32_t i = 0; i < queue->count; i++) {
        Job *job = &queue->jobs[i];
        if (owner > 0 && atomic_load_explicit(&job->owner, memory_order_relaxed) != owner) continue;
        if (!finished_too && !is_unfinished(job)) continue;
        job_open(job);
        opened++;
    }
    atomic_store_explicit(&queue->next, 0, memory_order_relaxed);
    return opened;
}

// While no worker takes jobs, an unfinished job was never begun, or its worker is dead.
uint32_t queue_reopen(Queue *queue) {
    return reopen(queue, 0, false);
}

// Only the dead worker could have changed its jobs: no other process writes a job that it does not own.
uint32_t queue_reopen_rank(Queue *queue, uint32_t rank, bool finished_too) {
    return reopen(queue, rank + 1, finished_too);
}

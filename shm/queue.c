#include "shm/queue.h"

#include <stdbool.h>
#include <string.h>

size_t queue_bytes(uint32_t capacity) {
    return sizeof(Queue) + capacity * sizeof(Job);
}

void queue_init(Queue *queue, uint32_t capacity) {
    memset(queue, 0, queue_bytes(capacity));
    queue->capacity = capacity;
}

void queue_clear(Queue *queue) {
    queue->count = 0;
    atomic_store_explicit(&queue->next, 0, memory_order_relaxed); // the barrier shows it to the workers
}

Job *queue_post(Queue *queue) {
    if (queue->count == queue->capacity) return NULL;
    Job *job = &queue->jobs[queue->count++];
    memset(job, 0, sizeof *job);
    return job;
}

// All orders are relaxed: what the job says was written before the barrier that began the phase, and the
// compare-and-swap has only to decide who of several takers gets the job.
Job *queue_take(Queue *queue, uint32_t rank) {
    for (uint32_t i = atomic_load_explicit(&queue->next, memory_order_relaxed); i < queue->count; i++) {
        Job *job = &queue->jobs[i];
        uint32_t free = 0;
        if (!atomic_compare_exchange_strong_explicit(&job->owner, &free, rank + 1, memory_order_relaxed,
                                                     memory_order_relaxed))
            continue;
        // Every job up to this one is claimed, and in a phase no claim is given back, so the hint never passes a free
        // job. A slower taker may set it back, which costs the next one a few looks.
        atomic_store_explicit(&queue->next, i + 1, memory_order_relaxed);
        return job;
    }
    return NULL;
}

void queue_finish(Job *job, uint32_t state) {
    // Release, pairs with the load in queue_reopen: a job that is seen finished has its results complete, even if its
    // owner was killed right after this store.
    atomic_store_explicit(&job->state, state, memory_order_release);
}

static void job_open(Job *job) {
    job->hits = 0;
    job->loss_sum = 0;
    job->samples = 0;
    job->seconds = 0;
    atomic_store_explicit(&job->state, JOB_OPEN, memory_order_relaxed);
    atomic_store_explicit(&job->owner, 0, memory_order_relaxed); // the barrier shows both to the workers
}

uint32_t queue_reopen(Queue *queue, int and_finished_by) {
    uint32_t open = 0;
    for (uint32_t i = 0; i < queue->count; i++) {
        Job *job = &queue->jobs[i];
        uint32_t owner = atomic_load_explicit(&job->owner, memory_order_relaxed);
        uint32_t state = atomic_load_explicit(&job->state, memory_order_acquire); // pairs with queue_finish
        bool discarded = and_finished_by >= 0 && owner == (uint32_t)and_finished_by + 1;
        if (state != JOB_OPEN && !discarded) continue;
        job_open(job);
        open++;
    }
    atomic_store_explicit(&queue->next, 0, memory_order_relaxed);
    return open;
}

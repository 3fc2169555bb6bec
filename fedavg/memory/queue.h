// The job queue of a phase, in shared memory: the parent posts jobs, workers take them and write results beside the
// job.
//
// A worker claims a job by a compare-and-swap of its owner and completes it with one store of its state. If the worker
// dies in between, the job stays claimed by a dead rank until the parent opens it again; no other process touches it.
// `next` is only a hint where the search for a free job begins.
#ifndef SOUNDER_FEDAVG_MEMORY_QUEUE_H
#define SOUNDER_FEDAVG_MEMORY_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nn/answers.h"

enum { JOB_OPEN, JOB_DONE, JOB_REFUSED };

// All jobs of a phase of evaluation have one task.
typedef enum EvaluationTask {
    EVALUATE_TEST_SET,      // the global model on samples of the test set
    EVALUATE_VALIDATION,    // the global model on samples of the validation set, which the partition lists
    EVALUATE_TRAINING_DATA, // the global model on all training data of `client`
    EVALUATE_TRAINING_PART, // ... on `count` of these samples, from `first` on
    EVALUATE_CLIENT,        // the global model on the client's own test data
    EVALUATE_PERSONAL,      // the client's own model on its own test data
    EVALUATE_BACKDOOR,      // the global model on marked samples of the test set (rules/attack/attack_rules.h)
    TRAIN_ROOT,             // the server's own training on `count` samples, for rules with a trusted root
    EVALUATE_FINE_TUNED, // the global model on the client's own test data, after `epochs` of training that is discarded
} EvaluationTask;

typedef struct Job {
    _Alignas(64) _Atomic uint32_t owner; // 0: free; else rank + 1
    _Atomic uint32_t state;              // JOB_*; stored last (release)
    // Written by the parent before the phase:
    uint32_t client;               // training: which client
    uint32_t first, count;         // evaluation: samples [first, first + count) of a set; training: count
    uint32_t place;                // index among the phase's jobs, over all nodes
    uint32_t epochs;               // training: local epochs
    uint32_t task;                 // evaluation: EvaluationTask, what to evaluate on what
    uint32_t state_from, state_to; // training: rows of the client state: to read, to write
    uint32_t attacks;              // training: 1 for an attacker
    uint32_t visit;   // training: the client's earlier trainings from this version; on the real clock, in the run
    uint32_t pending; // training: 1 + the place where its update waits for a later step; 0: it joins this round's
    double share;     // training: p_k, this client's weight in the mean
    // Written by the owner before it stores the state:
    uint32_t hits;    // evaluation: correct predictions
    uint32_t node;    // the node of the owner
    double loss_sum;  // sum of the losses of `samples` samples
    uint64_t samples; // samples processed (training: all local epochs)
    uint64_t tokens;  // that a trainer counted in them
    double seconds;
    double squared_length; // training: of the update; NaN where it is not measured
    uint64_t fingerprint;  // training: XXH3 of the trained weights; 0: not made
    uint64_t sent_bytes;   // training: of the encoded update; preset by the parent if nothing is encoded
    AnswerFigures figures; // evaluation of a client's own samples, if `figured`
    uint32_t figured;      // 1: the net told its answers
    uint32_t clipped;      // training: 1 if the update was shortened
    uint32_t cluster;      // of the client's model (state_model)
    // Preset by the parent as planned; a trainer may make other steps.
    uint64_t steps; // training: that were made
    double reach;   // training: how far these went, in steps of plain SGD (rules/local/local_rules.h)
    // With a trainer:
    uint32_t metrics;       // how many metrics the job has in its row (RunMemory.metrics)
    uint32_t unjudged;      // evaluation: samples of which it did not say whether they were right
    double trainer_seconds; // that its turns took
} Job;

typedef struct Queue {
    _Alignas(64) _Atomic uint32_t next; // first job that may be free
    uint32_t count, capacity;
    _Alignas(64) Job jobs[]; // (capacity)
} Queue;

size_t queue_bytes(uint32_t capacity);
void queue_init(Queue *queue, uint32_t capacity);

// Parent, while no worker takes jobs: empties the queue; appends an open job and returns it (NULL if the queue is
// full).
void queue_clear(Queue *queue);
Job *queue_post(Queue *queue);

// Worker: claims the first free job in posted order; NULL if there is none.
Job *queue_take(Queue *queue, uint32_t rank);
void queue_finish(Job *job, uint32_t state);

// Parent, at any time: how many posted jobs are neither done nor refused.
uint32_t queue_unfinished(const Queue *queue);

// Parent, while no worker takes jobs: opens every unfinished job again. Returns how many.
uint32_t queue_reopen(Queue *queue);

// Parent, at any time, when the worker of `rank` is dead: opens its unfinished jobs again, and with `finished_too` also
// its finished ones (their results are lost). Living workers can take them at once. Because of the hint some workers
// may miss such a job, which then stays open to the end of the phase. Returns how many were opened.
uint32_t queue_reopen_rank(Queue *queue, uint32_t rank, bool finished_too);

#endif

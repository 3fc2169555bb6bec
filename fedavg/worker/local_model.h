// A worker's working memory for the model of one client after another: weights, what its steps need, and how the client
// sees its samples.
#ifndef SOUNDER_FEDAVG_WORKER_LOCAL_MODEL_H
#define SOUNDER_FEDAVG_WORKER_LOCAL_MODEL_H

#include "base/err.h"
#include "base/owned.h"
#include "fedavg/memory/run_memory.h"
#include "fedavg/rules/local/local_rules.h"
#include "fedavg/trainer/trainer.h"
#include "fedavg/worker/sender.h"
#include "fedavg/worker/view.h"
#include "nn/net.h"

// Vectors (each parameters) that ways to step need; NULL where the run steps otherwise.
typedef struct StepVectors {
    float *velocity, *square; // what the optimizer remembers: SGD's momentum, or both of Adam's moments
    float *gradient;
    float *sum;           // of the gradients of single samples; NULL: steps are not private
    float *full_gradient; // that the client begins with (local_looks)
    float *shift;         // what a local rule adds to every gradient, then what it keeps
    float *read;          // hogwild: the shared weights as private steps began
    float *near, *far;    // (batch, contrast_features): of the global model, of the client's last one
    uint64_t drawn;       // samples of private steps since the turn began
} StepVectors;

// A client's own model beside the shared one; NULL where there is none.
typedef struct OwnModel {
    float *weights;
    float *mixed;   // the mixture of the two; NULL: they are not mixed
    float alpha;    // the part of the own one in it
    float *initial; // the weights before the first round
} OwnModel;

// A trainer's answers in the turns of a job so far, beside losses and hits.
typedef struct TrainerTold {
    MetricSums metrics;
    uint64_t samples;  // tested: as asked, or where a sample is a client, as told
    uint64_t tokens;   // as the trainer counts them
    uint32_t unjudged; // test samples of which it did not say whether they were right
    double seconds;    // that the turns took
} TrainerTold;

// The user's program that trains in place of the engine.
typedef struct ByTrainer {
    Trainer *trainer;     // owned; NULL: the engine trains
    TrainerAnswer answer; // of its last training
    Status fault;         // in this job: it is to be done again
    Error why;            // that it failed
    TrainerTold told;     // of this job's turns
    const float *kept;    // by the client that is tested (turn.state); NULL: nothing
    float *rests;         // (parameters): the weights as a turn began in which some rest; NULL: none do
} ByTrainer;

// The run's model of the client's cluster; a run has one model, or several (clusters.h).
typedef struct ClusterView {
    const RunMemory *run; // borrowed
    RunMemory of_cluster; // with several models: the run's memory, whose weights are the model of the job's cluster
} ClusterView;

// A client that attacks with its samples.
typedef struct Liar {
    uint16_t *label_of; // (classes): what it takes labels for; NULL: no client lies about them
    bool lies;          // the client that is trained does, or marks images
} Liar;

// Called after each step of client_train, with its mean loss; call NULL: unused.
typedef struct StepHook {
    void (*call)(void *context, double loss);
    void *context;
} StepHook;

typedef struct LocalModel {
    const RunMemory *memory; // borrowed, or clusters.of_cluster
    ClusterView clusters;
    uint32_t rank;
    Net net;         // owned; without layers where a trainer trains
    void *vectors;   // owned: memory of all vectors (parameters)
    Owned owned;     // all other arrays
    float *weights;  // (parameters)
    uint32_t *order; // (partition's samples): this epoch's shuffled sample indices
    StepVectors steps;
    OwnModel own;
    ByTrainer by;
    View view; // owned: of the client's samples, or of the test set
    Liar liar;
    Sender sender; // owned
    StepHook on_step;
} LocalModel;

// rank: whose pulse counts the progress. Nothing to free on failure.
Status local_model_init(LocalModel *model, const RunMemory *memory, uint32_t rank, Error *err);
void local_model_free(LocalModel *model);

// Batch `number` (0, 1, ...) of the `count` training samples in `order`, as the client sees them; the last one may be
// smaller. Valid until the next.
Batch local_model_batch(LocalModel *model, const uint32_t *order, uint32_t number, uint32_t count);

// Batches in one epoch of `count` samples.
uint32_t local_model_batches(const LocalModel *model, uint32_t count);

// The samples at `indices` as the data set has them, with an attacker's marks: the view is still to be applied.
Batch local_model_raw_batch(const LocalModel *model, const uint32_t *indices, uint32_t samples);

#endif

// A client's local training, on whichever worker it happens to run: virtual clients.
//
// The model is the worker's working memory, reused for one client after another. A client's result depends on
// the global weights, its samples and (seed, round, client) alone: any worker, any time, gives the same bits.
#ifndef SOUNDER_FEDAVG_WORKER_CLIENT_H
#define SOUNDER_FEDAVG_WORKER_CLIENT_H

#include "base/err.h"
#include "base/owned.h"
#include "fedavg/memory/run_memory.h"
#include "fedavg/rules/local/local_rules.h"
#include "fedavg/trainer/trainer.h"
#include "fedavg/worker/sender.h"
#include "fedavg/worker/view.h"
#include "nn/net.h"

typedef struct Delivery Delivery;

// A trainer's answers in the turns of a job so far, beside losses and hits.
typedef struct TrainerTold {
    MetricSums metrics;
    uint32_t unjudged; // test samples of which it did not say whether they were right
    double seconds;    // that the turns took
} TrainerTold;

typedef struct LocalModel {
    const RunMemory *memory; // borrowed, or of_cluster
    const RunMemory *run;    // borrowed
    RunMemory of_cluster;    // with several models: the run's memory, whose weights are the model of the job's cluster
    uint32_t rank;
    Net net;              // owned; without layers where a trainer trains
    Trainer *trainer;     // owned; NULL: the engine trains
    TrainerAnswer answer; // of the trainer's last training
    Status fault;         // of the trainer in this job: it is to be done again
    Error why;            // that it failed
    TrainerTold told;     // of this job's turns
    void *vectors;        // owned: memory of the vectors below, each (parameters)
    float *weights;       // the local model
    float *velocity;      // SGD momentum
    float *gradient;
    float *sum;                // of the gradients of single samples; NULL: steps are not private
    float *full_gradient;      // that the client begins with (local_looks); NULL: no rule looks
    float *square;             // Adam's second moment; NULL with SGD
    float *shift;              // what a local rule adds to every gradient, then what it keeps; NULL: neither
    float *second;             // a client's second model; NULL: there is none
    float *mixed;              // its mixture with the first one; NULL: they are not mixed
    float alpha;               // the part of the second in it
    float *initial;            // the weights before the first round, where there is one
    float *rests;              // the weights as a turn began in which some rest; NULL: in no turn of a trainer's
    float *read;               // hogwild: the shared weights as private steps began; NULL: there are none
    struct XXH3_state_s *hash; // owned: XXH3_state_t of xxhash.h
    Owned owned;               // the two arrays below
    uint32_t *order;           // (partition's samples): this epoch's shuffled sample indices
    uint16_t *label_of;        // (classes): what an attacker takes labels for; NULL: no client lies about them
    uint64_t drawn;            // samples of private steps since the turn began
    bool lies;                 // the client that is trained does, or marks images
    float *near, *far;         // (batch, contrast_features): of the global model, of the client's last one
    Sender sender;             // owned
    const Delivery *delivery;  // of all updates of the run (deliver.h)
    View view;                 // owned: of the client's samples, or of the test set

    void (*on_step)(void *context, double loss); // after each step of client_train, with its mean loss; NULL: unused
    void *on_step_context;
} LocalModel;

// rank: whose pulse counts the progress. Nothing to free on failure.
Status local_model_init(LocalModel *model, const RunMemory *memory, uint32_t rank, Error *err);
void local_model_free(LocalModel *model);

// Batch `number` (0, 1, ...) of the `count` training samples in `order`, as the client sees them; the last one may be
// smaller. Valid until the next.
Batch local_model_batch(LocalModel *model, const uint32_t *order, uint32_t number, uint32_t count);

// Batches in one epoch of `count` samples.
uint32_t local_model_batches(const LocalModel *model, uint32_t count);

// The slots of fedavg: a sum a worker, or a row a client where the combine rule wants them.
void client_plan(SlotPlan *slots, const RunConfig *config);

// How a client steps. pull * weight + shift (parameters; NULL: zeros) is added to every gradient.
typedef struct LocalStep {
    Sgd sgd;
    float pull;
    const float *shift;
    const float *start;                 // the weights to begin with (parameters); NULL: the model holds them already
    const float *state;                 // what the optimizer begins with (stepper.h); NULL: zeros
    float *state_after;                 // gets the state that it ends with; NULL: unused
    const struct LocalVectors *replica; // exchanges after the first step, in `turn`; NULL: nothing does
    const struct LocalTurn *turn;
    bool aside;            // the loss and the metrics of the job are those of another training
    bool follows;          // each step of the model is one towards the second (PersonalPlan.inner)
    const float *previous; // the client's weights of its last turn, for a contrastive term; NULL: there is none
    bool mixes;            // before each step of the model the second makes one (PersonalPlan.mixes)
} LocalStep;

// Trains and evaluates by the run's trainer, in place of the engine (trainer_turn.c). After a fault, which model->fault
// says, the result is NAN or zeros, and the job has to be done again.
double trainer_turn_train(LocalModel *model, const LocalStep *step, const uint32_t *indices, uint32_t count,
                          uint32_t client, uint32_t epochs, uint32_t round);
void trainer_turn_evaluate(LocalModel *model, BatchResult *result, const float *weights, const Batch *batch,
                           const char *part, uint32_t client);

// Where a client's view differs from the data set, the last `count` numbers on the desk get rows of samples and labels
// as the client sees them (trainer_view.c): the first `marked` ones with the mark of a backdoor.
bool trainer_view_differs(const LocalModel *model);
void trainer_view_add(LocalModel *model, const DatasetSplit *split, uint32_t count, uint32_t marked);

// After the training of a job: the rule's turn, and the job, get the steps that the trainer made in place of those that
// were planned.
void trainer_turn_count_steps(LocalModel *model, Job *job, LocalTurn *turn, uint32_t round);

// Around the turns of a job: nothing is told yet; the job gets what has been told, before it is finished. Both do
// nothing without a trainer.
void trainer_turn_begin_job(LocalModel *model);
void trainer_turn_end_job(const LocalModel *model, Job *job);

// Trains the model on the samples of the client whose view has begun, with a fresh optimizer. Shuffles and dropout are
// those of `round`. Returns the sum of the losses.
double local_model_train(LocalModel *model, const LocalStep *step, uint32_t client, uint32_t epochs, uint32_t round);

// The same on these samples (count), with the shuffles and dropout of `client`.
double local_model_train_on(LocalModel *model, const LocalStep *step, const uint32_t *indices, uint32_t count,
                            uint32_t client, uint32_t epochs, uint32_t round);

// FedAvg: trains job->client from the shared weights for the local epochs with a fresh optimizer, adds its exact
// weighted update to this rank's slot and finishes the job: as done, or as refused (said in the log, the slot as
// before) when the update is not finite or out of range.
void client_train(LocalModel *model, Job *job, uint32_t round);

// A client's own part of the model, or its own model, around and beside its training (rules/local/personal_rules.h).

// model->weights are the global ones: those that stay with the client become its own. So does a second model that is
// trained at the same time.
void personal_begin(LocalModel *model, const Job *job);

// One batch: the second model makes its steps, and the first follows it. result: of the last of them.
void personal_step(LocalModel *model, BatchResult *result, const Batch *batch, const Noise *noise);

// One batch, before the model's own step on it: the second model and alpha make a step each, at their mixture.
void personal_mix(LocalModel *model, const Batch *batch, const Noise *noise);

// The client has been trained: what stays goes into its new row, and nothing of it is sent. A second model is trained
// here, from the client's row.
void personal_conclude(LocalModel *model, const Job *job, uint32_t round);

// A GPU has written the parameters that stay into the client's new row: one that is not finite stays as it was.
void personal_settle(const RunMemory *memory, const Job *job);

// The parameters that stay with the client become global again in its weights (parameters), and so do frozen ones.
void personal_withhold(float *weights, const RunMemory *memory);

// Only what is frozen: whatever moved it, decay or a rule.
void personal_unmoved(float *weights, const RunMemory *memory);

// model->weights become the client's personal model: for evaluation.
void personal_load(LocalModel *model, const Job *job);

// A worker evaluates the global model on the test set, or on a client's own samples, before and after training.

// Does what job->task says and finishes the job with loss_sum, hits and samples. Every worker makes the sums in the
// one order, so that no bit depends on it.
void evaluation_run(LocalModel *model, Job *job, uint32_t round);

// Where a run has several models: the one with the least loss on what the job's client trains on becomes the model of
// model->memory, and job->cluster. Its view has begun. Otherwise nothing changes.
void evaluation_choose(LocalModel *model, Job *job, uint32_t round);

// The samples that a job about a client is to be evaluated on: indices (count), borrowed, of the test set or of the
// training set.
typedef struct ClientSamples {
    const uint32_t *indices;
    uint32_t count;
    bool of_test_set;
} ClientSamples;

ClientSamples evaluation_samples(const RunMemory *memory, const Job *job, uint32_t round);

// Returns the name of these samples in the metrics.
const char *evaluation_data_name(const Partition *partition);

// Rounds whose shuffles and dropout a training draws that belongs to no round: no round has these numbers, and the keys
// of the round's own training stay untouched. The first is for a training before a test, the second for that of a
// second model or of a head alone.
static inline uint32_t evaluation_round(uint32_t round) {
    return round | 1u << 31;
}

static inline uint32_t personal_round(uint32_t round) {
    return round | 1u << 30;
}

#endif

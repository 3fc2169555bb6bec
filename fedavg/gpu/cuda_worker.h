// A worker's arithmetic on the GPU: up to `models` clients at once in lockstep (nn/cuda/cuda_net.h).
//
// A client's result depends on the global weights, its samples and (seed, round, client). The clients that share a
// launch do not matter, since each has its own model in it, which reads no values of the others.
#ifndef SOUNDER_FEDAVG_GPU_CUDA_WORKER_H
#define SOUNDER_FEDAVG_GPU_CUDA_WORKER_H

#include <cuda_runtime_api.h>
#include <sys/types.h>

#include "base/device.h"
#include "base/err.h"
#include "fedavg/gpu/cuda_blocks.h"
#include "fedavg/gpu/cuda_clients.h"
#include "fedavg/gpu/cuda_own.h"
#include "fedavg/gpu/cuda_pace.h"
#include "fedavg/gpu/cuda_samples.h"
#include "fedavg/gpu/cuda_state_rows.h"
#include "fedavg/memory/run_memory.h"
#include "fedavg/worker/deliver.h"
#include "nn/cuda/cuda_net.h"

// A stretch of a launch that has been shuffled in advance. Its first job identifies the launch; without one, clients is
// 0.
typedef struct CudaShuffled {
    const Job *first;
    uint32_t clients, round, index;
} CudaShuffled;

typedef struct CudaWorker {
    const RunMemory *memory; // borrowed
    uint32_t rank;
    uint32_t models;   // of a launch, at most
    uint32_t round;    // of the phase, by which clients see their samples
    CudaArrays arrays; // all below but for the net, the rows and the sender
    CudaBlocks blocks;
    CudaFence fence;                      // closed when this process is dead
    CudaNet *net;                         // owned
    cudaStream_t stream;                  // the net's
    float *weights, *velocity, *gradient; // device, owned (models strided); fedavg alone has weights of its own
    float *squares;                       // device, owned, likewise: Adam's; NULL without
    double *forgotten;                    // device, owned (models, 2): of adam_next; NULL without
    CudaClients clients;                  // what the local rule does with them
    CudaOwn own;                          // their parameters that stay with them
    CudaStateRows rows;                   // what they keep, on its way to the host
    CudaSamples samples;                  // what they see of the data set
    uint32_t *order;                      // device, owned (samples dealt, or clients' test samples): which comes when
    double *shares;                       // device, owned (2, models): of updates, and of momenta (p_k)
    float *class_weights;                 // device, owned (classes); NULL without
    uint64_t *unfit;                      // device, owned (models)
    uint32_t *counts;                     // device, owned (clients): samples of each; for ssgd
    uint32_t *host_order;                 // owned, as long
    uint32_t *next_order;                 // owned, likewise: of what is trained next, if it is shuffled already
    CudaShuffled shuffled;                // what next_order is the order of
    uint64_t *host_unfit;                 // owned (models)
    double *host_shares;                  // owned (2, models)
    double *host_forgotten;               // owned (models, 2)
    bool *fits;                           // owned (models): whether what a client would keep, and hand in, does
    Job **jobs;                           // owned (models)
    Job **next_jobs;                      // owned (models): next_count of them are taken already
    uint32_t next_count;
    uint64_t begun_nanoseconds;    // of the launch
    bool trains_own;               // only what stays with the clients is trained now (cuda_train_turn)
    BatchResult *results;          // owned (models)
    CudaPace training, evaluating; // how often this worker waits
    Sender sender;                 // owned; zeros where updates are handed in as they were trained
    float *trained;                // owned (parameters); NULL there
    float *zeros;                  // device, owned (parameters); NULL there
    double *lengths;               // device, owned (models): squared, of the updates; NULL unless they are clipped
    double *host_lengths;          // owned (models)
    const float *from;             // device: what this launch's updates are the difference from
} CudaWorker;

// Takes jobs for a launch of as many models. Returns how many.
uint32_t cuda_take(const CudaWorker *self, Job **jobs);

// All that the clients of self->jobs (jobs) train in the round; their losses, samples and seconds (cuda_train.c).
Status cuda_train_models(CudaWorker *self, uint32_t jobs, uint32_t round, Error *err);

// The gradients that clients begin with, where the local rule looks at them (client.c).
Status cuda_look(CudaWorker *self, uint32_t jobs, uint32_t round, Error *err);

// A turn of a launch's clients: cuda_train_models with the state of their optimizers, once, or twice where they train
// the parameters that stay with them first, and then the others.
Status cuda_train_turn(CudaWorker *self, uint32_t jobs, uint32_t round, Error *err);

// The turn of the second models of a launch's clients, into their new rows. Overwrites the local models. Waits.
Status cuda_train_second(CudaWorker *self, uint32_t jobs, uint32_t round, Error *err);

// ssgd.h on the GPU: gradients by lockstep launches into the slots, slices of the sum by one kernel, and the stream is
// synchronised before either step barrier.
Status cuda_ssgd_train(CudaWorker *self, uint32_t round, pid_t parent, Error *err);

// Does what self->jobs (jobs) of an evaluation say about clients, and finishes them.
Status cuda_evaluate_clients(CudaWorker *self, uint32_t jobs, uint32_t round, Error *err);

// Sends updates where the run changes them first (cuda_send.c).
bool cuda_sends(const RunConfig *config);
Status cuda_send_init(CudaWorker *self, Error *err);

// The models of self->jobs (jobs) with a share become what the server reads of them; *accepted: those that still have
// one.
Status cuda_send_updates(CudaWorker *self, uint32_t *accepted, uint32_t jobs, uint32_t round, Error *err);

// Looks at what the models of self->jobs (jobs) have trained, on the host (deliver_inspect).
Status cuda_inspect_updates(const CudaWorker *self, uint32_t jobs, Error *err);

// The state of the clients' optimizers (cuda_optimizer.c), before and after cuda_train_models: fresh, or what
// --client-optimizer-state says if it `lasts`. The second call, which waits, writes it into the clients' new rows.
Status cuda_optimizer_begin(CudaWorker *self, uint32_t jobs, bool lasts, Error *err);
Status cuda_optimizer_conclude(CudaWorker *self, uint32_t jobs, Error *err);

// With --client-optimizer-state average: refuses clients whose momentum is too large, before they send; adds the
// momenta of the others to the second sum of this worker's slot, between the marks of `adding`.
Status cuda_momenta_judge(CudaWorker *self, uint32_t *accepted, uint32_t jobs, Error *err);
Status cuda_momenta_add(CudaWorker *self, uint32_t jobs, Error *err);

#endif

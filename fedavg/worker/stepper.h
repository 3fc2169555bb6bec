// How a client takes its steps, from one turn's first to its last: with the optimizer of the recipe, the round's
// learning rate, and what the local rule adds (rules/local/local_rule.h).
//
//   Stepper stepper = stepper_begin(&memory, &step);
//   stepper_step(&stepper, model, &result, &batch, &noise);      // once a batch
//
// The direction of a step is made in this order: the gradient, + pull weight + shift, clipped, + weight decay. Plain
// SGD is fused with the backward pass of the net (net_train_step); everything else is a gradient and loops over the
// weights, which have the same bits on every instruction set.
#ifndef SOUNDER_FEDAVG_WORKER_STEPPER_H
#define SOUNDER_FEDAVG_WORKER_STEPPER_H

#include "fedavg/worker/local_step.h"

typedef struct Stepper {
    const Chosen *optimizer;
    LocalStep step;
    Adam adam;
    bool nesterov;
    double clip;
    bool is_private;     // gradients hide each sample (private_gradient.h)
    uint32_t batch_size; // of a private step, in the mean; not above the client's samples
    double forgotten[2]; // Adam's: of the moments' start, what is left after the steps so far
} Stepper;

Stepper stepper_begin(const RunMemory *memory, const LocalStep *step);

// Floats of what an optimizer remembers of a model, as a client's row keeps it (memory/client_state_file.h).
uint64_t stepper_state_floats(const RunConfig *config);

// The weights become those to begin with, by the first step at the latest, which can take them along. stepper_end makes
// sure of it for a turn without one.
void stepper_start(const Stepper *stepper, LocalModel *model);
void stepper_end(LocalModel *model);

// Loads the state of the optimizer from a client's row (NULL: zeros); stores it there.
void stepper_load(Stepper *stepper, LocalModel *model, const float *row);
void stepper_store(float *row, const Stepper *stepper, const LocalModel *model);

// One step of model->weights; steps.velocity and steps.square are what the optimizer remembers, zeros at first. Layers
// that stand still (net.h) do.
void stepper_step(Stepper *stepper, LocalModel *model, BatchResult *result, const Batch *batch, const Noise *noise);

#endif

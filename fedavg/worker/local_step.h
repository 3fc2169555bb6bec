// How a client steps, in one training: of its turn, of its second model, or before a test.
#ifndef SOUNDER_FEDAVG_WORKER_LOCAL_STEP_H
#define SOUNDER_FEDAVG_WORKER_LOCAL_STEP_H

#include "fedavg/worker/local_model.h"

// pull * weight + shift (parameters; NULL: zeros) is added to every gradient.
typedef struct LocalStep {
    Sgd sgd;
    float pull;
    const float *shift;
    const float *start;                 // the weights to begin with (parameters); NULL: the model holds them already
    const float *state;                 // what the optimizer begins with (stepper.h); NULL: zeros
    float *state_after;                 // gets the state that it ends with; NULL: unused
    const struct LocalVectors *replica; // exchanges after the first step, in `turn`; NULL: nothing does
    const struct LocalTurn *turn;
    uint32_t late_round; // the round whose fragment is mixed after late_after steps (streaming.h); 0: none is
    uint64_t late_after;
    bool aside;            // the loss and the metrics of the job are those of another training
    bool follows;          // each step of the model is one towards the second (PersonalPlan.inner)
    const float *previous; // the client's weights of its last turn, for a contrastive term; NULL: there is none
    bool mixes;            // before each step of the model the second makes one (PersonalPlan.mixes)
} LocalStep;

#endif

// The contract of a local rule: the term that it adds to each of a client's steps, and the vector that the client keeps
// until its next turn (client state). One file per rule (local/NAME.h) and one line in LOCAL_RULES (local_rules.h):
// then the rule runs on the CPU, on the GPU, and on several nodes.
//
// A client steps along
//
//   direction = gradient + pull (weight - global) + shift + weight_decay weight
//
// `pull` is one number and `shift` one number per weight; both are constant during a local training. So the nets need
// only one more vector for local rules, shift - pull global, with pull added to the weight decay.
//
// The functions of one weight are compiled for both devices, without fused operations.
#ifndef SOUNDER_FEDAVG_RULES_LOCAL_LOCAL_RULE_H
#define SOUNDER_FEDAVG_RULES_LOCAL_LOCAL_RULE_H

#include <math.h>
#include <stdbool.h>

#include "base/host_device.h"
#include "fedavg/rules/rule.h"

// One weight of one client.
typedef struct Parameter {
    float global; // at the start of the round
    float own;    // as trained by the client
    float state;  // the client's state; 0 before its first turn
    float common; // the server rule's message to all clients
    // With LocalTurn.looks: the gradient of the client's mean loss over all its samples, at the weights it began with;
    // of a trainer's turn, the mean of the gradients of its steps. 0 otherwise.
    float full_gradient;
} Parameter;

// The client's turn, the same for all weights.
typedef struct LocalTurn {
    double number[RULE_NUMBERS]; // the rule's
    double displacement;         // how far a constant gradient of 1 moves a weight during the training
    double size_ratio;           // the mean number of samples per client / this client's
    double counts;               // what the client's share is multiplied with: 1 if it made the steps that were planned
    bool looks;                  // Parameter.full_gradient is there
    double ahead;                // by how many velocities the gradients of a replica are taken ahead of it
} LocalTurn;

typedef struct LocalRule {
    RuleText text;
    bool shifts;    // it adds a number to each weight's gradient
    bool keeps;     // the client keeps one number per weight
    bool replicas;  // the kept vector is a model of its own, with which the client continues (local/elastic.h)
    bool contrasts; // the net compares representations with those of the weights that the client has trained last
    bool measures;  // what it keeps depends on the displacement of the training
    bool asks;      // it reads the server rule's message, so the server rule must have one
    double (*pull)(const LocalTurn *turn); // NULL: 0
    void (*prepare)(LocalTurn *turn);      // derives numbers of the turn; NULL if unused
    bool (*looks)(const double *number);   // needs Parameter.full_gradient, one more pass over the data; NULL: no
} LocalRule;

// For rules that add no number to each weight's gradient, and for rules that keep none.
BOTH float local_no_shift(const Parameter *p, const LocalTurn *turn) {
    (void)p, (void)turn;
    return 0;
}

BOTH float local_same_state(const Parameter *p, const LocalTurn *turn) {
    (void)turn;
    return p->state;
}

// Rounds to the nearest multiple of 2^-40. Kept vectors are on this grid, so that their sums are exact. Every float
// from 2^-16 on is such a multiple, and every smaller multiple fits a float.
BOTH float local_on_grid(float value) {
    return (float)(rint((double)value * 0x1p40) * 0x1p-40);
}

#endif

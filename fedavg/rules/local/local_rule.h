// What a local rule is: what it adds to a client's every step, and what the client keeps until its next turn. One file
// a rule (local/NAME.h) and one line in LOCAL_RULES (local_rules.h): then it runs on the CPU, on the GPU, over several
// nodes.
//
// A client steps along
//
//   direction = gradient + pull (weight - global) + shift + weight_decay weight
//
// where `pull` is one number and `shift` one for each weight, both constant for the whole local training. So all that
// the nets learn of local rules is one more vector: shift - pull global, with pull on top of the weight decay.
//
// The functions of one weight are compiled for both devices without fused operations.
#ifndef SOUNDER_FEDAVG_RULES_LOCAL_LOCAL_RULE_H
#define SOUNDER_FEDAVG_RULES_LOCAL_LOCAL_RULE_H

#include <math.h>
#include <stdbool.h>

#include "base/host_device.h"
#include "fedavg/rules/rule.h"

// One weight of one client.
typedef struct Parameter {
    float global; // as the round began
    float own;    // as the client has trained it
    float kept;   // the client's own from turn to turn; 0 at first
    float common; // what the server rule tells all clients
    // Of the mean loss of all the client's samples at the weights it began with; 0 unless the rule looks.
    float full_gradient;
} Parameter;

// The client's turn, the same for all weights.
typedef struct LocalTurn {
    double number[RULE_NUMBERS]; // the rule's
    double displacement;         // how far a gradient of 1 in every step takes a weight
    double size_ratio;           // the mean of all clients' samples / this one's
    double ahead;                // by so many velocities a replica's gradients are taken ahead of it
} LocalTurn;

typedef struct LocalRule {
    RuleText text;
    bool shifts;                           // it adds a number for each weight
    bool keeps;                            // ... and the client keeps one
    bool replicas;                         // ... which is a model of its own that it goes on with (local/elastic.h)
    bool asks;                             // ... and it reads what the server rule tells, which has to tell something
    double (*pull)(const LocalTurn *turn); // NULL: 0
    void (*prepare)(LocalTurn *turn);      // NULL: nothing
    bool (*looks)(const double *number);   // wants Parameter.full_gradient: one more pass over the data; NULL: no
} LocalRule;

// To the nearest multiple of 2^-40: kept vectors lie on this grid, so that sums of them are exact. Every float from
// 2^-16 on is such a multiple, and every multiple below fits a float.
BOTH float local_on_grid(float value) {
    return (float)(rint((double)value * 0x1p40) * 0x1p-40);
}

#endif

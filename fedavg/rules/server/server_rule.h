// The contract of a server rule: it computes one weight of the global model from the mean update. One file per rule
// (server/NAME.h) and one line in SERVER_RULES (server_rules.h): then the rule runs on the CPU, on the GPU, and on
// several nodes.
//
// The function of one weight is compiled for both devices, without fused operations, so that their results are equal to
// the bit. A rule's states are what it remembers of a weight from round to round: 64-bit numbers that are written to
// checkpoints. The weight itself is rounded to a float once, at the end.
#ifndef SOUNDER_FEDAVG_RULES_SERVER_SERVER_RULE_H
#define SOUNDER_FEDAVG_RULES_SERVER_SERVER_RULE_H

#include <math.h>
#include <stdbool.h>

#include "base/host_device.h"
#include "fedavg/rules/rule.h"

// The cohort's contribution to one weight.
typedef struct Update {
    double mean;    // of the clients' updates, weighted by their shares
    int64_t change; // the sum of the changes of the cohort's client state, in units of 2^-40
} Update;

// value / (sqrt(square) + tau), in single precision, which is the precision of the weight: roots and quotients of
// doubles would take longer than reading all the memory of the rule.
BOTH double server_quotient(double value, double square, double tau) {
    return (double)((float)value / (sqrtf((float)square) + (float)tau));
}

// Both kinds have 64 bits, so that all states have one layout in memory and in checkpoints; the rule's row says which
// it is.
typedef union ServerState {
    double real;
    int64_t whole;
} ServerState;

enum { SERVER_STATES = 2, SERVER_DERIVED = 2 };

// The round, as all weights see it.
typedef struct ServerTurn {
    uint32_t round;                 // 1, 2, ...
    uint32_t cohort, population;    // clients whose updates arrived; clients that can arrive
    double number[RULE_NUMBERS];    // the rule's
    double derived[SERVER_DERIVED]; // set by prepare
} ServerTurn;

typedef struct ServerRule {
    RuleText text;
    uint32_t states;                                    // per weight, at most SERVER_STATES
    bool sums;                                          // it uses Update.change; clients keep vectors
    bool tells;                                         // it sends the clients one number per weight: *common
    void (*prepare)(ServerTurn *turn);                  // once per round, for logarithms and powers; NULL if unused
    double (*start)(const ServerTurn *turn, int state); // the first value of a state; NULL: zero
    uint32_t trains_state; // clients begin with this state from round 2 on; 0: with the model
} ServerRule;

#endif

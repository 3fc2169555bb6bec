// What a server rule is: how one weight of the global model follows from what the cohort sends. One file a rule
// (server/NAME.h) and one line in SERVER_RULES (server_rules.h): then it runs on the CPU, on the GPU, over several
// nodes.
//
// The function of one weight is compiled for both devices, without fused operations, so that they agree to the bit.
// What a rule remembers of a weight from round to round are its states: numbers of 64 bits that stand in checkpoints.
// The weight itself is rounded to a float once, at the end.
#ifndef SOUNDER_FEDAVG_RULES_SERVER_SERVER_RULE_H
#define SOUNDER_FEDAVG_RULES_SERVER_SERVER_RULE_H

#include <math.h>
#include <stdbool.h>

#include "base/host_device.h"
#include "fedavg/rules/rule.h"

// What the cohort sends of one weight.
typedef struct Update {
    double mean;    // of the clients' updates, weighted by their shares
    int64_t change; // what the vectors that the cohort keeps have grown by, all together, in units of 2^-40
} Update;

// value / (sqrt(square) + tau), to single precision, as the weight has it: roots and quotients of doubles would take
// longer than all the memory that a rule goes through.
BOTH double server_quotient(double value, double square, double tau) {
    return (double)((float)value / (sqrtf((float)square) + (float)tau));
}

typedef union ServerState {
    double real;
    int64_t whole;
} ServerState;

enum { SERVER_STATES = 2, SERVER_DERIVED = 2 };

// The round, the same for all weights.
typedef struct ServerTurn {
    uint32_t round;                 // 1, 2, ...
    uint32_t cohort, population;    // clients whose updates arrived, of how many there are
    double number[RULE_NUMBERS];    // the rule's
    double derived[SERVER_DERIVED]; // by prepare
} ServerTurn;

typedef struct ServerRule {
    RuleText text;
    uint32_t states;                   // of each weight, at most SERVER_STATES
    bool sums;                         // it uses Update.change: clients keep vectors
    bool tells;                        // the clients get a number for each weight: *common
    void (*prepare)(ServerTurn *turn); // once a round; NULL: nothing. Logarithms and powers belong here
    double (*start)(const ServerTurn *turn, int state); // the first value of a state; NULL: zero
    uint32_t trains_state; // from round 2 on clients begin with this state, while the model is another; 0: with it
} ServerRule;

#endif

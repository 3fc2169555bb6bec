#include "local_rules.h"

#include <string.h>

#include "fedavg/rules/sum/aggregate.h"

#define LOCAL_POINTER(name) [LOCAL_ROW_##name] = &name##_local_rule,
const LocalRule *const local_rules[LOCAL_RULE_COUNT] = {LOCAL_RULES(LOCAL_POINTER)};

// The displacement of a weight by `steps` steps of SGD with a pull along a constant gradient of 1, by the same
// arithmetic as the training. With plain SGD it is steps * lr.
static double displacement_of(const Training *training, double pull, uint64_t steps) {
    const double lr = training->sgd.lr, momentum = training->sgd.momentum;
    double x = 0, velocity = 0;
    for (uint64_t step = 0; step < steps; step++) {
        double gradient = 1 + pull * x;
        velocity = momentum * velocity + gradient;
        x -= lr * (training->nesterov ? gradient + momentum * velocity : velocity);
    }
    return -x;
}

// Nesterov's SGD stores the weights where its next gradient is taken, lr momentum velocities ahead of the iterate.
double local_ahead(const Training *training) {
    return training->nesterov ? (double)training->sgd.lr * (double)training->sgd.momentum : 0;
}

bool local_looks(const Chosen *chosen) {
    const LocalRule *rule = local_rules[chosen->row];
    return rule->looks && rule->looks(chosen->number);
}

double local_pull(const Chosen *chosen, const LocalTurn *turn) {
    const LocalRule *rule = local_rules[chosen->row];
    return rule->pull ? rule->pull(turn) : 0;
}

// The numbers are copied, because prepare may change them for this client: FedDyn scales its alpha by the client's
// size.
LocalTurn local_turn(const Chosen *chosen, const Training *training, uint64_t steps, double size_ratio) {
    LocalTurn turn = {.size_ratio = size_ratio, .counts = 1, .looks = local_looks(chosen)};
    memcpy(turn.number, chosen->number, sizeof turn.number);
    if (local_rules[chosen->row]->prepare) local_rules[chosen->row]->prepare(&turn);
    turn.displacement = displacement_of(training, local_pull(chosen, &turn), steps);
    return turn;
}

// With a rate of 0 the quotient has a limit, which is the displacement at rate 1 without a pull.
double local_reach(const Chosen *chosen, const Training *training, uint64_t steps) {
    const double lr = (double)training->sgd.lr;
    if (lr > 0) return local_turn(chosen, training, steps, 1).displacement / lr;
    Training unit = *training;
    unit.sgd.lr = 1;
    return displacement_of(&unit, 0, steps); // a pull is proportional to the displacement, which is 0 here
}

// A vector that is NULL reads as zeros: before its first turn a client has no state, and some rules have no message.
static Parameter parameter_at(const LocalVectors *at, size_t i) {
    return (Parameter){.global = at->global[i],
                       .own = at->own ? at->own[i] : 0,
                       .state = at->state ? at->state[i] : 0,
                       .common = at->common ? at->common[i] : 0,
                       .full_gradient = at->full_gradient ? at->full_gradient[i] : 0};
}

// One pair of loops per rule, into which the rule's functions are inlined. Vectors and turn are copied into locals: a
// store to the output could otherwise change them as far as the compiler knows, and the loop would not be vectorised.
#define LOCAL_LOOPS(name)                                                                                              \
    AGGREGATE_VECTORS static void name##_shifts(float *restrict shift, const LocalVectors *given,                      \
                                                const LocalTurn *at_turn, float pull, size_t count) {                  \
        const LocalVectors at = *given;                                                                                \
        const LocalTurn turn = *at_turn;                                                                               \
        for (size_t i = 0; i < count; i++) {                                                                           \
            const Parameter p = parameter_at(&at, i);                                                                  \
            shift[i] = local_##name##_shift(&p, &turn) - pull * p.global;                                              \
        }                                                                                                              \
    }                                                                                                                  \
    AGGREGATE_VECTORS static void name##_keeps(float *restrict state, const LocalVectors *given,                       \
                                               const LocalTurn *at_turn, size_t count) {                               \
        const LocalVectors at = *given;                                                                                \
        const LocalTurn turn = *at_turn;                                                                               \
        for (size_t i = 0; i < count; i++) {                                                                           \
            const Parameter p = parameter_at(&at, i);                                                                  \
            state[i] = local_##name##_keep(&p, &turn);                                                                 \
        }                                                                                                              \
    }
LOCAL_RULES(LOCAL_LOOPS)

typedef struct Loops {
    void (*shifts)(float *, const LocalVectors *, const LocalTurn *, float, size_t);
    void (*keeps)(float *, const LocalVectors *, const LocalTurn *, size_t);
} Loops;

#define LOCAL_LOOP_OF(name) [LOCAL_ROW_##name] = {name##_shifts, name##_keeps},
static const Loops loops[LOCAL_RULE_COUNT] = {LOCAL_RULES(LOCAL_LOOP_OF)};

void local_shift(float *shift, const LocalVectors *at, const LocalTurn *turn, double pull, uint32_t row, size_t count) {
    loops[row].shifts(shift, at, turn, (float)pull, count);
}

// The limit follows from the sum over all clients, which must not leave 64 bits: the caller divides it by their number.
// All elements are computed before they are judged, so that neither loop has an exit.
bool local_conclude(float *state_after, const LocalVectors *at, const LocalTurn *turn, uint32_t row, double limit,
                    size_t count) {
    const float bound = (float)limit;
    size_t unfit = 0;
    loops[row].keeps(state_after, at, turn, count);
    for (size_t i = 0; i < count; i++)
        unfit += fabsf(state_after[i]) < bound ? 0 : 1u; // counts NaN as unfit, too
    return unfit == 0;
}

float local_replica(const LocalVectors *at, const LocalTurn *turn, size_t i) {
    const float ahead = turn->ahead != 0 && at->velocity ? (float)(turn->ahead * (double)at->velocity[i]) : 0;
    return at->state[i] + ahead;
}

// 0 for a replica without a turn so far: its first turn starts at the centre.
static double gift_of(const LocalVectors *at, const LocalTurn *turn, size_t i) {
    return at->state ? elastic_gift(local_replica(at, turn, i), at->global[i], turn) : 0;
}

void local_exchange(float *own, const LocalVectors *at, const LocalTurn *turn, size_t count) {
    for (size_t i = 0; i < count && turn->number[0] != 0; i++)
        own[i] = (float)((double)own[i] - gift_of(at, turn, i));
}

bool local_gifts_fit(const LocalVectors *at, const LocalTurn *turn, double limit, size_t count) {
    size_t unfit = 0;
    for (size_t i = 0; i < count; i++)
        unfit += fabs(gift_of(at, turn, i)) < limit ? 0 : 1u; // counts NaN as unfit, too
    return unfit == 0;
}

// Gifts are multiples of 2^-40, so that the conversion is exact; the sum is modulo 2^64 as in aggregate.c.
void local_add_gifts(int64_t *changes, const LocalVectors *at, const LocalTurn *turn, size_t count) {
    for (size_t i = 0; i < count; i++)
        changes[i] = (int64_t)((uint64_t)changes[i] + (uint64_t)llrint(gift_of(at, turn, i) * AGGREGATE_UNIT));
}

#include "server_rules.h"

#include <string.h>

#include "fedavg/rules/sum/aggregate.h"

#define SERVER_POINTER(name) [SERVER_ROW_##name] = &name##_server_rule,
const ServerRule *const server_rules[SERVER_RULE_COUNT] = {SERVER_RULES(SERVER_POINTER)};

// Powers and logarithms of the round are computed here, once: the loops over the weights call no library function that
// may differ between the CPU and a GPU.
ServerTurn server_turn(const Chosen *chosen, uint32_t round, uint32_t cohort, uint32_t population) {
    ServerTurn turn = {.round = round, .cohort = cohort, .population = population};
    memcpy(turn.number, chosen->number, sizeof turn.number);
    if (server_rules[chosen->row]->prepare) server_rules[chosen->row]->prepare(&turn);
    return turn;
}

// A first value may depend on the rule's numbers (Adam's tau) but not on the weight.
void server_begin(ServerState *state, int index, const Chosen *chosen, size_t count) {
    const ServerRule *rule = server_rules[chosen->row];
    const ServerTurn turn = server_turn(chosen, 1, 1, 1);
    const double first = rule->start ? rule->start(&turn, index) : 0;
    for (size_t i = 0; i < count; i++)
        state[i].real = first;
}

// A block of weights, with its states and totals.
typedef struct Block {
    float *weights, *common;
    ServerState *states[SERVER_STATES];
    const int64_t *updates, *changes; // totals
    double scale, factor;
    size_t count;
} Block;

// One loop per rule, into which the rule's function is inlined. A rule needs no other code than its function and its
// row.
#define SERVER_LOOP(name)                                                                                              \
    AGGREGATE_VECTORS static void name##_loop(const Block *at, const ServerTurn *given) {                              \
        const ServerTurn turn = *given;                                                                                \
        const Block block = *at;                                                                                       \
        const uint32_t states = name##_server_rule.states;                                                             \
        for (size_t i = 0; i < block.count; i++) {                                                                     \
            ServerState state[SERVER_STATES];                                                                          \
            float common = 0;                                                                                          \
            const Update update = {(double)block.updates[i] * block.scale * block.factor,                              \
                                   name##_server_rule.sums ? block.changes[i] : 0};                                    \
            for (uint32_t s = 0; s < states; s++)                                                                      \
                state[s] = block.states[s][i];                                                                         \
            block.weights[i] = (float)server_##name((double)block.weights[i], update, state, &common, &turn);          \
            for (uint32_t s = 0; s < states; s++)                                                                      \
                block.states[s][i] = state[s];                                                                         \
            if (name##_server_rule.tells) block.common[i] = common;                                                    \
        }                                                                                                              \
    }
SERVER_RULES(SERVER_LOOP)

#define SERVER_LOOP_OF(name) [SERVER_ROW_##name] = name##_loop,
static void (*const loops[SERVER_RULE_COUNT])(const Block *, const ServerTurn *) = {SERVER_RULES(SERVER_LOOP_OF)};

// Steps `count` weights from `first` on, after adding up their totals over all slots. A run's totals are made and used
// while they are in the first-level cache, and the totals of the whole model are never stored. The states of a rule are
// read and written in that pass, too, so that a step is one pass over all memory.
static void apply_run(float *weights, int64_t *updates, const ServerMemory *memory, const ServerSums *sums,
                      const ServerTurn *turn, uint32_t row, size_t first, size_t count) {
    int64_t changes[AGGREGATE_MOST_RUN];
    const ServerRule *rule = server_rules[row];
    Block block = {.weights = weights + first,
                   .updates = updates,
                   .changes = changes,
                   .scale = 1.0 / (AGGREGATE_UNIT * sums->arrived),
                   .factor = sums->factor,
                   .count = count};
    aggregate_total(updates, sums->updates, sums->count, first, count);
    if (rule->sums) aggregate_total(changes, sums->changes, sums->count, first, count);
    for (uint32_t s = 0; s < rule->states; s++)
        block.states[s] = memory->states[s] + first;
    if (rule->tells) block.common = memory->common + first;
    loops[row](&block, turn);
}

// squared_length is summed over blocks of fixed size, whatever the length of the runs, so that its bits do not depend
// on the number of slots. The totals of a block are stored only to compute it.
double server_apply_part(float *weights, const ServerMemory *memory, const ServerSums *sums, const ServerTurn *turn,
                         uint32_t row, size_t first, size_t end) {
    enum { BLOCK = AGGREGATE_MOST_RUN };
    int64_t updates[BLOCK];
    const size_t most = aggregate_run(sums->count);
    const double scale = 1.0 / (AGGREGATE_UNIT * sums->arrived) * sums->factor;
    double squares = 0;
    for (; first < end; first += BLOCK) {
        const size_t block = end - first < BLOCK ? end - first : BLOCK;
        for (size_t i = 0; i < block; i += most)
            apply_run(weights, updates + (sums->squared_length ? i : 0), memory, sums, turn, row, first + i,
                      block - i < most ? block - i : most);
        if (sums->squared_length) squares += aggregate_squared_total(updates, scale, block);
    }
    return squares;
}

void server_apply(float *weights, const ServerMemory *memory, const ServerSums *sums, const ServerTurn *turn,
                  uint32_t row, size_t count) {
    const double squares = server_apply_part(weights, memory, sums, turn, row, 0, count);
    if (sums->squared_length) *sums->squared_length = squares;
}

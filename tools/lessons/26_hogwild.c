// Lesson 26. Hogwild: one model, no locks, and the updates that are lost.
//
// Every rank reads the shared weights, computes a gradient, and adds it to the weights while the others do the same:
// without a lock, so that of two additions to one weight at the same instant one is lost (lesson 5). Each sample has 4
// of 1000 features, so two ranks rarely touch the same weight, few updates are lost, and the model learns all the same
// (Niu et al. 2011). With 8 features instead of 1000 they meet all the time, and many are lost. Beside each weight
// there is a counter that is raised in the same way and loses about as many.
//
//   rank 0 ─┬─▶ [ w 0 | w 1 | w 2 | ...             | w 999 ] ◀─┬─ rank 2      one model, mapped by all: nothing is
//   rank 1 ─┘     each with its counter                         └─ rank 3      copied, and no place has an owner
//
// Question: even with 8 features the model learns. Why do lost updates hurt so little here?
// Build: cc -O2 -o lesson 26_hogwild.c
// Run: ./lesson
// Prints:
//   1000 features: error 16.7 before, 0.0 after, <number> of 4000000 updates lost
//   8 features: error 19.8 before, 0.0 after, <number> of 4000000 updates lost
// Change: "value + move, memory_order_relaxed" -> "value, memory_order_relaxed":
//   prints 8 features: error 19.8 before, 19.8 after, <number> of 4000000 updates lost
// Read: src/nn/kernels/optimizer.c: the step of "hogwild update=atomic" is a compare and exchange (lesson 6). Why has a
// weight no fetch_add?
// PyTorch: the mnist_hogwild example, model.share_memory() and a process for each rank.
#include <stdatomic.h>
#include <stdint.h>

#include "ranks.h"

enum { RANKS = 4, STEPS = 250000, MOST_FEATURES = 1000, NONZERO = 4, TESTS = 1000, MOST_TRIALS = 50 };

typedef struct Weight { // read and written by all ranks, in no order
    _Atomic float value;
    _Atomic int updates;
} Weight;

typedef struct Model {
    unsigned features;
    Weight weights[MOST_FEATURES];
} Model;

// A number that looks like chance and depends on `seed` alone.
static uint32_t scramble(uint32_t seed) {
    seed = (seed ^ seed >> 16) * 0x45d9f3b;
    seed = (seed ^ seed >> 16) * 0x45d9f3b;
    return seed ^ seed >> 16;
}

// Prediction - truth for one random sample, whose features are the 4 that are 1. The true weights are -3 to 3.
static float error_of(unsigned features[NONZERO], Model *model, uint32_t sample) {
    float error = 0;
    for (uint32_t i = 0; i < NONZERO; i++) {
        features[i] = scramble(sample * NONZERO + i + 1) % model->features;
        error += atomic_load_explicit(&model->weights[features[i]].value, memory_order_relaxed);
        error -= (float)(features[i] % 7) - 3;
    }
    return error;
}

static void train(int rank, int size, void *memory) {
    Model *model = memory;
    unsigned features[NONZERO];
    for (int step = 0; step < STEPS; step++) {
        const float move = -0.1f * error_of(features, model, (uint32_t)(step * size + rank));
        for (int i = 0; i < NONZERO; i++) {
            Weight *weight = &model->weights[features[i]];
            const float value = atomic_load_explicit(&weight->value, memory_order_relaxed);
            atomic_store_explicit(&weight->value, value + move, memory_order_relaxed);
            const int updates = atomic_load_explicit(&weight->updates, memory_order_relaxed);
            atomic_store_explicit(&weight->updates, updates + 1, memory_order_relaxed);
        }
    }
}

static double mean_squared_error(Model *model) {
    double sum = 0;
    unsigned features[NONZERO];
    for (uint32_t test = 0; test < TESTS; test++) {
        const float error = error_of(features, model, RANKS * STEPS + test); // no rank has trained on these
        sum += (double)(error * error);
    }
    return sum / TESTS;
}

static int train_and_count_lost(Model *model, unsigned features) {
    *model = (Model){.features = features};
    pid_t pids[RANKS];
    start_ranks(pids, RANKS, train, model);
    join_ranks(pids, RANKS);
    int lost = RANKS * STEPS * NONZERO;
    for (unsigned i = 0; i < features; i++)
        lost -= atomic_load(&model->weights[i].updates);
    return lost;
}

int main(void) {
    static const unsigned features[] = {MOST_FEATURES, 8};
    Model *model = share(sizeof *model);
    for (int i = 0; i < 2; i++) {
        *model = (Model){.features = features[i]};
        const double before = mean_squared_error(model);
        int lost = 0;
        const int trials = i == 0 ? 1 : MOST_TRIALS; // on a busy machine ranks seldom meet
        for (int trial = 0; trial < trials && lost == 0; trial++)
            lost = train_and_count_lost(model, features[i]);
        printf("%u features: error %.1f before, %.1f after, %d of %d updates lost\n", features[i], before,
               mean_squared_error(model), lost, RANKS * STEPS * NONZERO);
    }
    return 0;
}

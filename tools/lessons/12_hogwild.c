// Lesson 12. Hogwild: one model, no locks, and the updates that are lost.
//
// Every rank reads the shared weights, computes a gradient, and adds it to the weights while the others do the same:
// without a lock, so that of two additions to one weight at the same instant one is lost (lesson 3). Each sample has 4
// of 1000 features, so two ranks rarely touch the same weight, few updates are lost, and the model learns all the same
// (Niu et al. 2011). Beside each weight stands a counter that is raised in the same way and loses the same updates.
//
// PyTorch: the mnist_hogwild example, model.share_memory() and a process for each rank.
//
// Run: build/lessons/12_hogwild
// Prints:
//   mean squared error before: 16.9
//   mean squared error after: 0.0
//   lost: <number> of 4000000 updates
#include <stdatomic.h>

#include "base/rng.h"
#include "lesson.h"
#include "shm/segment.h"

enum { RANKS = 4, STEPS = 250000, FEATURES = 1000, NONZERO = 4, TESTS = 1000 };

typedef struct Weight { // read and written by all ranks, in no order
    _Atomic float value;
    _Atomic int updates;
} Weight;

// Prediction - truth for one random sample, whose features are the 4 that are 1. The true weights are -3 to 3.
static float error_of(uint32_t features[NONZERO], Weight *weights, uint32_t sample) {
    const RngBlock random = rng_block((RngKey){{1, 1}}, sample, 0, 0, 0);
    float error = 0;
    for (int i = 0; i < NONZERO; i++) {
        features[i] = rng_below(random.word[i], FEATURES);
        error += atomic_load_explicit(&weights[features[i]].value, memory_order_relaxed);
        error -= (float)(features[i] % 7) - 3;
    }
    return error;
}

static void train(int rank, int size, void *memory) {
    Weight *weights = memory;
    uint32_t features[NONZERO];
    for (int step = 0; step < STEPS; step++) {
        const float move = -0.1f * error_of(features, weights, (uint32_t)(step * size + rank));
        for (int i = 0; i < NONZERO; i++) {
            Weight *weight = &weights[features[i]];
            const float value = atomic_load_explicit(&weight->value, memory_order_relaxed);
            atomic_store_explicit(&weight->value, value + move, memory_order_relaxed);
            const int updates = atomic_load_explicit(&weight->updates, memory_order_relaxed);
            atomic_store_explicit(&weight->updates, updates + 1, memory_order_relaxed);
        }
    }
}

static void print_error(const char *when, Weight *weights) {
    float sum = 0;
    uint32_t features[NONZERO];
    for (uint32_t test = 0; test < TESTS; test++) {
        const float error = error_of(features, weights, RANKS * STEPS + test); // nobody trained on these
        sum += error * error;
    }
    printf("mean squared error %s: %.1f\n", when, sum / TESTS);
}

int main(void) {
    Error err;
    Segment segment;
    must(segment_create(&segment, "weights", FEATURES * sizeof(Weight), &err), &err);
    Weight *weights = segment.memory;
    pid_t pids[RANKS];
    print_error("before", weights);
    start_ranks(pids, RANKS, train, weights);
    join_ranks(pids, RANKS);
    print_error("after", weights);
    int lost = RANKS * STEPS * NONZERO;
    for (int i = 0; i < FEATURES; i++)
        lost -= atomic_load(&weights[i].updates);
    printf("lost: %d of %d updates\n", lost, RANKS * STEPS * NONZERO);
    segment_free(&segment);
    return 0;
}

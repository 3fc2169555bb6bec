// How many steps a worker queues on the GPU before it waits for them. The parent takes a worker whose samples do not
// grow for hung, so that a worker reports them about every half second. A step may take a microsecond or a second,
// by model, batch, models per launch, GPU and other workers on it: each wait measures what a step takes.
//
//   for (uint32_t done = 0, now; done < steps; done += now) {
//       now = cuda_pace_begin(&pace, steps - done);
//       ... queues `now` steps, and waits for them ...
//       cuda_pace_end(&pace);
//   }
#ifndef SOUNDER_FEDAVG_GPU_CUDA_PACE_H
#define SOUNDER_FEDAVG_GPU_CUDA_PACE_H

#include <stdint.h>

#include "base/clock.h"

// All zeros: no step has been measured. Steps of different kinds (training, evaluation) need a pace each.
typedef struct CudaPace {
    double step_seconds; // of one step, as the last wait measured it
    uint32_t steps;      // queued since `begin`
    uint64_t begin;
} CudaPace;

// Steps of this length between two waits: one at least, and at most as many as make the wait's own cost negligible.
// Before any measurement a single step shows what a step takes.
static inline uint32_t cuda_pace_steps(double step_seconds) {
    enum { MOST_STEPS = 64 };
    const double wait_seconds = 0.5;
    if (!(step_seconds > 0) || step_seconds >= wait_seconds) return 1;
    if (step_seconds * MOST_STEPS <= wait_seconds) return MOST_STEPS;
    return (uint32_t)(wait_seconds / step_seconds);
}

// Returns the number of steps, at most `left`, to be queued now.
static inline uint32_t cuda_pace_begin(CudaPace *pace, uint32_t left) {
    const uint32_t steps = cuda_pace_steps(pace->step_seconds);
    pace->steps = steps < left ? steps : left;
    pace->begin = clock_nanoseconds();
    return pace->steps;
}

static inline void cuda_pace_end(CudaPace *pace) {
    pace->step_seconds = clock_seconds_since(pace->begin) / pace->steps;
}

#endif

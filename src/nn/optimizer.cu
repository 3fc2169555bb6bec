// The GPU's side of optimizer.c.
#include "nn/cuda_launch.h"

namespace {

// One thread a parameter of a model.
template <bool ATOMIC>
__global__ void __launch_bounds__(ITEM_THREADS)
    sgd_step(float *weights, float *velocity, const float *gradient, Sgd sgd, uint32_t count, size_t stride,
             const uint32_t *counts) {
    ModelItem at = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, count);
    if (at.item >= count || counts[at.model] == 0) return;
    float *weight = weights + at.model * stride + at.item;
    size_t place = (size_t)at.model * count + at.item;
    float speed = sgd_velocity(velocity[place], gradient[place], *weight, &sgd);
    velocity[place] = speed;
    if (ATOMIC)
        atomicAdd(weight, -sgd.lr * speed);
    else
        *weight -= sgd.lr * speed;
}

} // namespace

void cuda_sgd_step(float *weights, float *velocity, const float *gradient, const Sgd *sgd, size_t count, size_t stride,
                   const CudaStep *step) {
    launch_items(sgd_step<false>, (uint32_t)count, step, weights, velocity, gradient, *sgd, (uint32_t)count, stride,
                 step->counts);
}

void cuda_sgd_step_atomically(float *weights, float *velocity, const float *gradient, const Sgd *sgd, size_t count,
                              size_t stride, const CudaStep *step) {
    launch_items(sgd_step<true>, (uint32_t)count, step, weights, velocity, gradient, *sgd, (uint32_t)count, stride,
                 step->counts);
}

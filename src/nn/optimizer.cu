// The GPU's side of optimizer.c.
#include "nn/cuda_descent.h"

namespace {

// One thread a parameter of a model.
template <bool MOMENTUM, bool ATOMIC, bool SHIFTS>
__global__ void __launch_bounds__(ITEM_THREADS)
    sgd_step(CudaDescent descent, const float *gradient, size_t first, uint32_t count, const uint32_t *counts) {
    ModelItem at = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, count);
    if (at.item >= count || counts[at.model] == 0) return;
    size_t parameter = first + at.item;
    descend<MOMENTUM, ATOMIC, SHIFTS>(descent, at.model, parameter,
                                      gradient[at.model * descent.parameters + parameter]);
}

template <bool ATOMIC, bool SHIFTS>
void launch_step(const CudaDescent *descent, const float *gradient, size_t first, size_t count, const CudaStep *step) {
    bool momentum = descent->sgd.momentum > 0;
    launch_items(momentum ? sgd_step<true, ATOMIC, SHIFTS> : sgd_step<false, ATOMIC, SHIFTS>, (uint32_t)count, step,
                 *descent, gradient, first, (uint32_t)count, step->counts);
}

} // namespace

void cuda_sgd_step(const CudaDescent *descent, const float *gradient, size_t first, size_t count,
                   const CudaStep *step) {
    if (descent->shifts)
        launch_step<false, true>(descent, gradient, first, count, step);
    else
        launch_step<false, false>(descent, gradient, first, count, step);
}

void cuda_sgd_step_atomically(const CudaDescent *descent, const float *gradient, size_t first, size_t count,
                              const CudaStep *step) {
    launch_step<true, false>(descent, gradient, first, count, step);
}

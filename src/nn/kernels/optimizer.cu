// The GPU's side of optimizer.c.
#include "nn/cuda/cuda_float4.h"
#include "nn/cuda/cuda_sgd_update.h"

namespace {

// One thread per parameter of a model. A model without samples in this step is left alone: with momentum even a
// gradient of zero would move its weights.
template <bool MOMENTUM, bool ATOMIC, bool SHIFTS>
__global__ void __launch_bounds__(ITEM_THREADS)
    sgd_step(CudaSgdUpdate descent, const float *gradient, size_t first, uint32_t count, const uint32_t *counts) {
    ModelItem at = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, count);
    if (!has_work(at, count, counts)) return;
    size_t parameter = first + at.item;
    descend<MOMENTUM, ATOMIC, SHIFTS>(descent, at.model, parameter,
                                      gradient[at.model * descent.state_stride + parameter]);
}

// Momentum is chosen here, so that a step without it neither reads nor writes a velocity. The shifts are a template
// parameter, too: most runs have none, and their kernel reads one array less.
template <bool ATOMIC, bool SHIFTS>
void launch_step(const CudaSgdUpdate *descent, const float *gradient, size_t first, size_t count,
                 const CudaStep *step) {
    bool momentum = descent->sgd.momentum > 0;
    launch_items(momentum ? sgd_step<true, ATOMIC, SHIFTS> : sgd_step<false, ATOMIC, SHIFTS>, (uint32_t)count, step,
                 *descent, gradient, first, (uint32_t)count);
}

__global__ void __launch_bounds__(ITEM_THREADS)
    add_share(float *full, const float *gradient, const uint32_t *totals, size_t stride, size_t first, uint32_t count,
              const uint32_t *counts) {
    const ModelItem at = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, count);
    if (!has_work(at, count, counts)) return;
    const size_t place = at.model * stride + first + at.item;
    full[place] += (float)counts[at.model] / (float)totals[at.model] * gradient[place];
}

// Whole gradients ----------------------------------------------------------------------------------------------------

enum { LENGTH_THREADS = 256 };

// gradient += pull * weight + shift. It is a kernel of its own because clipping must see the sum of all terms. The
// order of a whole step is join_terms, add_lengths for each run of parameters that learn, begin_whole_step, whole_step;
// each is a launch, because the next one needs the results of all blocks of the last.
__global__ void __launch_bounds__(ITEM_THREADS)
    join_terms(float *gradient, CudaSgdUpdate descent, size_t first, uint32_t count, const uint32_t *counts) {
    const ModelItem at = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, count);
    if (!has_work(at, count, counts)) return;
    const size_t parameter = first + at.item, place = at.model * descent.state_stride + parameter;
    const float weight = descent.weights[at.model * descent.stride + parameter];
    gradient[place] = gradient[place] + descent.pulls[at.model] * weight + descent.shifts[place];
}

// Adds the squares of a model's gradient. A block per CUDA_LENGTH_PART parameters, so that the whole GPU reads a large
// gradient. Blocks of several runs of parameters may share a place of the lengths; those of one launch do not. An idle
// model's gradient must not enter its next step. Squares are summed in double precision: a float would lose the small
// squares of a net of millions of weights.
__global__ void __launch_bounds__(LENGTH_THREADS) add_lengths(CudaWholeStep whole, const float *gradient, size_t stride,
                                                              size_t first, size_t count, const uint32_t *counts) {
    __shared__ double sums[LENGTH_THREADS];
    const uint32_t parts = parts_of((uint32_t)count, CUDA_LENGTH_PART), model = blockIdx.x / parts;
    const size_t part = blockIdx.x - model * parts, end = (part + 1) * CUDA_LENGTH_PART;
    if (counts[model] == 0) return;
    const float *own = gradient + model * stride + first;
    double sum = 0;
    for (size_t i = part * CUDA_LENGTH_PART + threadIdx.x; i < (end < count ? end : count); i += LENGTH_THREADS)
        sum += (double)own[i] * own[i];
    sum = sum_block(sums, sum);
    if (threadIdx.x == 0) whole.lengths[(size_t)model * whole.parts + first / CUDA_LENGTH_PART + part] += sum;
}

// Clips as torch.nn.utils.clip_grad_norm_ does. A thread per model, which adds the parts in their order. The 1e-6 is
// PyTorch's, against a division by zero. The lengths become zeros for the next step, so that no other launch has to
// clear them.
__global__ void __launch_bounds__(ITEM_THREADS)
    begin_whole_step(CudaWholeStep whole, double *forgotten, CudaOptimizer optimizer, CudaSgdUpdate descent,
                     uint32_t models, const uint32_t *counts) {
    const uint32_t m = blockIdx.x * ITEM_THREADS + threadIdx.x;
    if (m >= models || counts[m] == 0) return;
    double length = 0, *lengths = whole.lengths + (size_t)m * whole.parts;
    for (uint32_t part = 0; part < whole.parts && optimizer.clip > 0; part++) {
        length += lengths[part];
        lengths[part] = 0;
    }
    const double factor = optimizer.clip > 0 ? optimizer.clip / (sqrt(length) + 1e-6) : 1;
    whole.factors[m] = factor < 1 ? (float)factor : 1.0f;
    if (optimizer.squares)
        whole.adam[m] = adam_next(forgotten + 2 * (size_t)m, &optimizer.adam, *descent.lr, descent.sgd.weight_decay);
}

// The factor of each model's clipping is applied here, on the way, so that no pass scales the gradient. The
// formulas are those of step.h, which the CPU uses, too.
template <bool ADAM, bool NESTEROV, bool ATOMIC>
__global__ void __launch_bounds__(ITEM_THREADS)
    whole_step(CudaSgdUpdate descent, CudaWholeStep whole, float *squares, const float *gradient, size_t first,
               uint32_t count, const uint32_t *counts) {
    const ModelItem at = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, count);
    if (!has_work(at, count, counts)) return;
    const size_t parameter = first + at.item, place = at.model * descent.state_stride + parameter;
    const float bounded = gradient[place] * whole.factors[at.model], lr = *descent.lr;
    float *weight = descent.weights + at.model * descent.stride + parameter, *velocity = descent.velocity + place;
    if (ADAM) {
        *weight = adam_moved(*weight, velocity, squares + place, bounded, whole.adam + at.model);
    } else if (NESTEROV) {
        *weight -= lr * sgd_nesterov(velocity, bounded, *weight, &descent.sgd);
    } else {
        const float speed = *velocity = sgd_velocity(*velocity, bounded, *weight, &descent.sgd);
        if (ATOMIC)
            atomicAdd_system(weight, -lr * speed);
        else
            *weight -= lr * speed;
    }
}

} // namespace

// A run of neighbouring parameters per launch, for all models at once.
void cuda_sgd_step(const CudaSgdUpdate *descent, const float *gradient, size_t first, size_t count,
                   const CudaStep *step) {
    if (descent->shifts)
        launch_step<false, true>(descent, gradient, first, count, step);
    else
        launch_step<false, false>(descent, gradient, first, count, step);
}

void cuda_sgd_step_atomically(const CudaSgdUpdate *descent, const float *gradient, size_t first, size_t count,
                              const CudaStep *step) {
    launch_step<true, false>(descent, gradient, first, count, step);
}

void cuda_add_share(float *full, const float *gradient, const uint32_t *totals, size_t stride, size_t first,
                    size_t count, const CudaStep *step) {
    launch_items(add_share, (uint32_t)count, step, full, gradient, totals, stride, first, (uint32_t)count);
}

void cuda_join_terms(float *gradient, const CudaSgdUpdate *descent, size_t first, size_t count, const CudaStep *step) {
    launch_items(join_terms, (uint32_t)count, step, gradient, *descent, first, (uint32_t)count);
}

void cuda_add_lengths(const CudaWholeStep *whole, const float *gradient, size_t stride, size_t first, size_t count,
                      const CudaStep *step) {
    launch(add_lengths, (size_t)step->models * parts_of((uint32_t)count, CUDA_LENGTH_PART), LENGTH_THREADS,
           step->stream, *whole, gradient, stride, first, count, step->counts);
}

void cuda_begin_whole_step(const CudaWholeStep *whole, double *forgotten, const CudaOptimizer *optimizer,
                           const CudaSgdUpdate *descent, const CudaStep *step) {
    const uint32_t models = (uint32_t)step->models;
    launch(begin_whole_step, parts_of(models, ITEM_THREADS), ITEM_THREADS, step->stream, *whole, forgotten, *optimizer,
           *descent, models, step->counts);
}

void cuda_whole_step(const CudaSgdUpdate *descent, const CudaWholeStep *whole, const CudaOptimizer *optimizer,
                     const float *gradient, size_t first, size_t count, const CudaStep *step) {
    launch_items(optimizer->squares    ? whole_step<true, false, false>
                 : optimizer->nesterov ? whole_step<false, true, false>
                                       : whole_step<false, false, false>,
                 (uint32_t)count, step, *descent, *whole, optimizer->squares, gradient, first, (uint32_t)count);
}

void cuda_whole_step_atomically(const CudaSgdUpdate *descent, const CudaWholeStep *whole,
                                const CudaOptimizer *optimizer, const float *gradient, size_t first, size_t count,
                                const CudaStep *step) {
    launch_items(whole_step<false, false, true>, (uint32_t)count, step, *descent, *whole, optimizer->squares, gradient,
                 first, (uint32_t)count);
}

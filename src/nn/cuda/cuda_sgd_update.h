// One step of SGD on one parameter, which all kernels that change weights share: C++ only.
//
//   descend<MOMENTUM, ATOMIC, SHIFTS>(descent, model, parameter, gradient);
#ifndef SOUNDER_NN_CUDA_CUDA_SGD_UPDATE_H
#define SOUNDER_NN_CUDA_CUDA_SGD_UPDATE_H

#include "nn/cuda/cuda_launch.h"

// Without MOMENTUM the velocity is the gradient itself and is not stored. ATOMIC: an addition that is atomic for other
// processes, too (Hogwild). SHIFTS: descent has shifts.
template <bool MOMENTUM, bool ATOMIC, bool SHIFTS = false>
__device__ inline void descend(const CudaSgdUpdate &descent, uint32_t model, size_t parameter, float gradient) {
    float *weight = descent.weights + model * descent.stride + parameter;
    float *velocity = descent.velocity + model * descent.state_stride + parameter;
    Sgd sgd = descent.sgd;
    if (SHIFTS) {
        gradient += descent.shifts[model * descent.state_stride + parameter];
        sgd.weight_decay += descent.pulls[model];
    }
    float speed = sgd_velocity(MOMENTUM ? *velocity : 0, gradient, *weight, &sgd);
    if (MOMENTUM) *velocity = speed;
    const float lr = *descent.lr;
    if (ATOMIC)
        atomicAdd_system(weight, -lr * speed);
    else
        *weight -= lr * speed;
}

#endif

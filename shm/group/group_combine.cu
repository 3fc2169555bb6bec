// The GPU's side of group_combine.c: one thread per element.
#include "shm/group/group_combine.h"

#include <cuda_runtime.h>

namespace {

enum { THREADS = 256 };

struct Inputs {
    const void *ranks[GROUP_MAX_RANKS]; // in the order they are combined
};

// Integers are added and multiplied as unsigned numbers, which wrap; the means of integers need wider sums.
template <typename Element> struct Arithmetic { typedef Element Wrapping, Sum; };
template <> struct Arithmetic<int32_t> {
    typedef uint32_t Wrapping;
    typedef int64_t Sum;
};
template <> struct Arithmetic<int64_t> {
    typedef uint64_t Wrapping;
    typedef __int128 Sum;
};
template <> struct Arithmetic<uint8_t> {
    typedef uint32_t Wrapping;
    typedef uint32_t Sum;
};

template <typename Element> __device__ Element numeric(Element a, Element b, GroupOp op) {
    typedef typename Arithmetic<Element>::Wrapping Wrapping;
    switch (op) {
    case GROUP_PRODUCT:
        return (Element)((Wrapping)a * (Wrapping)b);
    case GROUP_MIN:
        return b < a ? b : a;
    case GROUP_MAX:
        return b > a ? b : a;
    default:
        return (Element)((Wrapping)a + (Wrapping)b);
    }
}

// Bitwise operations are only for integers.
template <typename Element> __device__ Element combined(Element a, Element b, GroupOp op) {
    switch (op) {
    case GROUP_BAND:
        return (Element)(a & b);
    case GROUP_BOR:
        return (Element)(a | b);
    case GROUP_BXOR:
        return (Element)(a ^ b);
    default:
        return numeric(a, b, op);
    }
}

template <> __device__ float combined(float a, float b, GroupOp op) {
    return numeric(a, b, op);
}

template <> __device__ double combined(double a, double b, GroupOp op) {
    return numeric(a, b, op);
}

template <typename Element>
__global__ void __launch_bounds__(THREADS)
    combine(Element *out, Inputs inputs, uint32_t ranks, size_t count, GroupOp op) {
    size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    Element result = ((const Element *)inputs.ranks[0])[i];
    for (uint32_t rank = 1; rank < ranks; rank++)
        result = combined(result, ((const Element *)inputs.ranks[rank])[i], op);
    out[i] = result;
}

template <typename Element>
__global__ void __launch_bounds__(THREADS) average(Element *out, Inputs inputs, uint32_t ranks, size_t count) {
    typedef typename Arithmetic<Element>::Sum Sum;
    size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    Sum sum = ((const Element *)inputs.ranks[0])[i];
    for (uint32_t rank = 1; rank < ranks; rank++)
        sum += ((const Element *)inputs.ranks[rank])[i];
    out[i] = (Element)(sum / (Sum)ranks);
}

template <typename Element> void launch(void *out, const Inputs &inputs, uint32_t ranks, size_t count, GroupOp op) {
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)((count + THREADS - 1) / THREADS));
    config.blockDim = dim3(THREADS);
    if (op == GROUP_AVG)
        (void)cudaLaunchKernelEx(&config, average<Element>, (Element *)out, inputs, ranks, count);
    else
        (void)cudaLaunchKernelEx(&config, combine<Element>, (Element *)out, inputs, ranks, count, op);
}

} // namespace

void group_combine_cuda(void *out, const void *const *inputs, uint32_t ranks, size_t count, GroupType type,
                        GroupOp op) {
    Inputs list = {};
    for (uint32_t rank = 0; rank < ranks; rank++)
        list.ranks[rank] = inputs[rank];
    switch (type) {
    case GROUP_F32:
        return launch<float>(out, list, ranks, count, op);
    case GROUP_F64:
        return launch<double>(out, list, ranks, count, op);
    case GROUP_I32:
        return launch<int32_t>(out, list, ranks, count, op);
    case GROUP_I64:
        return launch<int64_t>(out, list, ranks, count, op);
    case GROUP_U8:
        return launch<uint8_t>(out, list, ranks, count, op);
    }
}

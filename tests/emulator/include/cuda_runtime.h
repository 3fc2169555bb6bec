// What .cu files may use, compiled by the host's C++ compiler: a thread of a kernel is a call of the kernel function.
//
// Built-in variables, __shared__ (fixed sizes), __syncthreads, atomics, rounding intrinsics, vector types. There are no
// warps: code that relies on threads of a warp running together is wrong here, and every use of a warp function fails
// to compile. Kernels are launched with cudaLaunchKernelEx; <<<>>> is not C++.
#ifndef SOUNDER_TESTS_EMULATOR_INCLUDE_CUDA_RUNTIME_H
#define SOUNDER_TESTS_EMULATOR_INCLUDE_CUDA_RUNTIME_H

#include <cmath>
#include <cstring>
#include <functional>
#include <utility>

#include <math.h> // expf, fmaxf and the like in the global namespace, as nvcc has them

#include "cuda_runtime_api.h"

#define __launch_bounds__(...)
#define __grid_constant__
#define __constant__ static
// Blocks run one after the other, so one copy serves all of them; it is poisoned before each, in the size that the
// symbol table says. The room behind a variable that Clang's AddressSanitizer watches would be part of that.
#ifdef __clang__
#define __shared__ static __attribute__((no_sanitize("address")))
#else
#define __shared__ static
#endif

// Not const: they change while a thread waits at a barrier.
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
constexpr int warpSize = 32;

namespace emulator {

// Waits until all threads of the block have come to the barrier of this source line.
void barrier(const char *file, int line);

// Checks the configuration and queues the kernel. `threads` calls the kernel with its arguments, once for each thread.
cudaError_t launch(const cudaLaunchConfig_t &config, const void *kernel, std::function<void()> thread);

template <typename T> T atomic_update(T *address, T (*combine)(T, T), T operand) {
    T seen, next;
    __atomic_load(address, &seen, __ATOMIC_RELAXED);
    do
        next = combine(seen, operand);
    while (!__atomic_compare_exchange(address, &seen, &next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return seen;
}

template <typename T> T sum(T a, T b) {
    return static_cast<T>(a + b);
}
template <typename T> T smaller(T a, T b) {
    return b < a ? b : a;
}
template <typename T> T larger(T a, T b) {
    return b > a ? b : a;
}
template <typename T> T bits_of_either(T a, T b) {
    return a | b;
}
template <typename T> T bits_of_both(T a, T b) {
    return a & b;
}

template <typename To, typename From> To reinterpret(From from) {
    static_assert(sizeof(To) == sizeof(From), "the same bits");
    To to;
    std::memcpy(&to, &from, sizeof to);
    return to;
}

template <typename T> struct identity { using type = T; };
template <typename T> using same = typename identity<T>::type; // is not deduced from: the pointer decides

} // namespace emulator

#define __syncthreads() ::emulator::barrier(__FILE__, __LINE__)
#define __syncwarp(...) static_assert(false, "the emulator has no warps")

static inline void __threadfence() {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
static inline void __threadfence_block() {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
static inline void __threadfence_system() {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

// Atomic between processes too, which run side by side. CUDA has them for these types.
#define EMULATED_ATOMIC(name, T, combine)                                                                              \
    static inline T name(T *address, T operand) {                                                                      \
        return emulator::atomic_update<T>(address, combine<T>, operand);                                               \
    }
EMULATED_ATOMIC(atomicAdd, int, emulator::sum)
EMULATED_ATOMIC(atomicAdd, unsigned int, emulator::sum)
EMULATED_ATOMIC(atomicAdd, unsigned long long, emulator::sum)
EMULATED_ATOMIC(atomicAdd, float, emulator::sum)
EMULATED_ATOMIC(atomicAdd, double, emulator::sum)
EMULATED_ATOMIC(atomicMin, int, emulator::smaller)
EMULATED_ATOMIC(atomicMin, unsigned int, emulator::smaller)
EMULATED_ATOMIC(atomicMin, unsigned long long, emulator::smaller)
EMULATED_ATOMIC(atomicMax, int, emulator::larger)
EMULATED_ATOMIC(atomicMax, unsigned int, emulator::larger)
EMULATED_ATOMIC(atomicMax, unsigned long long, emulator::larger)
EMULATED_ATOMIC(atomicOr, unsigned int, emulator::bits_of_either)
EMULATED_ATOMIC(atomicAnd, unsigned int, emulator::bits_of_both)
// Of all processes' threads, and not of one process's alone.
EMULATED_ATOMIC(atomicAdd_system, unsigned long long, emulator::sum)
EMULATED_ATOMIC(atomicAdd_system, float, emulator::sum)
#undef EMULATED_ATOMIC

template <typename T> T atomicExch(T *address, emulator::same<T> value) {
    T before;
    __atomic_exchange(address, &value, &before, __ATOMIC_RELAXED);
    return before;
}
template <typename T> T atomicCAS(T *address, emulator::same<T> expected, emulator::same<T> value) {
    __atomic_compare_exchange(address, &expected, &value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return expected;
}

// Arithmetic. _rn: rounded to nearest, never fused with its neighbours (the emulated build has -ffp-contract=off).
static inline float __fadd_rn(float a, float b) {
    return a + b;
}
static inline float __fsub_rn(float a, float b) {
    return a - b;
}
static inline float __fmul_rn(float a, float b) {
    return a * b;
}
static inline float __fdiv_rn(float a, float b) {
    return a / b;
}
static inline float __fsqrt_rn(float a) {
    return sqrtf(a);
}
static inline float __frcp_rn(float a) {
    return 1.0f / a;
}
static inline float __fmaf_rn(float a, float b, float c) {
    return fmaf(a, b, c);
}
static inline double __dadd_rn(double a, double b) {
    return a + b;
}
static inline double __dsub_rn(double a, double b) {
    return a - b;
}
static inline double __dmul_rn(double a, double b) {
    return a * b;
}
static inline double __ddiv_rn(double a, double b) {
    return a / b;
}
static inline double __dsqrt_rn(double a) {
    return sqrt(a);
}
static inline double __fma_rn(double a, double b, double c) {
    return fma(a, b, c);
}
static inline float __int2float_rn(int a) {
    return static_cast<float>(a);
}
static inline float __uint2float_rn(unsigned int a) {
    return static_cast<float>(a);
}
static inline float __ll2float_rn(long long a) {
    return static_cast<float>(a);
}
static inline double __ll2double_rn(long long a) {
    return static_cast<double>(a);
}
static inline float __double2float_rn(double a) {
    return static_cast<float>(a);
}
static inline int __float2int_rn(float a) {
    return static_cast<int>(rintf(a));
}
static inline int __float2int_rd(float a) {
    return static_cast<int>(floorf(a));
}
static inline long long __double2ll_rn(double a) {
    return llrint(a);
}
static inline int __float_as_int(float a) {
    return emulator::reinterpret<int>(a);
}
static inline unsigned int __float_as_uint(float a) {
    return emulator::reinterpret<unsigned int>(a);
}
static inline float __int_as_float(int a) {
    return emulator::reinterpret<float>(a);
}
static inline float __uint_as_float(unsigned int a) {
    return emulator::reinterpret<float>(a);
}
static inline long long __double_as_longlong(double a) {
    return emulator::reinterpret<long long>(a);
}
static inline double __longlong_as_double(long long a) {
    return emulator::reinterpret<double>(a);
}
static inline unsigned int __umulhi(unsigned int a, unsigned int b) {
    return static_cast<unsigned int>((static_cast<unsigned long long>(a) * b) >> 32);
}
static inline int __clz(int a) {
    return a == 0 ? 32 : __builtin_clz(static_cast<unsigned int>(a));
}
static inline int __popc(unsigned int a) {
    return __builtin_popcount(a);
}
// Accurate here, approximate on a GPU: results may be compared with a tolerance only.
#define __expf expf // glibc declares functions of these names
#define __logf logf
static inline float __fdividef(float a, float b) {
    return a / b;
}
static inline float rsqrtf(float a) {
    return 1.0f / sqrtf(a);
}

template <typename T> T __ldg(const T *address) {
    return *address;
}

template <typename T> constexpr T min(T a, T b) {
    return b < a ? b : a;
}
template <typename T> constexpr T max(T a, T b) {
    return a < b ? b : a;
}

// Vector types: aligned as on the GPU, and used so by the compiler, which makes misaligned accesses fail here too.
#define EMULATED_VECTORS(T, element, align2, align4)                                                                   \
    struct alignas(align2) T##2 {                                                                                      \
        element x, y;                                                                                                  \
    };                                                                                                                 \
    struct alignas(align4) T##4 {                                                                                      \
        element x, y, z, w;                                                                                            \
    };                                                                                                                 \
    static inline T##2 make_##T##2(element x, element y) {                                                             \
        return T##2 {x, y};                                                                                            \
    }                                                                                                                  \
    static inline T##4 make_##T##4(element x, element y, element z, element w) {                                       \
        return T##4 {x, y, z, w};                                                                                      \
    }
EMULATED_VECTORS(float, float, 8, 16)
EMULATED_VECTORS(int, int, 8, 16)
EMULATED_VECTORS(uint, unsigned int, 8, 16)
EMULATED_VECTORS(char, signed char, 2, 4)
EMULATED_VECTORS(uchar, unsigned char, 2, 4)
#undef EMULATED_VECTORS
struct alignas(16) double2 {
    double x, y;
};
struct alignas(16) longlong2 {
    long long x, y;
};
static inline double2 make_double2(double x, double y) {
    return double2{x, y};
}

// As in CUDA: arguments are converted to the kernel's parameters and copied at the call.
template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(Parameters...),
                               Arguments &&...arguments) {
    auto pack = [&](Parameters... converted) -> std::function<void()> { return [=] { kernel(converted...); }; };
    return emulator::launch(*config, reinterpret_cast<const void *>(kernel),
                            pack(std::forward<Arguments>(arguments)...));
}

template <typename T> cudaError_t cudaMalloc(T **memory, size_t bytes) {
    return cudaMalloc(reinterpret_cast<void **>(memory), bytes);
}
template <typename T>
cudaError_t cudaMallocManaged(T **memory, size_t bytes, unsigned int flags = cudaMemAttachGlobal) {
    return cudaMallocManaged(reinterpret_cast<void **>(memory), bytes, flags);
}
template <typename... Parameters>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, void (*kernel)(Parameters...)) {
    return cudaFuncGetAttributes(attributes, reinterpret_cast<const void *>(kernel));
}

#endif

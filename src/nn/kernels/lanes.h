// Lanes: one vector register full of samples. Code for a layer reads like code for one sample whose scalar is Lanes.
//
//   Lanes sum = lanes_of(0);
//   for (size_t i = 0; i < count; i++) sum += lanes_of(weight[i]) * in[i];      // in: (count,N) seen as Lanes
//
// A file that includes this header is compiled once per instruction set, with SOUNDER_LANES floats in a vector and
// SOUNDER_ISA the set's name, which ISA_NAME appends to every public symbol so that the builds can be linked together.
// No build uses -ffast-math: a NaN stays a NaN, and a result does not depend on how a loop was vectorised.
#ifndef SOUNDER_NN_KERNELS_LANES_H
#define SOUNDER_NN_KERNELS_LANES_H

#include <stddef.h>
#include <stdint.h>

#if SOUNDER_LANES > 4
#include <immintrin.h> // for parts of a vector; all other operations are the compiler's own vector extensions
#endif

#if !defined SOUNDER_LANES || !defined SOUNDER_ISA
#error "compile this file through the per-instruction-set targets of src/nn/CMakeLists.txt"
#endif

#define ISA_JOIN(name, isa)   name##_##isa
#define ISA_EXPAND(name, isa) ISA_JOIN(name, isa)
#define ISA_NAME(name)        ISA_EXPAND(name, SOUNDER_ISA)

// A file that defines SOUNDER_CALLS compiles faster and runs slower; sums can then be rounded in other places.
#ifdef SOUNDER_CALLS
#define ALWAYS_INLINE static inline
#else
#define ALWAYS_INLINE static inline __attribute__((always_inline))
#endif

// may_alias: tensors are arrays of float that are accessed through these types.
typedef float Lanes __attribute__((vector_size(4 * SOUNDER_LANES), may_alias));
typedef float LooseLanes __attribute__((vector_size(4 * SOUNDER_LANES), may_alias, aligned(4))); // anywhere in memory
typedef int32_t IntLanes __attribute__((vector_size(4 * SOUNDER_LANES), may_alias));
typedef uint32_t WordLanes __attribute__((vector_size(4 * SOUNDER_LANES), may_alias));

// Hides from the compiler how the pointer was computed. Otherwise it keeps one pointer in a register for each place
// that the loop reads or writes.
#define FORGET_ORIGIN(pointer) __asm__("" : "+r"(pointer))

// Keeps the value in a register from here on. With few registers GCC would read it from memory again at each use, and
// such loops wait for memory already.
#ifdef __x86_64__
#define IN_REGISTER(lanes) __asm__("" : "+v"(lanes))
#else
#define IN_REGISTER(lanes) __asm__("" : "+w"(lanes))
#endif

// Subtracting zero changes no float, so this is a mere broadcast; adding it would turn -0 into 0 and cost an addition.
ALWAYS_INLINE Lanes lanes_of(float value) {
    return value - (Lanes){0};
}

// The first `count` lanes, for count up to SOUNDER_LANES, at any address. No memory after them is touched; a read gives
// zeros in the other lanes.
#if SOUNDER_LANES == 16
ALWAYS_INLINE Lanes lanes_part(const float *from, size_t count) {
    return (Lanes)_mm512_maskz_loadu_ps((__mmask16)((1u << count) - 1), from);
}
ALWAYS_INLINE void lanes_store_part(float *to, Lanes part, size_t count) {
    _mm512_mask_storeu_ps(to, (__mmask16)((1u << count) - 1), (__m512)part);
}
#elif SOUNDER_LANES == 8
ALWAYS_INLINE __m256i lanes_mask(size_t count) {
    return (__m256i)((IntLanes){0, 1, 2, 3, 4, 5, 6, 7} < (int32_t)count);
}
ALWAYS_INLINE Lanes lanes_part(const float *from, size_t count) {
    return (Lanes)_mm256_maskload_ps(from, lanes_mask(count));
}
ALWAYS_INLINE void lanes_store_part(float *to, Lanes part, size_t count) {
    _mm256_maskstore_ps(to, lanes_mask(count), (__m256)part);
}
#else
ALWAYS_INLINE Lanes lanes_part(const float *from, size_t count) {
    Lanes part = lanes_of(0);
    for (size_t i = 0; i < count; i++)
        part[i] = from[i];
    return part;
}
ALWAYS_INLINE void lanes_store_part(float *to, Lanes part, size_t count) {
    for (size_t i = 0; i < count; i++)
        to[i] = part[i];
}
#endif

// Tensors of few samples have N = FEW_SAMPLES, less than a vector. These read and write the samples of one place, at
// any address; a read gives zeros in the other lanes.
enum { FEW_SAMPLES = 4 };
#if SOUNDER_LANES == 16
ALWAYS_INLINE Lanes lanes_of_few(const float *from) {
    return (Lanes)_mm512_zextps128_ps512(_mm_loadu_ps(from));
}
ALWAYS_INLINE void lanes_store_few(float *to, Lanes few) {
    _mm_storeu_ps(to, _mm512_castps512_ps128((__m512)few));
}
#elif SOUNDER_LANES == 8
ALWAYS_INLINE Lanes lanes_of_few(const float *from) {
    return (Lanes)_mm256_zextps128_ps256(_mm_loadu_ps(from));
}
ALWAYS_INLINE void lanes_store_few(float *to, Lanes few) {
    _mm_storeu_ps(to, _mm256_castps256_ps128((__m256)few));
}
#else
ALWAYS_INLINE Lanes lanes_of_few(const float *from) {
    return *(const LooseLanes *)from;
}
ALWAYS_INLINE void lanes_store_few(float *to, Lanes few) {
    *(LooseLanes *)to = few;
}
#endif

// The vector of the N samples at one place of a tensor.
ALWAYS_INLINE Lanes lanes_of_samples(const float *from, size_t samples) {
    return samples < SOUNDER_LANES ? lanes_of_few(from) : *(const Lanes *)from;
}
ALWAYS_INLINE void lanes_store_samples(float *to, Lanes value, size_t samples) {
    if (samples < SOUNDER_LANES)
        lanes_store_few(to, value);
    else
        *(Lanes *)to = value;
}

// a * b + c, with one rounding if the machine has the instruction. The function states it, because a compiler contracts
// a * b + c in one place and not in another.
#if SOUNDER_LANES == 16
ALWAYS_INLINE Lanes lanes_fma(Lanes a, Lanes b, Lanes c) {
    return (Lanes)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}
#elif SOUNDER_LANES == 8
ALWAYS_INLINE Lanes lanes_fma(Lanes a, Lanes b, Lanes c) {
    return (Lanes)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}
#else
ALWAYS_INLINE Lanes lanes_fma(Lanes a, Lanes b, Lanes c) {
#ifdef __ARM_FEATURE_FMA
    for (int i = 0; i < SOUNDER_LANES; i++)
        c[i] = __builtin_fmaf(a[i], b[i], c[i]);
    return c;
#else
    return a * b + c;
#endif
}
#endif

// Lane by lane: mask is all ones (true) or all zeros, as comparisons of Lanes give it.
ALWAYS_INLINE Lanes lanes_select(IntLanes mask, Lanes yes, Lanes no) {
    return (Lanes)(((IntLanes)yes & mask) | ((IntLanes)no & ~mask));
}

// Negative lanes become zero; a NaN and -0 stay, since max returns its second operand if neither is larger.
#if SOUNDER_LANES == 16
ALWAYS_INLINE Lanes lanes_rectified(Lanes value) {
    return (Lanes)_mm512_max_ps(_mm512_setzero_ps(), (__m512)value);
}
#elif SOUNDER_LANES == 8
ALWAYS_INLINE Lanes lanes_rectified(Lanes value) {
    return (Lanes)_mm256_max_ps(_mm256_setzero_ps(), (__m256)value);
}
#else
ALWAYS_INLINE Lanes lanes_rectified(Lanes value) {
    return lanes_select(value < lanes_of(0), lanes_of(0), value);
}
#endif

// Index lists that take every other float, or every other group of four floats, of two vectors in a row.
#if SOUNDER_LANES == 16
#define LANES_EVEN  0, 2, 16, 18, 4, 6, 20, 22, 8, 10, 24, 26, 12, 14, 28, 30
#define LANES_ODD   1, 3, 17, 19, 5, 7, 21, 23, 9, 11, 25, 27, 13, 15, 29, 31
#define LANES_FOURS 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27
#define LANES_OTHER 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31
#elif SOUNDER_LANES == 8
#define LANES_EVEN  0, 2, 8, 10, 4, 6, 12, 14
#define LANES_ODD   1, 3, 9, 11, 5, 7, 13, 15
#define LANES_FOURS 0, 1, 2, 3, 8, 9, 10, 11
#define LANES_OTHER 4, 5, 6, 7, 12, 13, 14, 15
#elif SOUNDER_LANES == 4
#define LANES_EVEN  0, 2, 4, 6
#define LANES_ODD   1, 3, 5, 7
#define LANES_FOURS LANES_EVEN // no stage gets there
#define LANES_OTHER LANES_ODD
#else
#error "SOUNDER_LANES must be 16, 8 or 4"
#endif

// Sums across lanes and transposes take log2(SOUNDER_LANES) stages. Each stage splits the lanes of pairs of vectors;
// after the last one, vector c holds lane c of all vectors, in order. Two of the stages stay within groups of four
// lanes, which processors shuffle faster.
ALWAYS_INLINE Lanes lanes_even(Lanes left, Lanes right, int stage) {
    return stage < 2 ? __builtin_shufflevector(left, right, LANES_EVEN)
                     : __builtin_shufflevector(left, right, LANES_FOURS);
}
ALWAYS_INLINE Lanes lanes_odd(Lanes left, Lanes right, int stage) {
    return stage < 2 ? __builtin_shufflevector(left, right, LANES_ODD)
                     : __builtin_shufflevector(left, right, LANES_OTHER);
}

// Sums across the lanes of `count` vectors at once; count is a constant of at most SOUNDER_LANES. Lane j of the result
// is the sum of values[j]'s lanes, neighbours first. One sum costs about three instructions, since they share shuffles.
ALWAYS_INLINE Lanes lanes_sums_of(Lanes *values, int count) {
#pragma GCC unroll 4
    for (int stage = 0, left = SOUNDER_LANES; left > 1; stage++, left /= 2, count = (count + 1) / 2)
#pragma GCC unroll 8
        for (int i = 0; 2 * i < count; i++) {
            const Lanes next = 2 * i + 1 < count ? values[2 * i + 1] : (Lanes){0};
            values[i] = lanes_even(values[2 * i], next, stage) + lanes_odd(values[2 * i], next, stage);
        }
    return values[0];
}

ALWAYS_INLINE Lanes lanes_sums(Lanes values[SOUNDER_LANES]) {
    return lanes_sums_of(values, SOUNDER_LANES);
}

// Transposes a square of floats.
ALWAYS_INLINE void lanes_transpose(Lanes rows[SOUNDER_LANES]) {
#pragma GCC unroll 4
    for (int stage = 0, left = SOUNDER_LANES; left > 1; stage++, left /= 2) {
        Lanes parted[SOUNDER_LANES];
#pragma GCC unroll 8
        for (int i = 0; i < SOUNDER_LANES / 2; i++) {
            parted[i] = lanes_even(rows[2 * i], rows[2 * i + 1], stage);
            parted[i + SOUNDER_LANES / 2] = lanes_odd(rows[2 * i], rows[2 * i + 1], stage);
        }
#pragma GCC unroll 16
        for (int i = 0; i < SOUNDER_LANES; i++)
            rows[i] = parted[i];
    }
}

// e^x for x <= 0 (Cephes' expf: within 2 units in the last place). Below -87 the result would be denormal, so it is
// e^-87 instead. A NaN stays a NaN.
ALWAYS_INLINE Lanes lanes_exponential(Lanes x) {
    const Lanes lowest = lanes_of(-87.0f);
    x = lanes_select(x < lowest, lowest, x);
    Lanes finite = lanes_select(x == x, x, lowest); // converting a NaN to an integer is undefined
    IntLanes whole = __builtin_convertvector(finite * 1.44269504f - 0.5f, IntLanes);
    Lanes n = __builtin_convertvector(whole, Lanes);
    Lanes r = (x - n * 0.693359375f) + n * 2.12194440e-4f; // x - n ln 2, ln 2 in two parts
    Lanes p = lanes_of(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    Lanes power_of_two = (Lanes)((whole + 127) << 23);
    return (p * r * r + r + 1.0f) * power_of_two;
}

// The sum across the lanes of one vector, by halves.
ALWAYS_INLINE float lanes_sum(Lanes value) {
    float sums[SOUNDER_LANES];
    __builtin_memcpy(sums, &value, sizeof sums);
    for (int left = SOUNDER_LANES / 2; left > 0; left /= 2)
        for (int i = 0; i < left; i++)
            sums[i] += sums[i + left];
    return sums[0];
}

#endif

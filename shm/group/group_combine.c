#include "shm/group/group_combine.h"

#include <string.h>

enum { BLOCK_BYTES = 4096 }; // of one input: a block stays in the first-level cache

// All inputs are combined block by block. Intermediate values are stored in a separate block, because `out` may be an
// input that is still needed; only the last input's loop writes `out`, each element after reading it, which ONE_BY_ONE
// tells the compiler.
typedef void Combine(void *out, const void *const *inputs, uint32_t ranks, size_t count);

#ifdef __clang__
#define ONE_BY_ONE _Pragma("clang loop vectorize(assume_safety)")
#else
#define ONE_BY_ONE _Pragma("GCC ivdep")
#endif

#define DEFINE_COMBINE(name, Element, combined)                                                                        \
    static void name(void *out, const void *const *inputs, uint32_t ranks, size_t count) {                             \
        enum { BLOCK = BLOCK_BYTES / sizeof(Element) };                                                                \
        Element between[BLOCK];                                                                                        \
        for (size_t begin = 0; begin < count; begin += BLOCK) {                                                        \
            size_t here = count - begin < BLOCK ? count - begin : BLOCK;                                               \
            const Element *left = (const Element *)inputs[0] + begin;                                                  \
            for (uint32_t rank = 1; rank < ranks; rank++) {                                                            \
                const Element *right = (const Element *)inputs[rank] + begin;                                          \
                Element *result = rank + 1 == ranks ? (Element *)out + begin : between;                                \
                ONE_BY_ONE for (size_t i = 0; i < here; i++) {                                                         \
                    Element a = left[i], b = right[i];                                                                 \
                    result[i] = (Element)(combined);                                                                   \
                }                                                                                                      \
                left = between;                                                                                        \
            }                                                                                                          \
        }                                                                                                              \
    }

// Sums and products of integers wrap, which only unsigned arithmetic defines; products of bytes are computed in int.
DEFINE_COMBINE(sum_f32, float, a + b)
DEFINE_COMBINE(sum_f64, double, a + b)
DEFINE_COMBINE(sum_32, uint32_t, a + b)
DEFINE_COMBINE(sum_64, uint64_t, a + b)
DEFINE_COMBINE(sum_u8, uint8_t, a + b)
DEFINE_COMBINE(product_f32, float, a *b)
DEFINE_COMBINE(product_f64, double, a *b)
DEFINE_COMBINE(product_32, uint32_t, a *b)
DEFINE_COMBINE(product_64, uint64_t, a *b)
DEFINE_COMBINE(product_u8, uint8_t, a *b)
DEFINE_COMBINE(min_f32, float, b < a ? b : a)
DEFINE_COMBINE(min_f64, double, b < a ? b : a)
DEFINE_COMBINE(min_i32, int32_t, b < a ? b : a)
DEFINE_COMBINE(min_i64, int64_t, b < a ? b : a)
DEFINE_COMBINE(min_u8, uint8_t, b < a ? b : a)
DEFINE_COMBINE(max_f32, float, b > a ? b : a)
DEFINE_COMBINE(max_f64, double, b > a ? b : a)
DEFINE_COMBINE(max_i32, int32_t, b > a ? b : a)
DEFINE_COMBINE(max_i64, int64_t, b > a ? b : a)
DEFINE_COMBINE(max_u8, uint8_t, b > a ? b : a)
DEFINE_COMBINE(band_32, uint32_t, a &b)
DEFINE_COMBINE(band_64, uint64_t, a &b)
DEFINE_COMBINE(band_u8, uint8_t, a &b)
DEFINE_COMBINE(bor_32, uint32_t, a | b)
DEFINE_COMBINE(bor_64, uint64_t, a | b)
DEFINE_COMBINE(bor_u8, uint8_t, a | b)
DEFINE_COMBINE(bxor_32, uint32_t, a ^ b)
DEFINE_COMBINE(bxor_64, uint64_t, a ^ b)
DEFINE_COMBINE(bxor_u8, uint8_t, a ^ b)

static void average_f32(void *out, const void *const *inputs, uint32_t ranks, size_t count) {
    float *mean = out;
    sum_f32(mean, inputs, ranks, count);
    for (size_t i = 0; i < count; i++)
        mean[i] /= (float)ranks;
}

static void average_f64(void *out, const void *const *inputs, uint32_t ranks, size_t count) {
    double *mean = out;
    sum_f64(mean, inputs, ranks, count);
    for (size_t i = 0; i < count; i++)
        mean[i] /= (double)ranks;
}

// Means of integers are exact, so the sums have a wider type. Division truncates towards zero.
#define DEFINE_AVERAGE(name, Element, Sum)                                                                             \
    static void name(void *out, const void *const *inputs, uint32_t ranks, size_t count) {                             \
        for (size_t i = 0; i < count; i++) {                                                                           \
            Sum sum = 0;                                                                                               \
            for (uint32_t rank = 0; rank < ranks; rank++)                                                              \
                sum += ((const Element *)inputs[rank])[i];                                                             \
            ((Element *)out)[i] = (Element)(sum / (Sum)ranks);                                                         \
        }                                                                                                              \
    }

DEFINE_AVERAGE(average_i32, int32_t, int64_t)
DEFINE_AVERAGE(average_i64, int64_t, __int128)
DEFINE_AVERAGE(average_u8, uint8_t, uint32_t)

// In the order of GroupOp; the bitwise operations are only for integers.
// clang-format off
static Combine *const table[][8] = {
    [GROUP_F32] = {sum_f32, product_f32, min_f32, max_f32, average_f32},
    [GROUP_F64] = {sum_f64, product_f64, min_f64, max_f64, average_f64},
    [GROUP_I32] = {sum_32, product_32, min_i32, max_i32, average_i32, band_32, bor_32, bxor_32},
    [GROUP_I64] = {sum_64, product_64, min_i64, max_i64, average_i64, band_64, bor_64, bxor_64},
    [GROUP_U8] = {sum_u8, product_u8, min_u8, max_u8, average_u8, band_u8, bor_u8, bxor_u8},
};
// clang-format on

bool group_op_is_defined(GroupType type, GroupOp op) {
    return table[type][op] != NULL;
}

void group_combine(void *out, const void *const *inputs, uint32_t ranks, size_t count, GroupType type, GroupOp op) {
    if (ranks > 1)
        table[type][op](out, inputs, ranks, count);
    else if (out != inputs[0]) // the sum, mean or minimum of one rank is its input
        memcpy(out, inputs[0], count * group_type_bytes(type));
}

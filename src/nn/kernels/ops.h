// The ops of one instruction set's build. The lists below declare each op with the type of its member of Kernels, whose
// contract is in kernels.h, and give it its place in table.c.
#ifndef SOUNDER_NN_KERNELS_OPS_H
#define SOUNDER_NN_KERNELS_OPS_H

#include "nn/kernels.h"
#include "nn/kernels/lanes.h"

// EACH(member of Kernels, name of the function)

// Ops whose vectors run along inputs, tiles or columns: they also take tensors of few samples (lanes.h).
#define OPS_OF_VALUES(EACH)                                                                                            \
    EACH(sgd_step, sgd_step)                                                                                           \
    EACH(sgd_step_atomically, sgd_step_atomically)                                                                     \
    EACH(gather_rows, gather_rows)                                                                                     \
    EACH(winograd.sizes, winograd_sizes)                                                                               \
    EACH(winograd.pack, winograd_pack)                                                                                 \
    EACH(winograd.forward, winograd_forward)                                                                           \
    EACH(winograd.backward, winograd_backward)                                                                         \
    EACH(winograd.unpack, winograd_unpack)                                                                             \
    EACH(columns.sizes, columns_sizes)                                                                                 \
    EACH(columns.pack, columns_pack)                                                                                   \
    EACH(columns.forward, columns_forward)                                                                             \
    EACH(columns.backward, columns_backward)                                                                           \
    EACH(columns.unpack, columns_unpack)                                                                               \
    EACH(dense.sizes, dense_sizes)                                                                                     \
    EACH(dense.pack, dense_pack)                                                                                       \
    EACH(dense.forward, dense_forward)                                                                                 \
    EACH(dense.backward, dense_backward)                                                                               \
    EACH(dense.unpack, dense_unpack)                                                                                   \
    EACH(linear_rows, linear_rows)                                                                                     \
    EACH(linear_columns, linear_columns)                                                                               \
    EACH(linear_forward, linear_forward)                                                                               \
    EACH(linear_backward_input, linear_backward_input)                                                                 \
    EACH(linear_backward_weight, linear_backward_weight)                                                               \
    EACH(linear_backward_step, linear_backward_step)                                                                   \
    EACH(linear_backward_bias, linear_backward_bias)

// Ops whose vectors are samples: for few samples they need a build with vectors of FEW_SAMPLES lanes.
#define OPS_OF_SAMPLES(EACH)                                                                                           \
    EACH(gather, gather)                                                                                               \
    EACH(pool_forward, pool_forward)                                                                                   \
    EACH(pool_backward, pool_backward)                                                                                 \
    EACH(average_forward, average_forward)                                                                             \
    EACH(average_backward, average_backward)                                                                           \
    EACH(relu_forward, relu_forward)                                                                                   \
    EACH(relu_backward, relu_backward)                                                                                 \
    EACH(activation_forward, activation_forward)                                                                       \
    EACH(activation_backward, activation_backward)                                                                     \
    EACH(norm_forward, norm_forward)                                                                                   \
    EACH(norm_backward, norm_backward)                                                                                 \
    EACH(batch_norm_forward, batch_norm_forward)                                                                       \
    EACH(batch_norm_backward, batch_norm_backward)                                                                     \
    EACH(add, add)                                                                                                     \
    EACH(mul_forward, mul_forward)                                                                                     \
    EACH(mul_backward, mul_backward)                                                                                   \
    EACH(dropout_draw, dropout_draw)                                                                                   \
    EACH(dropout_apply, dropout_apply)                                                                                 \
    EACH(softmax_cross_entropy, softmax_cross_entropy)

// Ops whose vectors are samples, but which have no build for few samples: another op serves there, or none.
#define OPS_OF_VECTORS(EACH)                                                                                           \
    EACH(conv.sizes, conv_sizes)                                                                                       \
    EACH(conv.pack, conv_pack)                                                                                         \
    EACH(conv.forward, conv_forward)                                                                                   \
    EACH(conv.backward, conv_backward)                                                                                 \
    EACH(conv.unpack, conv_unpack)                                                                                     \
    EACH(embedding_forward, embedding_forward)                                                                         \
    EACH(embedding_backward, embedding_backward)                                                                       \
    EACH(positions_forward, positions_forward)                                                                         \
    EACH(positions_backward, positions_backward)                                                                       \
    EACH(recurrent_forward, recurrent_forward)                                                                         \
    EACH(recurrent_backward, recurrent_backward)                                                                       \
    EACH(linear_each_forward, linear_each_forward)                                                                     \
    EACH(linear_each_backward, linear_each_backward)                                                                   \
    EACH(attention_forward, attention_forward)                                                                         \
    EACH(attention_backward, attention_backward)

#define OPS(EACH) OPS_OF_VALUES(EACH) OPS_OF_SAMPLES(EACH) OPS_OF_VECTORS(EACH)

#define DECLARE_OP(member, op) __typeof__(*((const Kernels *)NULL)->member) ISA_NAME(op);
OPS(DECLARE_OP)
#undef DECLARE_OP

// bias_gradient (OC), unless it is NULL, += the sums of out_gradient (out.channels, out.rows, out.columns, N) over all
// but channels. All ways to convolve share it.
void ISA_NAME(conv_bias_backward)(float *bias_gradient, const float *out_gradient, Shape out, int samples);

// The backward pass of the relu whose output is `in`, on in_gradient. Both have `floats` floats, of any alignment.
void ISA_NAME(conv_stop_gradient)(float *in_gradient, const float *in, size_t floats);

// How an op stores the gradient of parameters that it has just computed: one vector of it, in registers.

// stored = keep * stored + gradient; with weights, shift and weight_decay * weight join the gradient, and weight -= lr
// * stored: one step of PyTorch's SGD whose velocity is `stored`, with the bits of sgd_step. `keeps` is descent->keep
// != 0 and `decays` is descent->weight_decay != 0, tested once for many vectors. With keep = 0 the stored value is not
// read, so it can be anything, and a step does not write it: that saves a third of the memory that a step without
// momentum moves.
ALWAYS_INLINE void descend(float *stored, float *weight, const float *shift, Lanes gradient, const SgdUpdate *descent,
                           bool keeps, bool decays) {
    LooseLanes *to = (LooseLanes *)stored, *from = (LooseLanes *)weight;
    if (shift) gradient += *(const LooseLanes *)shift;
    if (weight && decays) gradient = lanes_fma(lanes_of(descent->weight_decay), *from, gradient);
    if (keeps) gradient = lanes_fma(lanes_of(descent->keep), *to, gradient);
    if (descent->begins) gradient += 0.0f; // as if zeros had been stored: -0 becomes 0
    if (keeps || descent->begins || !weight) *to = gradient;
    if (weight) *from = lanes_fma(lanes_of(-descent->lr), gradient, *from);
}

// descend for the first `count` lanes.
ALWAYS_INLINE void descend_part(float *stored, float *weight, const float *shift, Lanes gradient,
                                const SgdUpdate *descent, size_t count) {
    if (shift) gradient += lanes_part(shift, count);
    Lanes new_stored = lanes_part(stored, count), new_weight = weight ? lanes_part(weight, count) : lanes_of(0);
    descend((float *)&new_stored, weight ? (float *)&new_weight : NULL, NULL, gradient, descent, descent->keep != 0,
            descent->weight_decay != 0);
    lanes_store_part(stored, new_stored, count);
    if (weight) lanes_store_part(weight, new_weight, count);
}

#endif

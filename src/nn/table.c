// The table of one instruction set's build.
#include "table.h"

#include "nn/activation.h"
#include "nn/conv.h"
#include "nn/dropout.h"
#include "nn/gather.h"
#include "nn/linear.h"
#include "nn/loss.h"
#include "nn/optimizer.h"
#include "nn/pool.h"
#include "nn/winograd.h"

#define QUOTE(text)  #text
#define STRING(text) QUOTE(text)

const Kernels ISA_NAME(kernels) = {
    .name = STRING(SOUNDER_ISA),
    .lanes = SOUNDER_LANES,
    .sgd_step = ISA_NAME(sgd_step),
    .gather = ISA_NAME(gather),
    .gather_rows = ISA_NAME(gather_rows),
    .conv = {.sizes = ISA_NAME(conv_sizes),
             .pack = ISA_NAME(conv_pack),
             .forward = ISA_NAME(conv_forward),
             .backward = ISA_NAME(conv_backward),
             .unpack = ISA_NAME(conv_unpack)},
    .winograd = {.sizes = ISA_NAME(winograd_sizes),
                 .pack = ISA_NAME(winograd_pack),
                 .forward = ISA_NAME(winograd_forward),
                 .backward = ISA_NAME(winograd_backward),
                 .unpack = ISA_NAME(winograd_unpack)},
    .pool_forward = ISA_NAME(pool_forward),
    .pool_backward = ISA_NAME(pool_backward),
    .relu_forward = ISA_NAME(relu_forward),
    .relu_backward = ISA_NAME(relu_backward),
    .dropout_draw = ISA_NAME(dropout_draw),
    .dropout_apply = ISA_NAME(dropout_apply),
    .linear_forward = ISA_NAME(linear_forward),
    .linear_backward_input = ISA_NAME(linear_backward_input),
    .linear_backward_weight = ISA_NAME(linear_backward_weight),
    .softmax_cross_entropy = ISA_NAME(softmax_cross_entropy),
};

// The test set on the card: one net in evaluation mode over all its samples.
#ifndef SOUNDER_FEDAVG_CARD_CUDA_EVALUATE_H
#define SOUNDER_FEDAVG_CARD_CUDA_EVALUATE_H

#include "base/err.h"
#include "datasets/dataset.h"
#include "nn/cuda_net.h"

// weights, pixels (data->test.count, C,H,W) and labels (data->test.count): device memory, borrowed.
Status cuda_evaluator_init(CudaNet **net, float *weights, const uint8_t *pixels, const uint8_t *labels,
                           const Spec *spec, const Dataset *data, bool tf32, Error *err);

// Loss and hits of the weights as they are now. Waits.
Status cuda_evaluator_run(BatchResult *result, CudaNet *net, const Dataset *data, Error *err);

#endif

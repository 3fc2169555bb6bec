// A pick as the average pooling that computes it, for the ops of CPU and GPU.
#ifndef SOUNDER_NN_LAYERS_PICK_H
#define SOUNDER_NN_LAYERS_PICK_H

#include "nn/layers/layer.h"

Layer pick_as_average(const Layer *layer);

#endif

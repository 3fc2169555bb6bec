// Copies for layers that work in place: if another layer also reads their input, they work on a copy of it.
#ifndef SOUNDER_NN_LAYERS_IN_PLACE_H
#define SOUNDER_NN_LAYERS_IN_PLACE_H

#include <string.h>

#include "nn/layers/layer.h"

static inline void layer_bring_over(const LayerCall *call) {
    const LayerBuffers *at = call->at;
    const size_t count = shape_size(call->layer->out) * (size_t)call->samples;
    if (at->out != at->in) memcpy(at->out, at->in, count * sizeof *at->out);
}

static inline void layer_bring_back(const LayerCall *call) {
    const LayerBuffers *at = call->at;
    const size_t count = shape_size(call->layer->out) * (size_t)call->samples;
    if (at->in_gradient != at->out_gradient) memcpy(at->in_gradient, at->out_gradient, count * sizeof *at->in_gradient);
}

#endif

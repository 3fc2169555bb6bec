// Part of ops.h: embedding, positions, and linear layers of each step.
#include "sequence.h"

#include "ops.h"

// Embedding -----------------------------------------------------------------------------------------------------------

// The number of a row. A value that is no row's number becomes the nearest one (NaN: the first); readers of data have
// refused such values before.
static size_t row_of(float value, const Layer *layer) {
    const float last = (float)(layer->vocabulary - 1);
    return value >= last ? (size_t)last : value > 0 ? (size_t)(value + 0.5f) : 0;
}

// The table's rows are stored value by value, but lanes are samples: the values of one row go to as many different
// vectors.
void ISA_NAME(embedding_forward)(float *out, const float *in, const float *weight, const Layer *layer, int samples) {
    const size_t n = (size_t)samples, steps = (size_t)layer->out.rows, width = (size_t)layer->out.columns;
    for (size_t t = 0; t < steps; t++)
        for (size_t s = 0; s < n; s++) {
            const float *row = weight + row_of(in[t * n + s], layer) * width;
            for (size_t d = 0; d < width; d++)
                out[(t * width + d) * n + s] = row[d];
        }
}

// Samples are added one by one, since several may have the same number.
void ISA_NAME(embedding_backward)(float *weight_gradient, const float *in, const float *out_gradient,
                                  const Layer *layer, int samples) {
    const size_t n = (size_t)samples, steps = (size_t)layer->out.rows, width = (size_t)layer->out.columns;
    for (size_t t = 0; t < steps; t++)
        for (size_t s = 0; s < n; s++) {
            float *row = weight_gradient + row_of(in[t * n + s], layer) * width;
            for (size_t d = 0; d < width; d++)
                row[d] += out_gradient[(t * width + d) * n + s];
        }
}

// Positions -----------------------------------------------------------------------------------------------------------

// Each value of a step's vector is added to all samples.
void ISA_NAME(positions_forward)(float *out, const float *in, const float *weight, const Layer *layer, int samples) {
    const size_t n = (size_t)samples;
    for (size_t i = 0; i < shape_size(layer->in); i++)
        for (size_t s = 0; s < n; s++)
            out[i * n + s] = in[i * n + s] + weight[i];
}

// The gradient of positions is that of the bias of a linear layer with as many outputs as values.
void ISA_NAME(positions_backward)(float *weight_gradient, const float *out_gradient, const Layer *layer, int samples) {
    const SgdUpdate descent = {.keep = 1};
    const Layer all = {.kind = LAYER_LINEAR, .out = {(int)shape_size(layer->in), 1, 1}};
    ISA_NAME(linear_backward_bias)(weight_gradient, NULL, out_gradient, &descent, &all, samples);
}

// Linear layers of each place -----------------------------------------------------------------------------------------
// The ops of a linear layer, applied place after place.

void ISA_NAME(linear_each_forward)(float *out, float *rows, const float *in, const float *weight, const Layer *layer,
                                   int count, int samples) {
    const Layer one = linear_at_place(layer);
    const size_t n = (size_t)samples, ins = linear_ins(layer), outs = linear_outs(layer);
    for (size_t p = 0; p < linear_places(layer); p++, rows += n * linear_row_floats(&one)) {
        const float *bias = layer->nobias ? NULL : weight + outs * ins;
        ISA_NAME(linear_forward)(out + p * outs * n, rows, in + p * ins * n, weight, bias, &one, count, samples);
    }
}

// All places add to one gradient, place after place: the order of the sum is fixed.
void ISA_NAME(linear_each_backward)(float *gradient, float *in_gradient, float *scratch, const float *rows,
                                    const float *out_gradient, const float *weight, const Layer *layer, int count,
                                    int samples) {
    const Layer one = linear_at_place(layer);
    const SgdUpdate descent = {.keep = 1};
    const size_t n = (size_t)samples, ins = linear_ins(layer), outs = linear_outs(layer);
    for (size_t p = 0; p < linear_places(layer); p++, rows += n * linear_row_floats(&one)) {
        const float *given = out_gradient + p * outs * n;
        if (in_gradient) {
            float *to = in_gradient + p * ins * n;
            ISA_NAME(linear_backward_input)(to, scratch, given, weight, &one, count, samples);
        }
        ISA_NAME(linear_backward_weight)(gradient, NULL, rows, given, &descent, &one, count, samples);
        if (!layer->nobias) ISA_NAME(linear_backward_bias)(gradient + outs * ins, NULL, given, &descent, &one, samples);
    }
}

// Part of ops.h: embedding, positions, linear layers of each step, and long short-term memory (Hochreiter and
// Schmidhuber 1997; with forget gates, Gers, Schmidhuber, Cummins 2000) as PyTorch's LSTM has it, one layer in one
// direction:
//   i, f, o = sigmoid(W x + b + U h + c) each, g = tanh of such a sum, cell = f cell + i g, h = o tanh(cell)
// The products are those of linear layers (linear.c). A step's products are of the whole chunk, and the weight's
// gradient is one product over all steps.
// The backward pass of a step, with dh and dc the gradients of its output and cell, where dh is the sum of what the
// next layer and the next step give:
//   dc += dh o (1 - tanh(cell)^2)
//   di = dc g i (1 - i)    df = dc (previous cell) f (1 - f)    dg = dc i (1 - g^2)    do = dh tanh(cell) o (1 - o)
//   previous dc = dc f     previous dh = U' (di, df, dg, do)
#include "sequence.h"

#include <string.h>

#include "activation.h"
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

// Long short-term memory ----------------------------------------------------------------------------------------------

// The cell of step t. sums, more (4H,N): the two products of the gates, which are added here.
static void step_forward(float *kept, const float *sums, const float *more, const Recurrence *of, size_t t) {
    const size_t n = of->n, block = of->units * n;
    for (size_t u = 0; u < of->units; u++) {
        float *i = recurrence_gate(kept, of, 0, u, t), *f = recurrence_gate(kept, of, 1, u, t),
              *g = recurrence_gate(kept, of, 2, u, t);
        float *o = recurrence_gate(kept, of, 3, u, t), *cell = kept + of->at.cells + t * block + u * n;
        float *output = kept + of->at.outputs + (t + 1) * block + u * n;
        const float *a = sums + u * n, *b = more + u * n;
        for (size_t s = 0; s < n; s++) {
            i[s] = sigmoid_value(a[s] + b[s], 0);
            f[s] = sigmoid_value(a[block + s] + b[block + s], 0);
            g[s] = tanh_value(a[2 * block + s] + b[2 * block + s], 0);
            o[s] = sigmoid_value(a[3 * block + s] + b[3 * block + s], 0);
        }
        for (size_t s = 0; s < n; s++) {
            const float before = t > 0 ? *(cell - block + s) : 0;
            cell[s] = f[s] * before + i[s] * g[s];
            output[s] = o[s] * tanh_value(cell[s], 0);
        }
    }
}

// The outputs are kept with one step of zeros before them, so that the first step's product has no special case.
void ISA_NAME(lstm_forward)(float *out, float *kept, float *scratch, const float *in, const float *weight,
                            const Layer *layer, int samples) {
    const Recurrence of = recurrence_of(layer, samples);
    const size_t n = of.n, block = of.units * n;
    float *sums = scratch, *more = scratch + 4 * block, *outputs = kept + of.at.outputs;
    memset(outputs, 0, block * sizeof *outputs);
    for (size_t t = 0; t < of.steps; t++) {
        float *rows = kept + of.at.rows + t * n * linear_row_floats(&of.input);
        float *states = kept + of.at.states + t * n * linear_row_floats(&of.state);
        const float *now = in + t * of.features * n, *before = outputs + t * block, *back = weight + of.state_weight;
        const float *input_bias = weight + of.input_bias, *state_bias = weight + of.state_bias;
        ISA_NAME(linear_forward)(sums, rows, now, weight, input_bias, &of.input, samples, samples);
        ISA_NAME(linear_forward)(more, states, before, back, state_bias, &of.state, samples, samples);
        step_forward(kept, sums, more, &of, t);
    }
    const float *given = outputs + (layer->last ? of.steps : 1) * block;
    memcpy(out, given, (layer->last ? 1 : of.steps) * block * sizeof *out);
}

// The backward pass of step t's cell. It turns the gradients of the step's outputs and cells into those of its gates,
// which overwrite the gates and are written to gate_gradient (4H,N), too. cell_gradient (H,N) becomes that of the
// previous cells.
static void step_backward(float *kept, float *gate_gradient, float *cell_gradient, const float *output_gradient,
                          const Recurrence *of, size_t t) {
    const size_t n = of->n, block = of->units * n;
    for (size_t u = 0; u < of->units; u++) {
        float *i = recurrence_gate(kept, of, 0, u, t), *f = recurrence_gate(kept, of, 1, u, t),
              *g = recurrence_gate(kept, of, 2, u, t);
        float *o = recurrence_gate(kept, of, 3, u, t), *to = gate_gradient + u * n, *cells = cell_gradient + u * n;
        const float *cell = kept + of->at.cells + t * block + u * n, *given = output_gradient + u * n;
        for (size_t s = 0; s < n; s++) {
            const float flat = tanh_value(cell[s], 0), before = t > 0 ? *(cell - block + s) : 0;
            const float gradient = cells[s] + given[s] * o[s] * (1 - flat * flat);
            to[s] = gradient * g[s] * i[s] * (1 - i[s]);
            to[block + s] = gradient * before * f[s] * (1 - f[s]);
            to[2 * block + s] = gradient * i[s] * (1 - g[s] * g[s]);
            to[3 * block + s] = given[s] * flat * o[s] * (1 - o[s]);
            cells[s] = gradient * f[s];
            i[s] = to[s], f[s] = to[block + s], g[s] = to[2 * block + s], o[s] = to[3 * block + s];
        }
    }
}

// Computes each weight's gradient in one product over all steps: the samples of all steps are side by side.
static void add_gradient(float *gradient, const float *kept, const Recurrence *of) {
    const SgdUpdate descent = {.keep = 1};
    const float *gates = kept + of->at.gates;
    const int all = (int)(of->steps * of->n);
    ISA_NAME(linear_backward_weight)(gradient, NULL, kept + of->at.rows, gates, &descent, &of->input, all, all);
    const float *states = kept + of->at.states;
    ISA_NAME(linear_backward_weight)(gradient + of->state_weight, NULL, states, gates, &descent, &of->state, all, all);
    ISA_NAME(linear_backward_bias)(gradient + of->input_bias, NULL, gates, &descent, &of->input, all);
    ISA_NAME(linear_backward_bias)(gradient + of->state_bias, NULL, gates, &descent, &of->state, all);
}

// Backward through time, from the last step on. The weights' gradients wait until all steps are done: one large product
// is faster than one per step.
void ISA_NAME(lstm_backward)(float *gradient, float *in_gradient, float *kept, float *scratch,
                             const float *out_gradient, const float *weight, const Layer *layer, int samples) {
    const Recurrence of = recurrence_of(layer, samples);
    const size_t n = of.n, block = of.units * n;
    float *gate_gradient = scratch, *output_gradient = scratch + 4 * block, *cell_gradient = scratch + 8 * block;
    float *products = scratch + 10 * block;
    memset(output_gradient, 0, block * sizeof *output_gradient);
    memset(cell_gradient, 0, block * sizeof *cell_gradient);
    for (size_t t = of.steps; t-- > 0;) {
        if (!layer->last || t + 1 == of.steps) {
            const float *given = out_gradient + (layer->last ? 0 : t * block);
            ISA_NAME(add)(output_gradient, output_gradient, given, of.units, samples);
        }
        step_backward(kept, gate_gradient, cell_gradient, output_gradient, &of, t);
        const float *back = weight + of.state_weight;
        ISA_NAME(linear_backward_input)(output_gradient, products, gate_gradient, back, &of.state, samples, samples);
        if (!in_gradient) continue;
        float *to = in_gradient + t * of.features * n;
        ISA_NAME(linear_backward_input)(to, products, gate_gradient, weight, &of.input, samples, samples);
    }
    add_gradient(gradient, kept, &of);
}

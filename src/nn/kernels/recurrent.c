// Part of ops.h: long short-term memory (Hochreiter and Schmidhuber 1997; with forget gates, Gers, Schmidhuber, Cummins
// 2000) and gated recurrent units (Cho et al., EMNLP 2014) as PyTorch's LSTM and GRU have them, one layer in one
// direction. An lstm:
//   i, f, o = sigmoid(W x + b + U h + c) each, g = tanh of such a sum, cell = f cell + i g, h = o tanh(cell)
// A gru:
//   r, z = sigmoid(W x + b + U h + c) each, n = tanh(W x + b + r (U h + c)), h = (1 - z) n + z (previous h)
// The products are those of linear layers (linear.c). A step's products are of the whole chunk, and the weight's
// gradient is one product over all steps.
// The backward pass of a step, with dh and dc the gradients of its output and cell, where dh is the sum of what the
// next layer and the next step give. An lstm:
//   dc += dh o (1 - tanh(cell)^2)
//   di = dc g i (1 - i)    df = dc (previous cell) f (1 - f)    dg = dc i (1 - g^2)    do = dh tanh(cell) o (1 - o)
//   previous dc = dc f     previous dh = U' (di, df, dg, do)
// A gru:
//   dn = dh (1 - z) (1 - n^2)    dz = dh (previous h - n) z (1 - z)    dr = dn (U h + c) r (1 - r)
//   previous dh = dh z + U' (dr, dz, dn r)
// Its input's products take (dr, dz, dn), its state's (dr, dz, dn r): the two differ in the last gate alone.
#include <string.h>

#include "activation.h"
#include "ops.h"
#include "sequence.h"

// Gates of a gru, and those of them whose gradients are the same for the products of input and state.
enum { GRU_GATES = 3, GRU_SHARED = 2 };

static bool is_gru(const Layer *layer) {
    return lstm_gates(layer) == GRU_GATES;
}

// The steps -----------------------------------------------------------------------------------------------------------

// The cell of step t. sums, more (4H,N): the two products of the gates, which are added here.
static void lstm_step(float *kept, const float *sums, const float *more, const Recurrence *of, size_t t) {
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

// The backward pass of step t's cell. It turns the gradients of the step's outputs and cells into those of its gates,
// which overwrite the gates and are written to gate_gradient (4H,N), too. cell_gradient (H,N) becomes that of the
// previous cells.
static void lstm_step_back(float *kept, float *gate_gradient, float *cell_gradient, const float *output_gradient,
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

// The outputs of step t. sums, more (3H,N): the products of the input and of the state.
static void gru_step(float *kept, const float *sums, const float *more, const Recurrence *of, size_t t) {
    const size_t n = of->n, block = of->units * n;
    for (size_t u = 0; u < of->units; u++) {
        float *r = recurrence_gate(kept, of, 0, u, t), *z = recurrence_gate(kept, of, 1, u, t),
              *new = recurrence_gate(kept, of, 2, u, t);
        float *of_state = recurrence_gate(kept, of, 3, u, t), *output = kept + of->at.outputs + (t + 1) * block + u * n;
        const float *before = output - block, *a = sums + u * n, *b = more + u * n;
        for (size_t s = 0; s < n; s++) {
            r[s] = sigmoid_value(a[s] + b[s], 0);
            z[s] = sigmoid_value(a[block + s] + b[block + s], 0);
            of_state[s] = b[2 * block + s];
            new[s] = tanh_value(a[2 * block + s] + r[s] * of_state[s], 0);
            output[s] = (1 - z[s]) * new[s] + z[s] * before[s];
        }
    }
}

// The backward pass of step t's outputs. Their gradient becomes the part of the previous outputs' gradient that passes
// by the products; the gates' gradients overwrite the gates, and are written to of_input and of_state (3H,N), too.
static void gru_step_back(float *kept, float *of_input, float *of_state, float *output_gradient, const Recurrence *of,
                          size_t t) {
    const size_t n = of->n, block = of->units * n;
    for (size_t u = 0; u < of->units; u++) {
        float *r = recurrence_gate(kept, of, 0, u, t), *z = recurrence_gate(kept, of, 1, u, t),
              *new = recurrence_gate(kept, of, 2, u, t);
        float *state_new = recurrence_gate(kept, of, 3, u, t), *given = output_gradient + u * n;
        float *input = of_input + u * n, *state = of_state + u * n;
        const float *before = kept + of->at.outputs + t * block + u * n;
        for (size_t s = 0; s < n; s++) {
            const float gradient = given[s] * (1 - z[s]) * (1 - new[s] * new[s]);
            input[s] = state[s] = gradient * state_new[s] * r[s] * (1 - r[s]);
            input[block + s] = state[block + s] = given[s] * (before[s] - new[s]) * z[s] * (1 - z[s]);
            input[2 * block + s] = gradient;
            state[2 * block + s] = gradient * r[s];
            given[s] *= z[s];
            r[s] = input[s], z[s] = input[block + s], new[s] = gradient, state_new[s] = state[2 * block + s];
        }
    }
}

// All steps -----------------------------------------------------------------------------------------------------------

// The outputs are kept with one step of zeros before them, so that the first step's product has no special case.
void ISA_NAME(recurrent_forward)(float *out, float *kept, float *scratch, const float *in, const float *weight,
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
        (is_gru(layer) ? gru_step : lstm_step)(kept, sums, more, &of, t);
    }
    const float *given = outputs + (layer->last ? of.steps : 1) * block;
    memcpy(out, given, (layer->last ? 1 : of.steps) * block * sizeof *out);
}

// Adds the gradients of `outs` of a product's rows and of their biases, from those of their sums: gates (outs, T N).
static void add_rows(float *gradient, float *bias_gradient, const float *rows, const float *gates, const Layer *product,
                     int outs, int all) {
    const SgdUpdate descent = {.keep = 1};
    Layer part = *product;
    part.out.channels = outs;
    ISA_NAME(linear_backward_weight)(gradient, NULL, rows, gates, &descent, &part, all, all);
    ISA_NAME(linear_backward_bias)(bias_gradient, NULL, gates, &descent, &part, all);
}

// Each weight's gradient in products over all steps: the samples of all steps are side by side. A gru's last gate of
// the state is stored apart from the first two.
static void add_gradient(float *gradient, const float *kept, const Recurrence *of, const Layer *layer) {
    const float *gates = kept + of->at.gates, *states = kept + of->at.states;
    const size_t units = of->units, gate = units * of->steps * of->n;
    const int all = (int)(of->steps * of->n), outs = (int)units,
              shared = is_gru(layer) ? GRU_SHARED : lstm_gates(layer);
    float *to_state = gradient + of->state_weight, *to_bias = gradient + of->state_bias;
    add_rows(gradient, gradient + of->input_bias, kept + of->at.rows, gates, &of->input, lstm_gates(layer) * outs, all);
    add_rows(to_state, to_bias, states, gates, &of->state, shared * outs, all);
    if (is_gru(layer))
        add_rows(to_state + GRU_SHARED * units * units, to_bias + GRU_SHARED * units, states, gates + GRU_GATES * gate,
                 &of->state, outs, all);
}

// Backward through time, from the last step on. The weights' gradients wait until all steps are done: one large product
// is faster than one per step. An lstm's gradient of the previous outputs is that of the product; a gru adds it to the
// part that passes by.
void ISA_NAME(recurrent_backward)(float *gradient, float *in_gradient, float *kept, float *scratch,
                                  const float *out_gradient, const float *weight, const Layer *layer, int samples) {
    const Recurrence of = recurrence_of(layer, samples);
    const size_t n = of.n, block = of.units * n;
    const bool gru = is_gru(layer);
    float *of_input = scratch, *of_state = gru ? scratch + 4 * block : scratch, *output_gradient = scratch + 8 * block;
    float *own = scratch + 9 * block, *products = scratch + 10 * block; // own: an lstm's gradient of cells
    memset(output_gradient, 0, 2 * block * sizeof *output_gradient);
    for (size_t t = of.steps; t-- > 0;) {
        if (!layer->last || t + 1 == of.steps) {
            const float *given = out_gradient + (layer->last ? 0 : t * block);
            ISA_NAME(add)(output_gradient, output_gradient, given, of.units, samples);
        }
        if (gru)
            gru_step_back(kept, of_input, of_state, output_gradient, &of, t);
        else
            lstm_step_back(kept, of_input, own, output_gradient, &of, t);
        float *back = gru ? own : output_gradient;
        ISA_NAME(linear_backward_input)
        (back, products, of_state, weight + of.state_weight, &of.state, samples, samples);
        if (gru) ISA_NAME(add)(output_gradient, output_gradient, back, of.units, samples);
        if (!in_gradient) continue;
        float *to = in_gradient + t * of.features * n;
        ISA_NAME(linear_backward_input)(to, products, of_input, weight, &of.input, samples, samples);
    }
    add_gradient(gradient, kept, &of, layer);
}

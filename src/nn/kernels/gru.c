// Part of ops.h: gated recurrent units (Cho et al., EMNLP 2014) as PyTorch's GRU has them, one layer in one direction:
//   r, z = sigmoid(W x + b + U h + c) each, n = tanh(W x + b + r (U h + c)), h = (1 - z) n + z (previous h)
// As in an lstm (sequence.c), a step's products are of the whole chunk, and the weight's gradient is one product over
// all steps. With dh the sum of what the next layer and the next step give:
//   dn = dh (1 - z) (1 - n^2)    dz = dh (previous h - n) z (1 - z)    dr = dn (U h + c) r (1 - r)
//   previous dh = dh z + U' (dr, dz, dn r)
// The input's products take (dr, dz, dn), the state's (dr, dz, dn r): the two differ in the last gate alone.
#include "sequence.h"

#include <string.h>

#include "activation.h"
#include "ops.h"

enum { INPUT_GATES = 3 };

// The outputs of step t. sums, more (3H,N): the products of the input and of the state.
static void step_forward(float *kept, const float *sums, const float *more, const Recurrence *of, size_t t) {
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

// The outputs are kept with one step of zeros before them, as of an lstm.
void ISA_NAME(gru_forward)(float *out, float *kept, float *scratch, const float *in, const float *weight,
                           const Layer *layer, int samples) {
    const Recurrence of = recurrence_of(layer, samples);
    const size_t n = of.n, block = of.units * n;
    float *sums = scratch, *more = scratch + INPUT_GATES * block, *outputs = kept + of.at.outputs;
    memset(outputs, 0, block * sizeof *outputs);
    for (size_t t = 0; t < of.steps; t++) {
        float *rows = kept + of.at.rows + t * n * linear_row_floats(&of.input);
        float *states = kept + of.at.states + t * n * linear_row_floats(&of.state);
        const float *now = in + t * of.features * n, *before = outputs + t * block;
        ISA_NAME(linear_forward)(sums, rows, now, weight, weight + of.input_bias, &of.input, samples, samples);
        ISA_NAME(linear_forward)
        (more, states, before, weight + of.state_weight, weight + of.state_bias, &of.state, samples, samples);
        step_forward(kept, sums, more, &of, t);
    }
    const float *given = outputs + (layer->last ? of.steps : 1) * block;
    memcpy(out, given, (layer->last ? 1 : of.steps) * block * sizeof *out);
}

// The backward pass of step t's outputs. Their gradient becomes the part of the previous outputs' gradient that passes
// by the products; the gates' gradients overwrite the gates, and are written to of_input and of_state (3H,N), too.
static void step_backward(float *kept, float *of_input, float *of_state, float *output_gradient, const Recurrence *of,
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

// Adds the gradient of the weight's rows from unit `first` on, and of their biases: `gates` (rows, T N) are theirs.
static void add_rows(float *gradient, float *bias_gradient, const float *rows, const float *gates, const Layer *product,
                     int outs, int all) {
    const SgdUpdate descent = {.keep = 1};
    Layer part = *product;
    part.out.channels = outs;
    ISA_NAME(linear_backward_weight)(gradient, NULL, rows, gates, &descent, &part, all, all);
    ISA_NAME(linear_backward_bias)(bias_gradient, NULL, gates, &descent, &part, all);
}

// Each weight's gradient in products over all steps. The state's new gate is stored apart from its first two.
static void add_gradient(float *gradient, const float *kept, const Recurrence *of) {
    const float *gates = kept + of->at.gates, *states = kept + of->at.states;
    const size_t units = of->units, gate = units * of->steps * of->n;
    const int all = (int)(of->steps * of->n), outs = (int)units;
    float *to_state = gradient + of->state_weight, *to_bias = gradient + of->state_bias;
    add_rows(gradient, gradient + of->input_bias, kept + of->at.rows, gates, &of->input, INPUT_GATES * outs, all);
    add_rows(to_state, to_bias, states, gates, &of->state, 2 * outs, all);
    add_rows(to_state + 2 * units * units, to_bias + 2 * units, states, gates + 3 * gate, &of->state, outs, all);
}

// Backward through time, from the last step on.
void ISA_NAME(gru_backward)(float *gradient, float *in_gradient, float *kept, float *scratch, const float *out_gradient,
                            const float *weight, const Layer *layer, int samples) {
    const Recurrence of = recurrence_of(layer, samples);
    const size_t n = of.n, block = of.units * n;
    float *of_input = scratch, *of_state = scratch + 3 * block, *output_gradient = scratch + 6 * block;
    float *through = scratch + 7 * block, *products = scratch + 10 * block;
    memset(output_gradient, 0, block * sizeof *output_gradient);
    for (size_t t = of.steps; t-- > 0;) {
        if (!layer->last || t + 1 == of.steps) {
            const float *given = out_gradient + (layer->last ? 0 : t * block);
            ISA_NAME(add)(output_gradient, output_gradient, given, of.units, samples);
        }
        step_backward(kept, of_input, of_state, output_gradient, &of, t);
        const float *back = weight + of.state_weight;
        ISA_NAME(linear_backward_input)(through, products, of_state, back, &of.state, samples, samples);
        ISA_NAME(add)(output_gradient, output_gradient, through, of.units, samples);
        if (!in_gradient) continue;
        float *to = in_gradient + t * of.features * n;
        ISA_NAME(linear_backward_input)(to, products, of_input, weight, &of.input, samples, samples);
    }
    add_gradient(gradient, kept, &of);
}

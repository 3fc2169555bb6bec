// Part of ops.h: long short-term memory (Hochreiter and Schmidhuber 1997; with forget gates, Gers, Schmidhuber, Cummins
// 2000) and gated recurrent units (Cho et al., EMNLP 2014) as PyTorch's LSTM and GRU have them, one layer in one
// direction. An lstm:
//   i, f, o = sigmoid(W x + b + U h + c) each, g = tanh of such a sum, cell = f cell + i g, h = o tanh(cell)
// A gru:
//   r, z = sigmoid(W x + b + U h + c) each, n = tanh(W x + b + r (U h + c)), h = (1 - z) n + z (previous h)
// The products of the inputs are computed first, for all steps; those of the previous outputs are then added step by
// step. So one weight at a time is in the cache, packed (packed.h). The weights' gradients are products over many
// steps.
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
#include "packed.h"

// Gates of a gru, and those of them whose gradients are the same for the products of input and state.
enum { GRU_GATES = 3, GRU_SHARED = 2 };

// Floats of the packed input weight that all steps read before the next ones: a part of the second cache. And samples'
// rows of one product of a weight's gradient.
enum { GROUP_FLOATS = 48 * 1024, GRADIENT_ROWS = 256 };

static bool is_gru(const Layer *layer) {
    return lstm_gates(layer) == GRU_GATES;
}

// The steps -----------------------------------------------------------------------------------------------------------
// Each unit is a function of arrays that do not overlap, of whole vectors of samples: then the compiler's loops have no
// tests and no rest.

#define SAMPLES(s, vectors)                                                                                            \
    size_t s = 0;                                                                                                      \
    s < (vectors)*SOUNDER_LANES;                                                                                       \
    s++

// One unit of lstm_step. before: the previous cells.
static void lstm_unit(float *restrict cell, float *restrict output, float *restrict i, float *restrict f,
                      float *restrict g, float *restrict o, const float *restrict before, size_t vectors) {
    for (SAMPLES(s, vectors)) {
        i[s] = sigmoid_value(i[s], 0);
        f[s] = sigmoid_value(f[s], 0);
        g[s] = tanh_value(g[s], 0);
        o[s] = sigmoid_value(o[s], 0);
        cell[s] = f[s] * before[s] + i[s] * g[s];
        output[s] = o[s] * tanh_value(cell[s], 0);
    }
}

// The cells before step t; before the first they are zeros, as the outputs are.
static const float *cells_before(const float *kept, const Recurrence *of, size_t t) {
    return kept + (t > 0 ? of->at.cells + (t - 1) * of->units * of->n : of->at.outputs);
}

// The cell of step t. Its gates hold the sums of their two products.
static void lstm_step(float *kept, const Recurrence *of, size_t t) {
    const size_t n = of->n, block = of->units * n;
    const float *before = cells_before(kept, of, t);
    float *cells = kept + of->at.cells + t * block, *outputs = kept + of->at.outputs + (t + 1) * block;
    for (size_t u = 0; u < of->units; u++)
        lstm_unit(cells + u * n, outputs + u * n, recurrence_gate(kept, of, 0, u, t),
                  recurrence_gate(kept, of, 1, u, t), recurrence_gate(kept, of, 2, u, t),
                  recurrence_gate(kept, of, 3, u, t), before + u * n, n / SOUNDER_LANES);
}

// One unit of lstm_step_back. to (4 gates, `block` floats apart).
static void lstm_unit_back(float *restrict to, size_t block, float *restrict cell_gradient, float *restrict i,
                           float *restrict f, float *restrict g, float *restrict o, const float *restrict cell,
                           const float *restrict before, const float *restrict given, size_t vectors) {
    for (SAMPLES(s, vectors)) {
        const float flat = tanh_value(cell[s], 0);
        const float gradient = cell_gradient[s] + given[s] * o[s] * (1 - flat * flat);
        const float di = gradient * g[s] * i[s] * (1 - i[s]), df = gradient * before[s] * f[s] * (1 - f[s]);
        const float dg = gradient * i[s] * (1 - g[s] * g[s]), of = given[s] * flat * o[s] * (1 - o[s]);
        cell_gradient[s] = gradient * f[s];
        to[s] = i[s] = di;
        to[block + s] = f[s] = df;
        to[2 * block + s] = g[s] = dg;
        to[3 * block + s] = o[s] = of;
    }
}

// The backward pass of step t's cell. It turns the gradients of the step's outputs and cells into those of its gates,
// which overwrite the gates and are written to gate_gradient (4H,N), too. cell_gradient (H,N) becomes that of the
// previous cells.
static void lstm_step_back(float *kept, float *gate_gradient, float *cell_gradient, const float *output_gradient,
                           const Recurrence *of, size_t t) {
    const size_t n = of->n, block = of->units * n;
    const float *before = cells_before(kept, of, t), *cells = kept + of->at.cells + t * block;
    for (size_t u = 0; u < of->units; u++)
        lstm_unit_back(gate_gradient + u * n, block, cell_gradient + u * n, recurrence_gate(kept, of, 0, u, t),
                       recurrence_gate(kept, of, 1, u, t), recurrence_gate(kept, of, 2, u, t),
                       recurrence_gate(kept, of, 3, u, t), cells + u * n, before + u * n, output_gradient + u * n,
                       n / SOUNDER_LANES);
}

// One unit of gru_step. before: the previous outputs.
static void gru_unit(float *restrict output, float *restrict r, float *restrict z, float *restrict new,
                     const float *restrict of_state, const float *restrict before, size_t vectors) {
    for (SAMPLES(s, vectors)) {
        r[s] = sigmoid_value(r[s], 0);
        z[s] = sigmoid_value(z[s], 0);
        new[s] = tanh_value(new[s] + r[s] * of_state[s], 0);
        output[s] = (1 - z[s]) * new[s] + z[s] * before[s];
    }
}

// The outputs of step t. Its first two gates hold the sums of their two products, new that of the input, and the fourth
// that of the state for new.
static void gru_step(float *kept, const Recurrence *of, size_t t) {
    const size_t n = of->n, block = of->units * n;
    const float *before = kept + of->at.outputs + t * block;
    float *outputs = kept + of->at.outputs + (t + 1) * block;
    for (size_t u = 0; u < of->units; u++)
        gru_unit(outputs + u * n, recurrence_gate(kept, of, 0, u, t), recurrence_gate(kept, of, 1, u, t),
                 recurrence_gate(kept, of, 2, u, t), recurrence_gate(kept, of, 3, u, t), before + u * n,
                 n / SOUNDER_LANES);
}

// One unit of gru_step_back. of_input, of_state (3 gates, `block` floats apart).
static void gru_unit_back(float *restrict of_input, float *restrict of_state, size_t block, float *restrict given,
                          float *restrict r, float *restrict z, float *restrict new, float *restrict state_new,
                          const float *restrict before, size_t vectors) {
    for (SAMPLES(s, vectors)) {
        const float gradient = given[s] * (1 - z[s]) * (1 - new[s] * new[s]);
        const float dr = gradient * state_new[s] * r[s] * (1 - r[s]);
        const float dz = given[s] * (before[s] - new[s]) * z[s] * (1 - z[s]), passed = gradient * r[s];
        given[s] *= z[s];
        of_input[s] = of_state[s] = r[s] = dr;
        of_input[block + s] = of_state[block + s] = z[s] = dz;
        of_input[2 * block + s] = new[s] = gradient;
        of_state[2 * block + s] = state_new[s] = passed;
    }
}

// The backward pass of step t's outputs. Their gradient becomes the part of the previous outputs' gradient that passes
// by the products; the gates' gradients overwrite the gates, and are written to of_input and of_state (3H,N), too.
static void gru_step_back(float *kept, float *of_input, float *of_state, float *output_gradient, const Recurrence *of,
                          size_t t) {
    const size_t n = of->n, block = of->units * n;
    const float *before = kept + of->at.outputs + t * block;
    for (size_t u = 0; u < of->units; u++)
        gru_unit_back(of_input + u * n, of_state + u * n, block, output_gradient + u * n,
                      recurrence_gate(kept, of, 0, u, t), recurrence_gate(kept, of, 1, u, t),
                      recurrence_gate(kept, of, 2, u, t), recurrence_gate(kept, of, 3, u, t), before + u * n,
                      n / SOUNDER_LANES);
}

// All steps -----------------------------------------------------------------------------------------------------------

// The gates' sums of the inputs, with their bias, of all steps: the rows of a group of weights stay in the cache.
static void input_sums(float *kept, float *scratch, const float *in, const float *weight, const Recurrence *of) {
    const size_t outs = shape_size(of->input.out), row = of->steps * of->n;
    pack_rows(scratch, (ScalarMatrix){weight, of->features, 1}, outs, of->features);
    const size_t packs = GROUP_FLOATS / (PACK_ROWS * of->features), group = (packs > 0 ? packs : 1) * PACK_ROWS;
    for (size_t first = 0; first < outs; first += group)
        for (size_t t = 0; t < of->steps; t++) {
            float *to = kept + of->at.gates + first * row + t * of->n;
            packed_product((ProductOut){to, row, .bias = weight + of->input_bias + first},
                           scratch + first * of->features, in + t * of->features * of->n,
                           outs - first < group ? outs - first : group, of->features, of->n, of->n);
        }
}

// Adds the sums of the previous outputs, with their bias, to the gates of step t. A gru's for new go to a gate of their
// own. packed: the state's weight, a gru's in two parts.
static void add_state_sums(float *kept, const float *packed, const float *bias, const Recurrence *of, size_t t) {
    const size_t outs = shape_size(of->state.out), units = of->units, row = of->steps * of->n;
    const bool gru = outs == GRU_GATES * units;
    const size_t shared = gru ? GRU_SHARED * units : outs;
    const float *before = kept + of->at.outputs + t * units * of->n;
    float *gates = kept + of->at.gates + t * of->n;
    packed_product((ProductOut){gates, row, .adds = true, .bias = bias}, packed, before, shared, units, of->n, of->n);
    if (gru)
        packed_product((ProductOut){gates + GRU_GATES * units * row, row, .bias = bias + shared},
                       packed + packed_floats(shared, units), before, units, units, of->n, of->n);
}

// The outputs are kept with one step of zeros before them, so that the first step's product has no special case.
void ISA_NAME(recurrent_forward)(float *out, float *kept, float *scratch, const float *in, const float *weight,
                                 const Layer *layer, int samples) {
    const Recurrence of = recurrence_of(layer, samples);
    const size_t n = of.n, units = of.units, block = units * n, row_floats = linear_row_floats(&of.input);
    const size_t shared = (size_t)(is_gru(layer) ? GRU_SHARED : lstm_gates(layer)) * units;
    const float *state_weight = weight + of.state_weight;
    float *outputs = kept + of.at.outputs;
    memset(outputs, 0, block * sizeof *outputs);
    for (size_t t = 0; t < of.steps; t++)
        ISA_NAME(linear_rows)
    (kept + of.at.rows + t * n * row_floats, in + t * of.features * n, &of.input, samples, samples);
    input_sums(kept, scratch, in, weight, &of);
    pack_rows(scratch, (ScalarMatrix){state_weight, units, 1}, shared, units);
    if (is_gru(layer))
        pack_rows(scratch + packed_floats(shared, units), (ScalarMatrix){state_weight + shared * units, units, 1},
                  units, units);
    for (size_t t = 0; t < of.steps; t++) {
        add_state_sums(kept, scratch, weight + of.state_bias, &of, t);
        (is_gru(layer) ? gru_step : lstm_step)(kept, &of, t);
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
    for (int first = 0; first < all; first += GRADIENT_ROWS)
        ISA_NAME(linear_backward_weight)
    (gradient, NULL, rows + (size_t)first * linear_row_floats(product), gates + first, &descent, &part,
     all - first < GRADIENT_ROWS ? all - first : GRADIENT_ROWS, all);
    ISA_NAME(linear_backward_bias)(bias_gradient, NULL, gates, &descent, &part, all);
}

// Each weight's gradient in products over all steps: the samples of all steps are side by side. A gru's last gate of
// the state is stored apart from the first two.
static void add_gradient(float *gradient, float *kept, const Recurrence *of, const Layer *layer) {
    const float *gates = kept + of->at.gates, *outputs = kept + of->at.outputs;
    float *states = kept + of->at.states;
    for (size_t t = 0; t < of->steps; t++)
        ISA_NAME(linear_rows)
    (states + t * of->n * linear_row_floats(&of->state), outputs + t * of->units * of->n, &of->state, (int)of->n,
     (int)of->n);
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

// The inputs' gradients, from those of their sums, which are side by side with those of the other steps: a step's are
// copied first.
static void input_gradient(float *in_gradient, float *scratch, float *packed, const float *kept, const float *weight,
                           const Recurrence *of) {
    const size_t outs = shape_size(of->input.out), n = of->n;
    pack_rows(packed, (ScalarMatrix){weight, 1, of->features}, of->features, outs);
    for (size_t t = 0; t < of->steps; t++) {
        const float *gates = kept + of->at.gates + t * n;
        for (size_t o = 0; o < outs; o++)
            memcpy(scratch + o * n, gates + o * of->steps * n, n * sizeof *scratch);
        packed_product((ProductOut){in_gradient + t * of->features * n, n, .adds = false}, packed, scratch,
                       of->features, outs, n, n);
    }
}

// Backward through time, from the last step on. The gradients of weights and inputs wait until all steps are done:
// large products are faster than one per step. An lstm's gradient of the previous outputs is that of the product; a gru
// adds it to the part that passes by.
void ISA_NAME(recurrent_backward)(float *gradient, float *in_gradient, float *kept, float *scratch,
                                  const float *out_gradient, const float *weight, const Layer *layer, int samples) {
    const Recurrence of = recurrence_of(layer, samples);
    const size_t n = of.n, block = of.units * n, outs = shape_size(of.state.out);
    const bool gru = is_gru(layer);
    float *of_input = scratch, *of_state = gru ? scratch + 4 * block : scratch, *output_gradient = scratch + 8 * block;
    float *cell_gradient = scratch + 9 * block, *packed = scratch + 10 * block;
    memset(output_gradient, 0, 2 * block * sizeof *output_gradient);
    pack_rows(packed, (ScalarMatrix){weight + of.state_weight, 1, of.units}, of.units, outs);
    for (size_t t = of.steps; t-- > 0;) {
        if (!layer->last || t + 1 == of.steps) {
            const float *given = out_gradient + (layer->last ? 0 : t * block);
            ISA_NAME(add)(output_gradient, output_gradient, given, of.units, samples);
        }
        if (gru)
            gru_step_back(kept, of_input, of_state, output_gradient, &of, t);
        else
            lstm_step_back(kept, of_input, cell_gradient, output_gradient, &of, t);
        packed_product((ProductOut){output_gradient, n, .adds = gru}, packed, of_state, of.units, outs, n, n);
    }
    if (in_gradient) input_gradient(in_gradient, scratch, packed, kept, weight, &of);
    add_gradient(gradient, kept, &of, layer);
}

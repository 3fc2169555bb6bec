// The tensors that an lstm, a gru and an attention keep for the backward pass. A sequence 1 x T x F is stored as
// (T,F,N): each step is a block.
#ifndef SOUNDER_NN_KERNELS_SEQUENCE_H
#define SOUNDER_NN_KERNELS_SEQUENCE_H

#include <stddef.h>

#include "nn/kernels.h"

// The two products of the step of an lstm or a gru as linear layers: of its input, and of the previous step's outputs.
static inline Layer lstm_input_product(const Layer *layer) {
    return (Layer){
        .kind = LAYER_LINEAR, .in = {layer->in.columns, 1, 1}, .out = {lstm_gates(layer) * lstm_units(layer), 1, 1}};
}

static inline Layer lstm_state_product(const Layer *layer) {
    return (Layer){
        .kind = LAYER_LINEAR, .in = {lstm_units(layer), 1, 1}, .out = {lstm_gates(layer) * lstm_units(layer), 1, 1}};
}

// The linear layer that computes one place.
static inline Layer linear_at_place(const Layer *layer) {
    const Shape in = {(int)linear_ins(layer), 1, 1}, out = {(int)linear_outs(layer), 1, 1};
    return (Layer){.kind = LAYER_LINEAR, .in = in, .out = out};
}

// Offsets of the tensors that an lstm or a gru keeps for the backward pass, in floats. T steps, H units, F inputs of a
// step.
typedef struct LstmPlaces {
    // (4H, T, N): input, forget, cell, output, as their functions left them; then their gradients. A gru has reset,
    // update, new, and the state's part of new; then the gradients of the input's three, and of the state's new.
    size_t gates;
    size_t cells;        // (T, H, N); a gru has none
    size_t outputs;      // (T + 1, H, N): shifted by one step; the first ones are zeros
    size_t rows, states; // (T, N, row floats): inputs and previous outputs, a row per sample, for linear layers
    size_t end;
} LstmPlaces;

static inline LstmPlaces lstm_places(const Layer *layer, int samples) {
    const size_t n = (size_t)samples, t = (size_t)lstm_steps(layer), h = (size_t)lstm_units(layer);
    const Layer input = lstm_input_product(layer), state = lstm_state_product(layer);
    LstmPlaces at = {.gates = 0};
    at.cells = at.gates + 4 * h * t * n;
    at.outputs = at.cells + (lstm_gates(layer) == 3 ? 0 : t * h * n);
    at.rows = at.outputs + (t + 1) * h * n;
    at.states = at.rows + t * n * linear_row_floats(&input);
    at.end = at.states + t * n * linear_row_floats(&state);
    return at;
}

// Rows that packed.h has side by side, and the floats of a packed matrix.
enum { PACK_ROWS = 12 };
static inline size_t packed_floats(size_t rows, size_t inner) {
    return (rows + PACK_ROWS - 1) / PACK_ROWS * PACK_ROWS * inner;
}

// Scratch: two blocks of gates, the gradients of an output and a cell, and one packed weight: that of the input or of
// the state, as it is or transposed.
static inline size_t lstm_scratch_floats(const Layer *layer, int samples) {
    const size_t h = (size_t)lstm_units(layer), f = (size_t)layer->in.columns, most = h > f ? h : f;
    const size_t gates = (size_t)lstm_gates(layer) * h;
    const size_t plain = packed_floats(gates, most), transposed = packed_floats(most, gates);
    return 10 * h * (size_t)samples + (plain > transposed ? plain : transposed);
}

// A pass of an lstm or a gru over a chunk: its sizes, its two products, and where parameters and kept tensors are.
typedef struct Recurrence {
    Layer input, state; // products
    size_t n, steps, units, features;
    LstmPlaces at;
    // Offsets from the first parameter: of the state's weight, and of the two biases, which are equally long.
    size_t state_weight, input_bias, state_bias;
} Recurrence;

static inline Recurrence recurrence_of(const Layer *layer, int samples) {
    const size_t units = (size_t)lstm_units(layer), features = (size_t)layer->in.columns;
    const size_t rows = (size_t)lstm_gates(layer) * units;
    return (Recurrence){.input = lstm_input_product(layer),
                        .state = lstm_state_product(layer),
                        .n = (size_t)samples,
                        .steps = (size_t)lstm_steps(layer),
                        .units = units,
                        .features = features,
                        .at = lstm_places(layer, samples),
                        .state_weight = rows * features,
                        .input_bias = rows * (features + units),
                        .state_bias = rows * (features + units + 1)};
}

// Kept gate number `gate` of unit u at step t (samples).
static inline float *recurrence_gate(float *kept, const Recurrence *of, size_t gate, size_t u, size_t t) {
    return kept + of->at.gates + ((gate * of->units + u) * of->steps + t) * of->n;
}

// The two projections of an attention as linear layers of each step: of its input to queries, keys and values, and of
// the heads' contexts. attention_input_parameters: floats of the first one's weight and bias, after which the second
// one's begin.
static inline Layer attention_input_product(const Layer *layer) {
    const Shape in = layer->in;
    return (Layer){.kind = LAYER_LINEAR_EACH, .in = in, .out = {1, in.rows, 3 * in.columns}};
}

static inline Layer attention_output_product(const Layer *layer) {
    return (Layer){.kind = LAYER_LINEAR_EACH, .in = layer->in, .out = layer->in};
}

static inline size_t attention_input_parameters(const Layer *layer) {
    return 3 * (size_t)layer->in.columns * ((size_t)layer->in.columns + 1);
}

// Offsets of the tensors that an attention keeps for the backward pass, in floats. T steps of E values.
typedef struct AttentionPlaces {
    size_t projected;        // (T, 3E, N): queries, keys, values
    size_t shares;           // (heads, T, T, N): the shares with which a step takes the values of the others
    size_t context;          // (T, E, N)
    size_t rows, mixed_rows; // (T, N, row floats): inputs and contexts, sample by sample
    size_t end;
} AttentionPlaces;

static inline AttentionPlaces attention_places(const Layer *layer, int samples) {
    const Layer product = attention_output_product(layer), one = linear_at_place(&product);
    const size_t n = (size_t)samples, t = (size_t)layer->in.rows, tensor = shape_size(layer->in) * n;
    AttentionPlaces at = {.projected = 0};
    at.shares = at.projected + 3 * tensor;
    at.context = at.shares + (size_t)layer->groups * t * t * n;
    at.rows = at.context + tensor;
    at.mixed_rows = at.rows + t * n * linear_row_floats(&one);
    at.end = at.mixed_rows + t * n * linear_row_floats(&one);
    return at;
}

// Scratch: the gradients of queries, keys, values and contexts, and the scratch of the products.
static inline size_t attention_scratch_floats(const Layer *layer, int samples) {
    const Layer product = attention_input_product(layer), one = linear_at_place(&product);
    return 4 * shape_size(layer->in) * (size_t)samples + linear_scratch_floats(&one, samples);
}

#endif

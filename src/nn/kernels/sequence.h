// Sequences: what layers keep that read samples step by step. A sequence 1 x T x F lies as (T,F,N): a step is a block.
#ifndef SOUNDER_NN_KERNELS_SEQUENCE_H
#define SOUNDER_NN_KERNELS_SEQUENCE_H

#include <stddef.h>

#include "nn/kernels.h"

// The two products of an lstm's step as linear layers: of its input, and of the outputs of the step before.
static inline Layer lstm_input_product(const Layer *layer) {
    return (Layer){.kind = LAYER_LINEAR, .in = {layer->in.columns, 1, 1}, .out = {4 * lstm_units(layer), 1, 1}};
}

static inline Layer lstm_state_product(const Layer *layer) {
    return (Layer){.kind = LAYER_LINEAR, .in = {lstm_units(layer), 1, 1}, .out = {4 * lstm_units(layer), 1, 1}};
}

// What a linear layer is at one place.
static inline Layer linear_at_place(const Layer *layer) {
    const Shape in = {(int)linear_ins(layer), 1, 1}, out = {(int)linear_outs(layer), 1, 1};
    return (Layer){.kind = LAYER_LINEAR, .in = in, .out = out};
}

// Where the parts of what an lstm keeps for the way back lie, in floats. T steps, H units, F inputs of a step.
typedef struct LstmPlaces {
    size_t gates;        // (4H, T, N): input, forget, cell, output, as their functions left them; then their gradients
    size_t cells;        // (T, H, N)
    size_t outputs;      // (T + 1, H, N): of the step before; the first are zeros
    size_t rows, states; // (T, N, row floats): inputs and outputs before, sample by sample, as linear layers want them
    size_t end;
} LstmPlaces;

static inline LstmPlaces lstm_places(const Layer *layer, int samples) {
    const size_t n = (size_t)samples, t = (size_t)lstm_steps(layer), h = (size_t)lstm_units(layer);
    const Layer input = lstm_input_product(layer), state = lstm_state_product(layer);
    LstmPlaces at = {.gates = 0};
    at.cells = at.gates + 4 * h * t * n;
    at.outputs = at.cells + t * h * n;
    at.rows = at.outputs + (t + 1) * h * n;
    at.states = at.rows + t * n * linear_row_floats(&input);
    at.end = at.states + t * n * linear_row_floats(&state);
    return at;
}

// Two blocks of gates, the gradients of an output and a cell, and what the products need.
static inline size_t lstm_scratch_floats(const Layer *layer, int samples) {
    const size_t n = (size_t)samples, h = (size_t)lstm_units(layer);
    const Layer input = lstm_input_product(layer), state = lstm_state_product(layer);
    const size_t one = linear_scratch_floats(&input, samples), other = linear_scratch_floats(&state, samples);
    return 8 * h * n + 2 * h * n + (one > other ? one : other);
}

// The two projections of an attention as linear layers of each step: of its input to queries, keys and values, and of
// the heads' contexts; and the parameters of the first, weight and bias, behind which those of the second lie.
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

// Where the parts of what an attention keeps for the way back lie, in floats. T steps of E values.
typedef struct AttentionPlaces {
    size_t projected;        // (T, 3E, N): queries, keys, values
    size_t shares;           // (heads, T, T, N): of each step, what it takes from the others
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

// The gradients of queries, keys, values and contexts, and what the products need.
static inline size_t attention_scratch_floats(const Layer *layer, int samples) {
    const Layer product = attention_input_product(layer), one = linear_at_place(&product);
    return 4 * shape_size(layer->in) * (size_t)samples + linear_scratch_floats(&one, samples);
}

#endif

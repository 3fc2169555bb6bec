// Sequences: what layers keep that read samples step by step. A sequence 1 x T x F lies as (T,F,N): a step is a block.
#ifndef SOUNDER_NN_SEQUENCE_H
#define SOUNDER_NN_SEQUENCE_H

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

#endif

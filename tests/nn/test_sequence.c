// Embedding, linear layers of each step, long short-term memory and attention by every build: against references in
// double precision and finite differences of them.
#include "builds.h"
#include "nn/kernels/sequence.h"
#include "tests/tensor.h"

enum { STEPS = 4, FEATURES = 3, UNITS = 5, GATES = 4 * UNITS, MOST_SAMPLES = 32 };
enum { PARAMETERS = GATES * (FEATURES + UNITS + 2), GRU_GATES = 3 * UNITS };
enum { EXTENT = 6, MOST_PARAMETERS = 256, MOST_VALUES = STEPS * EXTENT * MOST_SAMPLES };

typedef struct Case Case;

// sum(out_gradient * out) of one sample; out: NULL, or all outputs, of which it writes that sample's.
typedef double Loss(const Case *of, size_t s, double *out);

struct Case {
    Layer layer;
    Loss *loss;
    size_t count, samples;                  // real ones; lanes
    double *in, *parameters, *out_gradient; // (T,F,N), all of the layer's, and as the outputs
};

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

// What gate `row` of the step is before its function.
static double gate_of(const Case *of, size_t row, size_t t, size_t s, const double *before) {
    const double *own = of->parameters + row * FEATURES, *state = of->parameters + GATES * FEATURES + row * UNITS;
    const double *bias = of->parameters + GATES * (FEATURES + UNITS) + row;
    double sum = bias[0] + bias[GATES];
    for (size_t f = 0; f < FEATURES; f++)
        sum += own[f] * of->in[(t * FEATURES + f) * of->samples + s];
    for (size_t u = 0; u < UNITS; u++)
        sum += state[u] * before[u];
    return sum;
}

static double lstm_loss(const Case *of, size_t s, double *out) {
    double outputs[UNITS] = {0}, cells[UNITS] = {0}, before[UNITS], loss = 0;
    for (size_t t = 0; t < STEPS; t++) {
        memcpy(before, outputs, sizeof before);
        for (size_t u = 0; u < UNITS; u++) {
            const double i = sigmoid(gate_of(of, u, t, s, before)), f = sigmoid(gate_of(of, UNITS + u, t, s, before));
            const double g = tanh(gate_of(of, 2 * UNITS + u, t, s, before)),
                         o = sigmoid(gate_of(of, 3 * UNITS + u, t, s, before));
            cells[u] = f * cells[u] + i * g;
            outputs[u] = o * tanh(cells[u]);
            if (of->layer.last && t + 1 < STEPS) continue;
            const size_t place = ((of->layer.last ? 0 : t * UNITS) + u) * of->samples + s;
            if (out) out[place] = outputs[u];
            loss += of->out_gradient[place] * outputs[u];
        }
    }
    return loss;
}

// A gate of a gru before its function, in two parts: of the input and of the state.
static void gru_gate(double *own, double *of_state, const Case *of, size_t row, size_t t, size_t s,
                     const double *before) {
    const double *state = of->parameters + GRU_GATES * FEATURES + row * UNITS;
    const double *bias = of->parameters + GRU_GATES * (FEATURES + UNITS) + row;
    *own = bias[0], *of_state = bias[GRU_GATES];
    for (size_t f = 0; f < FEATURES; f++)
        *own += of->parameters[row * FEATURES + f] * of->in[(t * FEATURES + f) * of->samples + s];
    for (size_t u = 0; u < UNITS; u++)
        *of_state += state[u] * before[u];
}

static double gru_loss(const Case *of, size_t s, double *out) {
    double outputs[UNITS] = {0}, before[UNITS], own, of_state, loss = 0;
    for (size_t t = 0; t < STEPS; t++) {
        memcpy(before, outputs, sizeof before);
        for (size_t u = 0; u < UNITS; u++) {
            gru_gate(&own, &of_state, of, u, t, s, before);
            const double reset = sigmoid(own + of_state);
            gru_gate(&own, &of_state, of, UNITS + u, t, s, before);
            const double update = sigmoid(own + of_state);
            gru_gate(&own, &of_state, of, 2 * UNITS + u, t, s, before);
            outputs[u] = (1 - update) * tanh(own + reset * of_state) + update * before[u];
            if (of->layer.last && t + 1 < STEPS) continue;
            const size_t place = ((of->layer.last ? 0 : t * UNITS) + u) * of->samples + s;
            if (out) out[place] = outputs[u];
            loss += of->out_gradient[place] * outputs[u];
        }
    }
    return loss;
}

static double derivative_of(const Case *of, double *value, size_t from, size_t to) {
    const double step = 1e-5, kept = *value;
    double difference = 0;
    for (size_t s = from; s < to; s++) {
        *value = kept + step;
        difference += of->loss(of, s, NULL);
        *value = kept - step;
        difference -= of->loss(of, s, NULL);
    }
    *value = kept;
    return difference / (2 * step);
}

// Of one step: `rows` linear functions of its EXTENT values, with the weight and bias that begin at `parameters`.
static void project(double *to, const double *parameters, size_t rows, const double *values) {
    for (size_t r = 0; r < rows; r++) {
        to[r] = parameters[rows * EXTENT + r];
        for (size_t i = 0; i < EXTENT; i++)
            to[r] += parameters[r * EXTENT + i] * values[i];
    }
}

static double attention_loss(const Case *of, size_t s, double *out) {
    const size_t heads = (size_t)of->layer.groups, features = EXTENT / heads;
    double projected[STEPS][3 * EXTENT], values[EXTENT], given[EXTENT], loss = 0;
    for (size_t t = 0; t < STEPS; t++) {
        for (size_t i = 0; i < EXTENT; i++)
            values[i] = of->in[(t * EXTENT + i) * of->samples + s];
        project(projected[t], of->parameters, 3 * EXTENT, values);
    }
    for (size_t t = 0; t < STEPS; t++) {
        for (size_t head = 0; head < heads; head++) {
            const size_t seen = of->layer.causal ? t + 1 : STEPS, first = head * features, end = first + features;
            double shares[STEPS], sum = 0;
            for (size_t u = 0; u < seen; u++) {
                double score = 0;
                for (size_t i = first; i < end; i++)
                    score += projected[t][i] * projected[u][EXTENT + i];
                sum += shares[u] = exp(score / sqrt((double)features));
            }
            for (size_t i = first; i < end; i++) {
                values[i] = 0;
                for (size_t u = 0; u < seen; u++)
                    values[i] += shares[u] / sum * projected[u][2 * EXTENT + i];
            }
        }
        project(given, of->parameters + 3 * EXTENT * (EXTENT + 1), EXTENT, values);
        for (size_t i = 0; i < EXTENT; i++) {
            const size_t place = (t * EXTENT + i) * of->samples + s;
            if (out) out[place] = given[i];
            loss += of->out_gradient[place] * given[i];
        }
    }
    return loss;
}

// What the ops work on.
typedef struct Tensors {
    Tensor in, out, out_gradient, parameters, gradient, in_gradient, kept, scratch;
} Tensors;

static void forward(const Kernels *kernels, const Case *of, const Tensors *at) {
    const int n = (int)of->samples, count = (int)of->count;
    if (of->layer.kind != LAYER_ATTENTION)
        kernels->recurrent_forward(at->out.at, at->kept.at, at->scratch.at, at->in.at, at->parameters.at, &of->layer,
                                   n);
    else
        kernels->attention_forward(at->out.at, at->kept.at, at->in.at, at->parameters.at, &of->layer, count, n);
}

static void backward(const Kernels *kernels, const Case *of, const Tensors *at, float *in_gradient) {
    const int n = (int)of->samples, count = (int)of->count;
    if (of->layer.kind != LAYER_ATTENTION)
        kernels->recurrent_backward(at->gradient.at, in_gradient, at->kept.at, at->scratch.at, at->out_gradient.at,
                                    at->parameters.at, &of->layer, n);
    else
        kernels->attention_backward(at->gradient.at, in_gradient, at->kept.at, at->scratch.at, at->out_gradient.at,
                                    at->parameters.at, &of->layer, count, n);
}

static void check_back(const Kernels *kernels, const Case *of, const Tensors *at) {
    const size_t n = of->samples, parameters = at->parameters.count, count = at->in.count;
    double expected[MOST_VALUES > MOST_PARAMETERS ? MOST_VALUES : MOST_PARAMETERS];
    assert_true(parameters <= MOST_PARAMETERS && count <= MOST_VALUES);
    for (int only = 0; only < 2; only++) { // the second adds to the gradients of the parameters
        forward(kernels, of, at);
        backward(kernels, of, at, only == 0 ? NULL : at->in_gradient.at);
    }
    for (size_t i = 0; i < parameters; i++)
        expected[i] = 2 * derivative_of(of, &of->parameters[i], 0, of->count);
    check_close("parameters", at->gradient.at, expected, parameters, 2e-5);
    for (size_t i = 0; i < count; i++)
        expected[i] = i % n < of->count ? derivative_of(of, &of->in[i], i % n, i % n + 1) : 0;
    check_close("input", at->in_gradient.at, expected, count, 1e-5);
}

// kept, scratch: floats of the ops' own. What the lanes behind the last sample hold is not a number.
static void check_layer(const Kernels *kernels, Layer layer, Loss *loss, int count, int samples, size_t parameters,
                        size_t kept, size_t scratch) {
    const size_t n = (size_t)samples, values = shape_size(layer.in) * n, outs = shape_size(layer.out) * n;
    const Tensors at = {.in = tensor_random(values, 1),
                        .out = tensor_new(outs),
                        .out_gradient = tensor_random(outs, 2),
                        .parameters = tensor_random(parameters, 3),
                        .gradient = tensor_zeros(parameters),
                        .in_gradient = tensor_new(values),
                        .kept = tensor_new(kept),
                        .scratch = tensor_new(scratch)};
    for (size_t i = 0; i < values; i++)
        if (i % n >= (size_t)count) at.in.at[i] = NAN;
    for (size_t i = 0; i < outs; i++)
        if (i % n >= (size_t)count) at.out_gradient.at[i] = 0;
    const Case of = {.layer = layer,
                     .loss = loss,
                     .count = (size_t)count,
                     .samples = n,
                     .in = doubles(at.in.at, values),
                     .parameters = doubles(at.parameters.at, parameters),
                     .out_gradient = doubles(at.out_gradient.at, outs)};
    double *expected = malloc(outs * sizeof *expected);
    assert_true(expected && of.in && of.parameters && of.out_gradient && n <= MOST_SAMPLES);
    for (size_t s = 0; s < of.count; s++)
        loss(&of, s, expected);
    forward(kernels, &of, &at);
    for (size_t i = 0; i < outs; i++)
        if (i % n >= of.count) expected[i] = (double)(at.out.at[i] = 0); // they mean nothing
    check_close("outputs", at.out.at, expected, outs, 2e-6);
    check_back(kernels, &of, &at);
    free(expected), free(of.in), free(of.parameters), free(of.out_gradient);
    const Tensor all[] = {at.in,       at.out,         at.out_gradient, at.parameters,
                          at.gradient, at.in_gradient, at.kept,         at.scratch};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(all[i]);
}

static void check_recurrent(const Kernels *kernels, LayerKind kind, bool last, int vectors) {
    const int n = vectors * kernels->lanes;
    Layer layer = {.kind = kind, .in = {1, STEPS, FEATURES}, .out = {1, STEPS, UNITS}, .last = last};
    layer.groups = kind == LAYER_GRU ? 3 : 4;
    if (last) layer.out = (Shape){UNITS, 1, 1};
    check_layer(kernels, layer, kind == LAYER_GRU ? gru_loss : lstm_loss, n, n,
                kind == LAYER_GRU ? PARAMETERS / 4 * 3 : PARAMETERS, lstm_places(&layer, n).end,
                lstm_scratch_floats(&layer, n));
}

static void check_lstms(const Kernels *kernels) {
    check_recurrent(kernels, LAYER_LSTM, false, 1);
    check_recurrent(kernels, LAYER_LSTM, true, 2);
}

static void check_grus(const Kernels *kernels) {
    check_recurrent(kernels, LAYER_GRU, false, 1);
    check_recurrent(kernels, LAYER_GRU, true, 2);
}

static void grus_agree_with_the_reference_and_finite_differences(void **state) {
    (void)state;
    with_each_build(check_grus);
}

static void lstms_agree_with_the_reference_and_finite_differences(void **state) {
    (void)state;
    with_each_build(check_lstms);
}

// Of a tensor (C,H,W,N) the W values at each of C x H places; there and back twice, as the gradients of the parameters
// add up.
static void check_each(const Kernels *kernels, Shape shape, int outs, int count, int vectors) {
    const size_t n = (size_t)(vectors * kernels->lanes), to = (size_t)outs, from = (size_t)shape.columns;
    Layer layer = {.kind = LAYER_LINEAR_EACH, .in = shape, .out = {shape.channels, shape.rows, outs}};
    layer.bias = to * from;
    const Layer one = linear_at_place(&layer);
    const size_t places = linear_places(&layer), own = layer_parameters(&layer), values = places * from * n;
    Tensor in = tensor_random(values, 7), out = tensor_new(places * to * n), weight = tensor_random(own, 8);
    Tensor out_gradient = tensor_random(out.count, 9), gradient = tensor_zeros(own), in_gradient = tensor_new(values);
    Tensor rows = tensor_new(places * n * linear_row_floats(&one));
    Tensor scratch = tensor_new(linear_scratch_floats(&one, (int)n));
    double *given = calloc(out.count, sizeof *given), *back = calloc(values, sizeof *back);
    double *expected = calloc(own, sizeof *expected);
    assert_true(given && back && expected && own == to * (from + 1) && places == (size_t)(shape.channels * shape.rows));
    for (size_t i = 0; i < out.count; i++)
        if (i % n >= (size_t)count) out_gradient.at[i] = 0;
    for (size_t i = 0; i < out.count; i++) {
        const size_t s = i % n, o = i / n % to, p = i / n / to;
        given[i] = (double)weight.at[to * from + o];
        expected[to * from + o] += 2 * (double)out_gradient.at[i];
        for (size_t f = 0; f < from; f++) {
            const double value = (double)in.at[(p * from + f) * n + s], w = (double)weight.at[o * from + f];
            given[i] += w * value;
            expected[o * from + f] += 2 * (double)out_gradient.at[i] * value;
            back[(p * from + f) * n + s] += (double)out_gradient.at[i] * w;
        }
    }
    for (int only = 0; only < 2; only++) {
        kernels->linear_each_forward(out.at, rows.at, in.at, weight.at, &layer, count, (int)n);
        kernels->linear_each_backward(gradient.at, only == 0 ? NULL : in_gradient.at, scratch.at, rows.at,
                                      out_gradient.at, weight.at, &layer, count, (int)n);
    }
    for (size_t i = 0; i < out.count; i++)
        if (i % n >= (size_t)count) given[i] = (double)(out.at[i] = 0); // they mean nothing
    check_close("outputs of each place", out.at, given, out.count, 2e-6);
    check_close("weight and bias", gradient.at, expected, own, 1e-5);
    check_close("input", in_gradient.at, back, values, 1e-5);
    free(given), free(back), free(expected);
    const Tensor all[] = {in, out, weight, out_gradient, gradient, in_gradient, rows, scratch};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(all[i]);
}

static void check_attention(const Kernels *kernels, int heads, bool causal, int count, int vectors) {
    const int n = vectors * kernels->lanes;
    const Shape shape = {1, STEPS, EXTENT};
    const Layer layer = {.kind = LAYER_ATTENTION, .in = shape, .out = shape, .groups = heads, .causal = causal};
    check_layer(kernels, layer, attention_loss, count, n, layer_parameters(&layer), attention_places(&layer, n).end,
                attention_scratch_floats(&layer, n));
}

static void check_attentions(const Kernels *kernels) {
    check_attention(kernels, 1, false, kernels->lanes, 1);
    check_attention(kernels, 2, true, 2 * kernels->lanes - 3, 2);
    check_attention(kernels, 6, false, 1, 1);
}

static void attentions_agree_with_the_reference_and_finite_differences(void **state) {
    (void)state;
    with_each_build(check_attentions);
}

static void check_linears_of_each(const Kernels *kernels) {
    check_each(kernels, (Shape){1, 5, 3}, 7, kernels->lanes - 1, 1);
    check_each(kernels, (Shape){2, 3, 37}, 5, 2 * kernels->lanes, 2);
    check_each(kernels, (Shape){1, 1, 1}, 1, 1, 1);
}

static void linear_layers_of_each_place_agree_with_the_reference(void **state) {
    (void)state;
    with_each_build(check_linears_of_each);
}

static void check_embedding(const Kernels *kernels) {
    enum { ROWS = 4, WIDTH = 3, NUMBERS = 2 };
    const size_t n = (size_t)kernels->lanes, outs = NUMBERS * WIDTH * n;
    const Layer layer = {
        .kind = LAYER_EMBEDDING, .in = {1, 1, NUMBERS}, .out = {1, NUMBERS, WIDTH}, .vocabulary = ROWS};
    Tensor in = tensor_new(NUMBERS * n), out = tensor_new(outs), out_gradient = tensor_random(outs, 5);
    Tensor weight = tensor_random(ROWS * WIDTH, 6), gradient = tensor_zeros(ROWS * WIDTH);
    double expected[ROWS * WIDTH] = {0};
    for (size_t i = 0; i < in.count; i++)
        in.at[i] = (float)(i * 7 % ROWS);
    kernels->embedding_forward(out.at, in.at, weight.at, &layer, (int)n);
    for (int twice = 0; twice < 2; twice++)
        kernels->embedding_backward(gradient.at, in.at, out_gradient.at, &layer, (int)n);
    for (size_t i = 0; i < outs; i++) {
        const size_t s = i % n, d = i / n % WIDTH, t = i / n / WIDTH, row = (size_t)in.at[t * n + s];
        assert_true(out.at[i] == weight.at[row * WIDTH + d]);
        expected[row * WIDTH + d] += 2 * (double)out_gradient.at[i];
    }
    check_close("table", gradient.at, expected, ROWS * WIDTH, 1e-6);
    in.at[0] = NAN, in.at[1] = 1e9f, in.at[2] = -5; // what no data set has: nothing outside of the table is read
    kernels->embedding_forward(out.at, in.at, weight.at, &layer, (int)n);
    assert_true(out.at[0] == weight.at[0] && out.at[1] == weight.at[(ROWS - 1) * WIDTH] && out.at[2] == weight.at[0]);
    const Tensor all[] = {in, out, out_gradient, weight, gradient};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(all[i]);
}

static void embeddings_give_rows_of_their_table_and_add_up_the_gradients(void **state) {
    (void)state;
    with_each_build(check_embedding);
}

static void check_positions(const Kernels *kernels) {
    const Shape shape = {1, 5, 3};
    const Layer layer = {.kind = LAYER_POSITIONS, .in = shape, .out = shape};
    const size_t n = 2 * (size_t)kernels->lanes, own = shape_size(shape), values = own * n;
    Tensor in = tensor_random(values, 5), out = tensor_new(values), out_gradient = tensor_random(values, 6);
    Tensor weight = tensor_random(own, 7), gradient = tensor_zeros(own);
    double expected[15] = {0};
    kernels->positions_forward(out.at, in.at, weight.at, &layer, (int)n);
    for (int twice = 0; twice < 2; twice++)
        kernels->positions_backward(gradient.at, out_gradient.at, &layer, (int)n);
    for (size_t i = 0; i < values; i++) {
        assert_true(out.at[i] == in.at[i] + weight.at[i / n]);
        expected[i / n] += 2 * (double)out_gradient.at[i];
    }
    check_close("positions", gradient.at, expected, own, 1e-6);
    const Tensor all[] = {in, out, out_gradient, weight, gradient};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(all[i]);
}

static void positions_are_added_at_each_step_and_their_gradients_add_up(void **state) {
    (void)state;
    with_each_build(check_positions);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lstms_agree_with_the_reference_and_finite_differences),
        cmocka_unit_test(grus_agree_with_the_reference_and_finite_differences),
        cmocka_unit_test(attentions_agree_with_the_reference_and_finite_differences),
        cmocka_unit_test(linear_layers_of_each_place_agree_with_the_reference),
        cmocka_unit_test(embeddings_give_rows_of_their_table_and_add_up_the_gradients),
        cmocka_unit_test(positions_are_added_at_each_step_and_their_gradients_add_up),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}

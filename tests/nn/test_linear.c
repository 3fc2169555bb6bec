// Linear layers, by every build's own ops and by OpenBLAS: against one reference in double precision, and whole nets
// against each other. Shapes are odd on purpose: they divide neither the vectors nor OpenBLAS's blocks.
#include "builds.h"

#include <unistd.h>

#include "nn/linear_blas.h"
#include "nn/net.h"
#include "nn/spec.h"
#include "tests/tensor.h"

// Products ------------------------------------------------------------------------------------------------------------

// A layer, random values of all that its products take, and what must come of them.
typedef struct Trial {
    Layer layer;
    int outs, ins, count, samples;
    Tensor in, weight, bias,
        out_gradient; // out_gradient: (OUT,N), zero beyond the last sample, as the loss leaves them
    double *out, *weight_gradient, *bias_gradient, *in_gradient;
} Trial;

static void make_references(Trial *trial) {
    for (int o = 0; o < trial->outs; o++)
        for (int s = 0; s < trial->samples; s++) {
            size_t place = (size_t)(o * trial->samples + s);
            double gradient = (double)trial->out_gradient.at[place];
            trial->out[place] = (double)trial->bias.at[o];
            trial->bias_gradient[o] += gradient;
            for (int i = 0; i < trial->ins && s < trial->count; i++) {
                double w = (double)trial->weight.at[o * trial->ins + i];
                double x = (double)trial->in.at[i * trial->samples + s];
                trial->out[place] += w * x;
                trial->weight_gradient[o * trial->ins + i] += gradient * x;
                trial->in_gradient[i * trial->samples + s] += gradient * w;
            }
        }
}

static double *zeros(size_t count) {
    double *values = calloc(count, sizeof *values);
    assert_non_null(values);
    return values;
}

// rests: of ten units behind a relu, on the average; one output rests with every sample then.
static Trial trial_of(const Kernels *kernels, Shape shape, int outs, int count, unsigned rests) {
    int ins = (int)shape_size(shape), samples = (count + kernels->lanes - 1) / kernels->lanes * kernels->lanes;
    Trial trial = {.layer = {.kind = LAYER_LINEAR, .in = shape, .out = {outs, 1, 1}},
                   .outs = outs,
                   .ins = ins,
                   .count = count,
                   .samples = samples,
                   .in = tensor_random((size_t)(ins * samples), 10),
                   .weight = tensor_random((size_t)(outs * ins), 11),
                   .bias = tensor_random((size_t)outs, 12),
                   .out_gradient = tensor_random((size_t)(outs * samples), 13)};
    for (size_t i = 0; i < trial.out_gradient.count; i++) {
        const bool unit_rests = (unsigned)i * 2654435761u >> 16 < rests * 6554 || (rests && i / (size_t)samples == 1);
        if (unit_rests || i % (size_t)samples >= (size_t)count) trial.out_gradient.at[i] = 0;
    }
    trial.out = zeros(trial.out_gradient.count);
    trial.weight_gradient = zeros(trial.weight.count);
    trial.bias_gradient = zeros(trial.bias.count);
    trial.in_gradient = zeros(trial.in.count);
    make_references(&trial);
    return trial;
}

static void trial_free(Trial *trial) {
    const Tensor tensors[] = {trial->in, trial->weight, trial->bias, trial->out_gradient};
    double *const references[] = {trial->out, trial->weight_gradient, trial->bias_gradient, trial->in_gradient};
    for (size_t i = 0; i < 4; i++) {
        tensor_free(tensors[i]);
        free(references[i]);
    }
}

// Beyond the last sample, outputs mean nothing but are finite.
static void check_outputs(const Trial *trial, Tensor out) {
    for (size_t i = 0; i < out.count; i++)
        if (i % (size_t)trial->samples >= (size_t)trial->count) {
            assert_true(isfinite(out.at[i]) != 0);
            trial->out[i] = (double)out.at[i];
        }
    check_close("linear forward", out.at, trial->out, out.count, 1e-5);
}

static void check_times(const char *what, Tensor actual, const double *expected, double times) {
    double *wanted = zeros(actual.count);
    for (size_t i = 0; i < actual.count; i++)
        wanted[i] = times * expected[i];
    check_close(what, actual.at, wanted, actual.count, 1e-5);
    free(wanted);
}

// The samples by themselves, one a row, give the same; and so do the gradients that are left in scratch. rows,
// in_gradient: what the layer has made of the trial's.
static void check_sides(const Kernels *kernels, const Trial *trial, const float *rows, float *scratch,
                        const float *in_gradient) {
    const Layer *layer = &trial->layer;
    const int count = trial->count, samples = trial->samples;
    Tensor own = tensor_new(linear_row_floats(layer) * (size_t)count), out = tensor_new(trial->out_gradient.count);
    Tensor back = tensor_new(trial->in.count);
    kernels->linear_rows(own.at, trial->in.at, layer, count, samples);
    for (int s = 0; s < count; s++)
        assert_memory_equal(own.at + (size_t)s * linear_row_floats(layer), rows + (size_t)s * linear_row_floats(layer),
                            (size_t)trial->ins * sizeof(float));
    kernels->linear_forward(out.at, own.at, NULL, trial->weight.at, trial->bias.at, layer, count, samples);
    check_outputs(trial, out);
    kernels->linear_backward_input(NULL, scratch, trial->out_gradient.at, trial->weight.at, layer, count, samples);
    kernels->linear_columns(back.at, scratch, layer, count, samples);
    assert_memory_equal(back.at, in_gradient, back.count * sizeof(float));
    const Tensor all[] = {own, out, back};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(all[i]);
}

static void check_own(const Kernels *kernels, const Trial *trial) {
    const Layer *layer = &trial->layer;
    int count = trial->count, samples = trial->samples;
    Tensor out = tensor_new(trial->out_gradient.count), in_gradient = tensor_new(trial->in.count);
    Tensor weight_gradient = tensor_new(trial->weight.count), bias_gradient = tensor_new(trial->bias.count);
    Tensor rows = tensor_new(linear_row_floats(layer) * (size_t)count);
    Tensor scratch = tensor_new(linear_scratch_floats(layer, samples));
    kernels->linear_forward(out.at, rows.at, trial->in.at, trial->weight.at, trial->bias.at, layer, count, samples);
    check_outputs(trial, out);
    kernels->linear_backward_input(in_gradient.at, scratch.at, trial->out_gradient.at, trial->weight.at, layer, count,
                                   samples);
    check_times("linear input", in_gradient, trial->in_gradient, 1);
    check_sides(kernels, trial, rows.at, scratch.at, in_gradient.at);
    for (int chunk = 0; chunk < 2; chunk++) { // the second adds to the first
        const SgdUpdate descent = {.keep = (float)chunk};
        kernels->linear_backward_weight(weight_gradient.at, NULL, rows.at, trial->out_gradient.at, &descent, layer,
                                        count, samples);
        kernels->linear_backward_bias(bias_gradient.at, NULL, trial->out_gradient.at, &descent, layer, samples);
        check_times("linear weight", weight_gradient, trial->weight_gradient, chunk + 1);
        check_times("linear bias", bias_gradient, trial->bias_gradient, chunk + 1);
    }
    const Tensor all[] = {out, in_gradient, weight_gradient, bias_gradient, rows, scratch};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(all[i]);
}

// The samples one a row, as gather_rows leaves them for a net's first layer.
static Tensor rows_of(const Trial *trial) {
    size_t row_floats = linear_row_floats(&trial->layer);
    Tensor rows = tensor_new(row_floats * (size_t)trial->count);
    for (int s = 0; s < trial->count; s++)
        for (int i = 0; i < trial->ins; i++)
            rows.at[(size_t)s * row_floats + (size_t)i] = trial->in.at[i * trial->samples + s];
    return rows;
}

// The step that a descent with weights at hand stands for, on the weight's gradient that the trial knows. Velocity and
// weights get expected values.
static void expect_step(double *velocity, double *weight, const Trial *trial, const SgdUpdate *descent) {
    for (size_t i = 0; i < trial->weight.count; i++) {
        const double gradient = trial->weight_gradient[i] + (descent->shift ? (double)descent->shift[i] : 0);
        velocity[i] = (double)descent->keep * velocity[i] + gradient + (double)descent->weight_decay * weight[i];
        weight[i] -= (double)descent->lr * velocity[i];
    }
}

// Every combination of what a step keeps, how weights decay and what shifts their gradients; a step that begins writes
// the velocity as one that keeps something does.
static void check_sgd_updates(const Kernels *kernels, const Trial *trial) {
    const size_t parameters = trial->weight.count;
    Tensor rows = rows_of(trial), shift = tensor_random(parameters, 14);
    for (int way = 0; way < 16; way++) {
        const SgdUpdate descent = {.keep = way & 1 ? 0.5f : 0,
                                   .lr = 0.1f,
                                   .weight_decay = way & 2 ? 0.25f : 0,
                                   .shift = way & 4 ? shift.at : NULL,
                                   .begins = (way & 9) == 8};
        Tensor velocity = tensor_random(parameters, 15), weight = tensor_random(parameters, 11);
        double *speeds = doubles(velocity.at, parameters), *moved = doubles(weight.at, parameters);
        expect_step(speeds, moved, trial, &descent);
        kernels->linear_backward_weight(velocity.at, weight.at, rows.at, trial->out_gradient.at, &descent,
                                        &trial->layer, trial->count, trial->samples);
        check_close("weight after a step", weight.at, moved, parameters, 1e-5);
        if (descent.keep != 0 || descent.begins)
            check_close("velocity after a step", velocity.at, speeds, parameters, 1e-5);
        free(speeds);
        free(moved);
        tensor_free(velocity);
        tensor_free(weight);
    }
    tensor_free(rows);
    tensor_free(shift);
}

// A step with the weights at hand has the bits of the gradient by itself and SGD's step after it.
static void check_same_as_sgd(const Kernels *kernels, const Trial *trial) {
    const size_t parameters = trial->weight.count;
    Tensor rows = rows_of(trial), gradient = tensor_new(parameters);
    const SgdUpdate alone = {.keep = 0};
    kernels->linear_backward_weight(gradient.at, NULL, rows.at, trial->out_gradient.at, &alone, &trial->layer,
                                    trial->count, trial->samples);
    for (int way = 0; way < 4; way++) {
        const Sgd sgd = {.lr = 0.3f, .momentum = way & 1 ? 0.9f : 0, .weight_decay = way & 2 ? 0.07f : 0};
        const SgdUpdate descent = {
            .keep = sgd.momentum, .lr = sgd.lr, .weight_decay = sgd.weight_decay, .begins = sgd.momentum == 0};
        Tensor velocity[2], weight[2];
        for (int i = 0; i < 2; i++) {
            velocity[i] = sgd.momentum != 0 ? tensor_random(parameters, 15) : tensor_zeros(parameters);
            weight[i] = tensor_random(parameters, 11);
        }
        kernels->sgd_step(weight[0].at, velocity[0].at, gradient.at, &sgd, parameters);
        kernels->linear_backward_weight(velocity[1].at, weight[1].at, rows.at, trial->out_gradient.at, &descent,
                                        &trial->layer, trial->count, trial->samples);
        assert_memory_equal(velocity[0].at, velocity[1].at, parameters * sizeof(float));
        assert_memory_equal(weight[0].at, weight[1].at, parameters * sizeof(float));
        for (int i = 0; i < 2; i++) {
            tensor_free(velocity[i]);
            tensor_free(weight[i]);
        }
    }
    tensor_free(rows);
    tensor_free(gradient);
}

// Two steps with momentum and a shift: what the first leaves is what the second begins with.
static void check_joined_step(const Kernels *kernels, const Trial *trial) {
    const Layer *layer = &trial->layer;
    int count = trial->count, samples = trial->samples;
    Tensor rows = rows_of(trial), scratch = tensor_new(linear_scratch_floats(layer, samples));
    Tensor velocity[2], weight[2], in_gradient[2];
    for (int way = 0; way < 2; way++) {
        velocity[way] = tensor_zeros(trial->weight.count);
        weight[way] = tensor_new(trial->weight.count);
        in_gradient[way] = tensor_new(trial->in.count);
        memcpy(weight[way].at, trial->weight.at, trial->weight.count * sizeof(float));
    }
    for (int step = 0; step < 2; step++) {
        const SgdUpdate descent = {.keep = 0.5f, .lr = 0.1f, .weight_decay = 0.01f, .shift = trial->weight.at};
        kernels->linear_backward_input(in_gradient[0].at, scratch.at, trial->out_gradient.at, weight[0].at, layer,
                                       count, samples);
        kernels->linear_backward_weight(velocity[0].at, weight[0].at, rows.at, trial->out_gradient.at, &descent, layer,
                                        count, samples);
        kernels->linear_backward_step(in_gradient[1].at, scratch.at, velocity[1].at, weight[1].at, rows.at,
                                      trial->out_gradient.at, &descent, layer, count, samples);
        assert_memory_equal(in_gradient[0].at, in_gradient[1].at, trial->in.count * sizeof(float));
        assert_memory_equal(velocity[0].at, velocity[1].at, trial->weight.count * sizeof(float));
        assert_memory_equal(weight[0].at, weight[1].at, trial->weight.count * sizeof(float));
    }
    const Tensor all[] = {velocity[0],    velocity[1],    weight[0], weight[1],
                          in_gradient[0], in_gradient[1], rows,      scratch};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(all[i]);
}

// in: lanes, or NULL: the rows.
static void check_through_blas(const Blas *blas, const Trial *trial, const float *in, Tensor rows) {
    const Layer *layer = &trial->layer;
    int count = trial->count, samples = trial->samples;
    Tensor out = tensor_new(trial->out_gradient.count), in_gradient = tensor_new(trial->in.count);
    Tensor weight_gradient = tensor_new(trial->weight.count);
    linear_blas_forward(out.at, blas, in, rows.at, trial->weight.at, trial->bias.at, layer, count, samples);
    check_outputs(trial, out);
    linear_blas_backward_input(in_gradient.at, blas, trial->out_gradient.at, trial->weight.at, layer, count, samples);
    check_times("linear input, OpenBLAS", in_gradient, trial->in_gradient, 1);
    for (int chunk = 0; chunk < 2; chunk++) {
        const SgdUpdate descent = {.keep = (float)chunk};
        linear_blas_backward_weight(weight_gradient.at, NULL, blas, in, rows.at, trial->out_gradient.at, &descent,
                                    layer, count, samples);
        check_times("linear weight, OpenBLAS", weight_gradient, trial->weight_gradient, chunk + 1);
    }
    tensor_free(out);
    tensor_free(in_gradient);
    tensor_free(weight_gradient);
}

// Samples without gradients are as good as not there: where they are most, lists leave them out, and without them tiles
// take all. Both ways give the same bits.
static void check_same_without_rests(const Kernels *kernels, Shape shape, int outs, int count) {
    Trial trial = trial_of(kernels, shape, outs, count, 0);
    const Layer *layer = &trial.layer;
    const int samples = trial.samples, working = count / 3;
    for (size_t i = 0; i < trial.out_gradient.count; i++)
        if (i % (size_t)samples >= (size_t)working) trial.out_gradient.at[i] = 0;
    Tensor rows = rows_of(&trial), scratch = tensor_new(linear_scratch_floats(layer, samples));
    Tensor weight[2], in_gradient[2];
    for (int way = 0; way < 2; way++) {
        const int taken = way ? count : working;
        const SgdUpdate descent = {.lr = 0.1f};
        Tensor velocity = tensor_zeros(trial.weight.count);
        weight[way] = tensor_random(trial.weight.count, 11);
        in_gradient[way] = tensor_zeros(trial.in.count);
        kernels->linear_backward_step(in_gradient[way].at, scratch.at, velocity.at, weight[way].at, rows.at,
                                      trial.out_gradient.at, &descent, layer, taken, samples);
        tensor_free(velocity);
    }
    assert_memory_equal(weight[0].at, weight[1].at, trial.weight.count * sizeof(float));
    assert_memory_equal(in_gradient[0].at, in_gradient[1].at, trial.in.count * sizeof(float));
    const Tensor all[] = {rows, scratch, weight[0], weight[1], in_gradient[0], in_gradient[1]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(all[i]);
    trial_free(&trial);
}

static void check_trial(const Kernels *kernels, const Blas *blas, Shape shape, int outs, int count, unsigned rests) {
    Trial trial = trial_of(kernels, shape, outs, count, rests);
    Tensor rows = rows_of(&trial), none = {NULL, 0};
    check_own(kernels, &trial);
    check_sgd_updates(kernels, &trial);
    check_same_as_sgd(kernels, &trial);
    check_joined_step(kernels, &trial);
    check_through_blas(blas, &trial, trial.in.at, none);
    check_through_blas(blas, &trial, NULL, rows);
    tensor_free(rows);
    trial_free(&trial);
}

// With the gradients of a layer that ends the net, and of one behind which many units rest, or almost all.
static void check_linear(const Kernels *kernels, const Blas *blas, Shape shape, int outs, int count) {
    for (unsigned rests = 0; rests <= 9; rests += rests ? 3 : 6)
        check_trial(kernels, blas, shape, outs, count, rests);
    if (count >= 3) check_same_without_rests(kernels, shape, outs, count);
}

static void check_linears(const Kernels *kernels) {
    Error err;
    Blas *blas;
    check_ok(blas_open(&blas, kernels, &err));
    check_linear(kernels, blas, (Shape){5, 3, 3}, 13, 10);
    check_linear(kernels, blas, (Shape){20, 4, 4}, 50, 16);
    check_linear(kernels, blas, (Shape){7, 1, 1}, 1, 1);
    check_linear(kernels, blas, (Shape){1, 1, 1}, 6, 17);
    check_linear(kernels, blas, (Shape){33, 1, 1}, 21, 64);
    check_linear(kernels, blas, (Shape){130, 1, 1}, 37, 77);
    check_linear(kernels, blas, (Shape){1029, 1, 1}, 7, 64); // more than one strip of inputs, ending anywhere
    check_linear(kernels, blas, (Shape){2048, 1, 1}, 2, 64);
    check_linear(kernels, blas, (Shape){1500, 1, 1}, 3, 128);
    check_linear(kernels, blas, (Shape){301, 1, 1}, 113, 203);
    blas_close(blas);
}

// The same ops, with less than a vector of samples.
static void check_few(const Kernels *kernels) {
    for (int count = 1; kernels->few && count <= kernels->few->lanes; count++) {
        for (unsigned rests = 0; rests <= 6; rests += 6) {
            Trial trial = trial_of(kernels->few, (Shape){5, 3, 9}, 21, count, rests);
            check_own(kernels->few, &trial);
            check_joined_step(kernels->few, &trial);
            trial_free(&trial);
        }
    }
}

// The loss sum(gradients * out) is linear in each value, so the products of the reference are its exact derivatives.
static void linear_agrees_with_the_reference_for_any_number_of_samples(void **state) {
    (void)state;
    with_each_build(check_linears);
    with_each_build(check_few);
}

// Whole nets ----------------------------------------------------------------------------------------------------------

enum { CLASSES = 5, SAMPLES = 500, STEPS = 2, EVALUATED = 130 };
static const Shape shape = {3, 20, 20};
static const char wide_net[] = "linear 1040; relu; dropout 0.2; linear 1050; relu; linear 5"; // the first takes rows
static const char mixed_net[] = "conv 4 5; pool 4; relu; linear 1030; relu; linear 1040; relu; linear 5";

typedef struct Data {
    uint8_t *pixels;
    uint16_t labels[SAMPLES];
    uint32_t indices[SAMPLES];
    float scale[3], shift[3];
} Data;

static Data data_new(void) {
    Data data = {.scale = {0.01f, 0.008f, 0.009f}, .shift = {-1, -0.9f, -1.1f}};
    size_t bytes = SAMPLES * shape_size(shape);
    RngKey key = rng_key(1, RNG_SYNTHETIC, 0, 0, 0);
    data.pixels = malloc(bytes);
    assert_non_null(data.pixels);
    for (uint32_t p = 0; p < bytes; p++)
        data.pixels[p] = (uint8_t)(rng_block(key, p, 0, 0, 0).word[0] >> 24);
    for (uint32_t s = 0; s < SAMPLES; s++) {
        data.labels[s] = (uint16_t)(s % CLASSES);
        data.indices[s] = s * 37 % SAMPLES;
    }
    return data;
}

static Batch batch_of(const Data *data, uint32_t count) {
    return (Batch){.pixels = data->pixels,
                   .labels = data->labels,
                   .indices = data->indices,
                   .count = count,
                   .scale = data->scale,
                   .shift = data->shift};
}

// One training: the model and its velocity after its steps, and the losses on the way, of which the last is one in
// evaluation mode.
typedef struct Training {
    Tensor parameters, velocity;
    double losses[STEPS + 1];
    uint32_t hits;
} Training;

static Training train(const Kernels *kernels, const char *text, const Data *data, uint32_t count) {
    Error err;
    Spec spec;
    Net net;
    check_ok(spec_parse(&spec, text, shape, CLASSES, &err));
    check_ok(net_init(&net, &spec, kernels, &err));
    memset(net.arena, 0xff, net.arena_bytes); // what is read before it is written shows
    Training training = {tensor_new(spec.parameter_count), tensor_zeros(spec.parameter_count), {0}, 0};
    spec_initialise(training.parameters.at, &spec, 3);
    const Sgd sgd = {.lr = 0.01f, .momentum = 0.9f, .weight_decay = 0.01f};
    Batch batch = batch_of(data, count), tested = batch_of(data, EVALUATED);
    BatchResult result;
    for (uint32_t step = 0; step < STEPS; step++) {
        const Noise noise = {.seed = 1, .round = 2, .client = 3, .step = step};
        net_train_step(&net, training.parameters.at, training.velocity.at, &result, &sgd, NULL, &batch, &noise);
        training.losses[step] = result.loss_sum;
    }
    net_evaluate(&net, &result, training.parameters.at, &tested);
    training.losses[STEPS] = result.loss_sum;
    training.hits = result.hits;
    net_free(&net);
    return training;
}

static void training_free(Training *training) {
    tensor_free(training->parameters);
    tensor_free(training->velocity);
}

static void check_parity(const Kernels *kernels, const char *text, const Data *data, uint32_t count) {
    setenv("SOUNDER_BLAS", "off", 1);
    Training own = train(kernels, text, data, count);
    unsetenv("SOUNDER_BLAS");
    Training blas = train(kernels, text, data, count);
    size_t parameters = own.parameters.count;
    double *expected = doubles(own.parameters.at, parameters),
           *expected_velocity = doubles(own.velocity.at, parameters);
    check_close("parameters", blas.parameters.at, expected, parameters, 1e-5);
    check_close("velocity", blas.velocity.at, expected_velocity, parameters, 1e-5);
    for (int i = 0; i <= STEPS; i++)
        assert_true(fabs(blas.losses[i] - own.losses[i]) < 1e-5 * own.losses[i]);
    assert_true(abs((int)blas.hits - (int)own.hits) <= 1);
    assert_true(memcmp(own.parameters.at, blas.parameters.at, parameters * sizeof(float)) != 0); // other products
    free(expected);
    free(expected_velocity);
    training_free(&own);
    training_free(&blas);
}

static void check_repetition(const Kernels *kernels, const char *text, const Data *data, uint32_t count) {
    Training first = train(kernels, text, data, count), again = train(kernels, text, data, count);
    assert_memory_equal(first.parameters.at, again.parameters.at, first.parameters.count * sizeof(float));
    assert_memory_equal(first.losses, again.losses, sizeof first.losses);
    training_free(&first);
    training_free(&again);
}

static void check_parities(const Kernels *kernels) {
    Data data = data_new();
    check_parity(kernels, wide_net, &data, 33);  // the input gradient alone through OpenBLAS
    check_parity(kernels, wide_net, &data, 499); // in two chunks, of which the second goes without on the whole
    check_parity(kernels, mixed_net, &data, 113);
    check_repetition(kernels, mixed_net, &data, 113);
    free(data.pixels);
}

static void nets_train_through_openblas_as_without_and_every_time_to_the_same_bits(void **state) {
    (void)state;
    with_each_build(check_parities);
}

// The choice ----------------------------------------------------------------------------------------------------------

static void parse(Spec *spec, const char *text, Shape input, int classes) {
    Error err;
    check_ok(spec_parse(spec, text, input, classes, &err));
}

static const char *name_of(const Spec *spec, const Kernels *kernels) {
    static char name[BLAS_NAME_BYTES];
    Error err;
    check_ok(net_blas_name(name, spec, kernels, &err));
    return name;
}

static void shapes_alone_choose_openblas(void **state) {
    (void)state;
    Spec spec;
    for (size_t i = 0; i < zoo_entry_count; i++) {
        char text[SPEC_TEXT_BYTES];
        zoo_expand(text, sizeof text, zoo_entries[i].name, 10);
        parse(&spec, text, (Shape){1, 28, 28}, 10);
        assert_string_equal(name_of(&spec, kernels_best()), "");
    }
    parse(&spec, wide_net, shape, CLASSES);
    assert_memory_equal(name_of(&spec, kernels_best()), "OpenBLAS ", 9);
    setenv("SOUNDER_BLAS", "off", 1);
    assert_string_equal(name_of(&spec, kernels_best()), "");
    unsetenv("SOUNDER_BLAS");

    Layer layer = {.kind = LAYER_LINEAR, .in = {LINEAR_WIDE / 512, 1, 1}, .out = {512, 1, 1}};
    assert_true(linear_blas_pays(&layer, LINEAR_MANY_SAMPLES) && !linear_blas_pays(&layer, LINEAR_MANY_SAMPLES - 1));
    assert_false(linear_blas_pays_backward(&layer, LINEAR_MANY_SAMPLES - 1));
    layer.in.channels--; // one input less, and it is not wide
    assert_false(linear_blas_pays(&layer, 512) || linear_blas_pays_backward(&layer, 512));
    layer = (Layer){.kind = LAYER_LINEAR, .in = {LINEAR_WIDE / LINEAR_TALL, 1, 1}, .out = {LINEAR_TALL, 1, 1}};
    assert_true(linear_blas_pays_backward(&layer, LINEAR_SOME_SAMPLES));
    assert_false(linear_blas_pays_backward(&layer, LINEAR_SOME_SAMPLES - 1));
}

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

static void check_core(const Kernels *kernels) {
#ifdef __x86_64__
    Spec spec;
    parse(&spec, wide_net, shape, CLASSES);
    const char *core = kernels->lanes == 16 ? " SkylakeX" : kernels->lanes == 8 ? " Haswell" : " Prescott";
    if (!ends_with(name_of(&spec, kernels), core)) fail_msg("%s: %s", kernels->name, name_of(&spec, kernels));
    assert_null(getenv("OPENBLAS_CORETYPE")); // lent for a moment
    assert_null(getenv("OPENBLAS_NUM_THREADS"));
    setenv("OPENBLAS_CORETYPE", "Nehalem", 1);
    bool respected = ends_with(name_of(&spec, kernels), " Nehalem");
    bool kept = getenv("OPENBLAS_CORETYPE") && strcmp(getenv("OPENBLAS_CORETYPE"), "Nehalem") == 0;
    unsetenv("OPENBLAS_CORETYPE");
    assert_true(respected && kept);
#else
    (void)kernels;
#endif
}

static void openblas_runs_on_the_instruction_set_of_the_ops_unless_the_user_says_otherwise(void **state) {
    (void)state;
    unsetenv("OPENBLAS_CORETYPE");
    unsetenv("OPENBLAS_NUM_THREADS");
    with_each_build(check_core);
}

static void openblas_has_one_thread_unless_the_user_says_otherwise(void **state) {
    (void)state;
    Spec spec;
    parse(&spec, wide_net, shape, CLASSES);
    assert_null(strstr(name_of(&spec, kernels_best()), "threads"));
    if (sysconf(_SC_NPROCESSORS_ONLN) < 2) skip(); // OpenBLAS never takes more threads than there are cores
    setenv("OPENBLAS_NUM_THREADS", "2", 1);
    bool respected = ends_with(name_of(&spec, kernels_best()), ", 2 threads");
    unsetenv("OPENBLAS_NUM_THREADS");
    assert_true(respected);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear_agrees_with_the_reference_for_any_number_of_samples),
        cmocka_unit_test(nets_train_through_openblas_as_without_and_every_time_to_the_same_bits),
        cmocka_unit_test(shapes_alone_choose_openblas),
        cmocka_unit_test(openblas_runs_on_the_instruction_set_of_the_ops_unless_the_user_says_otherwise),
        cmocka_unit_test(openblas_has_one_thread_unless_the_user_says_otherwise),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}

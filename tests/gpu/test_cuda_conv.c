// The convolution's CUDA twins against the CPU's op, model by model: models of different counts side by side, idle ones
// among them, parameters that lie anywhere. Shapes are odd on purpose: they do not divide the tiles.
#include <stdio.h>

#include "gpu.h"
#include "gpu_tensor.h"
#include "nn/cuda/cuda_kernels.h"
#include "nn/kernels.h"
#include "nn/kernels/conv_index.h"
#include "tests/tensor.h"

enum { MODELS_MOST = CONV_FEW_BLOCKS, UNALIGNED = 4 /* bytes */ };

typedef struct ConvCase {
    const char *name;
    Shape in;
    int channels, kernel, pad, models, samples;
    uint32_t counts[MODELS_MOST];
} ConvCase;

static Layer conv_layer(const ConvCase *of) {
    Shape in = of->in;
    Shape out = {of->channels, in.rows + 2 * of->pad - of->kernel + 1, in.columns + 2 * of->pad - of->kernel + 1};
    return (Layer){.kind = LAYER_CONV, .in = in, .out = out, .kernel = of->kernel, .pad = of->pad};
}

// Floats of one model's tensors. stride: from one model's weight, followed by its bias, to the next one's.
typedef struct ConvFloats {
    size_t in, out, weight, stride;
} ConvFloats;

static ConvFloats conv_floats_of(const Layer *layer, int samples) {
    size_t n = (size_t)samples, area = (size_t)layer->kernel * (size_t)layer->kernel;
    size_t weight = (size_t)layer->out.channels * (size_t)layer->in.channels * area;
    return (ConvFloats){shape_size(layer->in) * n, shape_size(layer->out) * n, weight,
                        weight + (size_t)layer->out.channels + 5};
}

// What the CPU makes of one model.
typedef struct ConvExpected {
    Tensor out, in_gradient, gradient; // gradient: of weight and bias
} ConvExpected;

static ConvExpected conv_expected(const Layer *layer, const float *in, const float *parameters,
                                  const float *out_gradient, int count, int samples) {
    const ConvKernels *conv = &kernels_named("baseline")->conv;
    ConvSizes sizes = conv->sizes(layer);
    ConvFloats floats = conv_floats_of(layer, samples);
    ConvExpected expected = {tensor_new(floats.out), tensor_new(floats.in), tensor_zeros(floats.stride)};
    Tensor packed = tensor_new(sizes.packed), scratch = tensor_new(sizes.scratch);
    Tensor packed_gradient = tensor_zeros(sizes.gradient);
    Tensor aligned_in = tensor_new(floats.in), aligned_out_gradient = tensor_new(floats.out);
    memcpy(aligned_in.at, in, floats.in * sizeof *in);
    memcpy(aligned_out_gradient.at, out_gradient, floats.out * sizeof *out_gradient);
    conv->pack(packed.at, parameters, layer);
    conv->forward(expected.out.at, scratch.at, aligned_in.at, packed.at, parameters + floats.weight, layer, count,
                  samples);
    conv->backward(packed_gradient.at, expected.gradient.at + floats.weight, expected.in_gradient.at, false, scratch.at,
                   aligned_in.at, aligned_out_gradient.at, packed.at, layer, count, samples);
    conv->unpack(expected.gradient.at, packed_gradient.at, layer);
    const Tensor all[] = {packed, scratch, packed_gradient, aligned_in, aligned_out_gradient};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(all[i]);
    return expected;
}

static void check_floats(const char *name, const char *what, const float *actual, const float *expected, size_t count) {
    char text[160];
    snprintf(text, sizeof text, "%s: %s", name, what);
    double *wanted = doubles(expected, count);
    check_close(text, actual, wanted, count, 1e-5);
    free(wanted);
}

// The columns of samples that do not exist mean nothing, but are finite.
static void forget_padding(const char *name, float *actual, const float *expected, size_t count, int samples,
                           uint32_t real) {
    for (size_t i = 0; i < count; i++)
        if (i % (size_t)samples >= real) {
            if (!isfinite(actual[i])) fail_msg("%s: padded column %zu is not finite", name, i % (size_t)samples);
            actual[i] = expected[i];
        }
}

// Everything of one case on host and GPU. Parameters and their gradients: (models strided), from 4 bytes off.
typedef struct ConvRun {
    Layer layer;
    ConvFloats floats;
    Tensor in, out_gradient, parameters, out, in_gradient, gradient;
    GpuTensor gpu_in, gpu_out_gradient, gpu_parameters, gpu_out, gpu_in_gradient, gpu_gradient, gpu_scratch, counts;
} ConvRun;

static ConvRun conv_run(const ConvCase *of) {
    ConvRun run = {.layer = conv_layer(of)};
    size_t models = (size_t)of->models;
    run.floats = conv_floats_of(&run.layer, of->samples);
    run.in = tensor_random(models * run.floats.in, 1);
    run.out_gradient = tensor_random(models * run.floats.out, 2);
    run.parameters = tensor_random(models * run.floats.stride, 3);
    run.out = tensor_new(run.out_gradient.count);
    run.in_gradient = tensor_new(run.in.count);
    run.gradient = tensor_new(run.parameters.count);
    for (size_t i = 0; i < run.out_gradient.count; i++) // as the loss leaves it
        if (i % (size_t)of->samples >= of->counts[i / run.floats.out]) run.out_gradient.at[i] = 0;
    size_t scratch = cuda_conv_scratch_floats(&run.layer, of->models, of->samples);
    run.gpu_in = gpu_copy(run.in.at, run.in.count * sizeof(float), 0);
    run.gpu_out_gradient = gpu_copy(run.out_gradient.at, run.out_gradient.count * sizeof(float), 0);
    run.gpu_parameters = gpu_copy(run.parameters.at, run.parameters.count * sizeof(float), UNALIGNED);
    run.gpu_out = gpu_new(run.out.count * sizeof(float), 0);
    run.gpu_in_gradient = gpu_new(run.in_gradient.count * sizeof(float), 0);
    run.gpu_gradient = gpu_new(run.gradient.count * sizeof(float), UNALIGNED);
    run.gpu_scratch = gpu_new(scratch * sizeof(float), 0);
    run.counts = gpu_copy(of->counts, models * sizeof *of->counts, 0);
    return run;
}

static void conv_run_free(ConvRun *run) {
    const Tensor host[] = {run->in, run->out_gradient, run->parameters, run->out, run->in_gradient, run->gradient};
    const GpuTensor gpu[] = {run->gpu_in,          run->gpu_out_gradient, run->gpu_parameters, run->gpu_out,
                             run->gpu_in_gradient, run->gpu_gradient,     run->gpu_scratch,    run->counts};
    for (size_t i = 0; i < sizeof host / sizeof *host; i++)
        tensor_free(host[i]);
    for (size_t i = 0; i < sizeof gpu / sizeof *gpu; i++)
        gpu_free(gpu[i]);
}

static void compute(ConvRun *run, const ConvCase *of) {
    CudaStep step = {of->models, of->samples, (const uint32_t *)(void *)run->counts.at, NULL};
    const float *parameters = gpu_floats(run->gpu_parameters);
    float *gradient = gpu_floats(run->gpu_gradient);
    cuda_conv_forward(gpu_floats(run->gpu_out), gpu_floats(run->gpu_in), parameters, parameters + run->floats.weight,
                      run->floats.stride, &run->layer, &step);
    cuda_conv_backward_input(gpu_floats(run->gpu_in_gradient), false, gpu_floats(run->gpu_out_gradient), parameters,
                             run->floats.stride, &run->layer, &step);
    cuda_conv_backward_weight(gradient, gradient + run->floats.weight, gpu_floats(run->gpu_scratch),
                              gpu_floats(run->gpu_in), gpu_floats(run->gpu_out_gradient), run->floats.stride,
                              &run->layer, &step);
    check_cuda(cudaGetLastError());
    gpu_read(run->out.at, run->gpu_out);
    gpu_read(run->in_gradient.at, run->gpu_in_gradient);
    gpu_read(run->gradient.at, run->gpu_gradient);
}

// The blocks of an idle model end at once, so that its tensors are as they began.
static void check_idle(const ConvCase *of, const float *values, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!isnan(values[i])) fail_msg("%s: an idle model was computed", of->name);
}

static void check_model(ConvRun *run, const ConvCase *of, size_t m) {
    ConvFloats floats = run->floats;
    uint32_t count = of->counts[m];
    if (count == 0) {
        check_idle(of, run->out.at + m * floats.out, floats.out);
        check_idle(of, run->in_gradient.at + m * floats.in, floats.in);
        check_idle(of, run->gradient.at + m * floats.stride, floats.stride);
        return;
    }
    ConvExpected expected =
        conv_expected(&run->layer, run->in.at + m * floats.in, run->parameters.at + m * floats.stride,
                      run->out_gradient.at + m * floats.out, (int)count, of->samples);
    float *out = run->out.at + m * floats.out, *gradient = run->gradient.at + m * floats.stride;
    forget_padding(of->name, out, expected.out.at, floats.out, of->samples, count);
    check_floats(of->name, "out", out, expected.out.at, floats.out);
    check_floats(of->name, "in_gradient", run->in_gradient.at + m * floats.in, expected.in_gradient.at, floats.in);
    size_t written = floats.weight + (size_t)run->layer.out.channels;
    check_floats(of->name, "weight and bias gradient", gradient, expected.gradient.at, written);
    for (size_t i = written; i < floats.stride; i++)
        if (!isnan(gradient[i])) fail_msg("%s: written between two models' gradients", of->name);
    tensor_free(expected.out);
    tensor_free(expected.in_gradient);
    tensor_free(expected.gradient);
}

static void check_models(ConvRun *run, const ConvCase *of) {
    for (size_t m = 0; m < (size_t)of->models; m++)
        check_model(run, of, m);
}

static void check_conv(const ConvCase *of) {
    ConvRun run = conv_run(of);
    compute(&run, of);
    check_models(&run, of);
    conv_run_free(&run);
}

// A second time over the first results, too: the same bits.
static void check_conv_twice(const ConvCase *of) {
    ConvRun run = conv_run(of);
    compute(&run, of);
    Tensor once[] = {tensor_new(run.out.count), tensor_new(run.in_gradient.count), tensor_new(run.gradient.count)};
    const Tensor twice[] = {run.out, run.in_gradient, run.gradient};
    for (int i = 0; i < 3; i++)
        memcpy(once[i].at, twice[i].at, once[i].count * sizeof(float));
    compute(&run, of);
    for (int i = 0; i < 3; i++) {
        assert_memory_equal(once[i].at, twice[i].at, once[i].count * sizeof(float));
        tensor_free(once[i]);
    }
    check_models(&run, of);
    conv_run_free(&run);
}

static void convolutions_agree_with_the_cpu(void **state) {
    (void)state;
    const ConvCase cases[] = {
        {"lenet's first", {1, 28, 28}, 10, 5, 0, 2, 12, {10, 7}},
        {"lenet's second", {10, 12, 12}, 20, 5, 0, 2, 12, {10, 0}},
        {"padded, as cnn's", {3, 14, 14}, 32, 5, 2, 1, 12, {10}},
        {"3 channels, 3x3", {3, 32, 32}, 8, 3, 0, 1, 8, {8}},
        {"3x3, pad 1", {5, 7, 9}, 11, 3, 1, 3, 4, {1, 0, 4}},
        {"1x1", {9, 3, 5}, 18, 1, 0, 2, 8, {5, 8}},
        {"1x1 of one pixel", {2, 1, 1}, 3, 1, 0, 3, 4, {4, 3, 0}},
        {"7x7, pad 3", {2, 9, 8}, 5, 7, 3, 2, 4, {4, 2}},
        {"as large as the image", {2, 6, 6}, 13, 6, 0, 2, 8, {8, 1}},
        {"2x2", {3, 5, 6}, 4, 2, 1, 1, 4, {3}},
        {"4x4, pad 3", {2, 4, 3}, 5, 4, 3, 2, 4, {4, 4}},
        {"9x9, pad 8", {2, 5, 4}, 3, 9, 8, 1, 4, {2}},
        {"11x11", {1, 13, 12}, 2, 11, 0, 2, 4, {3, 4}},
        {"8x8, one column of output", {1, 9, 8}, 1, 8, 0, 1, 4, {4}},
        {"one row", {2, 1, 9}, 6, 3, 2, 2, 4, {4, 1}},
        {"eight models, all but one idle", {2, 6, 5}, 4, 3, 0, 8, 4, {0, 0, 0, 0, 0, 2, 0, 0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_conv(&cases[i]);
}

// So many models that a block computes eight or ten channels.
static void check_conv_of_many(ConvCase of) {
    of.models = MODELS_MOST;
    for (int m = 0; m < of.models; m++)
        of.counts[m] = (uint32_t)(m % (of.samples + 1));
    check_conv(&of);
}

static void wide_tiles_of_channels_agree_with_the_cpu(void **state) {
    (void)state;
    const ConvCase cases[] = {
        {.name = "10 of 20, 5x5", {2, 6, 6}, 20, 5, 1, .samples = 4},
        {.name = "8, 5x5", {2, 6, 6}, 8, 5, 0, .samples = 4},
        {.name = "10 of 20, 3x3", {2, 3, 9}, 20, 3, 1, .samples = 4},
        {.name = "8 of 15, 3x3", {8, 3, 5}, 15, 3, 1, .samples = 4},
        {.name = "10, 7x7", {2, 7, 8}, 10, 7, 2, .samples = 4},
        {.name = "8, 7x7", {8, 7, 8}, 8, 7, 0, .samples = 4},
        {.name = "10, 1x1", {10, 2, 3}, 10, 1, 0, .samples = 4},
        {.name = "8, 1x1", {3, 2, 5}, 8, 1, 0, .samples = 4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_conv_of_many(cases[i]);
}

// More rows of taps than a block keeps in shared memory at once, for each width of a block's channels.
static void weights_come_to_shared_memory_in_chunks(void **state) {
    (void)state;
    check_conv_of_many((ConvCase){.name = "70 > 10, 5x5", {70, 5, 5}, 10, 5, 0, .samples = 4});
    check_conv_of_many((ConvCase){.name = "150 > 8, 3x3", {150, 3, 4}, 8, 3, 0, .samples = 4});
    const ConvCase cases[] = {
        {"70 > 4, 5x5", {70, 5, 5}, 10, 5, 0, 1, 4, {4}},
        {"400 > 4, 1x1", {400, 1, 3}, 4, 1, 0, 1, 4, {4}},
        {"50 > 12, 7x7", {50, 7, 7}, 12, 7, 0, 1, 4, {4}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_conv(&cases[i]);
}

// The sums over many samples are shared among blocks, and a model's bits do not depend on the models beside it.
static void the_weight_gradient_is_the_same_whoever_sums_it(void **state) {
    (void)state;
    const ConvCase shared = {"64 samples of one model", {1, 20, 21}, 10, 5, 0, 1, 64, {61}};
    Layer layer = conv_layer(&shared);
    assert_true(cuda_conv_scratch_floats(&layer, 1, 64) > 0);
    assert_true(cuda_conv_scratch_floats(&layer, 70, 64) == 70 * cuda_conv_scratch_floats(&layer, 1, 64));
    check_conv_twice(&shared);
    check_conv_twice(&(ConvCase){"two models, shared", {3, 18, 18}, 2, 3, 1, 2, 64, {64, 13}});
    check_conv_twice(&(ConvCase){"more samples than a warp", {1, 4, 4}, 1, 3, 0, 1, 100, {97}});
}

// Alone, and as the first of so many that a launch needs no more blocks.
static void a_model_comes_to_the_same_bits_beside_any_number_of_models(void **state) {
    (void)state;
    const ConvCase cases[] = {
        {.name = "lenet's first", {1, 28, 28}, 10, 5, 0, .samples = 64},
        {.name = "3x3", {3, 16, 16}, 8, 3, 1, .samples = 12},
        {.name = "1x1", {6, 8, 8}, 16, 1, 0, .samples = 32},
        {.name = "9x9", {2, 5, 4}, 3, 9, 8, .samples = 4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ConvCase of = cases[i];
        for (int m = 0; m < MODELS_MOST; m++)
            of.counts[m] = (uint32_t)of.samples;
        of.models = 1;
        ConvRun alone = conv_run(&of);
        compute(&alone, &of);
        for (of.models = 3; of.models < 100; of.models *= 9) {
            ConvRun beside = conv_run(&of);
            compute(&beside, &of);
            assert_memory_equal(alone.out.at, beside.out.at, alone.floats.out * sizeof(float));
            assert_memory_equal(alone.in_gradient.at, beside.in_gradient.at, alone.floats.in * sizeof(float));
            assert_memory_equal(alone.gradient.at, beside.gradient.at, alone.floats.weight * sizeof(float));
            conv_run_free(&beside);
        }
        conv_run_free(&alone);
    }
}

int main(int argc, char **argv) {
    if (gpu_is_missing()) return GPU_TEST_SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions_agree_with_the_cpu),
        cmocka_unit_test(wide_tiles_of_channels_agree_with_the_cpu),
        cmocka_unit_test(weights_come_to_shared_memory_in_chunks),
        cmocka_unit_test(the_weight_gradient_is_the_same_whoever_sums_it),
        cmocka_unit_test(a_model_comes_to_the_same_bits_beside_any_number_of_models),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}

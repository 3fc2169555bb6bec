// The CUDA twins of pooling, relu, dropout and gathering against the CPU's ops, model by model.
#include "gpu.h"
#include "gpu_progress.h"
#include "gpu_tensor.h"
#include "nn/cuda/cuda_kernels.h"
#include "nn/kernels.h"
#include "tests/tensor.h"

enum { MODELS = 3 };

static const uint32_t counts[MODELS] = {3, 0, 7}, working[MODELS] = {3, 1, 7};

static const Kernels *cpu(void) {
    return kernels_named("baseline");
}

static CudaStep step_of(GpuTensor gpu_counts, int samples) {
    return (CudaStep){MODELS, samples, (const uint32_t *)(void *)gpu_counts.at, NULL};
}

static GpuTensor gpu_of(Tensor tensor) {
    return gpu_copy(tensor.at, tensor.count * sizeof(float), 0);
}

// Fails unless all bits are equal, but for NaN, of which there are many.
static void check_equal(const char *what, Tensor actual, Tensor expected) {
    for (size_t i = 0; i < actual.count; i++)
        if (actual.at[i] != expected.at[i] && !(isnan(actual.at[i]) && isnan(expected.at[i])))
            fail_msg("%s: element %zu is %.9g, expected %.9g", what, i, (double)actual.at[i], (double)expected.at[i]);
}

// Pooling -------------------------------------------------------------------------------------------------------------

typedef struct PoolCase {
    Shape in;
    int size, samples;
    bool relu, ties, overwrite; // overwrite: the gradient replaces the input
} PoolCase;

// Of all models at once: to the CPU they are one net with more channels.
static void pool_expected(Tensor out, Tensor gradient, Tensor values, Tensor out_gradient, const Layer *layer,
                          const PoolCase *of) {
    Layer all = *layer;
    all.in.channels *= MODELS;
    all.out.channels *= MODELS;
    cpu()->pool_forward(out.at, values.at, &all, of->samples);
    if (of->relu) {
        cpu()->relu_forward(out.at, MODELS * shape_size(layer->out), of->samples);
        cpu()->relu_backward(out_gradient.at, out.at, MODELS * shape_size(layer->out), of->samples);
    }
    cpu()->pool_backward(gradient.at, values.at, out_gradient.at, &all, of->samples);
}

static void check_pool(const PoolCase *of) {
    Shape in = of->in;
    Layer layer = {.kind = LAYER_POOL,
                   .in = in,
                   .out = {in.channels, in.rows / of->size, in.columns / of->size},
                   .kernel = of->size};
    size_t n = (size_t)of->samples;
    Tensor values = tensor_random(MODELS * shape_size(in) * n, 1), gradient = tensor_new(values.count);
    Tensor out_gradient = tensor_random(MODELS * shape_size(layer.out) * n, 2), out = tensor_new(out_gradient.count);
    for (size_t i = 0; of->ties && i < values.count; i++)
        values.at[i] = roundf(2 * values.at[i]) / 2;
    values.at[0] = NAN;
    GpuTensor gpu_counts = gpu_copy(working, sizeof working, 0), gpu_values = gpu_of(values);
    GpuTensor gpu_out_gradient = gpu_of(out_gradient), gpu_out = gpu_new(out.count * sizeof(float), 0);
    GpuTensor gpu_gradient = gpu_new(values.count * sizeof(float), 0);
    GpuTensor target = of->overwrite ? gpu_values : gpu_gradient;
    CudaStep step = step_of(gpu_counts, of->samples);
    cuda_pool_forward(gpu_floats(gpu_out), gpu_floats(gpu_values), of->relu, &layer, &step);
    cuda_pool_backward(gpu_floats(target), gpu_floats(gpu_values), gpu_floats(gpu_out_gradient), of->relu, &layer,
                       &step);
    check_cuda(cudaGetLastError());

    Tensor actual_out = tensor_new(out.count), actual_gradient = tensor_new(values.count);
    gpu_read(actual_out.at, gpu_out);
    gpu_read(actual_gradient.at, target);
    pool_expected(out, gradient, values, out_gradient, &layer, of);
    check_equal("pool forward", actual_out, out);
    check_equal("pool backward", actual_gradient, gradient);
    const Tensor host[] = {values, gradient, out_gradient, out, actual_out, actual_gradient};
    const GpuTensor gpu[] = {gpu_counts, gpu_values, gpu_out_gradient, gpu_out, gpu_gradient};
    for (size_t i = 0; i < sizeof host / sizeof *host; i++)
        tensor_free(host[i]);
    for (size_t i = 0; i < sizeof gpu / sizeof *gpu; i++)
        gpu_free(gpu[i]);
}

static void pooling_and_its_fused_relu_agree_with_the_cpu(void **state) {
    (void)state;
    const struct {
        Shape in;
        int size, samples;
    } shapes[] = {{{3, 8, 6}, 2, 12}, {{2, 7, 5}, 2, 4},    {{2, 11, 10}, 3, 8}, {{2, 3, 4}, 1, 4},
                  {{1, 1, 1}, 1, 4},  {{4, 28, 28}, 2, 20}, {{2, 5, 9}, 5, 4},   {{1, 3, 3}, 2, 100}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int bits = 0; bits < 8; bits++)
            check_pool(&(PoolCase){shapes[i].in, shapes[i].size, shapes[i].samples, bits & 1, bits & 2, bits & 4});
}

// A grid's second and third dimensions end at 65,535 blocks.
static void more_models_than_a_grid_has_rows_are_pooled(void **state) {
    (void)state;
    enum { MANY = 66000, SAMPLES = 4, PLANE = 4 * SAMPLES };
    const Layer layer = {.kind = LAYER_POOL, .in = {1, 2, 2}, .out = {1, 1, 1}, .kernel = 2};
    Tensor values = tensor_random(MANY * PLANE, 1), out = tensor_new(MANY * SAMPLES);
    GpuTensor gpu_values = gpu_of(values), gpu_out = gpu_new(out.count * sizeof(float), 0);
    static uint32_t ones[MANY];
    for (size_t m = 0; m < MANY; m++)
        ones[m] = 1;
    GpuTensor gpu_counts = gpu_copy(ones, sizeof ones, 0);
    CudaStep step = {MANY, SAMPLES, gpu_at(gpu_counts), NULL};
    cuda_pool_forward(gpu_floats(gpu_out), gpu_floats(gpu_values), false, &layer, &step);
    gpu_read(out.at, gpu_out);
    for (size_t i = 0; i < out.count; i++) {
        const float *window = values.at + i / SAMPLES * PLANE + i % SAMPLES;
        float above = fmaxf(window[0], window[SAMPLES]), below = fmaxf(window[2 * SAMPLES], window[3 * SAMPLES]);
        if (out.at[i] != fmaxf(above, below)) fail_msg("the maximum of window %zu is wrong", i);
    }
    tensor_free(values);
    tensor_free(out);
    gpu_free(gpu_values);
    gpu_free(gpu_out);
    gpu_free(gpu_counts);
}

// Relu ----------------------------------------------------------------------------------------------------------------

static void relu_agrees_with_the_cpu_and_keeps_a_nan(void **state) {
    (void)state;
    enum { FEATURES = 37, SAMPLES = 12 };
    Tensor values = tensor_random(MODELS * FEATURES * SAMPLES, 1), out_gradient = tensor_random(values.count, 2);
    values.at[3] = 0;
    values.at[4] = NAN;
    GpuTensor gpu_counts = gpu_copy(working, sizeof working, 0), gpu_values = gpu_of(values);
    GpuTensor gpu_out_gradient = gpu_of(out_gradient);
    CudaStep step = step_of(gpu_counts, SAMPLES);
    cuda_relu_forward(gpu_floats(gpu_values), FEATURES, &step);
    cuda_relu_backward(gpu_floats(gpu_out_gradient), gpu_floats(gpu_values), FEATURES, &step);
    cpu()->relu_forward(values.at, MODELS * FEATURES, SAMPLES);
    cpu()->relu_backward(out_gradient.at, values.at, MODELS * FEATURES, SAMPLES);
    Tensor actual = tensor_new(values.count);
    gpu_read(actual.at, gpu_values);
    assert_true(isnan(actual.at[4]));
    check_equal("relu forward", actual, values);
    gpu_read(actual.at, gpu_out_gradient);
    check_equal("relu backward", actual, out_gradient);
    tensor_free(values);
    tensor_free(out_gradient);
    tensor_free(actual);
    gpu_free(gpu_counts);
    gpu_free(gpu_values);
    gpu_free(gpu_out_gradient);
}

// Dropout -------------------------------------------------------------------------------------------------------------

static void check_dropout(size_t features, size_t plane, int samples, float rate) {
    size_t n = (size_t)samples, bytes = MODELS * features * n;
    RngKey keys[MODELS];
    const uint32_t numbers[MODELS] = {9, 0, 4000000000u};
    for (uint32_t m = 0; m < MODELS; m++)
        keys[m] = rng_key(5, RNG_DROPOUT, 6, m, 8);
    Tensor values = tensor_random(features * plane * n * MODELS, 3), masks = tensor_new(bytes / sizeof(float));
    GpuTensor gpu_counts = gpu_copy(working, sizeof working, 0), gpu_values = gpu_of(values);
    GpuTensor gpu_keys = gpu_copy(keys, sizeof keys, 0), gpu_numbers = gpu_copy(numbers, sizeof numbers, 0);
    GpuTensor gpu_keep = gpu_new(bytes, 0);
    CudaStep step = step_of(gpu_counts, samples);
    int8_t *keep = (int8_t *)gpu_keep.at;
    cuda_dropout_forward(gpu_floats(gpu_values), keep, gpu_floats(gpu_values), (const RngKey *)(void *)gpu_keys.at,
                         (const uint32_t *)(void *)gpu_numbers.at, rate, features, plane, &step);
    check_cuda(cudaGetLastError());

    int8_t *mask = (int8_t *)masks.at, *actual_mask = malloc(bytes);
    assert_non_null(actual_mask);
    for (size_t m = 0; m < MODELS; m++)
        cpu()->dropout_draw(mask + m * features * n, &(DropoutNoise){keys[m], 0, numbers[m], rate}, features, samples);
    cpu()->dropout_apply(values.at, mask, rate, MODELS * features, plane, samples);
    Tensor actual = tensor_new(values.count);
    gpu_read(actual_mask, gpu_keep);
    gpu_read(actual.at, gpu_values);
    assert_memory_equal(actual_mask, mask, bytes);
    check_equal("dropout", actual, values);
    free(actual_mask);
    const Tensor host[] = {values, masks, actual};
    const GpuTensor gpu[] = {gpu_counts, gpu_values, gpu_keys, gpu_numbers, gpu_keep};
    for (size_t i = 0; i < sizeof host / sizeof *host; i++)
        tensor_free(host[i]);
    for (size_t i = 0; i < sizeof gpu / sizeof *gpu; i++)
        gpu_free(gpu[i]);
}

static void dropout_draws_the_bits_of_the_cpu(void **state) {
    (void)state;
    check_dropout(11, 3, 8, 0.3f);
    check_dropout(20, 16, 12, 0.5f);
    check_dropout(50, 1, 20, 0.5f);
    check_dropout(1, 1, 4, 0.9f);
    check_dropout(321, 1, 4, 0);
    const float drawn = rng_float(rng_block(rng_key(5, RNG_DROPOUT, 6, 0, 8), 0, 0, 9, 0).word[0]);
    check_dropout(11, 3, 8, drawn); // what is as large as the rate is kept
}

// Gathering -----------------------------------------------------------------------------------------------------------

typedef struct GatherCase {
    Shape shape;
    int samples;
    size_t offset; // of the pixels, in bytes
    bool indexed;
} GatherCase;

static void check_gather(const GatherCase *of) {
    enum { ROWS = 40 };
    static const uint32_t firsts[MODELS] = {5, 1000000, 21}; // an idle model's first sample need not exist
    const float scale[3] = {0.5f, 0.25f, 2}, shift[3] = {-1, 0.5f, 3};
    size_t size = shape_size(of->shape), n = (size_t)of->samples;
    uint32_t indices[ROWS];
    uint8_t *pixels = malloc(ROWS * size);
    assert_non_null(pixels);
    for (uint32_t i = 0; i < ROWS * size; i++)
        pixels[i] = (uint8_t)rng_block((RngKey){{1, 2}}, i, 0, 0, 0).word[0];
    for (uint32_t i = 0; i < ROWS; i++)
        indices[i] = (i * 17 + 3) % ROWS;
    GpuTensor gpu_counts = gpu_copy(counts, sizeof counts, 0);
    GpuProgress progress = gpu_progress(firsts, counts, MODELS, (uint32_t)of->samples);
    GpuTensor gpu_pixels = gpu_copy(pixels, ROWS * size, of->offset),
              gpu_indices = gpu_copy(indices, sizeof indices, 0);
    GpuTensor gpu_scale = gpu_copy(scale, sizeof scale, 0), gpu_shift = gpu_copy(shift, sizeof shift, 0);
    Tensor expected = tensor_new(MODELS * size * n), actual = tensor_new(expected.count);
    GpuTensor gpu_out = gpu_new(expected.count * sizeof(float), 0);
    CudaStep step = step_of(gpu_counts, of->samples);
    cuda_gather(gpu_floats(gpu_out), gpu_pixels.at, of->indexed ? (const uint32_t *)(void *)gpu_indices.at : NULL,
                &progress.on_gpu, gpu_floats(gpu_scale), gpu_floats(gpu_shift), of->shape, NULL, &step);
    check_cuda(cudaGetLastError());
    gpu_read(actual.at, gpu_out);
    for (size_t m = 0; m < MODELS; m++)
        if (counts[m] > 0) // an idle model's tensor stays as it began, of NaNs
            cpu()->gather(expected.at + m * size * n, pixels, of->indexed ? indices + firsts[m] : NULL, firsts[m],
                          scale, shift, of->shape, (int)counts[m], of->samples);
    check_equal("gather", actual, expected);
    free(pixels);
    tensor_free(expected);
    tensor_free(actual);
    gpu_progress_free(&progress);
    const GpuTensor gpu[] = {gpu_counts, gpu_pixels, gpu_indices, gpu_scale, gpu_shift, gpu_out};
    for (size_t i = 0; i < sizeof gpu / sizeof *gpu; i++)
        gpu_free(gpu[i]);
}

static void gathering_agrees_with_the_cpu(void **state) {
    (void)state;
    const Shape shapes[] = {{1, 28, 28}, {3, 32, 32}, {3, 5, 3}, {1, 1, 1}, {2, 3, 4}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int indexed = 0; indexed < 2; indexed++)
            for (size_t offset = 0; offset < 5; offset += 1 + offset * 2)
                check_gather(&(GatherCase){shapes[i], 8, offset, indexed});
    check_gather(&(GatherCase){{1, 28, 28}, 64, 0, true});
}

// The images that the CPU makes are those that the GPU gathers: bit for bit, by (client, step, place).
static void crops_and_flips_are_those_of_the_cpu(void **state) {
    (void)state;
    enum { ROWS = 40, N = 8 };
    static const Shape shapes[] = {{1, 28, 28}, {3, 5, 3}, {2, 3, 4}};
    static const uint32_t firsts[MODELS] = {5, 1000000, 21}, numbers[MODELS] = {7, 8, 9};
    const float scale[3] = {0.5f, 0.25f, 2}, shift[3] = {-1, 0.5f, 3};
    const Augment augments[] = {{2, true}, {1, false}, {0, true}};
    RngKey keys[MODELS];
    uint32_t indices[ROWS];
    for (uint32_t m = 0; m < MODELS; m++)
        keys[m] = augment_key(11, 3, 100 + m);
    for (uint32_t i = 0; i < ROWS; i++)
        indices[i] = (i * 17 + 3) % ROWS;
    GpuTensor gpu_keys = gpu_copy(keys, sizeof keys, 0), gpu_indices = gpu_copy(indices, sizeof indices, 0);
    GpuTensor gpu_scale = gpu_copy(scale, sizeof scale, 0), gpu_shift = gpu_copy(shift, sizeof shift, 0);
    GpuTensor gpu_counts = gpu_copy(counts, sizeof counts, 0);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const size_t size = shape_size(shapes[i]);
        uint8_t *pixels = malloc(2 * ROWS * size), *images = pixels + ROWS * size;
        assert_non_null(pixels);
        for (uint32_t p = 0; p < ROWS * size; p++)
            pixels[p] = (uint8_t)rng_block((RngKey){{1, 2}}, p, 0, 0, 0).word[0];
        GpuTensor gpu_pixels = gpu_copy(pixels, ROWS * size, 0);
        GpuProgress progress = gpu_progress(firsts, counts, MODELS, N);
        progress.on_gpu.keys = (RngKey *)(void *)gpu_keys.at;
        check_cuda(cudaMemcpy(progress.on_gpu.next_numbers, numbers, sizeof numbers, cudaMemcpyHostToDevice));
        Tensor expected = tensor_new(MODELS * size * N), actual = tensor_new(expected.count);
        GpuTensor gpu_out = gpu_new(expected.count * sizeof(float), 0);
        CudaStep step = step_of(gpu_counts, N);
        cuda_gather(gpu_floats(gpu_out), gpu_pixels.at, (const uint32_t *)(void *)gpu_indices.at, &progress.on_gpu,
                    gpu_floats(gpu_scale), gpu_floats(gpu_shift), shapes[i], &augments[i], &step);
        check_cuda(cudaGetLastError());
        gpu_read(actual.at, gpu_out);
        for (uint32_t m = 0; m < MODELS; m++) {
            const Noise noise = {.seed = 11, .round = 3, .client = 100 + m, .step = numbers[m]};
            if (counts[m] == 0) continue;
            augment_images(images, pixels, indices + firsts[m], 0, &augments[i], shapes[i], &noise, 0, (int)counts[m]);
            cpu()->gather(expected.at + m * size * N, images, NULL, 0, scale, shift, shapes[i], (int)counts[m], N);
        }
        check_equal("crops and flips", actual, expected);
        free(pixels);
        tensor_free(expected);
        tensor_free(actual);
        gpu_progress_free(&progress);
        gpu_free(gpu_out);
        gpu_free(gpu_pixels);
    }
    const GpuTensor gpu[] = {gpu_keys, gpu_indices, gpu_scale, gpu_shift, gpu_counts};
    for (size_t i = 0; i < sizeof gpu / sizeof *gpu; i++)
        gpu_free(gpu[i]);
}

// One step after the other: each begins where the former ended, and the last batch is what is left.
static void a_step_begins_where_the_former_ended(void **state) {
    (void)state;
    enum { BATCH = 8 };
    static const uint32_t firsts[MODELS] = {3, 7, 11}, tasks[MODELS] = {19, 0, 8};
    static const uint8_t pixels[40] = {0};
    static const uint16_t labels[40] = {0};
    const float scale = 1, shift = 0;
    GpuProgress progress = gpu_progress(firsts, tasks, MODELS, BATCH);
    GpuTensor gpu[] = {gpu_copy(pixels, sizeof pixels, 0), gpu_copy(labels, sizeof labels, 0),
                       gpu_copy(&scale, sizeof scale, 0), gpu_copy(&shift, sizeof shift, 0),
                       gpu_new(MODELS * BATCH * sizeof(float), 0)};
    const CudaStep step = {.models = MODELS, .samples = BATCH, .counts = progress.on_gpu.counts};
    for (uint32_t number = 0; number < 4; number++) {
        uint32_t begun[MODELS], count[MODELS], numbers[MODELS];
        cuda_gather(gpu_floats(gpu[4]), gpu_at(gpu[0]), NULL, &progress.on_gpu, gpu_floats(gpu[2]), gpu_floats(gpu[3]),
                    (Shape){1, 1, 1}, NULL, &step);
        gpu_progress_read(begun, &progress, progress.on_gpu.firsts);
        gpu_progress_read(count, &progress, progress.on_gpu.counts);
        gpu_progress_read(numbers, &progress, progress.on_gpu.numbers);
        for (size_t m = 0; m < MODELS; m++) {
            uint32_t done = number * BATCH < tasks[m] ? number * BATCH : tasks[m], left = tasks[m] - done;
            uint32_t steps = (done + BATCH - 1) / BATCH; // an idle model makes none
            assert_int_equal(begun[m], firsts[m] + done);
            assert_int_equal(count[m], left < BATCH ? left : BATCH);
            assert_int_equal(numbers[m], steps);
        }
        cuda_softmax_cross_entropy(NULL, &progress.on_gpu, gpu_floats(gpu[4]), gpu_at(gpu[1]), NULL, NULL, 0, 1, &step);
        check_cuda(cudaGetLastError());
    }
    for (size_t i = 0; i < sizeof gpu / sizeof *gpu; i++)
        gpu_free(gpu[i]);
    gpu_progress_free(&progress);
}

int main(int argc, char **argv) {
    if (gpu_is_missing()) return GPU_TEST_SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pooling_and_its_fused_relu_agree_with_the_cpu),
        cmocka_unit_test(more_models_than_a_grid_has_rows_are_pooled),
        cmocka_unit_test(relu_agrees_with_the_cpu_and_keeps_a_nan),
        cmocka_unit_test(dropout_draws_the_bits_of_the_cpu),
        cmocka_unit_test(gathering_agrees_with_the_cpu),
        cmocka_unit_test(crops_and_flips_are_those_of_the_cpu),
        cmocka_unit_test(a_step_begins_where_the_former_ended),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}

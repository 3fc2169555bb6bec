// What stands around the layers on both sides: gathered samples, losses, wide layers, steps.
#include "gpu.h"
#include "gpu_progress.h"
#include "gpu_trial.h"
#include "nn/cuda/cuda_blas.h"
#include "twins.h"

static const Layer linears[] = {
    {.kind = LAYER_LINEAR, .in = {5, 3, 3}, .out = {13, 1, 1}, .weight = 0, .bias = 585},
    {.kind = LAYER_LINEAR, .in = {70, 1, 1}, .out = {34, 1, 1}, .weight = 0, .bias = 2380},
    {.kind = LAYER_LINEAR, .in = {1, 1, 1}, .out = {1, 1, 1}, .weight = 0, .bias = 1},
};

// The data set of gather and the loss: rows of pixels, and an order to take them in.
enum { ROWS = 150, PIXELS = 45 };

static void rows_of(const Trial *trial, uint32_t *indices, uint32_t *firsts) {
    for (uint32_t i = 0; i < ROWS; i++)
        indices[i] = i * 37 % ROWS;
    for (int m = 0; m < trial->models; m++)
        firsts[m] = (uint32_t)(m * 11);
}

static GpuProgress progress_of(const Trial *trial, const uint32_t *firsts) {
    return gpu_progress(firsts, trial->counts, (size_t)trial->models, (uint32_t)trial->samples);
}

static void check_gather(const Trial *trial) {
    const Shape shape = {3, 5, 3};
    const float scale[] = {0.5f, 1, 2}, shift[] = {-1, 3, 0.25f};
    uint8_t pixels[ROWS * PIXELS];
    uint32_t indices[ROWS], firsts[MOST_MODELS];
    rows_of(trial, indices, firsts);
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i * 37);
    GpuTensor gpu[] = {gpu_copy(pixels, sizeof pixels, 0), gpu_copy(indices, sizeof indices, 0),
                       gpu_copy(scale, sizeof scale, 0), gpu_copy(shift, sizeof shift, 0)};
    GpuProgress progress = progress_of(trial, firsts);
    for (int indexed = 0; indexed < 2; indexed++) {
        Values out = values_of(trial, (size_t)PIXELS * (size_t)trial->samples, 0);
        cuda_gather(on_gpu(&out), gpu_at(gpu[0]), indexed ? gpu_at(gpu[1]) : NULL, &progress.on_gpu, gpu_at(gpu[2]),
                    gpu_at(gpu[3]), shape, NULL, &trial->step);
        for (int m = 0; m < trial->models; m++)
            trial->cpu->gather(out.host[m].at, pixels, indexed ? indices + firsts[m] : NULL, firsts[m], scale, shift,
                               shape, (int)trial->counts[m], trial->samples);
        compare("gather", &out, NULL, 1, 1e-7);
        drop(&out);
    }
    gpu_progress_free(&progress);
    for (size_t i = 0; i < LENGTH(gpu); i++)
        gpu_free(gpu[i]);
}

// What the CPU gathers as rows for a first linear layer, the GPU gathers as lanes.
static void check_gather_rows(const Trial *trial) {
    enum { ROW_FLOATS = (PIXELS + 15) / 16 * 16 };
    const float scale = 0.5f, shift = -1;
    uint8_t pixels[ROWS * PIXELS];
    uint32_t indices[ROWS], firsts[MOST_MODELS];
    rows_of(trial, indices, firsts);
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i * 41);
    GpuTensor gpu[] = {gpu_copy(pixels, sizeof pixels, 0), gpu_copy(indices, sizeof indices, 0),
                       gpu_copy(&scale, sizeof scale, 0), gpu_copy(&shift, sizeof shift, 0)};
    GpuProgress progress = progress_of(trial, firsts);
    Values out = values_of(trial, (size_t)PIXELS * (size_t)trial->samples, 0);
    const Shape shape = {1, PIXELS, 1};
    cuda_gather(on_gpu(&out), gpu_at(gpu[0]), gpu_at(gpu[1]), &progress.on_gpu, gpu_at(gpu[2]), gpu_at(gpu[3]), shape,
                NULL, &trial->step);
    for (int m = 0; m < trial->models; m++) {
        Tensor rows = tensor_new(trial->counts[m] * ROW_FLOATS);
        trial->cpu->gather_rows(rows.at, pixels, indices + firsts[m], 0, &scale, &shift, shape, ROW_FLOATS,
                                (int)trial->counts[m]);
        for (size_t i = 0; i < out.each; i++) {
            size_t s = i % (size_t)trial->samples, p = i / (size_t)trial->samples;
            out.host[m].at[i] = s < trial->counts[m] ? rows.at[s * ROW_FLOATS + p] : 0;
        }
        tensor_free(rows);
    }
    compare("gather rows", &out, NULL, 1, 1e-7);
    drop(&out);
    gpu_progress_free(&progress);
    for (size_t i = 0; i < LENGTH(gpu); i++)
        gpu_free(gpu[i]);
}

// The reference's gradient with weights of classes is the one without them, weighted.
static void weigh(float *gradient, const float *class_weights, const uint16_t *labels, int classes, int count,
                  int samples) {
    for (int k = 0; k < classes; k++)
        for (int s = 0; s < count; s++)
            gradient[k * samples + s] *= class_weights[labels[s]];
}

static void check_loss_of(const Trial *trial, int classes, float spread, float smoothing, bool indexed, bool weighted) {
    uint16_t labels[ROWS];
    uint32_t indices[ROWS], firsts[MOST_MODELS], hits[MOST_MODELS];
    double losses[MOST_MODELS];
    rows_of(trial, indices, firsts);
    for (int i = 0; i < ROWS; i++)
        labels[i] = (uint16_t)(i * 5 % classes);
    Values logits = lanes(trial, (size_t)classes, 9), gradient = values_of(trial, logits.each, 0);
    for (int m = 0; m < trial->models; m++)
        for (size_t i = 0; i < logits.each; i++)
            logits.host[m].at[i] *= spread;
    upload(&logits);
    const Tensor class_weights = tensor_random((size_t)classes, 3);
    for (int k = 0; k < classes; k++)
        class_weights.at[k] = weighted ? 1.5f + class_weights.at[k] : 1;
    GpuTensor gpu[] = {gpu_copy(labels, sizeof labels, 0), gpu_copy(indices, sizeof indices, 0),
                       gpu_copy(class_weights.at, (size_t)classes * sizeof(float), 0)};
    GpuProgress progress = progress_of(trial, firsts);
    for (int twice = 0; twice < 2; twice++) // sums are added to; hits are counted without a gradient
        cuda_softmax_cross_entropy(twice ? on_gpu(&gradient) : NULL, &progress.on_gpu, on_gpu(&logits), gpu_at(gpu[0]),
                                   indexed ? gpu_at(gpu[1]) : NULL, weighted ? gpu_at(gpu[2]) : NULL, smoothing,
                                   classes, &trial->step);
    gpu_read(losses, progress.losses);
    gpu_progress_read(hits, &progress, progress.on_gpu.hits);
    for (int m = 0; m < trial->models; m++) {
        uint32_t count = trial->counts[m], right;
        uint16_t chosen[ROWS];
        float sum = 0;
        for (uint32_t s = 0; s < count; s++) {
            chosen[s] = labels[indexed ? indices[firsts[m] + s] : firsts[m] + s];
            sum += class_weights.at[chosen[s]];
        }
        double loss =
            trial->cpu->softmax_cross_entropy(gradient.host[m].at, &right, logits.host[m].at, chosen,
                                              count ? 1 / sum : 1, smoothing, classes, (int)count, trial->samples);
        weigh(gradient.host[m].at, class_weights.at, chosen, classes, (int)count, trial->samples);
        assert_int_equal(hits[m], right);
        if (!(fabs(losses[m] - 2 * loss) <= 2e-6 * (1 + fabs(loss))))
            fail_msg("loss of model %d: %.9g, expected %.9g", m, losses[m], 2 * loss);
    }
    compare("loss gradient", &gradient, NULL, 1, 1e-6);
    gpu_progress_free(&progress);
    for (size_t i = 0; i < LENGTH(gpu); i++)
        gpu_free(gpu[i]);
    tensor_free(class_weights);
    drop_all(logits, gradient);
}

static void check_loss(const Trial *trial) {
    check_loss_of(trial, 10, 5, 0.1f, true, false);
    check_loss_of(trial, 3, 90, 0, false, false); // differences beyond what e^x can represent
    check_loss_of(trial, 1, 1, 0, true, false);
    check_loss_of(trial, 100, 1, 0.3f, false, false);
    check_loss_of(trial, 7, 2, 0, true, true);
}

// after_relu: `in` is taken for a relu's output, whose backward pass is included.
static void linear_backward(const Trial *trial, const Layer *layer, CudaBlas *blas, bool after_relu, const Values *in,
                            const Values *out_gradient, const Values *weights) {
    int n = trial->samples;
    Values in_gradient = values_of(trial, in->each, 0);
    Values gradient = values_of(trial, weights->each, PARAMETER_GAP);
    in_gradient.computes_idle = gradient.computes_idle = blas;
    Tensor rows = tensor_new(linear_row_floats(layer) * (size_t)n);
    Tensor out = tensor_new(out_gradient->each), scratch = tensor_new(linear_scratch_floats(layer, n));
    for (int m = 0; m < trial->models; m++) {
        int count = (int)trial->counts[m];
        const float *weight = weights->host[m].at;
        memset(in_gradient.host[m].at, 0, in_gradient.each * sizeof(float));
        memset(gradient.host[m].at, 0, gradient.each * sizeof(float));
        if (count == 0) continue;
        trial->cpu->linear_forward(out.at, rows.at, in->host[m].at, weight, weight + layer->bias, layer, count, n);
        trial->cpu->linear_backward_input(in_gradient.host[m].at, scratch.at, out_gradient->host[m].at, weight, layer,
                                          count, n);
        if (after_relu) trial->cpu->relu_backward(in_gradient.host[m].at, in->host[m].at, shape_size(layer->in), n);
        trial->cpu->linear_backward_weight(gradient.host[m].at, NULL, rows.at, out_gradient->host[m].at,
                                           &(SgdUpdate){.keep = 0}, layer, count, n);
        trial->cpu->linear_backward_bias(gradient.host[m].at + layer->bias, NULL, out_gradient->host[m].at,
                                         &(SgdUpdate){.keep = 0}, layer, n);
    }
    cuda_linear_backward_input(on_gpu(&in_gradient), on_gpu(out_gradient), after_relu ? on_gpu(in) : NULL,
                               on_gpu(weights), weights->stride, layer, blas, &trial->step);
    cuda_linear_backward_weight(on_gpu(&gradient), on_gpu(&gradient) + layer->bias, on_gpu(in), on_gpu(out_gradient),
                                gradient.stride, layer, blas, &trial->step);
    compare("linear input", &in_gradient, NULL, 1, 1e-5);
    compare("linear weight and bias", &gradient, NULL, 1, 1e-5);
    tensor_free(rows);
    tensor_free(out);
    tensor_free(scratch);
    drop_all(in_gradient, gradient);
}

static CudaSgdUpdate sgd_update_of(const Values *weights, const Values *velocity, const GpuTensor *lr, Sgd sgd) {
    return (CudaSgdUpdate){.weights = on_gpu(weights),
                           .velocity = on_gpu(velocity),
                           .stride = weights->stride,
                           .state_stride = velocity->stride,
                           .lr = gpu_at(*lr),
                           .sgd = sgd};
}

// Gradient and step in one pass: to the CPU's weights and velocity.
static void linear_step(const Trial *trial, const Layer *layer, const Values *in, const Values *out_gradient, Sgd sgd) {
    int n = trial->samples;
    Values weights = parameters(trial, parameters_of(layer), 12);
    Values velocity = random_values(trial, weights.each, 0, 16);
    GpuTensor lr = gpu_copy(&sgd.lr, sizeof sgd.lr, 0);
    const CudaSgdUpdate descent = sgd_update_of(&weights, &velocity, &lr, sgd);
    Tensor rows = tensor_new(linear_row_floats(layer) * (size_t)n), out = tensor_new(out_gradient->each);
    const SgdUpdate on_cpu = {.keep = sgd.momentum, .lr = sgd.lr, .weight_decay = sgd.weight_decay};
    cuda_linear_step(&descent, &(CudaLinear){layer, on_gpu(in), on_gpu(out_gradient)}, 1, &trial->step);
    for (int m = 0; m < trial->models; m++) {
        float *weight = weights.host[m].at, *speed = velocity.host[m].at;
        Tensor scratch = tensor_new(velocity.each);
        int count = (int)trial->counts[m];
        memcpy(scratch.at, speed, velocity.each * sizeof *speed);
        if (count > 0) {
            trial->cpu->linear_forward(out.at, rows.at, in->host[m].at, weight, weight + layer->bias, layer, count, n);
            trial->cpu->linear_backward_weight(scratch.at, weight, rows.at, out_gradient->host[m].at, &on_cpu, layer,
                                               count, n);
            trial->cpu->linear_backward_bias(scratch.at + layer->bias, weight + layer->bias, out_gradient->host[m].at,
                                             &on_cpu, layer, n);
        }
        if (sgd.momentum > 0) memcpy(speed, scratch.at, velocity.each * sizeof *speed);
        tensor_free(scratch);
    }
    compare("linear step", &weights, NULL, 1, 1e-5);
    compare("linear velocity", &velocity, NULL, 1, 1e-5);
    tensor_free(rows);
    tensor_free(out);
    gpu_free(lr);
    drop_all(weights, velocity);
}

// Gradient and step in one pass are the gradient, then the step, where shifts and pulls join the gradients, too.
static void check_shifted_linear_step(const Trial *trial, const Layer *layer, const Values *in,
                                      const Values *out_gradient, Sgd sgd) {
    Values gradient = values_of(trial, parameters_of(layer), 0), shifts = random_values(trial, gradient.each, 0, 18);
    Values weights[2], velocities[2];
    float pulls[MOST_MODELS];
    for (int m = 0; m < MOST_MODELS; m++)
        pulls[m] = 0.1f * (float)m;
    GpuTensor lr = gpu_copy(&sgd.lr, sizeof sgd.lr, 0), gpu_pulls = gpu_copy(pulls, sizeof pulls, 0);
    for (int way = 0; way < 2; way++) {
        weights[way] = parameters(trial, gradient.each, 12);
        velocities[way] = random_values(trial, gradient.each, 0, 16);
        CudaSgdUpdate descent = sgd_update_of(&weights[way], &velocities[way], &lr, sgd);
        descent.shifts = on_gpu(&shifts);
        descent.pulls = gpu_at(gpu_pulls);
        if (way == 0) {
            cuda_linear_step(&descent, &(CudaLinear){layer, on_gpu(in), on_gpu(out_gradient)}, 1, &trial->step);
            continue;
        }
        cuda_linear_backward_weight(on_gpu(&gradient), on_gpu(&gradient) + layer->bias, on_gpu(in),
                                    on_gpu(out_gradient), gradient.stride, layer, NULL, &trial->step);
        cuda_sgd_step(&descent, on_gpu(&gradient), 0, gradient.each, &trial->step);
    }
    float *together = malloc(weights[0].gpu.bytes), *apart = malloc(weights[1].gpu.bytes);
    assert_true(together && apart);
    const Values *const arrays[] = {weights, velocities};
    for (int a = 0; a < 2; a++) {
        gpu_read(together, arrays[a][0].gpu);
        gpu_read(apart, arrays[a][1].gpu);
        for (size_t i = 0; i < (size_t)trial->models * arrays[a][0].stride; i++)
            if (!isnan(apart[i])) assert_true(fabsf(together[i] - apart[i]) <= 1e-6f * (1 + fabsf(apart[i])));
    }
    free(together), free(apart);
    gpu_free(lr), gpu_free(gpu_pulls);
    drop_all(gradient, shifts, weights[0], weights[1], velocities[0], velocities[1]);
}

static void check_linear(const Trial *trial) {
    Error err;
    CudaBlas blas;
    check_ok(cuda_blas_open(&blas, trial->step.stream, false, &err));
    for (size_t i = 0; i < 4 * LENGTH(linears); i++) {
        const Layer *layer = &linears[i / 4];
        const bool relu = i % 2 == 1;
        CudaBlas *const used = i % 4 < 2 ? &blas : NULL;
        int n = trial->samples;
        Values in = lanes(trial, shape_size(layer->in), 10), out_gradient = lanes(trial, shape_size(layer->out), 11);
        Values weights = parameters(trial, parameters_of(layer), 12), out = values_of(trial, out_gradient.each, 0);
        out.computes_idle = used;
        Tensor rows = tensor_new(linear_row_floats(layer) * (size_t)n);
        cuda_linear_forward(on_gpu(&out), on_gpu(&in), on_gpu(&weights), on_gpu(&weights) + layer->bias, weights.stride,
                            relu, layer, used, &trial->step);
        for (int m = 0; m < trial->models; m++) {
            const float *weight = weights.host[m].at;
            if (is_idle(trial, m)) continue;
            trial->cpu->linear_forward(out.host[m].at, rows.at, in.host[m].at, weight, weight + layer->bias, layer,
                                       (int)trial->counts[m], n);
            if (relu) trial->cpu->relu_forward(out.host[m].at, shape_size(layer->out), n);
        }
        compare("linear forward", &out, trial->counts, (size_t)n, 1e-5);
        linear_backward(trial, layer, used, relu, &in, &out_gradient, &weights);
        const Sgd sgd = {.lr = 0.1f, .momentum = relu ? 0.9f : 0, .weight_decay = 0.01f};
        linear_step(trial, layer, &in, &out_gradient, sgd);
        if (!used) check_shifted_linear_step(trial, layer, &in, &out_gradient, sgd);
        tensor_free(rows);
        drop_all(in, out_gradient, weights, out);
    }
    check_ok(cuda_blas_check(&blas, &err));
    cuda_blas_close(&blas);
}

// The step of all parameters, or of those in the middle.
static void check_sgd_of(const Trial *trial, bool atomically, float momentum, size_t first, size_t count) {
    enum { COUNT = 301 };
    const Sgd sgd = {.lr = 0.1f, .momentum = momentum, .weight_decay = 0.01f};
    Values weights = parameters(trial, COUNT, 13), velocity = random_values(trial, COUNT, 0, 14);
    Values gradient = random_values(trial, COUNT, 0, 15), unused = random_values(trial, COUNT, 0, 14);
    GpuTensor lr = gpu_copy(&sgd.lr, sizeof sgd.lr, 0);
    const CudaSgdUpdate descent = sgd_update_of(&weights, &velocity, &lr, sgd);
    (atomically ? cuda_sgd_step_atomically : cuda_sgd_step)(&descent, on_gpu(&gradient), first, count, &trial->step);
    for (int m = 0; m < trial->models; m++)
        if (!is_idle(trial, m))
            (atomically ? trial->cpu->sgd_step_atomically : trial->cpu->sgd_step)(
                weights.host[m].at + first, (momentum > 0 ? velocity : unused).host[m].at + first,
                gradient.host[m].at + first, &sgd, count);
    compare("weights", &weights, NULL, 1, 1e-6);
    compare("velocity", &velocity, NULL, 1, momentum > 0 ? 1e-6 : 0); // which is left alone without momentum
    gpu_free(lr);
    drop_all(weights, velocity, gradient, unused);
}

static void whole_step_on_host(float *weight, float *speed, float *square, float *gradient, const float *shift,
                               float pull, double *forgotten, const CudaOptimizer *optimizer, const Sgd *sgd,
                               int count) {
    double length = 0;
    for (int i = 0; i < count; i++) {
        gradient[i] += pull * weight[i] + shift[i];
        length += (double)gradient[i] * (double)gradient[i];
    }
    const double bound = optimizer->clip > 0 ? optimizer->clip / (sqrt(length) + 1e-6) : 1;
    const float factor = bound < 1 ? (float)bound : 1;
    const AdamStep step = adam_next(forgotten, &optimizer->adam, (double)sgd->lr, (double)sgd->weight_decay);
    for (int i = 0; i < count; i++) {
        const float bounded = gradient[i] * factor;
        if (optimizer->squares)
            weight[i] = adam_moved(weight[i], &speed[i], &square[i], bounded, &step);
        else if (optimizer->nesterov)
            weight[i] -= sgd->lr * sgd_nesterov(&speed[i], bounded, weight[i], sgd);
        else
            weight[i] -= sgd->lr * (speed[i] = sgd_velocity(speed[i], bounded, weight[i], sgd));
    }
}

// Steps by the whole gradient: terms join the gradients in the middle, their length is bounded, and these weights step.
static void check_whole_step(const Trial *trial, CudaOptimizer optimizer, float momentum, bool atomic) {
    enum { COUNT = 301, FIRST = 17, MIDDLE = 260 };
    const Sgd sgd = {.lr = 0.1f, .momentum = momentum, .weight_decay = 0.01f};
    double forgotten[2 * MOST_MODELS], zeros[MOST_MODELS] = {0};
    float pulls[MOST_MODELS];
    for (int m = 0; m < MOST_MODELS; m++) {
        forgotten[2 * m] = 0.5;
        forgotten[2 * m + 1] = 0.25;
        pulls[m] = 0.1f * (float)m;
    }
    Values weights = parameters(trial, COUNT, 13), velocity = random_values(trial, COUNT, 0, 14);
    Values gradient = random_values(trial, COUNT, 0, 15), shifts = random_values(trial, COUNT, 0, 16);
    Values squares = random_values(trial, COUNT, 0, 17);
    for (int m = 0; m < trial->models; m++)
        for (size_t i = 0; i < COUNT; i++)
            squares.host[m].at[i] = fabsf(squares.host[m].at[i]);
    upload(&squares);
    if (optimizer.adam.beta1 > 0) optimizer.squares = on_gpu(&squares);
    GpuTensor lr = gpu_copy(&sgd.lr, sizeof sgd.lr, 0), gpu_pulls = gpu_copy(pulls, sizeof pulls, 0);
    GpuTensor powers = gpu_copy(forgotten, sizeof forgotten, 0), lengths = gpu_copy(zeros, sizeof zeros, 0);
    GpuTensor factors = gpu_new(MOST_MODELS * sizeof(float), 0), adam = gpu_new(MOST_MODELS * sizeof(AdamStep), 0);
    CudaSgdUpdate descent = sgd_update_of(&weights, &velocity, &lr, sgd);
    descent.shifts = on_gpu(&shifts);
    descent.pulls = gpu_at(gpu_pulls);
    const CudaWholeStep whole = {gpu_at(lengths), gpu_at(factors), gpu_at(adam), 1};
    cuda_join_terms(on_gpu(&gradient), &descent, FIRST, MIDDLE, &trial->step);
    if (optimizer.clip > 0) cuda_add_lengths(&whole, on_gpu(&gradient), COUNT, FIRST, MIDDLE, &trial->step);
    cuda_begin_whole_step(&whole, gpu_at(powers), &optimizer, &descent, &trial->step);
    (atomic ? cuda_whole_step_atomically : cuda_whole_step)(&descent, &whole, &optimizer, on_gpu(&gradient), FIRST,
                                                            MIDDLE, &trial->step);
    for (int m = 0; m < trial->models; m++) {
        float *weight = weights.host[m].at + FIRST, *speed = velocity.host[m].at + FIRST;
        float *own = gradient.host[m].at + FIRST, *square = squares.host[m].at + FIRST;
        if (!is_idle(trial, m))
            whole_step_on_host(weight, speed, square, own, shifts.host[m].at + FIRST, pulls[m], &forgotten[2 * m],
                               &optimizer, &sgd, MIDDLE);
    }
    compare("gradient of a whole step", &gradient, NULL, 1, 1e-6);
    compare("weights of a whole step", &weights, NULL, 1, 1e-6);
    compare("velocity of a whole step", &velocity, NULL, 1, 1e-6);
    compare("squares of a whole step", &squares, NULL, 1, 1e-6);
    gpu_read(zeros, lengths);
    for (int m = 0; m < trial->models; m++)
        assert_true(zeros[m] == 0); // for the next step
    const GpuTensor all[] = {lr, gpu_pulls, powers, lengths, factors, adam};
    for (size_t i = 0; i < LENGTH(all); i++)
        gpu_free(all[i]);
    drop_all(weights, velocity, gradient, shifts, squares);
}

// The lengths of a model of more than two parts, of which two runs of parameters learn.
static void check_length_parts(const Trial *trial) {
    enum { PART = CUDA_LENGTH_PART, COUNT = 2 * PART + 77, PARTS = 3 };
    const size_t runs[][2] = {{PART - 5, 3}, {PART + 1, PART + 70}};
    double zeros[MOST_MODELS * PARTS] = {0}, actual[MOST_MODELS * PARTS], expected[PARTS];
    Values gradient = random_values(trial, COUNT, 0, 18);
    GpuTensor lengths = gpu_copy(zeros, sizeof zeros, 0);
    const CudaWholeStep whole = {.lengths = gpu_at(lengths), .parts = PARTS};
    for (size_t r = 0; r < LENGTH(runs); r++)
        cuda_add_lengths(&whole, on_gpu(&gradient), COUNT, runs[r][0], runs[r][1], &trial->step);
    check_cuda(cudaGetLastError());
    gpu_read(actual, lengths);
    for (int m = 0; m < trial->models; m++) {
        memset(expected, 0, sizeof expected);
        for (size_t r = 0; r < LENGTH(runs) && !is_idle(trial, m); r++)
            for (size_t i = 0; i < runs[r][1]; i++) {
                const double value = (double)gradient.host[m].at[runs[r][0] + i];
                expected[runs[r][0] / PART + i / PART] += value * value;
            }
        for (int part = 0; part < PARTS; part++)
            assert_true(fabs(actual[m * PARTS + part] - expected[part]) <= 1e-12 * expected[part]);
    }
    gpu_free(lengths);
    drop(&gradient);
}

// A step's share of the full gradient, of the parameters in the middle.
static void check_share(const Trial *trial) {
    enum { COUNT = 301, FIRST = 17, MIDDLE = 260 };
    uint32_t totals[MOST_MODELS];
    Values gradient = random_values(trial, COUNT, 0, 18), full = random_values(trial, COUNT, 0, 19);
    for (uint32_t m = 0; m < MOST_MODELS; m++)
        totals[m] = 100 + m;
    GpuTensor gpu_totals = gpu_copy(totals, sizeof totals, 0);
    cuda_add_share(on_gpu(&full), on_gpu(&gradient), gpu_at(gpu_totals), COUNT, FIRST, MIDDLE, &trial->step);
    for (int m = 0; m < trial->models; m++)
        for (size_t i = FIRST; i < FIRST + MIDDLE; i++)
            full.host[m].at[i] += (float)trial->counts[m] / (float)totals[m] * gradient.host[m].at[i];
    compare("full gradient", &full, NULL, 1, 1e-6);
    gpu_free(gpu_totals);
    drop_all(gradient, full);
}

static void check_whole_steps(const Trial *trial) {
    const Adam adam = {.beta1 = 0.9, .beta2 = 0.99, .eps = 1e-3}, adamw = {0.9, 0.99, 1e-3, .shrinks = true};
    check_whole_step(trial, (CudaOptimizer){.adam = adam}, 0, false);
    check_whole_step(trial, (CudaOptimizer){.adam = adamw, .clip = 2}, 0, false);
    check_whole_step(trial, (CudaOptimizer){.nesterov = true, .clip = 1e6}, 0.9f, false);
    check_whole_step(trial, (CudaOptimizer){.clip = 0.5}, 0.9f, false);
    check_whole_step(trial, (CudaOptimizer){.clip = 0.5}, 0.9f, true);
    check_length_parts(trial);
    check_share(trial);
}

static void check_sgd(const Trial *trial) {
    check_whole_steps(trial);
    for (int atomically = 0; atomically < 2; atomically++) {
        check_sgd_of(trial, atomically, 0.9f, 0, 301);
        check_sgd_of(trial, atomically, 0, 0, 301);
        check_sgd_of(trial, atomically, 0.9f, 17, 260);
    }
}

// The table -----------------------------------------------------------------------------------------------------------

// What has no twin is refused before anything is launched.

static const Twin rows[] = {
    {OP(sgd_step),
     " cuda_sgd_step cuda_join_terms cuda_add_lengths cuda_add_share cuda_begin_whole_step cuda_whole_step "
     "cuda_whole_step_atomically ",
     check_sgd},
    {OP(sgd_step_atomically), " cuda_sgd_step_atomically ", check_sgd},
    {OP(gather), " cuda_gather ", check_gather},
    {OP(gather_rows), " cuda_gather ", check_gather_rows},
    {OP(linear_rows), " cuda_linear_forward ", check_linear},
    {OP(linear_columns), " cuda_linear_backward_input ", check_linear},
    {OP(linear_forward), " cuda_linear_forward ", check_linear},
    {OP(linear_backward_input), " cuda_linear_backward_input ", check_linear},
    {OP(linear_backward_weight), " cuda_linear_backward_weight cuda_linear_step ", check_linear},
    {OP(linear_backward_step), " cuda_linear_backward_input cuda_linear_step ", check_linear},
    {OP(linear_backward_bias), " cuda_linear_backward_weight cuda_linear_step ", check_linear},
    {OP(softmax_cross_entropy), " cuda_softmax_cross_entropy ", check_loss},
};

const Twins step_twins = {rows, LENGTH(rows)};

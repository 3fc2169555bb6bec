// Layers of two values: sums and parts of them, and products.
#include <string.h>

#include "gpu.h"
#include "gpu_trial.h"
#include "twins.h"

// A sum, with a relu after it and without; and a part of a tensor that is added to a part of another.
static void check_add(const Trial *trial) {
    enum { ALL = 7, FIRST = 3, COUNT = 4, SHORT = 5 };
    const size_t n = (size_t)trial->samples;
    Values a = lanes(trial, ALL, 4), b = lanes(trial, ALL, 5), part = lanes(trial, SHORT, 6);
    Values out = values_of(trial, a.each, 0), rectified = values_of(trial, a.each, 0);
    Values gradient = lanes(trial, ALL, 7), given = values_of(trial, a.each, 0), others = lanes(trial, ALL, 8);
    cuda_sum_forward(on_gpu(&rectified), on_gpu(&a), on_gpu(&b), true, ALL, &trial->step);
    cuda_sum_backward(on_gpu(&gradient), on_gpu(&given), false, on_gpu(&rectified), ALL, &trial->step);
    cuda_sum_backward(on_gpu(&gradient), on_gpu(&others), true, on_gpu(&rectified), ALL, &trial->step);
    cuda_sum_forward(on_gpu(&out), on_gpu(&a), on_gpu(&b), false, ALL, &trial->step);
    cuda_add((CudaRows){on_gpu(&out), ALL, FIRST}, (CudaRows){on_gpu(&part), SHORT, 1}, COUNT, true, &trial->step);
    for (int m = 0; m < trial->models; m++) {
        float *sum = out.host[m].at, *other = others.host[m].at;
        trial->cpu->add(sum, a.host[m].at, b.host[m].at, ALL, trial->samples);
        memcpy(rectified.host[m].at, sum, a.each * sizeof *sum);
        rectify_on_cpu(trial, &rectified, &gradient, ALL, m);
        memcpy(given.host[m].at, gradient.host[m].at, a.each * sizeof *sum);
        trial->cpu->add(other, other, gradient.host[m].at, ALL, trial->samples);
        trial->cpu->add(sum + FIRST * n, sum + FIRST * n, part.host[m].at + n, COUNT, trial->samples);
    }
    compare("add", &out, NULL, 1, 0);
    compare("add and relu", &rectified, NULL, 1, 0);
    compare("gradient of add and relu", &gradient, NULL, 1, 0);
    compare("gradient of the second term", &given, NULL, 1, 0);
    compare("gradient of the second term, added", &others, NULL, 1, 0);
    drop_all(a, b, part, out, rectified, gradient, given, others);
}

// The gradient of a factor's first model is the same bits without the others.
static void check_mul_alone(const Values *gradient, const Values *factor, const Values *given, size_t features,
                            size_t factor_features, size_t out, const Trial *trial) {
    Trial one = *trial;
    one.models = one.step.models = 1;
    Values alone = values_of(&one, gradient->each, 0);
    cuda_mul_backward(on_gpu(&alone), false, on_gpu(factor), on_gpu(given), features, factor_features, out, &one.step);
    float *beside = malloc(gradient->gpu.bytes), *by_itself = malloc(alone.gpu.bytes);
    assert_true(beside && by_itself);
    gpu_read(beside, gradient->gpu);
    gpu_read(by_itself, alone.gpu);
    assert_memory_equal(beside, by_itself, gradient->each * sizeof *beside);
    free(beside);
    free(by_itself);
    drop(&alone);
}

// Two channels of six places and a factor for each, in either order, two tensors of one size, and planes that several
// threads add up: of 32 places, and of 75.
static void check_mul(const Trial *trial) {
    static const size_t features[][3] = {{12, 2, 12}, {2, 12, 12}, {12, 12, 12}, {96, 3, 96}, {2, 150, 150}};
    for (size_t i = 0; i < LENGTH(features); i++) {
        const size_t left = features[i][0], right = features[i][1], all = features[i][2];
        Values a = lanes(trial, left, 4), b = lanes(trial, right, 5), given = lanes(trial, all, 6);
        Values out = values_of(trial, given.each, 0), gradient = values_of(trial, a.each, 0),
               other = lanes(trial, right, 7);
        cuda_mul_forward(on_gpu(&out), on_gpu(&a), on_gpu(&b), left, right, all, &trial->step);
        cuda_mul_backward(on_gpu(&gradient), false, on_gpu(&b), on_gpu(&given), left, right, all, &trial->step);
        cuda_mul_backward(on_gpu(&other), true, on_gpu(&a), on_gpu(&given), right, left, all, &trial->step);
        for (int m = 0; m < trial->models; m++) {
            const float *x = a.host[m].at, *y = b.host[m].at, *of = given.host[m].at;
            trial->cpu->mul_forward(out.host[m].at, x, y, left, right, all, trial->samples);
            trial->cpu->mul_backward(gradient.host[m].at, false, y, of, left, right, all, trial->samples);
            trial->cpu->mul_backward(other.host[m].at, true, x, of, right, left, all, trial->samples);
        }
        compare("mul", &out, NULL, 1, 0);
        compare("gradient of the first factor", &gradient, NULL, 1, 1e-6);
        compare("gradient of the second factor, added", &other, NULL, 1, 1e-6);
        check_mul_alone(&gradient, &b, &given, left, right, all, trial);
        drop_all(a, b, given, out, gradient, other);
    }
}

static const Twin rows[] = {
    {OP(add), " cuda_add cuda_sum_forward cuda_sum_backward ", check_add},
    {OP(mul_forward), " cuda_mul_forward ", check_mul},
    {OP(mul_backward), " cuda_mul_backward ", check_mul},
};

const Twins join_twins = {rows, LENGTH(rows)};

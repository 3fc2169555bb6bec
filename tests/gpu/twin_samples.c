// What a data set of floats has of its own on both sides: samples that are not normalised, and the squared loss.
#include "gpu.h"
#include "gpu_progress.h"
#include "gpu_trial.h"
#include "nn/regression.h"
#include "twins.h"

enum { ROWS = 150, FLOATS = 15 };

// The place of a model's samples in the data set.
static uint32_t first_of(int m) {
    return (uint32_t)(m * 11);
}

static GpuProgress progress_of(const Trial *trial) {
    uint32_t firsts[MOST_MODELS];
    for (int m = 0; m < trial->models; m++)
        firsts[m] = first_of(m);
    return gpu_progress(firsts, trial->counts, (size_t)trial->models, (uint32_t)trial->samples);
}

static void check_floats(const Trial *trial, const uint32_t *indices, const void *gpu_indices) {
    const Shape shape = {3, 5, 1};
    const Tensor samples = tensor_random((size_t)ROWS * FLOATS, 4);
    const GpuTensor gpu = gpu_copy(samples.at, samples.count * sizeof(float), 4);
    const GpuProgress progress = progress_of(trial);
    const Values out = values_of(trial, (size_t)FLOATS * (size_t)trial->samples, 0);
    cuda_gather(on_gpu(&out), gpu.at, gpu_indices, &progress.on_gpu, NULL, NULL, shape, NULL, &trial->step);
    for (int m = 0; m < trial->models; m++)
        values_gather(out.host[m].at, (const uint8_t *)samples.at, indices ? indices + first_of(m) : NULL, first_of(m),
                      FLOATS, (int)trial->counts[m], trial->samples);
    compare("floats", &out, NULL, 1, 0);
    drop(&out);
    gpu_progress_free(&progress);
    gpu_free(gpu);
    tensor_free(samples);
}

// Targets are near enough that some outputs round to theirs.
static void check_distances(const Trial *trial, const uint32_t *indices, const void *gpu_indices) {
    const Tensor targets = tensor_random(ROWS, 5);
    const GpuTensor gpu = gpu_copy(targets.at, ROWS * sizeof(float), 0);
    const Values outputs = lanes(trial, 1, 6), gradient = values_of(trial, outputs.each, 0);
    GpuProgress progress = progress_of(trial);
    uint32_t hits[MOST_MODELS];
    double losses[MOST_MODELS];
    for (int twice = 0; twice < 2; twice++) // sums are added to; hits are counted without a gradient
        cuda_squared_loss(twice ? on_gpu(&gradient) : NULL, &progress.on_gpu, on_gpu(&outputs), gpu_at(gpu),
                          gpu_indices, &trial->step);
    gpu_read(losses, progress.losses);
    gpu_progress_read(hits, &progress, progress.on_gpu.hits);
    for (int m = 0; m < trial->models; m++) {
        const uint32_t count = trial->counts[m];
        float chosen[ROWS];
        uint32_t near;
        for (uint32_t s = 0; s < count; s++)
            chosen[s] = targets.at[indices ? indices[first_of(m) + s] : first_of(m) + s];
        const double loss = squared_loss(gradient.host[m].at, &near, outputs.host[m].at, chosen,
                                         count ? 1.0f / (float)count : 1, (int)count, trial->samples);
        assert_int_equal(hits[m], near);
        if (!(fabs(losses[m] - 2 * loss) <= 1e-12 * (1 + loss)))
            fail_msg("squared loss of model %d: %.17g, expected %.17g", m, losses[m], 2 * loss);
    }
    compare("gradient of the squared loss", &gradient, NULL, 1, 1e-7);
    gpu_progress_free(&progress);
    gpu_free(gpu);
    tensor_free(targets);
    drop_all(outputs, gradient);
}

void check_values(const Trial *trial) {
    uint32_t indices[ROWS];
    for (uint32_t i = 0; i < ROWS; i++)
        indices[i] = i * 37 % ROWS;
    const GpuTensor gpu = gpu_copy(indices, sizeof indices, 0);
    for (int indexed = 0; indexed < 2; indexed++) {
        check_floats(trial, indexed ? indices : NULL, indexed ? gpu.at : NULL);
        check_distances(trial, indexed ? indices : NULL, indexed ? gpu.at : NULL);
    }
    gpu_free(gpu);
}

#include "private_gradient.h"

#include <math.h>
#include <string.h>

#include "fedavg/rules/privacy/sample_privacy.h"
#include "fedavg/rules/sum/aggregate.h"
#include "fedavg/worker/gradient.h"

static Batch sample_of(LocalModel *model, const Batch *batch, uint32_t place) {
    Batch one = *batch;
    one.indices += place;
    one.count = 1;
    one.triggered = place < batch->triggered;
    view_apply(&model->view, &one);
    return one;
}

// A backward pass over several samples sums their gradients, so that each sample is a pass of its own: packing weights,
// reading and writing a gradient is paid per sample. Sums are made in the order of the batch, in floats. A gradient
// that is not finite has no direction to be clipped along and counts as 0: in the sum it would have the whole update
// refused, which tells that the sample is there.
void private_gradient(LocalModel *model, BatchResult *result, const Batch *batch, uint32_t size, const Noise *noise) {
    const SamplePrivacy *privacy = &model->memory->config->training.privacy;
    const size_t count = model->memory->config->parameters;
    float *restrict sum = model->steps.sum, *restrict gradient = model->steps.gradient;
    *result = (BatchResult){0};
    memset(sum, 0, count * sizeof *sum);
    for (uint32_t place = 0; place < batch->count; place++) {
        const Batch one = sample_of(model, batch, place);
        Noise own = *noise;
        BatchResult of_one;
        own.first_sample += place;
        net_gradient(&model->net, gradient, &of_one, model->weights, &one, &own);
        gradient_zero_still(model);
        clip_gradient(gradient, privacy->clip, count);
        const bool counts = isfinite(aggregate_squared_length(gradient, count));
        for (size_t i = 0; i < count && counts; i++)
            sum[i] += gradient[i];
        result->loss_sum += of_one.loss_sum;
    }
    private_noise(sum, privacy->clip * privacy->noise, count, &model->memory->control->noise_key, noise);
    for (size_t i = 0; i < count; i++)
        gradient[i] = sum[i] / (float)size;
}

#include "gradient.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "fedavg/rules/sum/aggregate.h"

AGGREGATE_VECTORS static void scale(float *values, float factor, size_t count) {
    for (size_t i = 0; i < count; i++)
        values[i] *= factor;
}

// As torch.nn.utils.clip_grad_norm_.
void clip_gradient(float *gradient, double most, size_t count) {
    if (most == 0) return;
    assert(most > 0);
    const double factor = most / (sqrt(aggregate_squared_length(gradient, count)) + 1e-6);
    if (factor < 1) scale(gradient, (float)factor, count);
}

// Rules, and the noise of private steps, add to the gradients of all tensors.
void gradient_zero_still(LocalModel *model) {
    const Spec *spec = &model->net.spec;
    const size_t still = model->net.still_first, moves = model->net.still_end;
    memset(model->steps.gradient + still, 0, (moves - still) * sizeof *model->steps.gradient);
    for (int t = 0; t < spec->tensor_count; t++) {
        const ParameterTensor *tensor = &spec->tensors[t];
        if (tensor->frozen || tensor->follows)
            memset(model->steps.gradient + tensor->first, 0, tensor->count * sizeof *model->steps.gradient);
    }
}

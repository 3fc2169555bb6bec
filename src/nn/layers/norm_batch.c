// Part of layer.h: normalisation of each channel over the batch.
//
// The only layer whose samples depend on each other: hence OVER_BATCH, by which the net takes the whole batch in one
// chunk. Running means and variances are parameters that `follow` the batches: the statistics hold their next values
// until net_follow writes them, since the step is not to change them.
#include "nn/kernels/batch_statistics.h"
#include "nn/pass.h"

#include "layer.h"

static Status read_batch_norm(Layer *layer, LayerText *of, Error *err) {
    TRY(layer_text_epsilon(layer, of, err));
    return layer_text_key(of, "momentum") ? layer_text_number(&layer->momentum, of, "M", 1e-9f, 1, err) : STATUS_OK;
}

static int batch_norm_tensors(LayerTensor tensors[LAYER_MOST_TENSORS], const Layer *layer) {
    static const char *const names[] = {"weight", "bias", "running_mean", "running_var"};
    for (int t = 0; t < 4; t++)
        tensors[t] = (LayerTensor){.name = names[t],
                                   .rank = 1,
                                   .shape = {layer->in.channels},
                                   .start = t == 0 || t == 3 ? 1 : 0,
                                   .follows = t >= 2};
    return 4;
}

static LayerRoom batch_norm_room(const Layer *layer, const Kernels *kernels, int samples) {
    (void)kernels, (void)samples;
    return (LayerRoom){.statistics = batch_statistics_floats(layer)};
}

// `trains` chooses between the statistics of the batch and the running ones.
static void batch_norm_forward(const LayerCall *call) {
    const LayerBuffers *at = call->at;
    call->kernels->batch_norm_forward(at->out, at->statistics, at->in, call->weight, call->trains, call->layer,
                                      call->count, call->samples);
}

static void batch_norm_backward(const LayerCall *call) {
    const LayerBuffers *at = call->at;
    call->kernels->batch_norm_backward(at->gradient, at->in_gradient, at->statistics, at->in, at->out_gradient,
                                       call->weight, call->layer, call->count, call->samples);
}

const LayerType batch_norm_layer = {.name = "batchnorm",
                                    .words = {{.form = {"batchnorm", "batchnorm [eps E] [momentum M]",
                                                        "each channel's values in the whole batch (at most 256 "
                                                        "samples) get mean 0 and variance 1, then a factor "
                                                        "and a shift; tests take running means and variances, of which "
                                                        "a batch is M = 0.1. Not with ssgd or hogwild"},
                                               .also = {"batch_norm", "batchnorm2d"},
                                               .read = read_batch_norm}},
                                    .module = "norm",
                                    .traits = SUM_OVERWRITES | OVER_BATCH | NORMALISES,
                                    .tensors = batch_norm_tensors,
                                    .room = batch_norm_room,
                                    .forward = batch_norm_forward,
                                    .backward = batch_norm_backward};

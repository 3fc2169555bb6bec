// Part of net.h: whole batches, of the passes of their chunks.
#include "net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cores.h"
#include "nn/answers.h"
#include "nn/blas.h"
#include "nn/buffers.h"
#include "nn/contrast.h"
#include "nn/kernels/batch_statistics.h"
#include "nn/label_rows.h"
#include "nn/layers/layer.h"
#include "nn/linear_blas.h"
#include "nn/pass.h"
#include "nn/regression.h"

// Whether some layer is wide enough for OpenBLAS in the largest chunks that the net can have, and the user allows it.
static Status wants_blas(bool *wants, const Spec *spec, Error *err) {
    bool allowed;
    TRY(blas_allowed(&allowed, err));
    const int chunk = buffers_chunk(spec, 0, true).samples;
    *wants = false;
    for (int l = 0; l < spec->layer_count && allowed; l++)
        *wants |= linear_blas_pays(&spec->layers[l], chunk) || linear_blas_pays_backward(&spec->layers[l], chunk);
    return STATUS_OK;
}

// Opens and closes OpenBLAS for its name, as version and core are known only once it is loaded.
Status net_blas_name(char name[NET_BLAS_NAME_BYTES], const Spec *spec, const Kernels *kernels, Error *err) {
    *name = 0;
    bool wants;
    TRY(wants_blas(&wants, spec, err));
    if (!wants) return STATUS_OK;
    Blas *blas;
    TRY(blas_open(&blas, kernels, err));
    snprintf(name, NET_BLAS_NAME_BYTES, "%s", blas_name(blas));
    blas_close(blas);
    return STATUS_OK;
}

// Ops of sequences have no build for few samples, so a net with one of them always takes vectors of the usual width.
static bool has_sequences(const Spec *spec) {
    for (int l = 0; l < spec->layer_count; l++)
        if (layer_has(&spec->layers[l], OF_SEQUENCES)) return true;
    return false;
}

// Carves the arena twice: to measure it and, once it is allocated, to place the tensors. The arena is on huge pages
// where the system gives them (base/cores.h), as a pass walks over all of it.
static Status allocate(Net *net, ChunkPlan chunk, Error *err) {
    net->buffers = malloc(sizeof *net->buffers);
    if (net->buffers) {
        net->arena_bytes = buffers_carve(net->buffers, NULL, &net->spec, net->kernels, chunk);
        net->arena = huge_allocate(net->arena_bytes);
    }
    if (!net->arena)
        return fail_errno(err, STATUS_OS,
                          "no memory for the net's %zu bytes of activations; use fewer workers or a smaller net",
                          net->arena_bytes);
    buffers_carve(net->buffers, net->arena, &net->spec, net->kernels, chunk);
    return STATUS_OK;
}

// Relus are fused in the net's own copy of the spec: the caller's stays as it was parsed, since a GPU fuses other
// pairs.
Status net_init(Net *net, const Spec *spec, const Kernels *kernels, Error *err) {
    bool through_blas;
    TRY(wants_blas(&through_blas, spec, err));
    *net = (Net){.spec = *spec, .kernels = kernels, .few = has_sequences(spec) ? NULL : kernels->few};
    buffers_join_relus(&net->spec);
    Status status = through_blas ? blas_open(&net->blas, kernels, err) : STATUS_OK;
    if (status == STATUS_OK) status = allocate(net, buffers_chunk(spec, kernels->lanes, through_blas), err);
    if (status != STATUS_OK) net_free(net);
    return status;
}

// The net is zeros afterwards, so that it may be freed again.
void net_free(Net *net) {
    free(net->arena);
    free(net->buffers);
    blas_close(net->blas);
    *net = (Net){0};
}

// Work on one chunk ---------------------------------------------------------------------------------------------------

// The chunk of the batch's samples from `first` on. The last chunk of a batch has the samples that are left.
static Chunk chunk_at(const Net *net, const Batch *batch, uint32_t first) {
    return net_chunk(net, first, batch->count - first, net->buffers->chunk.samples);
}

// Loads a part of float32 samples: to in (C,H,W,N), or to rows if in is NULL.
static void load_values(const Net *net, float *in, float *rows, const Batch *batch, const uint32_t *indices,
                        uint32_t first, Chunk part) {
    const uint8_t *values = batch->pixels;
    const size_t size = shape_size(net->spec.input);
    if (in)
        values_gather(in, values, indices, first, size, part.count, part.samples);
    else
        values_gather_rows(rows, values, indices, first, size, linear_row_floats(&net->spec.layers[0]), part.count);
}

static int smaller(uint32_t a, int b) {
    return a < (uint32_t)b ? (int)a : b;
}

// Loads a part of images: to in (C,H,W,N), or to rows if in is NULL. Crops, flips and marks need a copy of the images,
// which is then gathered instead of the data set's own pixels. Only training passes noise, so evaluation never crops.
static void load_images(const Net *net, float *in, float *rows, const Batch *batch, const uint32_t *indices,
                        uint32_t first, const Noise *noise, Chunk part) {
    const uint8_t *pixels = batch->pixels;
    static const float one = 1, zero = 0;
    const bool as_they_are = layer_has(&net->spec.layers[0], READS_NUMBERS);
    // Numbers are a row of one channel, also if the data set has them as channels of one value.
    const Shape shape = as_they_are ? (Shape){1, 1, (int)shape_size(net->spec.input)} : net->spec.input;
    const float *scale = as_they_are ? &one : batch->scale, *shift = as_they_are ? &zero : batch->shift;
    uint8_t *images = net->buffers->images;
    const bool augments = noise && augment_is_on(&net->spec.augment), marks = batch->triggered > part.first;
    if (augments)
        augment_images(images, pixels, indices, first, &net->spec.augment, shape, noise, part.first, part.count);
    else if (marks)
        augment_copy(images, pixels, indices, first, shape, part.count);
    if (marks) augment_mark(images, net->spec.trigger, shape, smaller(batch->triggered - part.first, part.count));
    if (augments || marks) {
        pixels = images;
        indices = NULL;
        first = 0;
    }
    if (in)
        net->at_work->gather(in, pixels, indices, first, scale, shift, shape, part.count, part.samples);
    else
        net->at_work->gather_rows(rows, pixels, indices, first, scale, shift, shape,
                                  linear_row_floats(&net->spec.layers[0]), part.count);
}

// noise: NULL in evaluation, which neither crops nor flips. Parts are stored one after the other if the net has a body;
// otherwise the chunk is its only part.
static void load_samples(const Net *net, const Batch *batch, const Noise *noise, Chunk chunk) {
    const size_t step = shape_size(net->spec.input) * (size_t)net->buffers->chunk.part;
    for (int p = 0; p < buffers_parts(&net->buffers->chunk, chunk.count); p++) {
        const Chunk part = net_part(net, chunk, p);
        const uint32_t *indices = batch->indices ? batch->indices + part.first : NULL;
        float *in = net->buffers->input ? net->buffers->input + (size_t)p * step : NULL;
        float *rows = net->buffers->layers[0].rows;
        if (net->spec.float_input)
            load_values(net, in, rows, batch, indices, batch->first + part.first, part);
        else
            load_images(net, in, rows, batch, indices, batch->first + part.first, noise, part);
    }
}

// The label of a batch's sample at this place. A marked sample (a backdoor's) gets the attacker's label, whatever its
// own.
static uint16_t label_of(const Batch *batch, uint32_t place) {
    const uint32_t sample = batch->indices ? batch->indices[place] : batch->first + place;
    if (place < batch->triggered) return batch->trigger_label;
    return batch->label_of ? batch->label_of[batch->labels[sample]] : batch->labels[sample];
}

static void load_row(const Net *net, const float *labels, uint32_t sample, int s, Chunk chunk) {
    const size_t count = (size_t)net->spec.classes;
    for (size_t k = 0; k < count; k++)
        net->buffers->targets[k * (size_t)chunk.samples + (size_t)s] = labels[sample * count + k];
}

// Labels keep the chunk's order, whatever the parts: the loss is computed for the whole chunk.
static void load_labels(const Net *net, const Batch *batch, Chunk chunk) {
    for (int s = 0; s < chunk.count; s++) {
        const uint32_t place = chunk.first + (uint32_t)s;
        const uint32_t sample = batch->indices ? batch->indices[place] : batch->first + place;
        if (net->spec.label_rows)
            load_row(net, (const float *)(const void *)batch->labels, sample, s, chunk);
        else if (net->spec.squared_loss)
            net->buffers->targets[s] = ((const float *)(const void *)batch->labels)[sample];
        else
            net->buffers->labels[s] = label_of(batch, place);
        for (int k = 0; k < net->spec.classes && net->spec.one_vs_rest; k++)
            net->buffers->targets[k * chunk.samples + s] = (float)(k == net->buffers->labels[s]);
    }
}

static void load_chunk(const Net *net, const Batch *batch, const Noise *noise, Chunk chunk) {
    load_samples(net, batch, noise, chunk);
    load_labels(net, batch, chunk);
}

static const float *logits_of(const Net *net) {
    return net->buffers->layers[net->spec.layer_count - 1].out;
}

// The first of the largest outputs of a sample.
static int predicted(const Net *net, int s, int samples) {
    const float *outputs = logits_of(net);
    int best = 0;
    for (int k = 1; k < net->spec.classes; k++)
        if (outputs[k * samples + s] > outputs[best * samples + s]) best = k;
    return best;
}

static uint32_t count_hits(const Net *net, Chunk chunk) {
    uint32_t hits = 0;
    for (int s = 0; s < chunk.count; s++)
        hits += predicted(net, s, chunk.samples) == net->buffers->labels[s];
    return hits;
}

// Labels are smoothed in training only: an evaluation returns the loss of the labels themselves. The lanes after the
// last sample get a gradient of zero.
static double loss_of(const Net *net, float *gradient, uint32_t *hits, float scale, Chunk chunk) {
    const float *outputs = logits_of(net);
    if (net->spec.label_rows)
        return label_rows_loss(gradient, hits, outputs, net->buffers->targets, scale, net->spec.classes, chunk.count,
                               chunk.samples);
    if (net->spec.one_vs_rest) {
        if (hits) *hits = count_hits(net, chunk);
        return label_rows_loss(gradient, NULL, outputs, net->buffers->targets, scale, net->spec.classes, chunk.count,
                               chunk.samples);
    }
    if (net->spec.squared_loss)
        return squared_loss(gradient, hits, outputs, net->buffers->targets, scale, chunk.count, chunk.samples);
    return net->at_work->softmax_cross_entropy(gradient, hits, outputs, net->buffers->labels, scale,
                                               gradient ? net->spec.smoothing : 0, net->spec.classes, chunk.count,
                                               chunk.samples);
}

// Whole batches -------------------------------------------------------------------------------------------------------

// Prepares the net for a batch of `count` samples and these parameters: chooses the kernels and packs the weights. If
// the batch trains, the gradients that chunks add to start from zero. Weights are packed once per batch, not per chunk:
// they do not change before the batch's step.
static void begin(Net *net, const float *parameters, uint32_t count, bool trains) {
    net->at_work = net->few && count <= (uint32_t)net->few->lanes ? net->few : net->kernels;
    for (int l = 0; l < net->spec.layer_count; l++) {
        const LayerBuffers *at = &net->buffers->layers[l];
        const Layer *layer = &net->spec.layers[l];
        LayerCall call = layer_call(net, l, at, parameters, (Chunk){0});
        call.trains = trains;
        if (layer_type(layer)->pack) layer_type(layer)->pack(&call);
        if (trains && at->gradient) memset(at->gradient, 0, layer_parameters(layer) * sizeof *at->gradient);
    }
}

// The parent watches this counter: a worker whose counter does not grow hangs, however long its batch takes.
static void count_progress(const Net *net, Chunk chunk) {
    // Relaxed: the reader only checks whether it grows.
    if (net->progress) atomic_fetch_add_explicit(net->progress, (uint64_t)chunk.count, memory_order_relaxed);
}

// The weight of a batch: the number of its samples, or the sum of their classes' weights.
static float count_of(const Net *net, const Batch *batch) {
    double sum = 0;
    if (!net->class_weights) return (float)batch->count;
    for (uint32_t i = 0; i < batch->count; i++)
        sum += (double)net->class_weights[label_of(batch, i)];
    return (float)sum;
}

// gradient: (classes,N) of the logits, by the labels of the loaded chunk.
static void weigh_classes(const Net *net, float *gradient, Chunk chunk) {
    for (int k = 0; k < net->spec.classes; k++)
        for (int s = 0; s < chunk.count; s++)
            gradient[k * chunk.samples + s] *= net->class_weights[net->buffers->labels[s]];
}

// Forward and backward pass of a batch, which must not be empty, chunk by chunk: a chunk's values are still in the
// cache when its backward pass reads them. Returns the sum of the samples' losses, without weights. The gradient is
// scaled by the batch's size in the loss, so that chunks simply add up to the gradient of the mean loss.
static double train(Net *net, const Pass *pass, const Batch *batch) {
    begin(net, pass->parameters, batch->count, true);
    float scale = 1.0f / count_of(net, batch), *gradient = net->buffers->gradients[0];
    double loss_sum = 0;
    for (uint32_t first = 0; first < batch->count; first += (uint32_t)net->buffers->chunk.samples) {
        Chunk chunk = chunk_at(net, batch, first);
        load_chunk(net, batch, pass->noise, chunk);
        net_forward(net, pass->parameters, pass->noise, true, chunk);
        loss_sum += loss_of(net, gradient, NULL, scale, chunk);
        if (net->class_weights) weigh_classes(net, gradient, chunk);
        net_backward(net, pass, chunk);
        count_progress(net, chunk);
    }
    return loss_sum;
}

void net_gradient(Net *net, float *gradient, BatchResult *result, const float *parameters, const Batch *batch,
                  const Noise *noise) {
    *result = (BatchResult){0};
    Pass pass = {.parameters = parameters, .gradient = gradient, .noise = noise, .count = batch->count};
    if (batch->count > 0)
        result->loss_sum = train(net, &pass, batch);
    else
        memset(gradient, 0, net->spec.parameter_count * sizeof *gradient);
}

// The backward pass itself makes the step, layer by layer. So the parameters that the pass reads are those before the
// step, and the velocity takes the place of a gradient.
void net_train_step(Net *net, float *parameters, float *velocity, BatchResult *result, const Sgd *sgd,
                    const float *shift, const Batch *batch, const Noise *noise) {
    *result = (BatchResult){0};
    Pass pass = {.parameters = net->start ? net->start : parameters,
                 .stepping = parameters,
                 .gradient = velocity,
                 .shift = shift,
                 .sgd = *sgd,
                 .noise = noise,
                 .count = batch->count};
    net->steps++;
    if (batch->count == 0) return;
    result->loss_sum = train(net, &pass, batch);
    net->rests = false;
    net->start = NULL;
    net_follow(net, parameters);
}

// The forward pass has left the next running statistics in its own tensors. They are written last, because a step
// treats all parameters alike and would move these, too.
void net_follow(const Net *net, float *parameters) {
    for (int l = 0; l < net->spec.layer_count; l++) {
        const Layer *layer = &net->spec.layers[l];
        if (!layer_has(layer, OVER_BATCH)) continue;
        const size_t channels = norm_weights(layer), means = layer->bias + channels;
        const BatchStatistics *of = (const BatchStatistics *)(const void *)net->buffers->layers[l].statistics;
        const bool mean_rests = net_leaves(net, means), variance_rests = net_leaves(net, means + channels);
        for (size_t c = 0; c < channels; c++) {
            if (!mean_rests) parameters[means + c] = of[c].next_mean;
            if (!variance_rests) parameters[means + channels + c] = of[c].next_variance;
        }
    }
}

static void answer_to(Answer *answer, const Net *net, int s, int samples) {
    const float *outputs = logits_of(net);
    const int classes = net->spec.classes;
    if (net->spec.label_rows) {
        label_rows_answers(answer, outputs + s, net->buffers->targets + s, classes, (size_t)samples);
        return;
    }
    if (net->spec.squared_loss) {
        *answer = (Answer){.value = outputs[s] - net->buffers->targets[s]};
        return;
    }
    *answer = (Answer){.label = net->buffers->labels[s],
                       .predicted = (uint16_t)predicted(net, s, samples),
                       .value = classes == 2 ? outputs[samples + s] - outputs[s] : 0};
}

// Losses are summed in double precision, chunk after chunk, in an order that depends on the batch alone.
void net_evaluate(Net *net, BatchResult *result, const float *parameters, const Batch *batch) {
    *result = (BatchResult){0};
    begin(net, parameters, batch->count, false);
    for (uint32_t first = 0; first < batch->count; first += (uint32_t)net->buffers->chunk.samples) {
        Chunk chunk = chunk_at(net, batch, first);
        load_chunk(net, batch, NULL, chunk);
        net_forward(net, parameters, NULL, false, chunk);
        uint32_t hits;
        result->loss_sum += loss_of(net, NULL, &hits, 1, chunk);
        result->hits += hits;
        for (int s = 0; s < chunk.count && net->answers; s++)
            answer_to(net->answers + (first + (size_t)s) * spec_answers(&net->spec), net, s, chunk.samples);
        count_progress(net, chunk);
    }
}

// The samples are those of the step, but nothing drops out of them.
void net_represent(Net *net, float *features, const float *parameters, const Batch *batch, const Noise *noise) {
    const int last = net->spec.layer_count - 1;
    begin(net, parameters, batch->count, false);
    for (uint32_t first = 0; first < batch->count; first += (uint32_t)net->buffers->chunk.samples) {
        Chunk chunk = chunk_at(net, batch, first);
        load_samples(net, batch, noise, chunk);
        net_forward(net, parameters, NULL, false, chunk);
        const LayerCall call = layer_call(net, last, &net->buffers->layers[last], parameters, chunk);
        contrast_rows(features + first * contrast_features(&net->spec), &call);
    }
}

// The lanes of the last layer are transposed to one row per sample.
void net_logits(Net *net, float *logits, const float *parameters, const Batch *batch) {
    begin(net, parameters, batch->count, false);
    for (uint32_t first = 0; first < batch->count; first += (uint32_t)net->buffers->chunk.samples) {
        Chunk chunk = chunk_at(net, batch, first);
        load_chunk(net, batch, NULL, chunk);
        net_forward(net, parameters, NULL, false, chunk);
        for (int s = 0; s < chunk.count; s++)
            for (int k = 0; k < net->spec.classes; k++)
                *logits++ = logits_of(net)[k * chunk.samples + s];
    }
}

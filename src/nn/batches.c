// Part of net.h: whole batches, of the passes of their chunks.
#include "net.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cores.h"
#include "nn/answers.h"
#include "nn/buffers.h"
#include "nn/contrast.h"
#include "nn/kernels/batch_statistics.h"
#include "nn/label_rows.h"
#include "nn/layers/layer.h"
#include "nn/linear_blas.h"
#include "nn/pass.h"
#include "nn/regression.h"

// *blas: NULL unless some layer is wide enough for OpenBLAS in the largest chunks that the net can have, and the user
// allows it.
static Status open_blas(Blas **blas, const Spec *spec, const Kernels *kernels, Error *err) {
    const int chunk = buffers_chunk(spec, 0, true).samples;
    bool allowed, pays = false;
    *blas = NULL;
    TRY(blas_allowed(&allowed, err));
    for (int l = 0; l < spec->layer_count; l++)
        pays |= linear_blas_pays(&spec->layers[l], chunk) || linear_blas_pays_backward(&spec->layers[l], chunk);
    return allowed && pays ? blas_open(blas, kernels, err) : STATUS_OK;
}

// Opens and closes OpenBLAS for its name, as version and core are known only once it is loaded.
Status net_blas_name(char name[BLAS_NAME_BYTES], const Spec *spec, const Kernels *kernels, Error *err) {
    Blas *blas;
    TRY(open_blas(&blas, spec, kernels, err));
    snprintf(name, BLAS_NAME_BYTES, "%s", blas ? blas_name(blas) : "");
    blas_close(blas);
    return STATUS_OK;
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
    assert(chunk.samples % chunk.part == 0);
    return STATUS_OK;
}

// A net with sequences, whose ops have no build for few samples, always takes vectors of the usual width. Relus are
// fused in the net's own copy of the spec: the caller's stays as it was parsed, since a GPU fuses other pairs.
Status net_init(Net *net, const Spec *spec, const Kernels *kernels, Error *err) {
    *net = (Net){.spec = *spec, .kernels = kernels, .few = spec_has(spec, OF_SEQUENCES) ? NULL : kernels->few};
    buffers_join_relus(&net->spec);
    TRY(open_blas(&net->blas, spec, kernels, err));
    const Status status = allocate(net, buffers_chunk(spec, kernels->lanes, net->blas), err);
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

// Loads a part of float32 samples: to in (C,H,W,N), or to rows if in is NULL.
static void load_values(const Net *net, float *in, float *rows, const Batch *of, Chunk part) {
    const size_t size = shape_size(net->spec.input);
    if (in)
        values_gather(in, of->pixels, of->indices, of->first, size, part.count, part.samples);
    else
        values_gather_rows(rows, of->pixels, of->indices, of->first, size, linear_row_floats(&net->spec.layers[0]),
                           part.count);
}

// Loads a part of images: to in (C,H,W,N), or to rows if in is NULL. Crops, flips and marks need a copy of the images,
// which is then gathered instead of the data set's own pixels, which all processes share. An evaluation has no noise,
// so it never crops.
static void load_images(const Net *net, float *in, float *rows, Batch of, const Noise *noise, Chunk part) {
    static const float one = 1, zero = 0;
    const Spec *spec = &net->spec;
    Shape shape = spec->input;
    uint8_t *images = net->buffers->images;
    if ((noise && augment_is_on(&spec->augment)) || of.triggered > 0) {
        augment_images(images, of.pixels, of.indices, of.first, &spec->augment, shape, noise, part.first, part.count);
        augment_mark(images, spec->trigger, shape, (int)of.triggered);
        of.pixels = images, of.indices = NULL, of.first = 0;
    }
    if (layer_has(&spec->layers[0], READS_NUMBERS)) {
        of.scale = &one, of.shift = &zero;
        shape = (Shape){1, 1, (int)shape_size(shape)}; // one scale for all, also if each number is a channel
    }
    if (in)
        net->at_work->gather(in, of.pixels, of.indices, of.first, of.scale, of.shift, shape, part.count, part.samples);
    else
        net->at_work->gather_rows(rows, of.pixels, of.indices, of.first, of.scale, of.shift, shape,
                                  linear_row_floats(&spec->layers[0]), part.count);
}

// The samples of a part of the batch, as a batch of their own.
static Batch batch_of(const Batch *batch, Chunk part) {
    const uint32_t count = (uint32_t)part.count;
    assert(part.first + count <= batch->count && batch->triggered <= batch->count);
    const uint32_t triggered = batch->triggered > part.first ? batch->triggered - part.first : 0;
    Batch of = *batch;
    of.indices = batch->indices ? batch->indices + part.first : NULL;
    of.first = batch->first + part.first;
    of.count = count;
    of.triggered = triggered < count ? triggered : count;
    return of;
}

// noise: NULL in evaluation, which neither crops nor flips. Parts are stored one after the other if the net has a body;
// otherwise the chunk is its only part.
static void load_samples(const Net *net, const Batch *batch, const Noise *noise, Chunk chunk) {
    const size_t step = shape_size(net->spec.input) * (size_t)net->buffers->chunk.part;
    for (int p = 0; p < buffers_parts(&net->buffers->chunk, chunk.count); p++) {
        const Chunk part = net_part(net, chunk, p);
        const Batch of = batch_of(batch, part);
        float *in = net->buffers->input ? net->buffers->input + (size_t)p * step : NULL;
        float *rows = net->buffers->layers[0].rows;
        if (net->spec.float_input)
            load_values(net, in, rows, &of, part);
        else
            load_images(net, in, rows, of, noise, part);
    }
}

// The label of a batch's sample at this place. A marked sample (a backdoor's) gets the attacker's label, whatever its
// own.
static uint16_t label_of(const Batch *batch, uint32_t place) {
    const uint32_t sample = batch->indices ? batch->indices[place] : batch->first + place;
    if (place < batch->triggered) return batch->trigger_label;
    assert(place < batch->count);
    return batch->label_of ? batch->label_of[batch->labels[sample]] : batch->labels[sample];
}

static void load_row(const Net *net, const float *labels, uint32_t sample, int s, Chunk chunk) {
    assert(s < chunk.samples && net->spec.classes > 0);
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

static const float *logits_of(const Net *net) {
    return net->buffers->layers[net->spec.layer_count - 1].out;
}

// The answer about sample s of the chunk, of a net that tells classes.
static Answer answer_of(const Net *net, int s, Chunk chunk) {
    return answer_of_classes(logits_of(net) + s, (size_t)chunk.samples, net->buffers->labels[s], net->spec.classes);
}

static uint32_t count_hits(const Net *net, Chunk chunk) {
    uint32_t hits = 0;
    for (int s = 0; s < chunk.count; s++)
        hits += answer_of(net, s, chunk).predicted == net->buffers->labels[s];
    return hits;
}

// Labels are smoothed in training only: an evaluation returns the loss of the labels themselves. The lanes after the
// last sample get a gradient of zero.
static double loss_of(const Net *net, float *gradient, uint32_t *hits, float scale, Chunk chunk) {
    const Spec *spec = &net->spec;
    const float *outputs = logits_of(net), *targets = net->buffers->targets;
    if (spec->one_vs_rest && hits) *hits = count_hits(net, chunk);
    if (spec->label_rows || spec->one_vs_rest)
        return label_rows_loss(gradient, spec->one_vs_rest ? NULL : hits, outputs, targets, scale, spec->classes,
                               chunk.count, chunk.samples);
    if (spec->squared_loss) return squared_loss(gradient, hits, outputs, targets, scale, chunk.count, chunk.samples);
    return net->at_work->softmax_cross_entropy(gradient, hits, outputs, net->buffers->labels, scale,
                                               gradient ? spec->smoothing : 0, spec->classes, chunk.count,
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

// Takes the chunk after *chunk, or the batch's first one if that is zeros, through the net; false after the last one,
// which has the samples that are left. noise: crops and flips images (NULL: not), and in training drops out.
static bool forward_next(Chunk *chunk, Net *net, const float *parameters, const Batch *batch, const Noise *noise,
                         bool trains) {
    const uint32_t first = chunk->first + (uint32_t)chunk->count;
    assert(first <= batch->count);
    if (first == 0) begin(net, parameters, batch->count, trains);
    *chunk = net_chunk(net, first, batch->count - first, net->buffers->chunk.samples);
    if (chunk->count == 0) return false;
    load_samples(net, batch, noise, *chunk);
    load_labels(net, batch, *chunk);
    assert(chunk->first == first && chunk->first + (uint32_t)chunk->count <= batch->count); // no sample is left out
    net_forward(net, parameters, trains ? noise : NULL, trains, *chunk);
    return true;
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
    assert(net->class_weights && !net->spec.squared_loss);
    for (int k = 0; k < net->spec.classes; k++)
        for (int s = 0; s < chunk.count; s++)
            gradient[k * chunk.samples + s] *= net->class_weights[net->buffers->labels[s]];
}

// Forward and backward pass of a batch, which must not be empty, chunk by chunk: a chunk's values are still in the
// cache when its backward pass reads them. Returns the sum of the samples' losses, without weights. The gradient is
// scaled by the batch's size in the loss, so that chunks simply add up to the gradient of the mean loss.
static double train(Net *net, const Pass *pass, const Batch *batch) {
    float scale = 1.0f / count_of(net, batch), *gradient = net->buffers->gradients[0];
    assert(batch->count > 0 && scale > 0);
    double loss_sum = 0;
    for (Chunk chunk = {0}; forward_next(&chunk, net, pass->parameters, batch, pass->noise, true);) {
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

// Writes the answers about sample s of the chunk (spec_answers).
static void answer_to(Answer *answers, const Net *net, int s, Chunk chunk) {
    const float *outputs = logits_of(net) + s, *targets = net->buffers->targets + s;
    if (net->spec.label_rows)
        label_rows_answers(answers, outputs, targets, net->spec.classes, (size_t)chunk.samples);
    else
        *answers = net->spec.squared_loss ? (Answer){.value = *outputs - *targets} : answer_of(net, s, chunk);
}

void net_answers_of(Answer *answers, const float *logits, const uint16_t *labels, uint32_t count, const Spec *spec) {
    if (!spec->label_rows)
        return answers_of_logits(answers, logits, labels, count, spec->squared_loss ? 0 : spec->classes);
    const size_t classes = (size_t)spec->classes;
    for (size_t i = 0; i < count * classes; i += classes)
        label_rows_answers(answers + i, logits + i, (const float *)(const void *)labels + i, spec->classes, 1);
}

// Losses are summed in double precision, chunk after chunk, in an order that depends on the batch alone.
void net_evaluate(Net *net, BatchResult *result, const float *parameters, const Batch *batch) {
    *result = (BatchResult){0};
    for (Chunk chunk = {0}; forward_next(&chunk, net, parameters, batch, NULL, false);) {
        uint32_t hits;
        result->loss_sum += loss_of(net, NULL, &hits, 1, chunk);
        result->hits += hits;
        for (int s = 0; s < chunk.count && net->answers; s++)
            answer_to(net->answers + (chunk.first + (size_t)s) * spec_answers(&net->spec), net, s, chunk);
        count_progress(net, chunk);
    }
}

// The samples are those of the step, but nothing drops out of them.
void net_represent(Net *net, float *features, const float *parameters, const Batch *batch, const Noise *noise) {
    const int last = net->spec.layer_count - 1;
    for (Chunk chunk = {0}; forward_next(&chunk, net, parameters, batch, noise, false);) {
        const LayerCall call = layer_call(net, last, &net->buffers->layers[last], parameters, chunk);
        contrast_rows(features + chunk.first * contrast_features(&net->spec), &call);
    }
}

// The lanes of the last layer are transposed to one row per sample.
void net_logits(Net *net, float *logits, const float *parameters, const Batch *batch) {
    for (Chunk chunk = {0}; forward_next(&chunk, net, parameters, batch, NULL, false);)
        for (int s = 0; s < chunk.count; s++)
            for (int k = 0; k < net->spec.classes; k++)
                *logits++ = logits_of(net)[k * chunk.samples + s];
}

#include "view.h"

#include <stdlib.h>
#include <string.h>

// Whether a view needs samples of its own: samples of bytes that become floats, or that are moved.
static bool copies(const RunConfig *config) {
    return config->view.noise.row != VIEW_NOISE_NONE || config->view.drift.row == VIEW_DRIFT_PIXELS;
}

Status view_init(View *view, const RunMemory *memory, Error *err) {
    const RunConfig *config = memory->config;
    const size_t batch = config->training.batch_size, most = batch > EVALUATION_CHUNK ? batch : EVALUATION_CHUNK;
    const size_t classes = (size_t)config->spec.classes, size = shape_size(config->spec.input);
    *view = (View){.memory = memory};
    if (!copies(config) && config->view.drift.row != VIEW_DRIFT_LABELS) return STATUS_OK;
    view->samples = own(&view->owned, copies(config) ? (most + 1) * size : 0, sizeof(float));
    view->order = own(&view->owned, most > classes ? most : classes, sizeof *view->order);
    view->labels = own(&view->owned, most, memory->data.items.label_bytes);
    view->own_labels = own(&view->owned, classes, sizeof *view->own_labels);
    if (!view->owned.lacks_memory) return STATUS_OK;
    view_free(view);
    return fail(err, STATUS_OS, "no memory for a view of %zu samples", most);
}

void view_free(View *view) {
    owned_free(&view->owned);
    *view = (View){0};
}

Batch view_batch(const RunMemory *memory, const DatasetSplit *split, const uint32_t *indices, uint32_t count) {
    return (Batch){.pixels = split->pixels,
                   .labels = split->labels,
                   .indices = indices,
                   .count = count,
                   .scale = memory->data.scale,
                   .shift = memory->data.shift};
}

// A view is a pure function of seed, round and client: nothing about it is stored between rounds, and any worker sees a
// client's samples as any other does. An attacker's false labels apply on top of drift's.
void view_begin(View *view, uint32_t client, uint32_t round, const uint16_t *label_of) {
    const RunConfig *config = view->memory->config;
    view->label_of = label_of;
    view->holding = view_holding(&config->view, config->seed, round, client, config->clients);
    view->of_test_set = client == VIEW_TEST_SET;
    if (!view->order) return;
    view->client = client;
    view->concept = view_concept(&config->view.drift, config->seed, round, client);
    view->noisy = config->view.noise.row != VIEW_NOISE_NONE && client != VIEW_TEST_SET;
    if (config->view.drift.row != VIEW_DRIFT_LABELS || view->concept == 0) return;
    view_labels(view->own_labels, view->order, config->spec.classes, config->seed, view->concept);
    for (int label = 0; label < config->spec.classes && label_of; label++)
        view->own_labels[label] = label_of[view->own_labels[label]];
    view->label_of = view->own_labels;
}

// to = from, moved down and right by `step` pixels; pixels that nothing moves to are black.
static void move(uint8_t *to, const uint8_t *from, Shape shape, int step, size_t pixel_bytes) {
    const size_t row_bytes = (size_t)shape.columns * pixel_bytes;
    memset(to, 0, shape_size(shape) * pixel_bytes);
    for (int row = step; row < shape.rows * shape.channels && step < shape.columns; row++)
        if (row % shape.rows >= step)
            memcpy(to + (size_t)row * row_bytes + (size_t)step * pixel_bytes, from + (size_t)(row - step) * row_bytes,
                   row_bytes - (size_t)step * pixel_bytes);
}

static void normalise(float *to, const uint8_t *from, Shape shape, const float *scale, const float *shift) {
    const size_t plane = (size_t)shape.rows * (size_t)shape.columns;
    for (size_t channel = 0; channel < (size_t)shape.channels; channel++)
        for (size_t i = channel * plane; i < (channel + 1) * plane; i++)
            to[i] = (float)from[i] * scale[channel] + shift[channel];
}

uint32_t view_moved(const View *view) {
    const RunConfig *config = view->memory->config;
    const Chosen *drift = &config->view.drift;
    const Shape shape = config->spec.input;
    const uint64_t most = (uint64_t)(shape.rows > shape.columns ? shape.rows : shape.columns);
    const uint64_t moved = drift->row == VIEW_DRIFT_PIXELS ? view->concept * (uint64_t)drift->number[3] : 0;
    return (uint32_t)(moved < most ? moved : most);
}

// Writes the client's view of one sample to its place in the batch. Samples are moved before they become floats, since
// black is 0 as a byte but not after normalisation.
static void see(View *view, uint32_t place, uint32_t index, const Batch *batch, uint8_t *moved) {
    const RunConfig *config = view->memory->config;
    const bool bytes = view->memory->data.items.pixel_bytes == 1;
    const Shape shape = config->spec.input;
    const size_t size = shape_size(shape), from_bytes = bytes ? 1 : sizeof(float);
    const size_t to_bytes = config->spec.float_input ? sizeof(float) : 1;
    const uint8_t *from = batch->pixels + index * size * from_bytes;
    uint8_t *to = (uint8_t *)view->samples + place * size * to_bytes;
    const uint32_t step = view_moved(view);
    if (step > 0) {
        move(moved, from, shape, (int)step, from_bytes);
        from = moved;
    }
    if (to_bytes == from_bytes)
        memcpy(to, from, size * from_bytes);
    else
        normalise((float *)(void *)to, from, shape, batch->scale, batch->shift);
    // The random numbers of a client's test samples follow those of the training samples.
    const uint32_t draw = index + (view->of_test_set ? view->memory->data.train.count : 0);
    if (view->noisy)
        view_add_noise((float *)(void *)to, shape, bytes ? batch->scale : NULL, &config->view.noise, config->seed,
                       view->client, config->clients, draw);
}

// Copies a batch only where the view changes samples or the net takes floats: otherwise the net reads the shared data
// set in place, without any copy per worker.
static void copy_samples(View *view, Batch *batch) {
    const RunConfig *config = view->memory->config;
    const size_t label_bytes = view->memory->data.items.label_bytes, size = shape_size(config->spec.input);
    // There is room for one more sample after the last: `moved`.
    uint8_t *labels = (uint8_t *)view->labels, *moved = (uint8_t *)view->samples + batch->count * size * sizeof(float);
    for (uint32_t place = 0; place < batch->count; place++) {
        const uint32_t index = batch->indices ? batch->indices[place] : batch->first + place;
        see(view, place, index, batch, moved);
        memcpy(labels + place * label_bytes, (const uint8_t *)batch->labels + index * label_bytes, label_bytes);
    }
    batch->pixels = view->samples;
    batch->labels = view->labels;
    batch->indices = NULL;
    batch->first = 0;
}

void view_apply(View *view, Batch *batch) {
    batch->label_of = view->label_of;
    const bool differs = view->noisy || view->concept > 0 || view->memory->config->spec.float_input;
    if (view->samples && differs) copy_samples(view, batch);
}

bool view_differs(const View *view) {
    return view->noisy || view->label_of || (view->samples && view->concept > 0);
}

const uint32_t *view_samples(const View *view, uint32_t *count) {
    return partition_client(&view->memory->partition, view->holding, count);
}

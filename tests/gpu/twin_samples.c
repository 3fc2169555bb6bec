// Samples and losses that a data set of floats has, and samples as clients see them: marked, moved, with noise and
// other labels. The CPU makes a copy of such samples; here each is computed by its definition.
#include "gpu.h"
#include "gpu_progress.h"
#include "gpu_trial.h"
#include "nn/label_rows.h"
#include "nn/regression.h"
#include "nn/sample_view.h"
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

// A view for each model; model 1 sees samples as they are.
static void make_views(SampleView *views, int models) {
    for (int m = 0; m < models; m++)
        views[m] = m == 1 ? (SampleView){0}
                          : (SampleView){.marks = 2,
                                         .last_marks = 1,
                                         .trigger = 2,
                                         .label = 4,
                                         .moved = (uint32_t)m % 4,
                                         .noise = {0.25 * m, 7, (uint32_t)m, 1, 0, 3, 2}};
}

// Value `at` of a sample that is in `place` of its batch, as model m sees it.
static float seen_value(const Trial *trial, const SampleView *view, int m, uint32_t place, const uint8_t *bytes,
                        const float *floats, uint32_t index, Shape shape, uint32_t at) {
    const float scale[] = {0.5f, 2};
    const uint32_t plane = (uint32_t)(shape.rows * shape.columns), channel = at / plane, pixel = at % plane;
    const uint32_t row = pixel / (uint32_t)shape.columns, column = pixel % (uint32_t)shape.columns;
    const bool whole = trial->counts[m] == (uint32_t)trial->samples;
    const bool marked = place < (whole ? view->marks : view->last_marks),
               stays = row >= view->moved && column >= view->moved;
    const size_t from = (size_t)index * shape_size(shape) + at - view->moved * ((uint32_t)shape.columns + 1);
    float value;
    if (floats)
        value = stays ? floats[from] : 0;
    else if (marked && row < view->trigger && column < view->trigger)
        value = 255 * scale[channel] - 1;
    else
        value = (float)(stays ? bytes[from] : 0) * scale[channel] - 1;
    const SampleNoise *noise = &view->noise;
    if (noise->deviation == 0 || (int)row < noise->first_row || (int)row >= noise->first_row + noise->rows ||
        (int)column < noise->first_column || (int)column >= noise->first_column + noise->columns)
        return value;
    const double sigma = noise->deviation * (floats ? 1 : 255 * (double)scale[channel]);
    return value + (float)(sigma * rng_normal(rng_key(7, RNG_FEATURES, noise->client, index, 0), at));
}

static void check_seen(const Trial *trial, const SampleView *views, const void *gpu_views, const uint32_t *indices,
                       const void *gpu_indices, bool as_floats) {
    const Shape shape = {2, 5, 3};
    const size_t size = shape_size(shape), columns = (size_t)trial->samples;
    const float scale[] = {0.5f, 2}, shift[] = {-1, -1};
    const Tensor samples = tensor_random(ROWS * size, 4);
    uint8_t *bytes = malloc(ROWS * size);
    assert_non_null(bytes);
    for (size_t i = 0; i < ROWS * size; i++)
        bytes[i] = (uint8_t)(i * 41);
    const GpuTensor gpu[] = {as_floats ? gpu_copy(samples.at, samples.count * sizeof(float), 0)
                                       : gpu_copy(bytes, ROWS * size, 0),
                             gpu_copy(scale, sizeof scale, 0), gpu_copy(shift, sizeof shift, 0)};
    GpuProgress progress = progress_of(trial);
    progress.on_gpu.views = gpu_views;
    const Values out = values_of(trial, size * columns, 0);
    const float *gpu_scale = as_floats ? NULL : gpu_floats(gpu[1]);
    cuda_gather(on_gpu(&out), gpu[0].at, gpu_indices, &progress.on_gpu, gpu_scale, gpu_floats(gpu[2]), shape, NULL,
                &trial->step);
    cuda_add_noise(on_gpu(&out), gpu_indices, &progress.on_gpu, gpu_scale, shape, &trial->step);
    for (int m = 0; m < trial->models; m++)
        for (uint32_t i = 0; i < size * columns; i++) {
            const uint32_t s = i % (uint32_t)columns;
            out.host[m].at[i] = s >= trial->counts[m]
                                    ? 0
                                    : seen_value(trial, &views[m], m, s, bytes, as_floats ? samples.at : NULL,
                                                 indices[first_of(m) + s], shape, i / (uint32_t)columns);
        }
    compare("seen samples", &out, NULL, 1, 1e-6);
    drop(&out);
    gpu_progress_free(&progress);
    for (size_t i = 0; i < LENGTH(gpu); i++)
        gpu_free(gpu[i]);
    free(bytes);
    tensor_free(samples);
}

// Each model replaces labels in its own way. Hits tell the label by which a sample is judged.
static void check_seen_labels(const Trial *trial, const SampleView *views, const void *gpu_views,
                              const uint32_t *indices, const void *gpu_indices) {
    enum { CLASSES = 5 };
    uint16_t labels[ROWS], labels_of[MOST_MODELS * CLASSES];
    uint32_t hits[MOST_MODELS];
    for (int i = 0; i < ROWS; i++)
        labels[i] = (uint16_t)(i * 3 % CLASSES);
    for (int m = 0; m < MOST_MODELS; m++)
        for (int k = 0; k < CLASSES; k++)
            labels_of[m * CLASSES + k] = (uint16_t)((k + m) % CLASSES);
    const GpuTensor gpu[] = {gpu_copy(labels, sizeof labels, 0), gpu_copy(labels_of, sizeof labels_of, 0)};
    const Values logits = lanes(trial, CLASSES, 8);
    GpuProgress progress = progress_of(trial);
    progress.on_gpu.views = gpu_views;
    progress.on_gpu.labels_of = gpu_at(gpu[1]);
    cuda_softmax_cross_entropy(NULL, &progress.on_gpu, on_gpu(&logits), gpu_at(gpu[0]), gpu_indices, NULL, 0, CLASSES,
                               &trial->step);
    gpu_progress_read(hits, &progress, progress.on_gpu.hits);
    for (int m = 0; m < trial->models; m++) {
        const uint32_t count = trial->counts[m],
                       marks = count == (uint32_t)trial->samples ? views[m].marks : views[m].last_marks;
        uint16_t chosen[ROWS];
        uint32_t right;
        for (uint32_t s = 0; s < count; s++)
            chosen[s] =
                s < marks ? (uint16_t)views[m].label : labels_of[m * CLASSES + labels[indices[first_of(m) + s]]];
        trial->cpu->softmax_cross_entropy(NULL, &right, logits.host[m].at, chosen, 1, 0, CLASSES, (int)count,
                                          trial->samples);
        assert_int_equal(hits[m], right);
    }
    gpu_progress_free(&progress);
    drop(&logits);
    for (size_t i = 0; i < LENGTH(gpu); i++)
        gpu_free(gpu[i]);
}

static void check_views(const Trial *trial) {
    SampleView views[MOST_MODELS];
    uint32_t indices[ROWS];
    make_views(views, trial->models);
    for (uint32_t i = 0; i < ROWS; i++)
        indices[i] = i * 37 % ROWS;
    const GpuTensor gpu[] = {gpu_copy(views, (size_t)trial->models * sizeof *views, 0),
                             gpu_copy(indices, sizeof indices, 0)};
    for (int as_floats = 0; as_floats < 2; as_floats++)
        check_seen(trial, views, gpu[0].at, indices, gpu[1].at, as_floats);
    check_seen_labels(trial, views, gpu[0].at, indices, gpu[1].at);
    for (size_t i = 0; i < LENGTH(gpu); i++)
        gpu_free(gpu[i]);
}

// Rows of labels, or one label for each sample, whose hits are those of the largest output.
static void check_labels(const Trial *trial, bool has_rows, const uint32_t *indices, const void *gpu_indices) {
    enum { LABELS = 3 };
    float rows[ROWS * LABELS];
    uint16_t labels[ROWS];
    for (int i = 0; i < ROWS; i++) {
        labels[i] = (uint16_t)(i * 7 % LABELS);
        for (int k = 0; k < LABELS; k++)
            rows[i * LABELS + k] = (float)(has_rows ? (i >> k) & 1 : k == labels[i]);
    }
    const GpuTensor gpu[] = {gpu_copy(rows, sizeof rows, 0), gpu_copy(labels, sizeof labels, 0)};
    const Values outputs = lanes(trial, LABELS, 6), gradient = values_of(trial, outputs.each, 0);
    GpuProgress progress = progress_of(trial);
    uint32_t hits[MOST_MODELS];
    double losses[MOST_MODELS];
    for (int twice = 0; twice < 2; twice++)
        cuda_binary_cross_entropy(twice ? on_gpu(&gradient) : NULL, &progress.on_gpu, on_gpu(&outputs),
                                  has_rows ? gpu_at(gpu[0]) : NULL, gpu_at(gpu[1]), gpu_indices, LABELS, &trial->step);
    gpu_read(losses, progress.losses);
    gpu_progress_read(hits, &progress, progress.on_gpu.hits);
    for (int m = 0; m < trial->models; m++) {
        const uint32_t count = trial->counts[m];
        const size_t samples = (size_t)trial->samples;
        const float *at = outputs.host[m].at;
        Tensor targets = tensor_new(LABELS * samples);
        uint32_t right, largest = 0;
        for (uint32_t s = 0; s < count; s++) {
            const uint32_t row = indices ? indices[first_of(m) + s] : first_of(m) + s;
            for (size_t k = 0; k < LABELS; k++)
                targets.at[k * samples + s] = rows[row * LABELS + k];
            const int best = at[samples + s] > at[s]       ? at[2 * samples + s] > at[samples + s] ? 2 : 1
                             : at[2 * samples + s] > at[s] ? 2
                                                           : 0;
            largest += best == labels[row];
        }
        const double loss = label_rows_loss(gradient.host[m].at, &right, at, targets.at,
                                            count ? 1.0f / (float)count : 1, LABELS, (int)count, trial->samples);
        assert_int_equal(hits[m], has_rows ? right : largest);
        if (!(fabs(losses[m] - 2 * loss) <= 1e-12 * (1 + loss)))
            fail_msg("loss of the labels of model %d: %.17g, expected %.17g", m, losses[m], 2 * loss);
        tensor_free(targets);
    }
    compare("gradient of binary cross-entropy", &gradient, NULL, 1, 1e-7);
    gpu_progress_free(&progress);
    for (size_t i = 0; i < LENGTH(gpu); i++)
        gpu_free(gpu[i]);
    drop_all(outputs, gradient);
}

static void check_values(const Trial *trial) {
    uint32_t indices[ROWS];
    for (uint32_t i = 0; i < ROWS; i++)
        indices[i] = i * 37 % ROWS;
    const GpuTensor gpu = gpu_copy(indices, sizeof indices, 0);
    for (int indexed = 0; indexed < 2; indexed++) {
        check_floats(trial, indexed ? indices : NULL, indexed ? gpu.at : NULL);
        check_distances(trial, indexed ? indices : NULL, indexed ? gpu.at : NULL);
        for (int rows = 0; rows < 2; rows++)
            check_labels(trial, rows, indexed ? indices : NULL, indexed ? gpu.at : NULL);
    }
    gpu_free(gpu);
}

static const Twin rows[] = {
    // Plain C on the CPU (regression.h).
    {0, 0, " cuda_squared_loss cuda_binary_cross_entropy ", check_values},
    // The CPU's workers copy samples as clients see them (worker/view.h).
    {0, 0, " cuda_gather cuda_add_noise cuda_softmax_cross_entropy ", check_views},
};

const Twins sample_twins = {rows, LENGTH(rows)};

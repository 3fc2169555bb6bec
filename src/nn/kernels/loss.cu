// The GPU's side of loss.c.
#include "nn/cuda/cuda_launch.h"
#include "nn/cuda/cuda_progress.h"

namespace {

enum { MOST_THREADS = 256 };

// The numbers of one sample's softmax.
struct Scores {
    float largest; // logit
    float sum;     // of e^(logit - largest)
    float correct; // the mean logit under the label's shares
    int best;      // class of the first largest logit
};

// The label's distribution: 1 and 0 without smoothing.
// With smoothing every class gets smoothing / classes, and the label the rest besides.
struct Shares {
    float own, others;
};

// logits: of one sample, `samples` floats apart. The largest logit is subtracted before e^x, so that no sum overflows.
__device__ Scores scores_of(const float *logits, int label, Shares shares, int classes, size_t samples) {
    Scores scores = {logits[0], 0, 0, 0};
    for (int k = 0; k < classes; k++) {
        float logit = logits[(size_t)k * samples];
        if (logit > scores.largest) {
            scores.largest = logit;
            scores.best = k;
        }
        scores.correct += (k == label ? shares.own : shares.others) * logit;
    }
    for (int k = 0; k < classes; k++)
        scores.sum += expf(logits[(size_t)k * samples] - scores.largest);
    return scores;
}

// d loss / d logit = (probability - the label's share) * scale. The exponentials are computed again, as on the CPU:
// storing them would take a tensor of the logits' size.
__device__ void write_gradient(float *gradient, const float *logits, const Scores &scores, int label, Shares shares,
                               float scale, int classes, size_t samples) {
    float share = scale / scores.sum;
    for (int k = 0; k < classes; k++) {
        float probability = expf(logits[(size_t)k * samples] - scores.largest) * share;
        gradient[(size_t)k * samples] = probability - (k == label ? shares.own : shares.others) * scale;
    }
}

// Adds up what a block's threads have left in losses and correct (blockDim.x, a power of two): in pairs, in a fixed
// order. Then it ends the step: the model's task moves on, in the last kernel of the step that reads its place. Hits
// are counted in evaluation only.
__device__ void end_step(const CudaProgress &progress, double *losses, uint32_t *correct, bool trains) {
    const uint32_t m = blockIdx.x, t = threadIdx.x, count = progress.counts[m];
    // Loaded before the sums, so that no store waits for its own load.
    const double loss_sum = progress.loss_sums[m];
    const uint32_t hits = progress.hits[m], next = progress.next[m], left = progress.left[m];
    const uint32_t number = progress.next_numbers[m];
    for (uint32_t half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (t < half) {
            losses[t] += losses[t + half];
            correct[t] += correct[t + half];
        }
    }
    if (t > 0) return;
    progress.loss_sums[m] = loss_sum + losses[0];
    if (!trains) progress.hits[m] = hits + correct[0];
    progress.next[m] = next + count; // later kernels of the step do not read the task
    progress.left[m] = left - count;
    progress.next_numbers[m] = number + 1;
}

// The label of the model's sample s whose label in the data set is given: a marked sample has the attacker's.
__device__ int label_of(const CudaProgress &progress, uint32_t m, uint32_t s, int label, int classes) {
    const SampleView *view = progress.views ? &progress.views[m] : nullptr;
    if (view && s < sample_view_marks(view, progress.counts[m], progress.batch_size)) return (int)view->label;
    return progress.labels_of ? progress.labels_of[m * (uint32_t)classes + (uint32_t)label] : label;
}

// The labels of a step by the numbers of its rows, and the classes' weights, or NULL. All are device memory.
struct Labels {
    const uint16_t *labels;
    const uint32_t *indices;
    const float *class_weights; // (classes)
    int classes;
};

// The number of a model's sample s in the data set: tasks count places of the order, or samples where there is none.
__device__ uint32_t row_of(const CudaProgress &progress, const uint32_t *indices, uint32_t m, uint32_t s) {
    const uint32_t row = progress.firsts[m] + s;
    return indices ? indices[row] : row;
}

__device__ int label_of(const CudaProgress &progress, const Labels &of, uint32_t m, uint32_t s) {
    return label_of(progress, m, s, of.labels[row_of(progress, of.indices, m, s)], of.classes);
}

// The weight of the model's batch, for all threads of its block: its number of samples, or the sum of their classes'
// weights, in pairs. sums (blockDim.x, a power of two): shared memory.
__device__ float batch_weight(const CudaProgress &progress, const Labels &of, double *sums) {
    const uint32_t m = blockIdx.x, t = threadIdx.x, count = progress.counts[m];
    if (!of.class_weights) return (float)count;
    sums[t] = 0;
    for (uint32_t s = t; s < count; s += blockDim.x)
        sums[t] += (double)of.class_weights[label_of(progress, of, m, s)];
    for (uint32_t half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (t < half) sums[t] += sums[t + half];
    }
    __syncthreads();
    const float sum = (float)sums[0];
    __syncthreads(); // the caller may write over the sums
    return sum;
}

// One block per model, one thread per sample (or several samples, one after another). A sample's loss is log(sum) +
// largest - correct, in double precision as on the CPU, since losses of whole epochs are added up; it has no weight.
// The gradient's scale is the model's own: models of a launch have batches of different sizes.
__global__ void __launch_bounds__(MOST_THREADS)
    softmax_cross_entropy(float *gradient, const __grid_constant__ CudaProgress progress, const float *logits,
                          Labels of, Shares shares, uint32_t samples) {
    __shared__ double losses[MOST_THREADS];
    __shared__ uint32_t correct[MOST_THREADS];
    const uint32_t m = blockIdx.x, t = threadIdx.x, count = progress.counts[m];
    if (count == 0) return; // the whole block: the model has done its task
    const int classes = of.classes;
    const size_t model = (size_t)m * (size_t)classes * samples;
    const float scale = gradient ? 1.0f / batch_weight(progress, of, losses) : 0;
    double loss = 0;
    uint32_t right = 0;
    for (uint32_t s = t; s < samples; s += blockDim.x) {
        float *to = gradient ? gradient + model + s : gradient;
        if (s >= count) {
            for (int k = 0; to && k < classes; k++)
                to[(size_t)k * samples] = 0;
            continue;
        }
        const int label = label_of(progress, of, m, s);
        const Scores scores = scores_of(logits + model + s, label, shares, classes, samples);
        const float own = of.class_weights ? scale * of.class_weights[label] : scale;
        if (to) write_gradient(to, logits + model + s, scores, label, shares, own, classes, samples);
        loss += log((double)scores.sum) + (double)scores.largest - (double)scores.correct;
        right += scores.best == label;
    }
    losses[t] = loss;
    correct[t] = right;
    end_step(progress, losses, correct, gradient != nullptr);
}

// Blocks and threads as above, and the CPU's formulas (regression.c). Products of doubles made of floats are exact, so
// that no contraction rounds otherwise.
__global__ void __launch_bounds__(MOST_THREADS)
    squared_loss(float *gradient, const __grid_constant__ CudaProgress progress, const float *outputs,
                 const float *targets, const uint32_t *indices, uint32_t samples) {
    __shared__ double losses[MOST_THREADS];
    __shared__ uint32_t correct[MOST_THREADS];
    const uint32_t m = blockIdx.x, t = threadIdx.x, count = progress.counts[m];
    if (count == 0) return; // the whole block
    const float scale = 1.0f / (float)count;
    double loss = 0;
    uint32_t near = 0;
    for (uint32_t s = t; s < samples; s += blockDim.x) {
        const size_t at = (size_t)m * samples + s;
        if (s >= count) {
            if (gradient) gradient[at] = 0;
            continue;
        }
        const float distance = outputs[at] - targets[row_of(progress, indices, m, s)];
        if (gradient) gradient[at] = scale * distance;
        loss += (double)distance * (double)distance;
        near += fabsf(distance) < 0.5f;
    }
    losses[t] = loss;
    correct[t] = near;
    end_step(progress, losses, correct, gradient != nullptr);
}

// Binary cross-entropy by the CPU's formulas (label_rows.c), in doubles as there: a batch has few outputs beside the
// values of its layers, so that slow doubles of a small GPU cost little. rows (samples, classes): each sample's labels,
// or NULL where class k applies to the samples with label k alone; a hit is then the largest output, as of a softmax.
__global__ void __launch_bounds__(MOST_THREADS)
    binary_cross_entropy(float *gradient, const __grid_constant__ CudaProgress progress, const float *outputs,
                         const float *rows, Labels of, uint32_t samples) {
    __shared__ double losses[MOST_THREADS];
    __shared__ uint32_t correct[MOST_THREADS];
    const uint32_t m = blockIdx.x, t = threadIdx.x, count = progress.counts[m];
    if (count == 0) return; // the whole block
    const size_t model = (size_t)m * (size_t)of.classes * samples;
    const float scale = 1.0f / (float)count;
    double sum = 0;
    uint32_t right = 0;
    for (uint32_t s = t; s < samples; s += blockDim.x) {
        const bool is_there = s < count;
        const float *row = is_there && rows ? rows + row_of(progress, of.indices, m, s) * (size_t)of.classes : nullptr;
        const int label = is_there && !rows ? label_of(progress, of, m, s) : -1;
        float best = outputs[model + s]; // as of a softmax: the first, unless another is larger, which none is than NaN
        double loss = 0;
        bool is_right = row || label == 0;
        for (int k = 0; k < of.classes; k++) {
            const size_t at = model + (size_t)k * samples + s;
            const double z = (double)outputs[at], y = row ? (double)row[k] : k == label, tail = exp(-fabs(z));
            const double chance = (z < 0 ? tail : 1) / (1 + tail);
            loss += fmax(z, 0.0) - z * y + log1p(tail);
            if (gradient) gradient[at] = is_there ? (float)((double)scale * (chance - y) / of.classes) : 0;
            if (row) is_right &= (z > 0) == (y > 0.5);
            if (!row && outputs[at] > best) best = outputs[at], is_right = k == label;
        }
        if (!is_there) continue;
        sum += loss / of.classes;
        right += is_right;
    }
    losses[t] = sum;
    correct[t] = right;
    end_step(progress, losses, correct, gradient != nullptr);
}

// As many threads as samples, in a power of two, for the sums in pairs; more samples than MOST_THREADS take turns.
uint32_t threads_for(const CudaStep *step) {
    uint32_t threads = 32;
    while (threads < (uint32_t)step->samples && threads < MOST_THREADS)
        threads *= 2;
    return threads;
}

} // namespace

void cuda_softmax_cross_entropy(float *gradient, const CudaProgress *progress, const float *logits,
                                const uint16_t *labels, const uint32_t *indices, const float *class_weights,
                                float smoothing, int classes, const CudaStep *step) {
    const float each = smoothing / (float)classes;
    const Shares shares = {1 - smoothing + each, each};
    const Labels of = {labels, indices, class_weights, classes};
    launch(softmax_cross_entropy, (size_t)step->models, threads_for(step), step->stream, gradient, *progress, logits,
           of, shares, (uint32_t)step->samples);
}

void cuda_binary_cross_entropy(float *gradient, const CudaProgress *progress, const float *outputs, const float *rows,
                               const uint16_t *labels, const uint32_t *indices, int classes, const CudaStep *step) {
    const Labels of = {labels, indices, nullptr, classes};
    launch(binary_cross_entropy, (size_t)step->models, threads_for(step), step->stream, gradient, *progress, outputs,
           rows, of, (uint32_t)step->samples);
}

void cuda_squared_loss(float *gradient, const CudaProgress *progress, const float *outputs, const float *targets,
                       const uint32_t *indices, const CudaStep *step) {
    launch(squared_loss, (size_t)step->models, threads_for(step), step->stream, gradient, *progress, outputs, targets,
           indices, (uint32_t)step->samples);
}

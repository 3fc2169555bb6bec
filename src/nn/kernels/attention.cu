// The GPU's side of attention.c, between the projections: shares, contexts and their gradients. Each thread computes
// values of its own, so that no sum is shared and its order is fixed.
#include "nn/cuda/cuda_attention.h"
#include "nn/cuda/cuda_launch.h"
#include "nn/kernels/activation.h"

// For step t and the steps u that it attends to, q, k and v being the projected queries, keys and values:
//   score(t,u) = scale * q(t) . k(u)      share(t,.) = softmax of score(t,.)
//   context(t) = sum over u of share(t,u) v(u)
// The backward pass, where d is a gradient, dv that of v:
//   dv(u) = sum over t of share(t,u) dcontext(t)
//   dscore(t,u) = share(t,u) * (dcontext(t) . v(u) - dcontext(t) . context(t))
//   dq(t) = scale * sum over u of dscore(t,u) k(u)      dk(u) = scale * sum over t of dscore(t,u) q(t)
// The subtracted term is the mean of dshare(t,.) under share(t,.), which the softmax takes away: it equals the product
// of context and dcontext, so that one kernel needs no sum over all shares first.
//
// The shares (heads, T,T, N) are stored for the backward pass. That suits sequences of hundreds of steps; for
// thousands, computing them again block by block would save the memory.
namespace {

// Number of steps that step t attends to.
__device__ uint32_t seen_from(const AttentionKept &kept, uint32_t t) {
    return kept.causal ? t + 1 : kept.steps;
}

// Offsets of a thread's sample of one step in one head. Queries, keys and values are `width` features apart.
struct Head {
    uint32_t features, step;   // of the head; the thread's own
    size_t projected, context; // offsets of the head's first feature at the first step
    size_t shares;             // offset of the first share of the thread's step
    __device__ Head(const AttentionKept &kept, ModelItem at) {
        const uint32_t place = at.item / kept.samples, sample = at.item - place * kept.samples;
        const uint32_t head = place / kept.steps;
        features = kept.width / kept.heads;
        step = place - head * kept.steps;
        const size_t first = (size_t)at.model * kept.steps;
        projected = (first * 3 * kept.width + (size_t)head * features) * kept.samples + sample;
        context = (first * kept.width + (size_t)head * features) * kept.samples + sample;
        shares = (((size_t)at.model * kept.heads + head) * kept.steps + step) * kept.steps * kept.samples + sample;
    }
};

// Neighbouring threads have neighbouring samples, so that a warp reads each feature in one piece; the sum has the order
// of the features.
__device__ float dot(const float *a, const float *b, uint32_t features, uint32_t samples) {
    float sum = 0;
    for (uint32_t f = 0; f < features; f++)
        sum += a[(size_t)f * samples] * b[(size_t)f * samples];
    return sum;
}

// Computes a row of shares. A thread per sample, step and head. The exponential is that of the CPU's functions
// (small_exponential), not the library's. Three passes over the row, which stays in global memory as a thread has no
// registers for it: scores and their maximum, exponentials and their sum, the division. With the maximum subtracted no
// exponential overflows.
__global__ void __launch_bounds__(ITEM_THREADS) share(AttentionKept kept, uint32_t items, const uint32_t *counts) {
    const ModelItem at = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, items);
    if (!has_work(at, items, counts)) return;
    const Head head(kept, at);
    const size_t step = (size_t)3 * kept.width * kept.samples;
    const float *query = kept.projected + head.projected + head.step * step;
    const float *key = kept.projected + head.projected + (size_t)kept.width * kept.samples;
    const uint32_t seen = seen_from(kept, head.step);
    float *shares = kept.shares + head.shares, largest = 0, sum = 0;
    for (uint32_t u = 0; u < seen; u++) {
        const float score = kept.scale * dot(query, key + u * step, head.features, kept.samples);
        shares[(size_t)u * kept.samples] = score;
        largest = u == 0 || score > largest ? score : largest;
    }
    for (uint32_t u = 0; u < seen; u++)
        sum += shares[(size_t)u * kept.samples] = small_exponential(shares[(size_t)u * kept.samples] - largest);
    for (uint32_t u = 0; u < seen; u++)
        shares[(size_t)u * kept.samples] /= sum;
}

// Overwrites a row of shares with the gradients of its scores. A thread per sample, step and head.
__global__ void __launch_bounds__(ITEM_THREADS) share_back(AttentionKept kept, uint32_t items, const uint32_t *counts) {
    const ModelItem at = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, items);
    if (!has_work(at, items, counts)) return;
    const Head head(kept, at);
    const size_t step = (size_t)3 * kept.width * kept.samples;
    const size_t context = head.context + (size_t)head.step * kept.width * kept.samples;
    const float *value = kept.projected + head.projected + (size_t)2 * kept.width * kept.samples;
    const float *given = kept.context_gradient + context;
    const float mean = dot(given, kept.context + context, head.features, kept.samples);
    float *shares = kept.shares + head.shares;
    for (uint32_t u = 0; u < seen_from(kept, head.step); u++)
        shares[(size_t)u * kept.samples] *=
            (dot(given, value + u * step, head.features, kept.samples) - mean) * kept.scale;
}

// Offsets of a thread's sample of one feature of one step.
struct Feature {
    uint32_t step;
    size_t projected, context; // of the feature at the first step
    size_t shares;             // of its head
    __device__ Feature(const AttentionKept &kept, ModelItem at) {
        const uint32_t place = at.item / kept.samples, sample = at.item - place * kept.samples;
        step = place / kept.width;
        const uint32_t feature = place - step * kept.width, head = feature / (kept.width / kept.heads);
        const size_t first = (size_t)at.model * kept.steps;
        projected = (first * 3 * kept.width + feature) * kept.samples + sample;
        context = (first * kept.width + feature) * kept.samples + sample;
        shares = ((size_t)at.model * kept.heads + head) * kept.steps * kept.steps * kept.samples + sample;
    }
};

// Computes a value of a context. A thread per sample, feature and step.
__global__ void __launch_bounds__(ITEM_THREADS) mix(AttentionKept kept, uint32_t items, const uint32_t *counts) {
    const ModelItem at = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, items);
    if (!has_work(at, items, counts)) return;
    const Feature own(kept, at);
    const size_t block = (size_t)kept.width * kept.samples;
    const float *value = kept.projected + own.projected + 2 * block;
    const float *shares = kept.shares + own.shares + (size_t)own.step * kept.steps * kept.samples;
    float sum = 0;
    for (uint32_t u = 0; u < seen_from(kept, own.step); u++)
        sum += shares[(size_t)u * kept.samples] * value[3 * u * block];
    kept.context[own.context + own.step * block] = sum;
}

// Computes the gradient of a value of `value`: a sum over the steps that attend to this one.
__global__ void __launch_bounds__(ITEM_THREADS)
    values_back(AttentionKept kept, uint32_t items, const uint32_t *counts) {
    const ModelItem at = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, items);
    if (!has_work(at, items, counts)) return;
    const Feature own(kept, at);
    const size_t block = (size_t)kept.width * kept.samples, row = (size_t)kept.steps * kept.samples;
    const float *given = kept.context_gradient + own.context;
    const float *shares = kept.shares + own.shares + (size_t)own.step * kept.samples;
    float sum = 0;
    for (uint32_t t = kept.causal ? own.step : 0; t < kept.steps; t++)
        sum += shares[t * row] * given[t * block];
    kept.projected_gradient[own.projected + (3 * (size_t)own.step + 2) * block] = sum;
}

// Computes the gradients of a query's and a key's value from the gradients of the scores.
__global__ void __launch_bounds__(ITEM_THREADS)
    queries_and_keys_back(AttentionKept kept, uint32_t items, const uint32_t *counts) {
    const ModelItem at = model_item(blockIdx.x, threadIdx.x, ITEM_THREADS, items);
    if (!has_work(at, items, counts)) return;
    const Feature own(kept, at);
    const size_t block = (size_t)kept.width * kept.samples, row = (size_t)kept.steps * kept.samples;
    const float *query = kept.projected + own.projected, *key = query + block;
    const float *gradients = kept.shares + own.shares;
    float of_query = 0, of_key = 0;
    for (uint32_t u = 0; u < seen_from(kept, own.step); u++)
        of_query += gradients[own.step * row + (size_t)u * kept.samples] * key[3 * u * block];
    for (uint32_t t = kept.causal ? own.step : 0; t < kept.steps; t++)
        of_key += gradients[t * row + (size_t)own.step * kept.samples] * query[3 * t * block];
    float *to = kept.projected_gradient + own.projected + 3 * (size_t)own.step * block;
    to[0] = of_query;
    to[block] = of_key;
}

// Threads of a launch: one per sample of each row of shares, or of each value of a context.
uint32_t rows_of(const AttentionKept *kept) {
    return kept->heads * kept->steps * kept->samples;
}

uint32_t values_of(const AttentionKept *kept) {
    return kept->steps * kept->width * kept->samples;
}

} // namespace

void cuda_attention_mix(const AttentionKept *kept, const CudaStep *step) {
    launch_items(share, rows_of(kept), step, *kept, rows_of(kept));
    launch_items(mix, values_of(kept), step, *kept, values_of(kept));
}

// The order matters: values_back reads the shares, which share_back then overwrites with the scores' gradients, which
// queries_and_keys_back reads.
void cuda_attention_mix_back(const AttentionKept *kept, const CudaStep *step) {
    launch_items(values_back, values_of(kept), step, *kept, values_of(kept));
    launch_items(share_back, rows_of(kept), step, *kept, rows_of(kept));
    launch_items(queries_and_keys_back, values_of(kept), step, *kept, values_of(kept));
}

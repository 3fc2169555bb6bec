// Part of ops.h: softmax attention of a sequence to itself (Vaswani et al. 2017) as PyTorch's MultiheadAttention has
// it, with queries, keys and values of the same sequence and without dropout:
//   q, k, v = in_proj of each step;  shares (T,T) = softmax of q k' / sqrt(width) in each head;  out_proj of shares v
// The projections are linear layers of each step. A lane is a sample, so each has its own shares. A causal layer
// neither writes nor reads the shares of later steps.
// The backward pass, with dc the gradient of the context c of step t:
//   dv(u) += share(t,u) dc        dscore(t,u) = share(t,u) * (dc . v(u) - dc . c) / sqrt(width)
//   dq(t) += dscore(t,u) k(u)     dk(u) += dscore(t,u) q(t)
#include "sequence.h"

#include <math.h>
#include <string.h>

#include "ops.h"

// One head of one vector of samples. Neighbouring features are `vectors` apart. Neighbouring steps are `step` apart, or
// three times as far in tensors that hold queries, keys and values side by side.
typedef struct Head {
    Lanes *query, *key, *value; // of the first step
    Lanes *shares;              // (T,T)
    Lanes *context;
    size_t steps, features, vectors, step;
    float scale;
    bool causal;
} Head;

// projected: the queries, keys and values of kept, or their gradients.
static Head head_of(float *projected, float *kept, const Layer *layer, int samples, size_t number, size_t vector) {
    const AttentionPlaces at = attention_places(layer, samples);
    const size_t vectors = (size_t)samples / SOUNDER_LANES, width = (size_t)layer->in.columns;
    const size_t steps = (size_t)layer->in.rows, features = width / (size_t)layer->groups;
    Lanes *queries = (Lanes *)projected + number * features * vectors + vector;
    return (Head){.query = queries,
                  .key = queries + width * vectors,
                  .value = queries + 2 * width * vectors,
                  .shares = (Lanes *)(kept + at.shares) + number * steps * steps * vectors + vector,
                  .context = (Lanes *)(kept + at.context) + number * features * vectors + vector,
                  .steps = steps,
                  .features = features,
                  .vectors = vectors,
                  .step = width * vectors,
                  .scale = 1 / sqrtf((float)features),
                  .causal = layer->causal};
}

// Number of steps that step t attends to.
static size_t seen_from(const Head *head, size_t t) {
    return head->causal ? t + 1 : head->steps;
}

static Lanes dot(const Lanes *a, const Lanes *b, const Head *head) {
    Lanes sums[2] = {lanes_of(0), lanes_of(0)}; // two chains hide the adder's latency
    const size_t end = head->features * head->vectors;
    size_t i = 0;
    for (; i + head->vectors < end; i += 2 * head->vectors) {
        sums[0] += a[i] * b[i];
        sums[1] += a[i + head->vectors] * b[i + head->vectors];
    }
    if (i < end) sums[0] += a[i] * b[i];
    return sums[0] + sums[1];
}

// to += factor * from
static void add_scaled(Lanes *to, Lanes factor, const Lanes *from, const Head *head) {
    for (size_t i = 0; i < head->features * head->vectors; i += head->vectors)
        to[i] += factor * from[i];
}

// Computes the shares of step t, and its context. The largest score is subtracted before exponentials, as in any
// softmax, so that none overflows.
static void attend(const Head *head, size_t t) {
    const size_t seen = seen_from(head, t), vectors = head->vectors;
    Lanes *shares = head->shares + t * head->steps * vectors, *context = head->context + t * head->step;
    Lanes largest = lanes_of(0), sum = lanes_of(0);
    for (size_t u = 0; u < seen; u++) {
        const Lanes score = head->scale * dot(head->query + 3 * t * head->step, head->key + 3 * u * head->step, head);
        shares[u * vectors] = score;
        largest = u == 0 ? score : lanes_select(score > largest, score, largest);
    }
    for (size_t u = 0; u < seen; u++)
        sum += shares[u * vectors] = lanes_exponential(shares[u * vectors] - largest);
    for (size_t i = 0; i < head->features * vectors; i += vectors)
        context[i] = lanes_of(0);
    for (size_t u = 0; u < seen; u++) {
        shares[u * vectors] /= sum;
        add_scaled(context, shares[u * vectors], head->value + 3 * u * head->step, head);
    }
}

// Head by head and vector by vector, so that a head's queries, keys and values stay in the cache while each step
// attends to all.
void ISA_NAME(attention_forward)(float *out, float *kept, const float *in, const float *weight, const Layer *layer,
                                 int count, int samples) {
    const Layer into = attention_input_product(layer), from = attention_output_product(layer);
    const AttentionPlaces at = attention_places(layer, samples);
    ISA_NAME(linear_each_forward)(kept + at.projected, kept + at.rows, in, weight, &into, count, samples);
    for (size_t number = 0; number < (size_t)layer->groups; number++)
        for (size_t v = 0; v < (size_t)samples / SOUNDER_LANES; v++) {
            const Head head = head_of(kept + at.projected, kept, layer, samples, number, v);
            for (size_t t = 0; t < head.steps; t++)
                attend(&head, t);
        }
    float *context = kept + at.context, *rows = kept + at.mixed_rows;
    const float *behind = weight + attention_input_parameters(layer);
    ISA_NAME(linear_each_forward)(out, rows, context, behind, &from, count, samples);
}

// Adds step t's part to the gradients of queries, keys and values, from the gradient of its context. The mean of the
// shares' gradients, weighted by the shares, equals the product of the
// context and its gradient, so that it is known before they are.
static void attend_back(const Head *gradients, const Head *head, const Lanes *context_gradient, size_t t) {
    const size_t seen = seen_from(head, t), own = 3 * t * head->step;
    const Lanes *shares = head->shares + t * head->steps * head->vectors, *given = context_gradient + t * head->step;
    const Lanes mean = dot(given, head->context + t * head->step, head);
    for (size_t u = 0; u < seen; u++) {
        const size_t other = 3 * u * head->step;
        const Lanes share = shares[u * head->vectors];
        const Lanes gradient = share * (dot(given, head->value + other, head) - mean) * head->scale;
        add_scaled(gradients->value + other, share, given, head);
        add_scaled(gradients->query + own, gradient, head->key + other, head);
        add_scaled(gradients->key + other, gradient, head->query + own, head);
    }
}

// The shares' gradients are not stored: each is computed from the context's gradient and used at once.
void ISA_NAME(attention_backward)(float *gradient, float *in_gradient, float *kept, float *scratch,
                                  const float *out_gradient, const float *weight, const Layer *layer, int count,
                                  int samples) {
    const Layer into = attention_input_product(layer), from = attention_output_product(layer);
    const AttentionPlaces at = attention_places(layer, samples);
    const size_t tensor = shape_size(layer->in) * (size_t)samples, behind = attention_input_parameters(layer);
    float *projected_gradient = scratch, *context_gradient = scratch + 3 * tensor, *products = scratch + 4 * tensor;
    const float *mixed = kept + at.mixed_rows, *rows = kept + at.rows, *output = weight + behind;
    ISA_NAME(linear_each_backward)
    (gradient + behind, context_gradient, products, mixed, out_gradient, output, &from, count, samples);
    memset(projected_gradient, 0, 3 * tensor * sizeof *projected_gradient);
    for (size_t number = 0; number < (size_t)layer->groups; number++)
        for (size_t v = 0; v < (size_t)samples / SOUNDER_LANES; v++) {
            const Head head = head_of(kept + at.projected, kept, layer, samples, number, v);
            const Head gradients = head_of(projected_gradient, kept, layer, samples, number, v);
            const Lanes *given = (const Lanes *)context_gradient + number * head.features * head.vectors + v;
            for (size_t t = 0; t < head.steps; t++)
                attend_back(&gradients, &head, given, t);
        }
    ISA_NAME(linear_each_backward)
    (gradient, in_gradient, products, rows, projected_gradient, weight, &into, count, samples);
}

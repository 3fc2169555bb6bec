// Part of ops.h: group normalisation (Wu and He, ECCV 2018) and layer normalisation (Ba, Kiros, Hinton 2016) as PyTorch
// has them: each sample's values of a group of channels get mean 0 and variance 1, then a factor and a shift of their
// channel or, as layer normalisation, of their own. If each row is normalised by itself, a row is a group of one
// channel.
//   out = (in - mean) / sqrt(variance + norm_epsilon) * weight + bias
// The backward pass of one sample and group of n values, with v = (in - mean) * scale the normalised value, g = weight
// * d out, and means over the group:
//   d in = scale * (g - mean of g - v * mean of (g * v))
//   d weight = sum of d out * v,  d bias = sum of d out,  over all samples and places that share them
// The two means are there because each value moves the mean and the variance of its group. v is computed again from the
// input and the two statistics: storing it would take a tensor.
#include "ops.h"

#include <math.h>

// The common data of the loops over one group. A lane is a sample, so each lane has its own mean.
typedef struct Group {
    size_t channels, plane; // channels of the group; places of a channel
    size_t first, next;     // the first value of the group, and from one channel to the next
    size_t vectors;         // of samples
    size_t first_weight;    // 0: all groups share their weights
    bool singly;            // each value has a weight of its own
    float share;            // one over the group's values
} Group;

// With `each` the group is a row, which counts as one channel whose places are the row's values; with `across` it is a
// place, whose channels have that place alone. A weight per value is told from one per channel by their number alone:
// PyTorch's LayerNorm over an image has C x H x W of them.
static Group group_of(const Layer *layer, int number, int samples) {
    const bool repeats = layer->each || layer->across;
    const size_t places = (size_t)layer->in.rows * (size_t)layer->in.columns, own = (size_t)number;
    const size_t channels = layer->each     ? 1
                            : layer->across ? (size_t)layer->in.channels
                                            : (size_t)(layer->in.channels / layer->groups);
    const size_t plane = layer->each ? (size_t)layer->in.columns : layer->across ? 1 : places;
    const bool singly = layer->each || norm_weights(layer) > (size_t)layer->in.channels;
    return (Group){.channels = channels,
                   .plane = plane,
                   .first = layer->across ? own : own * channels * plane,
                   .next = layer->across ? places : plane,
                   .vectors = (size_t)samples / SOUNDER_LANES,
                   .first_weight = repeats ? 0 : own * channels * (singly ? plane : 1),
                   .singly = singly,
                   .share = 1.0f / (float)(channels * plane)};
}

// The offset of a channel of the group, for vector v.
static size_t channel_at(const Group *group, size_t channel, size_t v) {
    return (group->first + channel * group->next) * group->vectors + v;
}

// The first weight of a channel; with `singly` the weights of its other places follow.
static const float *weights_at(const Group *group, const float *weight, size_t channel) {
    return weight + group->first_weight + channel * (group->singly ? group->plane : 1);
}

// Number of partial sums over a channel's places, so that an addition need not wait for the one before.
enum { SUMS = 4 };

typedef Lanes Term(Lanes value, Lanes mean);

ALWAYS_INLINE Lanes itself(Lanes value, Lanes mean) {
    (void)mean;
    return value;
}

ALWAYS_INLINE Lanes squared_distance(Lanes value, Lanes mean) {
    return (value - mean) * (value - mean);
}

// The mean of term over the group's values. It sums each channel first, as sums of few values round less.
ALWAYS_INLINE Lanes mean_of(Term *term, const Lanes *in, const Group *group, Lanes mean, size_t v) {
    Lanes total = lanes_of(0);
    for (size_t c = 0; c < group->channels; c++) {
        const Lanes *value = in + channel_at(group, c, v);
        Lanes sums[SUMS] = {lanes_of(0), lanes_of(0), lanes_of(0), lanes_of(0)};
        size_t p = 0;
        for (; p + SUMS <= group->plane; p += SUMS)
#pragma GCC unroll 4
            for (size_t i = 0; i < SUMS; i++)
                sums[i] += term(value[(p + i) * group->vectors], mean);
        for (; p < group->plane; p++)
            sums[0] += term(value[p * group->vectors], mean);
        total += (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }
    return total * group->share;
}

// 1 / sqrt(variance + epsilon). The root and the division are the C library's and the processor's, lane by lane: fast
// approximations would round differently per instruction set.
static Lanes scale_of(Lanes variance, float epsilon) {
    Lanes scale = variance;
    for (int i = 0; i < SOUNDER_LANES; i++)
        scale[i] = 1.0f / sqrtf(variance[i] + epsilon);
    return scale;
}

// Groups are taken one by one, and within them vectors of samples: a group's values are read three times, and stay in
// the cache meanwhile.
void ISA_NAME(norm_forward)(float *out, float *statistics, const float *in, const float *weight, const float *bias,
                            const Layer *layer, int samples) {
    Lanes *means = (Lanes *)statistics, *to = (Lanes *)out;
    const Lanes *from = (const Lanes *)in;
    for (int number = 0; number < layer->groups; number++) {
        const Group group = group_of(layer, number, samples);
        for (size_t v = 0; v < group.vectors; v++) {
            const Lanes mean = mean_of(itself, from, &group, lanes_of(0), v);
            const Lanes scale = scale_of(mean_of(squared_distance, from, &group, mean, v), norm_epsilon(layer));
            *means++ = mean;
            *means++ = scale;
            for (size_t c = 0; c < group.channels; c++) {
                const size_t at = channel_at(&group, c, v);
                const float *w = weights_at(&group, weight, c), *b = weights_at(&group, bias, c);
                for (size_t p = 0; p < group.plane; p++) {
                    const size_t own = group.singly ? p : 0, place = at + p * group.vectors;
                    const Lanes value = (from[place] - mean) * (scale * w[own]) + b[own];
                    to[place] = layer->rectifies ? lanes_rectified(value) : value;
                }
            }
        }
    }
}

// The two sums over the values of one vector of samples in a group that the backward pass needs.
typedef struct Sums {
    Lanes gradient, product; // of weight * d out, and of that times the normalised value
} Sums;

ALWAYS_INLINE void add_place(Sums *sums, Lanes gradient, Lanes value) {
    sums->gradient += gradient;
    sums->product += gradient * value;
}

// The sums of a channel in which each value has a weight of its own. Adds to the gradients of its weights and biases.
static Sums sums_singly(float *weight_gradient, float *bias_gradient, const Lanes *in, const Lanes *out_gradient,
                        const float *weight, const Group *group, Lanes mean, Lanes scale) {
    Sums sums = {lanes_of(0), lanes_of(0)};
    for (size_t p = 0; p < group->plane; p++) {
        const Lanes gradient = out_gradient[p * group->vectors], value = (in[p * group->vectors] - mean) * scale;
        weight_gradient[p] += lanes_sum(gradient * value);
        bias_gradient[p] += lanes_sum(gradient);
        add_place(&sums, gradient * weight[p], value);
    }
    return sums;
}

// The sums of a channel that has one weight, without that weight.
static Sums sums_of(const Lanes *in, const Lanes *out_gradient, const Group *group, Lanes mean, Lanes scale) {
    Sums sums[SUMS] = {{lanes_of(0), lanes_of(0)}};
    size_t p = 0;
    for (; p + SUMS <= group->plane; p += SUMS)
#pragma GCC unroll 4
        for (size_t i = 0; i < SUMS; i++)
            add_place(&sums[i], out_gradient[(p + i) * group->vectors], (in[(p + i) * group->vectors] - mean) * scale);
    for (; p < group->plane; p++)
        add_place(&sums[0], out_gradient[p * group->vectors], (in[p * group->vectors] - mean) * scale);
    return (Sums){(sums[0].gradient + sums[1].gradient) + (sums[2].gradient + sums[3].gradient),
                  (sums[0].product + sums[1].product) + (sums[2].product + sums[3].product)};
}

// Adds a channel to the sums of its group, and to the gradients of its weights and biases. A weight per channel
// multiplies the channel's sums once, instead of every value.
static void add_channel(Sums *sums, float *weight_gradient, float *bias_gradient, const Lanes *in,
                        const Lanes *out_gradient, const float *weight, const Group *group, Lanes mean, Lanes scale) {
    Sums channel;
    if (group->singly) {
        channel = sums_singly(weight_gradient, bias_gradient, in, out_gradient, weight, group, mean, scale);
    } else {
        channel = sums_of(in, out_gradient, group, mean, scale);
        *weight_gradient += lanes_sum(channel.product);
        *bias_gradient += lanes_sum(channel.gradient);
        channel = (Sums){channel.gradient * *weight, channel.product * *weight};
    }
    sums->gradient += channel.gradient;
    sums->product += channel.product;
}

// d in = scale * (w d out - mean of that - normalised value * mean of their product)
static void write_gradient(Lanes *in_gradient, const Lanes *in, const Lanes *out_gradient, const float *weight,
                           const Group *group, const Sums *sums, Lanes mean, Lanes scale) {
    const Lanes gradient = sums->gradient * group->share, product = sums->product * group->share;
    for (size_t p = 0; p < group->plane; p++) {
        const size_t place = p * group->vectors;
        const Lanes value = (in[place] - mean) * scale;
        in_gradient[place] = scale * (out_gradient[place] * weight[group->singly ? p : 0] - gradient - value * product);
    }
}

// A first walk over a group's channels takes the sums, a second one writes the gradient, which needs them complete.
void ISA_NAME(norm_backward)(float *weight_gradient, float *bias_gradient, float *in_gradient, const float *statistics,
                             const float *in, const float *out_gradient, const float *weight, const Layer *layer,
                             int samples) {
    const Lanes *means = (const Lanes *)statistics, *from = (const Lanes *)in, *given = (const Lanes *)out_gradient;
    for (int number = 0; number < layer->groups; number++) {
        const Group group = group_of(layer, number, samples);
        for (size_t v = 0; v < group.vectors; v++, means += 2) {
            Sums sums = {lanes_of(0), lanes_of(0)};
            for (size_t c = 0; c < group.channels; c++) {
                const size_t at = channel_at(&group, c, v);
                const float *w = weights_at(&group, weight, c);
                add_channel(&sums, weight_gradient + (w - weight), bias_gradient + (w - weight), from + at, given + at,
                            w, &group, means[0], means[1]);
            }
            for (size_t c = 0; c < group.channels && in_gradient; c++) {
                const size_t at = channel_at(&group, c, v);
                write_gradient((Lanes *)in_gradient + at, from + at, given + at, weights_at(&group, weight, c), &group,
                               &sums, means[0], means[1]);
            }
        }
    }
}

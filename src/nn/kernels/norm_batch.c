// Part of ops.h: batch normalisation (Ioffe and Szegedy, ICML 2015) as PyTorch has it: in training the values of a
// channel in all samples of the batch get mean 0 and variance 1; tests use the running mean and variance instead. A
// factor and a shift of the channel follow:
//   out = (in - mean) / sqrt(variance + norm_epsilon) * weight + bias
// The batch is one chunk. Lanes after its last sample can hold any values, so every sum leaves them out.
#include "ops.h"

#include <math.h>

#include "nn/kernels/batch_statistics.h"

// The common data of the loops over one channel.
typedef struct Channel {
    size_t plane, vectors; // places; vectors of samples
    int count;             // samples
    float share;           // one over the channel's values
} Channel;

static Channel channel_of(const Layer *layer, int count, int samples) {
    const size_t plane = (size_t)layer->in.rows * (size_t)layer->in.columns;
    return (Channel){plane, (size_t)samples / SOUNDER_LANES, count, 1.0f / (float)(plane * (size_t)count)};
}

// True for the lanes of vector v that hold samples.
static IntLanes real_lanes(const Channel *channel, size_t v) {
    IntLanes real;
    for (int i = 0; i < SOUNDER_LANES; i++)
        real[i] = (int)v * SOUNDER_LANES + i < channel->count ? -1 : 0;
    return real;
}

// The mean of the distances of the channel's values from `mean`, or with `squares` of their squares. Both are constants
// wherever this is inlined for values themselves, which are their distances from 0.
ALWAYS_INLINE float mean_of(const Lanes *in, const Channel *channel, bool squares, float mean) {
    Lanes total = lanes_of(0);
    for (size_t v = 0; v < channel->vectors; v++) {
        Lanes sum = lanes_of(0);
        for (size_t p = 0; p < channel->plane; p++) {
            const Lanes distance = in[p * channel->vectors + v] - mean;
            sum += squares ? (Lanes)(distance * distance) : (Lanes)distance;
        }
        total += lanes_select(real_lanes(channel, v), sum, lanes_of(0));
    }
    return lanes_sum(total) * channel->share;
}

// Lanes after the last sample are normalised, too: they enter no sum, and the next layer's contract lets them hold
// anything.
void ISA_NAME(batch_norm_forward)(float *out, float *statistics, const float *in, const float *parameters, bool trains,
                                  const Layer *layer, int count, int samples) {
    const Channel channel = channel_of(layer, count, samples);
    const size_t channels = (size_t)layer->in.channels, values = channel.plane * channel.vectors;
    const float *weight = parameters, *bias = weight + channels, *means = bias + channels,
                *variances = means + channels;
    const Lanes *from = (const Lanes *)in;
    Lanes *to = (Lanes *)out;
    BatchStatistics *of = (BatchStatistics *)(void *)statistics;
    const float epsilon = norm_epsilon(layer), momentum = norm_momentum(layer);
    for (size_t c = 0; c < channels; c++, from += values, to += values, of++) {
        of->mean = trains ? mean_of(from, &channel, false, 0) : means[c];
        of->variance = trains ? mean_of(from, &channel, true, of->mean) : variances[c] < 0 ? 0 : variances[c];
        of->scale = 1.0f / sqrtf(of->variance + epsilon);
        if (trains) { // the net writes these after the step (net_follow)
            of->next_mean = norm_follow_mean(means[c], of->mean, momentum);
            of->next_variance =
                norm_follow_variance(variances[c], of->variance, (float)(channel.plane * (size_t)count), momentum);
        }
        const float mean = of->mean, factor = of->scale * weight[c], shift = bias[c];
        for (size_t i = 0; i < values; i++)
            to[i] = (from[i] - mean) * factor + shift;
    }
}

// Sums over the batch, lane by lane: of d out, and of d out times the normalised value.
typedef struct Sums {
    Lanes gradient, product;
} Sums;

// Sums of one vector of samples are taken first and then masked, so that the inner loop has no condition.
static Sums sums_of(const Lanes *in, const Lanes *out_gradient, const Channel *channel, const BatchStatistics *of) {
    Sums sums = {lanes_of(0), lanes_of(0)};
    for (size_t v = 0; v < channel->vectors; v++) {
        const IntLanes real = real_lanes(channel, v);
        Lanes gradient = lanes_of(0), product = lanes_of(0);
        for (size_t p = 0; p < channel->plane; p++) {
            const size_t place = p * channel->vectors + v;
            gradient += out_gradient[place];
            product += out_gradient[place] * ((in[place] - of->mean) * of->scale);
        }
        sums.gradient += lanes_select(real, gradient, lanes_of(0));
        sums.product += lanes_select(real, product, lanes_of(0));
    }
    return sums;
}

// d in = scale * weight * (d out - mean of that - normalised value * mean of their product)
static void write_gradient(Lanes *in_gradient, const Lanes *in, const Lanes *out_gradient, const Channel *channel,
                           const BatchStatistics *of, float factor, float gradient, float product) {
    for (size_t v = 0; v < channel->vectors; v++) {
        const IntLanes real = real_lanes(channel, v);
        for (size_t p = 0; p < channel->plane; p++) {
            const size_t place = p * channel->vectors + v;
            const Lanes value = (in[place] - of->mean) * of->scale;
            in_gradient[place] =
                lanes_select(real, factor * (out_gradient[place] - gradient - value * product), lanes_of(0));
        }
    }
}

// The two sums of a channel are the gradients of its weight and bias, and divided by the number of values the means
// that the input's gradient needs.
void ISA_NAME(batch_norm_backward)(float *gradient, float *in_gradient, const float *statistics, const float *in,
                                   const float *out_gradient, const float *weight, const Layer *layer, int count,
                                   int samples) {
    const Channel channel = channel_of(layer, count, samples);
    const size_t channels = (size_t)layer->in.channels, values = channel.plane * channel.vectors;
    const Lanes *from = (const Lanes *)in, *given = (const Lanes *)out_gradient;
    const BatchStatistics *of = (const BatchStatistics *)(const void *)statistics;
    for (size_t c = 0; c < channels; c++, from += values, given += values, of++) {
        const Sums sums = sums_of(from, given, &channel, of);
        const float total = lanes_sum(sums.gradient), product = lanes_sum(sums.product);
        gradient[c] += product;
        gradient[channels + c] += total;
        if (in_gradient)
            write_gradient((Lanes *)in_gradient + c * values, from, given, &channel, of, of->scale * weight[c],
                           total * channel.share, product * channel.share);
    }
}

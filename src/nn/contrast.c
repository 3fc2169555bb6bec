#include "contrast.h"

#include <math.h>

#include "nn/kernels/activation.h"
#include "nn/linear_blas.h"

// The layer whose input is the representation: MOON compares what the classes are read from.
static const Layer *last_of(const Spec *spec) {
    return &spec->layers[spec->layer_count - 1];
}

// contrast_rows stores as many numbers for each sample.
size_t contrast_features(const Spec *spec) {
    return shape_size(last_of(spec)->in);
}

Status contrast_check(const Spec *spec, Error *err) {
    bool learns = false;
    for (int l = 0; l < spec->layer_count - 1; l++)
        learns |= layer_learns(&spec->layers[l]);
    if (spec->layer_count > 0 && last_of(spec)->kind == LAYER_LINEAR && learns) return STATUS_OK;
    return fail(err, STATUS_USAGE,
                "a representation is what enters the net's last layer, which must be linear, after a layer that "
                "learns; take a net such as \"linear 64; relu; linear classes\"");
}

// A value of a sample that entered the last layer: from the layer's rows, or, where OpenBLAS multiplies, from its
// input.
static float entered(const LayerCall *call, int sample, size_t feature) {
    const bool in_columns = call->at->in && call->net->blas && linear_blas_pays(call->layer, call->count);
    return in_columns ? call->at->in[feature * (size_t)call->samples + (size_t)sample]
                      : call->at->rows[(size_t)sample * linear_row_floats(call->layer) + feature];
}

void contrast_rows(float *features, const LayerCall *call) {
    const size_t size = shape_size(call->layer->in);
    for (int s = 0; s < call->count; s++)
        for (size_t f = 0; f < size; f++)
            *features++ = entered(call, s, f);
}

// The product z u and the squares of z and u. They are summed in the order of the features, so that no instruction set
// has other bits.
typedef struct Angle {
    double product, square, other;
} Angle;

static Angle angle_of(const LayerCall *call, int sample, const float *u) {
    Angle angle = {0};
    for (size_t f = 0; f < shape_size(call->layer->in); f++) {
        const double z = (double)entered(call, sample, f), other = (double)u[f];
        angle.product += z * other, angle.square += z * z, angle.other += other * other;
    }
    return angle;
}

// The cosine of two vectors. A vector of zeros has no direction: its cosine is 0 and has no gradient.
static double cosine_of(const Angle *angle) {
    const double lengths = sqrt(angle->square) * sqrt(angle->other);
    return lengths > 0 ? angle->product / lengths : 0;
}

// The gradient of a cosine is (u/|u| - cosine z/|z|) / |z|, and that of the term mu/tau sigmoid((far - near)/tau) times
// the difference of both.
static void add_sample(float *gradient, size_t stride, const LayerCall *call, int sample, const float *near,
                       const float *far) {
    const Contrast *contrast = (const Contrast *)call->net->term;
    const Angle to_near = angle_of(call, sample, near), to_far = angle_of(call, sample, far);
    const double length = sqrt(to_near.square), near_length = sqrt(to_near.other), far_length = sqrt(to_far.other);
    const double c_near = cosine_of(&to_near), c_far = cosine_of(&to_far);
    if (length == 0) return;
    const double pull = (double)sigmoid_value((float)((c_far - c_near) / contrast->tau), 0);
    const double factor = contrast->mu / contrast->tau * pull / (call->pass->count * length);
    for (size_t f = 0; f < shape_size(call->layer->in); f++) {
        const double z = (double)entered(call, sample, f) / length;
        const double away = far_length > 0 ? (double)far[f] / far_length - c_far * z : 0;
        const double toward = near_length > 0 ? (double)near[f] / near_length - c_near * z : 0;
        gradient[f * stride] += (float)(factor * (away - toward));
    }
}

// The input's gradient is stored as the earlier layers read it: part by part, if the layer is the head of a body.
static void add_term(const LayerCall *call) {
    const Net *net = call->net;
    const Contrast *contrast = (const Contrast *)net->term;
    const ChunkPlan *plan = &net->buffers->chunk;
    const int last = net->spec.layer_count - 1;
    const bool parts = plan->head > 0 && plan->head == last;
    const size_t size = shape_size(call->layer->in);
    if (!call->at->in_gradient) return;
    for (int s = 0; s < call->count; s++) {
        const int number = parts ? s / plan->part : 0;
        const Chunk part = parts ? net_part(net, call->chunk, number) : call->chunk;
        LayerBuffers moved;
        const LayerBuffers *at = parts ? buffers_part(&moved, net->buffers, last, number) : call->at;
        const size_t row = (call->chunk.first + (size_t)s) * size;
        add_sample(at->in_gradient + (parts ? s % plan->part : s), (size_t)part.samples, call, s, contrast->near + row,
                   contrast->far + row);
    }
}

Contrast contrast_of(const float *near, const float *far, double mu, double tau) {
    return (Contrast){.term = {add_term}, .near = near, .far = far, .mu = mu, .tau = tau};
}

#include "linear.h"

#include <cblas.h>

static int inputs_of(const Layer *layer) {
    return (int)shape_size(layer->in);
}

void ISA_NAME(linear_forward)(float *out, const float *in, const float *weight, const float *bias, const Layer *layer,
                              int count, int samples) {
    int outs = layer->out.channels, ins = inputs_of(layer);
    Lanes *to = (Lanes *)out;
    for (int o = 0; o < outs; o++)
        for (int s = 0; s < samples; s += SOUNDER_LANES)
            *to++ = lanes_of(bias[o]);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, outs, count, ins, 1.0f, weight, ins, in, samples, 1.0f, out,
                samples);
}

void ISA_NAME(linear_backward)(float *weight_gradient, float *bias_gradient, float *in_gradient, const float *in,
                               const float *out_gradient, const float *weight, const Layer *layer, bool accumulate,
                               int count, int samples) {
    int outs = layer->out.channels, ins = inputs_of(layer);
    const float before = accumulate ? 1.0f : 0.0f;
    const Lanes *gradient = (const Lanes *)out_gradient;
    for (int o = 0; o < outs; o++) {
        Lanes sum = lanes_of(0);
        for (int s = 0; s < samples; s += SOUNDER_LANES)
            sum += *gradient++;
        bias_gradient[o] = (accumulate ? bias_gradient[o] : 0.0f) + lanes_sum(sum);
    }
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, outs, ins, count, 1.0f, out_gradient, samples, in, samples,
                before, weight_gradient, ins);
    if (!in_gradient) return;
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, ins, count, outs, 1.0f, weight, ins, out_gradient, samples,
                0.0f, in_gradient, samples);
    for (int i = 0; i < ins; i++)
        for (int s = count; s < samples; s++)
            in_gradient[(size_t)i * (size_t)samples + (size_t)s] = 0;
}

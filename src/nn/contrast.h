// A contrastive term of a training step, on what the net makes of a sample before its last linear layer: the sample's
// representation z is drawn to that of one model and away from that of another (fedavg/rules/local/moon.h).
//
//   loss += mu mean of log(1 + e^((cos(z, far) - cos(z, near)) / tau))
//
//   TRY(contrast_check(&spec, err));
//   net_represent(&net, near, global, &batch, &noise);        // and far
//   Contrast contrast = contrast_of(near, far, mu, tau);
//   net.term = &contrast.term;                                // for the next net_gradient or net_train_step
#ifndef SOUNDER_NN_CONTRAST_H
#define SOUNDER_NN_CONTRAST_H

#include "nn/net.h"
#include "nn/pass.h"

// Constant during a step; the losses that the step returns do not have the term.
typedef struct Contrast {
    NetTerm term;
    const float *near, *far; // (samples of the batch, contrast_features), borrowed
    double mu, tau;
} Contrast;

// Values of a representation: those that enter the net's last layer.
size_t contrast_features(const Spec *spec);

// USAGE for a net whose last layer is not linear, or has no layer before it that learns.
Status contrast_check(const Spec *spec, Error *err);

// features (batch->count, contrast_features): the representations of the batch's samples, as the noise crops and flips
// them (NULL: not at all), in evaluation mode.
void net_represent(Net *net, float *features, const float *parameters, const Batch *batch, const Noise *noise);

// After a forward pass: what has entered the last layer, as net_represent returns it.
void contrast_rows(float *features, const LayerCall *call);

Contrast contrast_of(const float *near, const float *far, double mu, double tau);

#endif

// Binary cross-entropy of samples that each have several labels: a net's output k says whether label k applies.
//
//   loss_sum = label_rows_loss(gradient, &hits, outputs, targets, 1.0f / batch, labels, count, samples);
//
// PyTorch's BCEWithLogitsLoss: the mean over the labels of a sample. Plain C, in doubles: equal bits for every
// instruction set.
#ifndef SOUNDER_NN_LABEL_ROWS_H
#define SOUNDER_NN_LABEL_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "nn/answers.h"

// Returns the sum over the first `count` samples of the mean over their labels of
//   max(z, 0) - z y + log(1 + exp(-|z|))
// with z the output and y the label, 0 or 1. gradient (labels,N): scale times its derivative, (sigmoid(z) - y) /
// labels, zero from count on; NULL if unused. hits: the samples of which each label is right, where an output above 0
// says that it applies; NULL if unused. outputs, targets: (labels,N).
double label_rows_loss(float *gradient, uint32_t *hits, const float *outputs, const float *targets, float scale,
                       int labels, int count, int samples);

// The answers about one sample (labels), one for each label as of two classes: its outputs are outputs[k * stride].
void label_rows_answers(Answer *answers, const float *outputs, const float *targets, int labels, size_t stride);

// By label, from the answers (count samples, labels). accuracies (labels): the share of samples of which the label is
// right; NULL if unused. Fills in label_accuracy, their mean; macro_f1, the mean over the labels of the F1 of those
// that apply (scikit-learn's f1_score(average="macro"); labels that neither occur nor are predicted are left out).
void label_rows_figures(AnswerFigures *figures, double *accuracies, const Answer *answers, uint32_t count, int labels);

#endif

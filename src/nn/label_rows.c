#include "label_rows.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// exp of a number that is not positive cannot overflow.
static double sigmoid(double z) {
    const double tail = exp(-fabs(z));
    return z < 0 ? tail / (1 + tail) : 1 / (1 + tail);
}

// log(1 + exp(-|z|)) + max(z, 0) is log(1 + exp(z)), written so that no exponential overflows and a loss near 0 keeps
// its digits. The mean over the labels is taken per sample, as PyTorch does: a data set of more labels has no larger
// loss. The lanes after the last sample get a gradient of zero, since the backward pass reads whole vectors.
double label_rows_loss(float *gradient, uint32_t *hits, const float *outputs, const float *targets, float scale,
                       int labels, int count, int samples) {
    double sum = 0;
    uint32_t right = 0;
    if (gradient) memset(gradient, 0, (size_t)labels * (size_t)samples * sizeof *gradient);
    assert(labels > 0 && count <= samples);
    for (int s = 0; s < count; s++) {
        double loss = 0;
        bool all = true;
        for (int k = 0; k < labels; k++) {
            const size_t at = (size_t)k * (size_t)samples + (size_t)s;
            const double z = (double)outputs[at], y = (double)targets[at];
            loss += fmax(z, 0) - z * y + log1p(exp(-fabs(z)));
            if (gradient) gradient[at] = (float)((double)scale * (sigmoid(z) - y) / labels);
            all &= (z > 0) == (y > 0.5);
        }
        sum += loss / labels;
        right += all;
    }
    if (hits) *hits = right;
    return sum;
}

void label_rows_answers(Answer *answers, const float *outputs, const float *targets, int labels, size_t stride) {
    // The output is the logit of the label: above 0 its chance is above one half.
    for (int k = 0; k < labels; k++) {
        const float z = outputs[(size_t)k * stride];
        answers[k] = (Answer){.label = targets[(size_t)k * stride] > 0.5f, .predicted = z > 0, .value = z};
    }
}

// A label that neither applies nor is predicted has an F1 of 0/0; scikit-learn warns and counts 0, which would punish a
// small test set for labels that it does not have. It is left out here.
void label_rows_figures(AnswerFigures *figures, double *accuracies, const Answer *answers, uint32_t count, int labels) {
    double right_of_all = 0, f1 = 0;
    int known = 0;
    for (int k = 0; k < labels; k++) {
        uint32_t applies = 0, predicted = 0, both = 0, right = 0;
        for (uint32_t i = 0; i < count; i++) {
            const Answer *answer = &answers[(size_t)i * (size_t)labels + (size_t)k];
            applies += answer->label;
            predicted += answer->predicted;
            both += answer->label && answer->predicted;
            right += answer->label == answer->predicted;
        }
        if (accuracies) accuracies[k] = count > 0 ? (double)right / count : (double)NAN;
        right_of_all += right;
        if (applies + predicted > 0) f1 += 2.0 * both / (applies + predicted), known++;
    }
    figures->label_accuracy = right_of_all / ((double)count * labels);
    assert(right_of_all <= (double)count * labels);
    figures->macro_f1 = f1 / known;
}

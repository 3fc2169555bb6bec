// Part of ops.h: softmax and cross-entropy in one, numerically stable.
// With p = softmax of the logits, and t the label's distribution (1 at the label; smoothed, a share of the rest for
// every class):
//   loss = log(sum over k of e^logit(k)) - sum over k of t(k) logit(k)        d loss / d logit(k) = p(k) - t(k)
// The largest logit is subtracted from all before e^x and added back to the logarithm, so that nothing overflows.
#include "ops.h"

#include <math.h>

// The numbers of a softmax, for one vector of samples.
typedef struct Scores {
    Lanes largest; // logit
    Lanes sum;     // of e^(logit - largest)
    Lanes correct; // the label's logit
    IntLanes best; // class of the first largest logit
} Scores;

// Two passes over the logits: the largest logit first, so that no exponential overflows.
ALWAYS_INLINE Scores scores_of(const Lanes *logits, IntLanes label, int classes, size_t vectors) {
    Scores scores = {.largest = logits[0], .sum = lanes_of(0), .correct = lanes_of(0), .best = (IntLanes){0}};
    for (int k = 0; k < classes; k++) {
        Lanes logit = logits[(size_t)k * vectors];
        IntLanes larger = logit > scores.largest;
        scores.largest = lanes_select(larger, logit, scores.largest);
        scores.best = (scores.best & ~larger) | (k & larger);
        scores.correct = lanes_select(label == k, logit, scores.correct);
    }
    for (int k = 0; k < classes; k++)
        scores.sum += lanes_exponential(logits[(size_t)k * vectors] - scores.largest);
    return scores;
}

// The exponentials are computed again: storing them would take a tensor of the logits' size.
ALWAYS_INLINE void gradient_of(Lanes *gradient, const Lanes *logits, const Scores *scores, IntLanes label, Lanes scale,
                               float smoothing, int classes, size_t vectors) {
    const float each = smoothing / (float)classes;
    const Lanes share = scale / scores->sum, others = scale * each, own = scale * (1 - smoothing + each);
    for (int k = 0; k < classes; k++) {
        Lanes probability = lanes_exponential(logits[(size_t)k * vectors] - scores->largest) * share;
        Lanes difference = probability - lanes_select(label == k, own, others);
        gradient[(size_t)k * vectors] = lanes_select(scale == lanes_of(0), lanes_of(0), difference);
    }
}

// With smoothing, the loss subtracts the mean logit under the label's distribution from the logarithm of the sum.
static void smooth(Scores *scores, const Lanes *logits, float smoothing, int classes, size_t vectors) {
    Lanes total = lanes_of(0);
    if (smoothing == 0) return;
    for (int k = 0; k < classes; k++)
        total += logits[(size_t)k * vectors];
    scores->correct = (1 - smoothing) * scores->correct + smoothing / (float)classes * total;
}

// A vector of samples at a time, class by class. The loss is log(sum of e^(logit - largest)) + largest - the label's
// logit, summed in double precision and in the samples' order.
double ISA_NAME(softmax_cross_entropy)(float *gradient, uint32_t *hits, const float *logits, const uint16_t *labels,
                                       float scale, float smoothing, int classes, int count, int samples) {
    size_t vectors = (size_t)samples / SOUNDER_LANES;
    double loss = 0;
    uint32_t correct = 0;
    for (size_t v = 0; v < vectors; v++) {
        int first = (int)v * SOUNDER_LANES, real = count - first < SOUNDER_LANES ? count - first : SOUNDER_LANES;
        IntLanes label = {0};
        Lanes scales = lanes_of(0); // zero marks the lanes beyond the last sample
        for (int i = 0; i < real; i++) {
            label[i] = labels[first + i];
            scales[i] = scale;
        }
        Scores scores = scores_of((const Lanes *)logits + v, label, classes, vectors);
        if (gradient)
            gradient_of((Lanes *)gradient + v, (const Lanes *)logits + v, &scores, label, scales, smoothing, classes,
                        vectors);
        smooth(&scores, (const Lanes *)logits + v, smoothing, classes, vectors);
        for (int i = 0; i < real; i++) {
            loss += log((double)scores.sum[i]) + (double)scores.largest[i] - (double)scores.correct[i];
            correct += scores.best[i] == label[i];
        }
    }
    if (hits) *hits = correct;
    return loss;
}

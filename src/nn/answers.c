#include "answers.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Counts of one class: its samples, the samples predicted as it, and the right predictions among these.
typedef struct ClassCount {
    uint32_t samples, predicted, right;
} ClassCount;

AnswerFigures answer_figures_none(void) {
    return (AnswerFigures){
        .balanced_accuracy = NAN, .macro_f1 = NAN, .f1 = NAN, .auc = NAN, .mae = NAN, .label_accuracy = NAN};
}

// The caller frees *counts (classes). A prediction beyond the classes is right for no label.
static Status count_classes(ClassCount **counts, const Answer *answers, uint32_t count, int classes, Error *err) {
    assert(classes > 0);
    ClassCount *all = *counts = calloc((size_t)classes, sizeof *all);
    if (!all) return fail(err, STATUS_OS, "no memory for the counts of %d classes", classes);
    for (uint32_t i = 0; i < count; i++) {
        const Answer *answer = &answers[i];
        if (answer->label < classes) all[answer->label].samples++;
        if (answer->predicted < classes) all[answer->predicted].predicted++;
        if (answer->label < classes && answer->label == answer->predicted) all[answer->label].right++;
    }
    return STATUS_OK;
}

static double f1_of(const ClassCount *count) {
    const uint32_t both = count->samples + count->predicted;
    return both > 0 ? 2.0 * count->right / both : (double)NAN;
}

// NaNs equal everything here, so that their places are arbitrary; a net with such outputs has no figure to trust.
static int by_value(const void *a, const void *b) {
    const float left = ((const Answer *)a)->value, right = ((const Answer *)b)->value;
    return (left > right) - (left < right);
}

// The area under the ROC curve is the chance that a sample of class 1 has the greater value than one of class 0, equal
// values counting half: by ranks, equal values having their mean rank (Mann and Whitney 1947).
static Status area_under_roc(double *auc, const Answer *answers, uint32_t count, Error *err) {
    double ranks = 0;
    uint64_t positive = 0;
    Answer *sorted = malloc(count * sizeof *sorted);
    if (!sorted) return fail(err, STATUS_OS, "no memory for the order of %u samples", count);
    for (uint32_t i = 0; i < count; i++)
        sorted[i] = answers[i];
    qsort(sorted, count, sizeof *sorted, by_value);
    for (uint32_t first = 0, next; first < count; first = next) {
        uint64_t here = 0;
        for (next = first; next < count && !(sorted[next].value > sorted[first].value); next++)
            here += sorted[next].label == 1;
        ranks += (double)here * ((double)first + (double)next + 1) / 2;
        positive += here;
    }
    free(sorted);
    const double ones = (double)positive, zeros = (double)count - ones;
    assert(positive <= count && ranks <= (double)count * ((double)count + 1) / 2);
    *auc = ones > 0 && zeros > 0 ? (ranks - ones * (ones + 1) / 2) / (ones * zeros) : (double)NAN;
    return STATUS_OK;
}

// A class without samples has no recall, and one that is not predicted either has no F1: means over the others stay
// means, whatever classes the data set of a client lacks.
Status answer_figures(AnswerFigures *figures, const Answer *answers, uint32_t count, int classes, Error *err) {
    double recalls = 0, f1 = 0, distance = 0;
    int occur = 0, known = 0;
    ClassCount *counts;
    *figures = answer_figures_none();
    for (uint32_t i = 0; i < count && classes == 0; i++)
        distance += fabs((double)answers[i].value);
    if (classes == 0) figures->mae = distance / count;
    if (classes == 0 || count == 0) return STATUS_OK;
    TRY(count_classes(&counts, answers, count, classes, err));
    for (int label = 0; label < classes; label++) {
        const ClassCount *of = &counts[label];
        if (of->samples > 0) recalls += (double)of->right / of->samples, occur++;
        const double own = f1_of(of);
        if (!isnan(own)) f1 += own, known++;
        if (classes == 2 && label == 1) figures->f1 = own;
    }
    free(counts);
    figures->balanced_accuracy = recalls / occur;
    figures->macro_f1 = f1 / known;
    return classes == 2 ? area_under_roc(&figures->auc, answers, count, err) : STATUS_OK;
}

Status answer_by_class(double *recalls, double *f1, const Answer *answers, uint32_t count, int classes, Error *err) {
    ClassCount *counts;
    TRY(count_classes(&counts, answers, count, classes, err));
    for (int label = 0; label < classes; label++)
        recalls[label] = counts[label].samples > 0 ? (double)counts[label].right / counts[label].samples : (double)NAN;
    for (int label = 0; label < classes && f1; label++)
        f1[label] = f1_of(&counts[label]);
    free(counts);
    return STATUS_OK;
}

// The prediction is the first of the largest logits.
Answer answer_of_classes(const float *logits, size_t stride, uint16_t label, int classes) {
    assert(classes >= 1 && classes <= UINT16_MAX + 1 && stride >= 1);
    size_t best = 0;
    for (size_t k = 1; k < (size_t)classes; k++)
        if (logits[k * stride] > logits[best * stride]) best = k;
    return (Answer){
        .label = label, .predicted = (uint16_t)best, .value = classes == 2 ? logits[stride] - logits[0] : 0};
}

// Targets may begin at any address of a file, so that they are copied, not read in place.
void answers_of_logits(Answer *answers, const float *logits, const uint16_t *labels, uint32_t count, int classes) {
    for (uint32_t i = 0; i < count && classes == 0; i++) {
        float target;
        memcpy(&target, (const uint8_t *)labels + i * sizeof target, sizeof target);
        answers[i] = (Answer){.value = logits[i] - target};
    }
    for (uint32_t i = 0; i < count && classes > 0; i++)
        answers[i] = answer_of_classes(logits + (size_t)i * (size_t)classes, 1, labels[i], classes);
}

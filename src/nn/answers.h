// A net's answers to samples, and what is measured of them beside loss and accuracy. The definitions are scikit-learn's
// (balanced_accuracy_score, f1_score(average="macro"), roc_auc_score, mean_absolute_error).
//
//   net.answers = answers;                                   // room for the batch
//   net_evaluate(&net, &result, parameters, &batch);
//   net.answers = NULL;
//   AnswerFigures figures;
//   TRY(answer_figures(&figures, answers, count, classes, err));
#ifndef SOUNDER_NN_ANSWERS_H
#define SOUNDER_NN_ANSWERS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

// Plain data of 8 bytes, all zeros only before the net has answered.
typedef struct Answer {
    uint16_t label, predicted; // classes
    float value; // two classes: logit of class 1 minus logit of class 0; targets: output minus target; otherwise 0
} Answer;

// NaN: there is no such figure.
typedef struct AnswerFigures {
    double balanced_accuracy; // mean recall of the classes that occur
    double macro_f1;          // mean F1 of the classes that occur or are predicted
    double f1;                // of two classes: F1 of class 1
    double auc;               // of two classes: chance that a sample of class 1 has the greater value
    double mae;               // of targets: mean distance
    double label_accuracy;    // of several labels per sample: share of labels that are right
} AnswerFigures;

AnswerFigures answer_figures_none(void);

// Measures the answers (count), of `classes` classes, or of targets if classes is 0. OS without memory.
Status answer_figures(AnswerFigures *figures, const Answer *answers, uint32_t count, int classes, Error *err);

// recalls (classes): the share of each class's samples that was predicted as that class; NaN if it does not occur. f1
// (classes): the F1 of each class; NaN if it neither occurs nor is predicted. NULL if unused.
Status answer_by_class(double *recalls, double *f1, const Answer *answers, uint32_t count, int classes, Error *err);

// The answer about a sample with this label by its logits, of which number k is logits[k * stride].
Answer answer_of_classes(const float *logits, size_t stride, uint16_t label, int classes);

// The answers (count) by a net's logits (count, classes), and the samples' labels (count). classes is 0 for targets:
// logits (count) are outputs then, and labels the bytes of float32 targets.
void answers_of_logits(Answer *answers, const float *logits, const uint16_t *labels, uint32_t count, int classes);

#endif

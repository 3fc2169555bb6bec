#include "predictions.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

Status predictions_init(Predictions *predictions, const Dataset *data, int classes, bool confusion, Error *err) {
    if (confusion && dataset_has_targets(&data->items))
        return fail(err, STATUS_USAGE, "the samples of %.64s have targets, no classes; leave --confusion out",
                    data->name);
    *predictions = (Predictions){.data = data, .classes = classes};
    predictions->logits = malloc((size_t)data->test.count * (size_t)classes * sizeof *predictions->logits);
    if (predictions->logits || data->test.count == 0) return STATUS_OK;
    return fail(err, STATUS_OS, "no memory for the predictions of %u samples", data->test.count);
}

void predictions_free(Predictions *predictions) {
    free(predictions->logits);
}

// Returns the class with the largest logit, the lowest of equal ones. *probability: by softmax.
static int predictions_class(double *probability, const Predictions *predictions, uint32_t sample) {
    const float *logits = predictions->logits + (size_t)sample * (size_t)predictions->classes;
    int best = 0;
    double sum = 0;
    for (int k = 1; k < predictions->classes; k++)
        if (logits[k] > logits[best]) best = k;
    for (int k = 0; k < predictions->classes; k++)
        sum += exp((double)logits[k] - (double)logits[best]);
    *probability = 1 / sum;
    return best;
}

// row (classes): how many samples of this class the net assigned to each class.
static void count_row(int64_t *row, const Predictions *predictions, int label) {
    const DatasetSplit *test = &predictions->data->test;
    double probability;
    memset(row, 0, (size_t)predictions->classes * sizeof *row);
    for (uint32_t i = 0; i < test->count; i++)
        if (test->labels[i] == label) row[predictions_class(&probability, predictions, i)]++;
}

void predictions_print_confusion(const Predictions *predictions) {
    int64_t row[DATASET_MAX_CLASSES];
    printf("%-8s", "class");
    for (int k = 0; k < predictions->classes; k++)
        printf(" %7d", k);
    puts("   taken for");
    for (int label = 0; label < predictions->classes; label++) {
        count_row(row, predictions, label);
        printf("%-8d", label);
        for (int k = 0; k < predictions->classes; k++)
            printf(" %7lld", (long long)row[k]);
        putchar('\n');
    }
}

void predictions_put_confusion(JsonObject *object, const Predictions *predictions) {
    JsonObject rows;
    json_begin(&rows);
    for (int label = 0; label < predictions->classes; label++) {
        int64_t row[DATASET_MAX_CLASSES];
        char key[16];
        snprintf(key, sizeof key, "%d", label);
        count_row(row, predictions, label);
        put_wholes(&rows, key, row, (size_t)predictions->classes);
    }
    put_object(object, "confusion", &rows);
}

static void write_targets(FILE *file, const Predictions *predictions) {
    const uint8_t *targets = (const uint8_t *)predictions->data->test.labels;
    fputs("sample,target,prediction\n", file);
    for (uint32_t i = 0; i < predictions->data->test.count; i++)
        fprintf(file, "%u,%.9g,%.9g\n", i, (double)dataset_number(targets, i), (double)predictions->logits[i]);
}

static void write_rows(FILE *file, const Predictions *predictions) {
    fputs("sample,label,prediction,probability\n", file);
    for (uint32_t i = 0; i < predictions->data->test.count; i++) {
        double probability;
        int prediction = predictions_class(&probability, predictions, i);
        fprintf(file, "%u,%d,%d,%.9g\n", i, predictions->data->test.labels[i], prediction, probability);
    }
}

Status predictions_write(const Predictions *predictions, const char *path, Error *err) {
    FILE *file = fopen(path, "we");
    if (!file) return fail_errno(err, STATUS_CANTCREATE, "%.200s cannot be made", path);
    errno = 0;
    if (dataset_has_targets(&predictions->data->items))
        write_targets(file, predictions);
    else
        write_rows(file, predictions);
    bool failed = ferror(file) != 0;
    failed |= fclose(file) != 0;
    if (!failed) return STATUS_OK;
    Status status = fail_errno(err, STATUS_IO, "%.200s cannot be written", path);
    unlink(path);
    return status;
}

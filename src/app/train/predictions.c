#include "predictions.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

enum { WIDEST_NAME = 12 }; // letters of a class's name in the table

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

const char *class_name(char number[CLASS_NUMBER_BYTES], const Dataset *data, int class) {
    if (data->class_names && class < data->classes) return dataset_class_name(data, class);
    snprintf(number, CLASS_NUMBER_BYTES, "%d", class);
    return number;
}

// Prints a name, cut to the width of a column: to its left, or to its right if `width` is below 0.
static void print_name(const Predictions *predictions, int class, int width) {
    char number[CLASS_NUMBER_BYTES];
    int letters = 0;
    const char *from = class_name(number, predictions->data, class);
    size_t bytes = 0;
    while (from[bytes] && letters < abs(width)) {
        const size_t letter = text_letter(from + bytes);
        bytes += letter ? letter : 1;
        letters++;
    }
    printf("%*s%.*s%*s", width < 0 ? 0 : width - letters, "", (int)bytes, from, width < 0 ? -width - letters : 0, "");
}

void predictions_print_confusion(const Predictions *predictions) {
    int64_t row[DATASET_MAX_CLASSES];
    const int width = predictions->data->class_names ? WIDEST_NAME : 7;
    printf("%-*s", width + 1, "class");
    for (int k = 0; k < predictions->classes; k++) {
        putchar(' ');
        print_name(predictions, k, width);
    }
    puts("   taken for");
    for (int label = 0; label < predictions->classes; label++) {
        count_row(row, predictions, label);
        print_name(predictions, label, -(width + 1));
        for (int k = 0; k < predictions->classes; k++)
            printf(" %*lld", width, (long long)row[k]);
        putchar('\n');
    }
}

void put_class_names(JsonObject *object, const Dataset *data) {
    if (!data->class_names) return;
    JsonObject names;
    json_begin_array(&names);
    const char *name = data->class_names;
    for (int class = 0; class < data->classes; class ++, name += strlen(name) + 1)
        put_text(&names, NULL, name);
    put_object(object, "class_names", &names);
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
    put_class_names(object, predictions->data);
}

static void write_targets(FILE *file, const Predictions *predictions) {
    const uint8_t *targets = (const uint8_t *)predictions->data->test.labels;
    fputs("sample,target,prediction\n", file);
    for (uint32_t i = 0; i < predictions->data->test.count; i++)
        fprintf(file, "%u,%.9g,%.9g\n", i, (double)dataset_number(targets, i), (double)predictions->logits[i]);
}

// A field in quotes where its letters ask for them (RFC 4180).
static void write_field(FILE *file, const char *text) {
    if (!strpbrk(text, ",\"\r\n")) {
        fputs(text, file);
        return;
    }
    putc('"', file);
    for (; *text; text++)
        fprintf(file, *text == '"' ? "\"\"" : "%c", *text);
    putc('"', file);
}

static void write_rows(FILE *file, const Predictions *predictions) {
    char label[CLASS_NUMBER_BYTES], prediction[CLASS_NUMBER_BYTES];
    fputs("sample,label,prediction,probability\n", file);
    for (uint32_t i = 0; i < predictions->data->test.count; i++) {
        double probability;
        const int class = predictions_class(&probability, predictions, i);
        fprintf(file, "%u,", i);
        write_field(file, class_name(label, predictions->data, predictions->data->test.labels[i]));
        putc(',', file);
        write_field(file, class_name(prediction, predictions->data, class));
        fprintf(file, ",%.9g\n", probability);
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

#include "predictions.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"

Status predictions_init(Predictions *predictions, const Dataset *data, int classes, bool confusion, Error *err) {
    if (confusion && dataset_has_rows(&data->items))
        return fail(err, STATUS_USAGE,
                    "the samples of %.64s have several labels each; leave out --confusion and --confusion-file",
                    data->name);
    if (confusion && dataset_has_targets(&data->items))
        return fail(err, STATUS_USAGE,
                    "the samples of %.64s have targets, no classes; leave out --confusion and --confusion-file",
                    data->name);
    *predictions = (Predictions){.data = data, .classes = classes, .users = dataset_list_users(data)};
    predictions->logits = malloc((size_t)data->test.count * (size_t)classes * sizeof *predictions->logits);
    const bool has_users = predictions->users || !data->user_names;
    if (has_users && (predictions->logits || data->test.count == 0)) return STATUS_OK;
    predictions_free(predictions);
    return fail(err, STATUS_OS, "no memory for the predictions of %u samples", data->test.count);
}

void predictions_free(Predictions *predictions) {
    free(predictions->logits);
    free(predictions->users);
}

int predictions_class(double *probability, const Predictions *predictions, uint32_t sample) {
    const float *logits = predictions->logits + (size_t)sample * (size_t)predictions->classes;
    int best = 0;
    double sum = 0;
    for (int k = 1; k < predictions->classes; k++)
        if (logits[k] > logits[best]) best = k;
    for (int k = 0; k < predictions->classes; k++)
        sum += exp((double)logits[k] - (double)logits[best]);
    *probability = predictions->one_vs_rest ? 1 / (1 + exp(-(double)logits[best])) : 1 / sum;
    return best;
}

const char *class_name(char number[CLASS_NUMBER_BYTES], const Dataset *data, int class) {
    if (data->class_names && class < data->classes) return dataset_class_name(data, class);
    snprintf(number, CLASS_NUMBER_BYTES, "%d", class);
    return number;
}

void put_class_counts(JsonObject *object, const uint32_t *counts, uint32_t clients, uint32_t classes, uint32_t every) {
    JsonObject rows;
    json_begin_array(&rows);
    for (uint32_t client = 0; client < clients; client += every) {
        JsonObject row;
        json_begin_array(&row);
        for (uint32_t c = 0; c < classes; c++)
            put_whole(&row, NULL, counts[(size_t)client * classes + c]);
        put_object(&rows, NULL, &row);
    }
    put_object(object, "counts", &rows);
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

// The client and the line of each sample, where the data tell them.
static void write_places_title(FILE *file, const Dataset *data) {
    fputs("sample", file);
    if (data->test.owners) fputs(",client", file);
    if (data->test_lines) fputs(",line", file);
}

static void write_places(FILE *file, const Dataset *data, const char **users, uint32_t sample) {
    fprintf(file, "%u", sample);
    if (data->test.owners) {
        const uint32_t user = data->test.owners[sample];
        putc(',', file);
        if (user < data->users && users)
            predictions_write_field(file, users[user]);
        else if (user < data->users)
            fprintf(file, "%u", user);
    }
    if (data->test_lines) fprintf(file, ",%u", data->test_lines[sample]);
}

static void write_targets(FILE *file, const Predictions *predictions) {
    const uint8_t *targets = (const uint8_t *)predictions->data->test.labels;
    write_places_title(file, predictions->data);
    fputs(",target,prediction\n", file);
    for (uint32_t i = 0; i < predictions->data->test.count; i++) {
        write_places(file, predictions->data, predictions->users, i);
        fprintf(file, ",%.9g,%.9g\n", (double)dataset_number(targets, i), (double)predictions->logits[i]);
    }
}

// Three columns per label: label_0, prediction_0, probability_0, label_1, ...
static void write_labels(FILE *file, const Predictions *predictions) {
    const Dataset *data = predictions->data;
    const int labels = data->classes;
    const float *logit = predictions->logits;
    write_places_title(file, data);
    for (int k = 0; k < labels; k++)
        fprintf(file, ",label_%d,prediction_%d,probability_%d", k, k, k);
    putc('\n', file);
    size_t at = 0;
    for (uint32_t i = 0; i < data->test.count; i++) {
        write_places(file, data, predictions->users, i);
        for (int k = 0; k < labels; k++, at++, logit++)
            fprintf(file, ",%d,%d,%.9g", dataset_number((const uint8_t *)data->test.labels, at) > 0.5f, *logit > 0,
                    1 / (1 + exp(-(double)*logit)));
        putc('\n', file);
    }
}

void predictions_write_field(FILE *file, const char *text) {
    const char *guard = text_is_formula(text) ? "'" : "";
    if (!strpbrk(text, ",\"\r\n")) {
        fprintf(file, "%s%s", guard, text);
        return;
    }
    fprintf(file, "\"%s", guard);
    for (; *text; text++)
        fprintf(file, *text == '"' ? "\"\"" : "%c", *text);
    putc('"', file);
}

static void write_rows(FILE *file, const Predictions *predictions) {
    char label[CLASS_NUMBER_BYTES], prediction[CLASS_NUMBER_BYTES];
    write_places_title(file, predictions->data);
    fputs(",label,prediction,probability\n", file);
    for (uint32_t i = 0; i < predictions->data->test.count; i++) {
        double probability;
        const int class = predictions_class(&probability, predictions, i);
        write_places(file, predictions->data, predictions->users, i);
        putc(',', file);
        predictions_write_field(file, class_name(label, predictions->data, predictions->data->test.labels[i]));
        putc(',', file);
        predictions_write_field(file, class_name(prediction, predictions->data, class));
        fprintf(file, ",%.9g\n", probability);
    }
}

Status predictions_write_file(const Predictions *predictions, const char *path, const char *mark,
                              void (*write)(FILE *file, const Predictions *predictions), Error *err) {
    FILE *file;
    TRY(output_file_open(&file, path, mark, 0, err));
    write(file, predictions);
    return file_close(file, path, err);
}

Status predictions_write(const Predictions *predictions, const char *path, Error *err) {
    const DatasetItems *items = &predictions->data->items;
    return predictions_write_file(predictions, path, "sample",
                                  dataset_has_rows(items)      ? write_labels
                                  : dataset_has_numbers(items) ? write_targets
                                                               : write_rows,
                                  err);
}

#include "eval_outcome.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/train/round_test.h"
#include "app/train/run_metrics.h"
#include "base/text.h"
#include "nn/label_rows.h"

Status outcome_measure(Outcome *outcome, const Dataset *data, Error *err) {
    const bool has_numbers = dataset_has_numbers(&data->items);
    outcome->figures = answer_figures_none();
    if (!outcome->answers) return STATUS_OK;
    if (!has_numbers) outcome->recalls = malloc((size_t)data->classes * sizeof *outcome->recalls);
    if (!has_numbers && !outcome->recalls)
        return fail(err, STATUS_OS, "no memory for the accuracies of %d classes", data->classes);
    if (dataset_has_rows(&data->items)) {
        label_rows_figures(&outcome->figures, outcome->recalls, outcome->answers, data->test.count, data->classes);
        return STATUS_OK;
    }
    TRY(answer_figures(&outcome->figures, outcome->answers, data->test.count, has_numbers ? 0 : data->classes, err));
    if (has_numbers) return STATUS_OK;
    return answer_by_class(outcome->recalls, NULL, outcome->answers, data->test.count, data->classes, err);
}

void outcome_free(Outcome *outcome) {
    free(outcome->answers);
    free(outcome->recalls);
}

static void put_figures(JsonObject *object, const Outcome *outcome, const Dataset *data) {
    RoundTest test = round_test_none(data); // loss and accuracy are not among the figures of answers
    test.figures = outcome->figures;
    for (size_t i = 0; i < figure_count; i++) {
        char key[FIGURE_KEY_BYTES];
        const double value = figure_table[i].value(&(RoundFacts){.test = &test});
        if (!isnan(value)) put_real(object, figure_key(key, &figure_table[i], false), value);
    }
    if (outcome->recalls)
        put_reals(object, dataset_has_rows(&data->items) ? "test_accuracy_by_label" : "test_accuracy_by_class",
                  outcome->recalls, (size_t)data->classes);
}

// A long name is cut, so that the line has room for others, and followed by the number of its class.
static void print_class(const double *recalls, const Dataset *data, int label) {
    enum { LONGEST = 40 };
    char number[CLASS_NUMBER_BYTES], name[LONGEST];
    const char *whole = class_name(number, data, label);
    text_cut(name, sizeof name, whole);
    fputs("  ", stdout);
    if (strlen(name) < strlen(whole))
        printf("%s... (%d)", name, label);
    else
        fputs(name, stdout);
    printf(": %.2f%%", 100 * recalls[label]);
}

// Many classes do not fit a line: the ones with the lowest accuracies are shown.
static void print_classes(const double *recalls, const Dataset *data) {
    enum { MOST = 20, WORST = 5 };
    const int classes = data->classes;
    const char *each = dataset_has_rows(&data->items) ? "label" : "class";
    printf("%sby %s", classes <= MOST ? "" : "lowest ", each);
    for (int label = 0; label < classes && classes <= MOST; label++)
        if (!isnan(recalls[label])) print_class(recalls, data, label);
    for (int shown = 0, last = -1; shown < WORST && classes > MOST; shown++) {
        int next = -1; // after the last one, in the order of accuracies and labels
        for (int label = 0; label < classes; label++) {
            const double recall = recalls[label], before = last < 0 ? -1 : recalls[last];
            if (!(recall > before || (recall == before && label > last))) continue;
            if (next < 0 || recall < recalls[next]) next = label;
        }
        if (next < 0) break;
        print_class(recalls, data, next);
        last = next;
    }
    putchar('\n');
}

static void print_figures(const AnswerFigures *of) {
    if (!isnan(of->mae)) printf(", MAE %.4f", of->mae);
    if (!isnan(of->label_accuracy))
        printf("  labels %.2f%%  macro F1 %.2f%%", 100 * of->label_accuracy, 100 * of->macro_f1);
    else if (!isnan(of->macro_f1))
        printf("  balanced %.2f%%  macro F1 %.2f%%", 100 * of->balanced_accuracy, 100 * of->macro_f1);
    if (!isnan(of->auc)) printf("  AUC %.2f%%", 100 * of->auc);
}

static Status print_json(const Outcome *outcome, const Predictions *predictions, const char *path, const Dataset *data,
                         const RunDevice *device, Error *err) {
    JsonObject object;
    json_begin(&object);
    put_readable(&object, "model", path);
    put_text(&object, "data", data->name);
    put_real(&object, "test_loss", outcome->test.loss_sum / outcome->samples);
    if (dataset_has_numbers(&data->items)) {
        put_real(&object, "test_rmse", loss_as_rmse(outcome->test.loss_sum / outcome->samples));
        put_real(&object, "test_r2", loss_as_r2(outcome->test.loss_sum / outcome->samples, test_variance(data)));
    } else if (outcome->judged) {
        put_real(&object, "test_accuracy", (double)outcome->test.hits / outcome->samples);
        put_whole(&object, "hits", outcome->test.hits);
    }
    put_figures(&object, outcome, data);
    put_metrics(&object, "test_metrics", &outcome->metrics);
    put_whole(&object, "samples", outcome->samples);
    if (outcome->marked > 0) put_real(&object, "attack_success", (double)outcome->marked_hits / outcome->marked);
    put_real(&object, "seconds", outcome->seconds);
    put_text(&object, "device", run_device_name(device));
    if (predictions) predictions_put_confusion(&object, predictions);
    return json_print(stdout, &object, JSON_COMPACT, "the result", err);
}

Status outcome_tell(const Outcome *outcome, const Predictions *predictions, const char *path, const Dataset *data,
                    const Options *options, const RunDevice *device, Error *err) {
    const BatchResult *result = &outcome->test;
    const uint32_t count = outcome->samples;
    const Predictions *confusion = options->confusion ? predictions : NULL;
    if (options->predictions[0]) TRY(predictions_write(predictions, options->predictions, err));
    if (options->confusion_file[0]) TRY(predictions_write_confusion(predictions, options->confusion_file, err));
    if (options->json) return print_json(outcome, confusion, path, data, device, err);
    const double loss = result->loss_sum / count;
    char regression[RUN_FIGURE_TEXT_BYTES];
    printf("test loss %.4f", loss);
    if (dataset_has_numbers(&data->items))
        printf("  %s", regression_text(regression, loss_as_rmse(loss), loss_as_r2(loss, test_variance(data))));
    else if (outcome->judged)
        printf("  accuracy %u/%u (%.2f%%)", result->hits, count, 100.0 * result->hits / count);
    print_figures(&outcome->figures);
    for (uint32_t i = 0; i < outcome->metrics.count; i++) {
        char number[RUN_FIGURE_TEXT_BYTES];
        const MetricSum *metric = &outcome->metrics.all[i];
        printf("  %s %s", metric->name, metric_text(number, metric_value(metric)));
    }
    printf("  %.2f s  %s\n", outcome->seconds, run_device_name(device));
    if (outcome->recalls && !confusion) print_classes(outcome->recalls, data);
    if (outcome->marked > 0)
        printf("attack success %u/%u (%.2f%%) of the marked samples of other classes\n", outcome->marked_hits,
               outcome->marked, 100.0 * outcome->marked_hits / outcome->marked);
    return confusion ? predictions_print_confusion(confusion, err) : STATUS_OK;
}

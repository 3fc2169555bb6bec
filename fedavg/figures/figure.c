#include "figure.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// clang-format off
#define VALUE(name, expression) static double name(const RoundFacts *facts) { return expression; }
// clang-format on

// A test that counts no hits has no tenth that is worst by them.
static double worst_tenth(const ClientTests *tests) {
    return isnan(tests->accuracy.mean) ? (double)NAN : tests->accuracy.worst_tenth;
}

// The root of the variance, which is in squared percentage points.
static double deviation(const ClientTests *tests) {
    return isnan(tests->accuracy.mean) ? (double)NAN : sqrt(tests->accuracy.variance) / 100;
}

VALUE(loss, facts->test->loss)
VALUE(rmse, facts->test->rmse)
VALUE(r2, facts->test->r2)
VALUE(mae, facts->test->has_targets ? facts->test->figures.mae : (double)NAN)
VALUE(accuracy, facts->test->accuracy)
VALUE(label_accuracy, facts->test->figures.label_accuracy)
VALUE(balanced_accuracy, facts->test->figures.balanced_accuracy)
VALUE(macro_f1, facts->test->figures.macro_f1)
VALUE(f1, facts->test->figures.f1)
VALUE(auc, facts->test->figures.auc)
VALUE(attack_success, facts->test->attack_success)
VALUE(personal_accuracy, facts->test->personal.accuracy.mean)
VALUE(personal_loss, facts->test->personal.loss.mean)
VALUE(client_accuracy, facts->test->clients.accuracy.mean)
VALUE(client_loss, facts->test->clients.loss.mean)
VALUE(personal_worst, worst_tenth(&facts->test->personal))
VALUE(client_worst, worst_tenth(&facts->test->clients))
VALUE(personal_deviation, deviation(&facts->test->personal))
VALUE(client_deviation, deviation(&facts->test->clients))
VALUE(new_accuracy, facts->test->new_clients.accuracy.mean)
VALUE(new_loss, facts->test->new_clients.loss.mean)
VALUE(tuned_accuracy, facts->test->new_tuned.accuracy.mean)
VALUE(tuned_loss, facts->test->new_tuned.loss.mean)

// Rounds without a test have these, too, as null.
static bool always(const Figure *figure, const RoundFacts *facts) {
    (void)figure, (void)facts;
    return true;
}

static bool with_targets(const Figure *figure, const RoundFacts *facts) {
    (void)figure;
    return facts->test->has_targets;
}

static bool with_hits(const Figure *figure, const RoundFacts *facts) {
    (void)figure;
    return !facts->test->has_targets && facts->test->judged;
}

static bool if_known_or_asked(const Figure *figure, const RoundFacts *facts) {
    return facts->about == figure || !isnan(figure->value(facts));
}

static bool if_asked(const Figure *figure, const RoundFacts *facts) {
    return facts->about == figure;
}

// The loss is beside an accuracy that was asked for.
static bool if_such_is_asked(const Figure *figure, const RoundFacts *facts) {
    return facts->about && facts->about->of == figure->of;
}

static bool with_new(const Figure *figure, const RoundFacts *facts) {
    (void)figure;
    return facts->test->new_clients.clients > 0;
}

static bool with_tuned(const Figure *figure, const RoundFacts *facts) {
    (void)figure;
    return facts->test->new_tuned.clients > 0;
}

#define NAMED(name)                                                                                                    \
    { name, name "=" }

// clang-format off
const Figure figure_table[] = {
    {"loss", "loss", FIGURE_OF_MODEL, FIGURE_FALLS, .column = "test loss", .after = "loss", .of_run = NAMED("loss"),
     .on_test = NAMED("test-loss"), .on_validation = NAMED("validation-loss"), .listed = always, .value = loss,
     .help = "mean over the test samples; of targets it is that of (y - t)^2, PyTorch's MSELoss"},
    {"rmse", "RMSE", FIGURE_OF_MODEL, FIGURE_FALLS | FIGURE_IN_LINE, .column = "RMSE", .listed = with_targets,
     .value = rmse,
     .help = "if targets are numbers: root of the mean square, share of the targets' variance explained"},
    {"r2", "R2", FIGURE_OF_MODEL, 0, .column = "R2", .listed = with_targets, .value = r2},
    {"mae", "MAE", FIGURE_OF_MODEL, FIGURE_FALLS, .column = "MAE", .value = mae, .of_answers = true,
     .help = "if targets are numbers: mean distance of the output from the target"},
    {"accuracy", "accuracy", FIGURE_OF_MODEL, FIGURE_IS_SHARE | FIGURE_IN_LINE, .column = "accuracy", .after = "",
     .word = "", .width = 7, .also = "acc top1", .of_run = NAMED("accuracy"), .on_test = NAMED("test-accuracy"),
     .on_validation = NAMED("validation-accuracy"), .listed = with_hits, .value = accuracy,
     .help = "share of the test samples that are right; absent if targets are numbers or a trainer counts no hits"},
    {"label_accuracy", "label accuracy", FIGURE_OF_MODEL, FIGURE_IS_SHARE | FIGURE_IN_LINE, .column = "labels",
     .word = "labels ", .value = label_accuracy, .of_answers = true,
     .help = "if samples have several labels each: the share of labels that are right"},
    {"balanced_accuracy", "balanced accuracy", FIGURE_OF_MODEL,
     FIGURE_IS_SHARE | FIGURE_OF_CLASSES | FIGURE_OF_ONE_LABEL, .column = "balanced",
     .also = "bacc balanced", .of_run = NAMED("balanced-accuracy"), .listed = if_known_or_asked, .value = balanced_accuracy, .of_answers = true,
     .help = "mean recall of the classes; mean F1 of the classes; of two classes the area under the ROC curve: scikit-"
             "learn's definitions. On a GPU only at the end, unless the run is about one of them; not with --trainer"},
    {"macro_f1", "macro F1", FIGURE_OF_MODEL, FIGURE_IS_SHARE | FIGURE_OF_CLASSES, .column = "macro F1",
     .also = "f1-macro", .of_run = NAMED("macro-f1"), .listed = if_known_or_asked, .value = macro_f1, .of_answers = true},
    {"auc", "AUC", FIGURE_OF_MODEL,
     FIGURE_IS_SHARE | FIGURE_OF_CLASSES | FIGURE_OF_ONE_LABEL | FIGURE_OF_TWO_CLASSES, .column = "AUC",
     .also = "roc-auc auroc", .of_run = NAMED("auc"), .listed = if_known_or_asked, .value = auc, .of_answers = true},
    {"f1", "F1", FIGURE_OF_MODEL, FIGURE_IS_SHARE | FIGURE_OF_CLASSES | FIGURE_OF_ONE_LABEL | FIGURE_OF_TWO_CLASSES,
     .column = "F1", .of_run = NAMED("f1"), .listed = if_known_or_asked, .value = f1, .of_answers = true,
     .help = "if there are two classes: the F1 of the second one, scikit-learn's f1_score"},
    {"attack_success", "attack success", FIGURE_OF_ATTACK, FIGURE_IS_SHARE | FIGURE_IN_LINE, .column = "attack",
     .word = "attack ", .width = 7, .value = attack_success,
     .help = "with --attack backdoor: of the marked test samples of other classes, how many are predicted as its "
             "target"},
    {"accuracy", "personal accuracy", FIGURE_OF_PERSONAL, FIGURE_IS_SHARE, .column = "personal",
     .word = "personal ", .on_test = NAMED("personal-accuracy"), .listed = if_asked, .value = personal_accuracy,
     .help = "means over the clients of their own models on their own samples (personal rules)"},
    {"loss", "personal loss", FIGURE_OF_PERSONAL, FIGURE_FALLS, .column = "personal loss",
     .on_test = NAMED("personal-loss"), .listed = if_such_is_asked, .value = personal_loss},
    {"worst_tenth", "personal accuracy of the worst tenth", FIGURE_OF_PERSONAL, FIGURE_IS_SHARE, .column = "personal, worst tenth",
     .on_test = NAMED("personal-worst-tenth"), .listed = if_asked, .value = personal_worst,
     .help = "mean accuracy of the 10% of the clients whose own models are worst (--target personal-worst-tenth)"},
    {"deviation", "deviation of personal accuracy", FIGURE_OF_PERSONAL, FIGURE_IS_SHARE | FIGURE_FALLS,
     .column = "personal, deviation", .on_test = NAMED("personal-deviation"), .listed = if_asked,
     .value = personal_deviation,
     .help = "standard deviation over the clients of the accuracies of their own models (--target personal-deviation)"},
    {"accuracy", "client accuracy", FIGURE_OF_CLIENTS, FIGURE_IS_SHARE, .column = "clients", .word = "clients ",
     .on_test = NAMED("client-accuracy"), .listed = if_asked, .value = client_accuracy,
     .help = "means over the clients of the global model on their own samples (--target client-...)"},
    {"loss", "client loss", FIGURE_OF_CLIENTS, FIGURE_FALLS, .column = "client loss",
     .on_test = NAMED("client-loss"), .listed = if_such_is_asked, .value = client_loss},
    {"worst_tenth", "client accuracy of the worst tenth", FIGURE_OF_CLIENTS, FIGURE_IS_SHARE, .column = "clients, worst tenth",
     .on_test = NAMED("client-worst-tenth"), .listed = if_asked, .value = client_worst,
     .help = "mean accuracy of the 10% of the clients on which the global model is worst (--target client-worst-tenth)"},
    {"deviation", "deviation of client accuracy", FIGURE_OF_CLIENTS, FIGURE_IS_SHARE | FIGURE_FALLS,
     .column = "clients, deviation", .on_test = NAMED("client-deviation"), .listed = if_asked, .value = client_deviation,
     .help = "standard deviation over the clients of the global model's accuracies on their samples (--target client-"
             "deviation)"},
    {"accuracy", "accuracy of new clients", FIGURE_OF_NEW_CLIENTS, FIGURE_IS_SHARE, .column = "new clients",
     .value = new_accuracy,
     .help = "means over the new clients of the global model on their own samples (--new-clients)"},
    {"loss", "loss of new clients", FIGURE_OF_NEW_CLIENTS, FIGURE_FALLS, .listed = with_new, .value = new_loss},
    {"accuracy", "accuracy of new clients, fine-tuned", FIGURE_OF_NEW_TUNED, FIGURE_IS_SHARE,
     .column = "new fine-tuned", .value = tuned_accuracy,
     .help = "means over the new clients after --finetune-epochs of training on their samples"},
    {"loss", "loss of new clients, fine-tuned", FIGURE_OF_NEW_TUNED, FIGURE_FALLS, .listed = with_tuned,
     .value = tuned_loss},
};
// clang-format on
const size_t figure_count = sizeof figure_table / sizeof *figure_table;

const Figure figure_metric = {.key = "test_metrics", .title = "metric", .of = FIGURE_OF_TRAINER, .word = ""};

const Figure *figure_find(FigureOf of, const char *key) {
    for (size_t i = 0; i < figure_count; i++)
        if (figure_table[i].of == of && strcmp(figure_table[i].key, key) == 0) return &figure_table[i];
    return NULL;
}

static bool same_name(const char *name, size_t bytes, const char *typed) {
    size_t i = 0;
    while (i < bytes && typed[i] && (typed[i] == '_' ? '-' : typed[i]) == (name[i] == '_' ? '-' : name[i]))
        i++;
    return i == bytes && !typed[i];
}

const Figure *figure_by_name(const char *name) {
    for (size_t i = 0; i < figure_count; i++) {
        const Figure *figure = &figure_table[i];
        if (figure->of != FIGURE_OF_MODEL) continue;
        if (same_name(figure->key, strlen(figure->key), name)) return figure;
        for (const char *also = figure->also; also && *also; also += strspn(also, " ")) {
            const size_t bytes = strcspn(also, " ");
            if (same_name(also, bytes, name)) return figure;
            also += bytes;
        }
    }
    return NULL;
}

const Figure *figure_of_key(bool *validates, const char *key) {
    char own[FIGURE_KEY_BYTES];
    for (size_t i = 0; i < figure_count; i++)
        for (int on_validation = 0; on_validation < 2; on_validation++) {
            if (strcmp(figure_key(own, &figure_table[i], on_validation == 1), key) != 0) continue;
            if (validates) *validates = on_validation == 1;
            return &figure_table[i];
        }
    return NULL;
}

bool figure_is_of_clients(const Figure *figure) {
    return figure->of == FIGURE_OF_PERSONAL || figure->of == FIGURE_OF_CLIENTS;
}

bool figure_is_goal(const Figure *figure) {
    return figure->of == FIGURE_OF_TRAINER || figure->of_run.name || figure->on_test.name;
}

bool figure_is_listed(const Figure *figure, const RoundFacts *facts) {
    return figure->listed ? figure->listed(figure, facts) : !isnan(figure->value(facts));
}

const char *figure_key(char key[FIGURE_KEY_BYTES], const Figure *figure, bool validates) {
    static const char *const prefixes[] = {[FIGURE_OF_MODEL] = "test_",
                                           [FIGURE_OF_ATTACK] = "",
                                           [FIGURE_OF_PERSONAL] = "personal_",
                                           [FIGURE_OF_CLIENTS] = "client_",
                                           [FIGURE_OF_NEW_CLIENTS] = "new_clients_",
                                           [FIGURE_OF_NEW_TUNED] = "new_clients_finetuned_",
                                           [FIGURE_OF_TRAINER] = ""};
    const bool is_validated = validates && figure->of == FIGURE_OF_MODEL;
    snprintf(key, FIGURE_KEY_BYTES, "%s%s", is_validated ? "validation_" : prefixes[figure->of], figure->key);
    return key;
}

#include "run_target.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/suggest.h"
#include "fedavg/rules/local/personal_rules.h"
#include "option_table.h"

// Names are numbered row by row, in the order of the fields of a row. *found gets the figure of name number
// `index`, *of_run whether the name leaves models and samples to the run.
static const FigureName *name_at(RunFigure *found, bool *of_run, size_t index) {
    for (size_t i = 0; i < figure_count; i++) {
        const FigureName *const names[] = {&figure_table[i].of_run, &figure_table[i].on_test,
                                           &figure_table[i].on_validation};
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            *found = (RunFigure){.row = &figure_table[i], .validates = names[k] == &figure_table[i].on_validation};
            *of_run = names[k] == &figure_table[i].of_run;
            if (names[k]->name && index-- == 0) return names[k];
        }
    }
    return NULL;
}

const char *figure_name(size_t index) {
    RunFigure found;
    bool of_run;
    const FigureName *name = name_at(&found, &of_run, index);
    return name ? name->name : NULL;
}

const char *target_name(size_t index) {
    RunFigure found;
    bool of_run;
    const FigureName *name = name_at(&found, &of_run, index);
    return name ? name->begun : NULL;
}

// The parts of "perplexity<=20", and what sentences name.
typedef struct Parts {
    const char *option, *text; // "--target", "perplexity<=20"
    char name[OPTION_SHOWN_BYTES], sign;
    const char *value;
} Parts;

static bool split(Parts *parts) {
    const size_t length = strcspn(parts->text, "=<>");
    const char *sign = parts->text + length;
    if (length == 0 || length >= sizeof parts->name || !*sign) return false;
    snprintf(parts->name, sizeof parts->name, "%.*s", (int)length, parts->text);
    for (size_t end = length; end > 0 && parts->name[end - 1] == ' '; end--)
        parts->name[end - 1] = '\0';
    parts->sign = *sign;
    parts->value = sign + (sign[0] != '=' && sign[1] == '=' ? 2 : 1);
    return true;
}

// A metric's direction cannot be known, so its sign says it.
static Status read_metric(RunFigure *figure, const Parts *parts, bool has_trainer, Error *err) {
    Error why;
    const char *value = parts->value ? parts->value : "", *these = parts->value ? "this or" : "it is better with";
    Suggestion suggestion = {.typed = parts->name};
    for (size_t i = 0; !has_trainer && figure_name(i); i++)
        suggestion_consider(&suggestion, figure_name(i));
    if (!has_trainer)
        return fail(err, STATUS_USAGE, "%s %.100s: only the tests of a --trainer have figures of their own; %s%s%s",
                    parts->option, parts->text,
                    suggestion.best ? "did you mean " : "give accuracy, loss, client-accuracy or client-loss",
                    suggestion.best ? suggestion.best : "", suggestion.best ? "?" : "");
    if (metric_name_check(parts->name, &why) != STATUS_OK)
        return fail(err, STATUS_USAGE, "%s %.100s: %s", parts->option, parts->text, why.message);
    if (parts->sign == '=')
        return fail(err, STATUS_USAGE,
                    "%s %.100s: whether more or less %s is better is not known; write \"%s>%s\" (%s more) or \"%s<%s\" "
                    "(%s less)",
                    parts->option, parts->text, parts->name, parts->name, value, these, parts->name, value, these);
    *figure = (RunFigure){.row = &figure_metric, .falls = parts->sign == '<'};
    snprintf(figure->metric, sizeof figure->metric, "%.64s", parts->name);
    return STATUS_OK;
}

// A number such as 0.8, or 80%. Returns whether it is one.
static bool read_number(double *number, bool *is_percent, const char *text) {
    char *end;
    *number = strtod(text, &end);
    *is_percent = strcmp(end, "%") == 0;
    if (*is_percent) *number /= 100;
    return end != text && (!*end || *is_percent) && isfinite(*number);
}

double target_value(const char *text) {
    Parts parts = {.text = text};
    bool is_percent;
    double value;
    return split(&parts) && read_number(&value, &is_percent, parts.value) ? value : (double)NAN;
}

static Status read_value(double *value, const Parts *parts, const RunFigure *figure, Error *err) {
    bool is_percent;
    const bool is_share = run_figure_has(figure, FIGURE_IS_SHARE), is_loss = run_figure_has(figure, FIGURE_FALLS);
    if (!read_number(value, &is_percent, parts->value) || (is_percent && !is_share))
        return fail(err, STATUS_USAGE, "%s %.100s: needs a number, such as %s%c%s", parts->option, parts->text,
                    parts->name, parts->sign,
                    is_share  ? "0.8"
                    : is_loss ? "0.5"
                              : "20");
    if (!is_share || (*value > 0 && *value <= 1)) return STATUS_OK;
    return fail(err, STATUS_USAGE, "%s %.100s: an accuracy is above 0 and at most 1, or 100%%; write %s=0.8 or %s=80%%",
                parts->option, parts->text, parts->name, parts->name);
}

static Status check_figure(const RunFigure *figure, const Parts *parts, const Options *options, Error *err) {
    const Figure *row = run_figure_row(figure);
    const bool falls = row->traits & FIGURE_FALLS;
    if (!run_figure_is_metric(figure) && parts->sign == (falls ? '>' : '<'))
        return fail(err, STATUS_USAGE, "%s %.100s: %s is better; write %s=%.40s", parts->option, parts->text,
                    falls ? "a smaller loss" : "a higher accuracy", parts->name, parts->value);
    if (row->of == FIGURE_OF_PERSONAL && options->recipe.personal.row == PERSONAL_NONE)
        return fail(err, STATUS_USAGE,
                    "%s %.100s: --algorithm %.100s trains no models of the clients' own; take accuracy, or "
                    "client-accuracy for the global model on the clients' samples",
                    parts->option, parts->text, options->algorithm);
    if (figure->validates && !options_validate(options) && options->validation_data == OWN_VALIDATION_NONE)
        return fail(err, STATUS_USAGE, "%s %.100s: there is no validation set; give --validation 0.1", parts->option,
                    parts->text);
    if (row->of == FIGURE_OF_MODEL && !figure->validates && options_validate(options))
        return fail(err, STATUS_USAGE, "%s %.100s: with a validation set the test set is used only at the end; take %s",
                    parts->option, parts->text, row->of_run.name);
    if (row->of == FIGURE_OF_CLIENTS && options_algorithm(options).engine->whole_cohort)
        return fail(err, STATUS_USAGE, "%s %.100s: --algorithm %.100s tests no clients; take accuracy or loss",
                    parts->option, parts->text, options->algorithm);
    return STATUS_OK;
}

// A trainer's test may have a metric of a name such as auc, which the engine's test computes itself. A
// name that leaves that to the run means the clients' own models if they are tested for it, and the validation set if
// there is one.
static Status read_figure(RunFigure *figure, const Parts *parts, const Options *options, Error *err) {
    const bool has_trainer = options->trainer[0], is_personal = options->recipe.personal.row != PERSONAL_NONE;
    const FigureName *name;
    bool of_run;
    size_t i = 0;
    const Figure *also = has_trainer ? NULL : figure_by_name(parts->name);
    const char *named = also && also->of_run.name ? also->of_run.name : parts->name;
    while ((name = name_at(figure, &of_run, i)) &&
           (!option_same_name(name->name, named) || (has_trainer && run_figure_has(figure, FIGURE_OF_CLASSES))))
        i++;
    if (!name) {
        TRY(read_metric(figure, parts, has_trainer, err));
    } else if (of_run) {
        const Figure *personal = is_personal ? figure_find(FIGURE_OF_PERSONAL, figure->row->key) : NULL;
        *figure =
            (RunFigure){.row = personal ? personal : figure->row, .validates = !personal && options_validate(options)};
    }
    return check_figure(figure, parts, options, err);
}

Status target_read(Target *target, const Options *options, Error *err) {
    char option[OPTION_NAMED_BYTES];
    Parts parts = {.option = options_named(option, options, "target"), .text = options->target};
    *target = (Target){.given = options->target[0] != '\0'};
    if (!target->given) return STATUS_OK;
    if (!split(&parts))
        return fail(err, STATUS_USAGE,
                    "%s %.100s: write NAME=VALUE, such as accuracy=0.8 or loss=0.5, and in quotes \"recall>0.8\" of a "
                    "--trainer: a shell takes < and > for its own",
                    option, options->target);
    TRY(read_figure(&target->figure, &parts, options, err));
    return read_value(&target->value, &parts, &target->figure, err);
}

Status patience_by_read(RunFigure *figure, const Options *options, Error *err) {
    char option[OPTION_NAMED_BYTES];
    Target target;
    Parts parts = {.option = options_named(option, options, "patience-by"), .text = options->patience_by, .sign = '='};
    if (!split(&parts)) snprintf(parts.name, sizeof parts.name, "%.*s", (int)sizeof parts.name - 1, parts.text);
    TRY(read_figure(figure, &parts, options, err));
    TRY(target_read(&target, options, err));
    if (!target.given || run_figure_same(&target.figure, figure)) return STATUS_OK;
    return fail(err, STATUS_USAGE,
                "%s %.64s: the run is about one figure, and --target %.64s names another; leave one of them out",
                option, options->patience_by, options->target);
}

bool target_is_reached(const Target *target, double value) {
    return value == target->value || run_figure_is_better(&target->figure, value, target->value);
}

RunFigure run_figure_of(const Options *options, bool has_targets) {
    Target target;
    Error ignored;
    RunFigure named;
    if (target_read(&target, options, &ignored) == STATUS_OK && target.given) return target.figure;
    if (options->patience_by[0] && patience_by_read(&named, options, &ignored) == STATUS_OK) return named;
    const bool is_personal = options->recipe.personal.row != PERSONAL_NONE;
    return (RunFigure){
        .row = figure_find(is_personal ? FIGURE_OF_PERSONAL : FIGURE_OF_MODEL, has_targets ? "loss" : "accuracy"),
        .validates = !is_personal && options_validate(options)};
}

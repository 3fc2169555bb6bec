// Part of help.h: topics of `sounder help` that are loops over a table, so that a new row appears in its topic.
#include "app/help/help.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "app/options/option_table.h"
#include "datasets/dataset.h"
#include "datasets/partition.h"
#include "datasets/settings.h"
#include "datasets/synthetic/federation.h"
#include "fedavg/rules/attack/attack_rules.h"
#include "nn/spec.h"

static void print_model(FILE *file, size_t i) {
    char line[SPEC_TEXT_BYTES + 256];
    snprintf(line, sizeof line, "%s: %s", zoo_entries[i].name, zoo_entries[i].description);
    print_paragraph(file, 2, line);
    snprintf(line, sizeof line, "\"%s\"", zoo_entries[i].text);
    print_paragraph(file, 4, line);
}

void help_print_models(FILE *file) {
    print_paragraph(file, 0, "Nets that --model knows by name, each with its layer list, which --model accepts, too:");
    for (size_t i = 0; i < zoo_entry_count; i++) {
        fputc('\n', file);
        print_model(file, i);
    }
    fputc('\n', file);
    print_paragraph(file, 0, "Layers, separated by ';' (\"classes\" stands for the number of classes of the data):");
    for (size_t i = 0; layer_form(i); i++)
        print_entry(file, layer_form(i)->form, layer_form(i)->help);
    print_paragraph(file, 0,
                    "The last layer gives one output per class; softmax and cross-entropy are added automatically.");
    fputc('\n', file);
    print_paragraph(file, 0,
                    "Modules of PyTorch and files of ONNX become such layers in Python: sounder.layers(NET), and "
                    "sounder.write_weights(FILE, NET) for --init (tools/python).");
}

// Prints a form: its purpose, its source, and its parts.
static void print_form(FILE *file, const FormRow *row) {
    char usage[FORM_USAGE_BYTES], text[1024];
    form_usage(usage, row);
    fprintf(file, "  %s\n", usage);
    snprintf(text, sizeof text, row->source ? "%s (%s)" : "%s", row->help, row->source);
    print_paragraph(file, 4, text);
    for (int k = 0; k < FORM_MAX_KEYS && row->keys[k].name; k++) {
        snprintf(text, sizeof text, "%s: %s", row->keys[k].name, row->keys[k].help);
        print_paragraph(file, 6, text);
    }
}

void help_print_forms(FILE *file, const FormTable *table) {
    for (uint32_t i = 0; i < table->count; i++) {
        fputc('\n', file);
        print_form(file, form_row(table, i));
    }
}

void help_print_format(FILE *file, const DatasetFormat *format) {
    char line[2048];
    snprintf(line, sizeof line, "%s: %s", format->name, format->help);
    print_paragraph(file, 2, line);
}

// part: its name; NULL if the rule is no part of an algorithm.
static void print_rule(FILE *file, const char *part, const RuleText *rule) {
    char line[1024], form[512];
    rule_form(form, sizeof form, rule);
    snprintf(line, sizeof line, "%s%s%s", part ? part : "", part ? " " : "", form);
    print_paragraph(file, 2, line);
    snprintf(line, sizeof line, "%s (%s)", rule->help, rule->source);
    print_paragraph(file, 6, line);
}

// Prints rules that are no parts of an algorithm; skips the first, "none".
static void print_rules(FILE *file, const RuleText *rules, uint32_t count) {
    fputc('\n', file);
    for (uint32_t row = 1; row < count; row++)
        print_rule(file, NULL, &rules[row]);
}

static void print_algorithm(FILE *file, const ZooAlgorithm *zoo) {
    char line[1024];
    snprintf(line, sizeof line, "%s: %s (%s)", zoo->name, zoo->help, zoo->source);
    print_paragraph(file, 2, line);
    snprintf(line, sizeof line, "\"%s\"", zoo->text);
    if (*zoo->text) print_paragraph(file, 4, line);
}

void help_print_algorithms(FILE *file) {
    print_paragraph(file, 0,
                    "The algorithms that --algorithm knows by name. A name may be followed by numbers of its rules and "
                    "by parts that replace its own: --algorithm \"fedadam lr=0.03; combine mean uniform\".");
    for (size_t i = 0; i < zoo_algorithm_count; i++) {
        fputc('\n', file);
        print_algorithm(file, &zoo_algorithms[i]);
    }
    fputc('\n', file);
    print_paragraph(
        file, 0,
        "Parts, separated by ';', each with its rules; the first rule is the default of the part. Numbers have the "
        "values shown unless they are given; the first number of a rule needs no name: \"local prox 0.1\". What a "
        "client sends may have several parts: \"send clip 1; send qsgd\" clips the update, then encodes it; in any "
        "order, it is clipped first and encoded last. \"send masked\" is for the CPU alone.");
    for (int part = 0; part < PART_COUNT; part++) {
        fputc('\n', file);
        for (uint32_t row = 0; part_rule((Part)part, row); row++)
            print_rule(file, part_names[part], part_rule((Part)part, row));
    }
}

void help_print_partitions(FILE *file) {
    print_paragraph(file, 0,
                    "Values of --partition: a name, followed by parts of the form PART=VALUE, in one word for the "
                    "shell. A part in brackets has that value if it is left out. Numbers of samples refer to the "
                    "training set; \"lost\" samples are in no client's training.");
    help_print_forms(file, &partition_table);
    fputc('\n', file);
    print_paragraph(file, 0,
                    "Values of --client-noise: fixed noise in each client's samples, in training and in its own test "
                    "part; the global test set has no noise.");
    print_rules(file, view_noises, VIEW_NOISE_COUNT);
    fputc('\n', file);
    print_paragraph(file, 0,
                    "Values of --drift (concept drift): a change from a round on. change=sudden: for all clients at "
                    "once, and again every PERIOD rounds unless that is 0; gradual: for each client at a round of its "
                    "own within PERIOD rounds; recurrent: there and back every PERIOD rounds. The test set changes, "
                    "too, with a gradual drift from ROUND on; `sounder eval` uses the original test set.");
    print_rules(file, view_drifts, VIEW_DRIFT_COUNT);
}

void help_print_attacks(FILE *file) {
    print_paragraph(file, 0,
                    "Values of --attack: the clients of --attackers do this in every round for which they are drawn. "
                    "Other clients train as without attackers. Numbers have the values shown unless they are given; "
                    "the first number of an attack needs no name: --attack \"sign-flip 3\" --attackers 0.2. The attack "
                    "changes an update before `send` does. alie, ipm, min-max, min-sum and mimic (omniscient attacks) "
                    "know the updates of the round: of all honest clients, or with knowledge=own the updates that the "
                    "attackers have trained.");
    print_rules(file, attack_rules, ATTACK_RULE_COUNT);
}

void help_print_federations(FILE *file) {
    print_paragraph(file, 0,
                    "Made-up data of users who differ, for --data: a name, followed by parts of the form PART=VALUE, "
                    "in one word for the shell. Unless --partition is given, every client is a user (natural-id).");
    help_print_forms(file, &federation_table);
}

// Whether an algorithm's text ("local prox; combine krum") uses the rule in the part.
static bool has_rule(const char *text, const char *part, const char *rule) {
    char wanted[64];
    const int length = snprintf(wanted, sizeof wanted, "%s %s", part, rule);
    for (; *text; text += strcspn(text, ";")) {
        text += strspn(text, "; ");
        if (strncmp(text, wanted, (size_t)length) == 0 && strchr(" ;", text[length])) return true;
    }
    return false;
}

// Prints the algorithm's rules with their numbers, which the user may write after the algorithm's name.
static void print_rules_of(FILE *file, const ZooAlgorithm *zoo) {
    for (int part = 0; part < PART_COUNT; part++)
        for (uint32_t row = 0; part_rule((Part)part, row); row++)
            if (has_rule(zoo->text, part_names[part], part_rule((Part)part, row)->name))
                print_rule(file, part_names[part], part_rule((Part)part, row));
}

// One name -----------------------------------------------------------------------------------------------------------

// A search for the typed name through all tables.
typedef struct Search {
    FILE *file;
    Suggestion *suggestion;
    bool follows, found;
} Search;

// If this row's name was typed, prints a heading and returns true: the caller prints the row.
static bool is_it(Search *search, const char *name, const char *of, const char *part) {
    char line[128];
    suggestion_consider(search->suggestion, name);
    if (strcasecmp(name, search->suggestion->typed) != 0) return false;
    if (search->follows) fputc('\n', search->file);
    search->follows = search->found = true;
    snprintf(line, sizeof line, of, part);
    print_paragraph(search->file, 0, line);
    return true;
}

static void search_rules(Search *search, const RuleText *rules, uint32_t count, const char *of) {
    for (uint32_t row = 1; row < count; row++)
        if (is_it(search, rules[row].name, of, "")) print_rule(search->file, NULL, &rules[row]);
}

static void search_forms(Search *search, const FormTable *table, const char *of) {
    for (uint32_t i = 0; i < table->count; i++)
        if (is_it(search, form_row(table, i)->name, of, "")) print_form(search->file, form_row(table, i));
}

// algorithm: text of an algorithm with this name, whose rules are printed already; empty: none.
static void search_parts(Search *search, const char *algorithm) {
    for (int part = 0; part < PART_COUNT; part++)
        for (uint32_t row = 0; part_rule((Part)part, row); row++)
            if (!has_rule(algorithm, part_names[part], part_rule((Part)part, row)->name) &&
                is_it(search, part_rule((Part)part, row)->name,
                      "--algorithm, part %s (help algorithms):", part_names[part]))
                print_rule(search->file, part_names[part], part_rule((Part)part, row));
}

bool help_print_name(FILE *file, Suggestion *suggestion, bool follows) {
    Search search = {.file = file, .suggestion = suggestion, .follows = follows};
    const char *algorithm = "";
    for (size_t i = 0; i < zoo_algorithm_count; i++)
        if (is_it(&search, zoo_algorithms[i].name, "--algorithm (help algorithms):", "")) {
            print_algorithm(file, &zoo_algorithms[i]);
            print_rules_of(file, &zoo_algorithms[i]);
            algorithm = zoo_algorithms[i].text;
        }
    search_parts(&search, algorithm);
    for (size_t i = 0; i < zoo_entry_count; i++)
        if (is_it(&search, zoo_entries[i].name, "--model (help models):", "")) print_model(file, i);
    for (size_t i = 0; layer_form(i); i++)
        if (is_it(&search, layer_form(i)->word, "--model, a layer (help models):", ""))
            print_entry(file, layer_form(i)->form, layer_form(i)->help);
    search_forms(&search, &partition_table, "--partition (help partitions):");
    search_rules(&search, view_noises, VIEW_NOISE_COUNT, "--client-noise (help partitions):");
    search_rules(&search, view_drifts, VIEW_DRIFT_COUNT, "--drift (help partitions):");
    search_rules(&search, attack_rules, ATTACK_RULE_COUNT, "--attack (help attacks):");
    search_forms(&search, &federation_table, "--data, made up (help federations):");
    for (int i = 0; i < option_count; i++) {
        char of[64];
        snprintf(of, sizeof of, "--%s (help %s):", option_table[i].name, option_table[i].name);
        if (option_table[i].form) search_forms(&search, &option_table[i].form->table, of);
    }
    for (int k = 0; k < DATASET_SETTINGS; k++)
        if (is_it(&search, settings_table.rows->keys[k].name, "--data, a setting of your own files (help data):", ""))
            print_entry(file, settings_table.rows->keys[k].name, settings_table.rows->keys[k].help);
    for (uint32_t i = 0; i < dataset_format_count; i++)
        if (is_it(&search, dataset_formats[i]->name, "--data, a form of files (help data):", ""))
            help_print_format(file, dataset_formats[i]);
    for (size_t i = 0; i < dataset_name_count; i++)
        is_it(&search, dataset_names[i], "--data %s: a public data set (help data)", dataset_names[i]);
    suggestion_consider_as(suggestion, "fmnist", "fashion-mnist");
    return search.found;
}

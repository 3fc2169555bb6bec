#include "option_names.h"

#include <stdio.h>
#include <string.h>

#include "datasets/dataset.h"
#include "datasets/partition.h"
#include "datasets/synthetic/federation.h"
#include "fedavg/algorithm/recipe.h"
#include "fedavg/rules/attack/attack_rules.h"
#include "fedavg/rules/world/view_rules.h"
#include "nn/spec.h"

const char *name_of_data(size_t index) {
    if (index < dataset_name_count) return dataset_names[index];
    index -= dataset_name_count;
    return index < federation_table.count ? form_row(&federation_table, index)->name : NULL;
}

const char *name_of_model(size_t index) {
    return index < zoo_entry_count ? zoo_entries[index].name : NULL;
}

const char *name_of_partition(size_t index) {
    for (uint32_t i = 0; i < partition_table.count; i++) {
        const FormRow *row = form_row(&partition_table, i);
        if (row->keys[0].name && row->keys[0].type == FORM_TEXT) continue; // "file:": its value is a path
        if (index-- == 0) return row->name;
    }
    return NULL;
}

const char *name_of_algorithm(size_t index) {
    return index < zoo_algorithm_count ? zoo_algorithms[index].name : NULL;
}

const char *name_of_attack(size_t index) {
    return index + 1 < ATTACK_RULE_COUNT ? attack_rules[index + 1].name : NULL; // row 0 is no attack
}

const char *name_of_noise(size_t index) {
    return index + 1 < VIEW_NOISE_COUNT ? view_noises[index + 1].name : NULL; // row 0 is no noise
}

const char *name_of_drift(size_t index) {
    return index + 1 < VIEW_DRIFT_COUNT ? view_drifts[index + 1].name : NULL; // row 0 is no drift
}

// Finds the first rule that has a number of this name; part: the part of the rule. NULL: none has it.
static const RuleText *rule_with_number(const char **part, const char *name) {
    for (int p = 0; p < PART_COUNT; p++)
        for (uint32_t row = 0; part_rule((Part)p, row); row++) {
            const RuleText *rule = part_rule((Part)p, row);
            *part = part_names[p];
            for (int n = 0; n < RULE_NUMBERS && rule->numbers[n].name; n++)
                if (strcmp(rule->numbers[n].name, name) == 0) return rule;
        }
    return NULL;
}

// Options of other programs, and numbers that several parts of an algorithm have.
static const char *known_remedy(const char *name) {
#define PRIVACY                                                                                                        \
    "a number of a kind of privacy; write --algorithm \"dp-fedavg epsilon=8\" (clients, over all rounds), --dp-sgd "   \
    "\"clip=1 noise=1\" (samples), or --algorithm local-dp (one update)"
    static const struct {
        const char *names, *remedy;
    } known[] = {
        {" epsilon delta noise noise-multiplier ", PRIVACY},
        {" mu ", "a number of --algorithm; write --algorithm \"fedprox mu=X\""},
        {" server-lr ", "a number of --algorithm; write --algorithm \"fedavg; server average lr=X\""},
        {" log verbose ", "written --log-level info"},
        {" cpu ", "written --device cpu"},
        {" nodes ", "said by mpirun or srun, which start sounder on each node (sounder help nodes)"},
        {" save-model name run-name ", "the run's folder: write --out FOLDER, whose model.safetensors is the model"},
        {" wandb ", "done from Python after the run: sounder.to_wandb(\"RUN\") (tools/python)"},
        {" dropout ",
         "a layer of --model, such as \"linear 64; relu; dropout 0.2; linear classes\"; clients drop out by "
         "--drop-out"},
    };
#undef PRIVACY
    char word[64];
    snprintf(word, sizeof word, " %s ", name);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strstr(known[i].names, word)) return known[i].remedy;
    return NULL;
}

bool algorithm_remedy(char *remedy, size_t bytes, const char *name) {
    const char *part, *known = known_remedy(name);
    if (known) return snprintf(remedy, bytes, "%s", known) > 0;
    for (size_t i = 0; i < zoo_algorithm_count; i++)
        if (strcmp(zoo_algorithms[i].name, name) == 0)
            return snprintf(remedy, bytes, "an algorithm; write --algorithm %s", name) > 0;
    for (int p = 0; p < PART_COUNT; p++)
        if (strcmp(part_names[p], name) == 0)
            return snprintf(remedy, bytes, "a part of --algorithm; write --algorithm \"fedavg; %s RULE\"", name) > 0;
    const RuleText *rule = rule_with_number(&part, name);
    return rule && snprintf(remedy, bytes, "a number of --algorithm; write --algorithm \"%s %s %s=X\"", part,
                            rule->name, name) > 0;
}

#include "option_names.h"

#include "datasets/dataset.h"
#include "datasets/federation.h"
#include "datasets/partition.h"
#include "fedavg/rules/attack_rules.h"
#include "fedavg/rules/recipe.h"
#include "fedavg/rules/view_rules.h"
#include "nn/spec.h"

const char *name_of_data(size_t index) {
    if (index < dataset_name_count) return dataset_names[index];
    index -= dataset_name_count;
    return index < federation_table.count ? federation_table.rows[index].name : NULL;
}

const char *name_of_model(size_t index) {
    return index < zoo_entry_count ? zoo_entries[index].name : NULL;
}

const char *name_of_partition(size_t index) {
    for (uint32_t i = 0; i < partition_table.count; i++) {
        const FormRow *row = &partition_table.rows[i];
        if (row->keys[0].name && row->keys[0].type == FORM_TEXT) continue; // "file:", whose value is a path
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

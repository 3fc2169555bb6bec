#include "reads.h"

#include <stdio.h>
#include <string.h>

enum { TOLD = 31 }; // the bit that says that the program tells; those below it are what it has read

const TrainerRead trainer_reads[TRAINER_READS] = {{"lr", "lr"},
                                                  {"momentum", "momentum"},
                                                  {"weight_decay", "weight-decay"},
                                                  {"clip", "clip-grad-norm"},
                                                  {"batch_size", "batch-size"},
                                                  {"epochs", "local-epochs"}};

uint32_t trainer_read_of_option(uint32_t word) {
    return TRAINER_READS + word;
}

static uint32_t read_of(const char *name, const TrainerPlan *plan) {
    char text[TRAINER_TEXT_BYTES], *rest;
    uint32_t number = TRAINER_READS;
    for (uint32_t r = 0; r < TRAINER_READS; r++)
        if (strcmp(name, trainer_reads[r].told) == 0) return r;
    if (strncmp(name, "options.", strlen("options.")) != 0) return TOLD;
    snprintf(text, sizeof text, "%s", plan->options);
    name += strlen("options.");
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest), number++)
        if (strncmp(word, name, strlen(name)) == 0 && word[strlen(name)] == '=') return number < TOLD ? number : TOLD;
    return TOLD;
}

void trainer_note_reads(Control *control, const TrainerPlan *plan, const json_t *told) {
    const json_t *names = json_object_get(told, "reads"), *name;
    uint32_t bits = UINT32_C(1) << TOLD;
    size_t i;
    if (!json_is_array(names)) return;
    json_array_foreach(names, i, name) {
        if (json_is_string(name)) bits |= UINT32_C(1) << read_of(json_string_value(name), plan);
    }
    atomic_fetch_or(&control->trainer_reads, bits);
}

bool trainer_has_read(const Control *control, uint32_t read) {
    const uint32_t bits = atomic_load(&control->trainer_reads);
    return !(bits >> TOLD & 1) || read >= TOLD || (bits >> read & 1);
}

#include "run_inputs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

void write_hash(char text[HASH_TEXT_BYTES], uint64_t hash) {
    snprintf(text, HASH_TEXT_BYTES, "%016" PRIx64, hash);
}

const RunInput *run_input_of(const Option *trait) {
    for (int i = 0; i < RUN_INPUTS; i++)
        if (trait == &run_inputs[i].trait) return &run_inputs[i];
    return NULL;
}

const char *run_input_told(const json_t *start, const RunInput *input) {
    const char *hash = json_string_value(json_object_get(start, input->trait.name));
    return hash ? hash : "";
}

const char *run_input_source(char *text, const RunInput *input, const Options *options) {
    char room[INPUT_SOURCE_BYTES];
    const char *source = input->source ? input->source(room, options) : NULL;
    snprintf(text, INPUT_SOURCE_BYTES, "%s", source ? source : "");
    return text;
}

// Today ---------------------------------------------------------------------------------------------------------------

struct InputToday {
    const RunInput *input;
    char *source;                // owned
    char hash[INPUT_TOLD_BYTES]; // "": it cannot be read
};

// The files of a trainer are those that the run has recorded, so runs of one command may have different ones.
static bool is_of_one_run(const RunInput *input) {
    return input->is_program;
}

static void read_today(char text[INPUT_TOLD_BYTES], const RunInput *input, const char *source, const json_t *start,
                       const Options *options, const InputsToday *today) {
    uint64_t hash;
    Error why;
    text[0] = '\0';
    if (input->hash(&hash, options, start, &why) == STATUS_OK) {
        write_hash(text, hash);
        return;
    }
    for (size_t i = 0; i < today->count; i++)
        if (today->all[i].input == input && strcmp(today->all[i].source, source) == 0) return; // has been said
    log_warning("the %s %s not compared with what earlier runs began with: %s", input->words,
                input->is_plural ? "are" : "is", why.message);
}

// Keeps the hash; without memory it is taken again.
static void keep(InputsToday *today, const RunInput *input, const char *source, const char *hash) {
    struct InputToday *all = realloc(today->all, (today->count + 1) * sizeof *all);
    if (!all) return;
    today->all = all;
    struct InputToday *one = &all[today->count];
    *one = (struct InputToday){.input = input, .source = strdup(source)};
    snprintf(one->hash, sizeof one->hash, "%s", hash);
    today->count += one->source != NULL;
}

static void find_today(char hash[INPUT_TOLD_BYTES], const RunInput *input, const char *source, const json_t *start,
                       const Options *options, InputsToday *today) {
    for (size_t i = 0; i < today->count && !is_of_one_run(input); i++)
        if (today->all[i].input == input && strcmp(today->all[i].source, source) == 0) {
            memcpy(hash, today->all[i].hash, INPUT_TOLD_BYTES);
            return;
        }
    read_today(hash, input, source, start, options, today);
    if (!is_of_one_run(input) || !*hash) keep(today, input, source, hash);
}

bool run_inputs_changed(InputChange *change, const json_t *start, const Options *options, InputsToday *today) {
    for (int i = 0; i < RUN_INPUTS; i++) {
        const RunInput *input = &run_inputs[i];
        const char *then = run_input_told(start, input);
        if (i == INPUT_INIT && today->goes_on) continue;
        *change = (InputChange){.input = input};
        run_input_source(change->source, input, options);
        if (!*then || !change->source[0] || !input->hash) continue;
        find_today(change->now, input, change->source, start, options, today);
        snprintf(change->then, sizeof change->then, "%s", then);
        if (change->now[0] && strcmp(change->then, change->now) != 0) return true;
    }
    return false;
}

void inputs_today_free(InputsToday *today) {
    for (size_t i = 0; i < today->count; i++)
        free(today->all[i].source);
    free(today->all);
    *today = (InputsToday){0};
}

Status run_input_refuse(const InputChange *change, const char *where, const char *remedy, Status status, Error *err) {
    const RunInput *input = change->input;
    return fail(err, status,
                "%.300s: the %s %s not what the run began with (%.300s%sXXH3 %s then, %s now); give %s back%s", where,
                input->words, input->is_plural ? "are" : "is", change->source, change->source[0] ? ": " : "",
                change->then, change->now, input->is_plural ? "them" : "it", remedy);
}

Status run_input_judge(const InputChange *change, const char *name, const char *where, const char *remedy, Error *err) {
    if (!change->input->is_version) return run_input_refuse(change, where, remedy, STATUS_DATA, err);
    log_warning("%.200s: the %s are not what the run began with (%s then, %s now): results may differ in the last bits",
                name, change->input->words, change->then, change->now);
    return STATUS_OK;
}

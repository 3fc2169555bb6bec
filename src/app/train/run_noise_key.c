#include "run_noise_key.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "app/options/option_table.h"
#include "base/text_stream.h"
#include "fedavg/memory/state.h"
#include "io/durable.h"

// Leaves a content out of an option's value, since the key has its hash: the whole value, or the file of a form with
// numbers, as in --client-time "file noise=0.5:FILE". Returns whether anything is left.
static bool leave_out_content(char *value, const Option *option, const Options *options, const RunRecord *record) {
    char source[INPUT_SOURCE_BYTES];
    for (int i = 0; i < RUN_INPUTS; i++) {
        const RunInput *input = &run_inputs[i];
        if (strcmp(input->option, option->name) != 0 || !input->source || !record->inputs[i][0]) continue;
        const size_t file = strlen(run_input_source(source, input, options)), length = strlen(value);
        if (option->type != OPTION_FORM || file > length) return false;
        value[length - file] = '\0';
    }
    return true;
}

// Files of the programs are hashed; here is what their commands say beside them. Folders are no part of it.
static void write_command(FILE *file, const char *program, const char *command) {
    char words[OPTION_TEXT_BYTES], *rest;
    snprintf(words, sizeof words, "%s", command);
    for (char *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        const char *folder = *word == '/' ? strrchr(word, '/') : NULL;
        fprintf(file, "%s word %s\n", program, folder ? folder + 1 : word);
    }
}

// An option without effect, or with the value 0, is left out, so that one that a later version adds changes no key.
static void write_options(FILE *file, const Options *options, const RunRecord *record) {
    for (int i = 0; i < option_count; i++) {
        char value[OPTION_VALUE_BYTES];
        const Option *option = &option_table[i];
        if (option->may_change || option->unsaved || strcmp(option->name, "tf32") == 0) continue;
        if (!option_applies(options, option) || option_is_zero(options, option)) continue;
        option_format(value, options, option);
        if (leave_out_content(value, option, options, record)) fprintf(file, "%s=%s\n", option->name, value);
    }
}

// Noise that an epsilon asks for, and the end of a cosine, follow from the first --rounds.
static void write_plans(FILE *file, const Options *options) {
    const ReleasePlan *release = &options->release;
    const LrSchedule *schedule = &options->training.schedule;
    fprintf(file, "noise %.17g %.17g %.17g %.17g %u\n", release->mechanism.noise, release->updates_noise,
            release->count_noise, release->local_noise, release->tree_rounds);
    fprintf(file, "schedule %u %u %.17g\n", schedule->kind, schedule->rounds, schedule->minimum);
}

static void write_weights(FILE *file, const RunMemory *memory) {
    const size_t bytes = memory->config->parameters * sizeof(float);
    for (uint32_t m = 0; m < state_models(memory->config); m++) {
        char hex[65];
        sha256_hex(hex, &(FilePart){state_model(memory, m), bytes}, 1);
        fprintf(file, "weights %s\n", hex);
    }
}

static Status key_of_run(NoiseKey *key, const RunMemory *memory, const Options *options, const RunRecord *record,
                         Error *err) {
    char hex[65];
    TextStream stream;
    FILE *file = text_open(&stream);
    if (file) {
        fprintf(file, "key of the noise\nseed=%llu\n", (unsigned long long)options->seed);
        write_options(file, options, record);
        write_command(file, "trainer", options->trainer);
        write_command(file, "aggregator", options->aggregator);
        write_plans(file, options);
        write_weights(file, memory);
        fprintf(file, "data %s, partition %s, clients' files %016llx, trainer %s, aggregator %s\n",
                record->inputs[INPUT_DATA], record->inputs[INPUT_PARTITION],
                (unsigned long long)world_files_hash(&memory->world_files), record->inputs[INPUT_TRAINER],
                record->inputs[INPUT_AGGREGATOR]);
    }
    if (text_close(&stream)) {
        sha256_hex(hex, &(FilePart){stream.text, stream.bytes}, 1);
        noise_key_read(key, hex);
        free(stream.text);
        return STATUS_OK;
    }
    free(stream.text);
    return fail(err, STATUS_OS, "no memory for the key of the noise");
}

Status run_noise_key_begin(RunMemory *memory, const Options *options, const RunRecord *record, Error *err) {
    NoiseKey *key = &memory->control->noise_key;
    switch ((NoiseKeyKind)memory->config->noise_key) {
    case NOISE_KEY_NONE:
        return STATUS_OK;
    case NOISE_KEY_OF_RUN:
        return key_of_run(key, memory, options, record, err);
    case NOISE_KEY_GIVEN:
        noise_key_read(key, options->noise_key); // the options are resolved
        return STATUS_OK;
    case NOISE_KEY_SYSTEM:
        break;
    }
    if (getrandom(key, sizeof *key, 0) == (ssize_t)sizeof *key) return STATUS_OK;
    return fail_errno(err, STATUS_OS, "--noise-key system: the system has no random numbers");
}

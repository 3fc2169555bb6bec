#include "run_identity.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "app/options/option_table.h"
#include "base/text.h"
#include "fedavg/memory/fingerprint.h"

#define PART(name_, type_, member)                                                                                     \
    { .name = name_, .type = type_, .offset = offsetof(Options, member) }

// The numbers of a form are hashed one by one, each under a name of its own, after the option `after`. Checkpoints, and
// their hashes in tests/record/bits.json, depend on this text.
// clang-format off
static const struct {
    const char *after;
    Option part;
    const char *constant; // hashed whatever the options are; NULL: the value of the part
} parts[] = {
    {"alpha", {.name = "shards-per-client"}, "2"},
    {"sampling", PART("replacement", OPTION_FLAG, world.replacement), NULL},
    {"sampling", PART("candidates", OPTION_WHOLE, world.candidates), NULL},
    {"sampling", {.name = "candidates-by", .type = OPTION_CHOICE, .offset = offsetof(Options, world.candidates_by), .choices = {"data", "batch", "last"}}, NULL},
    {"sampling", PART("cycle-shuffle", OPTION_FLAG, world.cycle_shuffle), NULL},
    {"sampling", PART("availability", OPTION_REAL, world.availability), NULL},
    {"sampling", PART("availability-file", OPTION_TEXT, availability_file), NULL},
    {"stragglers", {.name = "straggler-work", .type = OPTION_CHOICE, .offset = offsetof(Options, world.straggler_work), .choices = {"drop", "partial"}}, NULL},
    {"clock", PART("client-file", OPTION_TEXT, client_file), NULL},
    {"clock", PART("client-time-mean", OPTION_REAL, world.time_mean), NULL},
    {"clock", PART("client-time-deviation", OPTION_REAL, world.time_deviation), NULL},
    {"clock", PART("client-time-minimum", OPTION_REAL, world.time_minimum), NULL},
    {"clock", PART("client-time-noise", OPTION_REAL, world.time_noise), NULL},
    {"batch-size", {.name = "global-batch"}, "false"},
    {"lr-schedule", PART("lr-step", OPTION_WHOLE, training.schedule.step), NULL},
    {"lr-schedule", PART("lr-gamma", OPTION_REAL, training.schedule.gamma), NULL},
    {"lr-schedule", PART("lr-minimum", OPTION_REAL, training.schedule.minimum), NULL},
    {"lr-schedule", PART("lr-rounds", OPTION_WHOLE, training.schedule.rounds), NULL},
    {"client-optimizer-state", {.name = "hogwild-update"}, "plain"},
    {"client-optimizer-state", {.name = "hogwild-data"}, "full"},
    {"inspect-updates", {.name = "target-accuracy"}, ""},
};
// clang-format on

// The place of the data may change: its hash identifies it. The rounding of products on the GPU belongs to the device,
// which may change, too.
static bool makes_the_run(const Option *option) {
    return !option->may_change && !option->unsaved && strcmp(option->name, "data") != 0 &&
           strcmp(option->name, "tf32") != 0;
}

static uint64_t hash_option(const char *name, const char *value, uint64_t seed) {
    char text[OPTION_VALUE_BYTES + 64];
    const int length = snprintf(text, sizeof text, "%s=%s\n", name, value);
    return XXH3_64bits_withSeed(text, (size_t)length, seed);
}

uint64_t run_hash_options(const Options *options, uint64_t seed) {
    char value[OPTION_VALUE_BYTES];
    for (int i = 0; i < option_count; i++) {
        const Option *option = &option_table[i];
        if (!makes_the_run(option)) continue;
        if (option->added && (option_is_zero(options, option) || !option_applies(options, option))) continue;
        option_format(value, options, option);
        if (option->form) value[strcspn(value, " :")] = '\0';
        seed = hash_option(option->name, value, seed);
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
            if (strcmp(parts[k].after, option->name) != 0) continue;
            if (!parts[k].constant) option_format(value, options, &parts[k].part);
            seed = hash_option(parts[k].part.name, parts[k].constant ? parts[k].constant : value, seed);
        }
    }
    return seed;
}

#include "option_table.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/keyed_text.h"
#include "fedavg/rules/local/optimizer_rules.h"
#include "fedavg/rules/local/personal_rules.h"
#include "fedavg/rules/world/schedule.h"
#include "fedavg/rules/world/walk.h"
#include "option_names.h"
#include "run_target.h"

const char *const option_group_titles[GROUP_COUNT] = {
    [GROUP_MODEL] = "Data and model",
    [GROUP_CLIENTS] = "Workers and clients",
    [GROUP_WORLD] = "What happens to clients",
    [GROUP_TRAINING] = "Training",
    [GROUP_FAULTS] = "Faults",
    [GROUP_RUN] = "The run and its files",
};

// Functions for the column `applies`: whether an option has an effect with the other options. The options may be
// incomplete or wrong: a text that cannot be parsed counts as the default.

static bool is_dirichlet(const Options *options) {
    return form_is(options->partition, "dirichlet") && !strstr(options->partition, "alpha=") &&
           !strchr(options->partition, ':'); // shows the mistake as it was written
}

// A single step without momentum from earlier rounds is just a gradient; only kept state gives the momentum an effect.
static bool steps_once(const Options *options, const Recipe *recipe) {
    const Traits traits = algorithm_of(recipe).traits;
    const bool buffers = traits.has[TRAIT_BUFFERS];
    const bool keeps = buffers ? traits.has[TRAIT_REPLICAS]
                               : !options_given(options, "client-optimizer-state") ||
                                     options->training.optimizer_state != OPTIMIZER_FRESH;
    return !keeps && traits.has[TRAIT_BY_STEPS] &&
           recipe->schedule.number[buffers ? BUFFERED_STEPS : ROUNDS_STEPS] == 1;
}

static bool has_momentum(const Options *options) {
    Recipe recipe;
    Error ignored;
    return options_recipe(&recipe, options, &ignored) != STATUS_OK ||
           (recipe.optimizer.row == OPTIMIZER_SGD && recipe.personal.row != PERSONAL_MOREAU &&
            !steps_once(options, &recipe));
}

static bool counts_epochs(const Options *options) {
    return !options_algorithm(options).traits.has[TRAIT_BY_STEPS];
}

static bool spends_epsilon(const Options *options) {
    Recipe recipe;
    Error ignored;
    return options_recipe(&recipe, options, &ignored) == STATUS_OK && recipe.release.row != RELEASE_EXACT &&
           !isnan(recipe.release.number[RELEASE_EPSILON]);
}

static bool adds_noise(const Options *options) {
    const Traits traits = options_algorithm(options).traits;
    return traits.has[TRAIT_RELEASES] || traits.has[TRAIT_NOISES] || traits.has[TRAIT_MASKS] ||
           (options->dp_sgd[0] && strcmp(options->dp_sgd, "none") != 0);
}

static bool is_not_ssgd(const Options *options) {
    return !options_algorithm(options).engine->in_lockstep;
}

static bool trains_in_engine(const Options *options) {
    return options->trainer[0] == 0;
}

static bool has_trainer(const Options *options) {
    return options->trainer[0] != 0;
}

static bool begins_from_file(const Options *options) {
    return options->init[0] != 0;
}

static bool has_aggregator(const Options *options) {
    return options->aggregator[0] != 0;
}

static bool has_program(const Options *options) {
    return has_trainer(options) || has_aggregator(options);
}

static bool may_use_gpu(const Options *options) {
    return options->device != DEVICE_CPU;
}

static bool may_launch_many(const Options *options) {
    return may_use_gpu(options) && !options_algorithm(options).engine->client_is_worker;
}

// The world (fedavg/rules/world/world.h) applies to clients that are drawn for a round.
#define DRAWS_COHORTS "an --algorithm with rounds (not ssgd, hogwild)"
static bool draws_cohorts(const Options *options) {
    return !options_algorithm(options).engine->whole_cohort;
}

static bool has_attack(const Options *options) {
    return draws_cohorts(options) && options->attack[0];
}

static bool evaluates_clients(const Options *options) {
    return draws_cohorts(options) && options->eval_clients_every > 0;
}

static bool fine_tunes(const Options *options) {
    return evaluates_clients(options) || (draws_cohorts(options) && options->new_clients[0]);
}

#define WEIGHS_CLASSES DRAWS_COHORTS " and nets of layers (no --trainer)"
static bool weighs_classes(const Options *options) {
    return draws_cohorts(options) && trains_in_engine(options);
}

static bool has_target(const Options *options) {
    return options->target[0] != '\0';
}

static bool has_buffer(const Options *options) {
    return options_algorithm(options).engine->buffers;
}

#define SAMPLES_OF_CLIENTS "clients that have samples of their own (hogwild with data=shard, ssgd without batch=global)"
static bool is_partitioned(const Options *options) {
    return !options_algorithm(options).traits.has[TRAIT_SHARES_SAMPLES];
}

#define DRAWS_FIXED_SIZE DRAWS_COHORTS " and another --sampling than poisson or by-size with replacement=yes"
static bool draws_fixed_size(const Options *options) {
    const World *world = &options->world;
    return draws_cohorts(options) && world->sampling != SAMPLING_POISSON && !world->replacement;
}

// The table -----------------------------------------------------------------------------------------------------------

#define FIELD(member) .offset = offsetof(Options, member)

// The rows, in the order of help and config.yaml: one file for each room of options.
// clang-format off
const Option option_table[] = {
#include "option_rows_data.def"
#include "option_rows_clients.def"
#include "option_rows_training.def"
#include "option_rows_run.def"
};
// clang-format on

const int option_count = sizeof option_table / sizeof *option_table;
const OptionTable option_train_table = {
    .rows = option_table, .count = sizeof option_table / sizeof *option_table, .command = "train"};

static_assert(sizeof option_table / sizeof *option_table <= OPTION_MAX_COUNT, "Options.given has a place for each row");

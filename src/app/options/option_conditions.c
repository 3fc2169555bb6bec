#include "option_conditions.h"

#include <math.h>
#include <string.h>

#include "base/keyed_text.h"
#include "fedavg/rules/local/optimizer_rules.h"
#include "fedavg/rules/local/personal_rules.h"
#include "fedavg/rules/world/schedule.h"
#include "fedavg/rules/world/walk.h"

bool is_dirichlet(const Options *options) {
    return form_is(options->partition, "dirichlet") && !strstr(options->partition, "alpha=") &&
           !strchr(options->partition, ':'); // a mistake that is to be shown as it was written
}

bool is_shards(const Options *options) {
    return form_is(options->partition, "shards") && !strstr(options->partition, "per-client=");
}

bool is_hogwild(const Options *options) {
    return options_algorithm(options).engine->client_is_worker;
}

bool is_ssgd(const Options *options) {
    return options_algorithm(options).engine->in_lockstep;
}

// A single step from a standing start is a gradient, whatever the momentum; only what is kept lets it go on.
static bool steps_once(const Options *options, const Recipe *recipe) {
    const Traits traits = algorithm_of(recipe).traits;
    const bool buffers = traits.has[BUFFERS];
    const bool keeps = buffers ? traits.has[REPLICAS]
                               : !options_given(options, "client-optimizer-state") ||
                                     options->training.optimizer_state != OPTIMIZER_FRESH;
    return !keeps && traits.has[BY_STEPS] && recipe->schedule.number[buffers ? BUFFERED_STEPS : ROUNDS_STEPS] == 1;
}

bool has_momentum(const Options *options) {
    Recipe recipe;
    Error ignored;
    return recipe_parse(&recipe, options->algorithm, &ignored) != STATUS_OK ||
           (recipe.optimizer.row == OPTIMIZER_SGD && recipe.personal.row != PERSONAL_MOREAU &&
            !steps_once(options, &recipe));
}

bool counts_epochs(const Options *options) {
    return !options_algorithm(options).traits.has[BY_STEPS];
}

bool spends_epsilon(const Options *options) {
    Recipe recipe;
    Error ignored;
    return recipe_parse(&recipe, options->algorithm, &ignored) == STATUS_OK && recipe.release.row != RELEASE_EXACT &&
           !isnan(recipe.release.number[RELEASE_EPSILON]);
}

bool is_not_ssgd(const Options *options) {
    return !is_ssgd(options);
}

static bool has_schedule(const Options *options, unsigned kinds) {
    return (kinds >> options->training.schedule.kind & 1u) != 0;
}

bool falls_in_steps(const Options *options) {
    return has_schedule(options, 1u << LR_STEP);
}

bool falls_by_gamma(const Options *options) {
    return has_schedule(options, 1u << LR_STEP | 1u << LR_EXPONENTIAL);
}

bool falls_as_cosine(const Options *options) {
    return has_schedule(options, 1u << LR_COSINE);
}

bool may_use_gpu(const Options *options) {
    return options->device != DEVICE_CPU;
}

bool may_launch_many(const Options *options) {
    return may_use_gpu(options) && !is_hogwild(options);
}

bool is_partitioned(const Options *options) {
    if (is_ssgd(options)) return !options->training.global_batch;
    return !is_hogwild(options) || options->hogwild_data == HOGWILD_SHARD;
}

bool draws_cohorts(const Options *options) {
    return !options_algorithm(options).engine->whole_cohort;
}

static bool samples_by(const Options *options, Sampling sampling) {
    return draws_cohorts(options) && options->world.sampling == (int)sampling;
}

bool samples_by_size(const Options *options) {
    return samples_by(options, SAMPLING_BY_SIZE);
}

bool samples_by_choice(const Options *options) {
    return samples_by(options, SAMPLING_POWER_OF_CHOICE);
}

bool samples_cyclically(const Options *options) {
    return samples_by(options, SAMPLING_CYCLIC);
}

bool samples_available(const Options *options) {
    return samples_by(options, SAMPLING_AVAILABLE);
}

bool draws_fixed_size(const Options *options) {
    bool repeats = samples_by_size(options) && options->world.replacement;
    return draws_cohorts(options) && !samples_by(options, SAMPLING_POISSON) && !repeats;
}

bool has_stragglers(const Options *options) {
    return draws_cohorts(options) && options->world.stragglers > 0;
}

bool has_attack(const Options *options) {
    return draws_cohorts(options) && options->attack[0];
}

bool evaluates_clients(const Options *options) {
    return draws_cohorts(options) && options->eval_clients_every > 0;
}

bool has_target(const Options *options) {
    return options->target_accuracy > 0;
}

static bool takes_time_of(const Options *options, unsigned kinds) {
    return draws_cohorts(options) && (kinds >> options->world.client_time & 1u);
}

bool has_mean(const Options *options) {
    return takes_time_of(options, ~(1u << CLIENT_TIME_HALF_NORMAL | 1u << CLIENT_TIME_FILE));
}

bool has_buffer(const Options *options) {
    return options_algorithm(options).engine->buffers;
}
bool has_client_file(const Options *options) {
    return takes_time_of(options, 1u << CLIENT_TIME_FILE);
}

bool has_deviation(const Options *options) {
    return takes_time_of(options, 1u << CLIENT_TIME_LOGNORMAL | 1u << CLIENT_TIME_LOGNORMAL_PER_SAMPLE |
                                      1u << CLIENT_TIME_HALF_NORMAL | 1u << CLIENT_TIME_PER_SAMPLE);
}

bool has_minimum(const Options *options) {
    return takes_time_of(options,
                         1u << CLIENT_TIME_HALF_NORMAL | 1u << CLIENT_TIME_UNIFORM | 1u << CLIENT_TIME_PER_SAMPLE);
}

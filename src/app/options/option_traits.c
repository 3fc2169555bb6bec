#include "option_traits.h"

#include <math.h>
#include <stdio.h>

#include "fedavg/rules/attack/attack_rules.h"
#include "fedavg/rules/local/optimizer_rules.h"
#include "fedavg/rules/world/walk.h"
#include "option_table.h"

static void traits_of_world(bool *has, const Options *options) {
    const World *world = &options->world;
    const Sampling sampling = (Sampling)world->sampling;
    has[TRAIT_SOME_CLIENTS] = options->clients_per_round < options->population;
    has[TRAIT_CHOOSES_BY_LOSS] = sampling == SAMPLING_POWER_OF_CHOICE;
    has[TRAIT_SAMPLES_IN_TURN] = sampling == SAMPLING_CYCLIC;
    has[TRAIT_GROWS] = world->cohort.kind != COHORT_CONSTANT;
    has[TRAIT_DRAWS_ALL] = !has[TRAIT_SOME_CLIENTS] && !has[TRAIT_GROWS];
    has[TRAIT_WEIGHS_CLIENTS] = options->client_weights[0] != 0;
    has[TRAIT_SAMPLES_SOME] = sampling != SAMPLING_UNIFORM;
    has[TRAIT_SAMPLES_UNEVENLY] = sampling != SAMPLING_UNIFORM && sampling != SAMPLING_POISSON;
    has[TRAIT_SAMPLES_OUT_OF_TURN] = sampling != SAMPLING_CYCLIC || world->cycle_shuffle;
    has[TRAIT_SAMPLES_AT_ONCE] = sampling != SAMPLING_UNIFORM && (sampling != SAMPLING_BY_SIZE || world->replacement);
    has[TRAIT_OVER_SELECTS] = world->over_selection > 1;
    has[TRAIT_DROPS_OUT] = world->drop_out > 0;
    has[TRAIT_FAILS] = world->failures.mtbf > 0;
    has[TRAIT_NEW_CLIENTS] = options->new_clients[0] != 0;
    has[TRAIT_WITHOUT] = options->without[0] != 0;
    has[TRAIT_STRAGGLES] = world->stragglers > 0;
    has[TRAIT_DROPS_STRAGGLERS] = has[TRAIT_STRAGGLES] && world->straggler_work == STRAGGLERS_DROP;
    has[TRAIT_ENDS_ROUNDS] = world->deadline > 0;
    has[TRAIT_TIMES] = options_given(options, "client-time") && !option_is_default(options, option_find("client-time"));
    has[TRAIT_TIME_FILE] = options->client_file[0] != 0;
    has[TRAIT_TIMES_UPLOADS] = options_given(options, "up-bandwidth");
    has[TRAIT_TIMES_DOWNLOADS] = options_given(options, "down-bandwidth");
    has[TRAIT_REAL_CLOCK] = options_clock_is_real(options);
    has[TRAIT_REPLAYS] = options_replay(options) != NULL;
    has[TRAIT_SEVERAL_NODES] = options->nodes > 1;
}

static void traits_of_clients(bool *has, const Options *options) {
    const Chosen *attack = &options->attack_rule;
    const bool is_on_samples = attack->row != ATTACK_BACKDOOR || attack->number[BACKDOOR_FACTOR] == 1;
    has[TRAIT_ATTACKS_SAMPLES] = attack_is_in_training(attack);
    has[TRAIT_ATTACKS_UPDATES] = attack->row != ATTACK_NONE && !(has[TRAIT_ATTACKS_SAMPLES] && is_on_samples);
    has[TRAIT_CRAFTS] = attack_is_crafted(attack);
    has[TRAIT_BACKDOOR] = attack->row == ATTACK_BACKDOOR;
    has[TRAIT_SCALES_BY_SHARE] = attack->row == ATTACK_SCALED && isnan(attack->number[0]) && has[TRAIT_REAL_CLOCK];
    has[TRAIT_BLURS] = options->view.noise.row != VIEW_NOISE_NONE;
    has[TRAIT_DRIFTS_CLASSES] = options->view.drift.row == VIEW_DRIFT_CLASSES;
    has[TRAIT_DRIFTS_PIXELS] = options->view.drift.row == VIEW_DRIFT_PIXELS;
    has[TRAIT_DRIFTS_LABELS] = options->view.drift.row == VIEW_DRIFT_LABELS;
}

static void traits_of_training(bool *has, const Options *options) {
    const Training *training = &options->training;
    has[TRAIT_STATE_KEPT] = training->optimizer_state == OPTIMIZER_KEPT;
    has[TRAIT_STATE_AVERAGED] = training->optimizer_state == OPTIMIZER_AVERAGED;
    has[TRAIT_SCHEDULES_LR] = training->schedule.kind != LR_CONSTANT;
    has[TRAIT_WARMS_UP] = training->schedule.warm_up > 0;
    has[TRAIT_DECAYS] = training->sgd.weight_decay != 0;
    has[TRAIT_DECAYS_SHARED] = has[TRAIT_DECAYS] && has[TRAIT_WRITES];
    has[TRAIT_CLIPS_GRADIENTS] = training->clip > 0;
    has[TRAIT_TRAINER] = options->trainer[0] != 0;
    has[TRAIT_NO_TRAINER] = !has[TRAIT_TRAINER];
    has[TRAIT_AGGREGATOR] = options->aggregator[0] != 0;
    has[TRAIT_HIDES_SAMPLES] = training->privacy.clip > 0;
    has[TRAIT_WEIGHS_CLASSES] = options->class_weights[0] != 0;
    has[TRAIT_TUNES] = options->finetune_epochs > 0;
    has[TRAIT_FREEZES] = options->freeze[0] != 0;
    has[TRAIT_LOCKSTEP_NODES] = has[TRAIT_LOCKSTEP] && options->nodes > 1;
    has[TRAIT_CROPS] = training->augment.crop > 0;
    has[TRAIT_FLIPS] = training->augment.flip;
    has[TRAIT_BCE] = options->loss == LOSS_BCE;
    has[TRAIT_SMOOTHS] = training->label_smoothing > 0;
}

void options_traits(Traits *traits, const Options *options) {
    *traits = (Traits){0};
    recipe_traits(traits, &options->recipe);
    traits_of_world(traits->has, options);
    traits_of_clients(traits->has, options);
    traits_of_training(traits->has, options);
}

// Names the side that has a trait in a sentence: "--sampling cyclic", "send top-k of --algorithm".
enum { SIDE_BYTES = OPTION_NAMED_BYTES + OPTION_SHOWN_BYTES + 1 };
static const char *name_side(char text[SIDE_BYTES], Trait trait, const Options *options) {
    char name[OPTION_NAMED_BYTES], value[OPTION_SHOWN_BYTES], rule[TRAIT_RULE_BYTES];
    const char *option = trait_option(trait);
    if (!option) {
        snprintf(text, SIDE_BYTES, "%s of --algorithm", trait_rule(rule, trait, &options->recipe));
    } else if (trait == TRAIT_SEVERAL_NODES) { // mpirun sets it, no option
        snprintf(text, SIDE_BYTES, "a run on %d nodes", options->nodes);
    } else if (option_find(option)->type == OPTION_FLAG) {
        options_named(text, options, option);
    } else {
        option_show(value, options, option_find(option));
        snprintf(text, SIDE_BYTES, "%s %s", options_named(name, options, option), value);
    }
    return text;
}

Status options_check_traits(const Options *options, const Traits *traits, Error *err) {
    char one[SIDE_BYTES], other[SIDE_BYTES];
    Clash clash;
    if (!clash_among(&clash, traits, traits->has[TRAIT_ON_GPU] ? TRAIT_ON_GPU : TRAIT_NONE)) return STATUS_OK;
    name_side(one, clash.sides[0], options);
    if (clash.sides[1] == TRAIT_ON_GPU) return fail(err, STATUS_USAGE, "%s %s", one, clash.why);
    return fail(err, STATUS_USAGE, "%s does not go with %s: %s", one, name_side(other, clash.sides[1], options),
                clash.why);
}

// A walk that continues from round to round also keeps its momentum, if it has one, unless clients keep other state.
void options_keep_state(Options *options) {
    const bool remembers = options->training.sgd.momentum > 0 || options->recipe.optimizer.row != OPTIMIZER_SGD;
    Traits traits;
    Clash ignored;
    if (options->trainer[0]) return; // it may have nothing to keep
    if (!walk_by_steps(&options->recipe.schedule) || !remembers || options_given(options, "client-optimizer-state"))
        return;
    options->training.optimizer_state = OPTIMIZER_KEPT;
    options_traits(&traits, options);
    if (clash_among(&ignored, &traits, TRAIT_STATE_KEPT)) options->training.optimizer_state = OPTIMIZER_FRESH;
}

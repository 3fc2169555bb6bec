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
    has[SOME_CLIENTS] = options->clients_per_round < options->clients;
    has[SAMPLES_SOME] = sampling != SAMPLING_UNIFORM;
    has[SAMPLES_UNEVENLY] = sampling != SAMPLING_UNIFORM && sampling != SAMPLING_POISSON;
    has[SAMPLES_OUT_OF_TURN] = sampling != SAMPLING_CYCLIC || world->cycle_shuffle;
    has[SAMPLES_AT_ONCE] = sampling != SAMPLING_UNIFORM && (sampling != SAMPLING_BY_SIZE || world->replacement);
    has[OVER_SELECTS] = world->over_selection > 1;
    has[DROPS_OUT] = world->drop_out > 0;
    has[STRAGGLES] = world->stragglers > 0;
    has[DROPS_STRAGGLERS] = has[STRAGGLES] && world->straggler_work == STRAGGLERS_DROP;
    has[ENDS_ROUNDS] = world->deadline > 0;
    has[TIMES] = options_given(options, "client-time");
    has[TIME_FILE] = options->client_file[0] != 0;
    has[TIMES_UPLOADS] = options_given(options, "up-bandwidth");
    has[TIMES_DOWNLOADS] = options_given(options, "down-bandwidth");
    has[REAL_CLOCK] = options_clock_is_real(options);
    has[REPLAYS] = options_replay(options) != NULL;
    has[SEVERAL_NODES] = options->nodes > 1;
}

static void traits_of_clients(bool *has, const Options *options) {
    const Chosen *attack = &options->attack_rule;
    const bool is_on_samples = attack->row != ATTACK_BACKDOOR || attack->number[BACKDOOR_FACTOR] == 1;
    has[ATTACKS_SAMPLES] = attack_is_in_training(attack);
    has[ATTACKS_UPDATES] = attack->row != ATTACK_NONE && !(has[ATTACKS_SAMPLES] && is_on_samples);
    has[CRAFTS] = attack_is_crafted(attack);
    has[BACKDOOR] = attack->row == ATTACK_BACKDOOR;
    has[SCALES_BY_SHARE] = attack->row == ATTACK_SCALED && isnan(attack->number[0]) && has[REAL_CLOCK];
    has[BLURS] = options->view.noise.row != VIEW_NOISE_NONE;
    has[DRIFTS] = options->view.drift.row != VIEW_DRIFT_NONE;
    has[DRIFTS_CLASSES] = options->view.drift.row == VIEW_DRIFT_CLASSES;
    has[DRIFTS_PIXELS] = options->view.drift.row == VIEW_DRIFT_PIXELS;
    has[DRIFTS_LABELS] = options->view.drift.row == VIEW_DRIFT_LABELS;
}

static void traits_of_training(bool *has, const Options *options) {
    const Training *training = &options->training;
    has[STATE_KEPT] = training->optimizer_state == OPTIMIZER_KEPT;
    has[STATE_AVERAGED] = training->optimizer_state == OPTIMIZER_AVERAGED;
    has[SCHEDULES_LR] = training->schedule.kind != LR_CONSTANT;
    has[WARMS_UP] = training->schedule.warm_up > 0;
    has[DECAYS] = training->sgd.weight_decay != 0;
    has[DECAYS_SHARED] = has[DECAYS] && has[WRITES];
    has[CLIPS_GRADIENTS] = training->clip > 0;
    has[CLIPS_SHARED] = has[CLIPS_GRADIENTS] && has[WRITES];
    has[FREEZES] = options->freeze[0] != 0;
    has[FREEZES_SHARED] = has[FREEZES] && has[WRITES];
    has[LOCKSTEP_NODES] = has[LOCKSTEP] && options->nodes > 1;
    has[CROPS] = training->augment.crop > 0;
    has[FLIPS] = training->augment.flip;
    has[SMOOTHS] = training->label_smoothing > 0;
}

void options_traits(Traits *traits, const Options *options) {
    *traits = (Traits){0};
    recipe_traits(traits, &options->recipe);
    traits_of_world(traits->has, options);
    traits_of_clients(traits->has, options);
    traits_of_training(traits->has, options);
}

// How a sentence names the side that has a trait: "--sampling cyclic", "send top-k of --algorithm".
enum { SIDE_BYTES = OPTION_NAMED_BYTES + OPTION_SHOWN_BYTES + 1 };
static const char *name_side(char text[SIDE_BYTES], Trait trait, const Options *options) {
    char name[OPTION_NAMED_BYTES], value[OPTION_SHOWN_BYTES], rule[TRAIT_RULE_BYTES];
    const char *option = trait_option(trait);
    if (!option) {
        snprintf(text, SIDE_BYTES, "%s of --algorithm", trait_rule(rule, trait, &options->recipe));
    } else if (trait == SEVERAL_NODES) { // mpirun says it, no option
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
    if (!clash_among(&clash, traits, traits->has[ON_GPU] ? ON_GPU : NO_TRAIT)) return STATUS_OK;
    name_side(one, clash.sides[0], options);
    if (clash.sides[1] == ON_GPU) return fail(err, STATUS_USAGE, "%s %s", one, clash.why);
    return fail(err, STATUS_USAGE, "%s does not go with %s: %s", one, name_side(other, clash.sides[1], options),
                clash.why);
}

// Steps that go on from round to round go on with their momentum, where there is one and nothing else is kept.
void options_keep_state(Options *options) {
    const bool remembers = options->training.sgd.momentum > 0 || options->recipe.optimizer.row != OPTIMIZER_SGD;
    Traits traits;
    Clash ignored;
    if (!walk_by_steps(&options->recipe.schedule) || !remembers || options_given(options, "client-optimizer-state"))
        return;
    options->training.optimizer_state = OPTIMIZER_KEPT;
    options_traits(&traits, options);
    if (clash_among(&ignored, &traits, STATE_KEPT)) options->training.optimizer_state = OPTIMIZER_FRESH;
}

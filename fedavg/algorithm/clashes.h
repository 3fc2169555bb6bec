// Rules, options, data, nets and devices that do not go together: one table of pairs of traits (clashes.c).
//
// A trait is a fact about one part of an algorithm, or about one option, that another part or option may exclude:
// TRAIT_KEEPS says that the local rule's clients keep a vector from turn to turn, TRAIT_REAL_CLOCK that --clock is
// real. recipe_traits finds the traits of an algorithm. Traits of options, data, net and device are declared here,
// since the table names them, and found where these are known (src/app/options/option_traits.c). A pair is refused
// where both of its traits are known, so the check may be repeated whenever more of them are: after parsing, with the
// data, with the net, with the GPU.
//
//   Traits traits = {0};
//   recipe_traits(&traits, &recipe);
//   Clash clash;
//   if (clash_among(&clash, &traits, TRAIT_NONE)) ...         // clash.sides, and in clash.why the reason and a remedy
//
// Limits of numbers (K above M, a norm below zero) are not in this table: the rule that has the number checks them.
#ifndef SOUNDER_FEDAVG_ALGORITHM_CLASHES_H
#define SOUNDER_FEDAVG_ALGORITHM_CLASHES_H

#include <stdbool.h>

#include "fedavg/algorithm/recipe.h"

// clang-format off
// The traits of an algorithm (TRAIT_ADDS, ...), each with the part that has it; recipe_traits says what each means.
#define ALGORITHM_TRAITS(X) \
    X(ADDS, LOCAL) X(KEEPS, LOCAL) X(KEEPS_FOR_ROUNDS, LOCAL) X(KEEPS_EXACTLY, LOCAL) X(ASKS, LOCAL) \
    X(REPLICAS, LOCAL) X(REPLICAS_ARRIVE, LOCAL) X(LOOKS, LOCAL) X(CONTRASTS, LOCAL) X(LOCAL_NAME_DIFFERS, LOCAL) \
    X(NOT_SGD, OPTIMIZER) X(NESTEROV, OPTIMIZER) X(PERSONAL, PERSONAL) X(SECOND, PERSONAL) X(ALTERNATES, PERSONAL) X(MOREAU, PERSONAL) X(MIXED, PERSONAL) X(CLUSTERS, PERSONAL) X(NORMS, PERSONAL) X(SCATTERS, PERSONAL) \
    X(CLIPS, CLIP) X(CLIPS_ALONE, CLIP) X(UNCLIPPED, CLIP) X(ADAPTS_CLIP, CLIP) X(NOISES, NOISE) \
    X(CODES, CODE) X(DECODES, CODE) X(MASKS, CODE) X(FEEDS_BACK, CODE) X(VARIES, CODE) X(NOT_SIGNS, CODE) \
    X(MIXES, MIX) X(COMBINES, COMBINE) X(ONE_MODEL, COMBINE) X(SHARES_FIRST, COMBINE) X(WEIGHS, COMBINE) \
    X(COUNTS_UNEVENLY, COMBINE) X(COUNTS_OTHERWISE, COMBINE) X(COUNTS_LATER, COMBINE) X(TOLD, COMBINE) X(BY_TRAINING, COMBINE) X(SEES_CLIENTS, COMBINE) \
    X(ADAPTERS, COMBINE) X(ADAPTS, COMBINE) X(NOVA, COMBINE) X(QFFL, COMBINE) X(LEARNS, COMBINE) X(TRUSTS, COMBINE) X(BY_LOSSES, COMBINE) \
    X(RELEASES, RELEASE) X(GAUSSIAN, RELEASE) X(TREE, RELEASE) \
    X(MOVES, SERVER) X(SCALES, SERVER) X(SUMS, SERVER) X(VOTES, SERVER) X(TRAINS_STATE, SERVER) X(SERVER_NAME_DIFFERS, SERVER) \
    X(BUFFERS, SCHEDULE) X(BUFFERS_UPDATES, SCHEDULE) X(NOT_BUFFERS, SCHEDULE) X(WRITES, SCHEDULE) \
    X(WILD, SCHEDULE) X(STEPS_ALONE, SCHEDULE) X(LOCKSTEP, SCHEDULE) X(LOCKSTEP_NODES, SCHEDULE) \
    X(GLOBAL_BATCH, SCHEDULE) X(SHARES_SAMPLES, SCHEDULE) X(GATHERS, SCHEDULE) X(STEPS_ON_ONE, SCHEDULE) X(STEPS_ON_SEVERAL, SCHEDULE) \
    X(SEVERAL_STEPS, SCHEDULE) X(BOUNDS, SCHEDULE) \
    X(PUBLISHES, SCHEDULE) X(ONCE, SCHEDULE) X(LAGS, SCHEDULE) X(BY_STEPS, SCHEDULE) X(STREAMS, SCHEDULE) \
    X(STALE, STALE) X(STALE_SHARES, STALE) X(COMPENSATES, STALE) X(NEEDS_BEGUN, STALE)

// The traits of a run, each with the option that asks for it.
#define OPTION_TRAITS(X) \
    X(STATE_KEPT, "client-optimizer-state") X(STATE_AVERAGED, "client-optimizer-state") \
    X(ATTACKS_UPDATES, "attack") X(ATTACKS_SAMPLES, "attack") X(CRAFTS, "attack") X(BACKDOOR, "attack") \
    X(SCALES_BY_SHARE, "attack") X(SOME_CLIENTS, "clients-per-round") X(DRAWS_ALL, "clients-per-round") X(WEIGHS_CLIENTS, "client-weights") X(GROWS, "cohort-schedule") \
    X(SAMPLES_UNEVENLY, "sampling") X(SAMPLES_OUT_OF_TURN, "sampling") X(SAMPLES_IN_TURN, "sampling") X(SAMPLES_SOME, "sampling") \
    X(SAMPLES_AT_ONCE, "sampling") X(OVER_SELECTS, "over-selection") X(DROPS_OUT, "drop-out") X(FAILS, "failures") X(WITHOUT, "without") X(NEW_CLIENTS, "new-clients") \
    X(STRAGGLES, "stragglers") X(DROPS_STRAGGLERS, "stragglers") X(ENDS_ROUNDS, "deadline") \
    X(TIMES, "client-time") X(TIME_FILE, "client-time") X(TIMES_UPLOADS, "up-bandwidth") \
    X(TIMES_DOWNLOADS, "down-bandwidth") X(REAL_CLOCK, "clock") X(REPLAYS, "clock") \
    X(SCHEDULES_LR, "lr-schedule") X(WARMS_UP, "warm-up") X(BLURS, "client-noise") \
    X(DRIFTS_CLASSES, "drift") X(DRIFTS_PIXELS, "drift") X(DRIFTS_LABELS, "drift") \
    X(DECAYS, "weight-decay") X(DECAYS_SHARED, "weight-decay") X(CLIPS_GRADIENTS, "clip-grad-norm") \
    X(FREEZES, "freeze") X(HIDES_SAMPLES, "dp-sgd") X(WEIGHS_CLASSES, "class-weights") X(TUNES, "finetune-epochs") X(CHOOSES_BY_LOSS, "sampling") \
    X(CROPS, "random-crop") X(FLIPS, "random-flip") X(SMOOTHS, "label-smoothing") X(BCE, "loss") \
    X(TRAINER, "trainer") X(NO_TRAINER, "trainer") X(AGGREGATOR, "aggregator") X(NO_IMAGES, "data") X(NO_SAMPLES, "data") X(TARGETS, "data") X(TOKENS, "data") X(EMBEDS, "model") X(WHOLE_BATCHES, "model") \
    X(SEVERAL_NODES, "nodes") X(ON_GPU, "device")
// clang-format on

#define TRAIT_NAME(trait, of) TRAIT_##trait,
typedef enum Trait { TRAIT_NONE, ALGORITHM_TRAITS(TRAIT_NAME) OPTION_TRAITS(TRAIT_NAME) TRAIT_COUNT } Trait;

typedef struct Traits {
    bool has[TRAIT_COUNT];
} Traits;

typedef struct Clash {
    Trait sides[2]; // options come first, then parts of the algorithm, then data, net, nodes and device
    // A phrase, with a remedy if the sides suggest none; after TRAIT_ON_GPU it continues the first side.
    const char *why;
} Clash;

// Finds the traits of an algorithm; leaves the traits of options unchanged.
void recipe_traits(Traits *traits, const Recipe *recipe);

// Finds the first pair of the table whose traits the run has both; `with` restricts it to pairs of that trait. False if
// there is none.
bool clash_among(Clash *clash, const Traits *traits, Trait with);

// The option that has a trait ("sampling"); NULL for a trait of an algorithm's part.
const char *trait_option(Trait trait);

// Writes into text, and returns, the part and the rule that have a trait of an algorithm: "local scaffold".
enum { TRAIT_RULE_BYTES = 64 };
const char *trait_rule(char text[TRAIT_RULE_BYTES], Trait trait, const Recipe *recipe);

#endif

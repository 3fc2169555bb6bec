#include "clashes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "fedavg/rules/combine/combine_rules.h"
#include "fedavg/rules/combine/mix_rules.h"
#include "fedavg/rules/local/local_rules.h"
#include "fedavg/rules/local/optimizer_rules.h"
#include "fedavg/rules/local/personal_rules.h"
#include "fedavg/rules/privacy/release_rules.h"
#include "fedavg/rules/send/send_rules.h"
#include "fedavg/rules/server/server_rules.h"
#include "fedavg/rules/world/schedule.h"
#include "fedavg/rules/world/stale_rules.h"
#include "fedavg/rules/world/walk.h"

enum { CLASH_OTHERS = 24 };

// One trait, those that it does not go with, and why. Of several pairs that a run has, the first is told.
typedef struct ClashRow {
    Trait one, others[CLASH_OTHERS];
    const char *why;
} ClashRow;

#define NEEDS_CLIP "its noise is a multiple of what updates are clipped to; add send clip"

static const ClashRow clashes[] = {
    // What clients keep, and how they step.
    {SUMS, {LOCAL_NAME_DIFFERS}, "it is the half of the local rule of its name"},
    {KEEPS, {SERVER_NAME_DIFFERS}, "it needs the server rule of its name"},
    {KEEPS, {COMBINES}, "its clients are averaged as they are"},
    {KEEPS, {PERSONAL}, "a client keeps one of the two"},
    {MOREAU, {ADDS, NOT_SGD, NOVA}, "its two steps are its own"},
    {QFFL, {MOVES}, "its step has a length of its own"},
    {ASKS, {NOT_SGD}, "what a client keeps is an average of gradients, which only SGD's way tells"},
    {NOVA, {NOT_SGD}, "the length of a training is known for SGD alone"},
    // Mixed updates are of several clients: they come from updates side by side, and count alike.
    {MIXES, {SHARES_FIRST}, "that does not look at updates side by side"},
    {MIXES, {WEIGHS}, "mixed updates count alike; add weights=uniform to it"},
    {MIXES, {BY_TRAINING}, "mixed updates have no loss of their own"},
    {MIXES, {KEEPS}, "its clients are averaged as they are"},
    {MIXES, {MASKS}, "the server may see the sum alone"},
    {MIXES, {RELEASES}, "a client would be part of several updates"},
    {MIXES, {VOTES}, "it counts the signs of clients"},
    {MIXES, {BUFFERS}, "its clients have to begin from one model"},
    // What is sent. A client keeps one thing, and the changes of what it keeps are not encoded.
    {MASKS, {SEES_CLIENTS}, "the server may see the sum alone"},
    {NOISES, {UNCLIPPED}, NEEDS_CLIP},
    {DECODES, {KEEPS_EXACTLY}, "the server has to know the updates exactly"},
    {FEEDS_BACK, {KEEPS}, "a client keeps one of the two; take feedback=no"},
    {CLIPS, {REPLICAS}, "what a replica gives is exact"},
    {MASKS, {NORMS}, "it takes weights that lie side by side"},
    {FEEDS_BACK, {PERSONAL}, "a client keeps one of the two; take feedback=no"},
    {FEEDS_BACK, {NOISES}, "what feeds back is not clipped, and nothing is private; take feedback=no"},
    {VOTES, {NOT_SIGNS}, "it counts signs; add send sign"},
    {VOTES, {COUNTS_UNEVENLY}, "votes count alike; add combine mean uniform"},
    // Noise hides one client only if every client counts alike, is clipped, and hands in nothing besides.
    {RELEASES, {UNCLIPPED}, NEEDS_CLIP},
    {RELEASES, {COUNTS_UNEVENLY}, "a client that counts more than others would show; add combine mean uniform"},
    {RELEASES, {KEEPS}, "what its clients keep would be released, too"},
    {RELEASES, {DECODES}, "what is decoded may be longer than what was clipped"},
    {TREE, {ADAPTS_CLIP}, "its noise belongs to one norm for all rounds"},
    // Updates that begin from several models meet in one sum, whose shares are known beforehand.
    {BUFFERS, {KEEPS_FOR_ROUNDS}, "what its clients keep belongs to rounds of one model"},
    {BUFFERS, {PERSONAL}, "what stays with a client belongs to a round"},
    {BUFFERS, {ADAPTS_CLIP}, "its norm follows from whole rounds; take send clip"},
    {BUFFERS, {MASKS}, "masks vanish in the sum of those that began together"},
    {BUFFERS, {FEEDS_BACK}, "what is fed back belongs to a round; take feedback=no"},
    {BUFFERS, {ONE_MODEL}, "its clients have to begin from one model"},
    {BUFFERS, {TRAINS_STATE}, "its clients begin from a model apart"},
    {BUFFERS, {RELEASES}, "its epsilon is that of rounds that are drawn"},
    {STALE, {NOT_BUFFERS}, "nothing is stale there; add schedule buffered"},
    {STALE, {REPLICAS}, "what a replica gives is never stale"},
    {REPLICAS, {GATHERS}, "a replica gives as it arrives, and goes on at once; write K=1 and steps= alone"},
    {COMPENSATES, {STEPS_ON_SEVERAL}, "it turns one step at a time; add K=1, without mixes"},
    {COMPENSATES, {SEVERAL_STEPS}, "what it turns is one gradient; add steps=1"},
    {COMPENSATES, {NOT_SGD}, "only SGD's steps are gradients"},
    // Workers that write one model.
    {WRITES,
     {NESTEROV},
     "nesterov=yes is for clients that train on their own; or take schedule rounds steps=1 with server momentum "
     "nesterov=yes and --lr 1"},
    {LOCKSTEP,
     {NOT_SGD},
     "its workers share one velocity, SGD's; for Adam on the mean gradient take schedule rounds steps=1 with server "
     "adam and --lr 1 (tools/from.md)"},
    {WILD, {NOT_SGD}, "its workers write SGD's steps into one model"},
    {WRITES,
     {ADDS, PERSONAL, CLIPS, NOISES, CODES, MIXES, COMBINES, RELEASES, MOVES},
     "no clients come together there"},
};

#define TRAIT_PART(trait, part) [trait] = PART_##part,
static const Part parts[TRAIT_COUNT] = {ALGORITHM_TRAITS(TRAIT_PART)};
#define TRAIT_OPTION(trait, option) [trait] = option,
static const char *const trait_options[TRAIT_COUNT] = {OPTION_TRAITS(TRAIT_OPTION)};

const char *trait_option(Trait trait) {
    return trait_options[trait];
}

const char *trait_rule(char text[TRAIT_RULE_BYTES], Trait trait, const Recipe *recipe) {
    snprintf(text, TRAIT_RULE_BYTES, "%s %s", part_names[parts[trait]], recipe_rule(recipe, parts[trait]));
    return text;
}

static void traits_of_clients(bool *has, const Recipe *recipe) {
    const LocalRule *local = local_rules[recipe->local.row];
    const bool buffers = engine_facts[recipe_engine(recipe)].buffers;
    has[ADDS] = recipe->local.row > 0;
    has[KEEPS] = local->keeps;
    has[KEEPS_FOR_ROUNDS] = local->keeps && !local->replicas;
    has[KEEPS_EXACTLY] = local->keeps && !local->asks;
    has[ASKS] = local->asks;
    has[REPLICAS] = local->replicas;
    has[REPLICAS_ARRIVE] = local->replicas && buffers;
    has[LOOKS] = local_looks(&recipe->local);
    has[NOT_SGD] = recipe->optimizer.row != OPTIMIZER_SGD;
    has[NESTEROV] = recipe->optimizer.row == OPTIMIZER_SGD && recipe->optimizer.number[0] != 0;
    has[PERSONAL] = recipe->personal.row != PERSONAL_NONE;
    has[MOREAU] = recipe->personal.row == PERSONAL_MOREAU;
    has[NORMS] = recipe->personal.row == PERSONAL_NORMS;
    has[CLIPS] = recipe->clip.row != CLIP_NONE;
    has[UNCLIPPED] = recipe->clip.row == CLIP_NONE;
    has[ADAPTS_CLIP] = recipe->clip.row == CLIP_ADAPTIVE;
    has[NOISES] = recipe->noise.row != NOISE_NONE;
    has[CODES] = recipe->code.row != SEND_ROW_whole;
    has[MASKS] = recipe->code.row == SEND_ROW_masked;
    has[DECODES] = has[CODES] && !has[MASKS];
    has[FEEDS_BACK] = send_feeds_back(&recipe->code);
    has[VARIES] = send_codes[recipe->code.row]->varies;
    has[NOT_SIGNS] = recipe->code.row != SEND_ROW_sign;
}

static void traits_of_server(bool *has, const Recipe *recipe) {
    const CombineRule *combine = combine_rules[recipe->combine.row];
    const ServerRule *server = server_rules[recipe->server.row];
    has[MIXES] = recipe->mix.row != MIX_NONE;
    has[COMBINES] = recipe->combine.row != COMBINE_ROW_mean;
    has[ONE_MODEL] = has[COMBINES] && recipe->combine.row != COMBINE_ROW_bound;
    has[SHARES_FIRST] = has[COMBINES] && !combine->rows;
    has[WEIGHS] = !combine_is_uniform(&recipe->combine);
    has[COUNTS_UNEVENLY] = has[COMBINES] || has[WEIGHS];
    has[BY_TRAINING] = combine->by_training != NULL;
    has[BY_LOSSES] = combine_wants_losses(&recipe->combine);
    has[SEES_CLIENTS] = combine->rows || has[BY_LOSSES] || combine->bound;
    has[NOVA] = recipe->combine.row == COMBINE_ROW_nova;
    has[QFFL] = recipe->combine.row == COMBINE_ROW_qffl;
    has[LEARNS] = combine->learn != NULL;
    has[TRUSTS] = combine->trusts;
    has[RELEASES] = recipe->release.row != RELEASE_EXACT;
    has[GAUSSIAN] = recipe->release.row == RELEASE_GAUSSIAN;
    has[TREE] = recipe->release.row == RELEASE_TREE;
    has[MOVES] = recipe->server.row != SERVER_ROW_average;
    has[SUMS] = server->sums;
    has[VOTES] = recipe->server.row == SERVER_ROW_vote;
    has[TRAINS_STATE] = server->trains_state > 0;
    has[LOCAL_NAME_DIFFERS] = has[SERVER_NAME_DIFFERS] =
        strcmp(local_rules[recipe->local.row]->text.name, server->text.name) != 0;
}

static void traits_of_schedule(bool *has, const Recipe *recipe) {
    const EngineFacts *engine = &engine_facts[recipe_engine(recipe)];
    const double *number = recipe->schedule.number;
    has[BY_STEPS] = walk_by_steps(&recipe->schedule);
    has[NOT_BUFFERS] = !engine->buffers;
    has[WRITES] = engine->writes_weights;
    has[WILD] = engine->client_is_worker;
    has[STEPS_ALONE] = has[WILD] && (number[WILD_STEPS] > 1 || !isnan(number[WILD_BOUND]));
    has[LOCKSTEP] = engine->in_lockstep;
    has[STALE] = recipe->stale.row != STALE_CONSTANT;
    has[COMPENSATES] = recipe->stale.row == STALE_COMPENSATED;
    has[STALE_SHARES] = has[STALE] && !has[COMPENSATES];
    if (!engine->buffers) return;
    has[BUFFERS] = true;
    has[NEEDS_BEGUN] = stale_wants_begun(&recipe->stale, &recipe->schedule);
    has[BUFFERS_UPDATES] = !has[REPLICAS];
    has[STEPS_ON_SEVERAL] = number[BUFFERED_K] != 1 || number[BUFFERED_MIXES] != MIXES_UPDATES;
    has[SEVERAL_STEPS] = number[BUFFERED_STEPS] != 1;
    has[BOUNDS] = !isnan(number[BUFFERED_BOUND]);
    has[PUBLISHES] = number[BUFFERED_DISPATCH] != DISPATCH_ARRIVAL;
    has[GATHERS] = has[STEPS_ON_SEVERAL] || has[PUBLISHES] || has[BOUNDS] || !isnan(number[BUFFERED_LIMIT]);
    has[ONCE] = number[BUFFERED_TWICE] == TWICE_NO;
    has[LAGS] = !isnan(number[BUFFERED_LAG]);
    has[COUNTS_LATER] = number[BUFFERED_K] > 1 && has[WEIGHS];
}

void recipe_traits(Traits *traits, const Recipe *recipe) {
    traits_of_clients(traits->has, recipe);
    traits_of_server(traits->has, recipe);
    traits_of_schedule(traits->has, recipe);
}

bool clash_among(Clash *clash, const Traits *traits, Trait with) {
    for (const ClashRow *row = clashes; row < clashes + sizeof clashes / sizeof *clashes; row++)
        for (const Trait *other = row->others; traits->has[row->one] && *other; other++) {
            if (!traits->has[*other] || (with && with != row->one && with != *other)) continue;
            const bool swaps = trait_option(*other) && !trait_option(row->one);
            *clash = (Clash){.sides = {swaps ? *other : row->one, swaps ? row->one : *other}, .why = row->why};
            return true;
        }
    return false;
}

// Part of recipe.h: refuses rules that do not go together, and names both sides.
#include <math.h>
#include <string.h>

#include "fedavg/algorithm/recipe.h"
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

static Status refuse_pair(Part a, Part b, const Recipe *recipe, const char *why, Error *err) {
    return fail(err, STATUS_USAGE, "%s %s does not go with %s %s: %s", part_names[a],
                part_rule(a, recipe->parts[a].row)->name, part_names[b], part_rule(b, recipe->parts[b].row)->name, why);
}

static Status check_halves(const Recipe *recipe, Error *err) {
    const LocalRule *local = local_rules[recipe->parts[PART_LOCAL].row];
    const ServerRule *server = server_rules[recipe->parts[PART_SERVER].row];
    const bool half = strcmp(local->text.name, server->text.name) == 0;
    if (server->sums && !half)
        return refuse_pair(PART_SERVER, PART_LOCAL, recipe, "it is the half of the local rule of its name", err);
    if (local->keeps && !half)
        return refuse_pair(PART_LOCAL, PART_SERVER, recipe, "it needs the server rule of its name", err);
    if (local->keeps && recipe->parts[PART_COMBINE].row != COMBINE_ROW_mean)
        return refuse_pair(PART_LOCAL, PART_COMBINE, recipe, "its clients are averaged as they are", err);
    if (local->keeps && recipe->parts[PART_PERSONAL].row != PERSONAL_NONE)
        return refuse_pair(PART_LOCAL, PART_PERSONAL, recipe, "a client keeps one of the two", err);
    const Part steps[] = {PART_LOCAL, PART_OPTIMIZER, PART_COMBINE};
    const bool others[] = {recipe->parts[PART_LOCAL].row != 0, recipe->parts[PART_OPTIMIZER].row != OPTIMIZER_SGD,
                           recipe->parts[PART_COMBINE].row == COMBINE_ROW_nova};
    for (int i = 0; i < 3 && recipe->parts[PART_PERSONAL].row == PERSONAL_MOREAU; i++)
        if (others[i]) return refuse_pair(PART_PERSONAL, steps[i], recipe, "its two steps are its own", err);
    if (recipe->parts[PART_COMBINE].row == COMBINE_ROW_qffl && recipe->parts[PART_SERVER].row != SERVER_ROW_average)
        return refuse_pair(PART_COMBINE, PART_SERVER, recipe, "its step has a length of its own", err);
    if (local->asks && recipe->parts[PART_OPTIMIZER].row != OPTIMIZER_SGD)
        return refuse_pair(PART_LOCAL, PART_OPTIMIZER, recipe,
                           "what a client keeps is an average of gradients, which only SGD's way tells", err);
    if (recipe->parts[PART_COMBINE].row == COMBINE_ROW_nova && recipe->parts[PART_OPTIMIZER].row != OPTIMIZER_SGD)
        return refuse_pair(PART_COMBINE, PART_OPTIMIZER, recipe, "the length of a training is known for SGD alone",
                           err);
    return STATUS_OK;
}

// Mixed updates are of several clients: they come from updates side by side, and count alike.
static Status check_mix(const Recipe *recipe, Error *err) {
    const Chosen *parts = recipe->parts;
    const CombineRule *combine = combine_rules[parts[PART_COMBINE].row];
    const struct {
        Part part;
        bool clashes;
        const char *why;
    } others[] = {
        {PART_COMBINE, parts[PART_COMBINE].row != COMBINE_ROW_mean && !combine->rows,
         "that does not look at updates side by side"},
        {PART_COMBINE, !combine_is_uniform(&parts[PART_COMBINE]),
         "mixed updates count alike; add weights=uniform to it"},
        {PART_COMBINE, combine->by_training != NULL, "mixed updates have no loss of their own"},
        {PART_LOCAL, local_rules[parts[PART_LOCAL].row]->keeps, "its clients are averaged as they are"},
        {PART_CODE, parts[PART_CODE].row == SEND_ROW_masked, "the server may see the sum alone"},
        {PART_RELEASE, parts[PART_RELEASE].row != RELEASE_EXACT, "a client would be part of several updates"},
        {PART_SERVER, parts[PART_SERVER].row == SERVER_ROW_vote, "it counts the signs of clients"},
        {PART_SCHEDULE, engine_facts[recipe_engine(recipe)].buffers, "its clients have to begin from one model"},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others && parts[PART_MIX].row != MIX_NONE; i++)
        if (others[i].clashes) return refuse_pair(PART_MIX, others[i].part, recipe, others[i].why, err);
    return STATUS_OK;
}

// What a client keeps from turn to turn is one thing, and the changes of what it keeps are not encoded.
static Status check_send(const Recipe *recipe, Error *err) {
    const Chosen *parts = recipe->parts;
    const LocalRule *local = local_rules[parts[PART_LOCAL].row];
    const bool feeds_back = send_feeds_back(&parts[PART_CODE]), masks = parts[PART_CODE].row == SEND_ROW_masked;
    const bool codes = parts[PART_CODE].row != SEND_ROW_whole && !masks;
    const CombineRule *combine = combine_rules[parts[PART_COMBINE].row];
    if (masks && (combine->rows || combine_wants_losses(&parts[PART_COMBINE]) || combine->bound))
        return refuse_pair(PART_CODE, PART_COMBINE, recipe, "the server may see the sum alone", err);
    if (parts[PART_NOISE].row != NOISE_NONE && parts[PART_CLIP].row == CLIP_NONE)
        return refuse_pair(PART_NOISE, PART_CLIP, recipe,
                           "its noise is a multiple of what updates are clipped to; add send clip", err);
    if (local->keeps && codes && !local->asks)
        return refuse_pair(PART_CODE, PART_LOCAL, recipe, "the server has to know the updates exactly", err);
    if (feeds_back && local->keeps)
        return refuse_pair(PART_CODE, PART_LOCAL, recipe, "a client keeps one of the two; take feedback=no", err);
    if (local->replicas && parts[PART_CLIP].row != CLIP_NONE)
        return refuse_pair(PART_CLIP, PART_LOCAL, recipe, "what a replica gives is exact", err);
    if (masks && parts[PART_PERSONAL].row == PERSONAL_NORMS)
        return refuse_pair(PART_CODE, PART_PERSONAL, recipe, "it takes weights that lie side by side", err);
    if (feeds_back && parts[PART_PERSONAL].row != PERSONAL_NONE)
        return refuse_pair(PART_CODE, PART_PERSONAL, recipe, "a client keeps one of the two; take feedback=no", err);
    if (feeds_back && parts[PART_NOISE].row != NOISE_NONE)
        return refuse_pair(PART_CODE, PART_NOISE, recipe,
                           "what feeds back is not clipped, and nothing is private; take feedback=no", err);
    if (parts[PART_SERVER].row == SERVER_ROW_vote && parts[PART_CODE].row != SEND_ROW_sign)
        return refuse_pair(PART_SERVER, PART_CODE, recipe, "it counts signs; add send sign", err);
    if (parts[PART_SERVER].row == SERVER_ROW_vote &&
        (parts[PART_COMBINE].row != COMBINE_ROW_mean || !combine_is_uniform(&parts[PART_COMBINE])))
        return refuse_pair(PART_SERVER, PART_COMBINE, recipe, "votes count alike; add combine mean uniform", err);
    return STATUS_OK;
}

// Noise hides one client only if every client counts alike, is clipped, and hands in nothing besides.
static Status check_release(const Recipe *recipe, Error *err) {
    const Chosen *parts = recipe->parts;
    if (parts[PART_RELEASE].row == RELEASE_EXACT) return STATUS_OK;
    if (parts[PART_CLIP].row == CLIP_NONE)
        return refuse_pair(PART_RELEASE, PART_CLIP, recipe,
                           "its noise is a multiple of what updates are clipped to; add send clip", err);
    if (parts[PART_COMBINE].row != COMBINE_ROW_mean || !combine_is_uniform(&parts[PART_COMBINE]))
        return refuse_pair(PART_RELEASE, PART_COMBINE, recipe,
                           "a client that counts more than others would show; add combine mean uniform", err);
    if (local_rules[parts[PART_LOCAL].row]->keeps)
        return refuse_pair(PART_RELEASE, PART_LOCAL, recipe, "what its clients keep would be released, too", err);
    if (parts[PART_CODE].row != SEND_ROW_whole && parts[PART_CODE].row != SEND_ROW_masked)
        return refuse_pair(PART_RELEASE, PART_CODE, recipe, "what is decoded may be longer than what was clipped", err);
    if (parts[PART_RELEASE].row == RELEASE_TREE && parts[PART_CLIP].row == CLIP_ADAPTIVE)
        return refuse_pair(PART_RELEASE, PART_CLIP, recipe, "its noise belongs to one norm for all rounds", err);
    return STATUS_OK;
}

// A replica gives to the centre as it arrives, and goes on at once with what that has left it.
static Status check_replicas(const Recipe *recipe, Error *err) {
    const Chosen *parts = recipe->parts, *schedule = &parts[PART_SCHEDULE];
    if (!local_rules[parts[PART_LOCAL].row]->replicas) return STATUS_OK;
    if (parts[PART_STALE].row != STALE_CONSTANT)
        return refuse_pair(PART_STALE, PART_LOCAL, recipe, "what a replica gives is never stale", err);
    if (schedule->number[BUFFERED_K] != 1 || schedule->number[BUFFERED_MIXES] != MIXES_UPDATES ||
        schedule->number[BUFFERED_DISPATCH] != DISPATCH_ARRIVAL || !isnan(schedule->number[BUFFERED_BOUND]) ||
        !isnan(schedule->number[BUFFERED_LIMIT]))
        return refuse_pair(PART_LOCAL, PART_SCHEDULE, recipe,
                           "a replica gives as it arrives, and goes on at once; write K=1 and steps= alone", err);
    return STATUS_OK;
}

// One update makes a step, and it is a gradient times the learning rate.
static Status check_compensated(const Recipe *recipe, Error *err) {
    const Chosen *parts = recipe->parts, *schedule = &parts[PART_SCHEDULE];
    if (parts[PART_STALE].row != STALE_COMPENSATED) return STATUS_OK;
    if (schedule->number[BUFFERED_K] != 1 || schedule->number[BUFFERED_MIXES] != MIXES_UPDATES)
        return refuse_pair(PART_STALE, PART_SCHEDULE, recipe, "it turns one step at a time; add K=1, without mixes",
                           err);
    if (schedule->number[BUFFERED_STEPS] != 1)
        return refuse_pair(PART_STALE, PART_SCHEDULE, recipe, "what it turns is one gradient; add steps=1", err);
    if (parts[PART_OPTIMIZER].row != OPTIMIZER_SGD)
        return refuse_pair(PART_STALE, PART_OPTIMIZER, recipe, "only SGD's steps are gradients", err);
    return STATUS_OK;
}

// Updates that begin from several models come together in one sum, whose shares are known beforehand.
static Status check_buffered(const Recipe *recipe, Error *err) {
    const Chosen *parts = recipe->parts, *schedule = &parts[PART_SCHEDULE];
    const LocalRule *local = local_rules[parts[PART_LOCAL].row];
    const double k = schedule->number[BUFFERED_K], m = schedule->number[BUFFERED_M];
    const struct {
        Part part;
        bool clashes;
        const char *why;
    } others[] = {
        {PART_LOCAL, local->keeps && !local->replicas, "what its clients keep belongs to rounds of one model"},
        {PART_PERSONAL, parts[PART_PERSONAL].row != PERSONAL_NONE, "what stays with a client belongs to a round"},
        {PART_CLIP, parts[PART_CLIP].row == CLIP_ADAPTIVE, "its norm follows from whole rounds; take send clip"},
        {PART_CODE, parts[PART_CODE].row == SEND_ROW_masked, "masks vanish in the sum of those that began together"},
        {PART_CODE, send_feeds_back(&parts[PART_CODE]), "what is fed back belongs to a round; take feedback=no"},
        {PART_COMBINE, parts[PART_COMBINE].row != COMBINE_ROW_mean && parts[PART_COMBINE].row != COMBINE_ROW_bound,
         "its clients have to begin from one model"},
        {PART_SERVER, server_rules[parts[PART_SERVER].row]->trains_state > 0, "its clients begin from a model apart"},
        {PART_RELEASE, parts[PART_RELEASE].row != RELEASE_EXACT, "its epsilon is that of rounds that are drawn"},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i].clashes) return refuse_pair(PART_SCHEDULE, others[i].part, recipe, others[i].why, err);
    if (k > m)
        return fail(err, STATUS_USAGE,
                    "schedule buffered: K=%g updates make a step, but only M=%g clients train at a "
                    "time; lower K or raise M",
                    k, m);
    if (!isnan(schedule->number[BUFFERED_LAG]) && !isnan(k))
        return fail(err, STATUS_USAGE, "schedule buffered: K follows from lag; leave one of the two out");
    if (schedule->number[BUFFERED_MIXES] == MIXES_MODELS && k != 1)
        return fail(err, STATUS_USAGE, "schedule buffered: mixes=models takes one client's model at a time; add K=1");
    TRY(check_replicas(recipe, err));
    return check_compensated(recipe, err);
}

static Status check_schedule(const Recipe *recipe, Error *err) {
    if (engine_facts[recipe_engine(recipe)].buffers) return check_buffered(recipe, err);
    if (recipe->parts[PART_STALE].row != STALE_CONSTANT)
        return refuse_pair(PART_STALE, PART_SCHEDULE, recipe, "nothing is stale there; add schedule buffered", err);
    const Chosen *schedule = &recipe->parts[PART_SCHEDULE];
    if (recipe_engine(recipe) == ENGINE_ROUNDS && schedule->number[ROUNDS_WARMUP] > 0 && !walk_by_steps(schedule))
        return fail(err, STATUS_USAGE, "schedule rounds warmup=%g: needs steps=, the steps of the rounds after it",
                    schedule->number[ROUNDS_WARMUP]);
    if (recipe_engine(recipe) == ENGINE_ROUNDS) return STATUS_OK;
    if (recipe->parts[PART_OPTIMIZER].number[0] != 0 && recipe->parts[PART_OPTIMIZER].row == OPTIMIZER_SGD)
        return refuse_pair(PART_SCHEDULE, PART_OPTIMIZER, recipe,
                           "nesterov=yes is for clients that train on their own; or take schedule rounds steps=1 with "
                           "server momentum nesterov=yes and --lr 1",
                           err);
    const bool in_lockstep = engine_facts[recipe_engine(recipe)].in_lockstep;
    if (recipe->parts[PART_OPTIMIZER].row != OPTIMIZER_SGD)
        return refuse_pair(PART_SCHEDULE, PART_OPTIMIZER, recipe,
                           in_lockstep ? "its workers share one velocity, SGD's; for Adam on the mean gradient take "
                                         "schedule rounds steps=1 with server adam and --lr 1 (tools/from.md)"
                                       : "its workers write SGD's steps into one model",
                           err);
    for (int part = 0; part < PART_SCHEDULE; part++)
        if (recipe->parts[part].row > 0)
            return refuse_pair(PART_SCHEDULE, (Part)part, recipe, "no clients come together there", err);
    return STATUS_OK;
}

Status recipe_check(const Recipe *recipe, Error *err) {
    TRY(check_halves(recipe, err));
    TRY(check_mix(recipe, err));
    TRY(check_send(recipe, err));
    TRY(check_release(recipe, err));
    return check_schedule(recipe, err);
}

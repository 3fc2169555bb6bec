#include "release_rules.h"

#include <math.h>

#include "fedavg/rules/send/send_rules.h"
#include "fedavg/rules/sum/aggregate.h"

// noise and epsilon are two ways to say one thing: the first states the noise and lets the accountant find what it is
// worth, the second states the worth and has release_plan find the least noise.
const RuleText release_rules[RELEASE_RULE_COUNT] = {
    [RELEASE_EXACT] = {"exact", "the sum is released without noise", "McMahan et al., AISTATS 2017", {{0}}},
    [RELEASE_GAUSSIAN] =
        {"gaussian",
         "noise of NOISE clipping norms hides every client; epsilon instead: the least noise for it over all rounds",
         "McMahan, Ramage, Talwar, Zhang, ICLR 2018",
         {{.name = "noise", .preset = NAN, .minimum = 0, .maximum = 1e6, .derived = "epsilon, or 1"},
          {.name = "epsilon", .preset = NAN, .minimum = 1e-3, .maximum = 1e4, .derived = "noise"},
          {.name = "delta", .preset = 1e-5, .minimum = 1e-15, .maximum = 0.5},
          {.name = "cohort", .preset = NAN, .minimum = 1, .maximum = 1e9, .derived = "--clients-per-round"}}},
    [RELEASE_TREE] =
        {"tree",
         "noise on a tree over the rounds, for cohorts that are not random: each client at most once until "
         "restart",
         "Kairouz, McMahan, Song, Thakkar, Thakurta, Xu, ICML 2021 (DP-FTRL)",
         {{.name = "noise", .preset = NAN, .minimum = 0, .maximum = 1e6, .derived = "epsilon, or 1"},
          {.name = "epsilon", .preset = NAN, .minimum = 1e-3, .maximum = 1e4, .derived = "noise"},
          {.name = "delta", .preset = 1e-5, .minimum = 1e-15, .maximum = 0.5},
          {.name = "restart",
           .preset = NAN,
           .minimum = 1,
           .maximum = 1e9,
           .whole = true,
           .derived = "the rounds in which each client takes part at most once"}}},
};

static Status check_both(double noise, double epsilon, const char *which, Error *err) {
    if (isnan(noise) || isnan(epsilon)) return STATUS_OK;
    return fail(err, STATUS_USAGE, "%s: one of noise and epsilon follows from the other; leave one of the two out",
                which);
}

// Absent clients are drawn and leave a gap in the cohort: a mean divides by the others. Epsilon is unchanged, since the
// noise on the sum is.
static double arriving_of(double clients, const ReleaseWorld *world) {
    const uint32_t others = world->clients - world->absent;
    return others > 0 ? clients * others / world->clients : clients;
}

// Noise of a client's own protects its update before anything is sent. Neither sampling nor the sum hides it further,
// so that its epsilon is that of one release of one update.
static Status plan_local(ReleasePlan *plan, const Chosen *noise, Error *err) {
    const double epsilon = noise->number[NOISE_EPSILON];
    plan->local_noise = 0;
    plan->local_epsilon = NAN;
    if (noise->row == NOISE_NONE) return STATUS_OK;
    TRY(check_both(noise->number[NOISE_MULTIPLIER], epsilon, "send noise", err));
    plan->local_delta = noise->number[NOISE_DELTA];
    plan->local_noise = isnan(noise->number[NOISE_MULTIPLIER]) ? 1 : noise->number[NOISE_MULTIPLIER];
    // Replacing an update by another changes what is sent by up to twice the norm.
    if (!isnan(epsilon)) plan->local_noise = 2 * gaussian_noise(epsilon, plan->local_delta);
    plan->local_epsilon = gaussian_epsilon(plan->local_noise / 2, plan->local_delta);
    return STATUS_OK;
}

// The noisy count of clipped updates costs privacy; to keep the total, the updates get more noise: 1/z_updates^2 =
// 1/z^2 - 1/(2 z_count)^2. The count is centred, so that one client changes it by a half, which is why its noise counts
// twice. With less noise than that the count alone would spend the whole budget, and none would be left for the
// updates.
static Status plan_adaptive(ReleasePlan *plan, const Chosen *clip, Error *err) {
    if (clip->row != CLIP_ADAPTIVE) return STATUS_OK;
    const double noise = plan->mechanism.noise;
    plan->count_noise = clip->number[CLIP_COUNT_NOISE];
    if (isnan(plan->count_noise)) plan->count_noise = noise > 0 ? plan->arriving / 20 : 0;
    if (noise == 0) return STATUS_OK;
    if (noise >= 2 * plan->count_noise)
        return fail(err, STATUS_USAGE,
                    "release gaussian: noise=%g does not go with send adaptive-clip count-noise=%g: it has to be below "
                    "twice that; raise count-noise, or --clients-per-round, which it follows",
                    noise, plan->count_noise);
    plan->updates_noise = 1 / sqrt(1 / (noise * noise) - 1 / (4 * plan->count_noise * plan->count_noise));
    return STATUS_OK;
}

// Sums of fixed point must stay below 2^22 (rules/sum/aggregate.h); 10 deviations of noise are allowed for.
static Status check_range(const ReleasePlan *plan, const Chosen *clip, const ReleaseWorld *world, const char *rule,
                          Error *err) {
    const double norm = clip->number[CLIP_NORM], most = 0x1p20;
    const double updates = norm * arriving_of(world->clients, world) / plan->arriving;
    const double noise = 10 * norm * plan->updates_noise / plan->cohort;
    if (updates + noise < most) return STATUS_OK;
    return fail(err, STATUS_USAGE,
                "%s: updates clipped to %g and their noise may sum to %g, which is above %g; clip to less", rule, norm,
                updates + noise, most);
}

// With cyclic groups, a client takes part again after clients / clients_per_round rounds.
static Status plan_tree(ReleasePlan *plan, const Chosen *release, const ReleaseWorld *world, Error *err) {
    const uint32_t once = world->clients / world->clients_per_round;
    const double restart = release->number[RELEASE_RESTART];
    plan->tree_rounds = isnan(restart) ? once : (uint32_t)restart;
    plan->mechanism = (Mechanism){.cohorts = COHORTS_TREE, .rate = 1.0 / plan->tree_rounds};
    if (plan->tree_rounds <= once) return STATUS_OK;
    return fail(
        err, STATUS_USAGE,
        "release tree: restart=%u: of %u clients with %u a round the first ones come again after %u; give at most "
        "that",
        plan->tree_rounds, world->clients, world->clients_per_round, once);
}

// The order follows from what depends on what: the mechanism's rate on the planned cohort, the noise on the rate and on
// the rounds, the updates' noise on the noise of the count, and the range of the sums on both.
Status release_plan(ReleasePlan *plan, const Chosen *release, const Chosen *clip, const Chosen *local_noise,
                    const ReleaseWorld *world, Error *err) {
    *plan = (ReleasePlan){.cohort = world->clients_per_round, .arriving = arriving_of(world->clients_per_round, world)};
    TRY(plan_local(plan, local_noise, err));
    if (release->row == RELEASE_EXACT) return plan_adaptive(plan, clip, err);
    const double epsilon = release->number[RELEASE_EPSILON];
    double noise = release->number[RELEASE_NOISE];
    const bool tree = release->row == RELEASE_TREE;
    const char *rule = tree ? "release tree" : "release gaussian";
    TRY(check_both(noise, epsilon, rule, err));
    if (!tree && !isnan(release->number[RELEASE_COHORT])) plan->cohort = release->number[RELEASE_COHORT];
    plan->hides = 1;
    plan->delta = release->number[RELEASE_DELTA];
    plan->mechanism = (Mechanism){.cohorts = world->cohorts, .rate = fmin(1, plan->cohort / world->clients)};
    if (tree) TRY(plan_tree(plan, release, world, err));
    if (isnan(noise)) noise = 1;
    if (!isnan(epsilon))
        TRY(accountant_noise(&noise, plan->mechanism.cohorts, plan->mechanism.rate, world->rounds, epsilon, plan->delta,
                             err));
    plan->mechanism.noise = plan->updates_noise = noise;
    plan->cohort = arriving_of(plan->cohort, world);
    TRY(plan_adaptive(plan, clip, err));
    return check_range(plan, clip, world, rule, err);
}

// A share of 1 / arrived would let one client change the weights of all others, and more than one norm of the sum. The
// planned size is public and depends on no client.
void release_shares(CohortShares *all, Member *members, uint32_t count, double cohort) {
    *all = (CohortShares){.factor = 1, .total = 1};
    for (uint32_t k = 0; k < count; k++)
        members[k].share = members[k].fate == MEMBER_ARRIVES ? 1 / cohort : 0;
}

// The streams of RNG_DP_NOISE: the last number of a key. Number 1 is for the clients' noise.
enum { STREAM_OF_SUMS = 0, STREAM_OF_COUNTS = 2 };

// The noise of a weight depends on its index, not on which other weights are sent. A run with personal layers therefore
// has, on the weights that it sends, the noise of a run without such layers. Noise is rounded to the unit of the sums:
// the total stays an exact integer on every node.
static void add_along(int64_t *total, double scale, NoiseStream *noise, const PersonalRun *sent, uint32_t runs) {
    for (uint32_t r = 0; r < runs; r++)
        for (uint64_t i = sent[r].first; i < sent[r].end; i++)
            total[i] += llrint(scale * noise_normal(noise, i));
}

void release_add_noise(int64_t *total, double deviation, const NoiseKey *key, uint32_t round, const PersonalRun *sent,
                       uint32_t runs) {
    NoiseStream noise;
    noise_begin(&noise, key, RNG_DP_NOISE, round, 0, STREAM_OF_SUMS);
    if (deviation > 0) add_along(total, deviation * AGGREGATE_UNIT, &noise, sent, runs);
}

// Round `now` of a tree completes the node of 2^level rounds, where level counts its trailing 0 bits. Round 4 (100 in
// binary) completes the node over rounds 1 to 4: the noise of that node is added, and the noises of the node over
// rounds 1 and 2 and of the node of round 3, which the sum has had so far, are subtracted. Each node's noise is drawn
// from its place in the tree, so that what is subtracted is exactly what was added.
void release_add_tree_noise(int64_t *total, double deviation, uint32_t tree_rounds, const NoiseKey *key, uint32_t round,
                            const PersonalRun *sent, uint32_t runs) {
    const uint32_t tree = (round - 1) / tree_rounds, now = (round - 1) % tree_rounds + 1, before = now - 1;
    const double scale = deviation * AGGREGATE_UNIT;
    NoiseStream noise;
    uint32_t level = 0;
    if (deviation == 0) return;
    for (; (now >> level & 1) == 0; level++) { // the nodes below the completed one: each of 2^level rounds
        noise_begin(&noise, key, RNG_DP_TREE, tree, level, before >> level);
        add_along(total, -scale, &noise, sent, runs);
    }
    noise_begin(&noise, key, RNG_DP_TREE, tree, level, now >> level);
    add_along(total, scale, &noise, sent, runs);
}

// A geometric step towards the quantile: norm exp(-rate (b - quantile)), where b is the fraction of updates within the
// norm, estimated with noise. The count is centred at half, which halves the effect of one client, as in the paper.
double release_next_clip(double norm, const Chosen *clip, const ReleasePlan *plan, uint32_t arrived, uint32_t clipped,
                         const NoiseKey *key, uint32_t round) {
    if (clip->row != CLIP_ADAPTIVE || plan->arriving == 0) return norm;
    NoiseStream noise;
    double within = (double)(arrived - clipped) - arrived / 2.0;
    if (plan->count_noise > 0) {
        noise_begin(&noise, key, RNG_DP_NOISE, round, 0, STREAM_OF_COUNTS);
        within += plan->count_noise * noise_normal(&noise, 0);
    }
    const double part = fmin(1, fmax(0, within / plan->arriving + 0.5));
    return norm * exp(-clip->number[CLIP_RATE] * (part - clip->number[CLIP_QUANTILE]));
}

#include "coalitions.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/look/look_options.h"
#include "base/rng.h"
#include "base/spread.h"
#include "fedavg/rules/world/client_list.h"

enum { ORDER_SEED = 1, MOST_EXACT = 13 };

// The remedy is one that fits: each permutation has up to n - 2 coalitions beside the n + 2 that all have in common.
static Status refuse_count(const Coalitions *plan, Error *err) {
    const size_t players = plan->player_count;
    const size_t room = SWEEP_MOST_RUNS > players + 2 ? SWEEP_MOST_RUNS - players - 2 : 0, most = room / (players - 2);
    char lower[64] = "";
    if (most > 0) snprintf(lower, sizeof lower, "--samples %zu, or ", most);
    return fail(err, STATUS_USAGE,
                "--samples %zu: more than %d coalitions would have to be trained; give %s--samples 0, which leaves out "
                "one client at a time",
                plan->samples, SWEEP_MOST_RUNS, lower);
}

static bool has_none(const Coalitions *plan, const uint8_t *absent) {
    size_t left_out = 0;
    for (size_t i = 0; i < plan->player_count; i++)
        left_out += absent[plan->players[i]];
    return left_out == plan->player_count;
}

// Finds the coalition, or appends it. Coalitions are few beside the cost of training one, so that a linear search is
// enough.
static Status find(uint32_t *place, Coalitions *plan, const uint8_t *absent, uint32_t clients, Error *err) {
    char text[OPTION_TEXT_BYTES] = "";
    const bool is_any = memchr(absent, 1, clients) != NULL;
    if (has_none(plan, absent))
        snprintf(text, sizeof text, "%s", WITHOUT_ALL);
    else if (is_any && !client_list_write(text, sizeof text, absent, clients))
        return fail(err, STATUS_USAGE,
                    "%zu clients are too many: a list of those left out has more than %d letters; give --samples 0, "
                    "which leaves out one at a time",
                    plan->player_count, OPTION_TEXT_BYTES);
    for (size_t i = 0; i < plan->count; i++)
        if (strcmp(plan->all[i].without, text) == 0) {
            *place = (uint32_t)i;
            return STATUS_OK;
        }
    if (plan->count > SWEEP_MOST_RUNS) return refuse_count(plan, err);
    Coalition *all = realloc(plan->all, (plan->count + 1) * sizeof *all);
    if (all) plan->all = all;
    char *without = all ? strdup(text) : NULL;
    if (!without) return fail(err, STATUS_OS, "no memory for %zu coalitions", plan->count);
    plan->all[plan->count] = (Coalition){.without = without, .value = NAN};
    *place = (uint32_t)plan->count++;
    return STATUS_OK;
}

static Status plan_leave_one_out(Coalitions *plan, uint8_t *absent, uint32_t clients, Error *err) {
    uint32_t place;
    TRY(find(&place, plan, absent, clients, err));
    for (size_t i = 0; i < plan->player_count; i++) {
        absent[plan->players[i]] = 1;
        TRY(find(&place, plan, absent, clients, err));
        absent[plan->players[i]] = 0;
    }
    return STATUS_OK;
}

// The players join one after the other; the last coalition before a player joins has all that are before it.
static Status plan_order(Coalitions *plan, size_t sample, uint8_t *absent, uint32_t clients, Error *err) {
    const size_t count = plan->player_count;
    uint32_t *order = plan->orders + sample * count, *before = plan->before + sample * count;
    for (size_t i = 0; i < count; i++)
        order[i] = (uint32_t)i;
    rng_shuffle(order, count, rng_key(ORDER_SEED, RNG_SHUFFLE, (uint32_t)sample + 1, 0, 0));
    for (size_t i = 0; i < count; i++)
        absent[plan->players[i]] = 1;
    for (size_t i = 0; i < count; i++) {
        TRY(find(&before[i], plan, absent, clients, err));
        absent[plan->players[order[i]]] = 0;
    }
    return STATUS_OK;
}

// Bit i of a set is player i.
static Status plan_all_sets(Coalitions *plan, uint8_t *absent, uint32_t clients, Error *err) {
    for (uint32_t set = 0; set < 1u << plan->player_count; set++) {
        for (size_t i = 0; i < plan->player_count; i++)
            absent[plan->players[i]] = !(set >> i & 1);
        TRY(find(&plan->before[set], plan, absent, clients, err));
    }
    return STATUS_OK;
}

Status coalitions_plan(Coalitions *plan, const uint32_t *players, size_t player_count, uint32_t clients,
                       const uint8_t *absent, size_t samples, Error *err) {
    if (player_count > SWEEP_MOST_RUNS)
        return fail(err, STATUS_USAGE, "%zu clients are too many: leaving out one at a time takes more than %d runs",
                    player_count, SWEEP_MOST_RUNS);
    const size_t sets = player_count <= MOST_EXACT ? (size_t)1 << player_count : SIZE_MAX;
    const bool is_exact = samples > 0 && sets <= samples * (player_count - 2) + player_count + 2;
    *plan = (Coalitions){
        .players = players, .player_count = player_count, .samples = is_exact ? 0 : samples, .is_exact = is_exact};
    const size_t places = is_exact ? sets : samples * player_count;
    uint8_t *left_out = calloc(clients, 1);
    plan->orders = calloc(places + 1, sizeof *plan->orders);
    plan->before = calloc(places + 1, sizeof *plan->before);
    Status status = STATUS_OK;
    if (!left_out || !plan->orders || !plan->before)
        status = fail(err, STATUS_OS, "no memory for %zu permutations of %zu clients", samples, player_count);
    if (status == STATUS_OK) memcpy(left_out, absent, clients);
    if (status == STATUS_OK) status = plan_leave_one_out(plan, left_out, clients, err);
    if (status == STATUS_OK && is_exact) status = plan_all_sets(plan, left_out, clients, err);
    for (size_t sample = 0; sample < plan->samples && status == STATUS_OK; sample++)
        status = plan_order(plan, sample, left_out, clients, err);
    free(left_out);
    if (status != STATUS_OK) coalitions_free(plan);
    return status;
}

void coalitions_free(Coalitions *plan) {
    for (size_t i = 0; i < plan->count; i++)
        free(plan->all[i].without);
    free(plan->all);
    free(plan->orders);
    free(plan->before);
    *plan = (Coalitions){0};
}

// The sum over all sets without the player of what it adds to them, by the share of the orders in which exactly these
// are before it: s! (n - s - 1)! / n!.
static double exact_value(const Coalitions *plan, size_t player) {
    const size_t count = plan->player_count;
    double sum = 0;
    for (uint32_t set = 0; set < 1u << count; set++) {
        if (set >> player & 1) continue;
        double weight = 1.0 / (double)count; // divided by the number of sets of this size among the others
        const int size = __builtin_popcount(set);
        for (int i = 1; i <= size; i++)
            weight *= (double)i / (double)(count - (size_t)i);
        sum += weight * (plan->all[plan->before[set | 1u << player]].value - plan->all[plan->before[set]].value);
    }
    return sum;
}

Share coalitions_share(const Coalitions *plan, size_t player) {
    const size_t count = plan->player_count;
    Share share = {.left_out = plan->all[0].value - plan->all[1 + player].value, .shapley = NAN, .error = NAN};
    Spread marginals = {0};
    if (plan->is_exact) {
        share.shapley = exact_value(plan, player);
        share.error = 0;
        return share;
    }
    for (size_t sample = 0; sample < plan->samples; sample++) {
        const uint32_t *order = plan->orders + sample * count, *before = plan->before + sample * count;
        size_t at = 0;
        while (order[at] != player)
            at++;
        const double after = plan->all[at + 1 < count ? before[at + 1] : 0].value;
        spread_add(&marginals, after - plan->all[before[at]].value);
    }
    if (plan->samples > 0) share.shapley = marginals.mean;
    share.error = spread_deviation(&marginals) / sqrt((double)plan->samples);
    return share;
}

#include "coalitions.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/inspect/look_options.h"
#include "base/rng.h"
#include "fedavg/rules/world/client_list.h"

enum { ORDER_SEED = 1, MOST_FACTORIAL = 12 };

// Returns how many permutations there are, or SIZE_MAX if they are too many to list.
static size_t factorial(size_t count) {
    size_t product = 1;
    if (count > MOST_FACTORIAL) return SIZE_MAX;
    for (size_t i = 2; i <= count; i++)
        product *= i;
    return product;
}

// Permutation `number` in lexicographic order, by the digits of the factorial number system.
static void order_exactly(uint32_t *order, size_t count, size_t number) {
    for (size_t i = 0; i < count; i++)
        order[i] = (uint32_t)i;
    for (size_t i = 0; i < count; i++) {
        const size_t rest = factorial(count - 1 - i), pick = i + number / rest;
        const uint32_t picked = order[pick];
        memmove(order + i + 1, order + i, (pick - i) * sizeof *order);
        order[i] = picked;
        number %= rest;
    }
}

// Finds the coalition, or appends it. Coalitions are few beside the cost of training one, so that a linear search is
// enough.
static Status find(uint32_t *place, Coalitions *plan, const uint8_t *absent, uint32_t clients, Error *err) {
    char text[OPTION_TEXT_BYTES] = "";
    const bool is_any = memchr(absent, 1, clients) != NULL;
    if (is_any && !client_list_write(text, sizeof text, absent, clients))
        return fail(err, STATUS_USAGE,
                    "%zu clients are too many: a list of those left out has more than %d letters; give --samples 0, "
                    "which leaves out one at a time",
                    plan->player_count, OPTION_TEXT_BYTES);
    for (size_t i = 0; i < plan->count; i++)
        if (strcmp(plan->all[i].without, text) == 0) {
            *place = (uint32_t)i;
            return STATUS_OK;
        }
    if (plan->count > SWEEP_MOST_RUNS)
        return fail(err, STATUS_USAGE, "more than %d coalitions would have to be trained; lower --samples (now %zu)",
                    SWEEP_MOST_RUNS, plan->samples);
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
    if (plan->is_exact)
        order_exactly(order, count, sample);
    else
        rng_shuffle(order, (uint32_t)count, rng_key(ORDER_SEED, RNG_SHUFFLE, (uint32_t)sample + 1, 0, 0));
    for (size_t i = 0; i < count; i++)
        absent[plan->players[i]] = 1;
    for (size_t i = 0; i < count; i++) {
        TRY(find(&before[i], plan, absent, clients, err));
        absent[plan->players[order[i]]] = 0;
    }
    return STATUS_OK;
}

Status coalitions_plan(Coalitions *plan, const uint32_t *players, size_t player_count, uint32_t clients,
                       const uint8_t *absent, size_t samples, Error *err) {
    const size_t orders = factorial(player_count);
    *plan = (Coalitions){.players = players,
                         .player_count = player_count,
                         .samples = samples < orders ? samples : orders,
                         .is_exact = samples >= orders};
    uint8_t *left_out = calloc(clients, 1);
    plan->orders = calloc(plan->samples * player_count + 1, sizeof *plan->orders);
    plan->before = calloc(plan->samples * player_count + 1, sizeof *plan->before);
    Status status = STATUS_OK;
    if (!left_out || !plan->orders || !plan->before)
        status = fail(err, STATUS_OS, "no memory for %zu permutations of %zu clients", samples, player_count);
    if (status == STATUS_OK && absent) memcpy(left_out, absent, clients);
    if (status == STATUS_OK) status = plan_leave_one_out(plan, left_out, clients, err);
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

Share coalitions_share(const Coalitions *plan, size_t player) {
    const size_t count = plan->player_count;
    Share share = {.left_out = plan->all[0].value - plan->all[1 + player].value, .shapley = NAN, .error = NAN};
    double sum = 0, squares = 0;
    for (size_t sample = 0; sample < plan->samples; sample++) {
        const uint32_t *order = plan->orders + sample * count, *before = plan->before + sample * count;
        size_t at = 0;
        while (order[at] != player)
            at++;
        const double after = plan->all[at + 1 < count ? before[at + 1] : 0].value;
        const double marginal = after - plan->all[before[at]].value;
        sum += marginal;
        squares += marginal * marginal;
    }
    if (plan->samples == 0) return share;
    const double samples = (double)plan->samples;
    share.shapley = sum / samples;
    if (plan->is_exact)
        share.error = 0;
    else if (plan->samples > 1)
        share.error = sqrt(fmax(0, squares - sum * share.shapley) / (samples - 1) / samples);
    return share;
}

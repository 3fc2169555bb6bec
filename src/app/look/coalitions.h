// The coalitions of clients that must be trained to know the worth of each client: all but one client (leave-one-out),
// and those that permutation sampling asks for (Castro, Gomez, Tejada, Computers & OR 2009), whose mean marginal
// contribution is the Shapley value. Permutations are not truncated: all coalitions are known before the first one is
// trained.
//
//   TRY(coalitions_plan(&plan, players, 10, 100, absent, 20, err));
//   for (size_t i = 1; i < plan.count; i++) ... plan.all[i].without, trained; plan.all[i].value = its figure;
//   Share share = coalitions_share(&plan, k);              // of players[k]
//   coalitions_free(&plan);
#ifndef SOUNDER_APP_LOOK_COALITIONS_H
#define SOUNDER_APP_LOOK_COALITIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

typedef struct Coalition {
    char *without; // owned: the clients that are left out, as --without takes them; "": none
    double value;  // more is better; NaN until it is known
} Coalition;

typedef struct Coalitions {
    const uint32_t *players; // borrowed, (player_count): the clients that may be left out, ascending
    size_t player_count;
    Coalition *all;        // owned, (count): all players, then all but one, then those of the permutations
    size_t count, samples; // permutations
    // Owned, (samples player_count): players in their order; the coalition before each joins. If exact, before has the
    // coalition of each set of players.
    uint32_t *orders, *before;
    bool is_exact; // all coalitions are planned, and there are no samples
} Coalitions;

// clients: numbers of clients are below it. absent (clients): 1 for those that no coalition has. samples:
// permutations; 0 for leave-one-out alone. If that many could ask for as many coalitions as there are, all of them are
// planned instead, and the values are exact. A plan with more samples has the coalitions of one with fewer. USAGE if
// there are more coalitions than a sweep has runs, or if a list is too long for an option. Nothing to free on failure.
Status coalitions_plan(Coalitions *plan, const uint32_t *players, size_t player_count, uint32_t clients,
                       const uint8_t *absent, size_t samples, Error *err);
void coalitions_free(Coalitions *plan);

// left_out: added by the player to all others. shapley: added to the players before it, in the mean over permutations,
// with the standard error of that mean (0 if it is exact, NaN for a single permutation); NaN without permutations.
typedef struct Share {
    double left_out, shapley, error;
} Share;

Share coalitions_share(const Coalitions *plan, size_t player);

#endif

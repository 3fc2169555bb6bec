// Secure aggregation, simulated (Bonawitz, Ivanov, Kreuter, Marcedone, McMahan, Patel, Ramage, Segal, Seth, CCS 2017):
// the server learns the sum of the updates and nothing about a single one. Client k hands in, modulo 2^64,
//
//   y_k = its integer contribution + b_k + sum over j > k of g_kj - sum over j < k of g_jk
//
// where b_k and g_ij are streams that only k, or only i and j, know. In the sum the g_ij of clients that both hand in
// cancel. The server asks the remaining clients of the cohort for the b_k of those that handed in, and for the g_ij of
// those that did not. The result is the plain sum to the bit.
//
// All streams follow from one key of the run (rules/noise_key.h), and no keys or shares of secrets are
// exchanged: the simulation covers the arithmetic, the bytes, and that too few survivors lose the round.
//
// A cohort of m clients draws m (m + 1) streams as long as the model.
#ifndef SOUNDER_FEDAVG_RULES_SEND_MASKS_H
#define SOUNDER_FEDAVG_RULES_SEND_MASKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fedavg/rules/noise_key.h"

enum { MASK_NEIGHBOUR_BYTES = 32 }; // per pair of clients: a key, a share of a secret

typedef struct Masking {
    const NoiseKey *key; // of the run; borrowed
    uint32_t round;
    const uint32_t *clients; // (count) that have begun, in any order
    uint32_t count;
    size_t parameters;             // of a sum
    size_t still_first, still_end; // neither sent nor masked
} Masking;

// sum (parameters) += the client's masks. which: 0 for its update; 1 for the change of its client state.
void masks_put(int64_t *sum, const Masking *masking, uint32_t client, uint32_t which);

// Removes the remaining masks from total (parameters), the sum of what the clients in alive (count) have handed in.
void masks_take(int64_t *total, const Masking *masking, const uint32_t *alive, uint32_t count, uint32_t which);

// Whether this many clients of the cohort are enough to reconstruct the sum.
bool masks_suffice(const Masking *masking, uint32_t alive, double threshold);

#endif

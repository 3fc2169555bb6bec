// Secure aggregation, simulated (Bonawitz, Ivanov, Kreuter, Marcedone, McMahan, Patel, Ramage, Segal, Seth, CCS 2017):
// the server learns the sum of the updates and nothing about a single one. Client k hands in, modulo 2^64,
//
//   y_k = its integer contribution + b_k + sum over j > k of g_kj - sum over j < k of g_jk
//
// where b_k and g_ij are streams that only k, or only i and j, know. In the sum the g_ij of clients that both hand in
// cancel; the server asks the others of the cohort for the b_k of those that did, and for the g_ij of those that did
// not. What comes out is the plain sum to the bit. Who knows --seed knows all streams, and nobody exchanges keys or
// shares of secrets here: what is simulated is the arithmetic, the bytes, and that too few survivors lose the round.
//
// A cohort of m clients draws m (m + 1) streams as long as the model.
#ifndef SOUNDER_FEDAVG_RULES_SEND_MASKS_H
#define SOUNDER_FEDAVG_RULES_SEND_MASKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MASK_NEIGHBOUR_BYTES = 32 }; // of a client for each other one of its cohort: a key, a share of a secret

typedef struct Masking {
    uint64_t seed;
    uint32_t round;
    const uint32_t *clients; // (count) that have begun, in any order
    uint32_t count;
    size_t parameters;             // of a sum
    size_t still_first, still_end; // are not sent and not masked
} Masking;

// sum (parameters) += what the client adds. which: 0, its update; 1, the change of what it keeps.
void masks_put(int64_t *sum, const Masking *masking, uint32_t client, uint32_t which);

// total (parameters): of what the clients in alive (count) have handed in. Takes off what is left of masks.
void masks_take(int64_t *total, const Masking *masking, const uint32_t *alive, uint32_t count, uint32_t which);

// Whether so many of the cohort are enough to put the sum together.
bool masks_suffice(const Masking *masking, uint32_t alive, double threshold);

#endif

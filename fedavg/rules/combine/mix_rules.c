#include "mix_rules.h"

#include "base/rng.h"
#include "fedavg/rules/combine/combine_rule.h"

// Bucketing (Karimireddy, He, Jaggi, ICLR 2022): the updates are shuffled and split into buckets of `size`, the last of
// which may be smaller; the bucket's mean replaces its updates.

static uint32_t buckets_mixed(uint32_t count, const double *number) {
    const uint32_t size = (uint32_t)number[0];
    return (count + size - 1) / size;
}

static void buckets_mix(double *parts, const MixTurn *turn) {
    const uint32_t size = (uint32_t)turn->number[0], buckets = buckets_mixed(turn->count, turn->number);
    for (uint32_t k = 0; k < turn->count; k++)
        turn->order[k] = k;
    rng_shuffle(turn->order, turn->count, rng_key(turn->seed, RNG_BUCKETS, turn->round, 0, 0));
    for (uint32_t bucket = 0; bucket < buckets; bucket++) {
        const uint32_t first = bucket * size, left = turn->count - first, in_it = left < size ? left : size;
        for (uint32_t k = first; k < first + in_it; k++)
            parts[(size_t)bucket * turn->stride + turn->order[k]] = 1.0 / in_it;
    }
}

// Nearest-neighbour mixing (Allouah, Farhadkhani, Guerraoui, Gupta, Pinot, Stephan, AISTATS 2023): every update is
// replaced by the mean of its n - f nearest updates, itself included. The paper's guarantee holds for f < n / 2.

static uint32_t nearest_mixed(uint32_t count, const double *number) {
    return count > 2 * number[0] ? count : 0;
}

static void nearest_mix(double *parts, const MixTurn *turn) {
    const uint32_t count = turn->count, take = count - (uint32_t)turn->number[0];
    const Choice choice = {.products = turn->products, .count = count};
    for (uint32_t i = 0; i < count; i++) {
        double *of_row = parts + (size_t)i * turn->stride;
        of_row[i] = 1.0 / take;
        for (uint32_t taken = 1; taken < take; taken++) {
            uint32_t nearest = count;
            double least = 0;
            for (uint32_t j = 0; j < count; j++) {
                if (of_row[j] > 0) continue;
                const double distance = choice_squared_distance(&choice, i, j);
                if (nearest == count || distance < least) nearest = j, least = distance;
            }
            of_row[nearest] = 1.0 / take;
        }
    }
}

const MixRule mix_rules[MIX_RULE_COUNT] = {
    [MIX_NONE] = {.text = {"none", "updates are combined as they are", "McMahan et al., AISTATS 2017", {{0}}}},
    [MIX_BUCKETS] = {.text = {"buckets",
                              "shuffles updates into buckets of this size, and replaces them by each bucket's mean",
                              "Karimireddy, He, Jaggi, ICLR 2022",
                              {{.name = "size", .preset = 2, .minimum = 1, .maximum = 1000000, .whole = true}}},
                     .mix = buckets_mix,
                     .mixed = buckets_mixed},
    [MIX_NEAREST] =
        {.text = {"nearest",
                  "replaces every update by the mean of all but the `byzantine` ones furthest from it; fewer than half "
                  "may be byzantine",
                  "Allouah et al., AISTATS 2023",
                  {COMBINE_BYZANTINE}},
         .products = true,
         .mix = nearest_mix,
         .mixed = nearest_mixed},
};

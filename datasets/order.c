#include "datasets/order.h"

#include "base/rng.h"
#include <string.h>

Status distributed_sampler_check(const DistributedSampler *sampler, Error *err) {
    if (sampler->rank >= sampler->ranks)
        return fail(err, STATUS_USAGE, "rank %u of %u: ranks count from 0, so it must be below %u", sampler->rank,
                    sampler->ranks, sampler->ranks);
    uint64_t taken = (uint64_t)distributed_sampler_count(sampler) * sampler->ranks;
    if (taken > UINT32_MAX)
        return fail(err, STATUS_USAGE, "%u samples padded to %llu for %u ranks do not fit 32 bits; drop the last",
                    sampler->samples, (unsigned long long)taken, sampler->ranks);
    return STATUS_OK;
}

uint32_t distributed_sampler_count(const DistributedSampler *sampler) {
    uint32_t whole = sampler->samples / sampler->ranks;
    bool is_divisible = sampler->samples % sampler->ranks == 0;
    return is_divisible || sampler->drop_last ? whole : whole + 1;
}

void distributed_sampler_draw(uint32_t *indices, uint32_t *order, const DistributedSampler *sampler, uint32_t epoch) {
    for (uint32_t i = 0; i < sampler->samples; i++)
        order[i] = i;
    if (sampler->shuffle) rng_shuffle(order, sampler->samples, rng_key(sampler->seed, RNG_EPOCH, epoch, 0, 0));
    const uint32_t count = distributed_sampler_count(sampler);
    for (uint32_t i = 0; i < count; i++)
        indices[i] = order[(sampler->rank + i * sampler->ranks) % sampler->samples]; // past its end the order repeats
}

void contiguous_split(uint32_t *first, uint32_t *count, uint32_t samples, uint32_t ranks, uint32_t rank) {
    const uint32_t run = samples / ranks;
    *first = run * rank;
    *count = rank + 1 == ranks ? samples - *first : run;
}

void batch_order(uint32_t *order, const uint32_t *indices, uint32_t count, uint64_t seed, uint32_t round,
                 uint32_t client, uint32_t epoch) {
    memcpy(order, indices, count * sizeof *order);
    rng_shuffle(order, count, rng_key(seed, RNG_SHUFFLE, round, client, epoch));
}

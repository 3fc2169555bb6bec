#include "world.h"

#include <math.h>
#include <stdlib.h>

#include "base/rng.h"

// A member's numbers are keyed by its client and not by its place in the cohort, so that a client is slow, or drops
// out, by itself: another size of the cohort changes nothing for the clients that both cohorts have. Stragglers alone
// are chosen among the members, because their number is a part of the cohort.

// The streams of RNG_CLOCK: the last number of a key.
enum { CLOCK_BASE, CLOCK_NOISE };

// Makes a fraction of the members stragglers, each subset with equal probability.
static void choose_stragglers(Member *members, uint32_t count, double part, RngKey key) {
    uint32_t slow = (uint32_t)llround(part * count);
    for (uint32_t left = count, i = 0; slow > 0 && i < count; i++, left--) {
        // Selection sampling (Knuth, algorithm S) needs no list.
        if (rng_below(rng_block(key, i, 0, 0, 0).word[0], left) >= slow) continue;
        members[i].straggles = true;
        slow--;
    }
}

// Later lines overrule earlier ones: a member that straggles and drops out is one that drops out. Drop-out and
// straggling have streams of their own, so that switching one of them on changes no draw of the other.
void world_absences(Member *members, uint32_t count, const World *world, uint32_t local_epochs, uint64_t seed,
                    uint32_t round) {
    RngKey drop_out = rng_key(seed, RNG_DROP_OUT, round, 0, 0), straggler = rng_key(seed, RNG_STRAGGLER, round, 0, 0);
    for (uint32_t i = 0; i < count; i++)
        members[i].straggles = false;
    choose_stragglers(members, count, world->stragglers, straggler);
    bool lost = world->straggler_work == STRAGGLERS_DROP;
    for (uint32_t i = 0; i < count; i++) {
        Member *member = &members[i];
        member->epochs = local_epochs;
        if (member->straggles && !lost && local_epochs > 1) // uniform in 1 to local_epochs - 1
            member->epochs = 1 + rng_below(rng_block(straggler, member->client, 1, 0, 0).word[0], local_epochs - 1);
        member->fate = MEMBER_ARRIVES;
        if (member->straggles && lost) member->fate = MEMBER_IS_DROPPED;
        if (rng_double(drop_out, member->client) < world->drop_out || member->absent) member->fate = MEMBER_DROPS_OUT;
        if (member->samples == 0) member->fate = MEMBER_HAS_NO_SAMPLES;
    }
}

// A client's base time, in seconds, drawn once per client.
static double base_seconds(const Member *member, const World *world, RngKey key) {
    double mean = world->time_mean, deviation = world->time_deviation, minimum = world->time_minimum;
    switch ((ClientTime)world->client_time) {
    case CLIENT_TIME_CONSTANT:
        return mean;
    case CLIENT_TIME_LOGNORMAL:
    case CLIENT_TIME_LOGNORMAL_PER_SAMPLE:
        return mean * exp(deviation * rng_normal(key, 0));
    case CLIENT_TIME_HALF_NORMAL:
        return minimum + fabs(deviation * rng_normal(key, 0));
    case CLIENT_TIME_UNIFORM:
        return minimum + 2 * (mean - minimum) * rng_double(key, 0);
    case CLIENT_TIME_EXPONENTIAL:
        return -mean * log1p(-rng_double(key, 0));
    case CLIENT_TIME_PER_SAMPLE:
        return fmax(mean + deviation * rng_normal(key, 0), minimum);
    case CLIENT_TIME_FILE:
        return member->seconds_per_sample;
    }
    return mean;
}

static double transfer_seconds(uint64_t bytes, double bytes_per_second) {
    return bytes_per_second > 0 ? (double)bytes / bytes_per_second : 0;
}

// The base time is the client's (the round in its key is 0), the noise belongs to the round.
static double training_seconds(const Member *member, const World *world, uint32_t local_epochs, uint64_t seed,
                               uint32_t round) {
    double seconds = base_seconds(member, world, rng_key(seed, RNG_CLOCK, 0, member->client, CLOCK_BASE));
    bool per_sample = world->client_time == CLIENT_TIME_FILE || world->client_time == CLIENT_TIME_PER_SAMPLE ||
                      world->client_time == CLIENT_TIME_LOGNORMAL_PER_SAMPLE;
    seconds *= per_sample ? (double)member->samples * member->epochs : (double)member->epochs / local_epochs;
    if (world->time_noise > 0)
        seconds *= exp(world->time_noise * rng_normal(rng_key(seed, RNG_CLOCK, round, member->client, CLOCK_NOISE), 0));
    return seconds;
}

// A file states one bandwidth per client, for both directions. Bytes that travel beside the training cost only the time
// that is left when their part of it is over.
uint64_t world_duration(const Member *member, const World *world, uint32_t local_epochs, uint64_t down_bytes,
                        uint64_t up_bytes, uint64_t seed, uint32_t round) {
    const double longest_seconds = 1e9; // about thirty years, within the range of a 64-bit clock
    double seconds = training_seconds(member, world, local_epochs, seed, round);
    const double beside = member->overlap * seconds;
    if (world->client_time == CLIENT_TIME_FILE)
        seconds += transfer_seconds(down_bytes + up_bytes, member->bytes_per_second);
    seconds += transfer_seconds(down_bytes, world->down_bytes_per_second);
    seconds += transfer_seconds(up_bytes, world->up_bytes_per_second);
    if (beside > 0) seconds = fmax(seconds - beside, training_seconds(member, world, local_epochs, seed, round));
    return (uint64_t)llround(1e6 * fmin(seconds, longest_seconds));
}

bool world_hands_in(const Member *member) {
    return member->fate == MEMBER_ARRIVES || member->fate == MEMBER_IS_LATE;
}

double world_link_joules(const Member *member, const World *world, uint64_t down_bytes, uint64_t up_bytes) {
    return member->link_watts * (transfer_seconds(down_bytes + up_bytes, member->bytes_per_second) +
                                 transfer_seconds(down_bytes, world->down_bytes_per_second) +
                                 transfer_seconds(up_bytes, world->up_bytes_per_second));
}

void world_energy(double *training, double *links, const Member *member, const World *world, uint32_t local_epochs,
                  uint64_t down_bytes, uint64_t up_bytes, uint64_t seed, uint32_t round) {
    const bool hands_in = world_hands_in(member);
    const double seconds = training_seconds(member, world, local_epochs, seed, round);
    if (hands_in || member->fate == MEMBER_IS_DROPPED) *training += member->watts * seconds;
    if (member->fate == MEMBER_FAILS)
        *training += member->watts * fmin(seconds, 1e-6 * (double)member->end_microseconds);
    *links += world_link_joules(member, world, down_bytes, hands_in ? up_bytes : 0);
}

// By products and sums, so that no machine has other sizes. The loop ends with the full size at the latest.
uint32_t world_cohort(const World *world, uint32_t most, uint32_t round) {
    const CohortSchedule *cohort = &world->cohort;
    double size = cohort->first;
    if (cohort->kind == COHORT_CONSTANT || cohort->first >= most) return most;
    if (cohort->kind == COHORT_LINEAR && round >= cohort->rounds) return most;
    if (cohort->kind == COHORT_LINEAR)
        return cohort->first + (uint32_t)((uint64_t)(most - cohort->first) * (round - 1) / (cohort->rounds - 1));
    for (uint32_t turn = cohort->rounds; turn < round && size < most; turn += cohort->rounds)
        size *= cohort->factor;
    return size < most ? (uint32_t)size : most;
}

bool world_has_random_durations(const World *world) {
    return world->client_time != CLIENT_TIME_CONSTANT || world->time_noise > 0;
}

static int earliest_first(const void *a, const void *b) {
    const Member *x = a, *y = b;
    if (x->end_microseconds != y->end_microseconds) return x->end_microseconds < y->end_microseconds ? -1 : 1;
    return (x->client > y->client) - (x->client < y->client);
}

// Late members are marked and not removed, because their traffic counts. With a deadline or over-selection, a round for
// which fewer than half of the wanted clients arrive is lost: its mean would be that of the fast ones alone.
Arrivals world_arrivals(Member *members, uint32_t count, uint32_t wanted, const World *world) {
    const uint32_t most = world->over_selection > 1 ? wanted : UINT32_MAX;
    const uint64_t deadline = world->deadline > 0 ? (uint64_t)llround(1e6 * world->deadline) : UINT64_MAX;
    Arrivals arrivals = {0};
    qsort(members, count, sizeof *members, earliest_first);
    for (uint32_t i = 0; i < count; i++) {
        if (members[i].fate != MEMBER_ARRIVES) continue;
        if (arrivals.count == most || members[i].end_microseconds > deadline) {
            members[i].fate = MEMBER_IS_LATE;
            continue;
        }
        arrivals.count++;
        arrivals.microseconds = members[i].end_microseconds;
    }
    bool selects = world->over_selection > 1 || world->deadline > 0;
    arrivals.abandoned = selects && arrivals.count < (wanted + 1) / 2;
    // With fewer arrivals than wanted, the round lasts until the deadline.
    if (world->deadline > 0 && arrivals.count < wanted) arrivals.microseconds = deadline;
    return arrivals;
}

#include "walk.h"

#include <math.h>

#include "fedavg/rules/world/schedule.h"

double walk_round_steps(const Chosen *schedule) {
    if (schedule->row == 0) return schedule->number[ROUNDS_STEPS];
    return engine_facts[schedule->row].buffers ? schedule->number[BUFFERED_STEPS] : NAN;
}

bool walk_by_steps(const Chosen *schedule) {
    return !isnan(walk_round_steps(schedule));
}

uint32_t walk_fragments(const Chosen *schedule) {
    return schedule->row == 0 && schedule->number[ROUNDS_FRAGMENTS] >= 1 ? (uint32_t)schedule->number[ROUNDS_FRAGMENTS]
                                                                         : 0;
}

uint64_t walk_delay(const Chosen *schedule) {
    return walk_fragments(schedule) > 0 ? (uint64_t)schedule->number[ROUNDS_DELAY] : 0;
}

double walk_mix(const Chosen *schedule) {
    const double mix = schedule->number[ROUNDS_MIX];
    return !isnan(mix) ? mix : walk_delay(schedule) > 0 ? 0.5 : 0;
}

double walk_overlap(const Chosen *schedule, uint32_t round) {
    const uint64_t delay = walk_delay(schedule);
    return delay > 0 ? (double)delay / (double)walk_of(schedule, round, 1).steps : 0;
}

uint32_t walk_server_round(const Chosen *schedule, uint32_t round) {
    const uint32_t fragments = walk_fragments(schedule);
    return fragments > 0 ? (round - 1) / fragments + 1 : round;
}

Walk walk_part(const Walk *walk, uint64_t first, uint64_t end) {
    Walk part = *walk;
    part.start += first;
    part.steps = end - first;
    return part;
}

// Before round r there were as many steps as fit in (r - 1) / P times H steps.
static uint64_t steps_before(uint64_t rounds, uint64_t steps, uint64_t fragments) {
    return rounds / fragments * steps + rounds % fragments * steps / fragments;
}

// During warmup each round has one step, so before round r there were r - 1 steps.
Walk walk_of(const Chosen *schedule, uint32_t round, uint32_t epochs) {
    Walk walk = {.round = round, .epochs = epochs};
    if (!walk_by_steps(schedule) || round >= 1u << 30) return walk;
    const uint64_t steps = (uint64_t)walk_round_steps(schedule), before = round - 1;
    const uint64_t warmup = schedule->row == 0 ? (uint64_t)schedule->number[ROUNDS_WARMUP] : 0;
    walk.start = before <= warmup ? before : warmup + (before - warmup) * steps;
    walk.steps = before < warmup ? 1 : steps;
    const uint32_t fragments = walk_fragments(schedule);
    if (fragments == 0) return walk;
    walk.start = steps_before(before, steps, fragments);
    walk.steps = steps_before(before + 1, steps, fragments) - walk.start;
    return walk;
}

static uint64_t smaller(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

// A walk in steps is cut into stretches at the ends of passes; the first one starts where the last round ended. A pass
// has the number that it would have as an epoch of its own. Order and dropout follow from that number: a client that
// stops in the middle of a pass continues it in a later round with the batches that are left.
bool walk_stretch(Stretch *stretch, const Walk *walk, uint32_t index, uint32_t batches) {
    if (walk->steps == 0) {
        *stretch = (Stretch){walk->round, index, 0, batches, index * batches};
        return index < walk->epochs;
    }
    if (batches == 0) return false;
    const uint32_t begun = (uint32_t)(walk->start % batches); // of the first stretch's pass
    const uint64_t done = index == 0 ? 0 : (uint64_t)index * batches - begun;
    if (done >= walk->steps) return false;
    const uint32_t first = index == 0 ? begun : 0;
    // The key of a buffered visit counts as a round: times its steps it may have more than 32 bits.
    const uint64_t pass = walk->start / batches + index + 1;
    *stretch = (Stretch){.round = (uint32_t)pass,
                         .epoch = (uint32_t)(pass >> 32),
                         .first = first,
                         .count = (uint32_t)smaller(walk->steps - done, batches - first),
                         .step = first};
    return true;
}

uint64_t walk_steps(const Walk *walk, uint32_t batches) {
    if (walk->steps == 0) return (uint64_t)walk->epochs * batches;
    return batches > 0 ? walk->steps : 0;
}

uint32_t stretch_samples(const Stretch *stretch, uint32_t samples, uint32_t batch_size) {
    const uint64_t first = (uint64_t)stretch->first * batch_size, end = first + (uint64_t)stretch->count * batch_size;
    return (uint32_t)(smaller(end, samples) - smaller(first, samples));
}

// Counted by stretches, because the last batch of a pass may be smaller than the others.
uint64_t walk_samples(const Walk *walk, uint32_t samples, uint32_t batch_size) {
    const uint32_t batches = samples / batch_size + (samples % batch_size != 0);
    uint64_t all = 0;
    Stretch stretch;
    if (walk->steps == 0) return (uint64_t)walk->epochs * samples;
    for (uint32_t index = 0; walk_stretch(&stretch, walk, index, batches); index++)
        all += stretch_samples(&stretch, samples, batch_size);
    return all;
}

uint32_t walk_work(const Walk *walk, uint32_t samples, uint32_t batch_size) {
    return walk->steps > 0 ? (uint32_t)smaller(walk_samples(walk, samples, batch_size), UINT32_MAX) : samples;
}

#include "sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/sorting.h"

// The draws of this file are functions of seed and round, of the clients' sizes and of their presence, and none depends
// on an earlier draw: a resumed run, another node or a replay draws a round's cohort without the rounds before it.

// The streams of RNG_SAMPLER: the second number of a key. 0 is for uniform draws.
enum { STREAM_POISSON = 1, STREAM_BY_SIZE, STREAM_CYCLE, STREAM_BATCH };

// Moves a sample of `size` items (of count), drawn without replacement, to the front; sorts it unless in_order. This is
// the shuffle of Fisher and Yates, stopped after `size` picks. Pick i uses word i of the stream alone, so that a longer
// draw begins with the picks of a shorter one (schedule_simulate.c).
static void draw_some(uint32_t *items, uint32_t count, uint32_t size, bool in_order, DrawStream *stream) {
    for (uint32_t drawn = 0; drawn < size && (size < count || in_order); drawn++) {
        uint32_t word = draw_block(stream, drawn).word[0];
        uint32_t pick = drawn + rng_below(word, count - drawn);
        uint32_t held = items[drawn];
        items[drawn] = items[pick];
        items[pick] = held;
    }
    if (!in_order) qsort(items, size, sizeof *items, ascending_wholes);
}

static uint32_t draw_uniform(uint32_t *drawn, const Draw *draw) {
    for (uint32_t client = 0; client < draw->clients; client++)
        drawn[client] = client;
    DrawStream stream;
    draw_begin(&stream, draw->secret, draw->seed, RNG_SAMPLER, draw->round, 0, 0);
    draw_some(drawn, draw->clients, draw->size, draw->in_order, &stream);
    return draw->size;
}

// An integer below a 64-bit bound, by multiplication: no division, and a bias below 2^-64.
static uint64_t below(RngKey key, uint32_t index, uint64_t bound) {
    RngBlock block = rng_block(key, index, 0, 0, 0);
    uint64_t word = ((uint64_t)block.word[0] << 32) | block.word[1];
    return (uint64_t)(((unsigned __int128)word * bound) >> 64);
}

// One coin per client, at one rate: the accountant's bound for Poisson sampling holds only for independent draws.
static uint32_t draw_poisson(uint32_t *drawn, const Draw *draw) {
    DrawStream stream;
    draw_begin(&stream, draw->secret, draw->seed, RNG_SAMPLER, draw->round, STREAM_POISSON, 0);
    double rate = (double)draw->size / draw->clients;
    uint32_t count = 0;
    for (uint32_t client = 0; client < draw->clients; client++)
        if (rng_double_of(draw_block(&stream, client)) < rate) drawn[count++] = client;
    return count;
}

static uint32_t number_of(const Draw *draw, uint32_t client) {
    return draw->among ? draw->among[client] : client;
}

// Builds a Fenwick tree of the sizes (clients + 1 elements, from index 1): node i holds the sum of (lowest set bit of
// i) sizes. Drawing and removing a client take a logarithmic number of steps. Returns the total.
static uint64_t plant(uint64_t *tree, const Draw *draw) {
    uint64_t total = 0;
    memset(tree, 0, (draw->clients + 1) * sizeof *tree);
    for (uint32_t i = 1; i <= draw->clients; i++) {
        const uint32_t samples = draw->samples[number_of(draw, i - 1)];
        tree[i] += samples;
        total += samples;
        uint32_t next = i + (i & -i);
        if (next <= draw->clients) tree[next] += tree[i];
    }
    return total;
}

// The client whose samples contain `position` among those left in the tree.
static uint32_t find(const uint64_t *tree, uint32_t clients, uint64_t position) {
    uint32_t place = 0, step = 1;
    while (step <= clients / 2)
        step *= 2;
    for (; step > 0; step /= 2)
        if (place + step <= clients && tree[place + step] <= position) {
            place += step;
            position -= tree[place];
        }
    return place; // the tree is indexed from 1
}

// Uses integers only, so the draw is the same on every machine. A client's weight is its number of samples. Without
// replacement a drawn client leaves the tree with all its samples, and the next draw is among the others. A client
// without samples is never drawn, since no position belongs to it.
static uint32_t draw_by_samples(uint32_t *drawn, const Draw *draw, uint32_t size, bool replace) {
    RngKey key = rng_key(draw->seed, RNG_SAMPLER, draw->round, STREAM_BY_SIZE, 0);
    uint64_t left = plant(draw->scratch, draw);
    uint32_t count = 0;
    for (; count < size && left > 0; count++) {
        uint32_t client = find(draw->scratch, draw->clients, below(key, count, left));
        drawn[count] = client;
        if (replace) continue;
        const uint32_t samples = draw->samples[number_of(draw, client)];
        for (uint32_t i = client + 1; i <= draw->clients; i += i & -i)
            draw->scratch[i] -= samples;
        left -= samples;
    }
    if (!draw->in_order) qsort(drawn, count, sizeof *drawn, ascending_wholes);
    return count;
}

static uint32_t draw_by_size(uint32_t *drawn, const Draw *draw) {
    return draw_by_samples(drawn, draw, draw->size, draw->world->replacement);
}

static uint32_t draw_candidates(uint32_t *drawn, const Draw *draw) {
    return draw_by_samples(drawn, draw, (uint32_t)draw->world->candidates, false);
}

// Groups of neighbours, wrapping around. Shuffled: every cycle puts all clients in a new order, and its last group may
// be smaller, so that each client takes part once per cycle.
static uint32_t draw_cyclic(uint32_t *drawn, const Draw *draw) {
    uint32_t turn = draw->round - 1, clients = draw->clients, size = draw->size;
    if (!draw->world->cycle_shuffle) {
        uint64_t first = (uint64_t)turn * size;
        for (uint32_t i = 0; i < size; i++)
            drawn[i] = (uint32_t)((first + i) % clients);
        qsort(drawn, size, sizeof *drawn, ascending_wholes);
        return size;
    }
    uint32_t turns = clients / size + (clients % size != 0), begin = turn % turns * size;
    uint32_t count = clients - begin < size ? clients - begin : size;
    for (uint32_t client = 0; client < clients; client++)
        drawn[client] = client;
    rng_shuffle(drawn, clients, rng_key(draw->seed, RNG_SAMPLER, turn / turns, STREAM_CYCLE, 0));
    memmove(drawn, drawn + begin, count * sizeof *drawn);
    qsort(drawn, count, sizeof *drawn, ascending_wholes);
    return count;
}

// A client is there if its file says so and its coin agrees. The draw among the clients that are there uses the stream
// of uniform draws: if all of them are there, the cohort is that of uniform sampling.
static uint32_t draw_available(uint32_t *drawn, const Draw *draw) {
    RngKey there = rng_key(draw->seed, RNG_AVAILABLE, draw->round, 0, 0);
    uint32_t count = 0;
    for (uint32_t client = 0; client < draw->clients; client++)
        if ((!draw->there || draw->there[number_of(draw, client)]) &&
            rng_double(there, client) < draw->world->availability)
            drawn[count++] = client;
    uint32_t size = count < draw->size ? count : draw->size;
    DrawStream stream;
    draw_begin(&stream, draw->secret, draw->seed, RNG_SAMPLER, draw->round, 0, 0);
    draw_some(drawn, count, size, false, &stream);
    return size;
}

static uint32_t (*const samplers[])(uint32_t *drawn, const Draw *draw) = {
    [SAMPLING_UNIFORM] = draw_uniform, [SAMPLING_POISSON] = draw_poisson,
    [SAMPLING_BY_SIZE] = draw_by_size, [SAMPLING_POWER_OF_CHOICE] = draw_candidates,
    [SAMPLING_CYCLIC] = draw_cyclic,   [SAMPLING_AVAILABLE] = draw_available};

// Samplers number the clients among whom they draw from 0. These numbers rise with those of all clients, so that an
// ascending draw stays one.
uint32_t sampler_draw(uint32_t *drawn, const Draw *draw) {
    const uint32_t count = samplers[draw->world->sampling](drawn, draw);
    for (uint32_t i = 0; i < count && draw->among; i++)
        drawn[i] = draw->among[drawn[i]];
    return count;
}

// qsort needs an order, and a NaN has none: a model that diverged on a client counts as its largest loss.
static double known(double loss) {
    return isnan(loss) ? INFINITY : loss;
}

// The smallest loss that is kept divides the candidates: all above it stay, and of those equal to it as many as fit.
uint32_t sampler_keep_largest(uint32_t *candidates, double *sorted, const double *losses, uint32_t count,
                              uint32_t size) {
    if (size >= count) return count;
    if (size == 0) return 0;
    for (uint32_t i = 0; i < count; i++)
        sorted[i] = known(losses[i]);
    qsort(sorted, count, sizeof *sorted, descending_reals);
    const double least = sorted[size - 1];
    uint32_t kept = 0, equal = 0;
    for (uint32_t i = 0; i < size; i++)
        equal += sorted[i] == least;
    for (uint32_t i = 0; i < count; i++) {
        const double loss = known(losses[i]);
        if (loss < least || (loss == least && equal == 0)) continue;
        if (loss == least) equal--;
        candidates[kept++] = candidates[i];
    }
    return kept;
}

// A run of samples from a random place: the client's samples are in random order already, and a run needs no list.
uint32_t sampler_batch(uint64_t seed, uint32_t round, uint32_t client, uint32_t count, uint32_t size) {
    const RngKey key = rng_key(seed, RNG_SAMPLER, round, STREAM_BATCH, client);
    return count > size ? (uint32_t)below(key, 0, count - size + 1) : 0;
}

// Part of combine.h: the factors of low-rank adapters, after the mean of all weights (rules/combine/adapters.h).
#include "combine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fedavg/rules/combine/adapters.h"
#include "fedavg/rules/combine/combine_rules.h"
#include "fedavg/rules/sum/aggregate.h"

static const double MOST_UPDATE = 0x1p20; // of a weight: what the exact sums hold (aggregate.h)

// One pair's arrays, in doubles: the factors of all clients (left (out, count), right (count, in)), and those of the
// server (b (out, rank), a (rank, in)).
typedef struct Work {
    const AdapterPair *pair;
    size_t count;
    int64_t *bits; // (rows, numbers of both factors): floats on their way between nodes
    double *left, *right, *b, *a, *residual;
    Owned owned;
} Work;

static Status begin(Work *work, const AdapterPair *pair, uint32_t rows, bool exact, Error *err) {
    *work = (Work){.pair = pair, .count = rows * pair->rank};
    work->bits = own(&work->owned, rows * (pair->a->count + pair->b->count), sizeof *work->bits);
    work->left = own(&work->owned, rows * pair->b->count, sizeof *work->left);
    work->right = own(&work->owned, rows * pair->a->count, sizeof *work->right);
    work->b = own(&work->owned, pair->b->count, sizeof *work->b);
    work->a = own(&work->owned, pair->a->count, sizeof *work->a);
    if (exact) work->residual = own(&work->owned, pair->base->count, sizeof *work->residual);
    if (!work->owned.lacks_memory) return STATUS_OK;
    owned_free(&work->owned);
    return fail(err, STATUS_OS, "no memory to combine %u clients' factors of %s", rows, pair->a->name);
}

static void put(int64_t *bits, const float *values, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint32_t word;
        memcpy(&word, values + i, sizeof word);
        bits[i] = word;
    }
}

static double value_of(int64_t bits) {
    const uint32_t word = (uint32_t)bits;
    float value;
    memcpy(&value, &word, sizeof value);
    return (double)value;
}

// Each node has the rows of its own clients: the bits of floats, zero elsewhere, add up to all of them.
static Status gather(Work *work, Combine *combine, Error *err) {
    const AdapterPair *pair = work->pair;
    const size_t stride = pair->a->count + pair->b->count, rank = pair->rank;
    for (uint32_t row = 0; row < combine->count; row++) {
        if (combine->jobs[row]->node != combine->nodes->rank) continue;
        const float *values = run_memory_row(combine->memory, combine->jobs[row]->place);
        put(work->bits + row * stride, values + pair->a->first, pair->a->count);
        put(work->bits + row * stride + pair->a->count, values + pair->b->first, pair->b->count);
    }
    TRY(nodes_sum(combine->nodes, work->bits, combine->count * stride, err));
    for (uint32_t row = 0; row < combine->count; row++) {
        const int64_t *a = work->bits + row * stride, *b = a + pair->a->count;
        for (size_t i = 0; i < pair->a->count; i++)
            work->right[row * pair->a->count + i] = value_of(a[i]);
        for (size_t o = 0; o < pair->out; o++)
            for (size_t k = 0; k < rank; k++)
                work->left[o * work->count + row * rank + k] = combine->shares[row] * value_of(b[o * rank + k]);
    }
    return STATUS_OK;
}

static Status change(int64_t *total, double by, const ParameterTensor *tensor, Error *err) {
    if (!(fabs(by) < MOST_UPDATE))
        return fail(err, STATUS_DATA, "combine adapters: a weight of %s would move by %g; lower --lr", tensor->name,
                    by);
    *total = llrint(by * AGGREGATE_UNIT);
    return STATUS_OK;
}

// values (count): the tensor's new weights.
static Status replace(Combine *combine, const ParameterTensor *tensor, const double *values, Error *err) {
    const float *now = combine->memory->weights + tensor->first;
    for (size_t i = 0; i < tensor->count; i++)
        TRY(change(combine->total + tensor->first + i, values[i] - (double)now[i], tensor, err));
    return STATUS_OK;
}

static void mean_of(double *values, const Combine *combine, const ParameterTensor *tensor) {
    for (size_t i = 0; i < tensor->count; i++)
        values[i] = (double)combine->memory->weights[tensor->first + i] +
                    (double)combine->total[tensor->first + i] / AGGREGATE_UNIT;
}

static Status add_residual(Work *work, Combine *combine, const AdapterFactors *factors, double scale, Error *err) {
    const AdapterPair *pair = work->pair;
    mean_of(work->b, combine, pair->b);
    mean_of(work->a, combine, pair->a);
    adapter_residual(work->residual, factors, work->b, work->a, pair->rank);
    for (size_t o = 0; o < pair->out; o++)
        for (size_t i = 0; i < pair->in; i++) {
            const size_t place = pair->transposed ? i * pair->out + o : o * pair->in + i;
            TRY(change(combine->total + pair->base->first + place, scale * work->residual[o * pair->in + i], pair->base,
                       err));
        }
    return STATUS_OK;
}

static Status combine_pair(Combine *combine, const AdapterPair *pair, bool exact, double scale, Error *err) {
    Work work;
    TRY(begin(&work, pair, combine->count, exact, err));
    const AdapterFactors factors = {work.left, work.right, work.count, pair->in, pair->out};
    Status status = gather(&work, combine, err);
    if (status == STATUS_OK && exact) status = add_residual(&work, combine, &factors, scale, err);
    if (status == STATUS_OK && !exact) status = adapter_svd(work.b, work.a, &factors, pair->rank, err);
    if (status == STATUS_OK && !exact) status = replace(combine, pair->b, work.b, err);
    if (status == STATUS_OK && !exact) status = replace(combine, pair->a, work.a, err);
    owned_free(&work.owned);
    return status;
}

Status combine_adapters(Combine *combine, Error *err) {
    const RunConfig *config = combine->memory->config;
    const Chosen *chosen = &config->recipe.combine;
    const int how = combine->rule->adapters ? adapters_how(chosen) : ADAPTERS_MEAN;
    if (how == ADAPTERS_MEAN) return STATUS_OK;
    bool travels[TENSORS_MOST];
    AdapterPairs *pairs = calloc(1, sizeof *pairs);
    personal_travelling(travels, &config->personal, &combine->memory->tensors);
    if (!pairs) return fail(err, STATUS_OS, "no memory for the pairs of adapters");
    Status status = adapter_pairs(pairs, chosen, &combine->memory->tensors, travels, err);
    for (int p = 0; status == STATUS_OK && p < pairs->count; p++)
        status = combine_pair(combine, &pairs->pairs[p], how == ADAPTERS_EXACT, adapters_scale(chosen), err);
    free(pairs);
    return status;
}

#include "sample_privacy.h"

#include <math.h>
#include <stdlib.h>

// A block has four words, one per sample. The bound is at most 2^32, which no word reaches: every sample is drawn then.
uint32_t private_batch(uint32_t *drawn, const uint32_t *samples, uint32_t n, uint32_t batch_size,
                       const NoiseKey *secret, const Noise *step) {
    const uint64_t bound = batch_size >= n ? 1ull << 32 : (uint64_t)(0x1p32 * batch_size / n);
    DrawStream stream;
    RngBlock block = {{0}};
    uint32_t count = 0;
    draw_begin(&stream, secret, step->seed, RNG_DP_BATCH, step->round, step->client, step->step);
    for (uint32_t i = 0; i < n; i++) {
        if (n > batch_size && i % 4 == 0) block = draw_block(&stream, i / 4);
        if (block.word[i % 4] < bound) drawn[count++] = samples[i];
    }
    return count;
}

void private_noise(float *sum, double deviation, size_t count, const NoiseKey *key, const Noise *step) {
    NoiseStream noise;
    noise_begin(&noise, key, RNG_DP_STEP, step->round, step->client, step->step);
    for (size_t i = 0; i < count && deviation > 0; i++)
        sum[i] += (float)(deviation * noise_normal(&noise, i));
}

// The budget ----------------------------------------------------------------------------------------------------------

typedef struct SampleRdp {
    uint32_t samples;
    double rdp[ACCOUNTANT_ORDERS]; // of one step
} SampleRdp;

typedef struct Spender {
    uint64_t steps;
    uint32_t samples;
} Spender;

static int compare(const void *left, const void *right) {
    const Spender *a = left, *b = right;
    if (a->samples != b->samples) return a->samples < b->samples ? -1 : 1;
    return a->steps > b->steps ? -1 : a->steps < b->steps;
}

// The divergence takes milliseconds to compute, and each round asks for the same few.
static Status rdp_of(const double **rdp, SampleBudget *budget, const SamplePrivacy *privacy, uint32_t batch_size,
                     uint32_t samples, Error *err) {
    for (uint32_t i = 0; i < budget->known_count; i++)
        if (budget->known[i].samples == samples) {
            *rdp = budget->known[i].rdp;
            return STATUS_OK;
        }
    SampleRdp *known = realloc(budget->known, (budget->known_count + 1) * sizeof *known);
    if (!known) return fail(err, STATUS_OS, "no memory for the budget of clients with %u samples", samples);
    budget->known = known;
    SampleRdp *one = &known[budget->known_count++];
    *one = (SampleRdp){.samples = samples};
    accountant_add(one->rdp, &(Mechanism){COHORTS_POISSON, (double)batch_size / samples, privacy->noise}, 1);
    *rdp = one->rdp;
    return STATUS_OK;
}

// A client with fewer samples draws each with a higher probability. So a client has spent most only if no client with
// fewer samples has made as many steps, and those few alone are computed.
Status sample_budget_spent(double *epsilon, SampleBudget *budget, const SamplePrivacy *privacy, uint32_t batch_size,
                           const uint64_t *steps, const uint32_t *samples, uint32_t clients, Error *err) {
    Spender *spenders = malloc(clients * sizeof *spenders);
    if (!spenders) return fail(err, STATUS_OS, "no memory for the budgets of %u clients", clients);
    for (uint32_t k = 0; k < clients; k++)
        spenders[k] = (Spender){steps[k], samples[k] > batch_size ? samples[k] : batch_size};
    qsort(spenders, clients, sizeof *spenders, compare);
    Status status = STATUS_OK;
    uint64_t most = 0;
    *epsilon = 0;
    for (uint32_t k = 0; k < clients && status == STATUS_OK; k++) {
        const double *rdp = NULL;
        double all[ACCOUNTANT_ORDERS];
        if (spenders[k].steps <= most) continue;
        most = spenders[k].steps;
        status = rdp_of(&rdp, budget, privacy, batch_size, spenders[k].samples, err);
        for (int i = 0; i < ACCOUNTANT_ORDERS && status == STATUS_OK; i++)
            all[i] = (double)most * rdp[i];
        if (status == STATUS_OK) *epsilon = fmax(*epsilon, accountant_spent(all, privacy->delta).epsilon);
    }
    free(spenders);
    return status;
}

void sample_budget_free(SampleBudget *budget) {
    free(budget->known);
    *budget = (SampleBudget){0};
}

// Steps that hide each single sample of a client (DP-SGD: Abadi, Chu, Goodfellow, McMahan, Mironov, Talwar, Zhang, CCS
// 2016), and the privacy budget of the samples.
//
//   count = private_batch(drawn, samples, n, batch_size, secret, &noise);
//   ... sum of the drawn samples' gradients, each clipped to `clip` ...
//   private_noise(sum, clip * noise, parameters, key, &noise);
//   ... a step along sum / min(batch_size, n)
//
// A step draws each of the client's n samples with probability q = min(1, batch_size / n) (Poisson sampling, as Opacus
// does), so that a batch has batch_size samples in the mean, and may have none. That is the sampling which the
// accountant assumes: accountant.h with q, and one release per step. An epoch has ceil(n / batch_size) steps. Batches
// that are cut from a shuffled order would not have that epsilon.
//
// The budget of a client counts all steps that it has made since the run began; the run reports the client that has
// spent most. The draw of a round's clients hides nothing further, and n counts as known. The key of the noise
// subtracts it: rules/noise_key.h says where the key is from.
#ifndef SOUNDER_FEDAVG_RULES_PRIVACY_SAMPLE_PRIVACY_H
#define SOUNDER_FEDAVG_RULES_PRIVACY_SAMPLE_PRIVACY_H

#include "base/err.h"
#include "fedavg/rules/noise_key.h"
#include "fedavg/rules/privacy/accountant.h"
#include "fedavg/rules/training.h"

// Writes the drawn ones of the client's samples (n) to drawn (n), in their order. Returns how many. secret: NULL if the
// draw follows from the seed. step: as its dropout is keyed.
uint32_t private_batch(uint32_t *drawn, const uint32_t *samples, uint32_t n, uint32_t batch_size,
                       const NoiseKey *secret, const Noise *step);

// sum (count) += normal numbers of this deviation.
void private_noise(float *sum, double deviation, size_t count, const NoiseKey *key, const Noise *step);

// The steps of each client so far, and what they have spent. Zeros before the first use.
typedef struct SampleBudget {
    struct SampleRdp *known; // owned: the divergence of one step, by number of samples
    uint32_t known_count;
} SampleBudget;

// *epsilon becomes that of the client that has spent most. steps, samples: of each client. OS without memory.
Status sample_budget_spent(double *epsilon, SampleBudget *budget, const SamplePrivacy *privacy, uint32_t batch_size,
                           const uint64_t *steps, const uint32_t *samples, uint32_t clients, Error *err);
void sample_budget_free(SampleBudget *budget);

#endif

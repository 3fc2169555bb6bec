#include "clusters.h"

#include <assert.h>
#include <math.h>

#include "fedavg/memory/state.h"
#include "fedavg/worker/local_test.h"

// All models are evaluated on all samples, as in Algorithm 1 of IFCA. The first of equal ones is taken, and none whose
// loss is no number.
void cluster_choose(LocalModel *model, Job *job, uint32_t round) {
    const uint32_t models = state_models(model->memory->config);
    if (models == 1) return;
    const Job about = {.client = job->client, .task = EVALUATE_TRAINING_DATA};
    const ClientSamples samples = local_test_samples(model->memory, &about, round);
    double least = INFINITY;
    job->cluster = 0;
    for (uint32_t m = 0; m < models; m++) {
        const double loss = local_test(model, state_model(model->clusters.run, m), &samples, job->client).loss_sum;
        if (!(loss < least)) continue;
        least = loss;
        job->cluster = m;
    }
    model->clusters.of_cluster.weights = state_model(model->clusters.run, job->cluster);
    assert(job->cluster < models);
}

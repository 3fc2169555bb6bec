#include "local_train.h"

#include <assert.h>

#include "datasets/order.h"
#include "fedavg/rules/local/local_rules.h"
#include "fedavg/rules/privacy/sample_privacy.h"
#include "fedavg/rules/world/walk.h"
#include "fedavg/worker/stepper.h"
#include "fedavg/worker/streaming.h"
#include "fedavg/worker/trainer_turn.h"
#include "nn/contrast.h"

// The batch of a private step: each of the samples with one probability, whatever the step's place in an epoch.
static Batch drawn_batch(LocalModel *model, const uint32_t *indices, uint32_t count, const Noise *noise) {
    const uint32_t size = model->memory->config->training.batch_size;
    const uint32_t drawn = private_batch(model->order, indices, count, size, run_memory_secret(model->memory), noise);
    model->steps.drawn += drawn;
    assert(drawn <= count);
    return local_model_raw_batch(model, model->order, drawn);
}

static void step_once(LocalModel *model, Stepper *stepper, BatchResult *result, const Batch *batch,
                      const Noise *noise) {
    const RunMemory *memory = model->memory;
    const double *number = memory->config->recipe.local.number; // mu, tau
    const Contrast contrast = contrast_of(model->steps.near, model->steps.far, number[0], number[1]);
    assert(!model->net.term); // batches that dp-sgd draws may be larger than --batch-size
    if (stepper->step.previous) {
        net_represent(&model->net, model->steps.near, memory->weights, batch, noise);
        net_represent(&model->net, model->steps.far, stepper->step.previous, batch, noise);
        model->net.term = &contrast.term;
    }
    stepper_step(stepper, model, result, batch, noise);
    model->net.term = NULL;
}

// Trains on batches of one order of the client's samples and returns the sum of their losses. A replica exchanges with
// the centre after its first step, since the gradient of that step is one at the old replica. taken: steps of the turn.
static double train_stretch(LocalModel *model, Stepper *stepper, const uint32_t *indices, uint32_t count,
                            uint32_t client, const Stretch *stretch, uint64_t *taken) {
    const uint64_t seed = model->memory->config->seed;
    Noise noise = {.seed = seed, .round = stretch->round, .client = client, .step = stretch->step};
    double loss_sum = 0;
    if (!model->steps.sum) batch_order(model->order, indices, count, seed, stretch->round, client, stretch->epoch);
    for (uint32_t i = 0; i < stretch->count; i++, noise.step++) {
        Batch batch = model->steps.sum ? drawn_batch(model, indices, count, &noise)
                                       : local_model_batch(model, model->order, stretch->first + i, count);
        BatchResult result;
        step_once(model, stepper, &result, &batch, &noise);
        if (++*taken == 1 && stepper->step.replica)
            local_exchange(model->weights, stepper->step.replica, stepper->step.turn,
                           model->memory->config->parameters);
        if (stepper->step.late_round > 0 && *taken == stepper->step.late_after) streaming_mix(model, &stepper->step);
        loss_sum += result.loss_sum;
        if (model->on_step.call) model->on_step.call(model->on_step.context, result.loss_sum / batch.count);
    }
    return loss_sum;
}

double local_model_train(LocalModel *model, const LocalStep *step, uint32_t client, uint32_t epochs, uint32_t round) {
    uint32_t count;
    const uint32_t *indices = view_samples(&model->view, &count);
    return local_model_train_on(model, step, indices, count, client, epochs, round);
}

// Walks stretch by stretch: a schedule that counts steps can begin and end in the middle of an epoch, and continues in
// that order of samples in the next round.
double local_model_train_on(LocalModel *model, const LocalStep *step, const uint32_t *indices, uint32_t count,
                            uint32_t client, uint32_t epochs, uint32_t round) {
    const RunConfig *config = model->memory->config;
    if (model->by.trainer) return trainer_turn_train(model, step, indices, count, client, epochs, round);
    uint64_t taken = 0;
    Stepper stepper = stepper_begin(model->memory, step);
    if (count < stepper.batch_size) stepper.batch_size = count;
    stepper_start(&stepper, model);
    stepper_load(&stepper, model, step->state);
    const Walk walk = walk_of(&config->recipe.schedule, round, epochs);
    Stretch stretch;
    double loss_sum = 0;
    for (uint32_t index = 0; walk_stretch(&stretch, &walk, index, local_model_batches(model, count)); index++)
        loss_sum += train_stretch(model, &stepper, indices, count, client, &stretch, &taken);
    stepper_end(model);
    if (step->state_after) stepper_store(step->state_after, &stepper, model);
    return loss_sum;
}

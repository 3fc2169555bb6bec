#include "local_model.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/cores.h"
#include "fedavg/memory/state.h"
#include "fedavg/rules/attack/attack_rules.h"
#include "nn/contrast.h"

// The vectors are a little more than whole pages apart. At whole pages element i of all vectors would compete for one
// set of the first cache, and a step reads several vectors side by side.
static size_t vector_stride(uint64_t parameters) {
    enum { PAGE = 4096, APART = 1408 };
    return (parameters * sizeof(float) + PAGE - 1) / PAGE * PAGE + APART;
}

// The trainer's desk has the vectors that a turn changes.
static Status trained_elsewhere(LocalModel *model, Error *err) {
    model->by.trainer = malloc(sizeof *model->by.trainer);
    if (!model->by.trainer) return fail(err, STATUS_OS, "no memory for a trainer");
    const Status status = trainer_open(model->by.trainer, model->memory, model->rank, err);
    if (status != STATUS_OK) {
        free(model->by.trainer);
        model->by.trainer = NULL;
        return status;
    }
    model->weights = model->by.trainer->desk.weights;
    model->steps.shift = model->by.trainer->desk.shift;
    return STATUS_OK;
}

// The worker's view of the memory gets weights of its own, which are those of the client's cluster: all that reads the
// global weights then reads the right ones.
static const RunMemory *see_cluster(LocalModel *model) {
    model->clusters.of_cluster = *model->clusters.run;
    model->memory = &model->clusters.of_cluster;
    return model->memory;
}

static void own_arrays(LocalModel *model) {
    const RunConfig *config = model->memory->config;
    const Algorithm *algorithm = &model->memory->algorithm;
    const bool trusts = algorithm->combine->trusts; // a model of the server's own
    const size_t samples = model->memory->partition.samples, root = trusts ? COMBINE_MOST_ROOT_SAMPLES : 0;
    const size_t lies = attack_is_on_labels(&config->attack) ? (size_t)config->spec.classes : 0;
    const size_t compared =
        algorithm->local->contrasts ? config->training.batch_size * contrast_features(&config->spec) : 0;
    model->order = own(&model->owned, samples > root ? samples : root, sizeof *model->order);
    model->steps.near = own(&model->owned, compared, sizeof *model->steps.near);
    model->steps.far = own(&model->owned, compared, sizeof *model->steps.far);
    model->liar.label_of = own(&model->owned, lies, sizeof *model->liar.label_of);
}

// Vectors that the algorithm does not need are not there: their pointers stay NULL, and the rest of the worker asks for
// that and not for the algorithm again.
Status local_model_init(LocalModel *model, const RunMemory *memory, uint32_t rank, Error *err) {
    const RunConfig *config = memory->config;
    *model = (LocalModel){.memory = memory, .clusters.run = memory, .rank = rank};
    assert(rank < config->workers && config->parameters > 0);
    if (state_models(config) > 1) memory = see_cluster(model);
    const bool engine = !config->trainer.command[0];
    if (engine) TRY(net_init(&model->net, &config->spec, kernels_best(), err));
    model->net.progress = &memory->control->pulses[rank].progress;
    model->net.class_weights = memory->class_weights;
    const Algorithm *algorithm = &memory->algorithm;
    const bool second = config->personal.second;
    const struct {
        float **vector;
        bool wanted;
    } vectors[] = {
        {&model->weights, engine},
        {&model->steps.velocity, engine},
        {&model->steps.gradient, engine},
        {&model->steps.sum, config->training.privacy.clip > 0},
        {&model->steps.shift, engine && desk_has_shift(memory)},
        {&model->steps.full_gradient, algorithm->traits.has[TRAIT_LOOKS]},
        {&model->steps.square, algorithm->optimizer->states > 1},
        {&model->own.weights, second},
        {&model->own.mixed, config->personal.mixes},
        {&model->own.initial, second && !config->begins_with_given},
        {&model->by.rests, !engine && config->personal.alternates},
        {&model->steps.read, config->engine == ENGINE_WILD && config->recipe.schedule.number[WILD_STEPS] > 1},
    };
    enum { VECTORS = sizeof vectors / sizeof *vectors };
    const size_t stride = vector_stride(config->parameters);
    size_t bytes = 0;
    for (int v = 0; v < VECTORS; v++)
        bytes += vectors[v].wanted ? stride : 0;
    own_arrays(model);
    model->vectors = huge_allocate(bytes);
    if (model->owned.lacks_memory || !model->vectors) {
        local_model_free(model);
        return fail(err, STATUS_OS, "no memory for a local model of %llu parameters",
                    (unsigned long long)config->parameters);
    }
    char *next = model->vectors;
    for (int v = 0; v < VECTORS; v++)
        if (vectors[v].wanted) *vectors[v].vector = (float *)(void *)next, next += stride;
    assert(next == (char *)model->vectors + bytes);
    if (model->own.initial) spec_initialise(model->own.initial, &config->spec, config->seed);
    if (second && !model->own.initial)
        model->own.initial = run_memory_vector(memory, state_vector(memory, STATE_INITIAL));
    if (model->liar.label_of) attack_labels(model->liar.label_of, config->spec.classes, &config->attack);
    Status status = view_init(&model->view, memory, err);
    if (status == STATUS_OK) status = sender_init(&model->sender, memory, err);
    if (status == STATUS_OK && !engine) status = trained_elsewhere(model, err);
    if (status != STATUS_OK) local_model_free(model);
    return status;
}

void local_model_free(LocalModel *model) {
    sender_free(&model->sender);
    view_free(&model->view);
    owned_free(&model->owned);
    free(model->vectors);
    net_free(&model->net);
    if (model->by.trainer) trainer_close(model->by.trainer);
    free(model->by.trainer);
}

uint32_t local_model_batches(const LocalModel *model, uint32_t count) {
    uint32_t size = model->memory->config->training.batch_size;
    return count / size + (count % size != 0);
}

Batch local_model_raw_batch(const LocalModel *model, const uint32_t *indices, uint32_t samples) {
    const Chosen *attack = &model->memory->config->attack;
    Batch batch = view_batch(model->memory, &model->memory->data.train, indices, samples);
    if (!model->liar.lies) return batch;
    batch.triggered = attack_marked(attack, samples);
    if (batch.triggered > 0) batch.trigger_label = (uint16_t)attack->number[BACKDOOR_TARGET];
    return batch;
}

Batch local_model_batch(LocalModel *model, const uint32_t *order, uint32_t number, uint32_t count) {
    const uint32_t size = model->memory->config->training.batch_size, first = number * size;
    assert(size > 0 && first < count);
    Batch batch = local_model_raw_batch(model, order + first, count - first < size ? count - first : size);
    view_apply(&model->view, &batch);
    return batch;
}

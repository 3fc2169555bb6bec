#include "cuda_samples.h"

#include <string.h>

#include "fedavg/rules/attack/attack_rules.h"

static bool replaces_labels(const RunConfig *config) {
    return config->view.drift.row == VIEW_DRIFT_LABELS || attack_is_on_labels(&config->attack);
}

static bool has_views(const RunConfig *config) {
    return config->view.noise.row != VIEW_NOISE_NONE || config->view.drift.row == VIEW_DRIFT_PIXELS ||
           config->attack.row == ATTACK_BACKDOOR;
}

static size_t classes_of(const RunConfig *config) {
    return (size_t)config->spec.classes;
}

size_t cuda_samples_bytes(const RunConfig *config, uint32_t models) {
    return models * ((has_views(config) ? sizeof(SampleView) : 0) +
                     (replaces_labels(config) ? classes_of(config) * sizeof(uint16_t) : 0));
}

// A run whose clients see the data set as it is needs no arrays, and its kernels read samples as fast as they can.
Status cuda_samples_init(CudaSamples *samples, CudaArrays *arrays, const RunMemory *memory, uint32_t models,
                         Error *err) {
    const RunConfig *config = memory->config;
    const size_t classes = classes_of(config), views = has_views(config) ? models : 0,
                 labels = replaces_labels(config) ? models * classes : 0;
    *samples = (CudaSamples){.memory = memory, .models = models};
    TRY(view_init(&samples->view, memory, err));
    samples->host_views = own(&arrays->host, views, sizeof *samples->host_views);
    samples->host_labels_of = own(&arrays->host, labels, sizeof *samples->host_labels_of);
    samples->false_labels_of =
        own(&arrays->host, attack_is_on_labels(&config->attack) ? classes : 0, sizeof *samples->false_labels_of);
    if (arrays->host.lacks_memory) return fail(err, STATUS_OS, "no memory for the views of %u clients", models);
    if (samples->false_labels_of) attack_labels(samples->false_labels_of, config->spec.classes, &config->attack);
    TRY(cuda_allocate(arrays, &samples->views, views, sizeof(SampleView), "views of samples", err));
    return cuda_allocate(arrays, &samples->labels_of, labels, sizeof(uint16_t), "labels", err);
}

void cuda_samples_free(CudaSamples *samples) {
    view_free(&samples->view);
}

void cuda_samples_plan(CudaNetPlan *plan, const CudaSamples *samples) {
    const Dataset *data = &samples->memory->data;
    memcpy(plan->scale, data->scale, sizeof plan->scale);
    memcpy(plan->shift, data->shift, sizeof plan->shift);
    plan->floats = data->items.pixel_bytes > 1;
    plan->views = samples->views;
    plan->labels_of = samples->labels_of;
    plan->noisy = samples->memory->config->view.noise.row != VIEW_NOISE_NONE;
}

// Writes the view of model m and its labels. The host's view decides, as on the CPU, what a client sees; the kernels
// compute it.
static void see(CudaSamples *samples, uint32_t m, const SampleView *marked, const uint16_t *false_labels_of,
                uint32_t client, uint32_t round) {
    const RunConfig *config = samples->memory->config;
    View *view = &samples->view;
    view_begin(view, client, round, false_labels_of);
    for (size_t label = 0; label < classes_of(config) && samples->labels_of; label++)
        samples->host_labels_of[m * classes_of(config) + label] =
            view->label_of ? view->label_of[label] : (uint16_t)label;
    if (!samples->views) return;
    samples->host_views[m] = *marked;
    samples->host_views[m].moved = view_moved(view);
    if (view->noisy)
        samples->host_views[m].noise =
            view_noise(&config->view.noise, config->spec.input, config->seed, client, config->clients);
}

static SampleView marks(const RunConfig *config, uint32_t whole, uint32_t last) {
    return (SampleView){
        .marks = whole,
        .last_marks = last,
        .trigger = config->spec.trigger,
        .label = config->attack.row == ATTACK_BACKDOOR ? (uint32_t)config->attack.number[BACKDOOR_TARGET] : 0};
}

// Copies the views of all models to the GPU.
static Status upload(const CudaSamples *samples, cudaStream_t stream, Error *err) {
    const size_t labels = samples->models * classes_of(samples->memory->config);
    if (samples->views)
        TRY(cuda_copy(samples->views, samples->host_views, samples->models * sizeof(SampleView), stream, err));
    if (!samples->labels_of) return STATUS_OK;
    return cuda_copy(samples->labels_of, samples->host_labels_of, labels * sizeof(uint16_t), stream, err);
}

// All batches of a client have as many samples but for the last of an epoch, which has the rest.
static void see_training(CudaSamples *samples, uint32_t m, const Job *job, uint32_t round) {
    const RunConfig *config = samples->memory->config;
    const Chosen *attack = &config->attack;
    const uint32_t size = config->training.batch_size;
    const bool lies = job->attacks && attack_is_in_training(attack);
    SampleView marked = {0};
    uint32_t count;
    cuda_samples_of(samples->memory, job->client, round, &count);
    if (lies) marked = marks(config, attack_marked(attack, size), attack_marked(attack, count % size));
    see(samples, m, &marked, lies ? samples->false_labels_of : NULL, job->client, round);
}

Status cuda_samples_train(CudaSamples *samples, Job *const *jobs, uint32_t count, uint32_t round, cudaStream_t stream,
                          Error *err) {
    for (uint32_t m = 0; m < count; m++)
        see_training(samples, m, jobs[m], round);
    return upload(samples, stream, err);
}

Status cuda_samples_test(CudaSamples *samples, Job *const *jobs, uint32_t count, uint32_t round, cudaStream_t stream,
                         Error *err) {
    const SampleView none = {0}, all = marks(samples->memory->config, UINT32_MAX, UINT32_MAX);
    for (uint32_t m = 0; m < count; m++) {
        const bool marked = jobs[m]->task == EVALUATE_BACKDOOR;
        const bool of_server = marked || jobs[m]->task == EVALUATE_VALIDATION;
        see(samples, m, marked ? &all : &none, NULL, of_server ? VIEW_TEST_SET : jobs[m]->client, round);
    }
    return upload(samples, stream, err);
}

Status cuda_samples_test_set(CudaSamples *samples, uint32_t round, cudaStream_t stream, Error *err) {
    const SampleView none = {0};
    see(samples, 0, &none, NULL, VIEW_TEST_SET, round);
    return upload(samples, stream, err);
}

// Marked samples are those of the test set.
size_t cuda_samples_most(const RunMemory *memory) {
    const Partition *partition = &memory->partition;
    uint32_t tested = partition->own_offsets ? partition->own_offsets[partition->clients] : 0;
    if (memory->config->attack.row == ATTACK_BACKDOOR) tested = memory->data.test.count;
    if (tested < partition->validation_count) tested = partition->validation_count;
    const size_t most = partition->samples > tested ? partition->samples : tested;
    return most * view_holders(&memory->config->view);
}

const uint32_t *cuda_samples_of(const RunMemory *memory, uint32_t client, uint32_t round, uint32_t *count) {
    const RunConfig *config = memory->config;
    const uint32_t holding = view_holding(&config->view, config->seed, round, client, config->clients);
    return partition_client(&memory->partition, holding, count);
}

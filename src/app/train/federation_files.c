#include "federation_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/options/option_table.h"
#include "app/train/run_folder.h"
#include "base/file.h"
#include "base/owned.h"
#include "datasets/order.h"
#include "fedavg/rules/world/schedule.h"
#include "fedavg/rules/world/walk.h"
#include "io/json.h"
#include "io/npz.h"
#include "nn/layers/layer.h"

// Sizes ---------------------------------------------------------------------------------------------------------------

static uint32_t largest_client(const RunMemory *memory) {
    uint32_t most = 0, count;
    for (uint32_t client = 0; client < memory->config->clients; client++) {
        partition_client(&memory->partition, client, &count);
        if (count > most) most = count;
    }
    return most;
}

// Samples that one client can take in a round.
static double most_samples(const RunMemory *memory, uint32_t rounds) {
    const RunConfig *config = memory->config;
    const uint32_t count = largest_client(memory);
    double most = 0;
    for (uint32_t round = 1; round <= rounds; round++) {
        const Walk walk = walk_of(&config->recipe.schedule, round, config->training.local_epochs);
        const double samples = (double)walk_samples(&walk, count, config->training.batch_size);
        if (samples > most) most = samples;
    }
    return most;
}

double federation_files_bytes(double *largest, const RunMemory *memory, uint32_t rounds) {
    const RunConfig *config = memory->config;
    const DatasetSplit *train = &memory->data.train;
    const double labels = train->count * (double)memory->data.items.label_bytes;
    const double data = (double)dataset_sample_bytes(&memory->data, train) + labels + 4.0 * train->count;
    const double model = 4.0 * (double)config->parameters, heads = 2.0 * memory->tensors.count * NPZ_OVERHEAD_BYTES;
    const double orders = 8.0 * most_samples(memory, rounds) * config->cohort; // numbers of samples, ends of batches
    const double round = model * (2 + config->cohort) + orders + 16.0 * NPZ_OVERHEAD_BYTES + heads;
    *largest = data > round ? data : round;
    return data + model + heads + rounds * round;
}

// Arrays --------------------------------------------------------------------------------------------------------------

static Status open_file(Npz *npz, const char *folder, const char *name, Error *err) {
    char path[RUN_PATH_BYTES];
    snprintf(path, sizeof path, "%.3900s/%s", folder, name);
    return npz_create(npz, path, err);
}

static void add_list(Npz *npz, const char *name, const char *type, size_t item_bytes, const void *items, size_t count) {
    npz_add(npz, name, type, 1, (int64_t[]){(int64_t)count}, item_bytes, items);
}

static void add_weights(Npz *npz, const char *kind, const TensorList *list, const float *weights) {
    char name[2 * TENSOR_NAME_BYTES];
    for (int t = 0; t < list->count; t++) {
        const ParameterTensor *tensor = &list->tensors[t];
        snprintf(name, sizeof name, "%s/%s", kind, tensor->name);
        npz_add(npz, name, "<f4", tensor->rank, tensor->shape, sizeof *weights, weights + tensor->first);
    }
}

// Writes the updates, one array per tensor: the first axis is the client's place in `clients`.
static void add_handed_in(Npz *npz, const RunMemory *memory, const Job *const *jobs, uint32_t count) {
    char name[2 * TENSOR_NAME_BYTES];
    for (int t = 0; t < memory->tensors.count; t++) {
        const ParameterTensor *tensor = &memory->tensors.tensors[t];
        int64_t shape[NPZ_MOST_DIMENSIONS + 1] = {count};
        memcpy(shape + 1, tensor->shape, (size_t)tensor->rank * sizeof *shape);
        snprintf(name, sizeof name, "handed_in/%s", tensor->name);
        npz_begin(npz, name, "<f4", tensor->rank + 1, shape, sizeof(float));
        for (uint32_t i = 0; i < count; i++)
            npz_put(npz, run_memory_recorded(memory, jobs[i]->place) + tensor->first, tensor->count * sizeof(float));
        npz_end(npz);
    }
}

// Batches -------------------------------------------------------------------------------------------------------------

// The samples of a round's clients in the order of their training, one client after the other.
typedef struct Batches {
    uint32_t *samples, *ends, *order;   // ends: of batches, as places in `samples`; order: of one epoch
    uint32_t *first_sample, *first_end; // (clients + 1): where a client's samples and ends begin
    size_t sample_count, end_count;
} Batches;

static void add_batches(Batches *self, const RunMemory *memory, const Job *job, uint32_t round) {
    const RunConfig *config = memory->config;
    const uint32_t size = config->training.batch_size, key = schedule_key(round - 1, job->visit);
    uint32_t count;
    const uint32_t *indices = partition_client(&memory->partition, job->client, &count);
    const Walk walk = walk_of(&config->recipe.schedule, key, job->epochs);
    Stretch stretch;
    for (uint32_t index = 0; walk_stretch(&stretch, &walk, index, count / size + (count % size != 0)); index++) {
        batch_order(self->order, indices, count, config->seed, stretch.round, job->client, stretch.epoch);
        for (uint32_t i = 0; i < stretch.count; i++) {
            const uint32_t first = (stretch.first + i) * size, samples = count - first < size ? count - first : size;
            memcpy(self->samples + self->sample_count, self->order + first, samples * sizeof *self->samples);
            self->sample_count += samples;
            self->ends[self->end_count++] = (uint32_t)self->sample_count;
        }
    }
}

// owned: gets the arrays.
static Status batches_make(Batches *self, Owned *owned, const RunMemory *memory, const Job *const *jobs, uint32_t count,
                           uint32_t round, Error *err) {
    size_t samples = 1;
    for (uint32_t i = 0; i < count; i++)
        samples += jobs[i]->samples;
    const size_t order = largest_client(memory) + (size_t)1, clients = count + (size_t)1;
    *self = (Batches){.samples = own(owned, samples, sizeof(uint32_t)),
                      .ends = own(owned, samples, sizeof(uint32_t)),
                      .order = own(owned, order, sizeof(uint32_t)),
                      .first_sample = own(owned, clients, sizeof(uint32_t)),
                      .first_end = own(owned, clients, sizeof(uint32_t))};
    if (owned->lacks_memory) return fail(err, STATUS_OS, "no memory for the order of %zu samples", samples);
    for (uint32_t i = 0; i < count; i++) {
        add_batches(self, memory, jobs[i], round);
        self->first_sample[i + 1] = (uint32_t)self->sample_count;
        self->first_end[i + 1] = (uint32_t)self->end_count;
    }
    return STATUS_OK;
}

// Files ---------------------------------------------------------------------------------------------------------------

static Status write_json(const Options *options, const RunMemory *memory, const char *net, uint32_t rounds,
                         const char *folder, Error *err) {
    const Training *training = &memory->config->training;
    char path[RUN_PATH_BYTES], *text;
    size_t bytes;
    JsonObject json;
    json_begin(&json);
    put_whole(&json, "format", 1);
    put_readable(&json, "data", options->data);
    put_readable(&json, "model", net);
    put_readable(&json, "algorithm", options->algorithm);
    put_whole(&json, "rounds", rounds);
    put_whole(&json, "clients", memory->config->clients);
    put_whole(&json, "classes", memory->data.classes);
    put_whole(&json, "tokens", memory->data.items.tokens);
    put_text(&json, "loss", memory->config->spec.squared_loss ? "squared" : "cross-entropy");
    put_whole(&json, "batch_size", training->batch_size);
    put_real(&json, "momentum", (double)training->sgd.momentum);
    put_flag(&json, "nesterov", training->nesterov);
    put_real(&json, "weight_decay", (double)training->sgd.weight_decay);
    put_real(&json, "clip_grad_norm", training->clip);
    put_real(&json, "label_smoothing", training->label_smoothing);
    put_readable(&json, "freeze", options->freeze);
    put_text(&json, "optimizer_state", option_find("client-optimizer-state")->choices[training->optimizer_state]);
    put_whole(&json, "seed", (int64_t)options->seed);
    TRY(json_text(&text, &bytes, &json, JSON_INDENT(1), "federation.json", err));
    snprintf(path, sizeof path, "%.3900s/" FEDERATION_PARTIAL_NAME, folder);
    const FilePart parts[] = {{text, bytes}, {"\n", 1}};
    const Status status = file_write(path, parts, 2, err);
    free(text);
    return status;
}

// Samples as the data set has them: `scale` and `shift` of each channel make of pixels what enters a net.
static Status write_data(const RunMemory *memory, const char *folder, Error *err) {
    const Dataset *data = &memory->data;
    const DatasetItems *items = &data->items;
    const bool scaled = items->pixel_bytes == 1 && !layer_has(&memory->config->spec.layers[0], READS_NUMBERS);
    const int64_t samples = data->train.count, channels = scaled ? data->shape.channels : 0;
    Npz npz;
    TRY(open_file(&npz, folder, "data.npz", err));
    npz_add(&npz, "x", items->pixel_bytes == 1 ? "|u1" : "<f4", 4,
            (int64_t[]){samples, data->shape.channels, data->shape.rows, data->shape.columns}, items->pixel_bytes,
            data->train.pixels);
    add_list(&npz, "y", dataset_has_targets(items) ? "<f4" : "<u2", items->label_bytes, data->train.labels,
             data->train.count);
    add_list(&npz, "scale", "<f4", sizeof(float), data->scale, (size_t)channels);
    add_list(&npz, "shift", "<f4", sizeof(float), data->shift, (size_t)channels);
    return npz_close(&npz, err);
}

static Status write_partition(const RunMemory *memory, const char *folder, Error *err) {
    const uint32_t clients = memory->config->clients;
    uint32_t *first = calloc(clients + (size_t)1, sizeof *first), count;
    if (!first) return fail(err, STATUS_OS, "no memory for a list of %u clients", clients);
    for (uint32_t client = 0; client < clients; client++) {
        partition_client(&memory->partition, client, &count);
        first[client + 1] = first[client] + count;
    }
    Npz npz;
    Status status = open_file(&npz, folder, "partition.npz", err);
    if (status == STATUS_OK) {
        add_list(&npz, "first", "<u4", sizeof *first, first, clients + (size_t)1);
        npz_begin(&npz, "samples", "<u4", 1, (int64_t[]){first[clients]}, sizeof *first);
        for (uint32_t client = 0; client < clients; client++) {
            const uint32_t *samples = partition_client(&memory->partition, client, &count);
            npz_put(&npz, samples, count * sizeof *samples);
        }
        npz_end(&npz);
        status = npz_close(&npz, err);
    }
    free(first);
    return status;
}

Status federation_files_end(const char *folder, Error *err) {
    char partial[RUN_PATH_BYTES], whole[RUN_PATH_BYTES];
    snprintf(partial, sizeof partial, "%.3900s/" FEDERATION_PARTIAL_NAME, folder);
    snprintf(whole, sizeof whole, "%.3900s/federation.json", folder);
    if (rename(partial, whole) == 0) return STATUS_OK;
    return fail_errno(err, STATUS_IO, "%.500s cannot be written", whole);
}

Status federation_files_begin(const Options *options, const RunMemory *memory, const char *net, uint32_t rounds,
                              const char *folder, Error *err) {
    Npz npz;
    TRY(write_json(options, memory, net, rounds, folder, err));
    TRY(write_data(memory, folder, err));
    TRY(write_partition(memory, folder, err));
    TRY(open_file(&npz, folder, "round-000000.npz", err));
    add_weights(&npz, "weights", &memory->tensors, memory->weights);
    return npz_close(&npz, err);
}

static void add_clients(Npz *npz, const Job *const *jobs, uint32_t count, const Cohort *cohort, uint32_t *numbers,
                        double *shares) {
    for (uint32_t i = 0; i < cohort->count; i++)
        numbers[i] = cohort->members[i].client;
    add_list(npz, "drawn", "<u4", sizeof *numbers, numbers, cohort->count);
    for (uint32_t i = 0; i < count; i++)
        numbers[i] = jobs[i]->client, shares[i] = jobs[i]->share;
    add_list(npz, "clients", "<u4", sizeof *numbers, numbers, count);
    add_list(npz, "shares", "<f8", sizeof *shares, shares, count);
    for (uint32_t i = 0; i < count; i++)
        numbers[i] = jobs[i]->epochs;
    add_list(npz, "epochs", "<u4", sizeof *numbers, numbers, count);
}

Status federation_files_round(const RunMemory *memory, const float *begun, const Cohort *cohort, uint32_t round,
                              const char *folder, Error *err) {
    const Queue *queue = memory->queue;
    const size_t room = (size_t)queue->count + cohort->count + 1;
    Owned owned = {0};
    const Job **jobs = own(&owned, room, sizeof *jobs);
    uint32_t *numbers = own(&owned, room, sizeof *numbers), count = 0;
    double *shares = own(&owned, room, sizeof *shares);
    const double lr = (double)memory->control->order.lr;
    char name[32];
    Batches batches;
    Npz npz;
    Status status = !owned.lacks_memory ? STATUS_OK : fail(err, STATUS_OS, "no memory for %zu clients", room);
    for (uint32_t i = 0; status == STATUS_OK && i < queue->count; i++)
        if (queue->jobs[i].state == JOB_DONE) jobs[count++] = &queue->jobs[i];
    if (status == STATUS_OK) status = batches_make(&batches, &owned, memory, jobs, count, round, err);
    snprintf(name, sizeof name, "round-%06u.npz", round);
    if (status == STATUS_OK) status = open_file(&npz, folder, name, err);
    if (status == STATUS_OK) {
        add_clients(&npz, jobs, count, cohort, numbers, shares);
        npz_add(&npz, "lr", "<f8", 0, NULL, sizeof lr, &lr);
        add_list(&npz, "samples", "<u4", sizeof(uint32_t), batches.samples, batches.sample_count);
        add_list(&npz, "first_sample", "<u4", sizeof(uint32_t), batches.first_sample, count + (size_t)1);
        add_list(&npz, "ends", "<u4", sizeof(uint32_t), batches.ends, batches.end_count);
        add_list(&npz, "first_end", "<u4", sizeof(uint32_t), batches.first_end, count + (size_t)1);
        if (begun) add_weights(&npz, "begun", &memory->tensors, begun);
        add_handed_in(&npz, memory, jobs, count);
        add_weights(&npz, "weights", &memory->tensors, memory->weights);
        status = npz_close(&npz, err);
    }
    owned_free(&owned);
    return status;
}

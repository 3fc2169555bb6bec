// Training and evaluation on one core, without processes: what the nets alone can do.
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/cores.h"
#include "bench.h"
#include "datasets/order.h"
#include "fedavg/memory/dataset_segment.h"
#include "nn/net.h"
#include "nn/spec.h"

enum { WARM_UP_BATCHES = 20, EVALUATION_BATCH = 500 };

// A data set, a net and all the memory its training needs.
typedef struct Bench {
    DatasetSegment memory; // owned; data points into it
    Dataset data;
    Spec spec;
    Net net;                   // owned
    float *weights, *velocity; // owned (parameters)
    uint32_t *order;           // owned (training samples)
} Bench;

static void bench_free(Bench *bench) {
    free(bench->order);
    free(bench->velocity);
    free(bench->weights);
    dataset_segment_free(&bench->memory);
}

static Status bench_load(Bench *bench, const BenchOptions *options, Error *err) {
    DatasetSource source;
    TRY(dataset_find(&source, options->data, 1, err));
    TRY(dataset_segment_load(&bench->memory, &source, err));
    dataset_segment_keep(&bench->memory, &source);
    return dataset_segment_view(&bench->data, &bench->memory, err);
}

static Status bench_build(Bench *bench, const BenchOptions *options, Error *err) {
    char text[SPEC_TEXT_BYTES];
    zoo_expand(text, sizeof text, options->model, bench->data.classes);
    TRY(spec_parse(&bench->spec, text, bench->data.shape, bench->data.classes, err));
    if (spec_needs_whole_batches(&bench->spec)) bench->spec.whole_batch = (int)options->batch; // as a run does
    size_t parameters = bench->spec.parameter_count, samples = bench->data.train.count;
    bench->weights = huge_allocate(parameters * sizeof(float));
    bench->velocity = huge_allocate(parameters * sizeof(float));
    bench->order = malloc(samples * sizeof(uint32_t));
    if (!bench->weights || !bench->velocity || !bench->order)
        return fail(err, STATUS_OS, "no memory for a model of %zu parameters", parameters);
    spec_initialise(bench->weights, &bench->spec, 1);
    for (size_t i = 0; i < parameters; i++)
        bench->velocity[i] = 0;
    for (uint32_t i = 0; i < samples; i++)
        bench->order[i] = i;
    return net_init(&bench->net, &bench->spec, kernels_best(), err);
}

// Leaves nothing to free on failure; on success net_free and bench_free.
static Status bench_init(Bench *bench, const BenchOptions *options, Error *err) {
    *bench = (Bench){.memory = {.segment.fd = -1, .worker_fd = -1, .samples = {{.fd = -1}, {.fd = -1}}}};
    Status status = bench_load(bench, options, err);
    if (status == STATUS_OK) status = bench_build(bench, options, err);
    if (status != STATUS_OK) bench_free(bench);
    return status;
}

static Batch split_batch(const Bench *bench, const DatasetSplit *split, uint32_t first, uint32_t count) {
    return (Batch){.pixels = split->pixels,
                   .labels = split->labels,
                   .first = first,
                   .count = count,
                   .scale = bench->data.scale,
                   .shift = bench->data.shift};
}

static uint32_t at_most(uint32_t count, uint32_t limit) {
    return count < limit ? count : limit;
}

// Trains on the first `samples` of a fresh order; returns the sum of their losses.
static double train_epoch(Bench *bench, uint32_t samples, uint32_t batch_size, uint32_t *shuffled, uint32_t epoch) {
    const Sgd sgd = {.lr = 0.01f, .momentum = 0.5f};
    Noise noise = {.seed = 1, .round = epoch};
    double loss_sum = 0;
    batch_order(shuffled, bench->order, bench->data.train.count, 1, 0, 0, epoch);
    for (uint32_t first = 0; first < samples; first += batch_size, noise.step++) {
        Batch batch = split_batch(bench, &bench->data.train, 0, at_most(batch_size, samples - first));
        batch.indices = shuffled + first;
        BatchResult result;
        net_train_step(&bench->net, bench->weights, bench->velocity, &result, &sgd, NULL, &batch, &noise);
        loss_sum += result.loss_sum;
    }
    return loss_sum;
}

Status bench_train(const BenchOptions *options, Error *err) {
    Bench bench;
    TRY(bench_init(&bench, options, err));
    Status status = STATUS_OK;
    uint32_t samples = at_most(options->samples, bench.data.train.count);
    uint32_t *shuffled = malloc(bench.data.train.count * sizeof *shuffled);
    if (shuffled) {
        train_epoch(&bench, at_most(WARM_UP_BATCHES * options->batch, samples), options->batch, shuffled, 0);
        uint64_t start = clock_nanoseconds();
        double loss = train_epoch(&bench, samples, options->batch, shuffled, 1) / samples;
        double seconds = clock_seconds_since(start);
        printf("{\"bench\": \"train\", \"model\": \"%s\", \"isa\": \"%s\", \"batch\": %u, \"samples\": %u, "
               "\"seconds\": %.6f, \"samples_per_second\": %.1f, \"gflop_per_second\": %.2f, \"loss\": %.4f}\n",
               options->model, bench.net.kernels->name, options->batch, samples, seconds, samples / seconds,
               spec_training_flop(&bench.spec) * samples / seconds * 1e-9, loss);
    } else {
        status = fail(err, STATUS_OS, "no memory for the order of %u samples", bench.data.train.count);
    }
    free(shuffled);
    net_free(&bench.net);
    bench_free(&bench);
    return status;
}

Status bench_train_asked(const BenchOptions *options, Error *err) {
    Bench bench;
    TRY(bench_init(&bench, options, err));
    const Sgd sgd = {.lr = 0.01f, .momentum = 0.5f};
    const uint32_t samples = bench.data.train.count, count = at_most(options->batch, samples);
    Noise noise = {.seed = 1};
    for (int asked; (asked = getchar()) != EOF;) {
        if (asked != '\n') continue;
        Batch batch = split_batch(&bench, &bench.data.train, 0, count);
        batch.indices = bench.order + noise.step * count % (samples - count + 1);
        BatchResult result;
        const uint64_t start = clock_nanoseconds();
        net_train_step(&bench.net, bench.weights, bench.velocity, &result, &sgd, NULL, &batch, &noise);
        printf("{\"bench\": \"train-asked\", \"seconds\": %.9f, \"loss\": %.6f}\n", clock_seconds_since(start),
               result.loss_sum / count);
        fflush(stdout);
        noise.step++;
    }
    net_free(&bench.net);
    bench_free(&bench);
    return STATUS_OK;
}

static uint32_t evaluate(Bench *bench, uint32_t samples) {
    uint32_t hits = 0;
    for (uint32_t first = 0; first < samples; first += EVALUATION_BATCH) {
        Batch batch = split_batch(bench, &bench->data.test, first, at_most(EVALUATION_BATCH, samples - first));
        BatchResult result;
        net_evaluate(&bench->net, &result, bench->weights, &batch);
        hits += result.hits;
    }
    return hits;
}

Status bench_evaluate(const BenchOptions *options, Error *err) {
    Bench bench;
    TRY(bench_init(&bench, options, err));
    uint32_t samples = at_most(options->samples, bench.data.test.count);
    evaluate(&bench, at_most(samples, EVALUATION_BATCH)); // warm up
    uint64_t start = clock_nanoseconds();
    uint32_t hits = evaluate(&bench, samples);
    double seconds = clock_seconds_since(start);
    printf("{\"bench\": \"evaluate\", \"model\": \"%s\", \"isa\": \"%s\", \"samples\": %u, \"hits\": %u, "
           "\"seconds\": %.6f, \"samples_per_second\": %.1f}\n",
           options->model, bench.net.kernels->name, samples, hits, seconds, samples / seconds);
    net_free(&bench.net);
    bench_free(&bench);
    return STATUS_OK;
}

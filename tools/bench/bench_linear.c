// The three products of a linear layer, by our own ops and through OpenBLAS: from how many samples on does OpenBLAS
// win?
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/rng.h"
#include "bench.h"
#include "nn/linear_blas.h"

typedef enum Product { FORWARD, BACKWARD_INPUT, BACKWARD_WEIGHT, PRODUCTS } Product;
enum { WAYS = 2, LEAST_TURNS = 3, MOST_TURNS = 1000 };

typedef struct Bench {
    const Kernels *kernels;
    Blas *blas; // owned
    Layer layer;
    int count, samples;
    float *weight, *velocity, *bias, *in, *out, *rows, *scratch; // owned
    double seconds[PRODUCTS][WAYS][MOST_TURNS];                  // own, OpenBLAS
} Bench;

// Seconds of this thread's own time: what others do on the machine counts little.
static double own_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static float *random_floats(size_t count) {
    float *values = aligned_alloc(64, (count * sizeof *values + 63) / 64 * 64);
    for (size_t i = 0; values && i < count; i++)
        values[i] = rng_float(rng_block((RngKey){{1, 2}}, (uint32_t)i, 0, 0, 0).word[0]) - 0.5f;
    return values;
}

static void bench_free(Bench *bench) {
    float *const owned[] = {bench->weight, bench->velocity, bench->bias,   bench->in,
                            bench->out,    bench->rows,     bench->scratch};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        free(owned[i]);
    blas_close(bench->blas);
    free(bench);
}

static Status bench_init(Bench *bench, const BenchOptions *options, Error *err) {
    int lanes = kernels_best()->lanes, count = (int)options->batch;
    *bench = (Bench){
        .kernels = kernels_best(),
        .layer = {.kind = LAYER_LINEAR, .in = {(int)options->inputs, 1, 1}, .out = {(int)options->outputs, 1, 1}},
        .count = count,
        .samples = (count + lanes - 1) / lanes * lanes};
    size_t ins = options->inputs, outs = options->outputs, n = (size_t)bench->samples;
    bench->weight = random_floats(ins * outs);
    bench->velocity = random_floats(ins * outs);
    bench->bias = random_floats(outs);
    bench->in = random_floats(ins * n);
    bench->out = random_floats(outs * n);
    bench->rows = random_floats(linear_row_floats(&bench->layer) * n);
    bench->scratch = random_floats(linear_scratch_floats(&bench->layer, bench->samples));
    if (!bench->weight || !bench->velocity || !bench->bias || !bench->in || !bench->out || !bench->rows ||
        !bench->scratch)
        return fail(err, STATUS_OS, "no memory for a layer of %zu x %zu and %zu samples", ins, outs, n);
    return blas_open(&bench->blas, bench->kernels, err);
}

static void compute_own(const Bench *bench, Product product, const SgdUpdate *descent) {
    const Kernels *kernels = bench->kernels;
    const Layer *layer = &bench->layer;
    if (product == FORWARD)
        kernels->linear_forward(bench->out, bench->rows, bench->in, bench->weight, bench->bias, layer, bench->count,
                                bench->samples);
    else if (product == BACKWARD_INPUT)
        kernels->linear_backward_input(bench->in, bench->scratch, bench->out, bench->weight, layer, bench->count,
                                       bench->samples);
    else
        kernels->linear_backward_weight(bench->velocity, bench->weight, bench->rows, bench->out, descent, layer,
                                        bench->count, bench->samples);
}

static void compute_through_blas(const Bench *bench, Product product, const SgdUpdate *descent) {
    const Layer *layer = &bench->layer;
    if (product == FORWARD)
        linear_blas_forward(bench->out, bench->blas, bench->in, NULL, bench->weight, bench->bias, layer, bench->count,
                            bench->samples);
    else if (product == BACKWARD_INPUT)
        linear_blas_backward_input(bench->in, bench->blas, bench->out, bench->weight, layer, bench->count,
                                   bench->samples);
    else
        linear_blas_backward_weight(bench->velocity, bench->weight, bench->blas, bench->in, NULL, bench->out, descent,
                                    layer, bench->count, bench->samples);
}

// In turn. The input gradient overwrites the inputs: without fresh ones values would grow until they are not finite.
static size_t measure(Bench *bench, double enough_seconds) {
    const SgdUpdate descent = {.keep = 0.5f, .lr = 1e-9f};
    double begin = own_seconds();
    size_t turn = 0;
    while (turn < MOST_TURNS && (turn < LEAST_TURNS || own_seconds() - begin < enough_seconds)) {
        for (int product = 0; product < PRODUCTS; product++)
            for (int way = 0; way < WAYS; way++) {
                double start = own_seconds();
                (way == 0 ? compute_own : compute_through_blas)(bench, (Product)product, &descent);
                bench->seconds[product][way][turn] = own_seconds() - start;
            }
        memcpy(bench->in, bench->rows, sizeof(float) * shape_size(bench->layer.in) * (size_t)bench->samples);
        turn++;
    }
    return turn;
}

Status bench_linear(const BenchOptions *options, Error *err) {
    static const char *const names[PRODUCTS] = {"forward", "input", "weight"};
    Bench *bench = malloc(sizeof *bench);
    if (!bench) return fail(err, STATUS_OS, "no memory");
    Status status = bench_init(bench, options, err);
    if (status == STATUS_OK) {
        size_t turns = measure(bench, options->seconds);
        printf("{\"bench\": \"linear\", \"isa\": \"%s\", \"blas\": \"%s\", \"inputs\": %u, \"outputs\": %u, "
               "\"samples\": %u",
               bench->kernels->name, blas_name(bench->blas), options->inputs, options->outputs, options->batch);
        double flop = 2.0 * options->inputs * options->outputs * options->batch;
        for (int product = 0; product < PRODUCTS; product++)
            printf(", \"%s_own_gflop_per_second\": %.2f, \"%s_blas_gflop_per_second\": %.2f", names[product],
                   1e-9 * flop / bench_median(bench->seconds[product][0], turns), names[product],
                   1e-9 * flop / bench_median(bench->seconds[product][1], turns));
        printf("}\n");
    }
    bench_free(bench);
    return status;
}

// Robust rules on N updates of P weights side by side, on one core: values a second of the median and the trimmed mean,
// and Krum (all products, and the choice) beside what OpenBLAS needs for the products alone, of doubles that lie ready.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/rng.h"
#include "bench.h"
#include "fedavg/rules/combine/combine_rules.h"
#include "shm/segment.h"

enum { MAX_REPEATS = 1000, MIN_REPEATS = 3 };

typedef struct Bench {
    uint32_t rows;
    size_t parameters;
    Segment segment;                              // (rows, parameters)
    const float **values, **from;                 // owned (rows)
    float *columns;                               // owned (rows, ROW_LANES)
    int64_t *total;                               // owned (parameters)
    double *products, *workspace, *wide, *shares; // owned
    Blas *blas;
    double seconds[4][MAX_REPEATS];
    size_t repeats;
} Bench;

// Of this core: another program's share of it does not count.
static double core_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void fill(Bench *bench) {
    float *all = bench->segment.memory;
    for (size_t i = 0; i < bench->rows * bench->parameters; i++)
        all[i] = rng_float((uint32_t)(i * 2654435761u)) - 0.5f;
    for (uint32_t row = 0; row < bench->rows; row++)
        bench->values[row] = all + row * bench->parameters, bench->from[row] = NULL;
}

static Status bench_init(Bench *bench, const BenchOptions *options, Error *err) {
    const size_t rows = bench->rows = options->slots, square = rows * rows;
    bench->parameters = options->parameters;
    TRY(segment_create(&bench->segment, "rows", rows * bench->parameters * sizeof(float), err));
    bench->values = malloc(rows * sizeof *bench->values);
    bench->from = malloc(rows * sizeof *bench->from);
    bench->columns = aligned_alloc(64, rows * ROW_LANES * sizeof *bench->columns);
    bench->total = malloc(bench->parameters * sizeof *bench->total);
    bench->products = malloc(square * sizeof *bench->products);
    bench->workspace = malloc((2 * square + 4 * rows) * sizeof *bench->workspace);
    bench->wide = aligned_alloc(64, rows * ROW_PRODUCT_BLOCK * sizeof *bench->wide);
    bench->shares = malloc(rows * sizeof *bench->shares);
    if (!bench->values || !bench->from || !bench->columns || !bench->total || !bench->products || !bench->workspace ||
        !bench->wide || !bench->shares)
        return fail(err, STATUS_OS, "no memory");
    fill(bench);
    return blas_open(&bench->blas, kernels_best(), err);
}

static void bench_free(Bench *bench) {
    blas_close(bench->blas);
    free(bench->shares);
    free(bench->wide);
    free(bench->workspace);
    free(bench->products);
    free(bench->total);
    free(bench->columns);
    free(bench->from);
    free(bench->values);
    segment_free(&bench->segment);
}

static void krum(Bench *bench, const Rows *rows) {
    const size_t count = bench->rows;
    for (size_t i = 0; i < count * count; i++)
        bench->products[i] = 0;
    rows_products(bench->products, rows, bench->blas, bench->wide, bench->parameters);
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < i; j++)
            bench->products[i * count + j] = bench->products[j * count + i];
    const Choice choice = {.products = bench->products,
                           .count = bench->rows,
                           .number = (double[]){bench->rows / 5},
                           .workspace = bench->workspace};
    krum_combine_rule.choose(bench->shares, &choice);
}

// One of each, in turn, so that all see the same machine.
static void measure_once(Bench *bench) {
    const Rows rows = {.values = bench->values, .from = bench->from, .count = bench->rows};
    const double share = 0.2;
    const RowColumn columns[] = {median_combine_rule.column, trimmed_combine_rule.column};
    for (int c = 0; c < 2; c++) {
        const double start = core_seconds();
        rows_columns(bench->total, &rows, columns[c], &share, bench->columns, bench->parameters);
        bench->seconds[c][bench->repeats] = core_seconds() - start;
    }
    double start = core_seconds();
    krum(bench, &rows);
    bench->seconds[2][bench->repeats] = core_seconds() - start;
    start = core_seconds();
    for (size_t done = 0; done < bench->parameters; done += ROW_PRODUCT_BLOCK)
        blas_add_products(bench->blas, bench->products, bench->wide, ROW_PRODUCT_BLOCK, bench->rows, ROW_PRODUCT_BLOCK);
    bench->seconds[3][bench->repeats++] = core_seconds() - start;
}

Status bench_rows(const BenchOptions *options, Error *err) {
    if (options->slots < 3) return fail(err, STATUS_USAGE, "--slots %u: at least 3", options->slots);
    Bench *bench = calloc(1, sizeof *bench);
    if (!bench) return fail(err, STATUS_OS, "no memory");
    Status status = bench_init(bench, options, err);
    if (status == STATUS_OK) {
        measure_once(bench); // warm up: page tables, caches
        bench->repeats = 0;
        const double begin = core_seconds();
        while (bench->repeats < MIN_REPEATS ||
               (bench->repeats < MAX_REPEATS && core_seconds() - begin < options->seconds))
            measure_once(bench);
        const double values = (double)bench->rows * (double)bench->parameters;
        const double krum_seconds = bench_median(bench->seconds[2], bench->repeats);
        const double blas_seconds = bench_median(bench->seconds[3], bench->repeats);
        printf("{\"bench\": \"rows\", \"rows\": %u, \"parameters\": %zu, \"repeats\": %zu, \"blas\": \"%s\", "
               "\"median_values_per_second\": %.0f, \"trimmed_values_per_second\": %.0f, \"krum_seconds\": %.6f, "
               "\"blas_seconds\": %.6f, \"krum_over_blas\": %.3f}\n",
               bench->rows, bench->parameters, bench->repeats, blas_name(bench->blas),
               values / bench_median(bench->seconds[0], bench->repeats),
               values / bench_median(bench->seconds[1], bench->repeats), krum_seconds, blas_seconds,
               krum_seconds / blas_seconds);
    }
    bench_free(bench);
    free(bench);
    return status;
}

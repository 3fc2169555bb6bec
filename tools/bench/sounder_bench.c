// sounder_bench NAME [--option value ...]: runs one micro-benchmark and prints its figures as JSON lines.
#include "bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cores.h"

typedef struct Benchmark {
    const char *name;
    Status (*run)(const BenchOptions *options, Error *err);
} Benchmark;

static const Benchmark benchmarks[] = {
    {"train", bench_train},
    {"evaluate", bench_evaluate},
    {"linear", bench_linear},
    {"averaging", bench_averaging},
    {"server-rules", bench_server_rules},
    {"barrier", bench_barrier},
    {"group", bench_group},
    {"rows", bench_rows},
    {"train-asked", bench_train_asked},
};

static const char usage[] =
    "usage: sounder_bench train|evaluate  [--data D] [--model M] [--batch B] [--samples N]\n"
    "       sounder_bench train-asked     [--data D] [--model M] [--batch B]; a batch for each line that comes in\n"
    "       sounder_bench linear          [--inputs I] [--outputs O] [--batch N] [--seconds S]\n"
    "       sounder_bench averaging       [--slots N] [--parameters P] [--seconds S]\n"
    "       sounder_bench server-rules    [--rule R] [--slots N] [--parameters P] [--seconds S]\n"
    "       sounder_bench rows            [--slots N] [--parameters P] [--seconds S]\n"
    "       sounder_bench barrier         [--ranks N] [--waits N]\n"
    "       sounder_bench group           [--ranks N] [--waits N] [--bytes B]\n";

static int compare(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

double bench_median(double *values, size_t count) {
    qsort(values, count, sizeof *values, compare);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static Status read_whole(uint32_t *number, const char *name, const char *text, Error *err) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= 1 && value <= 1e9) || value != floor(value))
        return fail(err, STATUS_USAGE, "%s %s: give a whole number from 1 to 1e9", name, text);
    *number = (uint32_t)value;
    return STATUS_OK;
}

static Status read_seconds(double *seconds, const char *name, const char *text, Error *err) {
    char *end;
    *seconds = strtod(text, &end);
    if (end == text || *end || !(*seconds > 0 && *seconds <= 3600))
        return fail(err, STATUS_USAGE, "%s %s: give seconds above 0, up to 3600", name, text);
    return STATUS_OK;
}

static Status read_option(BenchOptions *options, const char *name, const char *value, Error *err) {
    const struct {
        const char *name;
        uint32_t *number;
    } wholes[] = {
        {"--batch", &options->batch},           {"--samples", &options->samples}, {"--slots", &options->slots},
        {"--parameters", &options->parameters}, {"--ranks", &options->ranks},     {"--waits", &options->waits},
        {"--bytes", &options->bytes},           {"--inputs", &options->inputs},   {"--outputs", &options->outputs}};
    if (!value) return fail(err, STATUS_USAGE, "%s: needs a value", name);
    if (strcmp(name, "--data") == 0) {
        options->data = value;
        return STATUS_OK;
    }
    if (strcmp(name, "--model") == 0) {
        options->model = value;
        return STATUS_OK;
    }
    if (strcmp(name, "--rule") == 0) {
        options->rule = value;
        return STATUS_OK;
    }
    if (strcmp(name, "--seconds") == 0) return read_seconds(&options->seconds, name, value, err);
    for (size_t i = 0; i < sizeof wholes / sizeof *wholes; i++)
        if (strcmp(name, wholes[i].name) == 0) return read_whole(wholes[i].number, name, value, err);
    return fail(err, STATUS_USAGE, "%s: unknown option", name);
}

static Status run(int argc, char **argv, Error *err) {
    BenchOptions options = {.data = "fashion-mnist",
                            .model = "lenet",
                            .rule = "adam",
                            .batch = 64,
                            .samples = 60000,
                            .slots = 4,
                            .parameters = 1700000,
                            .ranks = 2,
                            .waits = 20000,
                            .bytes = 1 << 20,
                            .inputs = 2048,
                            .outputs = 2048,
                            .seconds = 1};
    if (argc < 2) return fail(err, STATUS_USAGE, "which benchmark?");
    for (int i = 2; i < argc; i += 2)
        TRY(read_option(&options, argv[i], i + 1 < argc ? argv[i + 1] : NULL, err));
    for (size_t i = 0; i < sizeof benchmarks / sizeof *benchmarks; i++)
        if (strcmp(argv[1], benchmarks[i].name) == 0) return benchmarks[i].run(&options, err);
    return fail(err, STATUS_USAGE, "%s: unknown benchmark", argv[1]);
}

int main(int argc, char **argv) {
    subnormals_flush();
    Error err = {.message = ""};
    Status status = run(argc, argv, &err);
    if (status != STATUS_OK) fprintf(stderr, "sounder_bench: error: %s\n", err.message);
    if (status == STATUS_USAGE) fputs(usage, stderr);
    return status_exit_code(status);
}

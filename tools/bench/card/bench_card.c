// What a GPU makes of steps of training, in one process and without anything but CUDA: nets x batches x models a
// launch, by events of the GPU's own clock; for one of them, part by part; beside the bandwidth of a copy and the
// GPU's peak.
//
//   bench_card                                    a table: lenet, 2nn, cnn; batches of 10 and 64; 1, 8, 32, 128 models
//   bench_card --nets lenet --batches 64 --models 1,32 --tf32 on --momentum 0 --costs
//   bench_card --nets "lstm 64 last; linear classes" --shape 1x80x8      layers as `sounder train --model` takes them
//   bench_card --batches 1000 --models 1 --tests  evaluations instead, with our own products and by cuBLAS
//   bench_card --one-step lenet:32:64 2nn:100:10  a step of each, nothing else: for ncu and compute-sanitizer
//   bench_card --json                             a JSON object a line instead
//
// It builds by itself, see CMakeLists.txt beside it.
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cuda_try.h"
#include "base/device.h"
#include "bench_cell.h"

enum { MOST_NUMBERS = 16, COPIES = 8 };

typedef struct Wishes {
    const char *nets;
    int batches[MOST_NUMBERS], models[MOST_NUMBERS]; // each ended by a 0
    bool with_tf32, without_tf32, costs, tests, json;
    CellPlan plan; // what all cells have in common
} Wishes;

// The GPU ----------------------------------------------------------------------------------------------------------

// Bytes a second of a copy from device to device, read and written both counted; median of several.
static Status measure_copy(double *bytes_per_second, size_t bytes, Error *err) {
    char *memory = NULL;
    cudaStream_t stream = NULL;
    cudaEvent_t begin = NULL, end = NULL;
    double rates[COPIES];
    float milliseconds = 0;
    cudaError_t error = cudaMalloc((void **)&memory, 2 * bytes);
    if (error == cudaSuccess) error = cudaMemset(memory, 0, 2 * bytes);
    if (error == cudaSuccess) error = cudaStreamCreate(&stream);
    if (error == cudaSuccess) error = cudaEventCreateWithFlags(&begin, cudaEventDefault);
    if (error == cudaSuccess) error = cudaEventCreateWithFlags(&end, cudaEventDefault);
    for (int i = 0; i < COPIES && error == cudaSuccess; i++) {
        error = cudaEventRecord(begin, stream);
        if (error == cudaSuccess)
            error = cudaMemcpyAsync(memory, memory + bytes, bytes, cudaMemcpyDeviceToDevice, stream);
        if (error == cudaSuccess) error = cudaEventRecord(end, stream);
        if (error == cudaSuccess) error = cudaEventSynchronize(end);
        if (error == cudaSuccess) error = cudaEventElapsedTime(&milliseconds, begin, end);
        rates[i] = 2e3 * (double)bytes / (double)milliseconds;
    }
    if (begin) cudaEventDestroy(begin);
    if (end) cudaEventDestroy(end);
    if (stream) cudaStreamDestroy(stream);
    cudaFree(memory);
    CUDA_TRY(error, err, "measuring a copy of %zu bytes", bytes);
    *bytes_per_second = median(rates, COPIES);
    return STATUS_OK;
}

// Operations a second in single precision without tensor cores; 0 where the driver does not tell the clock.
static double peak_of(const Device *device) {
    int kilohertz = 0;
    int lanes = device->major == 7 || (device->major == 8 && device->minor == 0) ? 64 : 128; // of a multiprocessor
    if (cudaDeviceGetAttribute(&kilohertz, cudaDevAttrClockRate, device->index) != cudaSuccess) cudaGetLastError();
    return 2e3 * device->multiprocessors * lanes * kilohertz;
}

// Output ------------------------------------------------------------------------------------------------------------

static void print_cell(const CellPlan *plan, const CellResult *cell, double copy, double peak, bool json) {
    double seconds = cell->microseconds_a_step * 1e-6;
    double of_copy = cell->bytes / seconds / copy, of_peak = peak > 0 ? cell->operations / seconds / peak : 0;
    double samples = plan->models * (double)plan->batch_size / seconds;
    static const char *const works[] = {"", " test", " test by cuBLAS"};
    printf(json ? "{\"type\":\"cell\",\"net\":\"%s%s\",\"batch\":%d,\"models\":%d,\"tf32\":%s,\"momentum\":%g,"
                  "\"kernels\":%zu,\"bytes\":%.0f,\"operations\":%.0f,\"microseconds_a_step\":%.3f,"
                  "\"samples_per_second\":%.0f,\"of_copy_bandwidth\":%.4f,\"of_peak\":%.4f}\n"
                : "%-10s%s %5d %6d %-5s %8g %7zu %9.1f %9.3f %10.1f %14.0f %8.1f%% %7.1f%%\n",
           plan->net, works[plan->work], (int)plan->batch_size, plan->models, plan->tf32 ? "true" : "false",
           (double)plan->momentum, cell->kernels, json ? cell->bytes : cell->bytes * 1e-6,
           json ? cell->operations : cell->operations * 1e-9, cell->microseconds_a_step, samples,
           json ? of_copy : 100 * of_copy, json ? of_peak : 100 * of_peak);
    fflush(stdout);
}

static void print_costs(const CellPlan *plan, const CellResult *cell, double copy, double peak, bool json) {
    for (int i = 0; i < cell->cost_count; i++) {
        const CudaCost *cost = &cell->costs[i];
        double seconds = cost->microseconds * 1e-6;
        double of_copy = cost->bytes / seconds / copy, of_peak = peak > 0 ? cost->operations / seconds / peak : 0;
        if (json)
            printf("{\"type\":\"cost\",\"net\":\"%s\",\"batch\":%d,\"models\":%d,\"tf32\":%s,\"part\":\"%s\","
                   "\"microseconds\":%.3f,\"bytes\":%.0f,\"operations\":%.0f,\"of_copy_bandwidth\":%.4f,"
                   "\"of_peak\":%.4f}\n",
                   plan->net, (int)plan->batch_size, plan->models, plan->tf32 ? "true" : "false", cost->name,
                   cost->microseconds, cost->bytes, cost->operations, of_copy, of_peak);
        else
            printf("    %-28s %10.1f us %9.1f MB %9.3f GFLOP %8.1f%% of copy %7.1f%% of peak\n", cost->name,
                   cost->microseconds, cost->bytes * 1e-6, cost->operations * 1e-9, 100 * of_copy, 100 * of_peak);
    }
}

// Work --------------------------------------------------------------------------------------------------------------

static Status run_cell(const Wishes *wishes, CellPlan plan, double copy, double peak, Error *err) {
    CellResult cell;
    TRY(bench_cell(&cell, &plan, err));
    print_cell(&plan, &cell, copy, peak, wishes->json);
    if (wishes->costs) print_costs(&plan, &cell, copy, peak, wishes->json);
    return STATUS_OK;
}

static Status run_net(const Wishes *wishes, const char *net, double copy, double peak, Error *err) {
    CellPlan plan = wishes->plan;
    plan.net = net;
    for (int b = 0; wishes->batches[b]; b++)
        for (int m = 0; wishes->models[m]; m++)
            for (int tf32 = !wishes->without_tf32; tf32 <= wishes->with_tf32; tf32++) {
                plan.batch_size = (uint32_t)wishes->batches[b];
                plan.models = wishes->models[m];
                plan.tf32 = tf32;
                for (plan.work = wishes->tests ? CELL_TESTS : CELL_TRAINS;
                     plan.work <= (wishes->tests ? CELL_TESTS_BY_CUBLAS : CELL_TRAINS); plan.work++)
                    TRY(run_cell(wishes, plan, copy, peak, err));
            }
    return STATUS_OK;
}

static Status run_table(const Wishes *wishes, const Device *device, Error *err) {
    double copy = 0, peak = peak_of(device);
    TRY(measure_copy(&copy, wishes->plan.copy_bytes, err));
    if (wishes->json)
        printf("{\"type\":\"card\",\"name\":\"%s\",\"compute_capability\":\"%d.%d\",\"multiprocessors\":%d,"
               "\"copy_bytes_per_second\":%.0f,\"peak_operations_per_second\":%.0f}\n",
               device->name, device->major, device->minor, device->multiprocessors, copy, peak);
    else
        printf("%s, %d multiprocessors, copies %.0f GB/s, peak %.1f TFLOP/s\n\n%-10s %5s %6s %-5s %8s %7s %9s %9s %10s "
               "%14s %9s %8s\n",
               device->name, device->multiprocessors, copy * 1e-9, peak * 1e-12, "net", "batch", "models", "tf32",
               "momentum", "kernels", "MB/step", "GFLOP", "us/step", "samples/s", "of copy", "of peak");
    char nets[SPEC_TEXT_BYTES];
    if ((size_t)snprintf(nets, sizeof nets, "%s", wishes->nets) >= sizeof nets)
        return fail(err, STATUS_USAGE, "--nets: give at most %d characters", SPEC_TEXT_BYTES - 1);
    for (char *rest = nets, *net; (net = strsep(&rest, ","));)
        TRY(run_net(wishes, net, copy, peak, err));
    return STATUS_OK;
}

// NET:MODELS[:BATCH]
static Status run_one_step(const Wishes *wishes, const char *text, Error *err) {
    CellPlan plan = wishes->plan;
    char net[64];
    int batch = 10;
    if (sscanf(text, "%63[^:]:%d:%d", net, &plan.models, &batch) < 2 || plan.models < 1 || batch < 1)
        return fail(err, STATUS_USAGE, "--one-step %s: give NET:MODELS or NET:MODELS:BATCH", text);
    plan.net = net;
    plan.batch_size = (uint32_t)batch;
    plan.tf32 = wishes->with_tf32;
    TRY(bench_one_step(&plan, err));
    printf("%s: one step of %d models, batches of %d\n", net, plan.models, batch);
    return STATUS_OK;
}

// Options -----------------------------------------------------------------------------------------------------------

static Status read_numbers(int numbers[MOST_NUMBERS], const char *name, const char *text, Error *err) {
    int count = 0;
    for (const char *at = text; count < MOST_NUMBERS - 1; at++) {
        char *end;
        long number = strtol(at, &end, 10);
        if (end == at || number < 1 || number > 65535 || (*end && *end != ','))
            return fail(err, STATUS_USAGE, "%s %s: give whole numbers from 1 to 65535, with commas", name, text);
        numbers[count++] = (int)number;
        at = end;
        if (!*end) break;
    }
    numbers[count] = 0;
    return STATUS_OK;
}

static Status read_number(int *number, const char *name, const char *text, Error *err) {
    int numbers[MOST_NUMBERS];
    TRY(read_numbers(numbers, name, text, err));
    *number = numbers[0];
    return STATUS_OK;
}

static Status read_option(Wishes *wishes, const char *name, const char *value, Error *err) {
    int number = 0;
    if (strcmp(name, "--nets") == 0) return wishes->nets = value, STATUS_OK;
    if (strcmp(name, "--shape") == 0) return wishes->plan.shape = value, STATUS_OK;
    if (strcmp(name, "--batches") == 0) return read_numbers(wishes->batches, name, value, err);
    if (strcmp(name, "--models") == 0) return read_numbers(wishes->models, name, value, err);
    if (strcmp(name, "--steps") == 0) return read_number(&wishes->plan.steps, name, value, err);
    if (strcmp(name, "--runs") == 0) return read_number(&wishes->plan.runs, name, value, err);
    if (strcmp(name, "--rows") == 0) return read_number(&wishes->plan.rows, name, value, err);
    if (strcmp(name, "--copy-mib") == 0) {
        TRY(read_number(&number, name, value, err));
        wishes->plan.copy_bytes = (size_t)number << 20;
        return STATUS_OK;
    }
    if (strcmp(name, "--momentum") == 0) return wishes->plan.momentum = strtof(value, NULL), STATUS_OK;
    if (strcmp(name, "--tf32") == 0) {
        wishes->with_tf32 = strcmp(value, "off") != 0;
        wishes->without_tf32 = strcmp(value, "on") != 0;
        return STATUS_OK;
    }
    return fail(err, STATUS_USAGE,
                "%s: no such option; there are --nets --shape --batches --models --tf32 on|off|both --momentum --steps "
                "--runs --rows --copy-mib --costs --tests --json, and --one-step NET:MODELS:BATCH ...",
                name);
}

static Status run(int argc, char **argv, Error *err) {
    Wishes wishes = {.nets = "lenet,2nn,cnn",
                     .batches = {10, 64},
                     .models = {1, 8, 32, 128},
                     .without_tf32 = true,
                     .plan = {.shape = "1x28x28",
                              .momentum = 0.5f,
                              .steps = 64,
                              .runs = 5,
                              .rows = 60000,
                              .copy_bytes = (size_t)1 << 30}};
    int at = 1;
    for (; at < argc && strcmp(argv[at], "--one-step") != 0; at++) {
        if (strcmp(argv[at], "--costs") == 0) {
            wishes.costs = true;
        } else if (strcmp(argv[at], "--tests") == 0) {
            wishes.tests = true;
        } else if (strcmp(argv[at], "--json") == 0) {
            wishes.json = true;
        } else {
            TRY(read_option(&wishes, argv[at], at + 1 < argc ? argv[at + 1] : "", err));
            at++;
        }
    }
    Device device;
    TRY(device_open(&device, -1, err));
    if (at >= argc) return run_table(&wishes, &device, err);
    for (at++; at < argc; at++)
        TRY(run_one_step(&wishes, argv[at], err));
    return STATUS_OK;
}

int main(int argc, char **argv) {
    Error err;
    Status status = run(argc, argv, &err);
    if (status != STATUS_OK) fprintf(stderr, "bench_card: %s\n", err.message);
    if (status == STATUS_OK) device_close();
    return status_exit_code(status);
}

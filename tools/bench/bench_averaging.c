// The exact mean of N models as a share of what memory allows.
//
// server_apply reads N slots of P 64-bit sums and the P floats of the weights, and writes the P floats:
//   bytes = (8 N + 4 + 4) P
// Its bound is bytes / bandwidth, where bandwidth is the better of two plain kernels, run in turn with it on the same
// memory: one reads all slots, one copies the first half of the slots to the second (bytes read plus bytes written).
// So the bound is that of the cache level the models fit in, and of DRAM once they fit in none. Everything runs on one
// core, in the kind of shared memory a run has.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench.h"
#include "fedavg/rules/server/server_rules.h"
#include "shm/segment.h"

enum { MAX_SLOTS = 256, MAX_REPEATS = 10000, MIN_REPEATS = 5 };

typedef struct Averaging {
    Segment slots_segment, weights_segment;
    size_t slots, parameters;
    size_t stride;                  // 64-bit words from slot to slot, a multiple of a cache line
    const int64_t *sums[MAX_SLOTS]; // each (parameters)
    float *weights;                 // (parameters)
    double read[MAX_REPEATS], copy[MAX_REPEATS], apply[MAX_REPEATS]; // seconds
    size_t repeats;
} Averaging;

static size_t words(const Averaging *averaging) {
    return averaging->slots * averaging->stride;
}

static Status averaging_init(Averaging *averaging, const BenchOptions *options, Error *err) {
    averaging->slots = options->slots;
    averaging->parameters = options->parameters;
    averaging->stride = (averaging->parameters + 7) / 8 * 8;
    TRY(segment_create(&averaging->slots_segment, "slots", words(averaging) * sizeof(int64_t), err));
    Status status = segment_create(&averaging->weights_segment, "weights", averaging->parameters * sizeof(float), err);
    if (status != STATUS_OK) {
        segment_free(&averaging->slots_segment);
        return status;
    }
    int64_t *all = averaging->slots_segment.memory;
    for (size_t i = 0; i < words(averaging); i++)
        all[i] = (int64_t)(i * 2654435761u % (1u << 20)) - (1 << 19); // updates far too small to move the weights away
    for (size_t k = 0; k < averaging->slots; k++)
        averaging->sums[k] = all + k * averaging->stride;
    averaging->weights = averaging->weights_segment.memory;
    return STATUS_OK;
}

static void averaging_free(Averaging *averaging) {
    segment_free(&averaging->weights_segment);
    segment_free(&averaging->slots_segment);
}

#if defined __x86_64__ && !defined __clang__
#define VECTORS __attribute__((noinline, target_clones("avx512f", "avx2", "default")))
#else
#define VECTORS __attribute__((noinline))
#endif

// Four independent sums of 64 bytes each, in the widest registers there are, so that loads are waited for and not
// additions.
VECTORS static int64_t read_all(const int64_t *memory, size_t count) {
    typedef int64_t Line __attribute__((vector_size(64)));
    const Line *lines = (const Line *)memory;
    Line sums[4] = {{0}};
    size_t line = 0;
    for (; line + 4 <= count / 8; line += 4)
        for (size_t i = 0; i < 4; i++)
            sums[i] += lines[line + i];
    for (; line < count / 8; line++)
        sums[0] += lines[line];
    Line sum = sums[0] + sums[1] + sums[2] + sums[3];
    return sum[0] + sum[1] + sum[2] + sum[3] + sum[4] + sum[5] + sum[6] + sum[7];
}

// One of each, in turn, so that all three see the same machine.
static int64_t measure_once(Averaging *averaging) {
    int64_t *all = averaging->slots_segment.memory;
    size_t half = words(averaging) / 2, repeat = averaging->repeats++;
    uint64_t start = clock_nanoseconds();
    int64_t sum = read_all(all, words(averaging));
    averaging->read[repeat] = clock_seconds_since(start);
    start = clock_nanoseconds();
    memcpy(all + half, all, half * sizeof *all);
    averaging->copy[repeat] = clock_seconds_since(start);
    start = clock_nanoseconds();
    const ServerSums sums = {.updates = averaging->sums, .count = averaging->slots, .arrived = 1, .factor = 1};
    const ServerTurn turn = {.round = 1, .cohort = 1, .population = 1, .number = {1}};
    server_apply(averaging->weights, &(ServerMemory){0}, &sums, &turn, SERVER_ROW_average, averaging->parameters);
    averaging->apply[repeat] = clock_seconds_since(start);
    return sum;
}

static void report(Averaging *averaging, int64_t checksum) {
    size_t repeats = averaging->repeats;
    double slot_bytes = (double)words(averaging) * sizeof(int64_t);
    double read_bandwidth = slot_bytes / bench_median(averaging->read, repeats);
    double copy_bandwidth = slot_bytes / bench_median(averaging->copy, repeats); // half read, half written
    double bandwidth = read_bandwidth > copy_bandwidth ? read_bandwidth : copy_bandwidth;
    double bytes = (8.0 * (double)averaging->slots + 4 + 4) * (double)averaging->parameters;
    double seconds = bench_median(averaging->apply, repeats);
    printf("{\"bench\": \"averaging\", \"slots\": %zu, \"parameters\": %zu, \"bytes\": %.0f, \"repeats\": %zu, "
           "\"seconds\": %.9f, \"bound_seconds\": %.9f, \"gigabytes_per_second\": %.3f, "
           "\"read_gigabytes_per_second\": %.3f, \"copy_gigabytes_per_second\": %.3f, \"share\": %.4f, "
           "\"checksum\": %lld}\n",
           averaging->slots, averaging->parameters, bytes, repeats, seconds, bytes / bandwidth, bytes / seconds * 1e-9,
           read_bandwidth * 1e-9, copy_bandwidth * 1e-9, bytes / bandwidth / seconds, (long long)checksum);
}

// The step of one server rule beside the plain average's, in turn on the same sums. Prints both medians.
static Status compare_rule(Averaging *averaging, uint32_t row, double seconds, Error *err) {
    const ServerRule *rule = server_rules[row];
    const Chosen chosen = {.row = row, .number = {rule->text.numbers[0].preset, 0.9, 0.99, 1e-3}};
    ServerMemory memory = {.states = {NULL}};
    Status status = STATUS_OK;
    for (uint32_t s = 0; s < rule->states && status == STATUS_OK; s++) {
        memory.states[s] = malloc(averaging->parameters * sizeof *memory.states[s]);
        if (!memory.states[s]) status = fail(err, STATUS_OS, "no memory");
        if (status == STATUS_OK) server_begin(memory.states[s], (int)s, &chosen, averaging->parameters);
    }
    const uint64_t start = clock_nanoseconds();
    const ServerSums sums = {.updates = averaging->sums, .count = averaging->slots, .arrived = 1, .factor = 1};
    const ServerTurn plain = {.round = 1, .cohort = 1, .population = 1, .number = {1}};
    averaging->repeats = 0;
    for (uint32_t round = 1; status == STATUS_OK && averaging->repeats < MAX_REPEATS &&
                             (averaging->repeats < MIN_REPEATS || clock_seconds_since(start) < seconds);
         round++) {
        const ServerTurn turn = server_turn(&chosen, round, 10, 10);
        const size_t repeat = averaging->repeats++;
        uint64_t begun = clock_nanoseconds();
        server_apply(averaging->weights, &(ServerMemory){0}, &sums, &plain, SERVER_ROW_average, averaging->parameters);
        averaging->read[repeat] = clock_seconds_since(begun);
        begun = clock_nanoseconds();
        server_apply(averaging->weights, &memory, &sums, &turn, row, averaging->parameters);
        averaging->apply[repeat] = clock_seconds_since(begun);
    }
    for (uint32_t s = 0; s < rule->states; s++)
        free(memory.states[s]);
    TRY(status);
    const double own = bench_median(averaging->apply, averaging->repeats);
    const double average = bench_median(averaging->read, averaging->repeats);
    printf("{\"bench\": \"server-rules\", \"rule\": \"%s\", \"slots\": %zu, \"parameters\": %zu, \"repeats\": %zu, "
           "\"seconds\": %.9f, \"average_seconds\": %.9f, \"ratio\": %.3f}\n",
           rule->text.name, averaging->slots, averaging->parameters, averaging->repeats, own, average, own / average);
    return STATUS_OK;
}

// Rules that take a second sum of the clients are not measured alone.
static Status find_rule(uint32_t *row, const char *name, Error *err) {
    for (*row = 0; *row < SERVER_RULE_COUNT; ++*row)
        if (strcmp(server_rules[*row]->text.name, name) == 0 && !server_rules[*row]->sums) return STATUS_OK;
    return fail(err, STATUS_USAGE, "--rule %s: there is no such server rule that needs nothing but updates", name);
}

Status bench_server_rules(const BenchOptions *options, Error *err) {
    uint32_t row;
    TRY(find_rule(&row, options->rule, err));
    if (options->slots > MAX_SLOTS) return fail(err, STATUS_USAGE, "--slots %u: at most %d", options->slots, MAX_SLOTS);
    Averaging *averaging = calloc(1, sizeof *averaging);
    if (!averaging) return fail(err, STATUS_OS, "no memory");
    Status status = averaging_init(averaging, options, err);
    if (status == STATUS_OK) {
        status = compare_rule(averaging, row, options->seconds, err);
        averaging_free(averaging);
    }
    free(averaging);
    return status;
}

Status bench_averaging(const BenchOptions *options, Error *err) {
    if (options->slots > MAX_SLOTS) return fail(err, STATUS_USAGE, "--slots %u: at most %d", options->slots, MAX_SLOTS);
    Averaging *averaging = calloc(1, sizeof *averaging);
    if (!averaging) return fail(err, STATUS_OS, "no memory");
    Status status = averaging_init(averaging, options, err);
    if (status == STATUS_OK) {
        int64_t checksum = measure_once(averaging); // warm up: page tables, caches
        averaging->repeats = 0;
        uint64_t start = clock_nanoseconds();
        while (averaging->repeats < MIN_REPEATS ||
               (averaging->repeats < MAX_REPEATS && clock_seconds_since(start) < options->seconds))
            checksum += measure_once(averaging);
        report(averaging, checksum);
        averaging_free(averaging);
    }
    free(averaging);
    return status;
}

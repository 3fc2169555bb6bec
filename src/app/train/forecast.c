#include "forecast.h"

#include <libgen.h>
#include <math.h>
#include <string.h>
#include <sys/statvfs.h>

#include "app/train/model_file.h"
#include "app/train/progress.h"
#include "base/cores.h"
#include "datasets/partition.h"

// Memory --------------------------------------------------------------------------------------------------------------

// The memory of a run with these segments and as many workers.
static uint64_t memory_of(const Forecast *forecast, const RunMemorySizes *segments, uint32_t workers) {
    return (forecast->data_is_cached ? 0 : forecast->data) + forecast->partition + segments->weights + segments->slots +
           segments->control + forecast->parent + forecast->program + forecast->aggregator +
           workers * (forecast->worker + forecast->trainer);
}

// Whether the run would fit with as many workers, by the functions that a run itself would ask.
static bool fits(const Forecast *forecast, const RunMemory *memory, const RunPlan *plan, const Options *options,
                 const Device *gpu, uint32_t workers) {
    RunPlan other = *plan;
    Error ignored;
    engine_plan_workers(&other.config, workers);
    if (gpu && gpu_plan(&other.config, gpu, &other.config.spec, &memory->data, (uint32_t)options->clients_per_round,
                        (uint32_t)options->models_per_launch, &ignored) != STATUS_OK)
        return false;
    const RunMemorySizes segments = run_memory_sizes(memory, &other);
    return memory_of(forecast, &segments, workers) <= forecast->available;
}

// Binary search: a worker more never needs less.
static uint32_t most_workers(const Forecast *forecast, const RunMemory *memory, const RunPlan *plan,
                             const Options *options, const Device *gpu) {
    const bool bound = run_algorithm(&plan->config).engine->worker_needs_client;
    uint32_t fitting = 0, most = bound && plan->config.clients < MAX_WORKERS ? plan->config.clients : MAX_WORKERS;
    while (fitting < most) {
        const uint32_t middle = (fitting + most + 1) / 2;
        if (fits(forecast, memory, plan, options, gpu, middle))
            fitting = middle;
        else
            most = middle - 1;
    }
    return fitting;
}

// Files ---------------------------------------------------------------------------------------------------------------

// The nearest folder above that exists says how much room there is.
static uint64_t free_on_disk(const char *folder) {
    char path[RUN_PATH_BYTES];
    struct statvfs disk;
    snprintf(path, sizeof path, "%s", folder[0] ? folder : ".");
    while (statvfs(path, &disk) != 0) {
        char *parent = dirname(path);
        if (strcmp(parent, ".") == 0 || strcmp(parent, "/") == 0) {
            if (statvfs(parent, &disk) != 0) return UINT64_MAX;
            break;
        }
        memmove(path, parent, strlen(parent) + 1);
    }
    return (uint64_t)disk.f_bavail * disk.f_frsize;
}

// Text files as measured: a line of a client, a line of a round, and the latter's events.
static void settle_files(Forecast *forecast, const RunConfig *config, const Options *options) {
    enum { CLIENT_LINE = 280, ROUND_LINE = 900, ROUND_EVENTS = 2600, CHECKPOINTS = 2, MODELS = 2 };
    const uint64_t rounds = forecast->rounds, clients = forecast->turn.places;
    forecast->metrics = rounds * (ROUND_LINE + clients * CLIENT_LINE);
    if (options->eval_clients_every > 0)
        forecast->metrics += rounds / (uint64_t)options->eval_clients_every * config->clients * CLIENT_LINE;
    forecast->tensorboard = options->tensorboard ? rounds * ROUND_EVENTS : 0;
    forecast->model = forecast->segments.weights;
    forecast->client_rows = config->client_state.rows * config->client_state.row_bytes;
    forecast->checkpoint += config->slots.pending * config->slots.sum_bytes; // as many as ever wait
    const uint64_t models = MODELS + (config->personal.clusters > 1 ? config->personal.clusters : 0);
    forecast->files = models * forecast->model + CHECKPOINTS * forecast->checkpoint + forecast->client_rows +
                      forecast->metrics + forecast->tensorboard;
    forecast->disk_free = free_on_disk(forecast->folder);
}

// Time ----------------------------------------------------------------------------------------------------------------

static double each(double seconds, uint64_t count) {
    return count > 0 ? seconds / (double)count : 0;
}

// Samples of one test: of the set, and of all clients where the figure is of them.
static double tested_samples(const RunMemory *memory, const RunConfig *config, const Options *options) {
    const uint32_t validation = memory->partition.validation_count;
    const double share = options->client_test > 0 ? options->client_test : 1;
    return (validation > 0 ? validation : memory->data.test.count) +
           (config->tests_clients ? share * memory->data.train.count : 0);
}

static void settle_time(Forecast *forecast, const RunMemory *memory, const RunConfig *config, const Options *options) {
    const Rehearsal *turn = &forecast->turn;
    const uint32_t cores = (uint32_t)cores_usable();
    // Workers of a GPU take turns on it.
    const uint32_t busy = forecast->gpu.all > 0 ? 1 : forecast->workers < cores ? forecast->workers : cores;
    const uint32_t side = turn->places > 0 && turn->places < busy ? (uint32_t)turn->places : busy;
    const uint32_t every = (uint32_t)options->eval_every;
    forecast->rounds = (uint32_t)options->rounds;
    forecast->tests = every > 0 ? (forecast->rounds + every - 1) / every : 1; // the last round is always tested
    forecast->round_seconds = each(turn->seconds, turn->trained) * (double)turn->round_samples / side;
    forecast->test_seconds = each(turn->test_seconds, turn->tested) * tested_samples(memory, config, options) / busy;
    forecast->seconds =
        forecast->start_seconds + forecast->rounds * forecast->round_seconds + forecast->tests * forecast->test_seconds;
}

// Rounds have other numbers of clients than the first one has, where --cohort-schedule lets them grow.
static void take_mean_round(Rehearsal *turn, const RunConfig *config, const Options *options) {
    const uint32_t most = (uint32_t)options->clients_per_round, rounds = (uint32_t)options->rounds;
    const uint32_t first = world_cohort(&config->world, most, 1);
    double all = 0;
    if (config->world.cohort.kind == COHORT_CONSTANT) return;
    for (uint32_t round = 1; round <= rounds; round++)
        all += world_cohort(&config->world, most, round);
    turn->round_samples = (uint64_t)((double)turn->round_samples * all / rounds / first);
    turn->places = (uint64_t)((double)turn->places * all / rounds / first);
}

void forecast_settle(Forecast *forecast, const RunMemory *memory, const RunPlan *plan, const Options *options,
                     const Device *gpu) {
    // The copies of the best model: one while rounds are tested, two more where the end tests it.
    const uint64_t parameters = plan->config.parameters * sizeof(float);
    forecast->parent += forecast->segments.weights + (options_validate(options) ? 2 * parameters : 0);
    // Workers' sums on a GPU pass through the host where noise is added, or lengths are measured (cuda_parent.c).
    if (gpu && (plan->config.release.hides || plan->config.inspects_updates))
        forecast->parent += (forecast->workers + 1) * plan->config.parameters * sizeof(int64_t);
    forecast->memory = memory_of(forecast, &forecast->segments, forecast->workers);
    forecast->most_workers = most_workers(forecast, memory, plan, options, gpu);
    take_mean_round(&forecast->turn, &plan->config, options);
    settle_time(forecast, memory, &plan->config, options);
    settle_files(forecast, &plan->config, options);
}

// Words ---------------------------------------------------------------------------------------------------------------

static double megabytes(uint64_t bytes) {
    return (double)bytes / 1e6;
}

static double mebibytes(uint64_t bytes) {
    return (double)bytes / (1 << 20);
}

static void print_memory(FILE *file, const Forecast *forecast) {
    const RunMemorySizes *segments = &forecast->segments;
    const uint64_t shared =
        memory_of(&(Forecast){.data = forecast->data, .partition = forecast->partition}, segments, 0);
    fprintf(file, "shared memory   %.1f MB: data set %.1f%s, partition %.1f, weights %.1f, slots %.1f, control %.1f\n",
            megabytes(shared), megabytes(forecast->data), forecast->data_is_cached ? " (a file that runs share)" : "",
            megabytes(forecast->partition), megabytes(segments->weights), megabytes(segments->slots),
            megabytes(segments->control));
    if (forecast->worker == 0) return; // nothing was measured
    fprintf(file, "private memory  parent %.1f MB, %u worker%s of %.1f MB", megabytes(forecast->parent),
            forecast->workers, plural(forecast->workers), megabytes(forecast->worker));
    if (forecast->trainer > 0) fprintf(file, " with a trainer of %.1f MB each", megabytes(forecast->trainer));
    if (forecast->program > 0)
        fprintf(file, ", the program that they are forks of %.1f MB", megabytes(forecast->program));
    if (forecast->aggregator > 0) fprintf(file, ", the aggregator %.1f MB", megabytes(forecast->aggregator));
    fprintf(file, "\nin all          %.1f MB of %.1f MB that are available, enough for %u worker%s\n",
            megabytes(forecast->memory), megabytes(forecast->available), forecast->most_workers,
            plural(forecast->most_workers));
    const GpuNeed *gpu = &forecast->gpu;
    if (*forecast->device) fprintf(file, "device          %s\n", forecast->device);
    if (gpu->all == 0) return;
    fprintf(file,
            "GPU memory      %.1f MiB of %.1f MiB that are free: contexts %.1f, weights %.1f, data %.1f, activations "
            "%.1f\n",
            mebibytes(gpu->all), mebibytes(forecast->gpu_free), mebibytes(gpu->contexts), mebibytes(gpu->weights),
            mebibytes(gpu->data), mebibytes(gpu->activations));
}

static void print_files(FILE *file, const Forecast *forecast) {
    fprintf(file, "files           up to %.1f MB in %s: model and best model %.1f each, two checkpoints of %.1f, ",
            megabytes(forecast->files), forecast->folder[0] ? forecast->folder : "runs/<time>-<model>",
            megabytes(forecast->model), megabytes(forecast->checkpoint));
    if (forecast->client_rows > 0) fprintf(file, "clients' state up to %.1f, ", megabytes(forecast->client_rows));
    fprintf(file, "metrics.jsonl about %.1f", megabytes(forecast->metrics));
    if (forecast->tensorboard > 0) fprintf(file, ", tensorboard about %.1f", megabytes(forecast->tensorboard));
    fputs("\n", file);
}

// Long times need no digits, and short ones would be 0 without.
static const char *about(char text[PROGRESS_NUMBER_BYTES], double seconds) {
    if (seconds >= 10) return duration_text(text, seconds);
    if (seconds < 0.1)
        snprintf(text, PROGRESS_NUMBER_BYTES, "%.1f ms", seconds * 1e3);
    else
        snprintf(text, PROGRESS_NUMBER_BYTES, "%.1f s", seconds);
    return text;
}

static void print_time(FILE *file, const Forecast *forecast) {
    const Rehearsal *turn = &forecast->turn;
    char all[PROGRESS_NUMBER_BYTES], start[PROGRESS_NUMBER_BYTES], round[PROGRESS_NUMBER_BYTES],
        test[PROGRESS_NUMBER_BYTES], one[PROGRESS_NUMBER_BYTES];
    if (turn->trained == 0) {
        fputs("time            unknown: no client trains in the first round\n", file);
        return;
    }
    fprintf(file, "time            about %s: start %s, %u round%s of %s, %u test%s of %s (",
            about(all, forecast->seconds), about(start, forecast->start_seconds), forecast->rounds,
            plural(forecast->rounds), about(round, forecast->round_seconds), forecast->tests, plural(forecast->tests),
            about(test, forecast->test_seconds));
    if (turn->clients == 1)
        fprintf(file, "client %u: ", turn->client);
    else
        fprintf(file, "%u clients: ", turn->clients);
    fprintf(file, "%llu samples in %s)\n", (unsigned long long)turn->trained, about(one, turn->seconds));
}

void forecast_print(FILE *file, const Forecast *forecast) {
    print_memory(file, forecast);
    if (forecast->worker == 0) return;
    print_files(file, forecast);
    print_time(file, forecast);
}

Status forecast_check(const Forecast *forecast, const Options *options, Error *err) {
    char remedy[96];
    snprintf(remedy, sizeof remedy, "take --workers %u", forecast->most_workers);
    if (forecast->most_workers == 0)
        snprintf(remedy, sizeof remedy, "not even one fits: lower --batch-size or take a smaller --model");
    if (forecast->memory > forecast->available)
        return fail(err, STATUS_OS,
                    "--workers %u: the run takes about %.1f MB of memory, where %.1f MB are available; %s",
                    forecast->workers, megabytes(forecast->memory), megabytes(forecast->available), remedy);
    if (forecast->files <= forecast->disk_free) return STATUS_OK;
    return fail(err, STATUS_IO,
                "the run writes up to %.1f MB into %.200s, where %.1f MB are free; give another --out%s",
                megabytes(forecast->files), options->out[0] ? options->out : "runs", megabytes(forecast->disk_free),
                forecast->client_rows > 0 ? ", or fewer --clients or --rounds" : "");
}

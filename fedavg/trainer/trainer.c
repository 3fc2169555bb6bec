#include "trainer.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "fedavg/trainer/lines.h"
#include "fedavg/trainer/program.h"
#include "fedavg/trainer/reads.h"
#include "fedavg/trainer/witness.h"

enum { MOST_FORKS = 10 }; // for one start of a trainer

// While the worker waits for its trainer it makes no progress of its own, and the parent would take it for hung. The
// worker watches the trainer's silence itself (trainer_process_check_silence).
static void beat(void *context) {
    const Trainer *trainer = context;
    atomic_fetch_add(&trainer->memory->control->pulses[trainer->rank].progress, 1);
}

// A number of the answer; `otherwise` if it is not there.
static double number_of(const json_t *answer, const char *key, double otherwise) {
    const json_t *value = json_object_get(answer, key);
    return json_is_number(value) ? json_number_value(value) : otherwise;
}

static Status start_program(Trainer *trainer, int output, Error *err) {
    int fds[TRAINER_MOST_FDS];
    const size_t count = trainer_line_fds(fds, trainer->desk.fd, trainer->memory);
    return trainer_process_start(&trainer->process, &trainer->memory->config->trainer, fds, count, output, err);
}

// A fork knows everything but its rank: the nursery has had the rest in its own first line, and a fork has its memory.
static void make_first_line(JsonObject *line, const Trainer *trainer, bool forked) {
    const RunMemory *memory = trainer->memory;
    JsonObject desk;
    if (forked)
        trainer_line_open(line, &memory->config->trainer, memory->config->seed);
    else
        trainer_line_begin(line, &memory->config->trainer, memory, memory->config->seed);
    put_whole(line, "rank", trainer->rank);
    if (forked) return;
    put_whole(line, "parameters", (int64_t)memory->config->parameters);
    put_object(line, "desk", desk_told(&desk, &trainer->desk));
    trainer_line_put_tensors(line, &memory->tensors);
    put_whole(line, "witness", memory->config->trainer.witness.told);
}

// A worker's own start of the program has to train the first client to the loss of the first start. The weights are
// those that the program makes itself. Other first weights do no harm, since each turn begins with the run's.
static Status check_witness(Trainer *trainer, const json_t *ready, Error *err) {
    const RunConfig *config = trainer->memory->config;
    const TrainerWitness *then = &config->trainer.witness;
    const TrainerWait wait = {.silence_seconds = config->trainer.hang_seconds, .on_wait = beat, .context = trainer};
    JsonObject line;
    json_t *told;
    if (!then->told || number_of(ready, "made", 0) == 0) return STATUS_OK;
    const uint64_t first = trainer_witness_hash(trainer->desk.weights, config->parameters);
    if (first != then->first) return STATUS_OK;
    TrainerTurn turn = trainer_trial(trainer, NULL, then->client, then->batches);
    turn.rehearses = true;
    turn.keeps = trainer->desk.state != NULL;
    if (turn.keeps) memset(trainer->desk.state, 0, trainer->desk.state_bytes);
    if (turn.shifts) memset(trainer->desk.shift, 0, config->parameters * sizeof *trainer->desk.shift);
    trainer_turn_line(&line, trainer, &turn);
    TRY(trainer_process_send(&trainer->process, &line, &wait, err));
    TRY(trainer_process_receive(&told, &trainer->process, &wait, err));
    const TrainerWitness now = trainer_witness_of(told, first, trainer->desk.weights, config->parameters);
    trainer_note_reads(trainer->memory->control, &config->trainer, told);
    json_decref(told);
    desk_clear(&trainer->desk);
    return trainer_witness_judge(then, &now, &config->trainer, false, err);
}

static Status start_once(Trainer *trainer, bool forked, Error *err) {
    // A program may take minutes to start, as the first import on a cold disk does: it is not held against it. A fork
    // takes as long as the nursery, which the parent watches.
    const double seconds = forked ? 0 : trainer->memory->config->trainer.start_seconds;
    const TrainerWait wait = {.starts = true, .start_seconds = seconds, .on_wait = beat, .context = trainer};
    const int output = trainer->memory->control->has_output ? FD_OUTPUT : -1;
    JsonObject line;
    json_t *ready;
    TRY(forked ? trainer_process_fork(&trainer->process, FD_NURSERY, trainer->desk.fd, output, err)
               : start_program(trainer, output, err));
    atomic_store_explicit(&trainer->memory->control->guard_pids[trainer->rank], trainer->process.guard,
                          memory_order_relaxed);
    make_first_line(&line, trainer, forked);
    TRY(trainer_process_send(&trainer->process, &line, &wait, err));
    TRY(trainer_process_ready(&ready, &trainer->process, &wait, err));
    // Only the trainer knows its pid: the guard may have started a wrapper, and the nursery starts forks itself.
    const json_int_t pid = json_integer_value(json_object_get(ready, "pid"));
    atomic_store_explicit(&trainer->memory->control->trainer_pids[trainer->rank],
                          pid > 0 && pid <= INT32_MAX ? (int32_t)pid : 0, memory_order_relaxed);
    // A fork has the memory of a program that was looked at.
    Status status = forked ? STATUS_OK : trainer_program_check(&trainer->memory->config->trainer, ready, err);
    if (!forked && status == STATUS_OK) status = check_witness(trainer, ready, err);
    json_decref(ready);
    return status;
}

// A fork that dies at its start has mostly died with the nursery: either another one is coming, or there are no forks
// any more.
static Status start(Trainer *trainer, Error *err) {
    for (int tries = 1;; tries++) {
        const bool forked = atomic_load(&trainer->memory->control->forks);
        const uint64_t begin = clock_nanoseconds();
        const Status status = start_once(trainer, forked, err);
        if (status == STATUS_OK)
            log_debug("its trainer was ready after %.1f ms%s", clock_seconds_since(begin) * 1e3,
                      forked ? ", as a fork" : "");
        if (status == STATUS_OK || !forked || tries == MOST_FORKS) return status;
        trainer_process_end(&trainer->process, 0);
    }
}

Status trainer_open(Trainer *trainer, const RunMemory *memory, uint32_t rank, Error *err) {
    *trainer = (Trainer){.memory = memory, .rank = rank, .desk.fd = -1, .process = {.socket = -1, .leash = -1}};
    Error why;
    Status status = desk_create(&trainer->desk, memory, -1, err);
    if (status == STATUS_OK) {
        status = start(trainer, &why);
        if (status != STATUS_OK) fail(err, status, "its trainer: %s", why.message);
    }
    if (status != STATUS_OK) trainer_close(trainer);
    return status;
}

Status trainer_restart(Trainer *trainer, Error *err) {
    trainer_process_end(&trainer->process, 0); // no goodbye: it has failed
    return start(trainer, err);
}

void trainer_close(Trainer *trainer) {
    trainer_process_end(&trainer->process, TRAINER_GOODBYE_SECONDS);
    desk_free(&trainer->desk);
    *trainer = (Trainer){.desk.fd = -1, .process = {.socket = -1, .leash = -1}};
}

uint32_t trainer_client_from(const RunMemory *memory, uint32_t client) {
    uint32_t count;
    const uint32_t clients = memory->config->clients;
    for (uint32_t i = 0; i < clients; i++) {
        const uint32_t other = (client + i) % clients;
        partition_client(&memory->partition, other, &count);
        if (count > 0) return other;
    }
    return client;
}

// Samples of a test's batch: ten times as many as in training, up to EVALUATION_CHUNK. A forward pass of ten samples
// takes about as long as one of a hundred, and a test keeps nothing for a backward pass.
static uint32_t test_batch(const RunConfig *config) {
    const uint32_t size = config->training.batch_size;
    if (size >= EVALUATION_CHUNK) return size;
    return 10 * size < EVALUATION_CHUNK ? 10 * size : EVALUATION_CHUNK;
}

// The sample numbers are written where the desk has them: a turn may be the whole test set.
void trainer_add_test(Trainer *trainer, const uint32_t *indices, uint32_t first, uint32_t count) {
    Desk *desk = &trainer->desk;
    const uint32_t size = test_batch(trainer->memory->config);
    uint32_t *order = desk->order + desk->count;
    if (!desk_has_room(desk, count)) return;
    for (uint32_t i = 0; i < count; i++)
        order[i] = indices ? indices[i] : first + i;
    for (uint32_t done = 0; done < count; done += size)
        desk_add_batch(desk, order + done, count - done < size ? count - done : size);
}

TrainerTurn trainer_trial(Trainer *trainer, const float *first, uint32_t client, uint32_t batches) {
    const RunMemory *memory = trainer->memory;
    const Training *training = &memory->config->training;
    const uint32_t size = training->batch_size;
    Desk *desk = &trainer->desk;
    uint32_t count;
    const uint32_t *indices = partition_client(&memory->partition, client, &count);
    desk_clear(desk);
    if (first) memcpy(desk->weights, first, memory->config->parameters * sizeof *desk->weights);
    for (uint32_t b = 0; b < batches && b * size < count; b++)
        desk_add_batch(desk, indices + b * size, count - b * size < size ? count - b * size : size);
    return (TrainerTurn){.round = 1,
                         .key = 1,
                         .epochs = 1,
                         .client = client,
                         .lr = training->sgd.lr,
                         .momentum = training->sgd.momentum,
                         .weight_decay = training->sgd.weight_decay,
                         .shifts = desk->shift != NULL};
}

// [first, end) among the tensors.
static void put_still(JsonObject *line, const TensorList *list, const TrainerTurn *turn) {
    int64_t ends[2] = {0, 0};
    for (int t = 0; t < list->count; t++) {
        if (list->tensors[t].first < turn->still_first) ends[0] = t + 1;
        if (list->tensors[t].first < turn->still_end) ends[1] = t + 1;
    }
    put_wholes(line, "still", ends, 2);
}

// From the second round on all trainers are on the GPU, with what a turn needs.
static bool asks_gpu(const Trainer *trainer, const TrainerTurn *turn) {
    return trainer->rank == 0 && turn->round > 1 && !trainer->has_asked_gpu && !turn->tests;
}

void trainer_turn_line(JsonObject *line, Trainer *trainer, const TrainerTurn *turn) {
    const RunConfig *config = trainer->memory->config;
    json_begin(line);
    put_whole(line, "turn", (int64_t)++trainer->turns);
    put_text(line, "task", turn->tests ? "test" : "train");
    put_text(line, "part", turn->tests ? turn->tests : "train");
    put_whole(line, "round", turn->round);
    if (turn->client == UINT32_MAX)
        put_null(line, "client");
    else
        put_whole(line, "client", turn->client);
    put_whole(line, "epochs", turn->epochs);
    put_whole(line, "batch_size", config->training.batch_size);
    put_whole(line, "count", trainer->desk.count);
    put_whole(line, "batches", trainer->desk.batches);
    put_real(line, "lr", (double)turn->lr);
    put_real(line, "momentum", (double)turn->momentum);
    put_real(line, "weight_decay", (double)turn->weight_decay);
    put_real(line, "clip", config->training.clip);
    put_real(line, "pull", (double)turn->pull);
    put_whole(line, "shifts", turn->shifts);
    if (turn->measures) put_whole(line, "measures", 1);
    put_whole(line, "keeps", turn->keeps);
    put_whole(line, "viewed", turn->viewed);
    if (turn->still_first < turn->still_end) put_still(line, &trainer->memory->tensors, turn);
    put_text(line, "split", turn->of_test_set ? "test" : "train");
    // The seed depends on round, client and task alone. A turn that is done again, by whichever trainer, draws the
    // numbers that it drew before.
    put_whole(line, "seed",
              trainer_seed(rng_key(config->seed, RNG_TRAINER, turn->key, turn->client, turn->of_test_set)));
    if (turn->rehearses) put_whole(line, "rehearsal", 1);
    if (turn->checks) put_whole(line, "check", 1);
    if (!asks_gpu(trainer, turn)) return;
    put_whole(line, "asks_gpu", 1);
    trainer->has_asked_gpu = true;
}

void trainer_read_kept(char kept[TRAINER_KEPT_BYTES], const json_t *names) {
    const json_t *name;
    size_t i, used = 0;
    json_array_foreach(names, i, name) {
        const char *text = json_string_value(name);
        if (text && used < TRAINER_KEPT_BYTES)
            used += (size_t)snprintf(kept + used, TRAINER_KEPT_BYTES - used, "%s%s", i ? ", " : "", text);
    }
}

// A number written as text would count as missing, and a missing loss is allowed: the record would be wrong without a
// word. A double is exact up to 9e15: beyond that a count is a mistake of the program's. 0: any number.
static Status check_numbers(const json_t *answer, Error *err) {
    static const struct {
        const char *key;
        double most;
    } numbers[] = {{"turn", 0},      {"loss_sum", 0},   {"hits", 0},       {"counted", 0},
                   {"answers", 0},   {"samples", 9e15}, {"tokens", 9e15},  {"steps", 9e15},
                   {"travel", 1e30}, {"gradients", 0},  {"other_steps", 0}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const char *key = numbers[i].key;
        const double most = numbers[i].most, number = number_of(answer, key, 0);
        const json_t *value = json_object_get(answer, key);
        if (value && !json_is_null(value) && !json_is_number(value))
            return fail(err, STATUS_UNAVAILABLE, "it answered %s as something that is no number", key);
        if (most > 0 && !(number >= 0 && number <= most))
            return fail(err, STATUS_UNAVAILABLE, "it answered %s as %g", key, number);
    }
    return STATUS_OK;
}

// {"name": [sum, weight], ...}; a sum that is not finite is null. Sums and not means, because means of different
// numbers of samples cannot be joined: the parent adds up both over all turns, and divides once.
static Status read_metrics(MetricSums *metrics, const json_t *told, Error *err) {
    const char *name;
    json_t *pair;
    Error why;
    if (told && !json_is_object(told)) return fail(err, STATUS_DATA, "its metrics are no object {name: [sum, weight]}");
    json_object_foreach((json_t *)told, name, pair) {
        const json_t *sum = json_array_get(pair, 0), *weight = json_array_get(pair, 1);
        if (!(json_is_number(sum) || json_is_null(sum)) || !json_is_number(weight))
            return fail(err, STATUS_DATA, "its metric \"%.64s\" is no [sum, weight]", name);
        const double value = json_is_number(sum) ? json_number_value(sum) : (double)NAN;
        const Status status = metric_sums_add(metrics, name, value, json_number_value(weight), &why);
        if (status != STATUS_OK) return fail(err, status, "%s", why.message);
    }
    return STATUS_OK;
}

// Trainers that share a GPU are limited by its memory, and `--workers` is the number of them.
static void tell_gpu(const Trainer *trainer, const json_t *gpu) {
    const char *name = json_string_value(json_object_get(gpu, "name"));
    const double free_bytes = number_of(gpu, "free", 0), bytes = number_of(gpu, "bytes", 0), mib = 1 << 20;
    const int workers = (int)trainer->memory->config->workers;
    if (!name || !(free_bytes > 0) || !(bytes > free_bytes)) return;
    const double each = (bytes - free_bytes) / workers;
    log_info("%.64s: %d trainer%s and all other programs hold %.0f MiB, %.0f MiB are free: about %.0f more of such "
             "trainers fit (--workers)",
             name, workers, workers > 1 ? "s" : "", (bytes - free_bytes) / mib, free_bytes / mib,
             floor(free_bytes / each));
}

// F1 of each half of a test has a mean that is not F1 of the test. Once per run.
static void warn_of_parts(Control *control, const char *metric) {
    if (!metric || atomic_exchange(&control->parts_warned, 1) != 0) return;
    log_warning("%.64s of turn.metric is the mean over parts of the test, %d samples each: where no mean over parts is "
                "right, let serve(..., whole_test=True) give a test all of its samples",
                metric, EVALUATION_CHUNK);
}

enum { MOST_TOLD = 1 << 20 }; // test samples of a client: with a million such clients their sum still fits

static Status read_answer(TrainerAnswer *answer, const json_t *told, const Trainer *trainer, const TrainerTurn *turn,
                          Error *err) {
    const uint32_t count = trainer->desk.count;
    TRY(check_numbers(told, err));
    // A program that answers twice, or late, would give this turn the result of another.
    if (number_of(told, "turn", 0) != (double)trainer->turns)
        return fail(err, STATUS_UNAVAILABLE, "it answered turn %.0f, not turn %llu", number_of(told, "turn", 0),
                    (unsigned long long)trainer->turns);
    const double samples = number_of(told, "samples", 0), hits = number_of(told, "hits", 0);
    const double travel = number_of(told, "travel", 0);
    *answer = (TrainerAnswer){.loss_sum = number_of(told, "loss_sum", NAN),
                              .samples = (uint64_t)samples,
                              .tokens = (uint64_t)number_of(told, "tokens", 0),
                              .steps = (uint64_t)number_of(told, "steps", 0),
                              .travel = travel,
                              .other_steps = number_of(told, "other_steps", 0) != 0,
                              .gradients = number_of(told, "gradients", 0) != 0 && trainer->desk.gradients != NULL,
                              .steps_stated = travel > 0 || number_of(told, "counted", 0) == 0};
    trainer_note_reads(trainer->memory->control, &trainer->memory->config->trainer, told);
    trainer_read_kept(answer->kept, json_object_get(told, "kept"));
    TRY(read_metrics(&answer->metrics, json_object_get(told, "metrics"), err));
    tell_gpu(trainer, json_object_get(told, "gpu"));
    if (!trainer->memory->config->trainer.whole_test) // which gets parts in a check alone
        warn_of_parts(trainer->memory->control, json_string_value(json_object_get(told, "of_part")));
    // A training may use fewer samples, or some twice. A test of other samples than asked would be a wrong figure:
    // trying again would not mend it, therefore it ends the run.
    if (!turn->tests) return STATUS_OK;
    const bool is_told = trainer->memory->data.items.are_clients;
    const double most = is_told ? samples : count;
    if (is_told && !(samples >= 1 && samples <= MOST_TOLD))
        return fail(err, STATUS_DATA,
                    "its test of a client added %.0f samples; call turn.add(loss, samples), with 1 to "
                    "%d of them",
                    samples, MOST_TOLD);
    if (!is_told && samples != count)
        return fail(err, STATUS_DATA,
                    "its test added %.0f samples of %u: call turn.add(loss, len(y), hits=...) once per batch", samples,
                    count);
    if (!(hits >= 0 && hits <= most && hits == floor(hits)))
        return fail(err, STATUS_DATA, "its test counted %g hits in %.0f samples", hits, most);
    answer->judges = json_is_number(json_object_get(told, "hits"));
    answer->hits = (uint32_t)hits;
    const double answers = trainer->desk.answers ? number_of(told, "answers", 0) : 0;
    if (answers != 0 && answers != count)
        return fail(err, STATUS_DATA, "its test gave answers for %g of %u samples: call turn.answers once per batch",
                    answers, count);
    answer->answers = answers != 0;
    return STATUS_OK;
}

// The trainer works on the desk itself, so that after a failure the weights there are those of a half-trained client:
// the caller begins the turn again from the run's own.
Status trainer_ask(TrainerAnswer *answer, Trainer *trainer, const TrainerTurn *turn, Error *err) {
    const TrainerWait wait = {
        .silence_seconds = trainer->memory->config->trainer.hang_seconds, .on_wait = beat, .context = trainer};
    JsonObject line;
    json_t *told = NULL;
    if (trainer->desk.overfull) {
        desk_clear(&trainer->desk);
        return fail(err, STATUS_DATA, "its turn has more batches than its desk has room for");
    }
    trainer_turn_line(&line, trainer, turn);
    Status status = trainer_process_send(&trainer->process, &line, &wait, err);
    if (status == STATUS_OK) status = trainer_process_receive(&told, &trainer->process, &wait, err);
    if (status == STATUS_OK) status = read_answer(answer, told, trainer, turn, err);
    json_decref(told);
    // After a failure, too: the turn is done again, and its batches are added again.
    desk_clear(&trainer->desk);
    return status;
}

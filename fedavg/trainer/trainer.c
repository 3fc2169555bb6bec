#include "trainer.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/rng.h"
#include "fedavg/rules/world/walk.h"
#include "fedavg/trainer/lines.h"

enum { DESK_ALIGNMENT = 64 };

static size_t aligned(size_t bytes) {
    return (bytes + DESK_ALIGNMENT - 1) / DESK_ALIGNMENT * DESK_ALIGNMENT;
}

static Status map_desk(Trainer *trainer, size_t bytes, Error *err) {
    if (ftruncate(trainer->desk_fd, (off_t)bytes) != 0)
        return fail_errno(err, STATUS_OS, "a trainer's desk of %zu bytes", bytes);
    void *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, trainer->desk_fd, 0);
    if (mapped == MAP_FAILED) return fail_errno(err, STATUS_OS, "a trainer's desk of %zu bytes", bytes);
    trainer->desk = mapped;
    trainer->desk_bytes = bytes;
    return STATUS_OK;
}

// The largest training is known before the first turn, so that pointers into the desk never move: all samples of the
// data set belong to one client, for as many epochs as a turn can have. Pages that no turn uses are never allocated.
static Status create_desk(Trainer *trainer, bool has_shift, Error *err) {
    const RunConfig *config = trainer->memory->config;
    const Dataset *data = &trainer->memory->data;
    const size_t vector = aligned(config->parameters * sizeof(float));
    const uint32_t most = data->train.count > data->test.count ? data->train.count : data->test.count;
    uint32_t epochs = config->training.local_epochs;
    if (config->finetune_epochs > epochs) epochs = config->finetune_epochs;
    if (config->personal.epochs > epochs) epochs = config->personal.epochs;
    uint64_t samples = (uint64_t)most * epochs;
    const Chosen *schedule = &config->recipe.schedule;
    const uint64_t by_steps =
        walk_by_steps(schedule) ? (uint64_t)schedule->number[ROUNDS_STEPS] * config->training.batch_size : 0;
    if (by_steps > samples) samples = by_steps;
    const size_t list = aligned(samples * sizeof(uint32_t));
    trainer->shift_at = has_shift ? vector : 0;
    trainer->order_at = (has_shift ? 2 : 1) * vector;
    trainer->ends_at = trainer->order_at + list;
    trainer->desk_fd = memfd_create("sounder-desk", MFD_CLOEXEC);
    if (trainer->desk_fd < 0) return fail_errno(err, STATUS_OS, "no memory for a trainer's desk");
    TRY(map_desk(trainer, trainer->ends_at + list, err));
    trainer->order = (uint32_t *)(void *)(trainer->desk + trainer->order_at);
    trainer->ends = (uint32_t *)(void *)(trainer->desk + trainer->ends_at);
    trainer->weights = (float *)(void *)trainer->desk;
    if (has_shift) trainer->shift = (float *)(void *)(trainer->desk + trainer->shift_at);
    return STATUS_OK;
}

static void beat(void *context) {
    const Trainer *trainer = context;
    atomic_fetch_add(&trainer->memory->control->pulses[trainer->rank].progress, 1);
}

// A program may take minutes to start, as the first import on a cold disk does: it is not held against it.
static Status start(Trainer *trainer, Error *err) {
    const RunMemory *memory = trainer->memory;
    const RunConfig *config = memory->config;
    const TrainerWait wait = {.on_wait = beat, .context = trainer};
    int fds[TRAINER_MOST_FDS];
    JsonObject line, desk;
    json_t *ready;
    const size_t count = trainer_line_fds(fds, trainer->desk_fd, memory);
    TRY(trainer_process_start(&trainer->process, &config->trainer, fds, count, -1, err));
    trainer_line_begin(&line, &config->trainer, memory, config->seed);
    put_whole(&line, "rank", trainer->rank);
    put_whole(&line, "parameters", (int64_t)config->parameters);
    json_begin(&desk);
    put_whole(&desk, "fd", trainer->desk_fd);
    put_whole(&desk, "bytes", (int64_t)trainer->desk_bytes);
    put_whole(&desk, "weights", 0);
    if (trainer->shift) put_whole(&desk, "shift", (int64_t)trainer->shift_at);
    put_whole(&desk, "order", (int64_t)trainer->order_at);
    put_whole(&desk, "ends", (int64_t)trainer->ends_at);
    put_object(&line, "desk", &desk);
    trainer_line_put_tensors(&line, &memory->tensors);
    TRY(trainer_process_send(&trainer->process, &line, &wait, err));
    TRY(trainer_process_receive(&ready, &trainer->process, &wait, err));
    json_decref(ready);
    return STATUS_OK;
}

Status trainer_open(Trainer *trainer, const RunMemory *memory, uint32_t rank, bool has_shift, Error *err) {
    *trainer = (Trainer){.memory = memory, .rank = rank, .desk_fd = -1, .process = {.socket = -1, .leash = -1}};
    Error why;
    Status status = create_desk(trainer, has_shift, err);
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
    if (trainer->desk) munmap(trainer->desk, trainer->desk_bytes);
    if (trainer->desk_fd >= 0) close(trainer->desk_fd);
    *trainer = (Trainer){.desk_fd = -1, .process = {.socket = -1, .leash = -1}};
}

void trainer_add_batch(Trainer *trainer, const uint32_t *indices, uint32_t count) {
    memcpy(trainer->order + trainer->samples, indices, count * sizeof *indices);
    trainer->samples += count;
    trainer->ends[trainer->batches++] = trainer->samples;
}

// Any language holds a whole number of 53 bits exactly.
static int64_t seed_of(const RunConfig *config, const TrainerTurn *turn) {
    const RngKey key = rng_key(config->seed, RNG_TRAINER, turn->key, turn->client, turn->of_test_set);
    const RngBlock block = rng_block(key, 0, 0, 0, 0);
    return (int64_t)(((uint64_t)block.word[0] << 21 | block.word[1] >> 11) & ((UINT64_C(1) << 53) - 1));
}

static void make_line(JsonObject *line, Trainer *trainer, const TrainerTurn *turn) {
    const RunConfig *config = trainer->memory->config;
    json_begin(line);
    put_whole(line, "turn", (int64_t)++trainer->turns);
    put_text(line, "task", turn->task);
    put_text(line, "part", turn->part);
    put_whole(line, "round", turn->round);
    if (turn->client == UINT32_MAX)
        put_null(line, "client");
    else
        put_whole(line, "client", turn->client);
    put_whole(line, "epochs", turn->epochs);
    put_whole(line, "batch_size", config->training.batch_size);
    put_whole(line, "count", trainer->samples);
    put_whole(line, "batches", trainer->batches);
    put_real(line, "lr", (double)turn->lr);
    put_real(line, "momentum", (double)turn->momentum);
    put_real(line, "weight_decay", (double)turn->weight_decay);
    put_real(line, "clip", config->training.clip);
    put_real(line, "pull", (double)turn->pull);
    put_whole(line, "shifts", turn->shifts);
    put_text(line, "split", turn->of_test_set ? "test" : "train");
    put_whole(line, "seed", seed_of(config, turn));
}

// A number of the answer; `otherwise` if it is not there.
static double number_of(const json_t *answer, const char *key, double otherwise) {
    const json_t *value = json_object_get(answer, key);
    return json_is_number(value) ? json_number_value(value) : otherwise;
}

static Status read_answer(TrainerAnswer *answer, const json_t *told, const Trainer *trainer, const TrainerTurn *turn,
                          Error *err) {
    const uint32_t count = trainer->samples;
    if (number_of(told, "turn", 0) != (double)trainer->turns)
        return fail(err, STATUS_UNAVAILABLE, "it answered turn %.0f, not turn %llu", number_of(told, "turn", 0),
                    (unsigned long long)trainer->turns);
    const double samples = number_of(told, "samples", 0), hits = number_of(told, "hits", 0);
    const double steps = number_of(told, "steps", 0);
    const double travel = number_of(told, "travel", 0);
    if (!(steps >= 0 && steps <= 9e15)) return fail(err, STATUS_UNAVAILABLE, "it answered with %g steps", steps);
    if (!(samples >= 0 && samples <= 9e15)) return fail(err, STATUS_UNAVAILABLE, "it answered %g samples", samples);
    if (!(travel >= 0 && travel <= 1e30)) return fail(err, STATUS_UNAVAILABLE, "it answered a travel of %g", travel);
    *answer = (TrainerAnswer){.loss_sum = number_of(told, "loss_sum", NAN),
                              .samples = (uint64_t)samples,
                              .steps = (uint64_t)steps,
                              .travel = travel,
                              .steps_stated = travel > 0 || number_of(told, "counted", 0) == 0};
    if (strcmp(turn->task, "train") == 0) return STATUS_OK;
    if (samples != count)
        return fail(err, STATUS_DATA,
                    "its test added %.0f samples of %u: call turn.add(loss, len(y), hits=...) once per batch", samples,
                    count);
    if (!(hits >= 0 && hits <= count))
        return fail(err, STATUS_DATA, "its test counted %.0f hits in %u samples", hits, count);
    if (!json_object_get(told, "hits") && !trainer->memory->config->spec.squared_loss)
        return fail(err, STATUS_DATA,
                    "its test says nothing of accuracy: call turn.add(loss, len(y), hits=...) with the "
                    "number of samples that were right");
    answer->hits = (uint32_t)hits;
    return STATUS_OK;
}

Status trainer_ask(TrainerAnswer *answer, Trainer *trainer, const TrainerTurn *turn, Error *err) {
    const TrainerWait wait = {
        .silence_seconds = trainer->memory->config->trainer.hang_seconds, .on_wait = beat, .context = trainer};
    JsonObject line;
    json_t *told = NULL;
    make_line(&line, trainer, turn);
    Status status = trainer_process_send(&trainer->process, &line, &wait, err);
    if (status == STATUS_OK) status = trainer_process_receive(&told, &trainer->process, &wait, err);
    if (status == STATUS_OK) status = read_answer(answer, told, trainer, turn, err);
    json_decref(told);
    trainer->samples = trainer->batches = 0;
    return status;
}

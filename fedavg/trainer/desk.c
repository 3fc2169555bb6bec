#include "desk.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fedavg/rules/world/walk.h"

enum { DESK_ALIGNMENT = 64 };

// Sample numbers in the largest turn: all samples of the data set may belong to one client, for as many epochs as a
// turn can have.
static uint64_t most_samples(const RunMemory *memory) {
    const RunConfig *config = memory->config;
    const Dataset *data = &memory->data;
    const Chosen *schedule = &config->recipe.schedule;
    const uint32_t most = data->train.count > data->test.count ? data->train.count : data->test.count;
    uint32_t epochs = config->training.local_epochs;
    if (config->finetune_epochs > epochs) epochs = config->finetune_epochs;
    if (config->personal.epochs > epochs) epochs = config->personal.epochs;
    const uint64_t by_epochs = (uint64_t)most * epochs;
    const uint64_t by_steps =
        walk_by_steps(schedule) ? (uint64_t)schedule->number[ROUNDS_STEPS] * config->training.batch_size : 0;
    return by_steps > by_epochs ? by_steps : by_epochs;
}

// Takes the next part of so many bytes. desk->memory NULL: only counts them.
static void *part(Desk *desk, uint64_t bytes) {
    void *begin = desk->memory ? desk->memory + desk->bytes : NULL;
    desk->bytes += (bytes + DESK_ALIGNMENT - 1) / DESK_ALIGNMENT * DESK_ALIGNMENT;
    return begin;
}

static void place_parts(Desk *desk, const RunMemory *memory, bool has_shift) {
    const uint64_t vector = memory->config->parameters * sizeof(float);
    const uint64_t list = most_samples(memory) * sizeof(uint32_t);
    desk->bytes = 0;
    desk->weights = part(desk, vector);
    if (has_shift) desk->shift = part(desk, vector);
    desk->order = part(desk, list);
    desk->ends = part(desk, list);
}

static Status map(Desk *desk, Error *err) {
    desk->fd = memfd_create("sounder-desk", MFD_CLOEXEC);
    if (desk->fd < 0 || ftruncate(desk->fd, (off_t)desk->bytes) != 0)
        return fail_errno(err, STATUS_OS, "a trainer's desk of %zu bytes", desk->bytes);
    void *mapped = mmap(NULL, desk->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, desk->fd, 0);
    if (mapped == MAP_FAILED) return fail_errno(err, STATUS_OS, "a trainer's desk of %zu bytes", desk->bytes);
    desk->memory = mapped;
    return STATUS_OK;
}

Status desk_create(Desk *desk, const RunMemory *memory, bool has_shift, Error *err) {
    *desk = (Desk){.fd = -1};
    place_parts(desk, memory, has_shift);
    const Status status = map(desk, err);
    if (status == STATUS_OK)
        place_parts(desk, memory, has_shift);
    else
        desk_free(desk);
    return status;
}

void desk_free(Desk *desk) {
    if (desk->memory) munmap(desk->memory, desk->bytes);
    if (desk->fd >= 0) close(desk->fd);
    *desk = (Desk){.fd = -1};
}

void desk_add_batch(Desk *desk, const uint32_t *indices, uint32_t count) {
    memcpy(desk->order + desk->samples, indices, count * sizeof *indices);
    desk->samples += count;
    desk->ends[desk->batches++] = desk->samples;
}

void desk_clear(Desk *desk) {
    desk->samples = desk->batches = 0;
}

static void put_part(JsonObject *told, const char *key, const Desk *desk, const void *begin) {
    if (begin) put_whole(told, key, (int64_t)((const uint8_t *)begin - desk->memory));
}

JsonObject *desk_told(JsonObject *told, const Desk *desk) {
    json_begin(told);
    put_whole(told, "fd", desk->fd);
    put_whole(told, "bytes", (int64_t)desk->bytes);
    put_part(told, "weights", desk, desk->weights);
    put_part(told, "shift", desk, desk->shift);
    put_part(told, "order", desk, desk->order);
    put_part(told, "ends", desk, desk->ends);
    return told;
}

#include "desk.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fedavg/rules/attack/attack_rules.h"
#include "fedavg/rules/world/walk.h"

// A cache line, and what the widest vector loads want: no two parts share a line that both processes write.
enum { DESK_ALIGNMENT = 64 };

static uint32_t most_samples(const Dataset *data) {
    return data->train.count > data->test.count ? data->train.count : data->test.count;
}

// Sample numbers in the largest turn: all samples of the data set may belong to one client, for as many epochs as a
// turn can have.
static uint64_t longest_order(const RunMemory *memory) {
    const RunConfig *config = memory->config;
    const Chosen *schedule = &config->recipe.schedule;
    uint32_t epochs = config->training.local_epochs;
    if (config->finetune_epochs > epochs) epochs = config->finetune_epochs;
    if (config->personal.epochs > epochs) epochs = config->personal.epochs;
    if (config->personal.tune_epochs > epochs) epochs = config->personal.tune_epochs;
    const uint64_t by_epochs = (uint64_t)most_samples(&memory->data) * epochs;
    const uint64_t by_steps =
        walk_by_steps(schedule) ? (uint64_t)walk_round_steps(schedule) * config->training.batch_size : 0;
    const uint64_t longest = by_steps > by_epochs ? by_steps : by_epochs;
    return longest < UINT32_MAX ? longest : UINT32_MAX; // what Desk.count holds
}

void *desk_part(uint8_t *memory, size_t *used, uint64_t bytes) {
    void *begin = memory ? memory + *used : NULL;
    *used += (bytes + DESK_ALIGNMENT - 1) / DESK_ALIGNMENT * DESK_ALIGNMENT;
    return begin;
}

bool desk_has_shift(const RunMemory *memory) {
    const LocalRule *rule = memory->algorithm.local;
    return rule->shifts || rule->pull || rule->keeps || memory->config->personal.second;
}

static void *part(Desk *desk, uint64_t bytes) {
    return desk_part(desk->memory, &desk->bytes, bytes);
}

static void place_parts(Desk *desk, const RunMemory *memory) {
    const uint64_t vector = memory->config->parameters * sizeof(float);
    const uint64_t longest = longest_order(memory), list = longest * sizeof(uint32_t);
    desk->bytes = 0;
    desk->room = (uint32_t)longest;
    desk->weights = part(desk, vector);
    if (desk_has_shift(memory)) desk->shift = part(desk, vector);
    if (memory->algorithm.local->measures) desk->gradients = part(desk, vector);
    if (desk->state_bytes > 0) desk->state = part(desk, desk->state_bytes);
    desk->order = part(desk, list);
    desk->ends = part(desk, list);
    if (memory->config->trainer.answers)
        desk->answers = part(desk, (uint64_t)memory->data.test.count * (uint64_t)memory->data.classes * sizeof(float));
    if (desk->label_bytes == 0) return;
    // A view has one row for each sample number. A backdoor marks samples batch by batch: a sample may be plain in one
    // batch and marked in another, so each marked one gets a row of its own.
    const bool marks = memory->config->attack.row == ATTACK_BACKDOOR;
    const uint64_t rows = most_samples(&memory->data) + (marks ? longest : 0);
    desk->places = part(desk, list);
    desk->samples = part(desk, rows * desk->sample_bytes);
    desk->labels = part(desk, rows * desk->label_bytes);
}

// A run in which all clients see the data set as it is has no rows.
static Status plan_rows(Desk *desk, const RunMemory *memory, Error *err) {
    const RunConfig *config = memory->config;
    if (config->view.noise.row == VIEW_NOISE_NONE && config->view.drift.row == VIEW_DRIFT_NONE &&
        !attack_is_in_training(&config->attack))
        return STATUS_OK;
    desk->has_floats = config->spec.float_input;
    desk->sample_bytes = shape_size(config->spec.input) * (desk->has_floats ? sizeof(float) : 1);
    if (!dataset_has_samples(&memory->data.items)) desk->sample_bytes = 0;
    desk->label_bytes = memory->data.items.label_bytes;
    desk->row_of = calloc(most_samples(&memory->data), sizeof *desk->row_of);
    return desk->row_of ? STATUS_OK : fail(err, STATUS_OS, "no memory for a trainer's desk");
}

Status desk_map(uint8_t **memory, int *fd, size_t bytes, Error *err) {
    // A file without a name: it reaches the trainer as a descriptor, and vanishes with the last process that has it,
    // whichever is killed. It is sparse, and MAP_NORESERVE keeps the kernel from counting the room that no turn uses.
    // It is sealed: a program that cut it would take this process's memory away (SIGBUS).
    if (*fd < 0) *fd = memfd_create("sounder-desk", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    const bool is_sealed = *fd >= 0 && (fcntl(*fd, F_GET_SEALS) & seals) == seals; // of a program that starts again
    void *mapped = *fd >= 0 && (is_sealed || (ftruncate(*fd, (off_t)bytes) == 0 && fcntl(*fd, F_ADD_SEALS, seals) == 0))
                       ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, *fd, 0)
                       : MAP_FAILED;
    if (mapped == MAP_FAILED) return fail_errno(err, STATUS_OS, "a desk of %zu bytes", bytes);
    *memory = mapped;
    return STATUS_OK;
}

Status desk_create(Desk *desk, const RunMemory *memory, int fd, Error *err) {
    *desk = (Desk){.fd = fd};
    if (memory->config->training.optimizer_state == OPTIMIZER_KEPT)
        desk->state_bytes = memory->config->trainer.state_floats * sizeof(float);
    Status status = plan_rows(desk, memory, err);
    if (status == STATUS_OK) {
        place_parts(desk, memory);
        status = desk_map(&desk->memory, &desk->fd, desk->bytes, err);
    }
    if (status == STATUS_OK)
        place_parts(desk, memory);
    else
        desk_free(desk);
    return status;
}

void desk_free(Desk *desk) {
    free(desk->row_of);
    if (desk->memory) munmap(desk->memory, desk->bytes);
    if (desk->fd >= 0) close(desk->fd);
    *desk = (Desk){.fd = -1};
}

bool desk_has_room(Desk *desk, uint32_t count) {
    if (desk->batches < desk->room && count <= desk->room - desk->count) return true;
    desk->overfull = true;
    return false;
}

void desk_add_batch(Desk *desk, const uint32_t *indices, uint32_t count) {
    if (!desk_has_room(desk, count)) return;
    // The numbers may be in their place already: the whole test set is written there, and not copied.
    memmove(desk->order + desk->count, indices, count * sizeof *indices);
    desk->count += count;
    desk->ends[desk->batches++] = desk->count;
}

// Resets the numbers of this turn alone: row_of has an entry for each sample of the data set, and most turns use few.
void desk_clear(Desk *desk) {
    for (uint32_t i = 0; i < desk->count && desk->rows > 0; i++)
        desk->row_of[desk->order[i]] = 0;
    desk->count = desk->batches = desk->rows = 0;
    desk->overfull = false;
}

// A part that the run does not have is absent from the line, so that a program that needs it fails when it starts and
// not in the middle of a round.
void desk_put_part(JsonObject *told, const char *key, const uint8_t *memory, const void *part) {
    if (part) put_whole(told, key, (const uint8_t *)part - memory);
}

JsonObject *desk_told(JsonObject *told, const Desk *desk) {
    json_begin(told);
    put_whole(told, "fd", desk->fd);
    put_whole(told, "bytes", (int64_t)desk->bytes);
    desk_put_part(told, "weights", desk->memory, desk->weights);
    desk_put_part(told, "shift", desk->memory, desk->shift);
    desk_put_part(told, "gradients", desk->memory, desk->gradients);
    desk_put_part(told, "state", desk->memory, desk->state);
    desk_put_part(told, "order", desk->memory, desk->order);
    desk_put_part(told, "ends", desk->memory, desk->ends);
    desk_put_part(told, "answers", desk->memory, desk->answers);
    desk_put_part(told, "places", desk->memory, desk->places);
    desk_put_part(told, "samples", desk->memory, desk->samples);
    desk_put_part(told, "labels", desk->memory, desk->labels);
    if (desk->samples) put_text(told, "samples_type", desk->has_floats ? "f4" : "u1");
    return told;
}

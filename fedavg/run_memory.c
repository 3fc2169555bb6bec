#include "run_memory.h"

#include <string.h>
#include <unistd.h>

#include "base/clock.h"

static size_t round_up(size_t bytes, size_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

uint32_t run_slot_count(const RunConfig *config) {
    switch ((TrainAlgorithm)config->algorithm) {
    case TRAIN_FEDAVG:
        return config->workers;
    case TRAIN_HOGWILD:
        return config->clients;
    case TRAIN_SSGD:
        return config->clients + 1;
    }
    return 0;
}

void run_lasting_slots(uint32_t *first, uint32_t *end, const RunConfig *config) {
    *end = config->algorithm == TRAIN_FEDAVG ? 0 : run_slot_count(config);
    *first = config->algorithm == TRAIN_SSGD ? config->clients : 0;
}

// The slots that lie in the host's memory: all, or for a run on the card those that outlive a round.
static void host_slots(uint32_t *first, uint32_t *end, const RunConfig *config) {
    *first = 0;
    *end = run_slot_count(config);
    if (config->card.used) run_lasting_slots(first, end, config);
}

static size_t slot_value_bytes(const RunConfig *config) {
    return config->algorithm == TRAIN_FEDAVG ? sizeof(int64_t) : sizeof(float);
}

static void bind_control(RunMemory *memory) {
    memory->control = memory->control_segment.memory;
    memory->queue = (Queue *)((uint8_t *)memory->control_segment.memory + memory->control->config.queue_offset);
}

static void bind_weights(RunMemory *memory) {
    memory->weights = (float *)((uint8_t *)memory->weights_segment.memory + memory->control->config.weights_offset);
    memory->slots = memory->slots_segment.memory;
}

static Status bind_data(RunMemory *memory, Error *err) {
    const uint8_t *block = memory->data_segment.memory;
    TRY(dataset_view(&memory->data, block, memory->dataset_bytes, err));
    return partition_view(&memory->partition, block + memory->partition_offset, memory->partition_bytes, err);
}

static Status create_control(RunMemory *memory, RunPlan *plan, Error *err) {
    RunConfig *config = &plan->config;
    config->queue_offset = round_up(sizeof(Control), 64);
    TRY(segment_create(&memory->control_segment, "control", config->queue_offset + queue_bytes(plan->job_capacity),
                       err));
    *(RunConfig *)memory->control_segment.memory = *config;
    bind_control(memory);
    barrier_init(&memory->control->phase, config->workers + 1, plan->spins);
    queue_init(memory->queue, plan->job_capacity);
    segment_publish(&memory->control_segment);
    return STATUS_OK;
}

static Status read_data(RunMemory *memory, const DatasetSource *source, const PartitionSpec *partition, Error *err) {
    memory->dataset_bytes = source->block_bytes;
    memory->partition_offset = round_up(memory->dataset_bytes, 64);
    memory->partition_bytes = partition_block_bytes(partition, source->train_count);
    TRY(segment_create(&memory->data_segment, "data set", memory->partition_offset + memory->partition_bytes, err));
    uint8_t *block = memory->data_segment.memory;
    TRY(dataset_read(block, source, err));
    TRY(dataset_view(&memory->data, block, memory->dataset_bytes, err));
    TRY(partition_build(block + memory->partition_offset, partition, memory->data.train.labels,
                        memory->data.train.count, memory->data.classes, err));
    TRY(bind_data(memory, err));
    segment_publish(&memory->data_segment);
    return segment_reopen_readonly(&memory->data_fd, &memory->data_segment, err);
}

static const RunMemory EMPTY = {.control_segment.fd = -1,
                                .data_segment.fd = -1,
                                .weights_segment.fd = -1,
                                .slots_segment.fd = -1,
                                .data_fd = -1,
                                .weights_fd = -1};

Status run_memory_load(RunMemory *memory, const DatasetSource *source, const PartitionSpec *partition, Error *err) {
    *memory = EMPTY;
    Status status = read_data(memory, source, partition, err);
    if (status != STATUS_OK) run_memory_free(memory);
    return status;
}

static Status create_weights(RunMemory *memory, RunPlan *plan, Error *err) {
    RunConfig *config = &plan->config;
    config->weights_offset = plan->weights_header_bytes;
    TRY(segment_create_raw(&memory->weights_segment, "weights",
                           plan->weights_header_bytes + config->parameters * sizeof(float), err));
    memcpy(memory->weights_segment.memory, plan->weights_header, plan->weights_header_bytes);
    if (config->algorithm == TRAIN_FEDAVG)
        return segment_reopen_readonly(&memory->weights_fd, &memory->weights_segment, err);
    return STATUS_OK;
}

static Status create_slots(RunMemory *memory, RunPlan *plan, Error *err) {
    RunConfig *config = &plan->config;
    config->slot_bytes = round_up(config->parameters * slot_value_bytes(config), 64);
    uint32_t first, end;
    host_slots(&first, &end, config);
    // A segment has at least one byte.
    size_t bytes = first < end ? (end - first) * config->slot_bytes : 64;
    return segment_create(&memory->slots_segment, "slots", bytes, err);
}

Status run_memory_create(RunMemory *memory, RunPlan *plan, Error *err) {
    plan->config.dataset_bytes = memory->dataset_bytes;
    plan->config.partition_offset = memory->partition_offset;
    plan->config.partition_bytes = memory->partition_bytes;
    Status status;
    // The control segment comes last: it publishes the sizes and offsets that the others settle.
    TRY_GOTO(fail, create_weights(memory, plan, err));
    TRY_GOTO(fail, create_slots(memory, plan, err));
    TRY_GOTO(fail, create_control(memory, plan, err));
    segment_publish(&memory->slots_segment);
    bind_weights(memory);
    return STATUS_OK;
fail:
    run_memory_free(memory);
    return status;
}

Status run_memory_attach(RunMemory *memory, Error *err) {
    *memory = EMPTY;
    Status status;
    TRY_GOTO(fail, segment_map(&memory->control_segment, FD_CONTROL, SEGMENT_READ_WRITE, err));
    bind_control(memory);
    memory->dataset_bytes = memory->control->config.dataset_bytes;
    memory->partition_offset = memory->control->config.partition_offset;
    memory->partition_bytes = memory->control->config.partition_bytes;
    SegmentAccess weights_access =
        memory->control->config.algorithm == TRAIN_FEDAVG ? SEGMENT_READ : SEGMENT_READ_WRITE;
    TRY_GOTO(fail, segment_map(&memory->data_segment, FD_DATA, SEGMENT_READ, err));
    TRY_GOTO(fail, segment_map_raw(&memory->weights_segment, FD_WEIGHTS, weights_access, err));
    TRY_GOTO(fail, segment_map(&memory->slots_segment, FD_SLOTS, SEGMENT_READ_WRITE, err));
    bind_weights(memory);
    TRY_GOTO(fail, bind_data(memory, err));
    return STATUS_OK;
fail:
    run_memory_free(memory);
    return status;
}

void run_memory_worker_fds(int fds[FD_COUNT], const RunMemory *memory) {
    fds[FD_CONTROL - WORKER_FIRST_FD] = memory->control_segment.fd;
    fds[FD_DATA - WORKER_FIRST_FD] = memory->data_fd;
    fds[FD_WEIGHTS - WORKER_FIRST_FD] = memory->weights_fd >= 0 ? memory->weights_fd : memory->weights_segment.fd;
    fds[FD_SLOTS - WORKER_FIRST_FD] = memory->slots_segment.fd;
}

void run_memory_free(RunMemory *memory) {
    if (memory->weights_fd >= 0) close(memory->weights_fd);
    if (memory->data_fd >= 0) close(memory->data_fd);
    segment_free(&memory->slots_segment);
    segment_free(&memory->weights_segment);
    segment_free(&memory->data_segment);
    segment_free(&memory->control_segment);
    *memory = EMPTY;
}

int64_t *run_memory_sum(const RunMemory *memory, uint32_t rank) {
    return (int64_t *)(memory->slots + rank * memory->control->config.slot_bytes);
}

float *run_memory_floats(const RunMemory *memory, uint32_t index) {
    const RunConfig *config = &memory->control->config;
    uint32_t first, end;
    host_slots(&first, &end, config);
    return (float *)(memory->slots + (index - first) * config->slot_bytes);
}

void run_memory_note_start(const RunMemory *memory, uint32_t rank) {
    uint64_t *first = &memory->control->tallies[rank].first_sample_nanoseconds;
    if (*first == 0) *first = clock_nanoseconds();
}

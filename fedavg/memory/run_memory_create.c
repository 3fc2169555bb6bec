// Part of run_memory.h: creates, maps and frees the segments of a run, and finds the parts in them.
#include "run_memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "fedavg/memory/state.h"
#include "fedavg/rules/combine/combine_rules.h"

static size_t round_up(size_t bytes, size_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

// A part of the control segment; NULL for an offset of 0, where the run has no such part.
static void *control_part(const RunMemory *memory, uint64_t offset) {
    assert(offset < memory->control_segment.bytes && offset % 64 == 0);
    return offset > 0 ? (uint8_t *)memory->control_segment.memory + offset : NULL;
}

TraceBuffer *run_memory_trace(const RunMemory *memory, uint32_t rank) {
    const RunConfig *config = memory->config;
    if (config->trace_capacity == 0) return NULL;
    return control_part(memory, config->trace_offset + rank * trace_buffer_bytes(config->trace_capacity));
}

// The clock decides between a schedule's simulated and its real-time engine, so the engine comes from the
// configuration. So does an aggregator, which takes the place of the mean.
Algorithm run_algorithm(const RunConfig *config) {
    Algorithm algorithm = algorithm_of(&config->recipe);
    algorithm.engine = &engine_facts[config->engine];
    assert((uint32_t)config->engine < ENGINE_COUNT && algorithm.server && algorithm.combine && algorithm.local);
    if (config->aggregator.command[0]) algorithm.combine = &external_combine_rule;
    return algorithm;
}

// Pointers are derived from offsets in the segment, which each process maps at an address of its own. The algorithm is
// looked up again, for it points to tables of the program.
static void bind_control(RunMemory *memory) {
    memory->control = memory->control_segment.memory;
    memory->config = &memory->control->config;
    assert(memory->config->workers >= 1 && memory->config->workers <= MAX_WORKERS);
    assert(memory->config->queue_offset >= sizeof(Control)); // parts follow it
    memory->algorithm = run_algorithm(memory->config);
    memory->queue = control_part(memory, memory->config->queue_offset);
    memory->metrics = control_part(memory, memory->config->metrics_offset);
    memory->answers = control_part(memory, memory->config->answers_offset);
    memory->class_weights = control_part(memory, memory->config->balance_offset);
    memory->tensors = spec_tensors(&memory->config->spec);
    if (memory->config->tensor_count > 0)
        memory->tensors = (TensorList){.tensors = control_part(memory, memory->config->tensors_offset),
                                       .count = (int)memory->config->tensor_count};
    for (int t = 0; t < memory->tensors.count; t++)
        memory->tensors.freezes |= memory->tensors.tensors[t].frozen;
}

static void bind_weights(RunMemory *memory) {
    assert(memory->config->weights_offset % 64 == 0);
    assert(memory->config->weights_offset + memory->config->parameters * sizeof(float) <=
           memory->weights_segment.bytes);
    assert(memory->slots_segment.bytes >= slots_host_bytes(&memory->config->slots, memory->config->gpu.used));
    memory->weights = (float *)((uint8_t *)memory->weights_segment.memory + memory->config->weights_offset);
    memory->slots = memory->slots_segment.memory;
}

static Status bind_partition(RunMemory *memory, Error *err) {
    return partition_view(&memory->partition, memory->partition_segment.memory, memory->partition_segment.bytes, err);
}

// Appends a part to a segment planned up to *end, on cache lines of its own. Returns its offset, 0 for no bytes.
static uint64_t add_part(size_t *end, size_t bytes) {
    const size_t offset = *end;
    assert(offset % 64 == 0 && offset >= sizeof(Control));
    *end = round_up(offset + bytes, 64);
    return bytes > 0 ? offset : 0;
}

// Plans the parts of the control segment after Control. Returns its bytes. A net of layers has its tensors in its Spec
// and gives answers; a trainer lists its tensors and reports metrics, for which each job has a row of 2.8 kB.
static size_t lay_out_control(RunPlan *plan, const RunMemory *memory) {
    RunConfig *config = &plan->config;
    const bool masks = run_algorithm(config).traits.has[TRAIT_MASKS], lists = config->trainer.command[0];
    const uint32_t validation = memory->partition.validation_count, test = memory->data.test.count;
    const size_t jobs = plan->job_capacity,
                 answers = (validation > test ? validation : test) * spec_answers(&config->spec);
    size_t end = round_up(sizeof(Control), 64);
    config->trace_capacity = plan->trace_capacity;
    config->tensor_count = lists ? (uint32_t)memory->tensors.count : 0;
    config->queue_offset = add_part(&end, queue_bytes(plan->job_capacity));
    config->masked_offset = add_part(&end, masks ? sizeof(MaskedCohort) + jobs * sizeof(uint32_t) : 0);
    config->tensors_offset = add_part(&end, config->tensor_count * sizeof(ParameterTensor));
    config->metrics_offset = add_part(&end, lists ? jobs * sizeof(MetricSums) : 0);
    config->answers_offset = add_part(&end, lists ? 0 : answers * sizeof(Answer));
    config->balance_offset = add_part(&end, config->weighs_classes ? (size_t)memory->data.classes * sizeof(float) : 0);
    const size_t writers = config->trace_capacity > 0 ? config->workers + 1 : 0;
    config->trace_offset = add_part(&end, writers * trace_buffer_bytes(config->trace_capacity));
    return end;
}

RunMemorySizes run_memory_sizes(const RunMemory *memory, RunPlan *plan) {
    const RunConfig *config = &plan->config;
    const SlotPlan *slots = &config->slots;
    const uint64_t bytes =
        slots_host_bytes(slots, config->gpu.used) + slots_rows_bytes(slots) + slots_recorded_bytes(slots);
    // A segment has at least one byte.
    return (RunMemorySizes){.weights = plan->weights_header_bytes + config->parameters * sizeof(float),
                            .slots = bytes > 0 ? bytes : SLOT_ALIGNMENT,
                            .control = lay_out_control(plan, memory)};
}

static Status create_control(RunMemory *memory, RunPlan *plan, size_t bytes, Error *err) {
    const RunConfig *config = &plan->config;
    TRY(segment_create(&memory->control_segment, "control", bytes, err));
    *(RunConfig *)memory->control_segment.memory = *config;
    if (config->tensors_offset > 0)
        memcpy(control_part(memory, config->tensors_offset), memory->tensors.tensors,
               config->tensor_count * sizeof(ParameterTensor));
    bind_control(memory);
    for (uint32_t rank = 0; rank <= config->workers && plan->trace_capacity > 0; rank++)
        run_memory_trace(memory, rank)->capacity = plan->trace_capacity;
    barrier_init(&memory->control->phase, config->workers + 1, plan->spins);
    queue_init(memory->queue, plan->job_capacity);
    segment_publish(&memory->control_segment);
    return STATUS_OK;
}

// The spec has what the options say; owners, users and tests are the data set's, which is known only here.
static Status create_partition(RunMemory *memory, const PartitionSpec *spec, Error *err) {
    const Dataset *data = &memory->data;
    const uint16_t *classes = !dataset_has_targets(&data->items) ? data->train.labels : NULL;
    Segment *segment = &memory->partition_segment;
    PartitionSpec owned = *spec;
    owned.owners = data->train.owners;
    owned.users = data->users;
    owned.test_owners = data->test.owners;
    owned.test_samples = data->test.count;
    owned.data = data;
    owned.validation_last = data->validation_count;
    TRY(segment_create(segment, "partition", partition_block_bytes(&owned, data->train.count), err));
    TRY(partition_build(segment->memory, &owned, classes, data->train.count, data->classes, err));
    TRY(bind_partition(memory, err));
    segment_publish(segment);
    return segment_reopen_readonly(&memory->partition_fd, segment, err);
}

// A descriptor of 0 is a valid one, hence -1 where there is none: run_memory_free may follow any failure.
static void make_empty(RunMemory *memory) {
    *memory = (RunMemory){.control_segment.fd = -1,
                          .data_segment = NO_DATASET_SEGMENT,
                          .partition_segment.fd = -1,
                          .weights_segment.fd = -1,
                          .slots_segment.fd = -1,
                          .client_state.fd = -1,
                          .partition_fd = -1,
                          .weights_fd = -1};
}

// Data and partition are first, because the net's last layer needs the number of classes before its size is known.
Status run_memory_load(RunMemory *memory, const DatasetSource *source, const DatasetSegment *ready,
                       const PartitionSpec *partition, Error *err) {
    make_empty(memory);
    if (ready)
        memory->data_segment = *ready;
    else
        TRY(dataset_segment_load(&memory->data_segment, source, err));
    Status status = dataset_segment_view(&memory->data, &memory->data_segment, err);
    if (status == STATUS_OK) status = create_partition(memory, partition, err);
    if (status != STATUS_OK) run_memory_free(memory);
    return status;
}

Status run_memory_partition(RunMemory *memory, const PartitionSpec *partition, Error *err) {
    close(memory->partition_fd);
    memory->partition_fd = -1;
    segment_free(&memory->partition_segment);
    return create_partition(memory, partition, err);
}

// Workers get a read-only descriptor unless their engine writes the weights: a stray store then ends the worker,
// instead of changing the model for all clients of the round.
static Status create_weights(RunMemory *memory, RunPlan *plan, size_t bytes, Error *err) {
    RunConfig *config = &plan->config;
    config->weights_offset = plan->weights_header_bytes;
    TRY(segment_create_raw(&memory->weights_segment, "weights", bytes, err));
    memcpy(memory->weights_segment.memory, plan->weights_header, plan->weights_header_bytes);
    if (run_algorithm(config).engine->writes_weights) return STATUS_OK;
    return segment_reopen_readonly(&memory->weights_fd, &memory->weights_segment, err);
}

// A failure frees the data, too: the caller has then one thing to do, whichever segment could not be made.
Status run_memory_create(RunMemory *memory, RunPlan *plan, Error *err) {
    Status status;
    if (plan->config.population == 0) plan->config.population = plan->config.clients;
    if (plan->config.arriving == 0) plan->config.arriving = plan->config.population;
    const RunMemorySizes sizes = run_memory_sizes(memory, plan);
    assert(plan->config.clients >= 1 && plan->config.population <= plan->config.clients);
    assert(plan->config.node < plan->config.nodes);
    // The control segment is created last: it publishes the sizes and offsets of all others.
    TRY_GOTO(fail, create_weights(memory, plan, sizes.weights, err));
    TRY_GOTO(fail, segment_create(&memory->slots_segment, "slots", sizes.slots, err));
    if (plan->config.client_state.rows > 0)
        TRY_GOTO(fail, client_state_file_create(&memory->client_state, &plan->config.client_state,
                                                plan->client_state_folder, err));
    TRY_GOTO(fail, create_control(memory, plan, sizes.control, err));
    segment_publish(&memory->slots_segment);
    bind_weights(memory);
    TRY_GOTO(fail, state_begin(memory, err));
    return STATUS_OK;
fail:
    run_memory_free(memory);
    return status;
}

// Control is mapped first: it says how the other segments are to be mapped.
Status run_memory_attach(RunMemory *memory, Error *err) {
    make_empty(memory);
    Status status;
    TRY_GOTO(fail, segment_map(&memory->control_segment, FD_CONTROL, SEGMENT_READ_WRITE, err));
    bind_control(memory);
    SegmentAccess weights_access = memory->algorithm.engine->writes_weights ? SEGMENT_READ_WRITE : SEGMENT_READ;
    TRY_GOTO(fail, dataset_segment_attach(&memory->data_segment, (int[]){FD_DATA, FD_TRAIN, FD_TEST}, err));
    TRY_GOTO(fail, segment_map(&memory->partition_segment, FD_PARTITION, SEGMENT_READ, err));
    TRY_GOTO(fail, segment_map_raw(&memory->weights_segment, FD_WEIGHTS, weights_access, err));
    TRY_GOTO(fail, segment_map(&memory->slots_segment, FD_SLOTS, SEGMENT_READ_WRITE, err));
    if (memory->config->client_state.rows > 0)
        TRY_GOTO(fail,
                 client_state_file_map(&memory->client_state, &memory->config->client_state, FD_CLIENT_STATE, err));
    else
        close(FD_CLIENT_STATE);
    bind_weights(memory);
    TRY_GOTO(fail, dataset_segment_view(&memory->data, &memory->data_segment, err));
    TRY_GOTO(fail, bind_partition(memory, err));
    return STATUS_OK;
fail:
    run_memory_free(memory);
    return status;
}

// The descriptors have fixed numbers in a worker. A place for which the run has no file gets another file's descriptor,
// which the worker does not use.
void run_memory_worker_fds(int fds[FD_COUNT], const RunMemory *memory) {
    fds[FD_CONTROL - WORKER_FIRST_FD] = memory->control_segment.fd;
    int data[DATASET_FDS];
    dataset_segment_worker_fds(data, &memory->data_segment);
    fds[FD_DATA - WORKER_FIRST_FD] = data[0];
    fds[FD_TRAIN - WORKER_FIRST_FD] = data[1 + DATASET_TRAIN];
    fds[FD_TEST - WORKER_FIRST_FD] = data[1 + DATASET_TEST];
    fds[FD_PARTITION - WORKER_FIRST_FD] = memory->partition_fd;
    fds[FD_WEIGHTS - WORKER_FIRST_FD] = memory->weights_fd >= 0 ? memory->weights_fd : memory->weights_segment.fd;
    fds[FD_SLOTS - WORKER_FIRST_FD] = memory->slots_segment.fd;
    fds[FD_CLIENT_STATE - WORKER_FIRST_FD] =
        memory->client_state.fd >= 0 ? memory->client_state.fd : memory->partition_fd; // if none: unused
    fds[FD_NURSERY - WORKER_FIRST_FD] = memory->partition_fd;                          // unused, if the run has none
}

// The control segment is freed last: the configuration, which all others are read by, is in it.
void run_memory_free(RunMemory *memory) {
    if (memory->weights_fd >= 0) close(memory->weights_fd);
    if (memory->partition_fd >= 0) close(memory->partition_fd);
    world_files_free(&memory->world_files);
    schedule_free(&memory->schedule);
    owned_free(&memory->owned);
    client_state_file_free(&memory->client_state);
    segment_free(&memory->slots_segment);
    segment_free(&memory->weights_segment);
    segment_free(&memory->partition_segment);
    dataset_segment_free(&memory->data_segment);
    segment_free(&memory->control_segment);
    make_empty(memory);
}

float *run_memory_vector(const RunMemory *memory, uint32_t index) {
    return (float *)(memory->slots + slots_vector_offset(&memory->config->slots, index));
}

ServerState *run_memory_state(const RunMemory *memory, uint32_t index) {
    assert(index < memory->config->slots.states);
    return (ServerState *)(memory->slots + slots_state_offset(&memory->config->slots, index));
}

int64_t *run_memory_sum(const RunMemory *memory, uint32_t rank, uint32_t which) {
    assert(rank < memory->config->workers);
    return (int64_t *)(memory->slots + slots_sum_offset(&memory->config->slots, rank, which));
}

int64_t *run_memory_pending(const RunMemory *memory, uint32_t place) {
    assert(place < memory->config->slots.pending);
    return (int64_t *)(memory->slots + slots_pending_offset(&memory->config->slots, place));
}

float *run_memory_begun(const RunMemory *memory, uint32_t place) {
    if (!memory->algorithm.traits.has[TRAIT_NEEDS_BEGUN]) return NULL;
    return (float *)run_memory_pending(memory, memory->config->slots.pending / 2 + place);
}

// Jobs are dealt to the nodes by place, in turn: of every `nodes` places in a row this node has one.
static float *row_of(const RunMemory *memory, uint32_t place) {
    const RunConfig *config = memory->config;
    return (float *)(memory->slots + slots_host_bytes(&config->slots, config->gpu.used) +
                     place / config->nodes * config->slots.vector_bytes);
}

float *run_memory_row(const RunMemory *memory, uint32_t place) {
    assert(place / memory->config->nodes < memory->config->slots.rows);
    return row_of(memory, place);
}

// Recorded updates follow the rows, of which a run that records may have none.
float *run_memory_recorded(const RunMemory *memory, uint32_t place) {
    return (float *)((uint8_t *)row_of(memory, place) + slots_rows_bytes(&memory->config->slots));
}

MaskedCohort *run_memory_masked(const RunMemory *memory) {
    return control_part(memory, memory->config->masked_offset);
}

const NoiseKey *run_memory_secret(const RunMemory *memory) {
    return memory->config->noise_key > NOISE_KEY_OF_RUN ? &memory->control->noise_key : NULL;
}

// Without masks the list is NULL and its count is 0, by which callers know.
Masking run_memory_masking(const RunMemory *memory, uint32_t round) {
    const RunConfig *config = memory->config;
    const MaskedCohort *cohort = run_memory_masked(memory);
    return (Masking){.key = &memory->control->noise_key,
                     .round = round,
                     .clients = cohort ? cohort->clients : NULL,
                     .count = cohort ? cohort->count : 0,
                     .parameters = config->parameters,
                     .still_first = config->personal.first,
                     .still_end = config->personal.end};
}

const char *run_memory_remedy(const RunMemory *memory, size_t parameter) {
    if (memory->config->tensor_count > 0) return "; lower --lr"; // a trainer's net has no layers to ask
    return spec_tensor_remedy(&memory->config->spec, parameter);
}

Training run_memory_training(const RunMemory *memory) {
    Training training = memory->config->training;
    training.sgd.lr = memory->control->order.lr;
    return training;
}

double run_memory_mean_samples(const RunMemory *memory) {
    const RunConfig *config = memory->config;
    const uint64_t all = memory->partition.samples, arriving = config->arriving_samples;
    return (double)(arriving > 0 ? arriving : all) / config->arriving;
}

const MetricSums *run_memory_metrics(const RunMemory *memory, const Job *job) {
    return memory->metrics && job->metrics > 0 ? &memory->metrics[job - memory->queue->jobs] : NULL;
}

// The perplexity of what was counted in tokens, from the loss that is a mean over them. A trainer's own stays.
static void add_perplexity(MetricSums *all, const Queue *queue) {
    uint64_t tokens = 0;
    Error ignored;
    const double loss = metric_sums_value(all, "weighted_loss");
    for (uint32_t i = 0; i < queue->count; i++)
        tokens += queue->jobs[i].tokens;
    if (tokens > 0 && !isnan(loss) && !metric_sums_find(all, "perplexity") && all->count < METRICS_MOST)
        metric_sums_add(all, "perplexity", exp(loss) * (double)tokens, (double)tokens, &ignored);
}

// In the order of the jobs, which is one for any number of workers: sums of doubles depend on it.
Status run_memory_join_metrics(MetricSums *all, const RunMemory *memory, Error *err) {
    Error why;
    *all = (MetricSums){0};
    for (uint32_t i = 0; i < memory->queue->count; i++) {
        const MetricSums *of = run_memory_metrics(memory, &memory->queue->jobs[i]);
        const Status status = of ? metric_sums_join(all, of, &why) : STATUS_OK;
        if (status != STATUS_OK) return fail(err, status, "--trainer, all turns of a phase: %s", why.message);
    }
    add_perplexity(all, memory->queue);
    return STATUS_OK;
}

void run_memory_note_start(const RunMemory *memory, uint32_t rank) {
    assert(rank < memory->config->workers);
    uint64_t *first = &memory->control->tallies[rank].first_sample_nanoseconds;
    if (*first == 0) *first = clock_nanoseconds();
}

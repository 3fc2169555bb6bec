#include "aggregator.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"
#include "fedavg/rules/server/server_rules.h"
#include "fedavg/trainer/desk.h"
#include "fedavg/trainer/lines.h"
#include "fedavg/trainer/program.h"

static void place_parts(Aggregator *aggregator) {
    const RunConfig *config = aggregator->memory->config;
    uint8_t *desk = aggregator->desk;
    size_t *bytes = &aggregator->desk_bytes;
    *bytes = 0;
    // The answer has doubles: sums of many floats lose nothing that the exact sum of the engine would have kept.
    aggregator->answer = desk_part(desk, bytes, config->parameters * sizeof *aggregator->answer);
    if (config->aggregator_keeps > 0)
        aggregator->state =
            desk_part(desk, bytes, config->aggregator_keeps * config->parameters * sizeof *aggregator->state);
    aggregator->clients = desk_part(desk, bytes, config->cohort * sizeof *aggregator->clients);
    aggregator->shares = desk_part(desk, bytes, config->cohort * sizeof *aggregator->shares);
    aggregator->losses = desk_part(desk, bytes, config->cohort * sizeof *aggregator->losses);
    aggregator->samples = desk_part(desk, bytes, config->cohort * sizeof *aggregator->samples);
    aggregator->steps = desk_part(desk, bytes, config->cohort * sizeof *aggregator->steps);
    if (aggregator->memory->metrics)
        aggregator->metrics = desk_part(desk, bytes, METRICS_MOST * config->cohort * sizeof *aggregator->metrics);
}

static Status create_desk(Aggregator *aggregator, Error *err) {
    place_parts(aggregator);
    TRY(desk_map(&aggregator->desk, &aggregator->desk_fd, aggregator->desk_bytes, err));
    place_parts(aggregator);
    return STATUS_OK;
}

// Lines --------------------------------------------------------------------------------------------------------------

static void put_desk(JsonObject *line, const Aggregator *aggregator) {
    const uint8_t *memory = aggregator->desk;
    JsonObject desk;
    json_begin(&desk);
    put_whole(&desk, "fd", aggregator->desk_fd);
    put_whole(&desk, "bytes", (int64_t)aggregator->desk_bytes);
    desk_put_part(&desk, "answer", memory, aggregator->answer);
    desk_put_part(&desk, "state", memory, aggregator->state);
    desk_put_part(&desk, "clients", memory, aggregator->clients);
    desk_put_part(&desk, "shares", memory, aggregator->shares);
    desk_put_part(&desk, "losses", memory, aggregator->losses);
    desk_put_part(&desk, "metrics", memory, aggregator->metrics);
    if (aggregator->metrics) put_whole(&desk, "metric_rows", METRICS_MOST);
    desk_put_part(&desk, "samples", memory, aggregator->samples);
    desk_put_part(&desk, "steps", memory, aggregator->steps);
    put_object(line, "desk", &desk);
}

// Floats in a file: the first one's place, and bytes from one vector to the next.
static void put_floats(JsonObject *line, const char *key, int fd, size_t offset, uint64_t stride) {
    JsonObject place;
    json_begin(&place);
    put_whole(&place, "fd", fd);
    put_whole(&place, "offset", (int64_t)offset);
    if (stride > 0) put_whole(&place, "stride", (int64_t)stride);
    put_object(line, key, &place);
}

// The rows are the slots of the run's own memory and not copies: a cohort of a large model may take gigabytes.
static Status say_hello(Aggregator *aggregator, json_t **ready, Error *err) {
    const RunMemory *memory = aggregator->memory;
    const RunConfig *config = memory->config;
    // A program may take minutes to start, as the first import on a cold disk does: it is not held against it.
    const uint64_t begin = clock_nanoseconds();
    TrainerWait patient = aggregator->wait;
    const uint8_t *rows = (const uint8_t *)run_memory_row(memory, 0), *slots = memory->slots_segment.mapping;
    JsonObject line;
    patient.silence_seconds = 0;
    patient.starts = true;
    patient.start_seconds = aggregator->start_seconds;
    trainer_line_open(&line, &config->aggregator, config->seed);
    put_whole(&line, "aggregator", 1);
    trainer_line_put_options(&line, &config->aggregator);
    put_whole(&line, "parameters", (int64_t)config->parameters);
    put_whole(&line, "most", config->cohort);
    put_whole(&line, "keeps", config->aggregator_keeps);
    put_desk(&line, aggregator);
    put_floats(&line, "weights", memory->weights_fd, config->weights_offset, 0);
    put_floats(&line, "updates", aggregator->rows_fd, (size_t)(rows - slots), config->slots.vector_bytes);
    trainer_line_put_tensors(&line, &memory->tensors);
    TRY(trainer_process_send(&aggregator->process, &line, &aggregator->wait, err));
    TRY(trainer_process_ready(ready, &aggregator->process, &patient, err));
    if (aggregator->start_seconds == 0)
        aggregator->start_seconds = trainer_start_limit(&config->aggregator, clock_seconds_since(begin));
    return STATUS_OK;
}

// A program that is started again reads its files again: changed ones would make other bits.
static Status check_files(Aggregator *aggregator, const json_t *ready, Error *err) {
    TrainerPlan *plan = &aggregator->plan;
    if (plan->command[0]) return trainer_program_check(plan, ready, err);
    *plan = aggregator->memory->config->aggregator;
    return trainer_program_read(&plan->program, plan, ready, err);
}

static Status start(Aggregator *aggregator, Error *err) {
    const RunConfig *config = aggregator->memory->config;
    const int fds[] = {aggregator->desk_fd, aggregator->rows_fd, aggregator->memory->weights_fd};
    json_t *ready;
    TRY(trainer_process_start(&aggregator->process, &config->aggregator, fds, sizeof fds / sizeof *fds,
                              aggregator->output, err));
    TRY(say_hello(aggregator, &ready, err));
    aggregator->has_server = trainer_flag(ready, "server");
    const Status status = check_files(aggregator, ready, err);
    json_decref(ready);
    TRY(status);
    if (!aggregator->has_server || config->recipe.server.row == SERVER_ROW_average) return STATUS_OK;
    // Two server rules would both step the weights; which one the user means cannot be known.
    return fail(err, STATUS_USAGE,
                "its program has a server rule of its own, and --algorithm has server %s; leave one of the two out",
                server_rules[config->recipe.server.row]->text.name);
}

// Life ---------------------------------------------------------------------------------------------------------------

Status aggregator_open(Aggregator *aggregator, const RunMemory *memory, int output, const TrainerWait *wait,
                       Error *err) {
    const TrainerPlan *plan = &memory->config->aggregator;
    *aggregator = (Aggregator){.memory = memory,
                               .output = output,
                               .wait = *wait,
                               .process = {.socket = -1, .leash = -1},
                               .desk_fd = -1,
                               .rows_fd = -1};
    if (!plan->command[0]) return STATUS_OK;
    Error why;
    Status status = create_desk(aggregator, err);
    // The program gets a descriptor that cannot be written: a rule that changed a row in place would change what the
    // parent still reads, and what a second try of the turn begins with.
    if (status == STATUS_OK) status = segment_reopen_readonly(&aggregator->rows_fd, &memory->slots_segment, err);
    if (status == STATUS_OK) {
        status = start(aggregator, &why);
        if (status == STATUS_DATA) status = STATUS_UNAVAILABLE;    // its sentence, which is fatal anyway
        if (status != STATUS_OK && aggregator->process.socket < 0) // its sentence names the option
            fail(err, status, "%s", why.message);
        else if (status != STATUS_OK)
            fail(err, status, "%s %.200s: %s", plan->option, plan->command, why.message);
    }
    if (status != STATUS_OK) aggregator_close(aggregator);
    return status;
}

// The desk stays. The caller writes the state there again before it asks, since the failed turn may have changed it.
Status aggregator_restart(Aggregator *aggregator, Error *err) {
    trainer_process_end(&aggregator->process, 0);
    return start(aggregator, err);
}

void aggregator_close(Aggregator *aggregator) {
    if (!aggregator->memory) return;
    trainer_process_end(&aggregator->process, TRAINER_GOODBYE_SECONDS);
    if (aggregator->desk) munmap(aggregator->desk, aggregator->desk_bytes);
    if (aggregator->desk_fd >= 0) close(aggregator->desk_fd);
    if (aggregator->rows_fd >= 0) close(aggregator->rows_fd);
    *aggregator = (Aggregator){.process = {.socket = -1, .leash = -1}, .desk_fd = -1, .rows_fd = -1};
}

// Turns --------------------------------------------------------------------------------------------------------------

// Names travel with each turn, since a trainer's metrics are only known when its first answers are; values are on the
// desk.
static void put_metrics(JsonObject *line, const MetricSums *named) {
    const char *names[METRICS_MOST];
    for (uint32_t i = 0; i < named->count; i++)
        names[i] = named->all[i].name;
    if (named->count > 0) put_texts(line, "metrics", names, named->count);
}

Status aggregator_ask(Aggregator *aggregator, const char *task, uint32_t round, uint32_t count, Error *err) {
    const RunConfig *config = aggregator->memory->config;
    const uint64_t turn = ++aggregator->turns;
    JsonObject line;
    json_t *told;
    json_begin(&line);
    put_whole(&line, "turn", (int64_t)turn);
    put_text(&line, "task", task);
    put_whole(&line, "round", round);
    put_whole(&line, "count", count);
    put_real(&line, "lr", (double)run_memory_training(aggregator->memory).sgd.lr);
    put_metrics(&line, &aggregator->named);
    put_whole(&line, "seed", trainer_seed(rng_key(config->seed, RNG_AGGREGATOR, round, 0, 0)));
    TRY(trainer_process_send(&aggregator->process, &line, &aggregator->wait, err));
    TRY(trainer_process_receive(&told, &aggregator->process, &aggregator->wait, err));
    // An answer to another turn means that program and parent no longer agree on what is on the desk.
    const double answered = json_number_value(json_object_get(told, "turn"));
    json_decref(told);
    if (answered == (double)turn) return STATUS_OK;
    return fail(err, STATUS_UNAVAILABLE, "it answered turn %.0f, not turn %llu", answered, (unsigned long long)turn);
}

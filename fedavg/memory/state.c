#include "state.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fedavg/rules/send/send_rules.h"
#include "fedavg/rules/server/server_rules.h"

// The vectors ---------------------------------------------------------------------------------------------------------

static const char *const vector_names[STATE_VECTORS] = {
    [STATE_VELOCITY] = "velocity",     [STATE_COMMON] = "common",   [STATE_INITIAL] = "initial",
    [STATE_CENTER] = "center",         [STATE_MOMENTUM] = "common", [STATE_MET] = "common",
    [STATE_AGGREGATOR] = "aggregator", [STATE_CLUSTERS] = "cluster"};

uint32_t state_models(const RunConfig *config) {
    return config->personal.clusters > 0 ? config->personal.clusters : 1;
}

// Engines that write the weights have velocities only, all others have the rest.
static uint32_t count_of(const RunConfig *config, const Algorithm *algorithm, StateVector which) {
    const EngineFacts *engine = algorithm->engine;
    const uint32_t counts[STATE_VECTORS] = {[STATE_VELOCITY] = engine->client_is_worker ? config->clients : 1,
                                            [STATE_COMMON] = algorithm->server->tells,
                                            [STATE_INITIAL] = config->personal.second && config->begins_with_given,
                                            [STATE_CENTER] = algorithm->combine->remembers,
                                            [STATE_MOMENTUM] = config->training.optimizer_state == OPTIMIZER_AVERAGED,
                                            [STATE_MET] = engine->buffers && algorithm->local->replicas,
                                            [STATE_AGGREGATOR] = config->aggregator_keeps,
                                            [STATE_CLUSTERS] = state_models(config) - 1};
    return engine->writes_weights == (which == STATE_VELOCITY) ? counts[which] : 0;
}

static uint32_t index_of(const RunConfig *config, const Algorithm *algorithm, StateVector which) {
    assert(which <= STATE_VECTORS);
    uint32_t index = 0;
    for (int before = 0; before < (int)which; before++)
        index += count_of(config, algorithm, (StateVector)before);
    return index;
}

uint32_t state_vector(const RunMemory *memory, StateVector which) {
    return index_of(memory->config, &memory->algorithm, which);
}

float *state_model(const RunMemory *memory, uint32_t model) {
    assert(model < state_models(memory->config));
    return model == 0 ? memory->weights : run_memory_vector(memory, state_vector(memory, STATE_CLUSTERS) + model - 1);
}

float *state_tested_model(const RunMemory *memory) {
    return state_model(memory, memory->control->cluster);
}

// Only lockstep starts a round over. Its velocity is put back with the weights; a round of Hogwild is never repeated.
void state_plan(RunConfig *config) {
    const Algorithm algorithm = run_algorithm(config);
    const EngineFacts *engine = algorithm.engine;
    const uint32_t lasting = index_of(config, &algorithm, STATE_VECTORS);
    config->slots = (SlotPlan){.vectors = lasting,
                               .lasting = lasting,
                               .restored = engine->in_lockstep ? lasting : 0,
                               .states = engine->writes_weights ? 0 : algorithm.server->states};
}

// The rows ------------------------------------------------------------------------------------------------------------

// The first call only counts rows, because the table has no array yet.
static void add(StateTable *table, StateRow row) {
    assert(!table->rows || row.values || row.count == 0);
    if (table->rows) table->rows[table->count] = row;
    table->count++;
}

#define NUMBERED(row, ...) (snprintf((row).name, sizeof(row).name, "sounder." __VA_ARGS__), (row))

// Rows of one name make one note of a checkpoint. A number that is new to a note is appended: earlier checkpoints then
// end before it, and it keeps its first value.
static void add_numbers(StateTable *table, Control *control) {
    Goals *goals = &control->goals;
    const StateRow numbers[] = {
        {"sounder.totals", TENSOR_I64, STATE_ONE, 1, &control->totals.microseconds},
        {"sounder.totals", TENSOR_I64, STATE_ONE, 1, &control->totals.down_bytes},
        {"sounder.totals", TENSOR_I64, STATE_ONE, 1, &control->totals.up_bytes},
        {"sounder.goals", TENSOR_I32, STATE_ONE, 1, &goals->tested_round},
        {"sounder.goals", TENSOR_F64, STATE_ONE, 1, &goals->best},
        {"sounder.goals", TENSOR_I32, STATE_ONE, 1, &goals->best_round},
        {"sounder.goals", TENSOR_I32, STATE_ONE, 1, &goals->tests_since_best},
        {"sounder.goals", TENSOR_F64, STATE_ONE, 1, &goals->target},
        {"sounder.goals", TENSOR_I32, STATE_ONE, 1, &goals->target_round},
        {"sounder.goals", TENSOR_F64, STATE_ONE, 1, &goals->target_crossing},
        {"sounder.goals", TENSOR_I64, STATE_ONE, 1, &goals->target_totals.microseconds},
        {"sounder.goals", TENSOR_I64, STATE_ONE, 1, &goals->target_totals.down_bytes},
        {"sounder.goals", TENSOR_I64, STATE_ONE, 1, &goals->target_totals.up_bytes},
        {"sounder.goals", TENSOR_U8, STATE_ONE, sizeof goals->figure, goals->figure},
        {"sounder.clip", TENSOR_F64, STATE_ONE, 1, &control->clip},
        {"sounder.victim", TENSOR_I32, STATE_ONE, 1, &control->victim},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        add(table, numbers[i]);
    for (size_t i = 0; i < sizeof control->noise_key / sizeof(uint64_t); i++)
        if (control->config.noise_key != NOISE_KEY_NONE)
            add(table, (StateRow){STATE_NOISE_KEY, TENSOR_I64, STATE_ONE, 1, &control->noise_key.word[i]});
    if (state_models(&control->config) > 1)
        add(table, (StateRow){"sounder.cluster", TENSOR_I32, STATE_ONE, 1, &control->cluster});
}

// Names of vectors have their index in the slots, as checkpoints always had them.
static void add_vectors(StateTable *table, const RunMemory *memory) {
    const RunConfig *config = memory->config;
    const ServerRule *server = memory->algorithm.server;
    StateRow row = {.type = TENSOR_F32, .scope = STATE_PER_WEIGHT, .count = config->parameters};
    for (uint32_t which = 0, index = 0; which < STATE_VECTORS; which++) {
        for (uint32_t i = 0; i < count_of(config, &memory->algorithm, (StateVector)which); i++, index++) {
            row.values = run_memory_vector(memory, index);
            add(table, NUMBERED(row, "%s.%u", vector_names[which], index));
        }
    }
    row.type = server->sums ? TENSOR_I64 : TENSOR_F64;
    for (uint32_t s = 0; s < config->slots.states; s++) {
        row.values = run_memory_state(memory, s);
        add(table, NUMBERED(row, "server.%s.%u", server->text.name, s));
    }
}

// Only where the clients' watts are known, so that other checkpoints are as they always were.
static void add_energy(StateTable *table, const RunMemory *memory) {
    Control *control = memory->control;
    const StateRow rows[] = {
        {"sounder.joules", TENSOR_F64, STATE_ONE, 1, &control->totals.training_joules},
        {"sounder.joules", TENSOR_F64, STATE_ONE, 1, &control->totals.link_joules},
        {"sounder.joules", TENSOR_F64, STATE_ONE, 1, &control->goals.target_totals.training_joules},
        {"sounder.joules", TENSOR_F64, STATE_ONE, 1, &control->goals.target_totals.link_joules},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows && memory->world_files.powers; i++)
        add(table, rows[i]);
}

// Only where a trainer may count them, so that other checkpoints stay as they are.
static void add_failures(StateTable *table, const RunMemory *memory) {
    WorldTotals *totals = &memory->control->totals;
    if (memory->config->world.failures.mtbf == 0) return;
    add(table, (StateRow){"sounder.failures", TENSOR_I64, STATE_ONE, 1, &totals->useful_microseconds});
    add(table, (StateRow){"sounder.failures", TENSOR_I64, STATE_ONE, 1, &totals->replica_microseconds});
}

static void add_tokens(StateTable *table, const RunMemory *memory) {
    Control *control = memory->control;
    if (!memory->config->trainer.command[0]) return;
    add(table, (StateRow){"sounder.tokens", TENSOR_I64, STATE_ONE, 1, &control->totals.tokens});
    add(table, (StateRow){"sounder.tokens", TENSOR_I64, STATE_ONE, 1, &control->goals.target_totals.tokens});
}

static void add_clients(StateTable *table, const RunMemory *memory) {
    const uint32_t clients = memory->config->clients;
    if (memory->client_state_table)
        add(table, (StateRow){"sounder.kept", TENSOR_I32, STATE_PER_CLIENT_VECTOR, client_state_table_size(clients),
                              memory->client_state_table});
    if (memory->client_steps)
        add(table, (StateRow){"sounder.steps", TENSOR_I64, STATE_PER_CLIENT, clients, memory->client_steps});
    if (memory->client_notes)
        add(table, (StateRow){"sounder.clients", TENSOR_F64, STATE_PER_CLIENT, clients, memory->client_notes});
}

// First the waiting contributions, then the weights that they began with (if a rule uses them), then one flag each: 1
// if it was refused.
static void add_pending(StateTable *table, const RunMemory *memory) {
    const RunConfig *config = memory->config;
    const Schedule *schedule = &memory->schedule;
    const uint32_t pending = schedule->waiting_count;
    StateRow row = {.scope = STATE_PER_PENDING_UPDATE, .count = config->parameters};
    for (uint32_t i = 0; i < 2 * pending && config->slots.pending > 0; i++) {
        const uint32_t job = schedule->waiting[i % pending], place = schedule->jobs[job].pending;
        row.type = i < pending ? TENSOR_I64 : TENSOR_F32;
        row.values = i < pending ? (void *)run_memory_pending(memory, place) : (void *)run_memory_begun(memory, place);
        if (row.values) add(table, NUMBERED(row, "%s.%u", i < pending ? "waiting" : "begun", job));
    }
    StateRow flag = {"sounder.refused", TENSOR_U8, STATE_PER_PENDING_UPDATE, 0, NULL};
    add(table, flag); // so that the note is there without any, as checkpoints always had it
    flag.count = 1;
    for (uint32_t i = 0; i < pending; i++) {
        flag.values = &schedule->jobs[schedule->waiting[i]].refused;
        add(table, flag);
    }
}

// The order of this list is the order in checkpoints. Another order would be read as well, but files would differ.
static void add_all(StateTable *table, const RunMemory *memory) {
    add_numbers(table, memory->control);
    add_vectors(table, memory);
    add_clients(table, memory);
    add_pending(table, memory);
    add_energy(table, memory);
    add_tokens(table, memory);
    add_failures(table, memory);
}

Status state_open(StateTable *table, const RunMemory *memory, Error *err) {
    *table = (StateTable){0};
    add_all(table, memory);
    const uint32_t counted = table->count;
    assert(counted > 0);
    StateRow *rows = calloc(counted, sizeof *rows);
    *table = (StateTable){.rows = rows};
    if (!rows) return fail(err, STATUS_OS, "no memory for a list of what outlives a round");
    add_all(table, memory);
    assert(table->count == counted); // both passes list equal rows
    return STATUS_OK;
}

// Notes ---------------------------------------------------------------------------------------------------------------

static bool is_flag(const StateRow *row) {
    return row->type == TENSOR_U8 && row->count <= 1;
}

bool state_is_note(const StateRow *row) {
    return row->scope == STATE_ONE || is_flag(row);
}

char *state_write(char *text, const StateRow *row, bool first) {
    if (is_flag(row)) return text + (row->count > 0 ? sprintf(text, "%d", *(bool *)row->values) : 0);
    if (!first) *text++ = ' ';
    if (row->type == TENSOR_U8) return text + sprintf(text, "%s", (char *)row->values);
    if (row->type == TENSOR_F64) return text + sprintf(text, "%.17g", *(double *)row->values);
    return text +
           sprintf(text, "%" PRIu64, row->type == TENSOR_I64 ? *(uint64_t *)row->values : *(uint32_t *)row->values);
}

// Rows that the text does not have keep their values.
const char *state_read(const StateRow *row, const char *text) {
    if (row->count == 0 || *text == '\0') return text;
    if (is_flag(row)) {
        *(bool *)row->values = *text == '1';
        return text + 1;
    }
    text += strspn(text, " ");
    char *end = (char *)text + strcspn(text, " ");
    if (row->type == TENSOR_U8)
        snprintf(row->values, row->count, "%.*s", (int)(end - text), text);
    else if (row->type == TENSOR_F64)
        *(double *)row->values = strtod(text, &end);
    else if (row->type == TENSOR_I64)
        *(uint64_t *)row->values = strtoull(text, &end, 10);
    else
        *(uint32_t *)row->values = (uint32_t)strtoul(text, &end, 10);
    return end;
}

// The beginning -------------------------------------------------------------------------------------------------------

// Without weights to learn, the number of a client is its last loss: infinite for clients that have not trained, so
// that power-of-choice takes them first.
static Status begin_clients(RunMemory *memory, Error *err) {
    const RunConfig *config = memory->config;
    const World *world = &config->world;
    const bool weights = memory->algorithm.combine->learn,
               losses = world->sampling == SAMPLING_POWER_OF_CHOICE && world->candidates_by == CANDIDATES_LAST;
    const size_t clients = config->clients, table = client_state_table_size(config->clients);
    Owned *owned = &memory->owned;
    memory->client_state_table = own(owned, config->client_state.rows > 0 ? table : 0, sizeof(uint32_t));
    memory->client_steps = own(owned, config->training.privacy.clip > 0 ? clients : 0, sizeof(uint64_t));
    memory->client_notes = own(owned, weights || losses ? clients : 0, sizeof(double));
    if (owned->lacks_memory) return fail(err, STATUS_OS, "no memory for lists of %u clients", config->clients);
    if (memory->client_state_table) memory->client_state_table[0] = 1;
    for (size_t client = 0; client < clients && losses; client++)
        memory->client_notes[client] = INFINITY;
    return STATUS_OK;
}

Status state_begin(RunMemory *memory, Error *err) {
    const RunConfig *config = memory->config;
    assert(config->slots.lasting <= config->slots.vectors && config->slots.restored <= config->slots.lasting);
    memory->control->clip = config->recipe.clip.number[CLIP_NORM];
    for (uint32_t s = 0; s < config->slots.states; s++)
        server_begin(run_memory_state(memory, s), (int)s, &config->recipe.server, config->parameters);
    return begin_clients(memory, err);
}

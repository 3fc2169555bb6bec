#include "model_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/run/run_goals.h"
#include "base/log.h"
#include "fedavg/rules/combine_rules.h"
#include "fedavg/rules/server_rules.h"
#include "fedavg/rules/stale_rules.h"
#include "io/checkpoint.h"

enum { OWN_NOTES = 6, TOTALS_BYTES = 64 };

// What outlives a round besides the weights: vectors, what the server rule remembers, and what it does of clients.
static uint32_t lasting_count(const RunMemory *memory) {
    const RunConfig *config = memory->config;
    return config->slots.lasting + config->slots.states + (config->kept.rows > 0 ? 1u : 0u) +
           (memory->client_notes ? 1u : 0u);
}

// Behind the states: which row is whose, then the numbers of the clients.
static NamedTensor clients_tensor(const RunMemory *memory, bool rows) {
    const uint32_t clients = memory->config->clients;
    NamedTensor tensor = {.rank = 1, .shape = {(int64_t)(rows ? kept_table_size(clients) : clients)}};
    tensor.type = rows ? TENSOR_I32 : TENSOR_F64;
    tensor.values = rows ? (const void *)memory->kept_table : (const void *)memory->client_notes;
    snprintf(tensor.name, sizeof tensor.name, "sounder.%s", rows ? "kept" : "clients");
    return tensor;
}

static NamedTensor lasting_tensor(const RunMemory *memory, uint32_t index) {
    const RunConfig *config = memory->config;
    const uint32_t lasting = config->slots.lasting, state = index - lasting;
    NamedTensor tensor = {.rank = 1, .shape = {(int64_t)config->parameters}};
    if (index < lasting) {
        tensor.values = run_memory_vector(memory, index);
        const bool center = combine_rules[config->recipe.parts[PART_COMBINE].row]->remembers && index + 1 == lasting;
        const bool initial = config->personal.second && config->begins_with_given && index == INITIAL_VECTOR;
        const char *what = engine_facts[config->engine].writes_weights ? "velocity"
                           : center                                    ? "center"
                           : initial                                   ? "initial"
                                                                       : "common";
        snprintf(tensor.name, sizeof tensor.name, "sounder.%s.%u", what, index);
        return tensor;
    }
    if (state >= config->slots.states)
        return clients_tensor(memory, state == config->slots.states && config->kept.rows > 0);
    const ServerRule *server = server_rules[config->recipe.parts[PART_SERVER].row];
    tensor.type = server->sums ? TENSOR_I64 : TENSOR_F64;
    tensor.values = run_memory_state(memory, state);
    snprintf(tensor.name, sizeof tensor.name, "sounder.server.%s.%u", server->text.name, state);
    return tensor;
}

// The updates that wait for their step.
static uint32_t waiting_count(const RunMemory *memory) {
    return memory->schedule.count > 0 ? memory->schedule.waiting_count : 0;
}

// ... and behind them what they began with, where that is wanted.
static uint32_t waiting_tensor_count(const RunMemory *memory) {
    if (memory->config->slots.stash == 0) return 0;
    const Chosen *parts = memory->config->recipe.parts;
    return (stale_wants_begun(&parts[PART_STALE], &parts[PART_SCHEDULE]) ? 2 : 1) * waiting_count(memory);
}

static NamedTensor waiting_tensor(const RunMemory *memory, uint32_t index) {
    const uint32_t count = waiting_count(memory), which = memory->schedule.waiting[index % count];
    const ScheduledJob *job = &memory->schedule.jobs[which];
    NamedTensor tensor = {.rank = 1, .shape = {(int64_t)memory->config->parameters}};
    snprintf(tensor.name, sizeof tensor.name, "sounder.%s.%u", index < count ? "waiting" : "begun", which);
    tensor.values = run_memory_begun(memory, job->stash);
    if (index >= count) return tensor;
    tensor.type = TENSOR_I64;
    tensor.values = run_memory_stash(memory, job->stash);
    return tensor;
}

static Status restore_waiting(RunMemory *memory, uint32_t round, const Safetensors *file, Error *err) {
    Schedule *schedule = &memory->schedule;
    if (schedule->count == 0) return STATUS_OK;
    if (round > schedule->versions) return STATUS_OK; // which the caller refuses
    schedule_resume(schedule, round);
    const char *refused = safetensors_note(file, "sounder.refused");
    for (uint32_t i = 0; i < waiting_tensor_count(memory); i++) {
        const NamedTensor tensor = waiting_tensor(memory, i);
        TRY(checkpoint_load((void *)tensor.values, file, &tensor, err));
    }
    for (uint32_t i = 0; i < schedule->waiting_count; i++)
        schedule->jobs[schedule->waiting[i]].refused = refused && i < strlen(refused) && refused[i] == '1';
    return STATUS_OK;
}

// For each update that waits, 1 if it was refused; owned by the caller.
static char *write_refused(const RunMemory *memory) {
    const uint32_t count = waiting_count(memory);
    char *text = calloc((size_t)count + 1, 1);
    for (uint32_t i = 0; i < count && text; i++)
        text[i] = memory->schedule.jobs[memory->schedule.waiting[i]].refused ? '1' : '0';
    return text;
}

// path: of the caller's, for as long as the folder is used.
static Folder checkpoints_at(char path[RUN_PATH_BYTES], const RunFolder *folder) {
    snprintf(path, RUN_PATH_BYTES, "%s/checkpoints", folder->path);
    return (Folder){.fd = folder->checkpoints_fd, .path = path};
}

// A process that is killed before its first checkpoint is due leaves none, and the first round comes out the same.
static Status check_nothing_lost(const RunFolder *folder, const RunRecord *past, Error *err) {
    const uint32_t rounds = past->rounds_told, every = (uint32_t)past->checkpoint_every;
    if (run_folder_has(folder, "model.safetensors") || past->rounds_done > 0 || (every > 0 && rounds > every))
        return fail(err, STATUS_NOINPUT,
                    "%s has done %u round%s but holds no checkpoint to go on from; give another --out to begin anew",
                    folder->path, rounds, rounds == 1 ? "" : "s");
    if (rounds > 0)
        log_warning("%s has no checkpoint yet; its first %u round%s are done again", folder->path, rounds,
                    rounds == 1 ? "" : "s");
    return STATUS_OK;
}

static Status check_run(const Safetensors *file, const char *folder, uint32_t round, const RunRecord *record,
                        Error *err) {
    const char *run = safetensors_note(file, "sounder.run");
    if (run && strcmp(run, record->identity) == 0) return STATUS_OK;
    return fail(err, STATUS_DATA,
                "%s: the checkpoint of round %u is of another run (%.32s, this is %s): config.yaml, the data or the "
                "checkpoint was exchanged; give them back, or begin anew with another --out",
                folder, round, run ? run : "it does not say which", record->identity);
}

// A checkpoint of a version without totals counts from zero.
static void read_notes(Control *control, const Safetensors *file) {
    const char *note = safetensors_note(file, "sounder.totals"), *goals = safetensors_note(file, "sounder.goals");
    const char *clip = safetensors_note(file, "sounder.clip"), *victim = safetensors_note(file, "sounder.victim");
    WorldTotals *totals = &control->totals;
    if (clip) control->clip = strtod(clip, NULL);
    control->victim = victim ? (uint32_t)strtoul(victim, NULL, 10) : 0;
    goals_read(&control->goals, goals ? goals : "");
    *totals = (WorldTotals){0};
    if (note)
        sscanf(note, "%" SCNu64 " %" SCNu64 " %" SCNu64, &totals->microseconds, &totals->down_bytes, &totals->up_bytes);
}

static const char *write_totals(char text[TOTALS_BYTES], const WorldTotals *totals) {
    snprintf(text, TOTALS_BYTES, "%" PRIu64 " %" PRIu64 " %" PRIu64, totals->microseconds, totals->down_bytes,
             totals->up_bytes);
    return text;
}

// The table of the checkpoint that a run falls back on when the one it was resumed from turns out to be damaged. A
// checkpoint that it cannot fall back on needs no rows.
static Status read_table_before(RunMemory *memory, uint32_t round, const Folder *checkpoints, const RunRecord *record,
                                Error *err) {
    Safetensors file;
    bool found;
    const uint32_t clients = memory->config->clients;
    const size_t size = kept_table_size(clients);
    TRY(checkpoint_open_before(&file, &found, round, checkpoints, err));
    if (!found) return STATUS_OK;
    uint32_t *table = calloc(size, sizeof *table);
    Status status = table ? STATUS_OK : fail(err, STATUS_OS, "no memory for a table of %u clients", clients);
    if (status == STATUS_OK) status = check_run(&file, checkpoints->path, round, record, err);
    const NamedTensor tensor = clients_tensor(memory, true);
    if (status == STATUS_OK) status = checkpoint_load(table, &file, &tensor, err);
    if (status == STATUS_OK) status = kept_table_check(table, &memory->config->kept, clients, err);
    if (status == STATUS_OK)
        memory->kept_before = table;
    else
        free(table);
    safetensors_close(&file);
    return status == STATUS_DATA ? STATUS_OK : status;
}

// The checkpoint says which row is whose, the rows themselves lie beside it.
static Status check_rows(const RunMemory *memory, const RunFolder *folder, Error *err) {
    const uint64_t needed = memory->kept_table[0] * memory->config->kept.row_bytes;
    uint32_t client;
    if (needed > memory->kept.found_bytes)
        return fail(err, STATUS_DATA,
                    "%s/" KEPT_FILE_NAME
                    " is missing or has been cut off: it has %llu bytes of what clients keep, %llu are "
                    "needed; give it back, or begin anew with another --out",
                    folder->path, (unsigned long long)memory->kept.found_bytes, (unsigned long long)needed);
    if (kept_file_is_as_hashed(&client, memory->kept_table, &memory->kept, memory->config->clients)) return STATUS_OK;
    return fail(err, STATUS_DATA,
                "%s/" KEPT_FILE_NAME " is not as the checkpoint left it: what client %u keeps has changed; give the "
                "file back, or begin anew with another --out",
                folder->path, client);
}

static Status check_kept(RunMemory *memory, uint32_t round, const RunFolder *folder, const Folder *checkpoints,
                         const RunRecord *record, Error *err) {
    const RunConfig *config = memory->config;
    Error why;
    if (config->kept.rows == 0) return STATUS_OK;
    Status status = kept_table_check(memory->kept_table, &config->kept, config->clients, &why);
    if (status != STATUS_OK)
        fail(err, status,
             "%s: the checkpoint of round %u has a wrong table of " KEPT_FILE_NAME ": %s; remove that checkpoint to go "
             "on from the one before, or begin anew with another --out",
             checkpoints->path, round, why.message);
    if (status == STATUS_OK) status = check_rows(memory, folder, err);
    if (status == STATUS_OK) status = read_table_before(memory, round, checkpoints, record, err);
    if (status != STATUS_OK) kept_file_leave(&memory->kept);
    return status;
}

Status run_checkpoint_restore(RunMemory *memory, uint32_t *rounds_done, const Spec *spec, const RunFolder *folder,
                              const RunRecord *record, const RunRecord *past, Error *err) {
    char path[RUN_PATH_BYTES];
    Safetensors file;
    bool found;
    const Folder checkpoints = checkpoints_at(path, folder);
    uint32_t round;
    TRY(checkpoint_open_last(&file, &found, &round, &checkpoints, err));
    if (!found) return check_nothing_lost(folder, past, err);
    Status status = check_run(&file, path, round, record, err);
    if (status == STATUS_OK) status = model_load(memory->weights, spec, &file, path, err);
    *rounds_done = round;
    for (uint32_t i = 0; i < lasting_count(memory) && status == STATUS_OK; i++) {
        const NamedTensor tensor = lasting_tensor(memory, i);
        status = checkpoint_load((void *)tensor.values, &file, &tensor, err);
    }
    if (status == STATUS_OK) status = restore_waiting(memory, round, &file, err);
    if (status == STATUS_OK) status = check_kept(memory, round, folder, &checkpoints, record, err);
    if (status == STATUS_OK) read_notes(memory->control, &file);
    safetensors_close(&file);
    return status;
}

Status run_checkpoint_write(const RunFolder *folder, const RunMemory *memory, const Spec *spec, const ModelAbout *about,
                            const RunRecord *record, uint32_t round, Error *err) {
    const uint32_t lasting = lasting_count(memory), waiting = waiting_tensor_count(memory);
    size_t count = (size_t)spec->tensor_count + lasting + waiting;
    char *refused = write_refused(memory);
    NamedTensor *tensors = refused ? calloc(count, sizeof *tensors) : NULL;
    if (!tensors) free(refused);
    if (!tensors) return fail(err, STATUS_OS, "no memory for a checkpoint of %zu tensors", count);
    model_tensors(tensors, spec, memory->weights);
    for (uint32_t i = 0; i < lasting; i++)
        tensors[(size_t)spec->tensor_count + i] = lasting_tensor(memory, i);
    for (uint32_t i = 0; i < waiting; i++)
        tensors[(size_t)spec->tensor_count + lasting + i] = waiting_tensor(memory, i);
    ModelNotes model;
    char path[RUN_PATH_BYTES], totals[TOTALS_BYTES], goals[GOALS_TEXT_BYTES], clip[TOTALS_BYTES], victim[TOTALS_BYTES];
    snprintf(clip, sizeof clip, "%.17g", memory->control->clip);
    snprintf(victim, sizeof victim, "%" PRIu32, memory->control->victim);
    goals_write(goals, &memory->control->goals);
    TensorNote notes[OWN_NOTES + MODEL_NOTES] = {
        {"sounder.run", record->identity}, {"sounder.totals", write_totals(totals, &memory->control->totals)},
        {"sounder.goals", goals},          {"sounder.clip", clip},
        {"sounder.victim", victim},        {"sounder.refused", refused}};
    model_notes(&model, spec, about);
    memcpy(notes + OWN_NOTES, model.notes, sizeof model.notes);
    const Folder checkpoints = checkpoints_at(path, folder);
    if (memory->kept_table) kept_file_hash(memory->kept_table, &memory->kept, memory->config->clients);
    Status status = kept_file_sync(&memory->kept, err);
    if (status == STATUS_OK)
        status = checkpoint_write(&checkpoints, round, tensors, count, notes, OWN_NOTES + MODEL_NOTES, err);
    free(refused);
    free(tensors);
    // A folder that is elsewhere has the checkpoint; one that is gone is the reason why it cannot be written.
    TRY(run_folder_check(folder, err));
    return status;
}

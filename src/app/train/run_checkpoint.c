// Part of model_file.h: writes a run's state to a checkpoint, and reads it again.
#include "model_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "fedavg/memory/state.h"
#include "io/checkpoint.h"

static NamedTensor tensor_of(const StateRow *row) {
    NamedTensor tensor = {.type = row->type, .rank = 1, .shape = {(int64_t)row->count}, .values = row->values};
    snprintf(tensor.name, sizeof tensor.name, "%s", row->name);
    return tensor;
}

static bool begins_note(const StateTable *state, uint32_t row) {
    return row == 0 || strcmp(state->rows[row - 1].name, state->rows[row].name) != 0;
}

// Values that no note has stay those of a new run: the resumed run may have options that remember more.
static Status load_state(const StateTable *state, const Safetensors *file, Error *err) {
    const char *note = NULL;
    for (uint32_t i = 0; i < state->count; i++) {
        const StateRow *row = &state->rows[i];
        const NamedTensor tensor = tensor_of(row);
        if (begins_note(state, i)) note = safetensors_note(file, row->name);
        if (!state_is_note(row))
            TRY(checkpoint_load(row->values, file, &tensor, err));
        else if (note)
            note = state_read(row, note);
    }
    return STATUS_OK;
}

// path: buffer of the caller, which must live as long as the folder is used.
static Folder checkpoints_at(char path[RUN_PATH_BYTES], const RunFolder *folder) {
    snprintf(path, RUN_PATH_BYTES, "%s/checkpoints", folder->path);
    return (Folder){.fd = folder->checkpoints_fd, .path = path};
}

// A process that is killed before its first checkpoint leaves none; then the first rounds are simply repeated.
static Status check_nothing_lost(const RunFolder *folder, const RunRecord *past, uint32_t noise_key, Error *err) {
    const uint32_t rounds = past->rounds_told, every = (uint32_t)past->checkpoint_every;
    if (run_folder_has(folder, MODEL_NAME) || past->rounds_done > 0 || (every > 0 && rounds > every))
        return fail(err, STATUS_NOINPUT,
                    "%s has done %u round%s but holds no checkpoint to go on from%s; give another --out to begin anew",
                    folder->path, rounds, rounds == 1 ? "" : "s",
                    noise_key == NOISE_KEY_SYSTEM ? ", which alone had the key of its noise (--noise-key system)" : "");
    if (rounds > 0)
        log_warning("%s has no checkpoint yet; its first %u round%s done again%s", folder->path, rounds,
                    rounds == 1 ? " is" : "s are",
                    noise_key == NOISE_KEY_SYSTEM ? ", with another key of their noise, as the first one is lost" : "");
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

// Reads the client state table of the previous checkpoint, to which a run falls back if the last one turns out to be
// damaged. A previous checkpoint that is unusable needs no rows.
static Status read_table_before(RunMemory *memory, const StateRow *row, uint32_t round, const Folder *checkpoints,
                                const RunRecord *record, Error *err) {
    Safetensors file;
    bool found;
    const uint32_t clients = memory->config->clients;
    TRY(checkpoint_open_before(&file, &found, round, checkpoints, err));
    if (!found) return STATUS_OK;
    const NamedTensor tensor = tensor_of(row);
    uint32_t *table = own(&memory->owned, row->count, sizeof *table);
    Status status = table ? STATUS_OK : fail(err, STATUS_OS, "no memory for a table of %u clients", clients);
    if (!table) goto close;
    TRY_GOTO(close, check_run(&file, checkpoints->path, round, record, err));
    TRY_GOTO(close, checkpoint_load(table, &file, &tensor, err));
    TRY_GOTO(close, client_state_table_check(table, &memory->config->client_state, clients, err));
    memory->client_state_before = table;
close:
    safetensors_close(&file);
    return status == STATUS_DATA ? STATUS_OK : status;
}

// The checkpoint has the table of rows; the rows are in a file beside it.
static Status check_rows(const RunMemory *memory, const RunFolder *folder, Error *err) {
    const uint64_t needed = memory->client_state_table[0] * memory->config->client_state.row_bytes;
    uint32_t client;
    if (needed > memory->client_state.found_bytes)
        return fail(err, STATUS_DATA,
                    "%s/" CLIENT_STATE_FILE_NAME
                    " is missing or has been cut off: it has %llu bytes of what clients keep, %llu are needed; give it "
                    "back, or begin anew with another --out",
                    folder->path, (unsigned long long)memory->client_state.found_bytes, (unsigned long long)needed);
    if (client_state_file_is_as_hashed(&client, memory->client_state_table, &memory->client_state,
                                       memory->config->clients))
        return STATUS_OK;
    return fail(err, STATUS_DATA,
                "%s/" CLIENT_STATE_FILE_NAME " is not as the checkpoint left it: what client %u keeps has changed; "
                "give the file back, or begin anew with another --out",
                folder->path, client);
}

// row: the state row of the table.
static Status check_client_state(RunMemory *memory, const StateRow *row, uint32_t round, const RunFolder *folder,
                                 const Folder *checkpoints, const RunRecord *record, Error *err) {
    const RunConfig *config = memory->config;
    Error why;
    Status status = client_state_table_check(memory->client_state_table, &config->client_state, config->clients, &why);
    if (status != STATUS_OK)
        fail(err, status,
             "%s: the checkpoint of round %u has a wrong table of " CLIENT_STATE_FILE_NAME
             ": %s; remove that checkpoint to go on from the one before, or begin anew with another --out",
             checkpoints->path, round, why.message);
    if (status == STATUS_OK) status = check_rows(memory, folder, err);
    if (status == STATUS_OK) status = read_table_before(memory, row, round, checkpoints, record, err);
    if (status != STATUS_OK) client_state_file_leave(&memory->client_state);
    return status;
}

Status run_checkpoint_restore(RunMemory *memory, uint32_t *rounds_done, const RunFolder *folder,
                              const RunRecord *record, const RunRecord *past, Error *err) {
    char path[RUN_PATH_BYTES];
    Safetensors file;
    bool found;
    const Folder checkpoints = checkpoints_at(path, folder);
    uint32_t round;
    TRY(checkpoint_open_last(&file, &found, &round, &checkpoints, err));
    if (!found) return check_nothing_lost(folder, past, memory->config->noise_key, err);
    Status status = check_run(&file, path, round, record, err);
    if (status == STATUS_OK && memory->config->noise_key != NOISE_KEY_NONE && !safetensors_note(&file, STATE_NOISE_KEY))
        status =
            fail(err, STATUS_DATA,
                 "%s: the checkpoint of round %u has no key of the noise: give back the one that the run wrote, or "
                 "begin anew with another --out",
                 path, round);
    if (status == STATUS_OK) status = model_load(memory->weights, &memory->tensors, &file, path, err);
    *rounds_done = round;
    if (memory->schedule.count > 0 && round <= memory->schedule.versions) // the caller refuses more rounds
        schedule_resume(&memory->schedule, round);
    StateTable state = {0};
    if (status == STATUS_OK) status = state_open(&state, memory, err);
    if (status == STATUS_OK) status = load_state(&state, &file, err);
    for (uint32_t i = 0; i < state.count && status == STATUS_OK; i++)
        if (state.rows[i].scope == STATE_PER_CLIENT_VECTOR)
            status = check_client_state(memory, &state.rows[i], round, folder, &checkpoints, record, err);
    free(state.rows);
    safetensors_close(&file);
    return status;
}

Status run_checkpoint_prune(const RunFolder *folder, uint32_t round, Error *err) {
    char path[RUN_PATH_BYTES];
    const Folder checkpoints = checkpoints_at(path, folder);
    return checkpoint_prune(&checkpoints, round, err);
}

uint64_t run_checkpoint_bytes(const RunMemory *memory) {
    StateTable state;
    Error ignored;
    uint64_t bytes = memory->weights_segment.bytes; // with its header
    if (state_open(&state, memory, &ignored) != STATUS_OK) return bytes;
    for (uint32_t i = 0; i < state.count; i++)
        if (!state_is_note(&state.rows[i])) bytes += state.rows[i].count * tensor_type_bytes(state.rows[i].type);
    free(state.rows);
    return bytes;
}

Status run_checkpoint_write(const RunFolder *folder, const RunMemory *memory, const Spec *spec, const ModelAbout *about,
                            const RunRecord *record, uint32_t round, Error *err) {
    StateTable state;
    ModelNotes model;
    char path[RUN_PATH_BYTES];
    const Folder checkpoints = checkpoints_at(path, folder);
    TRY(state_open(&state, memory, err));
    // One allocation holds tensors, notes, and the texts of the notes.
    const size_t most = (size_t)memory->tensors.count + MODEL_NOTES + state.count + 1;
    size_t count = (size_t)memory->tensors.count, note_count = 0;
    NamedTensor *tensors = calloc(most, sizeof *tensors + sizeof(TensorNote) + STATE_TEXT_BYTES);
    if (!tensors) free(state.rows);
    if (!tensors) return fail(err, STATUS_OS, "no memory for a checkpoint of %zu tensors and notes", most);
    TensorNote *notes = (TensorNote *)(void *)(tensors + most);
    char *text = (char *)(notes + most);
    model_tensors(tensors, &memory->tensors, memory->weights);
    notes[note_count++] = (TensorNote){"sounder.run", record->identity};
    for (uint32_t i = 0; i < state.count; i++) {
        const StateRow *row = &state.rows[i];
        const bool is_note = state_is_note(row), begins = begins_note(&state, i);
        if (!is_note) tensors[count++] = tensor_of(row);
        if (is_note && begins) notes[note_count++] = (TensorNote){row->name, ++text};
        if (is_note) text = state_write(text, row, begins);
    }
    model_notes(&model, spec, about);
    memcpy(notes + note_count, model.notes, model.count * sizeof *model.notes);
    if (memory->client_state_table)
        client_state_file_hash(memory->client_state_table, &memory->client_state, memory->config->clients);
    Status status = client_state_file_sync(&memory->client_state, err);
    if (status == STATUS_OK)
        status = checkpoint_write(&checkpoints, round, tensors, count, notes, note_count + model.count,
                                  memory->config->noise_key != NOISE_KEY_NONE, err);
    free(tensors);
    free(state.rows);
    // If the folder was moved, it has the checkpoint; if it was removed, that is why writing failed.
    TRY(run_folder_check(folder, err));
    return status;
}

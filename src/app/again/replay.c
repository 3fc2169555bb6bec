// Part of command.h: `sounder replay RUN --round R --client K` trains one client of one round again, in one process.
//
// The run's last checkpoint before the round gives the model. An ordinary run in a temporary folder starts from it and
// repeats the rounds in between. The client is then trained by the function that workers use, and the result is
// compared with the run's record.
#include "app/command.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/look/past_run.h"
#include "app/options/option_table.h"
#include "app/train/reopened_run.h"
#include "app/train/run_trust.h"
#include "app/train/temporary_folder.h"
#include "fedavg/parent/rounds.h"
#include "fedavg/rules/attack/attack_rules.h"
#include "fedavg/rules/world/walk.h"
#include "fedavg/worker/client.h"
#include "io/metrics.h"
#include "nn/kernels.h"

typedef struct Replay {
    ReplayOptions options;
    TemporaryFolder folder;
    json_t *start, *told;   // owned: the first start line; the client's line of that round
    ReopenedRun run;        // in the temporary folder
    double *losses;         // owned (steps): loss of each step
    size_t steps, capacity; // steps: 0 with a trainer, which does not tell the losses of steps
} Replay;

// The record of the run -----------------------------------------------------------------------------------------------

static json_int_t number_of(const json_t *line, const char *key) {
    return json_integer_value(json_object_get(line, key));
}

static Status note_line(void *context, json_t *line, Error *err) {
    (void)err;
    Replay *self = context;
    const ReplayOptions *asked = &self->options;
    if (!self->start && metrics_is(line, "start")) self->start = json_incref(line);
    if (metrics_is(line, "start") || number_of(line, "round") != asked->round ||
        number_of(line, "client") != asked->client)
        return STATUS_OK;
    json_decref(self->told);
    self->told = json_incref(line);
    return STATUS_OK;
}

static Status read_record(Replay *self, Error *err) {
    static const char *const types[] = {"start", "client", NULL};
    const ReplayOptions *asked = &self->options;
    TRY(metrics_visit_run(asked->run, types, note_line, self, err));
    if (!self->start)
        return fail(err, STATUS_DATA, "%.200s/metrics.jsonl does not tell how the run began", self->options.run);
    if (self->told) return STATUS_OK;
    return fail(err, STATUS_USAGE, "--client %d: did not train in round %d of %.200s; its metrics.jsonl tells who did",
                asked->client, asked->round, self->options.run);
}

// The folder for a while ----------------------------------------------------------------------------------------------

static Status copy_file(const char *to, const char *from, Error *err) {
    int in = open(from, O_RDONLY | O_CLOEXEC);
    if (in < 0) return fail_errno(err, STATUS_NOINPUT, "%.200s cannot be opened", from);
    int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    ssize_t copied = out < 0 ? -1 : 1;
    while (copied > 0)
        copied = sendfile(out, in, NULL, 1 << 30);
    Status status = copied < 0 ? fail_errno(err, STATUS_IO, "%.200s cannot be copied to %.200s", from, to) : STATUS_OK;
    close(in);
    if (out >= 0) close(out);
    return status;
}

// *round: round of the last checkpoint before the asked round; 0 if there is none, or if clients keep state, because a
// checkpoint alone does not contain the large file of client states.
static Status find_checkpoint(const Replay *self, uint32_t *round, Error *err) {
    char path[RUN_PATH_BYTES];
    *round = 0;
    snprintf(path, sizeof path, "%.4000s/" CLIENT_STATE_FILE_NAME, self->options.run);
    if (access(path, F_OK) == 0) return STATUS_OK;
    snprintf(path, sizeof path, "%.4000s/checkpoints", self->options.run);
    DIR *folder = opendir(path);
    if (!folder) return fail_errno(err, STATUS_NOINPUT, "%.200s cannot be opened", path);
    for (struct dirent *entry; (entry = readdir(folder));) {
        uint32_t found;
        int end = 0;
        if (sscanf(entry->d_name, "round-%u.safetensors%n", &found, &end) != 1 || entry->d_name[end]) continue;
        if (found < (uint32_t)self->options.round && found > *round) *round = found;
    }
    closedir(folder);
    return STATUS_OK;
}

// Writes the start line alone: the folder then looks like that of a run which has just begun, or has reached the
// checkpoint.
static Status write_start(const Replay *self, Error *err) {
    char path[RUN_PATH_BYTES], *line;
    size_t bytes;
    snprintf(path, sizeof path, "%s/metrics.jsonl", self->folder.path);
    JsonObject start = {.root = json_incref(self->start)};
    TRY(json_text(&line, &bytes, &start, JSON_COMPACT, path, err));
    const FilePart parts[] = {{line, bytes}, {"\n", 1}};
    const Status status = file_write(path, parts, 2, err);
    free(line);
    return status;
}

// round: of the checkpoint. Before any round is trained again.
static Status check_inputs(const Replay *self, uint32_t round, Error *err) {
    PastRun run;
    InputChange change;
    InputsToday today = {.goes_on = round > 0};
    TRY(past_run_read(&run, self->options.run, err));
    const bool changed = past_run_changed(&change, &run, &today);
    inputs_today_free(&today);
    past_run_free(&run);
    return changed ? run_input_refuse(&change, self->options.run, "", STATUS_DATA, err) : STATUS_OK;
}

static Status make_folder(Replay *self, uint32_t *round, Error *err) {
    char to[RUN_PATH_BYTES], from[RUN_PATH_BYTES];
    TRY(temporary_folder_make(&self->folder, "replay", err));
    snprintf(to, sizeof to, "%s/checkpoints", self->folder.path);
    if (mkdir(to, 0700) != 0) return fail_errno(err, STATUS_CANTCREATE, "%s cannot be made", to);
    snprintf(to, sizeof to, "%s/config.yaml", self->folder.path);
    snprintf(from, sizeof from, "%.4000s/config.yaml", self->options.run);
    TRY(copy_file(to, from, err));
    TRY(write_start(self, err));
    TRY(find_checkpoint(self, round, err));
    if (*round == 0) return STATUS_OK;
    snprintf(to, sizeof to, "%s/checkpoints/round-%06u.safetensors", self->folder.path, *round);
    snprintf(from, sizeof from, "%.4000s/checkpoints/round-%06u.safetensors", self->options.run, *round);
    return copy_file(to, from, err);
}

// Trains the rounds between the checkpoint and the asked one, for the model only.
static Status train_before(const Replay *self, uint32_t done, int *exit_code, Error *err) {
    char rounds[16];
    snprintf(rounds, sizeof rounds, "%d", self->options.round - 1);
    if (self->options.round - 1 == (int)done) return STATUS_OK;
    printf("rounds %u to %s are trained again\n", done + 1, rounds);
    fflush(stdout);
    char *arguments[] = {"--resume",
                         (char *)self->folder.path,
                         "--rounds",
                         rounds,
                         "--checkpoint-every",
                         "0",
                         "--eval-every",
                         "0",
                         "--quiet",
                         NULL};
    return command_train(9, arguments, exit_code, err);
}

// The client ----------------------------------------------------------------------------------------------------------

static void note_step(void *context, double loss) {
    Replay *self = context;
    if (self->steps < self->capacity) self->losses[self->steps++] = loss;
}

// Creates the run's shared memory for one process, with the model at the beginning of the round.
static Status set_up(Replay *self, Error *err) {
    uint32_t round;
    TRY(reopened_run_open(&self->run, self->folder.path, self->options.run, "there is nothing to replay", err));
    if (self->options.round == 1) return STATUS_OK;
    TRY(reopened_run_restore(&self->run, &round, err));
    rounds_go_on(&self->run.memory, (uint32_t)self->options.round);
    if (round == (uint32_t)self->options.round - 1) return STATUS_OK;
    return fail(err, STATUS_SOFTWARE, "the model of round %d is missing, that of round %u is there",
                self->options.round - 1, round);
}

static Status post_job(Job **posted, Replay *self, Error *err) {
    Job *job = *posted = queue_post(self->run.memory.queue);
    if (!job) return fail(err, STATUS_SOFTWARE, "the queue has no room for the client's job");
    job->client = (uint32_t)self->options.client;
    partition_client(&self->run.memory.partition, job->client, &job->count);
    job->epochs = (uint32_t)number_of(self->told, "epochs");
    job->visit = (uint32_t)number_of(self->told, "visit");
    // Wrong labels and marks change the training; other attacks change only the trained update.
    job->attacks = attack_is_in_training(&self->run.memory.config->attack) && self->run.memory.attackers[job->client];
    job->share = json_real_value(json_object_get(self->told, "share"));
    if (self->run.memory.client_state_table) job->state_from = self->run.memory.client_state_table[1 + job->client];
    job->state_to = NO_CLIENT_STATE; // the client's later rounds are not replayed
    return STATUS_OK;
}

static Status write_update(const Replay *self, const float *trained, Error *err) {
    const TensorList *list = &self->run.memory.tensors;
    size_t count = (size_t)list->count + (self->steps > 0), header_bytes,
           parameters = self->run.memory.config->parameters;
    TensorEntry *entries = calloc(count + 1, sizeof *entries);
    float *update = malloc(parameters * sizeof *update);
    char *header = NULL;
    Status status =
        entries && update ? STATUS_OK : fail(err, STATUS_OS, "no memory for an update of %zu parameters", parameters);
    if (status != STATUS_OK) goto done;
    model_entries(entries, list);
    entries[list->count] =
        (TensorEntry){.name = "losses", .type = TENSOR_F64, .rank = 1, .shape = {(int64_t)self->steps}};
    for (size_t i = 0; i < parameters; i++)
        update[i] = trained[i] - self->run.memory.weights[i];
    TRY_GOTO(done, safetensors_header(&header, &header_bytes, entries, count, NULL, 0, err));
    const FilePart parts[] = {{header, header_bytes},
                              {update, parameters * sizeof *update},
                              {self->losses, self->steps * sizeof *self->losses}};
    status = file_write_safetensors(self->options.out, parts, 3, err);
done:
    free(header);
    free(update);
    free(entries);
    return status;
}

// Compares the model with the run's record: by the fingerprint if it has one, otherwise by the loss in the precision of
// the record.
static Status check(const Replay *self, const Job *job, Error *err) {
    const char *noted = json_string_value(json_object_get(self->told, "weights_xxh3"));
    const char *isa = json_string_value(json_object_get(self->start, "device"));
    char fingerprint[HASH_TEXT_BYTES], loss[32], noted_loss[32];
    write_hash(fingerprint, job->fingerprint);
    snprintf(loss, sizeof loss, "%.*g", METRICS_DIGITS, job->loss_sum / (double)job->samples);
    snprintf(noted_loss, sizeof noted_loss, "%.*g", METRICS_DIGITS,
             json_real_value(json_object_get(self->told, "loss")));
    bool same = noted ? strcmp(noted, fingerprint) == 0 : strcmp(loss, noted_loss) == 0;
    if (same) {
        printf("as in the run: %s %s\n", noted ? "XXH3 of the weights" : "loss", noted ? fingerprint : loss);
        return STATUS_OK;
    }
    return fail(err, STATUS_DATA, "client %d of round %d: %s is %s, the run noted %s; it computed with %s, this is %s",
                self->options.client, self->options.round, noted ? "XXH3 of the weights" : "the loss",
                noted ? fingerprint : loss, noted ? noted : noted_loss, isa ? isa : "?", kernels_best()->name);
}

static void tell(const Replay *self, const Job *job, const Walk *walk) {
    char epochs[32] = "", steps[64] = "";
    if (walk->steps == 0) snprintf(epochs, sizeof epochs, "%u epoch%s, ", job->epochs, job->epochs == 1 ? "" : "s");
    if (self->steps > 0)
        snprintf(steps, sizeof steps, " (first step %.4f, last %.4f)", self->losses[0], self->losses[self->steps - 1]);
    printf("client %d of round %d: %u samples, %s%zu steps, loss %.4f%s, length of the update %.6g\n",
           self->options.client, self->options.round, job->count, epochs,
           self->steps > 0 ? self->steps : (size_t)job->steps, job->loss_sum / (double)job->samples, steps,
           sqrt(job->squared_length));
}

static Status train_client(Replay *self, Error *err) {
    LocalModel model;
    Job *job;
    if ((uint32_t)self->options.client >= self->run.memory.config->clients)
        return fail(err, STATUS_DATA, "--client %d: the run has only %u clients", self->options.client,
                    self->run.memory.config->clients);
    TRY(post_job(&job, self, err));
    const Training *training = &self->run.memory.config->training;
    self->run.memory.control->config.inspects_updates = true;
    self->run.memory.control->order.lr = lr_at(&training->schedule, training->sgd.lr, (uint32_t)self->options.round);
    TRY(local_model_init(&model, &self->run.memory, 0, err));
    const Walk walk = walk_of(&self->run.memory.config->recipe.schedule, (uint32_t)self->options.round, job->epochs);
    self->capacity = (size_t)walk_steps(&walk, local_model_batches(&model, job->count));
    self->losses = calloc(self->capacity + 1, sizeof *self->losses);
    Status status = self->losses ? STATUS_OK : fail(err, STATUS_OS, "no memory for %zu losses", self->capacity);
    if (status == STATUS_OK) {
        model.on_step = (StepHook){note_step, self};
        client_train(&model, job, (uint32_t)self->options.round);
        status = dataset_segment_check(&self->run.memory.data_segment, err);
    }
    if (status == STATUS_OK && model.by.fault != STATUS_OK)
        status = fail(err, STATUS_UNAVAILABLE, "the trainer of %.200s: %s", self->options.run, model.by.why.message);
    if (status == STATUS_OK) {
        tell(self, job, &walk);
        if (self->options.out[0]) status = write_update(self, model.weights, err);
        if (status == STATUS_OK) status = check(self, job, err);
    }
    local_model_free(&model);
    return status;
}

// A run whose options cannot be read is refused later, with the reason.
static Status refuse_secret(const Replay *self, Error *err) {
    Options *options = malloc(sizeof *options);
    Error ignored;
    if (!options) return fail(err, STATUS_OS, "no memory for the options of a run");
    options_defaults(options);
    const Status read = options_read_run(options, self->options.run, &ignored);
    const bool is_secret = read == STATUS_OK && strcmp(options->noise_key, "system") == 0;
    free(options);
    if (!is_secret) return STATUS_OK;
    return fail(err, STATUS_USAGE,
                "%.200s: with --noise-key system the noise and the private draws of a round are secret: --resume "
                "alone repeats them, from its checkpoints; replay a run without that option",
                self->options.run);
}

static Status replay(Replay *self, int *exit_code, Error *err) {
    uint32_t done;
    TRY(refuse_secret(self, err));
    TRY(read_record(self, err));
    TRY(make_folder(self, &done, err));
    TRY(check_inputs(self, done, err));
    TRY(run_trust_programs(self->options.run, true, err));
    TRY(train_before(self, done, exit_code, err));
    if (*exit_code != 0) return STATUS_OK; // a signal ended the run
    TRY(set_up(self, err));
    return train_client(self, err);
}

Status command_replay(int argc, char **argv, int *exit_code, Error *err) {
    Replay *self = calloc(1, sizeof *self);
    if (!self) return fail(err, STATUS_OS, "no memory");
    Status status = replay_options_parse(&self->options, argc, argv, err);
    if (status == STATUS_OK) status = replay(self, exit_code, err);
    reopened_run_close(&self->run);
    temporary_folder_remove(&self->folder);
    free(self->losses);
    json_decref(self->start);
    json_decref(self->told);
    free(self);
    return status;
}

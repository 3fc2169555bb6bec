#include "client_model.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "app/train/client_names.h"
#include "app/train/run_metrics.h"
#include "app/train/run_trust.h"
#include "base/log.h"
#include "base/text.h"
#include "fedavg/rules/training.h"
#include "fedavg/worker/evaluation.h"
#include "fedavg/worker/local_test.h"

// The own model is in local.weights after its test: loaded from what the client keeps, mixed, or trained for the test,
// as the algorithm has it.
static Status test_client(ClientModel *self, uint32_t client, Error *err) {
    RunMemory *memory = &self->run.memory;
    const RunConfig *config = memory->config;
    const Training *training = &config->training;
    memory->control->order.lr = lr_at(&training->schedule, training->sgd.lr, self->round);
    TRY(local_model_init(&self->local, memory, 0, err));
    self->has_local = true;
    self->test = (Job){.client = client, .task = self->is_own ? EVALUATE_PERSONAL : EVALUATE_CLIENT};
    if (self->is_own) self->test.epochs = config->personal.tune_epochs;
    if (memory->client_state_table) self->test.state_from = memory->client_state_table[1 + client];
    self->has_trained = !memory->client_state_table || self->test.state_from != NO_CLIENT_STATE;
    if (self->is_kept && self->test.state_from != NO_CLIENT_STATE) // of this process alone
        memcpy(memory->weights, client_state_row(&memory->client_state, self->test.state_from),
               config->parameters * sizeof *memory->weights);
    evaluation_run(&self->local, &self->test, self->round);
    self->weights = self->is_own ? self->local.weights : memory->weights;
    TRY(dataset_segment_check(&memory->data_segment, err));
    if (self->local.by.fault == STATUS_OK) return STATUS_OK;
    return fail(err, STATUS_UNAVAILABLE, "the trainer of %.200s: %s", self->run.folder.path,
                self->local.by.why.message);
}

static Status find_client(uint32_t *client, const ReopenedRun *run, const char *typed, Error *err) {
    const uint32_t clients = run->memory.config->clients;
    ClientNames names;
    TRY(client_names_find(&names, &run->memory, &run->options, err));
    const Status status = client_names_number(client, &names, clients, typed, run->folder.path, err);
    client_names_free(&names);
    return status;
}

Status client_model_open(ClientModel *self, const char *folder, const char *typed, Error *err) {
    uint32_t client;
    char config[RUN_PATH_BYTES];
    snprintf(config, sizeof config, "%.4000s/config.yaml", folder);
    if (access(config, R_OK) != 0)
        return fail_errno(err, STATUS_NOINPUT,
                          "--client %.60s: needs the folder of a run, and %.200s has no config.yaml", typed, folder);
    TRY(run_trust_programs(folder, false, err));
    TRY(reopened_run_open(&self->run, folder, folder, "it has no model of a client's", err));
    TRY(find_client(&client, &self->run, typed, err));
    TRY(reopened_run_restore(&self->run, &self->round, err));
    if (self->round == 0)
        return fail(err, STATUS_NOINPUT, "%.200s has no checkpoint; sounder train --resume %.200s writes one", folder,
                    folder);
    const Algorithm *algorithm = &self->run.memory.algorithm;
    self->is_own = algorithm->traits.has[TRAIT_PERSONAL];
    self->is_kept =
        algorithm->local->replicas || algorithm->local->contrasts || self->run.memory.config->fragments.count > 0;
    return test_client(self, client, err);
}

void client_model_close(ClientModel *self) {
    if (self->has_local) local_model_free(&self->local);
    reopened_run_close(&self->run);
}

static bool is_judged(const ClientModel *self) {
    return !dataset_has_targets(&self->run.memory.data.items) && self->test.unjudged == 0;
}

static Status tell_json(const ClientModel *self, const char *data, Error *err) {
    const Job *test = &self->test;
    const double samples = (double)test->samples;
    JsonObject object;
    json_begin(&object);
    put_whole(&object, "client", test->client);
    put_whole(&object, "round", self->round);
    put_text(&object, "model", self->is_own ? "personal" : self->is_kept ? "kept" : "global");
    put_flag(&object, "trained", self->has_trained);
    put_text(&object, "data", data);
    put_whole(&object, "samples", (int64_t)test->samples);
    if (test->samples > 0) put_real(&object, "loss", test->loss_sum / samples);
    if (test->samples > 0 && is_judged(self)) {
        put_whole(&object, "hits", test->hits);
        put_real(&object, "accuracy", test->hits / samples);
    }
    return json_print(stdout, &object, JSON_COMPACT | JSON_REAL_PRECISION(10), "the result", err);
}

Status client_model_tell(const ClientModel *self, bool json, Error *err) {
    const Job *test = &self->test;
    const double samples = (double)test->samples, loss = test->loss_sum / samples;
    const char *data = local_test_data_name(&self->run.memory.partition), *what = strchr(data, ' ') + 1;
    if (json) return tell_json(self, data, err);
    ClientNames names;
    Error ignored; // without memory the number tells it
    char number[CLIENT_NUMBER_BYTES], name[CLIENT_SHOWN_BYTES];
    if (client_names_find(&names, &self->run.memory, &self->run.options, &ignored) != STATUS_OK)
        names = (ClientNames){0};
    disarm_text(text_cut(name, sizeof name, client_name(number, &names, test->client)));
    printf("client %s after %u rounds, %s%s: ", name, self->round,
           self->is_own    ? "its own model"
           : self->is_kept ? "the model it keeps"
                           : "the global model",
           self->has_trained || (!self->is_own && !self->is_kept) ? "" : " (it has never trained)");
    client_names_free(&names);
    if (test->samples == 0)
        printf("no test, for it has no %s\n", what);
    else if (is_judged(self))
        printf("loss %.4f, %u of %" PRIu64 " %s right: %.2f%%\n", loss, test->hits, test->samples, what,
               100 * test->hits / samples);
    else
        printf("loss %.4f on %" PRIu64 " %s\n", loss, test->samples, what);
    return STATUS_OK;
}

Status client_model_write(const ClientModel *self, const char *path, Error *err) {
    const RunMemory *memory = &self->run.memory;
    const Options *options = &self->run.options;
    char in_run[RUN_PATH_BYTES], *header;
    size_t header_bytes;
    if (!self->is_own && !self->is_kept)
        return fail(err, STATUS_USAGE,
                    "%.200s: --algorithm %.60s trains one model for all clients, which is model.safetensors; models of "
                    "clients' own are those of fedper, ditto and others (sounder help algorithms)",
                    self->run.folder.path, options->algorithm);
    snprintf(in_run, sizeof in_run, "%s/client-%u.safetensors", self->run.folder.path, self->test.client);
    ModelAbout about = {0};
    snprintf(about.text, sizeof about.text, "%s", self->run.model.about.text);
    Status status = model_about_data(&about, &memory->data, options->data, run_hash_data(&memory->data), options, err);
    if (status == STATUS_OK)
        status = model_header(&header, &header_bytes, &self->run.model.spec, &memory->tensors, &about, err);
    if (status == STATUS_OK) {
        const FilePart parts[] = {{header, header_bytes},
                                  {self->weights, memory->config->parameters * sizeof *self->weights}};
        status = file_write_safetensors(*path ? path : in_run, parts, 2, err);
        free(header);
    }
    model_about_free(&about);
    if (status == STATUS_OK) printf("model: %s\n", *path ? path : in_run);
    return status;
}

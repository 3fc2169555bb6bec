#include "samples.h"

#include <string.h>

#include "fedavg/trainer/lines.h"
#include "fedavg/trainer/process.h"

// An answer without the key is that of a program that knows nothing of this question.
static Status read_path(char *path, size_t bytes, const json_t *told, Error *err) {
    const char *text = json_string_value(json_object_get(told, "samples"));
    path[0] = '\0';
    if (!text) return STATUS_OK;
    if (text[0] != '/' || strlen(text) >= bytes)
        return fail(err, STATUS_DATA, "it answered samples as %.200s, which is no full path of a data set", text);
    memcpy(path, text, strlen(text) + 1);
    return STATUS_OK;
}

static Status ask(json_t **told, TrainerProcess *process, const TrainerPlan *plan, uint64_t seed, const char *folder,
                  Error *err) {
    const TrainerWait wait = {.starts = true};
    JsonObject line;
    TRY(trainer_process_start(process, plan, NULL, 0, -1, err));
    trainer_line_open(&line, plan, seed);
    trainer_line_put_options(&line, plan);
    put_text(&line, "samples", folder);
    TRY(trainer_process_send(process, &line, &wait, err));
    return trainer_process_receive(told, process, &wait, err);
}

Status trainer_ask_samples(char *path, size_t bytes, const TrainerPlan *plan, uint64_t seed, const char *folder,
                           Error *err) {
    TrainerProcess process = {.socket = -1, .leash = -1};
    json_t *told = NULL;
    Error why;
    Status status = ask(&told, &process, plan, seed, folder, &why);
    if (status == STATUS_OK) status = read_path(path, bytes, told, &why);
    trainer_process_end(&process, TRAINER_GOODBYE_SECONDS);
    json_decref(told);
    if (status == STATUS_OK) return STATUS_OK;
    if (status == STATUS_USAGE || status == STATUS_NOINPUT) return fail(err, status, "%s", why.message);
    return fail(err, status, "%s %.200s, asked for samples of its own since --data is not given: %s", plan->option,
                plan->command, why.message);
}

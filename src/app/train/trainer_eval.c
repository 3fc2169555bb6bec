#include "trainer_eval.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/train/model_file.h"
#include "app/train/run_set_up.h"
#include "app/train/run_trust.h"
#include "base/log.h"
#include "fedavg/parent/rounds.h"
#include "fedavg/trainer/trainer.h"
#include "io/metrics.h"

Status trainer_eval_options(Options *options, TrainerPast *past, const Options *saved, const char *run, Error *err) {
    MetricsPast told;
    *past = (TrainerPast){0};
    options->training.batch_size = saved->training.batch_size;
    options->hang_seconds = saved->hang_seconds;
    if (!options_given(options, "trainer-option"))
        memcpy(options->trainer_option, saved->trainer_option, sizeof options->trainer_option);
    if (!options_given(options, "trainer-threads")) options->trainer_threads = saved->trainer_threads;
    if (!options_given(options, "trainer")) TRY(run_trust_programs(run, false, err));
    const int fd = open(run, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return fail_errno(err, STATUS_NOINPUT, "%.200s cannot be opened", run);
    const Status status = metrics_past(&told, &(Folder){.fd = fd, .path = run}, err);
    close(fd);
    TRY(status);
    const char *folder = json_string_value(json_object_get(told.start, "trainer_folder"));
    const char *hash_seed = json_string_value(json_object_get(told.start, "hash_seed"));
    past->round = told.round;
    if (!options_given(options, "trainer")) {
        run_record_read_program(&past->files, told.start);
        snprintf(options->hash_seed, sizeof options->hash_seed, "%s", hash_seed ? hash_seed : "");
        memcpy(options->trainer, saved->trainer, sizeof options->trainer);
        snprintf(options->trainer_folder, sizeof options->trainer_folder, "%s", folder ? folder : "");
    }
    metrics_past_free(&told);
    return STATUS_OK;
}

static Status take_answers(TrainerTest *test, const Trainer *trainer, bool given, uint32_t first, uint32_t count,
                           Error *err) {
    const size_t classes = (size_t)trainer->memory->data.classes;
    if (!test->answers) return STATUS_OK;
    if (!given)
        return fail(err, STATUS_USAGE,
                    "--confusion, --confusion-file and --predictions need the net's answers, which the trainer does "
                    "not give: let it "
                    "call turn.answers(scores) once per batch of a test, or leave them out");
    memcpy(test->answers + first * classes, trainer->desk.answers, count * classes * sizeof *test->answers);
    return STATUS_OK;
}

static Status evaluate_chunk(TrainerTest *test, Trainer *trainer, uint32_t first, uint32_t count, Error *err) {
    const uint32_t round = trainer->memory->control->order.round;
    const TrainerTurn turn = {.tests = "test", .of_test_set = true, .round = round, .key = round, .client = UINT32_MAX};
    TrainerAnswer answer;
    trainer_add_test(trainer, NULL, first, count);
    TRY(trainer_ask(&answer, trainer, &turn, err));
    test->sum.loss_sum += answer.loss_sum;
    test->sum.hits += answer.hits;
    test->samples += (uint32_t)answer.samples;
    if (!answer.judges) test->unjudged += (uint32_t)answer.samples;
    TRY(take_answers(test, trainer, answer.answers, first, count, err));
    return metric_sums_join(&test->metrics, &answer.metrics, err);
}

static Status evaluate(TrainerTest *test, const RunMemory *memory, const TrainerNet *net, Error *err) {
    Trainer trainer;
    const uint32_t total = memory->data.test.count, size = net->whole_test ? total : rounds_test_chunk(&memory->data);
    Status status = STATUS_OK;
    TRY(trainer_open(&trainer, memory, 0, err));
    *test = (TrainerTest){.answers = test->answers};
    for (uint32_t first = 0; first < total && status == STATUS_OK; first += size) {
        // A test may move the weights, as one that adapts to its samples does: each part begins with the model.
        memcpy(trainer.desk.weights, net->values, net->parameters * sizeof *net->values);
        status = evaluate_chunk(test, &trainer, first, total - first < size ? total - first : size, err);
    }
    trainer_close(&trainer);
    return status;
}

// The figures of an edited program are what its user wants to see; those of a model with another base are wrong.
static Status check_program(const TrainerProgram *program, const TrainerPast *past, const char *path, Error *err) {
    InputChange change;
    RunRecord now = {0};
    run_record_program(&now, program);
    if (run_record_input_changed(&change, &past->files, &now, INPUT_TRAINER))
        log_warning("%.200s: the files of its trainer are not what trained it (XXH3 %s then, %s now), so that its "
                    "figures may differ from the run's",
                    path, change.then, change.now);
    for (int i = INPUT_TRAINER_STAYS; i <= INPUT_TRAINER_VERSIONS; i++)
        if (run_record_input_changed(&change, &past->files, &now, (RunInputKind)i))
            TRY(run_input_judge(&change, path, path, ", or name the program with --trainer", err));
    return STATUS_OK;
}

// A trainer reads of a run's memory only what is filled in here.
static Status evaluate_in(RunMemory *memory, TrainerTest *test, const Safetensors *file, const char *path,
                          const Options *options, const TrainerPast *past, Error *err) {
    RunModel model = {0};
    RunConfig *config = &memory->control->config;
    TRY(run_plan_trainer(&config->trainer, options, err));
    TRY(run_read_trainer(&model, options, memory, NULL, err));
    config->trainer.program = model.net.program;
    config->spec = model.spec;
    config->parameters = model.net.parameters;
    config->seed = options->seed;
    config->training = options->training;
    config->workers = config->clients = 1;
    memory->algorithm = run_algorithm(config); // FedAvg, which adds nothing to gradients
    config->trainer.answers = test->answers != NULL;
    memory->tensors = trainer_net_tensors(&model.net);
    Status status;
    TRY_GOTO(free_model, check_program(&model.net.program, past, path, err));
    TRY_GOTO(free_model, model_load_alone(model.net.values, &memory->tensors, file, path, err));
    status = evaluate(test, memory, &model.net, err);
free_model:
    run_model_free(&model);
    return status;
}

Status trainer_eval(TrainerTest *result, const Safetensors *file, const char *path, const Options *options,
                    const TrainerPast *past, const DatasetSegment *segment, const Dataset *data, Error *err) {
    RunMemory memory = {.data_segment = *segment, .data = *data};
    Error why;
    memory.control = calloc(1, sizeof *memory.control);
    if (!memory.control) return fail(err, STATUS_OS, "no memory for a trainer");
    memory.config = &memory.control->config;
    memory.control->order.round = past->round;
    const Status status = evaluate_in(&memory, result, file, path, options, past, &why);
    free(memory.control);
    return status == STATUS_OK ? status : fail(err, status, "%s", why.message);
}

// Part of run_set_up.h: a run with --trainer or --aggregator gives its plan, reads its net, and explains its failure.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/options/option_table.h"
#include "app/train/run_set_up.h"
#include "app/train/train.h"
#include "base/log.h"
#include "base/text.h"
#include "fedavg/rules/attack/attack_rules.h"
#include "fedavg/trainer/reads.h"

// Sets of words have one order in each start of a run's programs. A user who sets PYTHONHASHSEED is heeded.
static Status plan_seeds(TrainerPlan *plan, const Options *options, Error *err) {
    const char *own = getenv("PYTHONHASHSEED"), *past = options->hash_seed;
    if (own && past[0] && strcmp(own, past) != 0 && !options->trainer_is_named)
        return fail(err, STATUS_DATA,
                    "PYTHONHASHSEED is %.32s and was %s when the run began, so that sets of words would have another "
                    "order; unset it, or name the program again to continue with other bits: %s %.200s",
                    own, past, plan->option, plan->command);
    plan->seed = options->seed;
    if (own || past[0])
        snprintf(plan->hash_seed, sizeof plan->hash_seed, "%.11s", own ? own : past);
    else
        snprintf(plan->hash_seed, sizeof plan->hash_seed, "%" PRIu32, (uint32_t)(options->seed % UINT32_MAX + 1));
    return STATUS_OK;
}

// Each word of the option `name` is one option of the program's.
static Status plan_options(TrainerPlan *plan, const char *name, const char *text, const Options *options, Error *err) {
    char words[OPTION_TEXT_BYTES], *rest;
    snprintf(plan->options, sizeof plan->options, "%s", text);
    snprintf(words, sizeof words, "%s", text);
    for (char *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        if (!strchr(word, '=') || word[0] == '=')
            return options_refuse(options, name, err,
                                  " \"%.60s\": write NAME=VALUE, several with blanks between them, and in a sweep the "
                                  "option once per choice",
                                  word);
    return STATUS_OK;
}

Status run_plan_trainer(TrainerPlan *plan, const Options *options, Error *err) {
    *plan = (TrainerPlan){.option = "--trainer",
                          .threads = (uint32_t)options->trainer_threads,
                          .forks = options->trainer_start == TRAINER_FORK,
                          .hang_seconds = options->hang_seconds};
    snprintf(plan->command, sizeof plan->command, "%s", options->trainer);
    snprintf(plan->folder, sizeof plan->folder, "%s", options->trainer_folder);
    TRY(plan_seeds(plan, options, err));
    return plan_options(plan, "trainer-option", options->trainer_option, options, err);
}

// A program that overlooks the views would train honest clients on plain samples without a word.
static Status check_views(const TrainerNet *net, const Options *options, Error *err) {
    const char *option = options->view.noise.row != VIEW_NOISE_NONE     ? "client-noise"
                         : options->view.drift.row != VIEW_DRIFT_NONE   ? "drift"
                         : attack_is_in_training(&options->attack_rule) ? "attack"
                                                                        : NULL;
    if (!option || net->views) return STATUS_OK;
    return options_refuse(options, option, err,
                          ": the program of --trainer does not say that it reads samples as clients see them "
                          "(desk.places, sounder help trainer); leave the option out, or let it answer \"views\":1");
}

Status run_plan_aggregator(RunConfig *config, const Options *options, Error *err) {
    config->aggregator = (TrainerPlan){
        .option = "--aggregator", .threads = (uint32_t)options->trainer_threads, .hang_seconds = options->hang_seconds};
    snprintf(config->aggregator.command, sizeof config->aggregator.command, "%s", options->aggregator);
    snprintf(config->aggregator.folder, sizeof config->aggregator.folder, "%s", options->aggregator_folder);
    config->aggregator_keeps = (uint32_t)options->aggregator_keeps;
    TRY(plan_seeds(&config->aggregator, options, err));
    return plan_options(&config->aggregator, "aggregator-option", options->aggregator_option, options, err);
}

static Status check_state(const TrainerNet *net, const Options *options, Error *err) {
    if (options->training.optimizer_state != OPTIMIZER_KEPT || net->state_floats > 0) return STATUS_OK;
    return options_refuse(
        options, "client-optimizer-state", err,
        " keep: the trainer keeps nothing; say how many floats turn.state has: sounder.serve(..., state=N)");
}

// A program that trains head and body together would be FedPer under another name.
static Status check_still(const TrainerNet *net, const Options *options, Error *err) {
    const uint32_t row = options->recipe.personal.row;
    if ((row != PERSONAL_ALTERNATE && row != PERSONAL_FIXED_HEAD) || net->still) return STATUS_OK;
    return fail(err, STATUS_USAGE,
                "personal %s: the program of --trainer does not say that it leaves the tensors of turn.still alone, as "
                "head and body are trained in turn; say so, sounder.serve(..., still=True), or take fedper",
                personal_rules[row].name);
}

static Status freeze(TrainerNet *net, const Options *options, Error *err) {
    Error why;
    if (!options->freeze[0]) return STATUS_OK;
    return options_blame(options, "freeze", ": ", trainer_net_freeze(net, options->freeze, &why), &why, err);
}

static Status check_net(TrainerNet *net, const Options *options, Error *err) {
    TRY(check_views(net, options, err));
    TRY(check_state(net, options, err));
    TRY(check_still(net, options, err));
    return freeze(net, options, err);
}

// Zeros in each turn would otherwise be a silent end of what the program wants kept.
static void warn_of_state(const TrainerNet *net, const Options *options) {
    if (options->training.optimizer_state == OPTIMIZER_KEPT || net->state_floats == 0) return;
    log_warning(
        "the trainer wants %llu floats of each client kept (state=), and the run keeps none: turn.state is zeros "
        "in every turn; say --client-optimizer-state keep",
        (unsigned long long)net->state_floats);
}

// The spec of a trainer's net has no layers: only what the run asks of any net.
Status run_read_trainer(RunModel *model, const Options *options, const RunMemory *memory, TrainerHost *host,
                        Error *err) {
    Spec *spec = &model->spec;
    TrainerNet *net = &model->net;
    const Dataset *data = &memory->data;
    TrainerPlan plan;
    *spec = (Spec){.input = data->shape,
                   .classes = data->classes,
                   .float_input = data->items.pixel_bytes > 1 || options->view.noise.row != VIEW_NOISE_NONE,
                   .squared_loss = dataset_has_numbers(&data->items)};
    if (dataset_has_rows(&data->items))
        return fail(err, STATUS_USAGE,
                    "--trainer: the samples of %.64s have several labels each, which a trainer is not given; take nets "
                    "of layers (--model), or let the program load them itself and give it labels alone",
                    data->name);
    if (options->attack_rule.row == ATTACK_BACKDOOR)
        spec->trigger = (uint32_t)options->attack_rule.number[BACKDOOR_SIZE];
    TRY(run_check_fit(options, spec, data, err));
    TRY(run_plan_trainer(&plan, options, err));
    TRY(trainer_describe(net, &plan, memory, options->seed, host, err));
    const Status status = check_net(net, options, err);
    if (status != STATUS_OK) trainer_net_free(net);
    TRY(status);
    if (host) warn_of_state(net, options); // not in a test
    snprintf(model->about.text, SPEC_TEXT_BYTES, "trainer %.2000s", options->trainer);
    spec->parameter_count = net->parameters;
    return STATUS_OK;
}

static bool is_axis(const char *option) {
    const char *axes = getenv(RUN_SWEEP_AXES);
    const size_t length = strlen(option);
    for (const char *at = axes ? axes : ""; *at; at += strcspn(at, " "), at += *at == ' ')
        if (strcspn(at, " ") == length && strncmp(at, option, length) == 0) return true;
    return false;
}

static Status refuse_axis(const char *option, const char *read, Error *err) {
    return fail(err, STATUS_USAGE,
                "--%s: the sweep compares its values, and no turn of the trainer has read turn.%s, so that all of them "
                "train alike; read it in the program, or leave the axis out",
                option, read);
}

// The words of --trainer-option that no turn has read yet. A program may read one in a later round.
static void list_unread_words(char *list, size_t room, const Options *options, const Control *control) {
    char words[OPTION_TEXT_BYTES], *rest;
    uint32_t number = 0;
    snprintf(words, sizeof words, "%s", options->trainer_option);
    for (char *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest), number++) {
        char one[OPTION_TEXT_BYTES];
        if (trainer_has_read(control, trainer_read_of_option(number))) continue;
        snprintf(one, sizeof one, "--trainer-option %.60s (turn.options)", word);
        text_list(list, room, one, strlen(one));
    }
}

Status run_check_reads(const Options *options, const RunMemory *memory, Error *err) {
    const Control *control = memory->control;
    if (options->resume[0]) return STATUS_OK; // whose options are all given by the run, and were told when it began
    char list[1024] = "", one[OPTION_VALUE_BYTES + 64], value[OPTION_VALUE_BYTES];
    for (uint32_t r = 0; r < TRAINER_READS; r++) {
        const TrainerRead *read = &trainer_reads[r];
        if (!options_given(options, read->option) || trainer_has_read(control, r)) continue;
        if (is_axis(read->option)) return refuse_axis(read->option, read->told, err);
        option_format(value, options, option_find(read->option));
        snprintf(one, sizeof one, "--%s %s (turn.%s)", read->option, value, read->told);
        text_list(list, sizeof list, one, strlen(one));
    }
    list_unread_words(list, sizeof list, options, control);
    if (*list)
        log_warning("no turn has read %s so far, so that it has changed nothing; read it in the program, or leave it "
                    "out",
                    list);
    return STATUS_OK;
}

void run_explain_trainer(TrainerHost *host, Error *err) {
    if (!host->failed) return;
    trainer_output_print_last(&host->output, host->failed_rank, err->message);
    if (host->output.path[0])
        text_add(err->message, sizeof err->message, "; what it printed is in %.1000s", host->output.path);
}

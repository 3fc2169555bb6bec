// Part of options.h: derives defaults from other options, refuses contradictions, and takes over saved options for
// --resume.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cores.h"
#include "datasets/partition.h"
#include "datasets/synthetic/federation.h"
#include "fedavg/rules/local/optimizer_rules.h"
#include "fedavg/rules/local/personal_rules.h"
#include "option_table.h"
#include "option_traits.h"
#include "options.h"

static bool given(const Options *options, const char *name) {
    return options_given(options, name);
}

static bool comes_from_file(const Options *options, const Option *option) {
    int index = option_index(option);
    return options->given[index] && options->lines[index] > 0;
}

static void forget(Options *options, const Option *option, bool warns, const char *why) {
    char name[OPTION_NAMED_BYTES], value[OPTION_SHOWN_BYTES];
    option_show(value, options, option);
    (warns ? log_warning : log_info)("%s %s: left out, for %s", options_named(name, options, option->name), value, why);
    options->given[option_index(option)] = false;
}

// The command line wins: drops options of the experiment file that only the command line has made useless. The user is
// told unless the value is the default, as in a config.yaml, which has all.
static void forget_overruled(Options *options) {
    for (int i = 0; i < option_count; i++)
        if (comes_from_file(options, &option_table[i]) && options->file_used[i] &&
            !option_applies(options, &option_table[i]))
            forget(options, &option_table[i], !option_is_default(options, &option_table[i]),
                   "the command line leaves no use for it");
}

static Status check_resume_and_out(Options *options, Error *err) {
    if (!options->resume[0] || !given(options, "out")) return STATUS_OK;
    if (comes_from_file(options, option_find("out"))) {
        forget(options, option_find("out"), false, "--resume goes on in its own folder");
        return STATUS_OK;
    }
    return fail(err, STATUS_USAGE, "--out %.200s: --resume %.200s goes on in its own folder; leave one of the two out",
                options->out, options->resume);
}

const char *options_partition(char *text, const Options *options) {
    const char *form = options->partition;
    snprintf(text, OPTION_TEXT_BYTES, "%s", form);
    if (!option_applies(options, option_find("alpha"))) return text;
    for (int digits = 6; digits <= 17; digits += 11) { // 17 represent any double
        snprintf(text, OPTION_TEXT_BYTES, "%.1500s alpha=%.*g", form, digits, options->alpha);
        if (strtod(strrchr(text, '=') + 1, NULL) == options->alpha) break;
    }
    return text;
}

static Status check_partition(const Options *options, Error *err) {
    char text[OPTION_TEXT_BYTES];
    if (given(options, "alpha") && form_is(options->partition, "dirichlet") && strstr(options->partition, "alpha="))
        return options_refuse(options, "alpha", err, ": --partition \"%.200s\" says it, too; leave one of the two out",
                              options->partition);
    Form form;
    Error why;
    const Status status = partition_parse(&form, options_partition(text, options), &why);
    return options_blame(options, "partition", " ", status, &why, err);
}

// An option without effect would be ignored silently, while the user expects an effect: refuse it. A default that asks
// for nothing is what happens.
Status options_check_use(Options *options, Error *err) {
    for (int i = 0; i < option_count; i++) {
        const Option *option = &option_table[i];
        if (!options->given[i] || option_applies(options, option)) continue;
        if (option->neutral && option_is_default(options, option)) {
            forget(options, option, false, "the run does so without it");
            continue;
        }
        char value[OPTION_SHOWN_BYTES];
        option_show(value, options, option);
        return options_refuse(options, option->name, err, " %s: only used with %s; add that or leave %s%s out", value,
                              option->condition, options->lines[i] > 0 ? "" : "--", option->name);
    }
    return STATUS_OK;
}

static int smaller(int a, int b) {
    return a < b ? a : b;
}

static int default_workers(const Options *options) {
    const Option *workers = option_find("workers");
    return smaller(options->cores > 0 ? options->cores : cores_usable(), (int)workers->maximum);
}

// Clients default to workers. Another machine may have another number, so config.yaml then states it.
static void adopt_workers(Options *options) {
    options->clients = options->workers * options->nodes;
    options->clients_by_machine = options->workers_by_cores || options->nodes > 1;
}

static Status check_stragglers(const Options *options, Error *err) {
    const World *world = &options->world;
    bool partial = world->stragglers > 0 && world->straggler_work == STRAGGLERS_PARTIAL;
    if (!partial || options->training.local_epochs > 1) return STATUS_OK;
    return options_refuse(options, "stragglers", err,
                          ": work=partial: with --local-epochs 1 there are no fewer epochs that a straggler could do; "
                          "raise that or take work=drop");
}

// Candidates of power-of-choice: at least the clients of a round, at most all clients.
static Status resolve_candidates(Options *options, Error *err) {
    World *world = &options->world;
    if (world->sampling != SAMPLING_POWER_OF_CHOICE) return STATUS_OK;
    if (world->candidates == 0) world->candidates = smaller(2 * options->clients_per_round, options->population);
    if (world->candidates >= options->clients_per_round && world->candidates <= options->population) return STATUS_OK;
    return options_refuse(options, "sampling", err,
                          ": candidates=%d: needs at least --clients-per-round (%d) and at most --clients (%d%s)",
                          world->candidates, options->clients_per_round, options->population,
                          options->new_clients[0] ? " that are not new" : "");
}

static Status resolve_world(Options *options, Error *err) {
    World *world = &options->world;
    TRY(check_stragglers(options, err));
    if (world->client_time == CLIENT_TIME_FILE && !options->client_file[0])
        return options_refuse(options, "client-time", err, " file: needs a file; write file:FILE");
    if (world->client_time == CLIENT_TIME_UNIFORM && world->time_minimum > world->time_mean)
        return options_refuse(options, "client-time", err, ": uniform: minimum=%g: needs at most the mean, which is %g",
                              world->time_minimum, world->time_mean);
    return resolve_candidates(options, err);
}

// A round needs more clients than there are. Data that cannot be read might have had clients of its own; say that.
static Status refuse_cohort(const Options *options, Error *err) {
    DatasetSource source;
    if (!given(options, "clients")) TRY(dataset_find(&source, options->data, options->seed, err));
    const int there = options->population;
    return options_refuse(options, "clients-per-round", err,
                          " %d: there %s only %d client%s%s; lower it or raise --clients", options->clients_per_round,
                          there == 1 ? "is" : "are", there, there == 1 ? "" : "s",
                          options->new_clients[0] ? " beside the new ones" : "");
}

static Status resolve_virtual_clients(Options *options, Error *err) {
    if (options->workers == 0) options->workers = default_workers(options), options->workers_by_cores = true;
    if (options->clients == 0) adopt_workers(options);
    TRY(options_count_population(options, err));
    TRY(options_resolve_buffered(options, err));
    if (options->clients_per_round == 0) options->clients_per_round = options->population;
    if (options->clients_per_round > options->population) return refuse_cohort(options, err);
    if (options->workers * options->nodes > options->clients_per_round && !options->workers_by_cores)
        log_info("--workers %d: a round has %d clients, so the other workers only help to evaluate",
                 options->workers * options->nodes, options->clients_per_round);
    Chosen *local = &options->recipe.local;
    if (algorithm_of(&options->recipe).local->replicas && isnan(local->number[0]))
        local->number[0] = 0.9 / (options->arriving > 0 ? options->arriving : options->population);
    return STATUS_OK;
}

// In hogwild and ssgd all clients take part in every step of the one model.
static Status resolve_whole_cohort(Options *options, Error *err) {
    options->population = options->arriving = options->clients;
    if (options->clients_per_round == 0) options->clients_per_round = options->clients;
    if (options->clients_per_round == options->clients) return STATUS_OK;
    char algorithm[RECIPE_TEXT_BYTES];
    return options_refuse(options, "clients-per-round", err,
                          " %d: with --algorithm %s all %d clients train in every round; leave it out",
                          options->clients_per_round, recipe_name(algorithm, options->algorithm), options->clients);
}

// Asynchronous workers act like additional momentum of about 1 - 1/workers (Mitliagkas et al. 2016).
static void warn_of_momentum(const Options *options) {
    if (options->workers > 1 && options->training.sgd.momentum >= 0.9)
        log_warning("--momentum %g with %d Hogwild workers, who already act like momentum of about %.2f: lower it if "
                    "the loss grows",
                    options->training.sgd.momentum, options->workers, 1 - 1.0 / options->workers);
}

// A client of hogwild is a worker, so either count sets both.
static Status resolve_clients_that_are_workers(Options *options, Error *err) {
    if (options->nodes > 1)
        return fail(err, STATUS_USAGE,
                    "--algorithm hogwild: its workers write one piece of memory, which %d nodes do not share; take "
                    "ssgd or fedavg, or start it without mpirun",
                    options->nodes);
    const Option *workers = option_find("workers");
    if (options->clients > (int)workers->maximum)
        return options_refuse(options, "clients", err,
                              " %d: with --algorithm hogwild every client is a worker; give at most %d",
                              options->clients, (int)workers->maximum);
    options->workers_by_cores = options->workers == 0 && options->clients == 0;
    if (options->workers == 0) options->workers = options->clients > 0 ? options->clients : default_workers(options);
    if (options->clients == 0) adopt_workers(options);
    if (options->clients != options->workers)
        return options_refuse(options, "clients", err,
                              " %d: with --algorithm hogwild every client is a worker, and --workers is %d; make them "
                              "equal or leave one out",
                              options->clients, options->workers);
    if (options->workers > cores_usable())
        log_warning("--algorithm hogwild: every client is a worker, so %d workers share %d core%s", options->workers,
                    cores_usable(), cores_usable() == 1 ? "" : "s");
    warn_of_momentum(options);
    return resolve_whole_cohort(options, err);
}

// A client of ssgd is a part of the data on which one worker computes gradients.
static Status resolve_workers_that_need_clients(Options *options, Error *err) {
    int nodes = options->nodes;
    options->workers_by_cores = options->workers == 0;
    if (options->workers == 0)
        options->workers = options->clients >= nodes ? smaller(options->clients / nodes, default_workers(options))
                                                     : default_workers(options);
    if (options->clients == 0) adopt_workers(options);
    if (options->clients < options->workers * nodes)
        return options_refuse(options, "clients", err,
                              " %d: with --algorithm ssgd every worker needs a client, and --workers is %d%s; raise "
                              "--clients or lower --workers",
                              options->clients, options->workers, nodes > 1 ? " on every node" : "");
    return resolve_whole_cohort(options, err);
}

Status options_recipe(Recipe *recipe, const Options *options, Error *err) {
    TRY(recipe_parse(recipe, options->algorithm, err));
    if (options->trainer[0]) recipe_leave_optimizer(recipe, options->algorithm);
    return STATUS_OK;
}

Algorithm options_algorithm(const Options *options) {
    Recipe recipe;
    Error ignored;
    if (options_recipe(&recipe, options, &ignored) != STATUS_OK) recipe_parse(&recipe, "fedavg", &ignored);
    return algorithm_of(&recipe);
}

// Tensors that an algorithm keeps as they were initialised are those of --freeze.
static Status resolve_fixed(Options *options, Error *err) {
    Chosen *personal = &options->recipe.personal;
    char freeze[OPTION_TEXT_BYTES + RULE_NAMES_BYTES];
    if (personal->row != PERSONAL_FIXED) return STATUS_OK;
    if (!personal->names[0])
        return fail(err, STATUS_USAGE,
                    "--algorithm: personal fixed: which tensors? Write names or patterns, such as names=*lora_A*");
    snprintf(freeze, sizeof freeze, "%s%s%s", options->freeze, options->freeze[0] ? "," : "", personal->names);
    // A run that is resumed has them, as the last ones.
    const size_t all = strlen(options->freeze), own = strlen(personal->names);
    const char *last = all >= own ? options->freeze + all - own : "";
    const bool is_there = strcmp(last, personal->names) == 0 && (all == own || last[-1] == ',');
    personal->row = PERSONAL_NONE;
    return is_there ? STATUS_OK : option_set(options, option_find("freeze"), freeze, "", err);
}

static Status read_algorithm(Options *options, Error *err) {
    Error part;
    const Status status = options_recipe(&options->recipe, options, &part);
    TRY(options_blame(options, "algorithm", ": ", status, &part, err));
    options->training.nesterov =
        options->recipe.optimizer.row == OPTIMIZER_SGD && options->recipe.optimizer.number[0] != 0;
    if (options->recipe.optimizer.row == OPTIMIZER_ADAMW && !given(options, "weight-decay"))
        options->training.sgd.weight_decay = 0.01f; // PyTorch's default
    const Chosen *schedule = &options->recipe.schedule;
    const Traits traits = algorithm_of(&options->recipe).traits;
    options->training.hogwild_update = traits.has[TRAIT_WILD] ? (uint32_t)schedule->number[WILD_UPDATE] : 0;
    options->training.global_batch = traits.has[TRAIT_GLOBAL_BATCH];
    return resolve_fixed(options, err);
}

// The partition leaf counts its clients by the samples of each user, which only the samples tell. Errors in the form or
// in files are reported later.
static Status count_users_clients(Options *options, const DatasetSource *source, Error *err) {
    PartitionSpec spec = {.seed = options->seed, .users = source->users, .validation = options->validation};
    DatasetSource found;
    Dataset data = {0};
    void *block = NULL;
    uint32_t clients = 0;
    char text[OPTION_TEXT_BYTES];
    if (partition_parse(&spec.form, options_partition(text, options), NULL) != STATUS_OK) return STATUS_OK;
    if (form_is(options->partition, "leaf") && (dataset_find(&found, options->data, options->seed, NULL) != STATUS_OK ||
                                                dataset_peek(&data, &block, &found, NULL) != STATUS_OK))
        return STATUS_OK;
    spec.owners = data.train.owners;
    spec.validation_last = data.validation_count;
    const uint16_t *labels = dataset_has_targets(&data.items) ? NULL : data.train.labels;
    const Status status = partition_count_clients(&clients, &spec, labels, data.train.count, data.classes, err);
    free(block);
    if (clients > 0) options->clients = (int)clients;
    return status;
}

// Data of users, made up or in files that name the users, has its own partition, and with it the number of clients; so
// does a partition file.
static Status adopt_users(Options *options, Error *err) {
    DatasetSource source = {0};
    Error why;
    if (form_is(options->partition, "file") && strchr(options->partition, ':') && !given(options, "clients") &&
        option_applies(options, option_find("partition"))) {
        uint32_t clients;
        TRY(partition_file_clients(&clients, strchr(options->partition, ':') + 1, err));
        options->clients = (int)clients;
    }
    const bool is_made_up = federation_is_named(options->data);
    Status status = is_made_up ? federation_describe(&source, options->data, options->seed, &why) : STATUS_OK;
    TRY(options_blame(options, "data", " ", status, &why, err));
    if (!option_applies(options, option_find("partition"))) return STATUS_OK;
    // Errors in files are reported when they are read.
    if (!is_made_up && dataset_find(&source, options->data, options->seed, NULL) != STATUS_OK) return STATUS_OK;
    if (source.users == 0) return STATUS_OK;
    if (!given(options, "partition")) strcpy(options->partition, "natural-id");
    return given(options, "clients") ? STATUS_OK : count_users_clients(options, &source, err);
}

// The end of a cosine must be known; if it is not given, it is --rounds.
static Status resolve_schedule(Options *options, Error *err) {
    LrSchedule *schedule = &options->training.schedule;
    if (schedule->kind != LR_COSINE) return STATUS_OK;
    if (schedule->rounds == 0) schedule->rounds = (uint32_t)options->rounds;
    TRY(options_check_rounds(options, options->rounds, err));
    if (schedule->minimum > (double)options->training.sgd.lr)
        return options_refuse(options, "lr-schedule", err, ": cosine: minimum=%g: above --lr, which is %g; lower it",
                              schedule->minimum, (double)options->training.sgd.lr);
    return STATUS_OK;
}

void options_adopt_form(Options *options) {
    if (given(options, "partition") || !given(options, "alpha")) return;
    strcpy(options->partition, "dirichlet");
    options->given[option_index(option_find("partition"))] = true;
}

// Replaces a folder in --init by its file of weights: an adapter as PEFT writes one, or the model of a run.
static Status resolve_init(Options *options, Error *err) {
    static const char *const names[] = {"adapter_model.safetensors", "model.safetensors"};
    struct stat about;
    if (!options->init[0] || stat(options->init, &about) != 0 || !S_ISDIR(about.st_mode)) return STATUS_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[OPTION_TEXT_BYTES + 32];
        snprintf(path, sizeof path, "%s/%s", options->init, names[i]);
        if (access(path, F_OK) == 0) return option_set(options, option_find("init"), path, "", err);
    }
    return fail(err, STATUS_NOINPUT,
                "--init %.500s: the folder has neither %s, as PEFT's save_pretrained writes it, nor %s of a run that "
                "has ended; name a file",
                options->init, names[0], names[1]);
}

Status options_resolve(Options *options, Error *err) {
    TRY(read_algorithm(options, err));
    TRY(resolve_init(options, err));
    if (!options->resume[0]) options_adopt_form(options);
    forget_overruled(options);
    TRY(adopt_users(options, err));
    TRY(check_resume_and_out(options, err));
    TRY(options_check_plan(options, err));
    TRY(check_partition(options, err));
    TRY(options_check_use(options, err));
    TRY(options_read_world(options, err));
    options_keep_state(options);
    TRY(options_check_goals(options, err));
    TRY(resolve_schedule(options, err));
    options_unpin_rounds(options);
    const EngineFacts *facts = options_algorithm(options).engine;
    TRY(facts->client_is_worker      ? resolve_clients_that_are_workers(options, err)
        : facts->worker_needs_client ? resolve_workers_that_need_clients(options, err)
                                     : resolve_virtual_clients(options, err));
    Traits traits;
    options_traits(&traits, options);
    TRY(options_check_traits(options, &traits, err));
    TRY(options_check_momentum(options, err));
    if (facts->whole_cohort) return STATUS_OK;
    TRY(options_resolve_rules(options, err));
    return resolve_world(options, err);
}

void options_resolve_on_gpu(Options *options, bool side_by_side) {
    enum { MANY_CORES = 8 }; // from here on four workers have enough cores
    if (!options->workers_by_cores) return;
    int workers = !side_by_side ? 1 : default_workers(options) >= MANY_CORES ? 4 : 2;
    bool clients_follow = options_algorithm(options).engine->client_is_worker;
    if (!clients_follow) workers = smaller(workers, options->clients_per_round / options->nodes);
    options->workers = workers > 1 ? workers : 1;
    if (clients_follow)
        options->clients = options->population = options->arriving = options->clients_per_round = options->workers;
}

void options_pin_rounds(Options *options, int rounds) {
    LrSchedule *schedule = &options->training.schedule;
    const size_t length = strlen(options->lr_schedule);
    const Option *budget = option_find("privacy-rounds");
    if (schedule->kind == LR_COSINE && !strstr(options->lr_schedule, "rounds=")) {
        snprintf(options->lr_schedule + length, OPTION_TEXT_BYTES - length, " rounds=%d", rounds);
        schedule->rounds = (uint32_t)rounds;
    }
    if (!option_applies(options, budget) || given(options, budget->name)) return;
    options->privacy_rounds = rounds;
    options->given[option_index(budget)] = true;
}

void options_unpin_rounds(Options *options) {
    char end[32];
    const Option *budget = option_find("privacy-rounds");
    snprintf(end, sizeof end, " rounds=%d", options->rounds);
    char *place = options->training.schedule.kind == LR_COSINE ? strstr(options->lr_schedule, end) : NULL;
    char *rest = place ? place + strlen(end) : NULL;
    if (rest && (*rest == '\0' || *rest == ' ')) memmove(place, rest, strlen(rest) + 1);
    if (options->privacy_rounds == options->rounds) options->given[option_index(budget)] = false;
}

Status options_resume(Options *options, const Options *saved, Error *err) {
    TRY(check_resume_and_out(options, err));
    const Option *resume = option_find("resume"), *out = option_find("out");
    bool asked_for_trace = given(options, "trace");
    for (int i = 0; i < option_count; i++) {
        const Option *option = &option_table[i];
        if (option == resume || (options->given[i] && option->may_change)) continue;
        if (options->given[i] && !option_equal(options, saved, option)) {
            char now[OPTION_SHOWN_BYTES], then[OPTION_SHOWN_BYTES];
            option_show(now, options, option);
            option_show(then, saved, option);
            return options_refuse(
                options, option->name, err,
                " %s: the run in %.200s has %s, and another value would be another run; leave %s%s out", now,
                options->resume, then, options->lines[i] > 0 ? "" : "--", option->name);
        }
        option_copy(options, saved, option);
        options->given[i] = saved->given[i];
        options->lines[i] = 0;
    }
    options_pin_rounds(options, saved->rounds);
    // Drops options of the saved device that the new device ignores: the user did not give them now.
    for (int i = 0; i < option_count; i++)
        if (!option_applies(options, &option_table[i]) && option_equal(options, saved, &option_table[i]))
            options->given[i] = false;
    // The folder may have been moved since: the run continues in its present place.
    memcpy(options->out, options->resume, sizeof options->out);
    options->given[option_index(out)] = false;
    // A trace describes one process: the next process must not overwrite it.
    const Option *trace = option_find("trace");
    if (!asked_for_trace) memset(options->trace, 0, sizeof options->trace), options->given[option_index(trace)] = false;
    return STATUS_OK;
}

#include "run_metrics.h"

#include <math.h>
#include <stdio.h>

#include "app/train/hidden_figures.h"
#include "app/train/run_record.h"
#include "fedavg/memory/client_state_file.h"
#include "fedavg/memory/fingerprint.h"
#include "fedavg/memory/state.h"
#include "fedavg/rules/combine/fairness.h"
#include "fedavg/rules/world/schedule.h"
#include "fedavg/rules/world/walk.h"
#include "fedavg/trainer/faults.h"
#include "fedavg/worker/local_test.h"

static void put_fingerprint(JsonObject *line, const char *key, uint64_t hash) {
    char text[HASH_TEXT_BYTES];
    write_hash(text, hash);
    put_text(line, key, text);
}

static void put_update(JsonObject *line, const Job *job) {
    put_whole(line, "epochs", job->epochs);
    if (job->visit > 0) put_whole(line, "visit", job->visit);
    put_real(line, "share", job->share);
    put_real(line, "update_length", sqrt(job->squared_length));
    put_whole(line, "sent_bytes", (int64_t)job->sent_bytes);
    put_flag(line, "clipped", job->clipped);
    if (job->fingerprint) put_fingerprint(line, "weights_xxh3", job->fingerprint);
}

void put_metrics(JsonObject *line, const char *key, const MetricSums *metrics) {
    JsonObject values;
    if (!metrics || metrics->count == 0) return;
    json_begin(&values);
    for (uint32_t i = 0; i < metrics->count; i++)
        put_real(&values, metrics->all[i].name, metric_value(&metrics->all[i]));
    put_object(line, key, &values);
}

// The samples by which the simulated clock goes, where the training had others: a trainer's, or those of DP-SGD.
static void put_planned(JsonObject *line, const RunMemory *memory, const Job *job, uint32_t round) {
    const RunConfig *config = memory->config;
    const Walk walk = walk_of(&config->recipe.schedule, schedule_key(round - 1, job->visit), job->epochs);
    const uint64_t planned = walk_samples(&walk, job->count, config->training.batch_size);
    if (!memory->algorithm.engine->whole_cohort && planned != job->samples)
        put_whole(line, "samples_planned", (int64_t)planned);
}

Status report_clients(Metrics *metrics, const RunMemory *memory, uint32_t round, Error *err) {
    for (uint32_t i = 0; i < memory->queue->count; i++) {
        const Job *job = &memory->queue->jobs[i];
        uint32_t owner = atomic_load_explicit(&job->owner, memory_order_relaxed);
        uint32_t state = atomic_load_explicit(&job->state, memory_order_relaxed);
        JsonObject line;
        metrics_begin(&line, "client");
        put_whole(&line, "round", round);
        put_whole(&line, "client", job->client);
        put_whole(&line, "node", job->node);
        put_whole(&line, "rank", (int64_t)owner - 1);
        uint32_t own;
        partition_client(&memory->partition, job->client, &own);
        put_whole(&line, "own_samples", own);
        put_whole(&line, "samples", (int64_t)job->samples);
        put_planned(&line, memory, job, round);
        if (job->tokens > 0) put_whole(&line, "tokens", (int64_t)job->tokens);
        put_real(&line, "loss", job->loss_sum / (double)job->samples);
        put_real(&line, "seconds", job->seconds);
        put_flag(&line, "refused", state == JOB_REFUSED);
        if (state_models(memory->config) > 1) put_whole(&line, "cluster", job->cluster);
        if (memory->attackers) put_flag(&line, "attacks", job->attacks);
        if (memory->config->trainer.command[0]) put_whole(&line, "steps", (int64_t)job->steps);
        if (!memory->algorithm.engine->whole_cohort) put_update(&line, job);
        if (memory->metrics) put_real(&line, "trainer_seconds", job->trainer_seconds);
        put_metrics(&line, "metrics", run_memory_metrics(memory, job));
        TRY(hidden_append(metrics, &line, memory->config, err));
    }
    return STATUS_OK;
}

// Adds what was done to the updates before the server saw them, and the privacy that it gives.
static void put_privacy(JsonObject *line, const RoundReport *report, const Training *training,
                        const ReleasePlan *release) {
    if (report->clip > 0) {
        put_real(line, "clip", report->clip);
        put_whole(line, "updates_clipped", report->clipped);
    }
    if (release->local_noise > 0) {
        put_real(line, "local_epsilon", release->local_epsilon);
        put_real(line, "local_delta", release->local_delta);
    }
    if (training->privacy.clip > 0) {
        put_real(line, "sample_epsilon", report->sample_epsilon);
        put_real(line, "sample_delta", training->privacy.delta);
    }
    if (!release->hides) return;
    put_real(line, "noise", release->mechanism.noise);
    put_real(line, "epsilon", report->epsilon);
    put_real(line, "delta", release->delta);
}

// Goodput: the part of all seconds of the clients drawn in which they did work that counts.
static void put_failures(JsonObject *line, const Cohort *cohort, const WorldTotals *totals) {
    const CohortFailures *failures = &cohort->failures;
    const double replica = (double)failures->replica_microseconds;
    if (!failures->lives) return;
    put_whole(line, "clients_failed", failures->failed);
    put_whole(line, "clients_down", failures->down);
    put_real(line, "useful_seconds", 1e-6 * (double)failures->useful_microseconds);
    put_real(line, "replica_seconds", 1e-6 * replica);
    put_real(line, "goodput", replica > 0 ? (double)failures->useful_microseconds / replica : NAN);
    put_real(line, "useful_seconds_total", 1e-6 * (double)totals->useful_microseconds);
    put_real(line, "replica_seconds_total", 1e-6 * (double)totals->replica_microseconds);
}

// Adds the fates of the drawn clients; simulated time and network traffic of this round and in total.
static void put_world(JsonObject *line, const RoundReport *report, const WorldTotals *totals) {
    const Cohort *cohort = report->cohort;
    put_whole(line, "clients_drawn", cohort->count);
    put_whole(line, "clients_trained", cohort->jobs);
    put_whole(line, "clients_dropped_out", cohort->dropped_out);
    put_whole(line, "clients_straggling", cohort->straggling);
    put_whole(line, "clients_late", cohort->late);
    put_flag(line, "abandoned", cohort->abandoned);
    put_real(line, "update_length_mean", report->length_mean);
    put_real(line, "update_length_most", report->length_most);
    put_real(line, "update_dispersion", report->mean_square - report->square_of_mean);
    put_real(line, "gradient_diversity", report->mean_square / report->square_of_mean);
    put_real(line, "simulated_seconds", (double)cohort->microseconds * 1e-6);
    put_whole(line, "down_bytes", (int64_t)cohort->down_bytes);
    put_whole(line, "up_bytes", (int64_t)cohort->up_bytes);
    put_whole(line, "client_down_bytes", (int64_t)cohort->each.down);
    put_whole(line, "client_up_bytes", (int64_t)cohort->each.up);
    put_real(line, "simulated_seconds_total", (double)totals->microseconds * 1e-6);
    put_whole(line, "down_bytes_total", (int64_t)totals->down_bytes);
    put_whole(line, "up_bytes_total", (int64_t)totals->up_bytes);
    put_failures(line, cohort, totals);
    if (!cohort->memory->world_files.powers) return;
    put_real(line, "training_joules", cohort->training_joules);
    put_real(line, "link_joules", cohort->link_joules);
    put_real(line, "training_joules_total", totals->training_joules);
    put_real(line, "link_joules_total", totals->link_joules);
}

static void put_tokens(JsonObject *line, const RoundReport *report, const WorldTotals *totals) {
    if (totals->tokens == 0) return;
    put_whole(line, "tokens", (int64_t)report->tokens);
    put_real(line, "tokens_per_second", (double)report->tokens / report->seconds);
    put_whole(line, "tokens_total", (int64_t)totals->tokens);
}

// Adds the clients that the combine rule picked, if it picks.
static void put_choice(JsonObject *line, const RunMemory *memory, const Combine *combine) {
    uint32_t attackers = 0;
    if (!combine->rule || !combine->rule->picks) return;
    put_wholes(line, "clients_chosen", combine->chosen, combine->chosen_count);
    if (!memory->attackers) return;
    for (uint32_t i = 0; i < combine->chosen_count; i++)
        attackers += memory->attackers[combine->chosen[i]];
    put_whole(line, "attackers_chosen", attackers);
}

// Adds how many clients have taken each of several models.
static void put_clusters(JsonObject *line, const int64_t *clients, const RunConfig *config) {
    if (state_models(config) > 1) put_wholes(line, "clients_by_cluster", clients, state_models(config));
}

// Adds the figures of the net's answers that the client has: AUC needs samples of both classes.
static void put_client_figures(JsonObject *line, const Job *job) {
    const RoundTest test = {.has_targets = true, // MAE is a number only where there are some
                            .figures = job->figures,
                            .loss = NAN,
                            .accuracy = NAN};
    const RoundFacts facts = {.test = &test};
    for (size_t i = 0; i < figure_count; i++) {
        const Figure *figure = &figure_table[i];
        if (figure->of == FIGURE_OF_MODEL && figure->of_answers && !isnan(figure->value(&facts)))
            put_real(line, figure->key, figure->value(&facts));
    }
}

static Status put_client_test(Metrics *metrics, const RunMemory *memory, const Job *job, uint32_t round,
                              const char *model, Error *err) {
    JsonObject line;
    metrics_begin(&line, "client_evaluation");
    put_whole(&line, "round", round);
    put_whole(&line, "client", job->client);
    put_text(&line, "model", model);
    put_text(&line, "data", local_test_data_name(&memory->partition));
    put_whole(&line, "epochs", job->epochs);
    put_whole(&line, "samples", (int64_t)job->samples);
    put_real(&line, "loss", job->loss_sum / (double)job->samples);
    if (job->task == EVALUATE_PERSONAL && memory->config->client_state.rows > 0)
        put_flag(&line, "never_trained", job->state_from == NO_CLIENT_STATE);
    if (state_models(memory->config) > 1 && job->task != EVALUATE_CLIENT) put_whole(&line, "cluster", job->cluster);
    if (!dataset_has_numbers(&memory->data.items) && job->unjudged == 0) {
        put_whole(&line, "hits", job->hits);
        put_real(&line, "accuracy", (double)job->hits / (double)job->samples);
    }
    if (job->figured) put_client_figures(&line, job);
    put_metrics(&line, "metrics", run_memory_metrics(memory, job));
    return hidden_append(metrics, &line, memory->config, err);
}

static void put_accuracies(JsonObject *line, const ClientTests *tests) {
    const Fairness *fairness = &tests->accuracy;
    put_real(line, "accuracy_by_samples", (double)tests->hits / (double)tests->samples);
    put_real(line, "accuracy_mean", fairness->mean);
    put_reals(line, "accuracy_quantiles", fairness->quantiles, FAIRNESS_QUANTILES);
    put_real(line, "accuracy_variance_percent2", fairness->variance);
    put_real(line, "accuracy_worst_tenth", fairness->worst_tenth);
    put_real(line, "accuracy_best_tenth", fairness->best_tenth);
    put_real(line, "accuracy_jain", fairness->jain);
}

// The worst clients have the largest losses.
static void put_losses(JsonObject *line, const Fairness *fairness) {
    put_reals(line, "loss_quantiles", fairness->quantiles, FAIRNESS_QUANTILES);
    put_real(line, "loss_worst_tenth", fairness->best_tenth);
    put_real(line, "loss_best_tenth", fairness->worst_tenth);
}

Status report_client_tests(Metrics *metrics, const RunMemory *memory, uint32_t round, const char *model,
                           const ClientTests *tests, bool each, Error *err) {
    const Queue *queue = memory->queue;
    JsonObject line;
    for (uint32_t i = 0; i < queue->count && each; i++)
        if (queue->jobs[i].samples > 0) TRY(put_client_test(metrics, memory, &queue->jobs[i], round, model, err));
    if (tests->clients == 0) return STATUS_OK;
    metrics_begin(&line, "clients_evaluation");
    put_whole(&line, "round", round);
    put_text(&line, "model", model);
    put_text(&line, "data", local_test_data_name(&memory->partition));
    put_whole(&line, "clients", tests->clients);
    put_whole(&line, "clients_untested", tests->untested);
    if (queue->jobs[0].task == EVALUATE_PERSONAL) put_whole(&line, "clients_never_trained", tests->never_trained);
    if (queue->jobs[0].task != EVALUATE_CLIENT) put_clusters(&line, tests->clients_of, memory->config);
    put_whole(&line, "samples", (int64_t)tests->samples);
    put_real(&line, "loss_by_samples", tests->loss_sum / (double)tests->samples);
    put_real(&line, "loss_mean", tests->loss.mean);
    if (dataset_has_numbers(&memory->data.items) || !tests->judged)
        put_losses(&line, &tests->loss);
    else
        put_accuracies(&line, tests);
    put_metrics(&line, "metrics", &tests->metrics);
    return hidden_append(metrics, &line, memory->config, err);
}

// Adds times per rank, and their mean; and times between nodes.
static void put_synchronisation(JsonObject *line, const RoundReport *report, const RunConfig *config) {
    double total = report->synchronising_seconds, hidden = report->hidden_seconds;
    put_reals(line, "synchronising_seconds", report->worker_sync_seconds, config->workers);
    put_reals(line, "synchronising_hidden_seconds", report->worker_hidden_seconds, config->workers);
    put_real(line, "gradient_sync_seconds", total);
    put_real(line, "gradient_sync_hidden_seconds", hidden);
    put_real(line, "gradient_sync_exposed_seconds", total - hidden);
    if (config->nodes == 1) return;
    put_real(line, "exchange_seconds", report->exchange_seconds);
    put_real(line, "exchange_hidden_seconds", report->exchange_hidden_seconds);
}

// Adds how many updates had staleness 0, 1, 2, ...; the last entry of a full histogram counts that many or more.
static void put_staleness(JsonObject *line, const int64_t counts[STALENESS_BUCKETS], double mean) {
    size_t used = 0;
    for (size_t bucket = 0; bucket < STALENESS_BUCKETS; bucket++)
        if (counts[bucket] > 0) used = bucket + 1;
    put_wholes(line, "staleness", counts, used);
    put_real(line, "staleness_mean", mean);
}

// Adds facts about the updates in the round's step, and those pending for later steps.
static void put_pending(JsonObject *line, const Pending *pending) {
    put_whole(line, "updates", pending->updates);
    put_whole(line, "updates_waiting", pending->memory->schedule.waiting_count);
    put_whole(line, "staleness_most", pending->staleness_most);
    put_staleness(line, pending->staleness, pending->staleness_mean);
}

void put_figures_of(JsonObject *line, FigureOf of, const RoundFacts *facts, const char *prefix) {
    for (size_t i = 0; i < figure_count; i++) {
        char key[FIGURE_KEY_BYTES], prefixed[FIGURE_KEY_BYTES + 16];
        if (figure_table[i].of != of || !figure_is_listed(&figure_table[i], facts)) continue;
        figure_key(key, &figure_table[i], facts->test->validates);
        snprintf(prefixed, sizeof prefixed, "%.15s%s", prefix, key);
        put_real(line, prefixed, figure_table[i].value(facts));
    }
}

void put_test(JsonObject *line, const RoundTest *test, const RunFigure *figure) {
    static const FigureOf before[] = {FIGURE_OF_MODEL, FIGURE_OF_ATTACK, FIGURE_OF_PERSONAL, FIGURE_OF_CLIENTS},
                          after[] = {FIGURE_OF_NEW_CLIENTS, FIGURE_OF_NEW_TUNED};
    const RoundFacts facts = {.test = test, .about = run_figure_row(figure)};
    for (size_t i = 0; i < sizeof before / sizeof *before; i++)
        put_figures_of(line, before[i], &facts, "");
    put_metrics(line, figure_metric.key, &test->metrics);
    for (size_t i = 0; i < sizeof after / sizeof *after; i++)
        put_figures_of(line, after[i], &facts, "");
}

// Hashes these weights (count) of all models of the run: the hash of each is the seed of the next one.
static uint64_t hash_models(const RunMemory *memory, uint64_t first, uint64_t count) {
    uint64_t hash = XXH3_64bits(memory->weights + first, count * sizeof *memory->weights);
    for (uint32_t m = 1; m < state_models(memory->config); m++)
        hash = XXH3_64bits_withSeed(state_model(memory, m) + first, count * sizeof *memory->weights, hash);
    return hash;
}

// Adds fingerprints of the new model and of each of its tensors.
static void put_fingerprints(JsonObject *line, const RunMemory *memory) {
    const TensorList *list = &memory->tensors;
    JsonObject tensors;
    put_fingerprint(line, "model_xxh3", hash_models(memory, 0, memory->config->parameters));
    json_begin(&tensors);
    for (int t = 0; t < list->count; t++) {
        const ParameterTensor *tensor = &list->tensors[t];
        put_fingerprint(&tensors, tensor->name, hash_models(memory, tensor->first, tensor->count));
    }
    put_object(line, "tensors_xxh3", &tensors);
}

// Writes the trainers' faults since the last round, on this node. Returns by *restarts how many there were.
static Status report_faults(Metrics *metrics, const RunMemory *memory, uint32_t *restarts, Error *err) {
    *restarts = 0;
    for (uint32_t rank = 0; rank < memory->config->workers; rank++) {
        TrainerFault faults[TRAINER_FAULTS];
        uint32_t count;
        *restarts += trainer_faults_take(faults, &count, memory->control, rank);
        for (uint32_t i = 0; i < count; i++) {
            JsonObject line;
            metrics_begin(&line, "trainer_fault");
            put_whole(&line, "round", faults[i].round);
            if (faults[i].client == UINT32_MAX)
                put_null(&line, "client");
            else
                put_whole(&line, "client", faults[i].client);
            put_whole(&line, "rank", rank);
            put_readable(&line, "what", faults[i].what);
            put_real(&line, "seconds", faults[i].seconds);
            TRY(hidden_append(metrics, &line, memory->config, err));
        }
    }
    return STATUS_OK;
}

Status report_round(Metrics *metrics, const RunMemory *memory, const RoundReport *report, const RoundTest *test,
                    const RunFigure *figure, const char *device, RunCosts costs, Error *err) {
    const Control *control = memory->control;
    uint32_t restarts;
    TRY(report_faults(metrics, memory, &restarts, err));
    JsonObject line;
    metrics_begin(&line, "round");
    put_whole(&line, "round", report->round);
    put_text(&line, "device", device);
    put_real(&line, "lr", report->lr);
    put_real(&line, "train_loss", report->train_loss);
    put_metrics(&line, "train_metrics", &report->train_metrics);
    put_test(&line, test, figure);
    put_real(&line, "seconds", report->seconds);
    put_real(&line, "eval_seconds", test->tested ? report->evaluate_seconds : NAN);
    put_real(&line, "seconds_total", costs.seconds);
    if (!isnan(costs.joules)) put_real(&line, "measured_joules_total", costs.joules);
    put_fingerprints(&line, memory);
    put_whole(&line, "samples", (int64_t)report->samples);
    put_real(&line, "samples_per_second", (double)report->samples / report->seconds);
    put_tokens(&line, report, &control->totals);
    put_reals(&line, "barrier_wait_seconds", report->barrier_wait_seconds, control->config.workers);
    put_whole(&line, "workers_lost", report->workers_lost);
    if (memory->config->trainer.command[0]) put_whole(&line, "trainer_restarts", restarts);
    put_whole(&line, "updates_refused", report->refused);
    put_privacy(&line, report, &control->config.training, &control->config.release);
    if (!memory->algorithm.engine->whole_cohort) put_world(&line, report, &control->totals);
    if (memory->attackers) put_whole(&line, "attackers", report->attackers);
    const RunConfig *config = &control->config;
    if (config->view.drift.row != VIEW_DRIFT_NONE)
        put_whole(&line, "concept", view_concept(&config->view.drift, config->seed, report->round, VIEW_TEST_SET));
    if (report->combine) put_choice(&line, memory, report->combine);
    put_clusters(&line, report->trained_of, config);
    if (memory->algorithm.engine->in_lockstep) put_synchronisation(&line, report, &control->config);
    if (control->config.nodes > 1) put_whole(&line, "nodes", control->config.nodes);
    if (memory->algorithm.engine->client_is_worker) {
        uint64_t updates = atomic_load_explicit(&control->updates, memory_order_relaxed);
        put_whole(&line, "updates", (int64_t)updates);
        put_whole(&line, "steps_refused", (int64_t)report->refused_steps);
        put_staleness(&line, report->staleness, report->staleness_mean);
    }
    if (report->pending) put_pending(&line, report->pending);
    return hidden_append(metrics, &line, memory->config, err);
}

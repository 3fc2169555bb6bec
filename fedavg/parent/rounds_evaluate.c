// Part of rounds.h: evaluation. The parent has candidates and members evaluated before they train, the model and every
// client's own samples afterwards.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "fedavg/memory/state.h"
#include "fedavg/parent/rounds.h"
#include "fedavg/rules/attack/attack_rules.h"
#include "fedavg/rules/world/sampler.h"
#include "nn/label_rows.h"

// Sets the rate of the round: a resumed run tests a model whose round another process drew. Fine-tuning trains with
// that rate, and trainers are told it.
static Status run_evaluation(Rounds *rounds, uint32_t round, Error *err) {
    TRY(engine_lr(&rounds->memory->control->order.lr, rounds->memory, rounds->nodes, round, err));
    return phases_run_jobs(&rounds->phases, PHASE_EVALUATE, round, err);
}

// Finds the losses (count) of the global model on what each of the clients (count) trains on, or on one batch of it.
// The parent waits for this phase before it draws or weighs: all nodes need all losses. Jobs are merged by place, so
// that losses[place] belongs to clients[place] on every node.
static Status find_losses(Rounds *rounds, uint32_t round, double *losses, const uint32_t *clients, uint32_t count,
                          EvaluationTask task, Error *err) {
    const RunConfig *config = rounds->memory->config;
    Queue *queue = rounds->memory->queue;
    queue_clear(queue);
    for (uint32_t place = 0; place < count; place++) {
        if (!node_jobs_mine(rounds->nodes, place)) continue;
        Job *job;
        TRY(rounds_post(&job, rounds, place, err));
        job->client = clients[place];
        job->task = task;
        job->state_from = client_state_rows_of(&rounds->client_states, job->client);
        if (task == EVALUATE_TRAINING_DATA) continue;
        const uint32_t samples = rounds->cohort.samples[job->client], size = config->training.batch_size;
        job->count = samples < size ? samples : size;
        job->first = sampler_batch(config->seed, round, job->client, samples, size);
        assert(job->first + job->count <= samples);
    }
    TRY(run_evaluation(rounds, round, err));
    TRY(node_jobs_merge(rounds->memory, rounds->nodes, err));
    for (uint32_t place = 0; place < count; place++)
        losses[place] = run_objective(config) * queue->jobs[place].loss_sum / (double)queue->jobs[place].samples;
    return STATUS_OK;
}

// Losses of the last training cost nothing and may be old; those of an evaluation are of the present model and cost a
// phase with traffic. --sampling says which of them decide.
Status rounds_choose_candidates(Rounds *rounds, uint32_t round, Error *err) {
    Cohort *cohort = &rounds->cohort;
    const int by = rounds->memory->config->world.candidates_by;
    assert(cohort->candidates > 0);
    if (by == CANDIDATES_LAST)
        for (uint32_t i = 0; i < cohort->candidates; i++)
            cohort->losses[i] = rounds->memory->client_notes[cohort->drawn[i]];
    else
        TRY(find_losses(rounds, round, cohort->losses, cohort->drawn, cohort->candidates,
                        by == CANDIDATES_BATCH ? EVALUATE_TRAINING_PART : EVALUATE_TRAINING_DATA, err));
    cohort_choose(cohort);
    return STATUS_OK;
}

Status rounds_weigh_members(Rounds *rounds, uint32_t round, Error *err) {
    Cohort *cohort = &rounds->cohort;
    for (uint32_t place = 0; place < cohort->jobs; place++)
        cohort->drawn[place] = cohort->members[place].client;
    TRY(find_losses(rounds, round, cohort->losses, cohort->drawn, cohort->jobs, EVALUATE_TRAINING_DATA, err));
    for (uint32_t place = 0; place < cohort->jobs; place++)
        cohort->members[place].loss = cohort->losses[place];
    return cohort_weigh(cohort, rounds->nodes, err);
}

// Counted where they are reported: a death in an evaluation belongs to the report of its round, too.
uint32_t rounds_take_deaths(Rounds *rounds) {
    uint32_t deaths = rounds->phases.lost;
    rounds->phases.lost = 0;
    return deaths;
}

typedef struct ChunkSums {
    BatchResult result;
    uint64_t samples, unjudged; // unjudged: samples of which a trainer does not say whether they were right
} ChunkSums;

// Chunks have one size for any number of workers and nodes, and results are added in their order: the bits of the loss
// depend on neither. A trainer may ask for the whole test set at once. most: of the chunks, in a rehearsal.
static Status evaluate_in_chunks(Rounds *rounds, uint32_t round, EvaluationTask task, uint32_t most, ChunkSums *sums,
                                 Error *err) {
    RunMemory *memory = rounds->memory;
    const bool validates = task == EVALUATE_VALIDATION;
    const uint32_t all = validates ? memory->partition.validation_count : memory->data.test.count;
    const bool is_whole = memory->config->trainer.whole_test && (task == EVALUATE_TEST_SET || validates);
    const uint32_t size = is_whole ? all : rounds_test_chunk(&memory->data);
    assert(all > 0);
    // Answers of other nodes are zeros here, and the sum over the nodes has all of them.
    const bool joins = memory->config->nodes > 1 && memory->answers && task != EVALUATE_BACKDOOR;
    const size_t answers = all * spec_answers(&memory->config->spec);
    if (joins) memset(memory->answers, 0, answers * sizeof *memory->answers);
    queue_clear(memory->queue);
    for (uint32_t first = 0, place = 0; first < all && place < most; first += size, place++) {
        const uint32_t left = all - first;
        if (!node_jobs_mine(rounds->nodes, place)) continue;
        Job *job;
        TRY(rounds_post(&job, rounds, place, err));
        job->first = first;
        job->count = left < size ? left : size;
        job->task = task;
        // Where each sample is a client of its own, the trainer may read what that client keeps.
        if (memory->data.items.are_clients && size == 1 && memory->config->clients == all && !validates)
            job->state_from = client_state_rows_of(&rounds->client_states, first);
    }
    TRY(run_evaluation(rounds, round, err));
    TRY(node_jobs_merge(memory, rounds->nodes, err));
    static_assert(sizeof(Answer) == sizeof(int64_t), "answers are summed as integers");
    if (joins) TRY(nodes_sum(rounds->nodes, (int64_t *)(void *)memory->answers, answers, err));
    *sums = (ChunkSums){0};
    for (uint32_t i = 0; i < memory->queue->count; i++) {
        sums->result.loss_sum += memory->queue->jobs[i].loss_sum;
        sums->result.hits += memory->queue->jobs[i].hits;
        sums->samples += memory->queue->jobs[i].samples;
        sums->unjudged += memory->queue->jobs[i].unjudged;
    }
    if (sums->samples > INT32_MAX)
        return fail(err, STATUS_DATA, "--trainer: its tests told %llu samples; at most %d are counted",
                    (unsigned long long)sums->samples, INT32_MAX);
    if (sums->unjudged == 0 || sums->unjudged == sums->samples) return STATUS_OK;
    return fail(err, STATUS_DATA,
                "--trainer: its test counts hits in some turns, and none in those of %llu of %llu samples; give hits= "
                "to every turn.add of a test, or to none",
                (unsigned long long)sums->unjudged, (unsigned long long)sums->samples);
}

// The attack succeeds on a marked sample if the model takes it for the attacker's target, so that hits are its
// successes. A trainer that counts no hits does not tell its success.
static Status evaluate_backdoor(Rounds *rounds, uint32_t round, RoundReport *report, Error *err) {
    ChunkSums sums;
    if (rounds->memory->config->attack.row != ATTACK_BACKDOOR) return STATUS_OK;
    TRY(evaluate_in_chunks(rounds, round, EVALUATE_BACKDOOR, UINT32_MAX, &sums, err));
    if (sums.unjudged > 0) return STATUS_OK;
    report->backdoor_hits = sums.result.hits;
    assert(sums.result.hits <= sums.samples);
    report->backdoor_count = (uint32_t)sums.samples;
    return STATUS_OK;
}

// Figures of single classes, and of distances. Workers of a GPU give no answers, and its parent does if it is told to.
static Status measure_answers(Rounds *rounds, RoundReport *report, Error *err) {
    const RunMemory *memory = rounds->memory;
    const bool on_gpu = rounds->parent.backend->evaluate;
    const int classes = memory->config->spec.squared_loss ? 0 : memory->config->spec.classes;
    report->test_figures = answer_figures_none();
    if (!memory->answers || (on_gpu && (report->validates || !rounds->wants_answers))) return STATUS_OK;
    if (memory->config->spec.label_rows) {
        label_rows_figures(&report->test_figures, NULL, memory->answers, report->test_count, classes);
        return STATUS_OK;
    }
    return answer_figures(&report->test_figures, memory->answers, report->test_count, classes, err);
}

// A GPU tests in the parent, whose net has all test samples in its memory; the validation set and the backdoor's marked
// samples are always the workers' work.
static Status evaluate_set(Rounds *rounds, uint32_t round, EvaluationTask task, uint32_t most, ChunkSums *sums,
                           Error *err) {
    const RunMemory *memory = rounds->memory;
    Parent *parent = &rounds->parent;
    *sums = (ChunkSums){.samples = memory->data.test.count};
    if (parent->backend->evaluate && task == EVALUATE_TEST_SET)
        return parent->backend->evaluate(parent, &sums->result, rounds->wants_answers ? memory->answers : NULL, NULL,
                                         round, err);
    return evaluate_in_chunks(rounds, round, task, most, sums, err);
}

// Workers that train from round to round are called to the barrier first.
Status rounds_evaluate(Rounds *rounds, uint32_t round, EvaluationTask task, RoundReport *report, Error *err) {
    if (rounds->engine->rest) TRY(rounds->engine->rest(rounds, err));
    uint64_t start = clock_nanoseconds();
    ChunkSums sums;
    const bool validates = task == EVALUATE_VALIDATION;
    TRY(evaluate_set(rounds, round, task, UINT32_MAX, &sums, err));
    TRY(run_memory_join_metrics(&report->test_metrics, rounds->memory, err));
    report->test_hits = sums.result.hits;
    report->validates = validates;
    report->test_count = (uint32_t)sums.samples;
    report->test_judged = sums.unjudged == 0;
    assert(sums.result.hits <= report->test_count && sums.unjudged <= report->test_count);
    report->test_loss = sums.result.loss_sum / (double)report->test_count;
    TRY(measure_answers(rounds, report, err));
    TRY(evaluate_backdoor(rounds, round, report, err));
    report->evaluate_seconds = clock_seconds_since(start);
    report->workers_lost += rounds_take_deaths(rounds);
    trace_end(rounds->trace, TRACE_EVALUATE, start, round, round);
    return STATUS_OK;
}

Status rounds_rehearse_test(Rounds *rounds, Rehearsal *rehearsal, Error *err) {
    const uint64_t begin = clock_nanoseconds();
    const bool validates = rounds->memory->partition.validation_count > 0;
    ChunkSums sums;
    TRY(evaluate_set(rounds, 1, validates ? EVALUATE_VALIDATION : EVALUATE_TEST_SET, 1, &sums, err));
    rehearsal->tested = sums.samples;
    rehearsal->test_seconds = clock_seconds_since(begin);
    return STATUS_OK;
}

// Workers find the model in shared memory, where the other one takes its place for the test.
Status rounds_evaluate_other(Rounds *rounds, uint32_t round, const float *weights, RoundReport *report, Error *err) {
    RunMemory *memory = rounds->memory;
    const ParentBackend *parent = rounds->parent.backend;
    const size_t bytes = memory->config->parameters * sizeof *weights;
    if (parent->evaluate) {
        BatchResult result;
        TRY(parent->evaluate(&rounds->parent, &result, NULL, weights, round, err));
        report->test_figures = answer_figures_none();
        report->test_count = memory->data.test.count;
        report->test_hits = result.hits;
        report->test_judged = true;
        report->test_loss = result.loss_sum / (double)report->test_count;
        return STATUS_OK;
    }
    if (rounds->engine->rest) TRY(rounds->engine->rest(rounds, err));
    float *tested = state_tested_model(memory), *model = malloc(bytes);
    if (!model) return fail(err, STATUS_OS, "no memory for a copy of the model (%zu bytes)", bytes);
    memcpy(model, tested, bytes);
    memcpy(tested, weights, bytes);
    const Status status = rounds_evaluate(rounds, round, EVALUATE_TEST_SET, report, err);
    memcpy(tested, model, bytes);
    free(model);
    return status;
}

// Clients are numbered by place, so that the queue's jobs are the clients in order. An evaluation reads a client's row
// (state_from) and never writes one.
Status rounds_evaluate_clients(Rounds *rounds, uint32_t round, EvaluationTask task, bool new_ones, Error *err) {
    if (rounds->engine->rest) TRY(rounds->engine->rest(rounds, err));
    const RunConfig *config = rounds->memory->config;
    uint64_t begin = trace_begin(rounds->trace);
    queue_clear(rounds->memory->queue);
    for (uint32_t client = 0, place = 0; client < config->clients; client++) {
        if (!(new_ones ? run_memory_is_new : run_memory_can_arrive)(rounds->memory, client)) continue;
        if (!node_jobs_mine(rounds->nodes, place++)) continue;
        Job *job;
        TRY(rounds_post(&job, rounds, place - 1, err));
        job->client = client;
        job->task = task;
        job->epochs = task == EVALUATE_FINE_TUNED ? config->finetune_epochs
                      : task == EVALUATE_PERSONAL ? config->personal.tune_epochs
                                                  : 0;
        job->state_from = client_state_rows_of(&rounds->client_states, client);
    }
    TRY(run_evaluation(rounds, round, err));
    trace_end(rounds->trace, TRACE_EVALUATE, begin, round, round);
    return node_jobs_merge(rounds->memory, rounds->nodes, err);
}

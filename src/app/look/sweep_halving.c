#include "sweep_halving.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/metrics.h"

// Whether two runs differ in the seed alone.
static bool same_group(const SweepPlan *plan, size_t a, size_t b) {
    for (size_t axis = 0; axis < plan->axis_count; axis++)
        if (strcmp(plan->axes[axis].option->name, "seed") != 0 &&
            strcmp(sweep_plan_value(plan, a, axis), sweep_plan_value(plan, b, axis)) != 0)
            return false;
    return true;
}

static bool begins_group(const SweepPlan *plan, size_t i) {
    for (size_t k = 0; k < i; k++)
        if (same_group(plan, k, i)) return false;
    return true;
}

Status halving_check(const Job *jobs, const SweepPlan *plan, Error *err) {
    for (size_t i = 1; i < plan->count; i++)
        if (jobs[i].rounds != jobs[0].rounds)
            return fail(err, STATUS_USAGE,
                        "--search halving: all runs need the same --rounds, which it divides; give one value");
    return STATUS_OK;
}

void halving_plan(Ladder *ladder, const SweepPlan *plan, int rounds) {
    size_t groups = 0;
    *ladder = (Ladder){.rungs = 1};
    for (size_t i = 0; i < plan->count; i++)
        groups += begins_group(plan, i);
    ladder->groups[0] = groups;
    for (int left = rounds; groups > 1 && left >= HALVING_FACTOR && ladder->rungs < HALVING_MOST_RUNGS;
         ladder->rungs++) {
        groups = (groups + HALVING_FACTOR - 1) / HALVING_FACTOR;
        ladder->groups[ladder->rungs] = groups;
        left /= HALVING_FACTOR;
    }
    for (int rung = ladder->rungs - 1; rung >= 0; rung--, rounds /= HALVING_FACTOR)
        ladder->rounds[rung] = rounds;
}

Status halving_begin(Job *jobs, const Ladder *ladder, int rung, const SweepPlan *plan, Error *err) {
    for (size_t i = 0; i < plan->count; i++) {
        if (jobs[i].state == JOB_LEFT || jobs[i].state == JOB_HAS_FAILED) continue;
        if (jobs[i].state == JOB_ELSEWHERE)
            return fail(err, STATUS_USAGE,
                        "%s runs in another process, and --search halving has to know how it ends; wait for that",
                        jobs[i].folder);
        TRY(sweep_job_aim(&jobs[i], ladder->rounds[rung], err));
    }
    return STATUS_OK;
}

// Scores --------------------------------------------------------------------------------------------------------------

// Of a test: the larger the accuracy, and where that is the same the smaller the loss, the better.
typedef struct Score {
    double accuracy, loss;
} Score;

static const Score WORST = {-INFINITY, INFINITY};

typedef struct Search {
    json_int_t round;
    Score score;
} Search;

static Status note_round(void *context, json_t *line, Error *err) {
    (void)err;
    Search *search = context;
    const json_t *accuracy = json_object_get(line, "test_accuracy"), *loss = json_object_get(line, "test_loss");
    if (json_integer_value(json_object_get(line, "round")) == search->round && json_is_number(loss))
        search->score = (Score){json_number_value(accuracy), json_number_value(loss)};
    return STATUS_OK;
}

// By its test after so many rounds; one that has none is worse than all.
static Score score_of(const Job *job, int rounds) {
    static const char *const types[] = {"round", NULL};
    Search search = {.round = rounds, .score = WORST};
    Error ignored;
    const Folder folder = {.fd = open(job->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), .path = job->folder};
    if (folder.fd < 0 || job->state == JOB_HAS_FAILED) return WORST;
    if (metrics_visit(&folder, types, note_round, &search, &ignored) != STATUS_OK) search.score = WORST;
    close(folder.fd);
    return search.score;
}

// The mean of the group that begins with this job.
static Score group_score(const Job *jobs, int rounds, const SweepPlan *plan, size_t first) {
    Score sum = {0, 0};
    int runs = 0;
    for (size_t i = first; i < plan->count; i++) {
        if (!same_group(plan, first, i)) continue;
        const Score score = score_of(&jobs[i], rounds);
        sum.accuracy += score.accuracy;
        sum.loss += score.loss;
        runs++;
    }
    return (Score){sum.accuracy / runs, sum.loss / runs};
}

static bool is_better(const Score *a, const Score *b) {
    return a->accuracy > b->accuracy || (a->accuracy == b->accuracy && a->loss < b->loss);
}

static void leave_group(Job *jobs, const SweepPlan *plan, size_t first) {
    for (size_t i = first; i < plan->count; i++)
        if (same_group(plan, first, i) && jobs[i].state != JOB_HAS_FAILED) jobs[i].state = JOB_LEFT;
}

Status halving_select(Job *jobs, const Ladder *ladder, int rung, const SweepPlan *plan, Error *err) {
    if (rung + 1 == ladder->rungs) return STATUS_OK;
    Score *scores = malloc(plan->count * sizeof *scores);
    size_t *firsts = malloc(plan->count * sizeof *firsts), groups = 0; // the first job of each group that takes part
    Status status = scores && firsts ? STATUS_OK : fail(err, STATUS_OS, "no memory for %zu figures", plan->count);
    for (size_t i = 0; i < plan->count && status == STATUS_OK; i++) {
        if (jobs[i].state == JOB_LEFT || !begins_group(plan, i)) continue;
        scores[groups] = group_score(jobs, ladder->rounds[rung], plan, i);
        firsts[groups++] = i;
    }
    // Of equal ones the first stays.
    for (size_t i = 0; i < groups && status == STATUS_OK; i++) {
        size_t better = 0;
        for (size_t k = 0; k < groups; k++)
            better += is_better(&scores[k], &scores[i]) || (k < i && !is_better(&scores[i], &scores[k]));
        if (better >= ladder->groups[rung + 1]) leave_group(jobs, plan, firsts[i]);
    }
    free(scores);
    free(firsts);
    return status;
}

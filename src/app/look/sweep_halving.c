#include "sweep_halving.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/options/run_figure.h"
#include "io/metrics.h"

// Whether two runs differ only in the seed, or in other values that repeat an experiment.
static bool same_group(const SweepPlan *plan, size_t a, size_t b) {
    for (size_t axis = 0; axis < plan->axis_count; axis++)
        if (!plan->axes[axis].repeats && strcmp(sweep_plan_value(plan, a, axis), sweep_plan_value(plan, b, axis)) != 0)
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
    char names[2][RUN_FIGURE_NAME_BYTES];
    for (size_t i = 1; i < plan->count; i++)
        if (!run_figure_same(&jobs[i].figure, &jobs[0].figure))
            return fail(err, STATUS_USAGE,
                        "--search halving: %s and %s are not judged by the same figure: one is about its %s, the other "
                        "about its %s; give values of --algorithm and --target whose runs are about the same",
                        jobs[0].name, jobs[i].name, run_figure_name(names[0], &jobs[0].figure),
                        run_figure_name(names[1], &jobs[i].figure));
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

double halving_share(const SweepPlan *plan, int rounds) {
    Ladder ladder;
    double trained = 0;
    halving_plan(&ladder, plan, rounds);
    for (int rung = 0, before = 0; rung < ladder.rungs; before = ladder.rounds[rung++])
        trained += (double)ladder.groups[rung] * (ladder.rounds[rung] - before);
    return trained / ((double)ladder.groups[0] * rounds);
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

// The score of a test: the figure that the run is about, and the loss, which decides between equal figures.
typedef struct Score {
    RunFigure figure;
    double value, loss; // NaN: worse than every number
} Score;

typedef struct Search {
    json_int_t round;
    Score score;
} Search;

static Status note_line(void *context, json_t *line, Error *err) {
    (void)err;
    Search *search = context;
    Score *score = &search->score;
    if (metrics_is(line, "start"))
        score->figure = run_figure_told(line);
    else
        run_figure_settle(&score->figure, line);
    const bool is_tested = json_is_number(json_object_get(line, "eval_seconds"));
    if (is_tested && json_integer_value(json_object_get(line, "round")) <= search->round) {
        const RunFigure loss = run_figure_loss(&score->figure);
        *score = (Score){score->figure, run_figure_in(line, &score->figure), run_figure_in(line, &loss)};
    }
    return STATUS_OK;
}

// Scores a job by its test after this many rounds, or by the last one before: its target or its patience may have ended
// it, or an earlier sweep has trained it further, with --eval-every. A job without a test is worse than all others.
static Score score_of(const Job *job, int rounds) {
    static const char *const types[] = {"start", "round", NULL};
    Search search = {.round = rounds, .score = {.value = NAN, .loss = NAN}};
    Error ignored;
    const Status status = metrics_visit_run(job->folder, types, note_line, &search, &ignored);
    if (status != STATUS_OK || job->state == JOB_HAS_FAILED) search.score.value = search.score.loss = NAN;
    return search.score;
}

// Returns the mean score of the group whose first job this is.
static Score group_score(const Job *jobs, int rounds, const SweepPlan *plan, size_t first) {
    Score sum = {0};
    int runs = 0;
    for (size_t i = first; i < plan->count; i++) {
        if (!same_group(plan, first, i)) continue;
        const Score score = score_of(&jobs[i], rounds);
        sum.figure = score.figure;
        sum.value += score.value;
        sum.loss += score.loss;
        runs++;
    }
    return (Score){sum.figure, sum.value / runs, sum.loss / runs};
}

static bool is_better(const Score *a, const Score *b) {
    if (a->value != b->value && !(isnan(a->value) && isnan(b->value)))
        return run_figure_is_better(&a->figure, a->value, b->value);
    const RunFigure loss = run_figure_loss(&a->figure);
    return run_figure_is_better(&loss, a->loss, b->loss);
}

// Different figures cannot be compared. A failed run may have none, and is skipped.
static Status check_figures(const Score *scores, const size_t *firsts, size_t groups, const Job *jobs, Error *err) {
    size_t known = groups;
    char names[2][RUN_FIGURE_NAME_BYTES];
    for (size_t i = 0; i < groups; i++) {
        if (isnan(scores[i].value)) continue;
        if (known == groups) known = i;
        if (!run_figure_same(&scores[i].figure, &scores[known].figure))
            return fail(err, STATUS_USAGE,
                        "--search halving: %s is about its %s, and %s about its %s, which cannot be compared; give "
                        "values whose runs are about the same",
                        jobs[firsts[known]].name, run_figure_name(names[0], &scores[known].figure),
                        jobs[firsts[i]].name, run_figure_name(names[1], &scores[i].figure));
    }
    return STATUS_OK;
}

// A model that is not finite, and options or data that train refuses, are the values' own fault.
static bool is_by_values(int code) {
    return code == EX_SOFTWARE || code == EX_USAGE || code == EX_DATAERR || code == EX_NOINPUT;
}

const Job *halving_unjudged(const Job *jobs, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (jobs[i].state == JOB_HAS_FAILED && !is_by_values(jobs[i].code)) return &jobs[i];
    return NULL;
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
    if (status == STATUS_OK) status = check_figures(scores, firsts, groups, jobs, err);
    // The first of equal groups is kept.
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

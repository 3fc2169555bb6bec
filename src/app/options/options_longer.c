// Part of options.h: checks the plan of a run's rounds when it begins, and goals that may end it before its last round.
#include "app/options/options.h"

#include "app/options/run_budget.h"
#include "app/options/run_target.h"

Status options_check_rounds(const Options *options, int rounds, Error *err) {
    const LrSchedule *schedule = &options->training.schedule;
    const bool spends = options->recipe.release.row != RELEASE_EXACT && options->privacy_rounds > 0;
    if (schedule->kind == LR_COSINE && schedule->rounds > 0 && schedule->rounds < (uint32_t)rounds)
        return options_refuse(options, "rounds", err,
                              " %d: the cosine of the learning rate ends with round %u; lower that or begin a run with "
                              "more rounds= in --lr-schedule",
                              rounds, schedule->rounds);
    if (spends && options->privacy_rounds < rounds)
        return options_refuse(options, "rounds", err,
                              " %d: the noise spends epsilon in %d rounds, and more would spend more; lower that or "
                              "begin a run with more --privacy-rounds",
                              rounds, options->privacy_rounds);
    return STATUS_OK;
}

Status options_check_resumed(const Options *options, int rounds, Error *err) {
    if (options_clock_is_real(options))
        return options_refuse(options, "clock", err, " real: a run cannot go on in it; begin anew with another --out");
    return options_check_rounds(options, rounds, err);
}

// A resumed run with changed tests keeps its patience, which the user did not give now.
Status options_check_goals(const Options *options, Error *err) {
    const bool waits = options->patience > 0;
    Target target;
    RunFigure figure;
    Budget budget;
    TRY(target_read(&target, options, err));
    if (options->patience_by[0]) TRY(patience_by_read(&figure, options, err));
    TRY(budget_read(&budget, options, err));
    if (options->eval_every > 0 || options->resume[0] || !(waits || options->stop_at_target)) return STATUS_OK;
    return options_refuse(options, waits ? "patience" : "stop-at-target", err,
                          ": with --eval-every 0 only the last round is tested, and nothing can end the run before; "
                          "leave one of them out");
}

// A plan is of one machine and one run from its beginning, and its lines are all that it gives.
Status options_check_plan(const Options *options, Error *err) {
    if (!options->plan) return STATUS_OK;
    if (options->resume[0])
        return options_refuse(options, "plan", err,
                              ": plans a run from its beginning; leave --resume out, and give %.200s/config.yaml",
                              options->resume);
    if (options->nodes > 1)
        return options_refuse(options, "plan", err,
                              ": plans the run of one machine; start it there without mpirun or srun");
    if (options->quiet)
        return options_refuse(options, "plan", err, ": prints what --quiet hides; leave one of the two out");
    return STATUS_OK;
}

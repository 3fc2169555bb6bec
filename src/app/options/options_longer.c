// Part of options.h: checks the plan of a run's rounds when it begins, and goals that may end it before its last round.
#include "app/options/options.h"

#include "app/options/run_target.h"

Status options_check_rounds(const Options *options, int rounds, Error *err) {
    char name[OPTION_NAMED_BYTES];
    const LrSchedule *schedule = &options->training.schedule;
    const bool spends = options->recipe.release.row != RELEASE_EXACT && options->privacy_rounds > 0;
    options_named(name, options, "rounds");
    if (schedule->kind == LR_COSINE && schedule->rounds > 0 && schedule->rounds < (uint32_t)rounds)
        return fail(err, STATUS_USAGE,
                    "%s %d: the cosine of the learning rate ends with round %u; lower that or begin a run with more "
                    "rounds= in --lr-schedule",
                    name, rounds, schedule->rounds);
    if (spends && options->privacy_rounds < rounds)
        return fail(err, STATUS_USAGE,
                    "%s %d: the noise spends epsilon in %d rounds, and more would spend more; lower that or begin a "
                    "run with more --privacy-rounds",
                    name, rounds, options->privacy_rounds);
    return STATUS_OK;
}

Status options_check_resumed(const Options *options, int rounds, Error *err) {
    char name[OPTION_NAMED_BYTES];
    if (options_clock_is_real(options))
        return fail(err, STATUS_USAGE, "%s real: a run cannot go on in it; begin anew with another --out",
                    options_named(name, options, "clock"));
    return options_check_rounds(options, rounds, err);
}

// A resumed run with changed tests keeps its patience, which the user did not give now.
Status options_check_goals(const Options *options, Error *err) {
    char name[OPTION_NAMED_BYTES];
    const bool waits = options->patience > 0;
    Target target;
    RunFigure figure;
    TRY(target_read(&target, options, err));
    if (options->patience_by[0]) TRY(patience_by_read(&figure, options, err));
    if (options->eval_every > 0 || options->resume[0] || !(waits || options->stop_at_target)) return STATUS_OK;
    return fail(err, STATUS_USAGE,
                "%s: with --eval-every 0 only the last round is tested, and nothing can end the run before; leave one "
                "of them out",
                options_named(name, options, waits ? "patience" : "stop-at-target"));
}

// A plan is of one machine and one run from its beginning, and its lines are all that it gives.
Status options_check_plan(const Options *options, Error *err) {
    char name[OPTION_NAMED_BYTES];
    if (!options->plan) return STATUS_OK;
    options_named(name, options, "plan");
    if (options->resume[0])
        return fail(err, STATUS_USAGE,
                    "%s: plans a run from its beginning; leave --resume out, and give %.200s/config.yaml", name,
                    options->resume);
    if (options->nodes > 1)
        return fail(err, STATUS_USAGE, "%s: plans the run of one machine; start it there without mpirun or srun", name);
    if (options->quiet) return fail(err, STATUS_USAGE, "%s: prints what --quiet hides; leave one of the two out", name);
    return STATUS_OK;
}

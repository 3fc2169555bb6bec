// Part of command.h: `sounder launch`: starts the ranks of a program, up to --max-restarts more times after failures,
// and exits with the code of the first rank that failed.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "app/command.h"
#include "app/launch/launch_output.h"
#include "launch_group.h"
#include "launch_options.h"
#include "launch_port.h"
#include "launch_rank.h"

// Writes 16 random digits.
static Status draw_name(char name[LAUNCH_ID_BYTES], Error *err) {
    uint64_t number;
    if (getrandom(&number, sizeof number, 0) != sizeof number) return fail_errno(err, STATUS_OS, "no random number");
    snprintf(name, LAUNCH_ID_BYTES, "%016llx", (unsigned long long)number);
    return STATUS_OK;
}

// Takes a port for this attempt. If rank 0 is on another machine, the launcher there holds the port.
static Status take_port(int *held, RankPlan *plan, Error *err) {
    const LaunchOptions *options = plan->options;
    if (options->standalone) {
        if (*held >= 0) close(*held);
        return launch_port_choose(held, &plan->port, err);
    }
    plan->port = options->master_port;
    return *held < 0 && options->node_rank == 0 ? launch_port_hold(held, options, err) : STATUS_OK;
}

static Status run_all(LaunchGroup *group, RankPlan *plan, int *held, int *exit_code, Error *err) {
    const LaunchOptions *options = plan->options;
    for (;; plan->attempt++) {
        // The id tells these ranks from ranks of another launch or of an earlier attempt at the meeting place. With
        // several machines there is none: several launchers start the ranks, and their groups cannot meet by shared
        // memory.
        if (options->nnodes == 1) TRY(draw_name(plan->id, err));
        TRY(launch_group_run(group, plan, err));
        if (!group->first_failure || group->requests.count || plan->attempt == options->max_restarts) break;
        launch_group_say(group, "warning: restart %d of %d", plan->attempt + 1, options->max_restarts);
        TRY(take_port(held, plan, err));
    }
    *exit_code = group->requests.count ? 128 + group->last_signal : 0;
    if (group->first_failure) *exit_code = rank_exit_code(group->first_failure);
    int write_error = group->consoles[0].write_error;
    if (*exit_code == 0 && write_error)
        return fail(err, STATUS_IO, "standard output cannot be written: %s; --log-dir keeps what the ranks print",
                    strerror(write_error));
    return STATUS_OK;
}

static Status launch_program(const LaunchOptions *options, int *exit_code, Error *err) {
    char drawn[LAUNCH_ID_BYTES], log_folder[LAUNCH_FOLDER_BYTES] = "";
    int held = -1;
    LaunchGroup group;
    TRY(draw_name(drawn, err));
    // As torchrun names the run: a random name for a single machine, one fixed name for several, which must agree.
    const char *run_id = options->rdzv_id[0] ? options->rdzv_id : options->standalone ? drawn : "none";
    RankPlan plan = {.options = options, .run_id = run_id, .log_folder = log_folder};
    Status status;
    TRY_GOTO(end, launch_group_init(&group, options, err));
    TRY_GOTO(end, launch_group_watch(&group, options->watch, err));
    plan.consoles = group.consoles;
    plan.inheritance = &group.inheritance;
    TRY_GOTO(end, rank_arguments(&plan.arguments, options, err));
    TRY_GOTO(end, take_port(&held, &plan, err));
    if (launch_options_log(options)) {
        TRY_GOTO(end, launch_logs_create(log_folder, options->log_dir, run_id, err));
        launch_group_say(&group, "the ranks' log files: %s", log_folder);
    }
    TRY_GOTO(end, launch_group_meet(&group, options, err));
    if (group.requests.count)
        *exit_code = 128 + group.last_signal;
    else
        status = run_all(&group, &plan, &held, exit_code, err);
end:
    if (held >= 0) close(held);
    free(plan.arguments);
    launch_group_free(&group);
    return status;
}

Status command_launch(int argc, char **argv, int *exit_code, Error *err) {
    LaunchOptions options;
    TRY(launch_options_parse(&options, argc, argv, err));
    if (options.help) return command_help(1, (char *[]){"launch"}, exit_code, err);
    TRY(launch_options_resolve(&options, err));
    return launch_program(&options, exit_code, err);
}

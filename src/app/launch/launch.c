// `sounder launch`: starts the ranks of a program, as often as --max-restarts allows, and exits as the first that
// failed.
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "app/commands.h"
#include "app/launch/launch_output.h"
#include "launch_group.h"
#include "launch_options.h"
#include "launch_rank.h"

enum { RUN_ID_BYTES = OPTION_TEXT_BYTES };

// A port that nobody uses now: the kernel gives one, and it is let go again for rank 0.
static Status choose_port(int *port, Error *err) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool found = fd >= 0 && bind(fd, (struct sockaddr *)&address, bytes) == 0 &&
                 getsockname(fd, (struct sockaddr *)&address, &bytes) == 0;
    Status status = found ? STATUS_OK : fail_errno(err, STATUS_OS, "--standalone: no free TCP port");
    if (fd >= 0) close(fd);
    *port = ntohs(address.sin_port);
    return status;
}

// As torchrun names runs: by --rdzv-id, otherwise by chance when it is one machine's alone, otherwise the same on all
// machines.
static void name_run(char run_id[RUN_ID_BYTES], const LaunchOptions *options) {
    uint64_t number = 0;
    strcpy(run_id, options->rdzv_id[0] ? options->rdzv_id : "none");
    if (!options->rdzv_id[0] && options->standalone && getrandom(&number, sizeof number, 0) == sizeof number)
        snprintf(run_id, RUN_ID_BYTES, "%016llx", (unsigned long long)number);
}

static Status run_all(LaunchGroup *group, RankPlan *plan, int *exit_code, Error *err) {
    const LaunchOptions *options = plan->options;
    for (;; plan->attempt++) {
        plan->port = options->master_port;
        if (options->standalone) TRY(choose_port(&plan->port, err));
        TRY(launch_group_run(group, plan, err));
        if (!group->first_failure || group->requests.count || plan->attempt == options->max_restarts) break;
        launch_group_say(group, "warning: restart %d of %d", plan->attempt + 1, options->max_restarts);
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
    char run_id[RUN_ID_BYTES], log_folder[LAUNCH_FOLDER_BYTES] = "";
    LaunchGroup group;
    RankPlan plan = {.options = options, .run_id = run_id, .log_folder = log_folder};
    name_run(run_id, options);
    Status status;
    TRY_GOTO(end, launch_group_init(&group, options->ranks, options->grace_seconds, err));
    plan.consoles = group.consoles;
    plan.inheritance = &group.inheritance;
    TRY_GOTO(end, rank_arguments(&plan.arguments, options, err));
    if (launch_options_log(options)) {
        TRY_GOTO(end, launch_logs_create(log_folder, options->log_dir, run_id, err));
        launch_group_say(&group, "the ranks' log files: %s", log_folder);
    }
    TRY_GOTO(end, launch_group_meet(&group, options, err));
    if (group.requests.count)
        *exit_code = 128 + group.last_signal;
    else
        status = run_all(&group, &plan, exit_code, err);
end:
    free(plan.arguments);
    launch_group_free(&group);
    return status;
}

Status command_launch(int argc, char **argv, int *exit_code, Error *err) {
    LaunchOptions options;
    TRY(launch_options_parse(&options, argc, argv, err));
    if (options.help) return command_help(1, (char *[]){"launch"}, err);
    TRY(launch_options_resolve(&options, err));
    return launch_program(&options, exit_code, err);
}

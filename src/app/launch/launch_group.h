// The ranks of one `sounder launch` on this machine: started together, watched, printed, and ended together.
//
//   TRY_GOTO(end, launch_group_init(&group, ranks, grace_seconds, err));
//   for each start: status = launch_group_run(&group, &plan, err);    // until no rank lives
//                   ... group.first_failure, group.requests.count ...
//   end: launch_group_free(&group);
//
// Single-threaded: one poll over a signalfd, an epoll of the ranks' pidfds, their pipes and the launcher's own streams.
// Nothing in it blocks, so a signal is always heard.
#ifndef SOUNDER_APP_LAUNCH_LAUNCH_GROUP_H
#define SOUNDER_APP_LAUNCH_LAUNCH_GROUP_H

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>

#include "base/err.h"
#include "launch_orphans.h"
#include "launch_output.h"
#include "launch_rank.h"
#include "shm/stop_signals.h"

// RUNNING until the first failure or signal, STOPPING while the ranks have time to end, then KILLED.
typedef enum LaunchStage { STAGE_RUNNING, STAGE_STOPPING, STAGE_KILLED } LaunchStage;

typedef struct LaunchGroup {
    Rank *ranks;          // owned (count)
    struct pollfd *polls; // owned
    Console *consoles;    // owned (RANK_STREAMS): stdout and stderr
    bool is_one_console;  // both are the same terminal, pipe or file
    int count;
    int nodes;             // --nnodes, for messages
    bool has_met;          // the launchers of all nodes were started alike
    uint64_t memory_kills; // cgroup_memory_kills as it began
    int signal_fd;         // owned
    int death_fd;          // owned: an epoll of the living ranks' pidfds, and of the reports of those that start
    const char *program;   // borrowed: what the ranks become, for messages
    int living;            // ranks that have not been reaped
    Orphans orphans;
    bool has_orphans;  // the ranks have started processes that live and are asked to end
    bool is_unsettled; // a child of the launcher has ended since the orphans were looked at
    int asked;         // signal that the ranks were asked to end by in this start; 0: none
    LaunchStage stage;
    double grace_seconds;
    uint64_t deadline_nanoseconds; // of the stage, unless it is RUNNING
    const Rank *first_failure;     // of this start; NULL: none
    bool is_failure_told;
    StopRequests requests;       // to end, by signals
    int last_signal;             // the last of them
    RankInheritance inheritance; // what the launcher changed for itself
} LaunchGroup;

// Listens for SIGINT, SIGTERM, SIGHUP and SIGQUIT, which ask for an end, and for SIGUSR1 and SIGUSR2, which are for the
// ranks (unless they are ignored, as nohup does), until the process ends, and makes room for the descriptors of so many
// ranks. A failed group may be freed.
Status launch_group_init(LaunchGroup *group, int ranks, double grace_seconds, Error *err);

// Where there are several nodes: waits until the launchers of all of them are there, at most --meet-seconds. USAGE, in
// all of them, with a sentence that names two that were not started alike; TIMEOUT when one does not come, UNAVAILABLE
// when the port cannot be had. A signal ends the wait: group->requests.count is not 0 then, and nothing is to be
// started.
Status launch_group_meet(LaunchGroup *group, const LaunchOptions *options, Error *err);

// Starts all ranks and returns when none lives and all that they printed is written; what nobody reads is given up
// after a second signal. A rank that fails (exit code not 0, or killed) is reported and the others are stopped:
// SIGTERM, grace_seconds, SIGKILL. A signal to the launcher is handed on in the place of SIGTERM; another one, half a
// second later or more, kills at once. Fails when a rank cannot be started (the others are killed then) or waiting
// itself fails.
Status launch_group_run(LaunchGroup *group, const RankPlan *plan, Error *err);

// One line of the launcher's own on stderr, in turn with the ranks' lines; launch_group_flush writes what still waits.
void launch_group_say(LaunchGroup *group, const char *format, ...) __attribute__((format(printf, 2, 3)));
Status launch_group_flush(LaunchGroup *group, Error *err);

void launch_group_free(LaunchGroup *group);

#endif

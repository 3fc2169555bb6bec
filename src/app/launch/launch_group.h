// Starts the ranks of one `sounder launch` on this machine together, prints what they write, and ends them together.
//
//   TRY_GOTO(end, launch_group_init(&group, &options, err));
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

#include "base/err.h"
#include "launch_orphans.h"
#include "launch_output.h"
#include "launch_rank.h"
#include "launch_watch.h"
#include "shm/stop_signals.h"

// RUNNING until the first failure or signal, then STOPPING while the ranks have time to end, then KILLED.
typedef enum LaunchStage { STAGE_RUNNING, STAGE_STOPPING, STAGE_KILLED } LaunchStage;

typedef struct LaunchGroup {
    Rank *ranks;          // owned (count)
    struct pollfd *polls; // owned
    Console *consoles;    // owned (RANK_STREAMS): stdout and stderr
    bool is_one_console;  // both are one terminal, pipe or file
    int count;
    int nodes;             // --nnodes, for messages
    bool has_met;          // the launchers of all nodes were started alike
    uint64_t memory_kills; // value of cgroup_memory_kills when the ranks were started
    int signal_fd;         // owned
    int death_fd;          // owned: an epoll of the living ranks' pidfds and of the report pipes of starting ranks
    const char *program;   // borrowed: the program that the ranks become, for messages
    int living;            // ranks that have not been reaped
    Orphans orphans;
    LaunchWatch *watch; // owned; NULL without --watch
    bool has_orphans;   // processes that ranks have started are alive and were asked to end
    bool is_unsettled;  // a child of the launcher has ended since the orphans were last looked at
    int asked;          // the signal that asked the ranks to end in this start; 0: none
    LaunchStage stage;
    double grace_seconds;
    uint64_t deadline_nanoseconds; // end of the stage; unused while RUNNING
    const Rank *first_failure;     // of this start; NULL: none
    bool is_failure_told;
    StopRequests requests;       // signals that asked for an end
    int last_signal;             // the last signal that asked for an end
    RankInheritance inheritance; // process settings that the launcher changed for itself
} LaunchGroup;

// Until the process ends, listens for SIGINT, SIGTERM, SIGHUP and SIGQUIT, which ask for an end, and for SIGUSR1 and
// SIGUSR2, which are handed to the ranks. Signals that were ignored at the start (as nohup does) stay ignored. Raises
// the limit of descriptors for these numbers of ranks and nodes. A group whose init failed may be freed.
Status launch_group_init(LaunchGroup *group, const LaunchOptions *options, Error *err);

// Before the first start: says which rank holds up the others after `seconds` without progress; 0: never.
Status launch_group_watch(LaunchGroup *group, double seconds, Error *err);

// With several nodes, waits at most --meet-seconds until the launchers of all nodes have connected. USAGE, on every
// node, with a sentence that names two nodes that were not started alike; TIMEOUT if a launcher does not connect,
// UNAVAILABLE if the port cannot be opened. A signal ends the wait: group->requests.count is then not 0, and the caller
// must start nothing.
Status launch_group_meet(LaunchGroup *group, const LaunchOptions *options, Error *err);

// Starts all ranks and returns when no rank lives and all their output is written; after a second signal, output that
// no reader takes is dropped. If a rank fails (exit code not 0, or killed), it is reported and the others are stopped:
// SIGTERM, grace_seconds, SIGKILL. A signal to the launcher is handed on instead of SIGTERM; another signal half a
// second later or more kills the ranks at once. Fails if a rank cannot be started (the others are then killed) or if
// waiting itself fails.
Status launch_group_run(LaunchGroup *group, const RankPlan *plan, Error *err);

// Prints one line of the launcher's own on stderr, between the ranks' lines. launch_group_flush writes all waiting
// lines.
void launch_group_say(LaunchGroup *group, const char *format, ...) __attribute__((format(printf, 2, 3)));
Status launch_group_flush(LaunchGroup *group, Error *err);

// Reports the first failure, after the rank's own output: its last line is above the report.
void launch_group_tell_failure(LaunchGroup *group);

void launch_group_free(LaunchGroup *group);

#endif

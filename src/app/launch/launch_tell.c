// Part of launch_group.h: the launcher's own lines, between those of the ranks.
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/cgroup.h"
#include "launch_group.h"

enum { GROUP_MESSAGE_BYTES = 4096 + 256 }; // a path and some words

void launch_group_say(LaunchGroup *group, const char *format, ...) {
    char text[GROUP_MESSAGE_BYTES];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if ((size_t)length >= sizeof text) length = sizeof text - 1;
    console_add_line(&group->consoles[1], "sounder: ", text, (size_t)length);
}

// Reports the first failure after the rank's own output, so that its last line is printed above the report.
void launch_group_tell_failure(LaunchGroup *group) {
    const Rank *rank = group->first_failure;
    if (!rank || group->is_failure_told || rank->streams[0].fd >= 0 || rank->streams[1].fd >= 0) return;
    group->is_failure_told = true;
    const char *others = group->count > 1 ? "; the other ranks are stopped" : "";
    char reason[RANK_REASON_BYTES], name[SIGNAL_NAME_BYTES];
    const bool is_told = rank_read_reason(reason, rank);
    if (WIFEXITED(rank->wait_status))
        launch_group_say(group, "error: rank %d (pid %d) exited with code %d%s%s%s", rank->number, rank->pid,
                         rank_exit_code(rank), is_told ? ": " : "", reason, others);
    else
        launch_group_say(group, "error: rank %d (pid %d) was killed by %s%s%s", rank->number, rank->pid,
                         signal_name(name, WTERMSIG(rank->wait_status)),
                         memory_killed(WTERMSIG(rank->wait_status), group->memory_kills)
                             ? " by the kernel, as memory ran out (fewer ranks need less)"
                             : "",
                         others);
    if (group->nodes > 1 && !group->has_met)
        launch_group_say(group,
                         "note: WORLD_SIZE is %d here, --nnodes %d x %d ranks: all machines need the same number",
                         group->nodes * group->count, group->nodes, group->count);
}

static void say_line(void *group, const char *line) {
    launch_group_say(group, "%s", line);
}

Status launch_group_watch(LaunchGroup *group, double seconds, Error *err) {
    if (seconds == 0) return STATUS_OK;
    group->watch = launch_watch_new(group->ranks, group->count, seconds, say_line, group);
    return group->watch ? STATUS_OK : fail(err, STATUS_OS, "no memory to watch %d ranks", group->count);
}

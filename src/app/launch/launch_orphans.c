#include "launch_orphans.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"

static bool list_has(const ProcessList *list, pid_t pid) {
    for (size_t i = 0; i < list->count; i++)
        if (list->pids[i] == pid) return true;
    return false;
}

void orphans_init(Orphans *orphans) {
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    *orphans = (Orphans){.strangers = process_children(getpid())};
}

void orphans_free(Orphans *orphans) {
    free(orphans->strangers.pids);
    free(orphans->asked.pids);
    *orphans = (Orphans){.strangers = {.pids = NULL}};
}

static bool is_rank(pid_t pid, const Rank *ranks, int count) {
    for (int i = 0; i < count; i++)
        if (ranks[i].pidfd >= 0 && ranks[i].pid == pid) return true;
    return false;
}

void orphans_reap(const Rank *ranks, int count) {
    ProcessList children = process_children(getpid());
    for (size_t i = 0; i < children.count; i++)
        if (!is_rank(children.pids[i], ranks, count)) waitpid(children.pids[i], NULL, WNOHANG);
    free(children.pids);
}

static ProcessList find(const Orphans *orphans, const Rank *ranks, int count) {
    ProcessList children = process_children(getpid()), found = {.pids = NULL};
    for (size_t i = 0; i < children.count; i++) {
        const pid_t pid = children.pids[i];
        if (!is_rank(pid, ranks, count) && !list_has(&orphans->strangers, pid) && getsid(pid) == getsid(0))
            process_list_add(&found, pid);
    }
    free(children.pids);
    return found;
}

// Returns the rank whose process group the orphan is in; NULL if it is in another group.
static const Rank *rank_of(pid_t pid, const Rank *ranks, int count) {
    const pid_t group = getpgid(pid);
    for (int i = 0; i < count; i++)
        if (ranks[i].pid == group) return &ranks[i];
    return NULL;
}

size_t orphans_ask(Orphans *orphans, int signal_number, const Rank *ranks, int count) {
    ProcessList found = find(orphans, ranks, count);
    size_t living = 0;
    for (size_t i = 0; i < found.count; i++) {
        const pid_t pid = found.pids[i];
        const Rank *rank = rank_of(pid, ranks, count);
        if (rank && rank->pidfd >= 0 && !rank->lingers) continue;
        living += kill(pid, 0) == 0;
        if (list_has(&orphans->asked, pid)) continue;
        process_list_add(&orphans->asked, pid);
        if (signal_number != SIGINT || !rank) kill(pid, signal_number); // SIGINT was sent to the whole group already
        kill(pid, SIGCONT);
    }
    free(found.pids);
    return living;
}

size_t orphans_kill(const Orphans *orphans, const Rank *ranks, int count) {
    ProcessList found = find(orphans, ranks, count);
    for (size_t i = 0; i < found.count; i++)
        kill(found.pids[i], SIGKILL);
    free(found.pids);
    return found.count;
}

// Returns the signals that the process blocks (SigBlk) or catches (SigCgt), one bit each; all bits if /proc does not
// say.
static uint64_t signals_of(pid_t pid, const char *field) {
    char path[64];
    uint64_t mask;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    return file_number(&mask, path, field, 16) ? mask : UINT64_MAX;
}

// Whether the process catches the signal, or blocks it, as a process that waits for it by sigwait does. A process that
// blocks all signals is most probably about to start another one; that state is short, so it is read again.
static bool listens(pid_t pid, int signal_number) {
    enum { ATTEMPTS = 50, PAUSE_NANOSECONDS = 2000000 };
    const uint64_t wanted = UINT64_C(1) << (signal_number - 1), fault = UINT64_C(1) << (SIGSEGV - 1);
    if (signals_of(pid, "SigCgt:") & wanted) return true;
    uint64_t blocked = signals_of(pid, "SigBlk:");
    for (int looks = 1; looks < ATTEMPTS && (blocked & fault); looks++) {
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NANOSECONDS}, NULL);
        blocked = signals_of(pid, "SigBlk:");
    }
    return ((blocked | signals_of(pid, "SigCgt:")) & wanted) != 0;
}

void family_warn(pid_t pid, int signal_number) {
    if (listens(pid, signal_number)) {
        kill(pid, signal_number);
        return;
    }
    ProcessList children = process_children(pid);
    for (size_t i = 0; i < children.count; i++)
        family_warn(children.pids[i], signal_number);
    free(children.pids);
}

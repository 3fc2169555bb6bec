#include "launch_group.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/clock.h"

enum { POLL_SIGNALS, POLL_DEATHS, POLL_DEBUGGER, POLL_CONSOLES, GROUP_POLLS = POLL_CONSOLES + RANK_STREAMS };

enum { RANK_DIES, RANK_REPORTS, RANK_EVENTS }; // events of each rank in group->death_fd

enum { FDS_PER_RANK = 3 + 2 * RANK_STREAMS, FDS_OF_OTHERS = 48 }; // pidfd, report, error file, pipes and log files

static const double goodbye_seconds = 5; // time a process may take to die of SIGKILL

// Init and free -------------------------------------------------------------------------------------------------------

// The launchers that node 0 meets have closed their connections before the ranks start.
static Status reserve_descriptors(LaunchGroup *group, const LaunchOptions *options, Error *err) {
    const rlim_t of_ranks = FDS_PER_RANK * (rlim_t)options->ranks;
    const rlim_t of_nodes = options->node_rank == 0 && options->meet_seconds > 0 ? (rlim_t)options->nnodes : 0;
    const rlim_t needed = FDS_OF_OTHERS + (of_ranks > of_nodes ? of_ranks : of_nodes);
    struct rlimit *before = &group->inheritance.descriptors;
    if (getrlimit(RLIMIT_NOFILE, before) != 0) return fail_errno(err, STATUS_OS, "the limit of open descriptors");
    if (before->rlim_cur >= needed) return STATUS_OK;
    const struct rlimit raised = {.rlim_cur = needed, .rlim_max = before->rlim_max};
    if (needed <= before->rlim_max && setrlimit(RLIMIT_NOFILE, &raised) == 0) return STATUS_OK;
    return fail(
        err, STATUS_OS,
        "--nproc-per-node %d --nnodes %d: %llu open descriptors are needed, the limit is %llu; raise it (ulimit -n)",
        options->ranks, options->nnodes, (unsigned long long)needed, (unsigned long long)before->rlim_max);
}

// Signals that ask for an end, and signals for the ranks, except those that were ignored at the start (nohup).
static Status listen_for_signals(LaunchGroup *group, Error *err) {
    static const int wanted[] = {STOP_SIGNALS, SIGQUIT, SIGTSTP, SIGCHLD};
    sigset_t signals;
    // an ignored SIGCHLD would discard the exit codes
    sigaction(SIGCHLD, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    signals_not_ignored(&signals, wanted, sizeof wanted / sizeof *wanted);
    group->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (group->signal_fd < 0) return fail_errno(err, STATUS_OS, "cannot listen for signals");
    sigprocmask(SIG_BLOCK, &signals, &group->inheritance.signal_mask);
    sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, &group->inheritance.pipe_action);
    return STATUS_OK;
}

Status launch_group_init(LaunchGroup *group, const LaunchOptions *options, Error *err) {
    const int ranks = options->ranks;
    *group = (LaunchGroup){.count = ranks,
                           .nodes = options->nnodes,
                           .grace_seconds = options->grace_seconds,
                           .signal_fd = -1,
                           .death_fd = -1};
    orphans_init(&group->orphans);
    TRY(reserve_descriptors(group, options, err));
    group->ranks = calloc((size_t)ranks, sizeof *group->ranks);
    group->polls = calloc(GROUP_POLLS + RANK_STREAMS * (size_t)ranks, sizeof *group->polls);
    group->consoles = calloc(RANK_STREAMS, sizeof *group->consoles);
    if (!group->ranks || !group->polls || !group->consoles)
        return fail(err, STATUS_OS, "out of memory for the output of %d ranks", ranks);
    for (int which = 0; which < RANK_STREAMS; which++)
        group->consoles[which].fd = STDOUT_FILENO + which;
    group->is_one_console = console_is_same(&group->consoles[0], &group->consoles[1]);
    for (int i = 0; i < ranks; i++) {
        group->ranks[i].pidfd = group->ranks[i].report_fd = group->ranks[i].error_fd = -1;
        for (int which = 0; which < RANK_STREAMS; which++)
            rank_stream_init(&group->ranks[i].streams[which], -1, -1, &group->consoles[which], i);
    }
    group->death_fd = epoll_create1(EPOLL_CLOEXEC);
    if (group->death_fd < 0) return fail_errno(err, STATUS_OS, "cannot watch the ranks");
    return listen_for_signals(group, err);
}

void launch_group_free(LaunchGroup *group) {
    launch_watch_free(group->watch);
    for (int i = 0; group->ranks && i < group->count; i++)
        if (group->ranks[i].error_fd >= 0) close(group->ranks[i].error_fd);
    if (group->death_fd >= 0) close(group->death_fd);
    if (group->signal_fd >= 0) close(group->signal_fd);
    orphans_free(&group->orphans);
    free(group->consoles);
    free(group->polls);
    free(group->ranks);
}

// Stopping ------------------------------------------------------------------------------------------------------------

static void set_deadline(LaunchGroup *group, double seconds) {
    group->deadline_nanoseconds = clock_nanoseconds() + (uint64_t)(seconds * 1e9);
}

static void bury(LaunchGroup *group, Rank *rank) {
    rank_reap(rank);
    group->living--;
    group->is_unsettled = true;
}

static void kill_ranks(LaunchGroup *group) {
    for (int i = 0; i < group->count; i++) {
        Rank *rank = &group->ranks[i];
        if (rank->pidfd >= 0) rank_signal(rank, SIGKILL);
        if (rank->lingers) bury(group, rank);
    }
    group->is_unsettled = true;
    group->stage = STAGE_KILLED;
    set_deadline(group, goodbye_seconds);
}

static void stop_ranks(LaunchGroup *group, int signal_number) {
    for (int i = 0; i < group->count; i++)
        if (group->ranks[i].pidfd >= 0) rank_ask(&group->ranks[i], signal_number);
    group->asked = signal_number;
    group->stage = STAGE_STOPPING;
    set_deadline(group, group->grace_seconds);
}

// Call it before fd is closed: a child that is stopped before its exec has copies of all descriptors, so epoll would
// report fd forever.
static void stop_watching(const LaunchGroup *group, int fd) {
    epoll_ctl(group->death_fd, EPOLL_CTL_DEL, fd, NULL);
}

// A failed start ends the group; while the group is being ended, later failures are not reported.
static Status take_report(LaunchGroup *group, Rank *rank, Error *err) {
    if (rank->report_fd < 0) return STATUS_OK;
    stop_watching(group, rank->report_fd);
    Status status = rank_take_report(rank, group->program, group->stage == STAGE_RUNNING ? err : NULL);
    return group->stage == STAGE_RUNNING ? status : STATUS_OK;
}

static void meet_deadline(LaunchGroup *group) {
    if (group->stage == STAGE_RUNNING || (group->living == 0 && !group->has_orphans)) return;
    if (clock_nanoseconds() < group->deadline_nanoseconds) return;
    const bool is_killed = group->stage == STAGE_KILLED;
    if (group->living == 0 && !is_killed)
        launch_group_say(group, "warning: what the ranks have started has not ended within %g s and is killed",
                         group->grace_seconds);
    if (is_killed) group->has_orphans = false;
    for (int i = 0; i < group->count; i++) {
        Rank *rank = &group->ranks[i];
        if (rank->pidfd < 0) continue;
        if (!is_killed) {
            launch_group_say(group, "warning: rank %d (pid %d) has not ended within %g s and is killed", rank->number,
                             rank->pid, group->grace_seconds);
            continue;
        }
        // A process deep in a driver may outlive SIGKILL for long: it is left to init.
        launch_group_say(group, "warning: rank %d (pid %d) does not die of SIGKILL and is left behind", rank->number,
                         rank->pid);
        take_report(group, rank, NULL);
        stop_watching(group, rank->pidfd);
        close(rank->pidfd);
        rank->pidfd = -1;
        group->living--;
    }
    if (!is_killed) kill_ranks(group);
}

static void signal_ranks(const LaunchGroup *group, int signal_number) {
    for (int i = 0; i < group->count; i++)
        if (group->ranks[i].pidfd >= 0) rank_signal(&group->ranks[i], signal_number);
}

// Ctrl-Z stops the ranks with the launcher; fg and bg continue all of them. The pause does not count as grace time.
static void suspend(LaunchGroup *group, bool has_arrived) {
    const uint64_t begin = clock_nanoseconds();
    if (!has_arrived) signal_ranks(group, SIGTSTP);
    suspend_self();
    signal_ranks(group, SIGCONT);
    group->deadline_nanoseconds += clock_nanoseconds() - begin;
    if (group->watch) launch_watch_begin(group->watch); // the pause is no standstill
}

static void take_signals(LaunchGroup *group) {
    struct signalfd_siginfo info;
    while (read(group->signal_fd, &info, sizeof info) == sizeof info) {
        const bool has_arrived = info.ssi_code == SI_KERNEL && group->ranks[0].shares_terminal; // Ctrl-C, Ctrl-Z
        switch (info.ssi_signo) {
        case SIGCHLD:
            group->is_unsettled = true;
            continue;
        case SIGTSTP:
            suspend(group, has_arrived);
            continue;
        case SIGUSR1: // a batch system's warning, for the ranks
        case SIGUSR2:
            for (int i = 0; i < group->count; i++)
                if (group->ranks[i].pidfd >= 0) family_warn(group->ranks[i].pid, (int)info.ssi_signo);
            continue;
        default:
            break;
        }
        if (!stop_requests_add(&group->requests, clock_nanoseconds())) continue;
        group->last_signal = (int)info.ssi_signo;
        if (group->stage == STAGE_RUNNING)
            stop_ranks(group, has_arrived ? 0 : group->last_signal);
        else
            kill_ranks(group); // a second request, or one while the group already ends, means: do not wait
    }
}

// Deaths --------------------------------------------------------------------------------------------------------------

// If a shell around the program dies of the forwarded signal, the program survives it; the program then gets the signal
// and the grace time instead. The rank stays unreaped meanwhile, so that its output is still read.
static void let_linger(LaunchGroup *group, Rank *rank) {
    if (group->stage != STAGE_STOPPING || !group->asked || rank->shares_terminal) return;
    rank->lingers = rank_died_of(rank, group->asked);
    if (rank->lingers && orphans_ask(&group->orphans, group->asked, group->ranks, group->count) == 0)
        rank->lingers = false;
}

// Asks processes that outlived their ranks to end with the ranks, and kills them when no rank lives.
static void settle_orphans(LaunchGroup *group) {
    if (!group->is_unsettled) return;
    group->is_unsettled = false;
    orphans_reap(group->ranks, group->count);
    const bool is_asked = group->stage == STAGE_STOPPING && group->asked;
    if (!is_asked && group->living > 0) return;
    const size_t left = is_asked ? orphans_ask(&group->orphans, group->asked, group->ranks, group->count)
                                 : orphans_kill(&group->orphans, group->ranks, group->count);
    group->has_orphans = left > 0;
    for (int i = 0; i < group->count && left == 0; i++)
        if (group->ranks[i].lingers) bury(group, &group->ranks[i]);
    if (left == 0 || is_asked || group->stage == STAGE_KILLED) return;
    group->stage = STAGE_KILLED;
    set_deadline(group, goodbye_seconds);
}

// Takes deaths one by one, the earliest first: the kernel appends a pidfd to epoll's list when its process ends.
static Status take_deaths(LaunchGroup *group, Error *err) {
    struct epoll_event event;
    while (epoll_wait(group->death_fd, &event, 1, 0) == 1) {
        Rank *rank = &group->ranks[event.data.u32 / RANK_EVENTS];
        Status report = take_report(group, rank, err);
        if (event.data.u32 % RANK_EVENTS == RANK_DIES) {
            stop_watching(group, rank->pidfd);
            let_linger(group, rank);
            if (!rank->lingers) bury(group, rank);
            if (report == STATUS_OK && rank->wait_status != 0 && group->stage == STAGE_RUNNING) {
                group->first_failure = rank;
                stop_ranks(group, SIGTERM);
            }
        }
        TRY(report);
    }
    return STATUS_OK;
}

// Waiting -------------------------------------------------------------------------------------------------------------

// All output of a dead rank is already in its pipes: a pipe that poll then finds empty is at its end, even if a process
// that left the rank's group holds it open.
static bool is_final(const Rank *rank) {
    return rank->pidfd < 0;
}

static int timeout_milliseconds(const LaunchGroup *group, bool is_draining) {
    if (is_draining) return 0;
    if (group->stage == STAGE_RUNNING && group->watch) return launch_watch_timeout(group->watch);
    if (group->stage == STAGE_RUNNING || (group->living == 0 && !group->has_orphans)) return -1;
    const uint64_t now = clock_nanoseconds(), deadline = group->deadline_nanoseconds;
    return now >= deadline ? 0 : (int)((deadline - now) / 1000000) + 1;
}

// A line longer than a pipe takes at once is written in pieces. On one terminal the other stream waits for the end of
// that line, but not for the end of a prompt.
static bool must_wait(const LaunchGroup *group, int which) {
    const Console *other = &group->consoles[!which];
    return group->is_one_console && other->is_mid_line && !console_is_empty(other);
}

// Fills the table for poll; returns whether a dead rank's pipe can be read now.
static bool prepare_polls(LaunchGroup *group) {
    bool is_draining = false;
    group->polls[POLL_SIGNALS] = (struct pollfd){.fd = group->signal_fd, .events = POLLIN};
    group->polls[POLL_DEATHS] = (struct pollfd){.fd = group->death_fd, .events = POLLIN};
    const bool is_watched = group->watch && group->stage == STAGE_RUNNING;
    group->polls[POLL_DEBUGGER] = is_watched ? launch_watch_poll(group->watch) : (struct pollfd){.fd = -1};
    for (int which = 0; which < RANK_STREAMS; which++) {
        Console *console = &group->consoles[which];
        const bool has_room = console_has_room(console);
        group->polls[POLL_CONSOLES + which] = (struct pollfd){
            .fd = must_wait(group, which) || console_is_empty(console) ? -1 : console->fd, .events = POLLOUT};
        for (int i = 0; i < group->count; i++) {
            const Rank *rank = &group->ranks[i];
            const int fd = has_room ? rank->streams[which].fd : -1; // poll passes over -1
            group->polls[GROUP_POLLS + RANK_STREAMS * i + which] = (struct pollfd){.fd = fd, .events = POLLIN};
            is_draining = is_draining || (fd >= 0 && is_final(rank));
        }
    }
    return is_draining;
}

// Waits for the next event and handles everything that has happened.
static Status take_events(LaunchGroup *group, Error *err) {
    const int timeout = timeout_milliseconds(group, prepare_polls(group));
    struct pollfd *polls = group->polls;
    const nfds_t count = GROUP_POLLS + RANK_STREAMS * (nfds_t)group->count;
    if (poll(polls, count, timeout) < 0)
        return errno == EINTR ? STATUS_OK : fail_errno(err, STATUS_OS, "cannot wait for the ranks");
    for (int i = 0; i < group->count; i++)
        for (int which = 0; which < RANK_STREAMS; which++) {
            const struct pollfd *from = &polls[GROUP_POLLS + RANK_STREAMS * i + which];
            RankStream *stream = &group->ranks[i].streams[which];
            if (from->fd < 0 || !console_has_room(stream->console)) continue;
            if (from->revents)
                rank_stream_read(stream);
            else if (is_final(&group->ranks[i]))
                rank_stream_close(stream);
        }
    for (int which = 0; which < RANK_STREAMS; which++)
        if (polls[POLL_CONSOLES + which].revents && !must_wait(group, which)) console_write(&group->consoles[which]);
    if (polls[POLL_SIGNALS].revents) take_signals(group);
    if (polls[POLL_DEATHS].revents) TRY(take_deaths(group, err));
    settle_orphans(group);
    launch_group_tell_failure(group);
    if (group->watch && group->stage == STAGE_RUNNING) launch_watch_look(group->watch);
    meet_deadline(group);
    return STATUS_OK;
}

static bool has_output(const LaunchGroup *group) {
    for (int i = 0; i < group->count; i++)
        for (int which = 0; which < RANK_STREAMS; which++)
            if (group->ranks[i].streams[which].fd >= 0) return true;
    return !console_is_empty(&group->consoles[0]) || !console_is_empty(&group->consoles[1]);
}

Status launch_group_flush(LaunchGroup *group, Error *err) {
    while (group->living > 0 || group->has_orphans || (has_output(group) && group->requests.count < 2))
        TRY(take_events(group, err));
    return STATUS_OK;
}

// Starting ------------------------------------------------------------------------------------------------------------

static Status start_ranks(LaunchGroup *group, const RankPlan *plan, Error *err) {
    group->stage = STAGE_RUNNING;
    group->program = plan->arguments[0];
    group->memory_kills = cgroup_memory_kills(CGROUP_MEMBERSHIP, CGROUP_ROOT);
    group->first_failure = NULL;
    group->is_failure_told = group->has_orphans = false;
    group->asked = 0;
    group->orphans.asked.count = 0;
    for (int i = 0; i < group->count; i++) {
        Rank *rank = &group->ranks[i];
        TRY(rank_start(rank, i, plan, err));
        group->living++;
        const uint32_t first = (uint32_t)i * RANK_EVENTS;
        struct epoll_event death = {.events = EPOLLIN, .data.u32 = first + RANK_DIES};
        struct epoll_event report = {.events = EPOLLIN, .data.u32 = first + RANK_REPORTS};
        if (epoll_ctl(group->death_fd, EPOLL_CTL_ADD, rank->pidfd, &death) != 0 ||
            epoll_ctl(group->death_fd, EPOLL_CTL_ADD, rank->report_fd, &report) != 0)
            return fail_errno(err, STATUS_OS, "cannot watch rank %d", rank->number);
    }
    if (group->watch) launch_watch_begin(group->watch);
    return STATUS_OK;
}

Status launch_group_run(LaunchGroup *group, const RankPlan *plan, Error *err) {
    Status status = start_ranks(group, plan, err);
    if (status == STATUS_OK) status = launch_group_flush(group, err);
    if (status == STATUS_OK) return STATUS_OK;
    kill_ranks(group);
    launch_group_flush(group, NULL); // keeps the first failure in err
    return status;
}

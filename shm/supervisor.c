#include "shm/supervisor.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/pidfd.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/clock.h"
#include "base/log.h"

enum { POLL_SIGNALS, POLL_ARRIVALS, SUPERVISOR_POLLS }; // then one pidfd and one start-up pipe per rank, then `watched`

enum { TICK_MILLISECONDS = 200, GOODBYE_MILLISECONDS = 5000 };

static const double longest_tick_seconds = 1;

static uint32_t parent_rank(const Supervisor *supervisor) {
    assert(supervisor->config.barrier->ranks == supervisor->config.workers + 1);
    return supervisor->config.workers;
}

static bool is_alive(const WorkerRecord *worker) {
    return worker->state == WORKER_STARTING || worker->state == WORKER_RUNNING;
}

uint32_t supervisor_alive(const Supervisor *supervisor) {
    uint32_t alive = 0;
    for (uint32_t rank = 0; rank < supervisor->config.workers; rank++)
        alive += is_alive(&supervisor->workers[rank]);
    return alive;
}

// Start and end ------------------------------------------------------------------------------------------------------

static Status listen_for_signals(Supervisor *supervisor, Error *err) {
    sigset_t interrupts;
    parent_signals(&interrupts);
    supervisor->signal_fd = signalfd(-1, &interrupts, SFD_CLOEXEC | SFD_NONBLOCK);
    if (supervisor->signal_fd < 0) return fail_errno(err, STATUS_OS, "cannot listen for signals");
    sigprocmask(SIG_BLOCK, &interrupts, &supervisor->saved_mask);
    // If this process was started with SIGCHLD ignored, the kernel would reap the workers and drop their exit codes.
    sigaction(SIGCHLD, &(struct sigaction){.sa_handler = SIG_DFL}, &supervisor->saved_child_action);
    return STATUS_OK;
}

Status supervisor_init(Supervisor *supervisor, const SupervisorConfig *config, Error *err) {
    assert((config->fds || config->fd_count == 0) && (config->watched || config->watched_count == 0));
    assert(config->hang_seconds >= 0);
    *supervisor = (Supervisor){.config = *config, .arrival_fd = -1, .signal_fd = -1};
    if (config->workers < 1 || config->workers >= BARRIER_MAX_RANKS || config->barrier->ranks != config->workers + 1)
        return fail(err, STATUS_SOFTWARE, "%u workers and their parent do not fit a barrier of %u ranks (at most %d)",
                    config->workers, config->barrier->ranks, BARRIER_MAX_RANKS);
    assert(config->pulses && config->arguments && config->arguments[0]);
    supervisor->memory_kills = cgroup_memory_kills(CGROUP_MEMBERSHIP, CGROUP_ROOT);
    TRY(spawn_reserve_descriptors(config->workers, err));
    const size_t polls = SUPERVISOR_POLLS + 2 * (size_t)config->workers + config->watched_count;
    supervisor->workers = own(&supervisor->owned, config->workers, sizeof *supervisor->workers);
    supervisor->polls = own(&supervisor->owned, polls, sizeof *supervisor->polls);
    Status status = STATUS_OK;
    if (supervisor->owned.lacks_memory) {
        status = fail(err, STATUS_OS, "out of memory for the records of %u workers", config->workers);
        goto fail;
    }
    supervisor->arrival_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (supervisor->arrival_fd < 0) {
        status = fail_errno(err, STATUS_OS, "cannot create the eventfd of the workers' arrivals");
        goto fail;
    }
    TRY_GOTO(fail, listen_for_signals(supervisor, err));
    for (uint32_t rank = 0; rank < config->workers; rank++) {
        supervisor->workers[rank] = (WorkerRecord){.state = WORKER_ABSENT, .pidfd = -1, .startup_fd = -1};
        barrier_depart(config->barrier, rank); // the barrier must not wait for a worker that has not been started
    }
    return STATUS_OK;

fail:
    if (supervisor->arrival_fd >= 0) close(supervisor->arrival_fd);
    owned_free(&supervisor->owned);
    return status;
}

// Revives the rank before the process exists: a fast worker could otherwise arrive as a non-member, and the barrier
// would open without it.
Status supervisor_start(Supervisor *supervisor, uint32_t rank, Error *err) {
    assert(rank < supervisor->config.workers);
    Barrier *barrier = supervisor->config.barrier;
    WorkerRecord *worker = &supervisor->workers[rank];
    if (is_alive(worker)) return fail(err, STATUS_SOFTWARE, "worker %u is running already", rank);
    if (barrier_has_arrived(barrier, parent_rank(supervisor)))
        return fail(err, STATUS_SOFTWARE, "worker %u can only be started between gather and release", rank);

    assert(worker->pidfd == -1 && worker->startup_fd == -1 && !worker->plan); // of the one before nothing is left
    barrier_revive(barrier, rank);                                            // before the process can arrive
    WorkerProcess process;
    const SupervisorConfig *config = &supervisor->config;
    const SpawnCommand command = {config->arguments, config->fds, config->fd_count, config->rank_fds};
    Status status = spawn_worker(&process, &command, rank, supervisor->arrival_fd, err);
    if (status != STATUS_OK) {
        barrier_depart(barrier, rank);
        return status;
    }
    uint32_t restarts = worker->state == WORKER_DEAD ? worker->restarts + 1 : 0;
    assert(process.pid > 0 && process.pidfd >= 0 && process.startup_fd >= 0 && process.plan);
    *worker = (WorkerRecord){.state = WORKER_STARTING,
                             .pid = process.pid,
                             .pidfd = process.pidfd,
                             .startup_fd = process.startup_fd,
                             .plan = process.plan,
                             .restarts = restarts};
    worker->seen_progress = atomic_load_explicit(&supervisor->config.pulses[rank].progress, memory_order_relaxed);
    return STATUS_OK;
}

void supervisor_release(Supervisor *supervisor) {
    assert(!barrier_has_arrived(supervisor->config.barrier, parent_rank(supervisor))); // once for each gather
    barrier_arrive(supervisor->config.barrier, parent_rank(supervisor));
}

static void close_worker(WorkerRecord *worker) {
    assert(is_alive(worker) && worker->pidfd >= 0);
    close(worker->pidfd);
    if (worker->startup_fd >= 0) close(worker->startup_fd);
    worker->pidfd = worker->startup_fd = -1;
    spawn_settle(worker->plan);
    worker->plan = NULL;
    worker->state = WORKER_DEAD;
}

static void signal_workers(const Supervisor *supervisor, int signal_number) {
    for (uint32_t rank = 0; rank < supervisor->config.workers; rank++)
        if (is_alive(&supervisor->workers[rank]))
            pidfd_send_signal(supervisor->workers[rank].pidfd, signal_number, NULL, 0);
}

// A batch system signals all processes of a job, and the process that started this one (a sweep, a launcher) forwards
// the signal, too. So the forwarded signals and the others are counted apart, and the greater count is the number of
// requests.
static void read_signals(Supervisor *supervisor) {
    struct signalfd_siginfo info;
    const pid_t starter = getppid();
    while (read(supervisor->signal_fd, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGTSTP) {
            // Ctrl-Z at the terminal reaches only the parent, since the workers have a process group of their own.
            const SupervisorConfig *config = &supervisor->config;
            signal_workers(supervisor, SIGSTOP);
            if (config->on_pause) config->on_pause(config->context, true);
            suspend_self();
            if (config->on_pause) config->on_pause(config->context, false);
            signal_workers(supervisor, SIGCONT);
            continue;
        }
        const bool is_handed_on = (pid_t)info.ssi_pid == starter;
        StopRequests *requests = is_handed_on ? &supervisor->handed_on : &supervisor->of_others;
        stop_requests_add(requests, clock_nanoseconds());
        if (requests->count > supervisor->interrupts) supervisor->interrupts = requests->count;
        supervisor->last_signal = (int)info.ssi_signo;
    }
}

int supervisor_interrupts(Supervisor *supervisor) {
    read_signals(supervisor);
    return supervisor->interrupts;
}

void supervisor_dismiss(Supervisor *supervisor, double seconds) {
    uint64_t start = clock_nanoseconds();
    supervisor_release(supervisor);
    for (uint32_t rank = 0; rank < supervisor->config.workers; rank++) {
        if (!is_alive(&supervisor->workers[rank])) continue;
        struct pollfd death = {.fd = supervisor->workers[rank].pidfd, .events = POLLIN};
        for (;;) {
            double left = seconds - clock_seconds_since(start);
            if (left <= 0 || supervisor_interrupts(supervisor) >= 2) return;
            int wait = left < TICK_MILLISECONDS * 1e-3 ? (int)(left * 1e3) + 1 : TICK_MILLISECONDS;
            if (poll(&death, 1, wait) == 1) break;
        }
    }
}

void supervisor_free(Supervisor *supervisor) {
    signal_workers(supervisor, SIGKILL);
    for (uint32_t rank = 0; rank < supervisor->config.workers; rank++) {
        WorkerRecord *worker = &supervisor->workers[rank];
        if (!is_alive(worker)) continue;
        // A process deep in a driver may outlive its SIGKILL for long; it is then left to init and not waited for.
        struct pollfd death = {.fd = worker->pidfd, .events = POLLIN};
        if (poll(&death, 1, GOODBYE_MILLISECONDS) == 1) {
            waitpid(worker->pid, &worker->exit_status, 0);
        } else {
            log_warning("rank %u (pid %d) does not die of SIGKILL and is left behind", rank, worker->pid);
            worker->plan = NULL; // the process may still read it
        }
        close_worker(worker);
    }
    read_signals(supervisor); // with the mask restored, they would kill a parent that is about to end in good order
    close(supervisor->signal_fd);
    close(supervisor->arrival_fd);
    sigaction(SIGCHLD, &supervisor->saved_child_action, NULL);
    sigprocmask(SIG_SETMASK, &supervisor->saved_mask, NULL);
    owned_free(&supervisor->owned);
    supervisor->config.workers = 0;
}

// Waiting ------------------------------------------------------------------------------------------------------------

// Reads what the worker has reported so far: a zero byte says that it is ready, text says what is wrong.
static void read_report(WorkerRecord *worker) {
    assert(is_alive(worker) && worker->startup_fd >= 0);
    char bytes[WORKER_MESSAGE_BYTES];
    ssize_t count = read(worker->startup_fd, bytes, sizeof bytes);
    if (count == 0) { // the worker has closed the pipe, which poll would report again and again
        close(worker->startup_fd);
        worker->startup_fd = -1;
    }
    size_t length = strlen(worker->message);
    assert(length < sizeof worker->message);
    for (ssize_t i = 0; i < count; i++) {
        if (bytes[i] == 0) {
            worker->was_ready = true;
            worker->state = WORKER_RUNNING;
            worker->still_seconds = 0; // a slow start does not count as a hang
            spawn_settle(worker->plan);
            worker->plan = NULL;
        } else if (length + 1 < sizeof worker->message) {
            worker->message[length++] = bytes[i];
        }
    }
    worker->message[length] = 0;
}

static const char memory_ran_out[] = " by the kernel, as memory ran out (fewer workers or a smaller model need less)";

// Writes "rank 3 was killed by signal 9 (SIGKILL)" or "rank 1 exited with code 66 while starting: data: no such
// folder".
static void describe_death(char *text, size_t bytes, const Supervisor *supervisor, uint32_t rank) {
    const WorkerRecord *worker = &supervisor->workers[rank];
    assert(worker->state == WORKER_DEAD && (WIFSIGNALED(worker->exit_status) || WIFEXITED(worker->exit_status)));
    int used;
    if (WIFSIGNALED(worker->exit_status)) {
        const char *name = sigabbrev_np(WTERMSIG(worker->exit_status));
        used = snprintf(text, bytes, "rank %u was killed by signal %d (SIG%s)%s", rank, WTERMSIG(worker->exit_status),
                        name ? name : "?",
                        memory_killed(WTERMSIG(worker->exit_status), supervisor->memory_kills) ? memory_ran_out : "");
    } else {
        used = snprintf(text, bytes, "rank %u exited with code %d", rank, WEXITSTATUS(worker->exit_status));
    }
    snprintf(text + used, bytes - (size_t)used, "%s%s%s", worker->was_ready ? "" : " while starting",
             *worker->message ? ": " : "", worker->message);
}

static Status reap(Supervisor *supervisor, uint32_t rank, Error *err) {
    assert(rank < supervisor->config.workers && is_alive(&supervisor->workers[rank]));
    WorkerRecord *worker = &supervisor->workers[rank];
    if (waitpid(worker->pid, &worker->exit_status, WNOHANG) != worker->pid)
        return STATUS_OK;                             // the next poll checks again
    if (worker->startup_fd >= 0) read_report(worker); // a last report, which may have arrived after the last poll
    spawn_explain(worker->message, sizeof worker->message, worker->plan);
    close_worker(worker);
    supervisor->deaths++;
    supervisor->last_dead = rank;
    barrier_depart(supervisor->config.barrier, rank);
    const SupervisorConfig *config = &supervisor->config;
    char description[WORKER_MESSAGE_BYTES + 128];
    describe_death(description, sizeof description, supervisor, rank);
    if (config->is_told && config->is_told(config->context, rank))
        log_debug("%s", description);
    else if (supervisor->round > 0)
        log_warning("round %u: %s", supervisor->round, description);
    else
        log_warning("%s", description);
    if (!config->on_death) return STATUS_OK;
    return config->on_death(config->context, rank, err);
}

// A worker that has not arrived is expected to make progress. Only time that was observed in ticks counts: if this
// process or the whole machine was stopped, the workers are blamed for at most one tick of it.
static void watch_progress(Supervisor *supervisor, double tick_seconds) {
    assert(tick_seconds > 0 && tick_seconds <= longest_tick_seconds);
    const SupervisorConfig *config = &supervisor->config;
    for (uint32_t rank = 0; rank < config->workers; rank++) {
        WorkerRecord *worker = &supervisor->workers[rank];
        if (!is_alive(worker)) continue;
        uint64_t progress = atomic_load_explicit(&config->pulses[rank].progress, memory_order_relaxed);
        assert(progress >= worker->seen_progress); // it only grows, also over a worker's replacement
        if (progress != worker->seen_progress || barrier_has_arrived(config->barrier, rank) ||
            (config->is_waiting && config->is_waiting(config->context, rank))) {
            worker->seen_progress = progress;
            worker->still_seconds = 0;
            worker->warned = false;
            continue;
        }
        worker->still_seconds += tick_seconds;
        if (worker->still_seconds >= config->hang_seconds) {
            log_warning("rank %u has made no progress for %.3g s and is killed", rank, worker->still_seconds);
            if (!*worker->message)
                snprintf(worker->message, sizeof worker->message, "it made no progress for %.3g s",
                         config->hang_seconds);
            pidfd_send_signal(worker->pidfd, SIGKILL, NULL, 0); // its pidfd reports when it is dead
            worker->still_seconds = 0;
        } else if (worker->still_seconds >= config->hang_seconds / 2 && !worker->warned) {
            log_warning("rank %u has made no progress for %.3g s and will be killed after %.3g s", rank,
                        worker->still_seconds, config->hang_seconds);
            worker->warned = true;
        }
    }
}

// Waits for the next event, at most timeout_milliseconds, and handles all events that have happened.
static Status take_events(Supervisor *supervisor, int timeout_milliseconds, Error *err) {
    uint32_t workers = supervisor->config.workers;
    struct pollfd *polls = supervisor->polls;
    struct pollfd *deaths = polls + SUPERVISOR_POLLS, *reports = deaths + workers;
    polls[POLL_SIGNALS] = (struct pollfd){.fd = supervisor->signal_fd, .events = POLLIN};
    polls[POLL_ARRIVALS] = (struct pollfd){.fd = supervisor->arrival_fd, .events = POLLIN};
    for (uint32_t rank = 0; rank < workers; rank++) { // poll ignores descriptors of -1
        deaths[rank] = (struct pollfd){.fd = supervisor->workers[rank].pidfd, .events = POLLIN};
        reports[rank] = (struct pollfd){.fd = supervisor->workers[rank].startup_fd, .events = POLLIN};
    }
    const uint32_t watched = supervisor->config.watched_count;
    for (uint32_t i = 0; i < watched; i++)
        reports[workers + i] = supervisor->config.watched[i];
    if (poll(polls, SUPERVISOR_POLLS + 2 * (nfds_t)workers + watched, timeout_milliseconds) < 0)
        return errno == EINTR ? STATUS_OK : fail_errno(err, STATUS_OS, "cannot wait for the workers");

    uint64_t arrivals;
    if (polls[POLL_ARRIVALS].revents && read(supervisor->arrival_fd, &arrivals, sizeof arrivals) < 0 && errno != EAGAIN)
        return fail_errno(err, STATUS_OS, "cannot read the eventfd of the workers' arrivals");
    if (polls[POLL_SIGNALS].revents) read_signals(supervisor);
    for (uint32_t rank = 0; rank < workers; rank++) {
        if (reports[rank].revents) read_report(&supervisor->workers[rank]);
        if (deaths[rank].revents) TRY(reap(supervisor, rank, err));
    }
    return STATUS_OK;
}

static Status no_worker_left(const Supervisor *supervisor, Error *err) {
    assert(supervisor_alive(supervisor) == 0 && supervisor->last_dead < supervisor->config.workers);
    if (supervisor->workers[supervisor->last_dead].state != WORKER_DEAD)
        return fail(err, STATUS_UNAVAILABLE, "no worker has been started");
    char last[WORKER_MESSAGE_BYTES + 128];
    describe_death(last, sizeof last, supervisor, supervisor->last_dead);
    if (supervisor->config.workers == 1) return fail(err, STATUS_UNAVAILABLE, "the only worker has died: %s", last);
    return fail(err, STATUS_UNAVAILABLE, "all %u workers have died (last: %s)", supervisor->config.workers, last);
}

// Checks for hung workers and calls on_tick, at most five times a second while the parent waits. Returns how long the
// current tick has lasted.
static double tick(Supervisor *supervisor) {
    double tick_seconds = clock_seconds_since(supervisor->tick_start_nanoseconds);
    if (tick_seconds < TICK_MILLISECONDS * 1e-3) return tick_seconds;
    supervisor->tick_start_nanoseconds = clock_nanoseconds();
    if (tick_seconds > longest_tick_seconds) tick_seconds = longest_tick_seconds;
    if (supervisor->config.hang_seconds > 0) watch_progress(supervisor, tick_seconds);
    if (supervisor->config.on_tick) supervisor->config.on_tick(supervisor->config.context);
    return 0;
}

// Each turn handles events, then the caller's own work. The gather ends when all living workers have arrived, when
// is_enough says so, or when no worker is left.
Status supervisor_gather(Supervisor *supervisor, Error *err) {
    supervisor->deaths = 0;
    // If the workers continued after the last gather, its tick continues, too: gathers may be shorter than a tick.
    if (!supervisor->goes_on) supervisor->tick_start_nanoseconds = clock_nanoseconds();
    supervisor->goes_on = false;
    int timeout_milliseconds = 0; // first handle what has happened since the last gather
    for (;;) {
        TRY(take_events(supervisor, timeout_milliseconds, err));
        if (supervisor->interrupts >= 2)
            return fail(err, STATUS_CANCELLED, "stopped at once by a second signal (SIG%s)",
                        sigabbrev_np(supervisor->last_signal));
        bool busy = false;
        if (supervisor->config.serve) TRY(supervisor->config.serve(supervisor->config.context, &busy, err));
        double tick_seconds = tick(supervisor);
        supervisor->goes_on = supervisor->config.is_enough && supervisor->config.is_enough(supervisor->config.context);
        if (supervisor->goes_on) return STATUS_OK;
        if (supervisor_alive(supervisor) == 0) return no_worker_left(supervisor, err);
        if (barrier_others_arrived(supervisor->config.barrier, parent_rank(supervisor))) return STATUS_OK;
        timeout_milliseconds = busy ? 0 : TICK_MILLISECONDS - (int)(tick_seconds * 1e3);
    }
}

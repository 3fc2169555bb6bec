#include "sweep_forecast.h"
#include "app/train/train.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cores.h"
#include "fedavg/nodes/nodes.h"

// Body of the process that has the turn.
static void become_outlook(const Job *job, const SweepStart *start, int fd, pid_t parent) {
    Outlook outlook;
    Error ignored;
    const int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nothing < 0 || !sweep_process_begin(start, nothing, parent)) _exit(1);
    nodes_stay_alone();
    const Status status =
        train_outlook(&outlook, job_argument_count(job), job->arguments, start->ready, job->cores, &ignored);
    _exit(status != STATUS_OK || write(fd, &outlook, sizeof outlook) != (ssize_t)sizeof outlook);
}

// A stop signal, which stays for the sweep to read, ends the turn early.
static bool read_outlook(Outlook *outlook, int fd, pid_t pid, const SweepStart *start) {
    char *to = (char *)outlook;
    size_t done = 0;
    struct pollfd wait[] = {{.fd = fd, .events = POLLIN}, {.fd = start->signal_fd, .events = POLLIN}};
    for (ssize_t got = 1; got > 0 && done < sizeof *outlook;) {
        if (poll(wait, 2, -1) < 0) continue;
        if (!(wait[0].revents & (POLLIN | POLLHUP))) {
            kill(pid, SIGTERM);
            wait[1].fd = -1;
            continue;
        }
        got = read(fd, to + done, sizeof *outlook - done);
        if (got > 0) done += (size_t)got;
    }
    return done == sizeof *outlook;
}

// The process is one like those of the runs, so that the sweep keeps no memory of the turn.
static bool ask(Outlook *outlook, const Job *job, const SweepStart *start) {
    int ends[2], ignored;
    const pid_t parent = getpid();
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) become_outlook(job, start, ends[1], parent);
    close(ends[1]);
    const bool told = pid > 0 && read_outlook(outlook, ends[0], pid, start);
    close(ends[0]);
    if (pid > 0) waitpid(pid, &ignored, 0);
    return told;
}

void sweep_forecast_say(const Job *first, const Job *jobs, size_t count, double share, int room, int most,
                        const SweepStart *start) {
    Outlook outlook;
    int waiting = 0;
    double rounds = 0;
    if (!ask(&outlook, first, start)) return;
    for (size_t i = 0; i < count; i++) {
        waiting += jobs[i].state == JOB_WAITS;
        rounds += jobs[i].state == JOB_WAITS ? share * jobs[i].rounds : 0;
    }
    int side = most > 0 ? most : outlook.on_gpu ? SWEEP_MOST_ON_GPU : room / first->width;
    side = side < 1 ? 1 : side < waiting ? side : waiting;
    // More of them than cores take no less time together.
    const int cores = cores_usable() / first->width, busy = cores < 1 ? 1 : cores < side ? cores : side;
    // Runs differ in their rounds; everything else is taken as in the first one.
    const double round = (outlook.seconds - outlook.start_seconds) / outlook.rounds;
    const uint64_t each = outlook.memory - outlook.shared;
    printf("plan: %d runs, %d at a time: about %.1f s and %.1f MB, if all are like %s\n", waiting, side,
           (waiting * outlook.start_seconds + rounds * round) / busy,
           (double)(outlook.shared + each * (uint64_t)side) / 1e6, first->name);
}

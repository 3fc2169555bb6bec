// Part of supervisor.h: the side of the worker.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "shm/supervisor.h"

// When memory runs out, the kernel should kill a worker, which is reported and replaced, rather than the parent, which
// holds more memory: the value adds half of the machine's memory to what counts as used by this process.
static void offer_to_die_first(void) {
    const int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd < 0) return; // no /proc
    if (write(fd, "500", 3) < 0) log_debug("the kernel does not take a worker's offer to die first");
    close(fd);
}

Status worker_attach(pid_t parent, Error *err) {
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        return fail_errno(err, STATUS_OS, "cannot ask to be killed together with the parent");
    // If the parent died before the prctl call, the kernel will not signal its death.
    if (getppid() != parent) return fail(err, STATUS_PEER_DIED, "the parent (pid %d) is no longer there", parent);
    offer_to_die_first();
    return STATUS_OK;
}

void worker_report(const char *message) {
    // A zero byte says "ready", text says what is wrong. Both are shorter than PIPE_BUF, hence written in one piece,
    // and fit an empty pipe. A worker must continue if a report is lost (a full pipe, a dead parent).
    size_t bytes = message ? strnlen(message, WORKER_MESSAGE_BYTES - 1) : 1;
    if (write(WORKER_STARTUP_FD, message ? message : "", bytes) < 0) return;
}

void worker_ring(void) {
    // The eventfd does not block: it refuses only if its counter is full, and then the parent is about to wake anyway.
    const uint64_t one = 1;
    while (write(WORKER_ARRIVAL_FD, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

Status worker_wait(Barrier *barrier, WorkerPulse *pulse, uint32_t rank, pid_t parent) {
    // Relaxed: the arrival that follows publishes it.
    atomic_store_explicit(&pulse->arrived_nanoseconds, clock_nanoseconds(), memory_order_relaxed);
    uint32_t generation = barrier_arrive(barrier, rank);
    worker_ring(); // if this process dies before the call, the parent wakes by the pidfd
    return barrier_sleep(barrier, generation, parent, 0);
}

// Part of supervisor.h: the side of the worker.
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/clock.h"
#include "shm/supervisor.h"

Status worker_attach(pid_t parent, Error *err) {
    assert(parent > 0);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        return fail_errno(err, STATUS_OS, "cannot ask to be killed together with the parent");
    // If the parent died before the prctl call, the kernel will not signal its death.
    if (getppid() != parent) return fail(err, STATUS_PEER_DIED, "the parent (pid %d) is no longer there", parent);
    memory_offer_to_die_first();
    return STATUS_OK;
}

bool worker_report(const char *message) {
    // A zero byte says "ready", text says what is wrong. Both are shorter than PIPE_BUF, hence written in one piece,
    // and fit an empty pipe. A worker must continue if a report is lost (a full pipe, a dead parent).
    size_t bytes = message ? strnlen(message, WORKER_MESSAGE_BYTES - 1) : 1;
    return write(WORKER_STARTUP_FD, message ? message : "", bytes) >= 0;
}

void worker_ring(void) {
    // The eventfd does not block: it refuses only if its counter is full, and then the parent is about to wake anyway.
    const uint64_t one = 1;
    while (write(WORKER_ARRIVAL_FD, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

Status worker_wait(Barrier *barrier, WorkerPulse *pulse, uint32_t rank, pid_t parent) {
    assert(rank + 1 < barrier->ranks && parent > 0); // the last rank is the parent's
    // Relaxed: the arrival that follows publishes it.
    atomic_store_explicit(&pulse->arrived_nanoseconds, clock_nanoseconds(), memory_order_relaxed);
    uint32_t generation = barrier_arrive(barrier, rank);
    worker_ring(); // if this process dies before the call, the parent wakes by the pidfd
    return barrier_sleep(barrier, generation, parent, 0);
}

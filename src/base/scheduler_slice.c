// Part of cores.h: asks the scheduler for long time slices. A file of its own for the sake of the conflict below.
#include "base/cores.h"

#include <linux/sched.h>
#include <linux/sched/types.h> // does not get along with <sched.h> of glibc before 2.41, which has no struct sched_attr
#include <sys/syscall.h>
#include <unistd.h>

void scheduler_slice_request(void) {
    struct sched_attr attributes = {0};
    if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return;
    if (attributes.sched_policy != SCHED_NORMAL && attributes.sched_policy != SCHED_BATCH) return;
    attributes.sched_runtime = SCHEDULER_SLICE_MILLISECONDS * 1000000ull; // nanoseconds
    syscall(SYS_sched_setattr, 0, &attributes, 0);                        // refused: no change
}

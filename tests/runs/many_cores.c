// A library to preload (LD_PRELOAD): its process may use sixteen cores, as far as the process can see.
#include <sched.h>
#include <string.h>

int sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *cores) {
    (void)pid;
    memset(cores, 0, bytes);
    for (size_t core = 0; core < 16; core++)
        CPU_SET_S(core, bytes, cores);
    return 0;
}

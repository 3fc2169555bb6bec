// Two calls that glibc has had since 2.36 alone: with them in the program itself a wheel runs with an older one. Only
// wheels are built with this file.
#include <signal.h>
#include <stddef.h>
#include <sys/pidfd.h>
#include <sys/syscall.h>
#include <unistd.h>

int pidfd_open(pid_t pid, unsigned flags) {
    return (int)syscall(SYS_pidfd_open, pid, flags);
}

int pidfd_send_signal(int pidfd, int signal_number, siginfo_t *info, unsigned flags) {
    return (int)syscall(SYS_pidfd_send_signal, pidfd, signal_number, info, flags);
}

// A library to preload (LD_PRELOAD): one call of libc fails in one process of a run.
//
//   SOUNDER_FAULT=worker:mmap:3:12 LD_PRELOAD=libfailing_call.so sounder train ...
//
// In the parent or in each worker, the third call of mmap fails with errno 12. "alloc" stands for all allocations. With
// 0 as the place none fails. SOUNDER_FAULT_COUNT names a file of 8 bytes, a number: it becomes that of such calls in
// the process that makes most of them. (A file in shared memory, for a worker that is killed has no end.)
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// Of the process from the start of main on (what libraries do before it is not ours): whether it is meant, which call,
// which of them, with what.
static struct {
    bool on;
    char call[32];
    long place;
    int reason;
    atomic_long count;
    atomic_long *largest; // NULL: nobody counts
} fault;

static void read_fault(int argc, char **argv) {
    char process[16] = "";
    const bool is_worker = argc > 1 && strcmp(argv[1], "worker") == 0;
    const char *text = getenv("SOUNDER_FAULT"), *counts = getenv("SOUNDER_FAULT_COUNT");
    if (!text || sscanf(text, "%15[^:]:%31[^:]:%ld:%d", process, fault.call, &fault.place, &fault.reason) != 4) return;
    if (counts) {
        long fd = syscall(SYS_openat, AT_FDCWD, counts, O_RDWR | O_CLOEXEC);
        fault.largest = (atomic_long *)syscall(SYS_mmap, NULL, sizeof(long), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        syscall(SYS_close, fd);
    }
    fault.on = argc > 1 && strcmp(process, is_worker ? "worker" : "parent") == 0;
}

// The next definition of a function: libc's.
#define REAL(name, ...) ((__VA_ARGS__)dlsym(RTLD_NEXT, name))

typedef int Main(int argc, char **argv, char **environment);
static Main *real_main;

static int main_with_fault(int argc, char **argv, char **environment) {
    read_fault(argc, argv);
    return real_main(argc, argv, environment);
}

int __libc_start_main(Main *main, int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*loader_fini)(void), void *stack_end) {
    typedef int Start(Main *, int, char **, void (*)(void), void (*)(void), void (*)(void), void *);
    real_main = main;
    return REAL("__libc_start_main", Start *)(main_with_fault, argc, argv, init, fini, loader_fini, stack_end);
}

static bool fails(const char *call) {
    if (!fault.on || strcmp(call, fault.call) != 0) return false;
    long now = atomic_fetch_add(&fault.count, 1) + 1, largest = fault.largest ? atomic_load(fault.largest) : now;
    while (now > largest && !atomic_compare_exchange_weak(fault.largest, &largest, now))
        ;
    if (now != fault.place) return false;
    errno = fault.reason;
    return true;
}

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);

void *malloc(size_t bytes) {
    return fails("alloc") ? NULL : __libc_malloc(bytes);
}
void *calloc(size_t count, size_t bytes) {
    return fails("alloc") ? NULL : __libc_calloc(count, bytes);
}
void *realloc(void *memory, size_t bytes) {
    return fails("alloc") ? NULL : __libc_realloc(memory, bytes);
}
void *aligned_alloc(size_t alignment, size_t bytes) {
    return fails("alloc") ? NULL : __libc_memalign(alignment, bytes);
}

// WRAP(result, name, parameters, arguments, result of a failure)
#define WRAP(result, name, parameters, arguments, failure)                                                             \
    result name parameters {                                                                                           \
        return fails(#name) ? failure : REAL(#name, result(*) parameters) arguments;                                   \
    }

WRAP(void *, mmap, (void *at, size_t bytes, int protection, int flags, int fd, off_t offset),
     (at, bytes, protection, flags, fd, offset), MAP_FAILED)
WRAP(ssize_t, write, (int fd, const void *bytes, size_t count), (fd, bytes, count), -1)
WRAP(ssize_t, pwrite, (int fd, const void *bytes, size_t count, off_t from), (fd, bytes, count, from), -1)
WRAP(ssize_t, read, (int fd, void *bytes, size_t count), (fd, bytes, count), -1)
WRAP(ssize_t, pread, (int fd, void *bytes, size_t count, off_t offset), (fd, bytes, count, offset), -1)
WRAP(int, fsync, (int fd), (fd), -1)
WRAP(int, fdatasync, (int fd), (fd), -1)
WRAP(int, ftruncate, (int fd, off_t bytes), (fd, bytes), -1)
WRAP(int, fstat, (int fd, struct stat *about), (fd, about), -1)
WRAP(int, flock, (int fd, int operation), (fd, operation), -1)
WRAP(int, mkdirat, (int folder, const char *name, mode_t mode), (folder, name, mode), -1)
WRAP(int, renameat, (int from, const char *old, int to, const char *new), (from, old, to, new), -1)
WRAP(int, unlinkat, (int folder, const char *name, int flags), (folder, name, flags), -1)
WRAP(int, symlinkat, (const char *target, int folder, const char *name), (target, folder, name), -1)
WRAP(struct dirent *, readdir, (void *listing), (listing), NULL)
WRAP(int, pipe2, (int ends[2], int flags), (ends, flags), -1)
WRAP(int, poll, (struct pollfd * fds, nfds_t count, int milliseconds), (fds, count, milliseconds), -1)
WRAP(int, eventfd, (unsigned value, int flags), (value, flags), -1)
WRAP(int, signalfd, (int fd, const sigset_t *signals, int flags), (fd, signals, flags), -1)
WRAP(int, pidfd_open, (pid_t pid, unsigned flags), (pid, flags), -1)
WRAP(pid_t, waitpid, (pid_t pid, int *status, int options), (pid, status, options), -1)
WRAP(int, memfd_create, (const char *name, unsigned flags), (name, flags), -1)
WRAP(off_t, lseek, (int fd, off_t offset, int whence), (fd, offset, whence), -1)

int posix_fallocate(int fd, off_t offset, off_t bytes) {
    if (fails("posix_fallocate")) return fault.reason;
    return REAL("posix_fallocate", int (*)(int, off_t, off_t))(fd, offset, bytes);
}

// A close that fails has closed all the same.
int close(int fd) {
    const bool failing = fails("close");
    int result = REAL("close", int (*)(int))(fd);
    if (failing) errno = fault.reason;
    return failing ? -1 : result;
}

static mode_t mode_of(va_list arguments, int flags) {
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
}

int open(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = mode_of(arguments, flags);
    va_end(arguments);
    return fails("open") ? -1 : REAL("open", int (*)(const char *, int, ...))(path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = mode_of(arguments, flags);
    va_end(arguments);
    return fails("open") ? -1 : REAL("openat", int (*)(int, const char *, int, ...))(folder, path, flags, mode);
}

int fcntl(int fd, int command, ...) {
    va_list arguments;
    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    return fails("fcntl") ? -1 : REAL("fcntl", int (*)(int, int, ...))(fd, command, argument);
}

int clone(int (*begin)(void *), void *stack, int flags, void *argument, ...) {
    if (fails("clone")) return -1;
    return REAL("clone", int (*)(int (*)(void *), void *, int, void *, ...))(begin, stack, flags, argument);
}

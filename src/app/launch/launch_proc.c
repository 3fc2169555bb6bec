#include "launch_proc.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PROC_PATH_BYTES = 64, PROC_TEXT_BYTES = 1024 };

void process_list_add(ProcessList *list, pid_t pid) {
    if (list->count == list->room) {
        const size_t room = 2 * list->room + 64;
        pid_t *more = realloc(list->pids, room * sizeof *more);
        if (!more) return;
        list->pids = more;
        list->room = room;
    }
    list->pids[list->count++] = pid;
}

ProcessList process_children(pid_t pid) {
    char path[PROC_PATH_BYTES];
    ProcessList children = {.pids = NULL};
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *threads = opendir(path);
    for (const struct dirent *thread; threads && (thread = readdir(threads));) {
        snprintf(path, sizeof path, "/proc/%d/task/%.10s/children", pid, thread->d_name);
        FILE *file = thread->d_name[0] == '.' ? NULL : fopen(path, "re");
        for (int child; file && fscanf(file, "%d", &child) == 1;)
            process_list_add(&children, child);
        if (file) fclose(file);
    }
    if (threads) closedir(threads);
    return children;
}

// Reads /proc/PID/NAME as text; "" if it cannot be read.
static void read_text(char text[PROC_TEXT_BYTES], pid_t pid, const char *name) {
    char path[PROC_PATH_BYTES];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
    FILE *file = fopen(path, "re");
    const size_t bytes = file ? fread(text, 1, PROC_TEXT_BYTES - 1, file) : 0;
    text[bytes] = '\0';
    if (file) fclose(file);
}

// The fields of stat after the name, which may contain blanks and brackets.
static void read_stat(char *state, ProcessUse *use, pid_t pid) {
    char text[PROC_TEXT_BYTES];
    unsigned long long faults = 0, user = 0, kernel = 0;
    read_text(text, pid, "stat");
    const char *fields = strrchr(text, ')');
    *state = '?';
    if (fields)
        sscanf(fields, ") %c %*d %*d %*d %*d %*d %*u %*u %*u %llu %*u %llu %llu", state, &faults, &user, &kernel);
    use->cpu_seconds = (double)(user + kernel) / (double)sysconf(_SC_CLK_TCK);
    use->bytes = faults * (uint64_t)sysconf(_SC_PAGESIZE);
}

ProcessUse process_use(pid_t pid) {
    char text[PROC_TEXT_BYTES], state;
    ProcessUse use;
    unsigned long long read = 0, written = 0;
    read_stat(&state, &use, pid);
    read_text(text, pid, "io");
    sscanf(text, "rchar: %llu wchar: %llu", &read, &written);
    use.bytes += read + written;
    ProcessList children = process_children(pid);
    for (size_t i = 0; i < children.count; i++) {
        const ProcessUse of = process_use(children.pids[i]);
        use.cpu_seconds += of.cpu_seconds;
        use.bytes += of.bytes;
    }
    free(children.pids);
    return use;
}

// Waits ---------------------------------------------------------------------------------------------------------------

typedef enum WaitKind { WAITS_ALONE, WAITS_FOR_PEERS, WAITS_AT_DESCRIPTOR, WAITS_FOR_CHILD } WaitKind;

static const struct {
    long number;
    const char *words;
    WaitKind kind;
} waits[] = {
    {SYS_clock_nanosleep, "sleeps in clock_nanosleep", WAITS_ALONE},
    {SYS_nanosleep, "sleeps in nanosleep", WAITS_ALONE},
    {SYS_rt_sigsuspend, "waits for a signal in sigsuspend", WAITS_FOR_CHILD}, // as a shell does
    {SYS_rt_sigtimedwait, "waits for a signal in sigwait", WAITS_ALONE},
    {SYS_flock, "waits for a file's lock in flock", WAITS_ALONE},
    {SYS_fcntl, "waits for a file's lock in fcntl", WAITS_ALONE},
    {SYS_wait4, "waits for a child in wait4", WAITS_FOR_CHILD},
    {SYS_waitid, "waits for a child in waitid", WAITS_FOR_CHILD},
    {SYS_futex, "waits in futex", WAITS_FOR_PEERS},
    {SYS_ppoll, "waits in poll", WAITS_FOR_PEERS},
    {SYS_pselect6, "waits in select", WAITS_FOR_PEERS},
    {SYS_epoll_pwait, "waits in epoll_wait", WAITS_FOR_PEERS},
    {SYS_connect, "waits in connect", WAITS_FOR_PEERS},
    {SYS_accept, "waits in accept", WAITS_FOR_PEERS},
    {SYS_accept4, "waits in accept", WAITS_FOR_PEERS},
    {SYS_recvfrom, "receives from", WAITS_AT_DESCRIPTOR},
    {SYS_recvmsg, "receives from", WAITS_AT_DESCRIPTOR},
    {SYS_sendto, "sends to", WAITS_AT_DESCRIPTOR},
    {SYS_sendmsg, "sends to", WAITS_AT_DESCRIPTOR},
    {SYS_read, "reads from", WAITS_AT_DESCRIPTOR},
    {SYS_readv, "reads from", WAITS_AT_DESCRIPTOR},
    {SYS_write, "writes to", WAITS_AT_DESCRIPTOR},
    {SYS_writev, "writes to", WAITS_AT_DESCRIPTOR},
#ifdef SYS_poll // not on newer architectures
    {SYS_poll, "waits in poll", WAITS_FOR_PEERS},
    {SYS_select, "waits in select", WAITS_FOR_PEERS},
    {SYS_epoll_wait, "waits in epoll_wait", WAITS_FOR_PEERS},
    {SYS_pause, "waits for a signal in pause", WAITS_ALONE},
#endif
};

enum { WAITS = sizeof waits / sizeof *waits };

// Returns the row of the call that the main thread waits in, WAITS for another call, or -1 if it is in none. *first:
// its first argument.
static int find_wait(long *number, unsigned long *first, pid_t pid) {
    char text[PROC_TEXT_BYTES];
    read_text(text, pid, "syscall");
    if (sscanf(text, "%ld %lx", number, first) != 2 || *number < 0) return -1;
    int row = 0;
    while (row < WAITS && waits[row].number != *number)
        row++;
    return row;
}

pid_t process_at_work(pid_t pid) {
    enum { MOST_SHELLS = 16 };
    for (int depth = 0; depth < MOST_SHELLS; depth++) {
        long number;
        unsigned long first;
        const int row = find_wait(&number, &first, pid);
        ProcessList children = {.pids = NULL};
        if (row >= 0 && row < WAITS && waits[row].kind == WAITS_FOR_CHILD) children = process_children(pid);
        const pid_t child = children.count > 0 ? children.pids[0] : 0;
        free(children.pids);
        if (child == 0) break;
        pid = child;
    }
    return pid;
}

// A descriptor's target: "socket:[1234]", "pipe:[99]", "/dev/pts/0".
static bool describe_target(char text[PROCESS_WAIT_BYTES], const char *words, unsigned long descriptor, pid_t pid) {
    char path[PROC_PATH_BYTES], target[PROCESS_WAIT_BYTES / 2];
    snprintf(path, sizeof path, "/proc/%d/fd/%lu", pid, descriptor);
    const ssize_t bytes = readlink(path, target, sizeof target - 1);
    target[bytes > 0 ? bytes : 0] = '\0';
    const bool is_socket = strncmp(target, "socket:", 7) == 0;
    snprintf(text, PROCESS_WAIT_BYTES, "%s %s", words, is_socket ? "a socket" : *target ? target : "a descriptor");
    return is_socket;
}

static bool is_interrupted(const ProcessWait *wait, long number) {
    return number == SYS_restart_syscall && wait->text[0];
}

bool process_wait(ProcessWait *wait, pid_t pid) {
    char state, place[PROC_TEXT_BYTES], *text = wait->text;
    long number = 0;
    unsigned long first = 0;
    ProcessUse ignored;
    read_stat(&state, &ignored, pid);
    read_text(place, pid, "wchan");
    const char *in = *place && strcmp(place, "0") != 0 ? place : "an unknown place";
    const int row = find_wait(&number, &first, pid);
    const bool is_asleep = strchr("TtZD", state) == NULL && row >= 0;
    if (state == 'R') return false;
    if (is_asleep && is_interrupted(wait, number)) return true;
    wait->may_be_freed = is_asleep && row < WAITS && waits[row].kind == WAITS_FOR_PEERS;
    if (state == 'T' || state == 't')
        snprintf(text, PROCESS_WAIT_BYTES, "is stopped, by %s", state == 't' ? "a debugger" : "SIGSTOP or SIGTSTP");
    else if (state == 'Z')
        snprintf(text, PROCESS_WAIT_BYTES, "has ended, and its parent has not noticed");
    else if (state == 'D')
        snprintf(text, PROCESS_WAIT_BYTES, "waits for a disk or a driver, in %.64s of the kernel", in);
    else if (row < 0)
        snprintf(text, PROCESS_WAIT_BYTES, "waits in %.64s of the kernel", in);
    else if (row == WAITS)
        snprintf(text, PROCESS_WAIT_BYTES, "waits in system call %ld, in %.64s of the kernel", number, in);
    else if (waits[row].kind == WAITS_AT_DESCRIPTOR)
        wait->may_be_freed = describe_target(text, waits[row].words, first, pid);
    else
        snprintf(text, PROCESS_WAIT_BYTES, "%s", waits[row].words);
    return true;
}

void process_name(char name[PROCESS_NAME_BYTES], pid_t pid) {
    char text[PROC_TEXT_BYTES];
    read_text(text, pid, "comm");
    text[strcspn(text, "\n")] = '\0';
    snprintf(name, PROCESS_NAME_BYTES, "%.16s", *text ? text : "?");
}

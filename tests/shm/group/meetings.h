// Meetings in a test: processes that come to one place, and what must become of each.
//
//   const Guest guests[] = {{.config = ..., .expected = STATUS_OK}, ...};
//   assert_int_equal(hold_meeting(guests, 2), 0);     // 0: each process met its expectation
#ifndef SOUNDER_TESTS_SHM_GROUP_MEETINGS_H
#define SOUNDER_TESTS_SHM_GROUP_MEETINGS_H

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "ranks.h"

// One process of a meeting and what must become of it.
typedef struct Guest {
    GroupConfig config;
    Status expected;
    const char *words[3];         // of the sentence
    bool has_small_files;         // its limit of file sizes leaves no room for the group's memory
    int refused_call, refusal;    // a system call that the kernel refuses with this errno; 0: none
    uint32_t comes_after_sockets; // rank 0's, where it listens, and its end of each connection
    double comes_after_seconds;   // and then so much later
    const char *environment[8];   // "NAME=value"
} Guest;

// How many sockets the kernel knows at a place.
static inline uint32_t sockets_at(const char *place) {
    char name[64], line[256];
    const bool is_file = strncmp(place, "file://", 7) == 0;
    if (is_file && access(place + 7, F_OK) != 0) return 0; // rank 0 renames its socket to the place
    if (is_file)
        snprintf(name, sizeof name, "%.60s", place + 7);
    else
        snprintf(name, sizeof name, "-port-%.50s\n", strrchr(place, ':') + 1);
    FILE *file = fopen("/proc/net/unix", "r");
    require(file);
    uint32_t count = 0;
    while (fgets(line, sizeof line, file))
        count += strstr(line, name) != NULL;
    fclose(file);
    return count;
}

static inline void wait_for_sockets(const char *place, uint32_t count) {
    enum { MILLISECONDS = 30000 };
    for (int waited = 0; sockets_at(place) < count; waited++) {
        if (waited == MILLISECONDS) requirement_not_met("the sockets never came", place, (int)count);
        usleep(1000);
    }
}

static inline void refuse(unsigned call, unsigned error) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        requirement_not_met("seccomp", __FILE__, __LINE__);
}

// An emulator of another processor has no seccomp.
static inline void skip_without_seccomp(void) {
    int status = 0;
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        refuse(SYS_personality, EPERM);
        _exit(0);
    }
    if (waitpid(pid, &status, 0) == pid && status == 0) return;
    print_message("no seccomp here: skipped\n");
    skip();
}

static inline void meet_as(const Guest *guest) {
    Error err = {.message = ""};
    Group *group = (Group *)1;
    for (int i = 0; i < 8 && guest->environment[i]; i++)
        putenv((char *)(uintptr_t)guest->environment[i]);
    if (guest->comes_after_sockets > 0) wait_for_sockets(guest->config.init, guest->comes_after_sockets);
    if (guest->comes_after_seconds > 0) usleep((useconds_t)(guest->comes_after_seconds * 1e6));
    if (guest->has_small_files) {
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){65536, 65536});
    }
    if (guest->refused_call) refuse((unsigned)guest->refused_call, (unsigned)guest->refusal);
    Status status = group_init(&group, &guest->config, &err);
    if (status != guest->expected) requirement_not_met(err.message, status_name(status), guest->config.rank);
    for (int i = 0; i < 3 && guest->words[i]; i++)
        if (!strstr(err.message, guest->words[i])) requirement_not_met(err.message, guest->words[i], i);
    if (status != STATUS_OK) {
        require(!group);
    } else {
        uint32_t sum = group_rank(group);
        require_ok(group_all_reduce(group, &sum, &sum, 1, GROUP_I32, GROUP_SUM, &err));
        require(sum == group_size(group) * (group_size(group) - 1) / 2);
        const char *local_rank = getenv("LOCAL_RANK");
        require(!local_rank || group_local_rank(group) == (uint32_t)atoi(local_rank));
        require_ok(group_finish(group, &err));
    }
    _exit(0);
}

static inline int hold_meeting(const Guest *guests, uint32_t count) {
    pid_t pids[RANKS_MOST];
    assert_true(count <= RANKS_MOST);
    fflush(NULL);
    for (uint32_t i = 0; i < count; i++) {
        pids[i] = fork();
        if (pids[i] != 0) continue;
        deadline_join();
        meet_as(&guests[i]);
    }
    return wait_for_ranks(pids, count);
}

static inline const char *tcp_place(char place[64]) {
    snprintf(place, 64, "tcp://127.0.0.1:%d", reserve_port());
    return place;
}

// Unsets the variables that a launcher of these tests' own, or the job that they run in, has set.
static inline void forget_launchers(void) {
    const char *const variables[] = {
        "RANK",     "WORLD_SIZE",   "MASTER_ADDR",      "MASTER_PORT", "OMPI_COMM_WORLD_RANK",
        "PMI_RANK", "SLURM_PROCID", "LOCAL_WORLD_SIZE", "LOCAL_RANK",  "SOUNDER_LAUNCH_ID"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        unsetenv(variables[i]);
}

#endif

// A process group in a test: `size` killable processes that meet by a file, each of which runs the same function.
//
//   static void scenario(Group *group, const void *context) { ... require(condition); ... }
//   assert_int_equal(run_ranks(4, scenario, &context), 0);   // 0: every rank returned with every requirement met
//
// A requirement that is not met ends its process with a line on stderr; a rank that shall die kills itself.
#ifndef SOUNDER_TESTS_SHM_GROUP_RANKS_H
#define SOUNDER_TESTS_SHM_GROUP_RANKS_H

#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shm/group/group.h"
#include "tests/check.h"
#include "tests/deadline.h"

#define require(condition)                                                                                             \
    do {                                                                                                               \
        if (!(condition)) requirement_not_met(#condition, __FILE__, __LINE__);                                         \
    } while (0)

// require_ok(call using &err)
#define require_ok(call)                                                                                               \
    do {                                                                                                               \
        if ((call) != STATUS_OK) requirement_not_met(err.message, __FILE__, __LINE__);                                 \
    } while (0)

static inline void requirement_not_met(const char *what, const char *file, int line) {
    fprintf(stderr, "process %d: %s:%d: not so: %s\n", getpid(), file, line, what);
    _exit(1);
}

typedef void RankFunction(Group *group, const void *context);

// Names of places are drawn, not made of the process id: containers that share /tmp or the network have equal ones.
static inline unsigned long draw_number(void) {
    unsigned long number;
    if (getrandom(&number, sizeof number, 0) != sizeof number) abort();
    return number;
}

// A new place to meet for every group of this test.
static inline const char *meeting_place(char place[64]) {
    snprintf(place, 64, "file:///tmp/sounder-test-%016lx", draw_number());
    return place;
}

// A TCP port that is this test's alone until it ends, since it is bound here; ranks meet by its number only.
static inline int reserve_port(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, bytes) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &bytes) != 0)
        abort();
    return ntohs(address.sin_port);
}

enum { RANKS_TIMEOUT_SECONDS = 60, RANKS_MOST = 16 };

static inline pid_t start_rank(const GroupConfig *config, RankFunction *function, const void *context) {
    fflush(NULL);
    pid_t pid = fork();
    if (pid != 0) return pid;
    deadline_join();
    Error err = {.message = ""};
    Group *group;
    require_ok(group_init(&group, config, &err));
    function(group, context);
    _exit(0);
}

// Waits for all; returns how many neither returned 0 nor killed themselves with SIGKILL. The first of these ends the
// others, which may be waiting for what it has not done.
static inline int wait_for_ranks(const pid_t *pids, uint32_t size) {
    int bad = 0;
    struct pollfd deaths[RANKS_MOST] = {{0}};
    for (uint32_t rank = 0; rank < size; rank++)
        deaths[rank] = (struct pollfd){.fd = pidfd_open(pids[rank], 0), .events = POLLIN};
    for (uint32_t left = size; left > 0;) {
        if (poll(deaths, size, -1) < 1) abort();
        for (uint32_t rank = 0; rank < size; rank++) {
            int status;
            if (!deaths[rank].revents) continue; // none of a descriptor that is -1
            if (waitpid(pids[rank], &status, 0) < 0) abort();
            close(deaths[rank].fd);
            deaths[rank].fd = -1;
            left--;
            if (status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)) continue;
            bad++;
            for (uint32_t other = 0; other < size; other++)
                if (deaths[other].fd >= 0) kill(pids[other], SIGKILL);
        }
    }
    return bad;
}

static inline int run_ranks(uint32_t size, RankFunction *function, const void *context) {
    pid_t pids[RANKS_MOST];
    char place[64];
    meeting_place(place);
    for (uint32_t rank = 0; rank < size; rank++) {
        GroupConfig config = {
            .init = place, .rank = (int)rank, .size = (int)size, .timeout_seconds = RANKS_TIMEOUT_SECONDS};
        pids[rank] = start_rank(&config, function, context);
    }
    return wait_for_ranks(pids, size);
}

#endif

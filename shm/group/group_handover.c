// Part of group_shared.h: the members of a sub-group get its memory through the sockets of the meeting, which
// connect rank 0 with each other rank. For a process in another PID namespace there is no other way, since no pid names
// it.
//
//   first member of a part -> rank 0     the part's memory
//   rank 0 -> each other member          the part's memory, and one end of a new socket pair
//   rank 0 -> first member               the other ends, one by one in the order of the part's ranks
//
// So the part has sockets between its own rank 0 and its other ranks, and can be divided itself. All ranks have entered
// the split when the handover begins; a failure here makes the whole group fail, so that no rank waits for a message
// that is never sent.
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "shm/group/group_shared.h"
#include "shm/group/rendezvous_message.h"

typedef struct Handover {
    SharedGroup *shared; // the group that is divided
    SharedGroup *part;   // of this rank; NULL: it is in no part
    const GroupOffer *offers;
    uint64_t deadline;
} Handover;

// Between two attempts: checks for deaths and failures, and for the deadline.
static Status wait_on(const Handover *handover, uint32_t rank, Error *err) {
    SharedGroup *shared = handover->shared;
    TRY(group_shared_look(shared, err));
    if (clock_nanoseconds() < handover->deadline) return STATUS_OK;
    fail(&shared->group->error, STATUS_TIMEOUT, "the memory of a sub-group: rank %u did not take its part in time",
         rank);
    return group_shared_fail(shared, STATUS_TIMEOUT, err);
}

static Status send_to(const Handover *handover, uint32_t rank, const int *fds, size_t count, Error *err) {
    assert(rank != handover->shared->group->rank && handover->shared->sockets[rank] >= 0 && count >= 1);
    SharedGroup *shared = handover->shared;
    while (notice_send(shared->sockets[rank], NOTICE_WELCOME, STATUS_OK, "", fds, count) != 0) {
        const bool is_gone = errno == EPIPE || errno == ECONNRESET; // its death will be found
        if (errno != EAGAIN && errno != ETOOMANYREFS && !is_gone) {
            const Status status =
                fail_errno(&shared->group->error, STATUS_OS, "cannot hand rank %u the memory of a sub-group", rank);
            return group_shared_fail(shared, status, err);
        }
        TRY(wait_on(handover, rank, err));
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return STATUS_OK;
}

// Receives `count` descriptors from a rank; checks for deaths and failures while it waits.
static Status receive_from(const Handover *handover, uint32_t rank, int *fds, size_t count, Error *err) {
    enum { LOOK_MILLISECONDS = GROUP_LOOK_NANOSECONDS / 1000000 };
    SharedGroup *shared = handover->shared;
    Error *sentence = &shared->group->error;
    assert(rank != shared->group->rank && shared->sockets[rank] >= 0);
    for (;;) {
        Notice notice;
        size_t got = count;
        struct pollfd packet = {.fd = shared->sockets[rank], .events = POLLIN};
        poll(&packet, 1, LOOK_MILLISECONDS);
        switch (notice_receive(&notice, fds, &got, packet.fd)) {
        case NOTICE_IS_THERE:
            if (got == count) return STATUS_OK;
            break;
        case NOTICE_IS_NOT_THERE:
            TRY(wait_on(handover, rank, err));
            continue;
        case NOTICE_IS_OVER: // its death is found now or soon
            TRY(wait_on(handover, rank, err));
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
            continue;
        case NOTICE_IS_TOO_MUCH:
            fail(sentence, STATUS_OS,
                 "rank %u of a group of %u needs more open files for a sub-group; raise the limit (ulimit -n)",
                 shared->group->rank, shared->group->size);
            return group_shared_fail(shared, STATUS_OS, err);
        case NOTICE_IS_STRANGE:
            break;
        }
        for (size_t i = 0; i < got; i++)
            close(fds[i]);
        fail(sentence, STATUS_SOFTWARE, "the memory of a sub-group: rank %u sent what no rank sends", rank);
        return group_shared_fail(shared, STATUS_SOFTWARE, err);
    }
}

// Rank 0 serves one member of the part of `leader` that is not the leader itself: number `place` of the part.
static Status serve_member(const Handover *handover, uint32_t leader, uint32_t member, uint32_t place, int memory_fd,
                           int *own_fd, Error *err) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
        SharedGroup *shared = handover->shared;
        return group_shared_fail(shared, fail_errno(&shared->group->error, STATUS_OS, "no sockets for a sub-group"),
                                 err);
    }
    Status status = STATUS_OK;
    if (leader == 0) { // rank 0 keeps what it would send to itself
        assert(handover->part->sockets[place] < 0 && memory_fd >= 0);
        handover->part->sockets[place] = ends[0];
    } else {
        status = send_to(handover, leader, &ends[0], 1, err);
        close(ends[0]);
    }
    if (member == 0) {
        handover->part->sockets[0] = ends[1];
        *own_fd = memory_fd;
        return status;
    }
    const int fds[] = {memory_fd, ends[1]};
    if (status == STATUS_OK) status = send_to(handover, member, fds, 2, err);
    close(ends[1]);
    return status;
}

// Rank 0 serves one part. own_fd: set to the memory if rank 0 is in the part, but not its leader.
static Status serve_part(const Handover *handover, uint32_t leader, int *own_fd, Error *err) {
    const uint32_t size = handover->shared->group->size;
    const GroupOffer *offers = handover->offers;
    assert(offers[leader].place == 0 && offers[leader].size > 1 && offers[leader].size <= (int32_t)size);
    int memory_fd = leader == 0 ? handover->part->segment.fd : -1;
    if (leader != 0) TRY(receive_from(handover, leader, &memory_fd, 1, err));
    Status status = STATUS_OK;
    for (uint32_t place = 1; place < (uint32_t)offers[leader].size && status == STATUS_OK; place++)
        for (uint32_t member = 0; member < size; member++)
            if (offers[member].leader == (int32_t)leader && offers[member].place == (int32_t)place)
                status = serve_member(handover, leader, member, place, memory_fd, own_fd, err);
    if (leader != 0 && *own_fd != memory_fd) close(memory_fd);
    return status;
}

// The side of the other ranks.
static Status take_own(const Handover *handover, int *own_fd, Error *err) {
    assert(handover->shared->group->rank > 0 && handover->part); // rank 0 serves
    SharedGroup *part = handover->part;
    if (part->group->rank > 0) {
        int fds[2];
        TRY(receive_from(handover, 0, fds, 2, err));
        *own_fd = fds[0];
        part->sockets[0] = fds[1];
        return STATUS_OK;
    }
    TRY(send_to(handover, 0, &part->segment.fd, 1, err));
    for (uint32_t place = 1; place < part->group->size; place++)
        TRY(receive_from(handover, 0, &part->sockets[place], 1, err));
    return STATUS_OK;
}

Status group_shared_hand_over(int *memory_fd, SharedGroup *shared, SharedGroup *part, const GroupOffer *offers,
                              Error *err) {
    const Group *group = shared->group;
    const Handover handover = {
        .shared = shared, .part = part, .offers = offers, .deadline = clock_nanoseconds() + group->timeout_nanoseconds};
    *memory_fd = -1;
    if (group->rank > 0) {
        const bool is_served = part && part->group->size > 1 && offers[offers[group->rank].leader].has_memory;
        return is_served ? take_own(&handover, memory_fd, err) : STATUS_OK;
    }
    for (uint32_t leader = 0; leader < group->size; leader++)
        if (offers[leader].leader == (int32_t)leader && offers[leader].has_memory && offers[leader].size > 1)
            TRY(serve_part(&handover, leader, memory_fd, err));
    return STATUS_OK;
}

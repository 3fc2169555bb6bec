#include "shm/group/rendezvous.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/pidfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "shm/group/rendezvous_message.h"
#include "shm/group/rendezvous_socket.h"

enum { RETRY_MILLISECONDS = 5 }; // between two attempts to connect to rank 0

static void close_one(int *fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

static void stop_listening(Rendezvous *meeting) {
    if (meeting->listener >= 0 && meeting->place->is_file) unlink(meeting->place->socket);
    close_one(&meeting->listener);
}

void rendezvous_free(Rendezvous *meeting) {
    stop_listening(meeting);
    guests_free(&meeting->guests);
    for (uint32_t rank = 0; rank < GROUP_MAX_RANKS; rank++) {
        close_one(&meeting->sockets[rank]);
        close_one(&meeting->pidfds[rank]);
    }
}

static int milliseconds_until(uint64_t deadline) {
    uint64_t now = clock_nanoseconds(), most = 1000000;
    if (now >= deadline) return 0;
    uint64_t left = (deadline - now) / 1000000 + 1;
    return (int)(left < most ? left : most);
}

static void pause_before_retry(void) {
    nanosleep(&(struct timespec){.tv_nsec = RETRY_MILLISECONDS * 1000000}, NULL);
}

// Sentences -----------------------------------------------------------------------------------------------------------

static Status stale_file(const Rendezvous *meeting, Error *err) {
    return fail(err, STATUS_DATA,
                "%s: the file exists, but no process listens at it: an earlier run left it; remove it",
                meeting->place->name);
}

static Status no_process_descriptor(const Rendezvous *meeting, Error *err) {
    return fail_errno(err, STATUS_OS,
                      "%s: pidfd_open, which needs Linux 5.3 and a container whose seccomp profile allows it",
                      meeting->place->name);
}

// Writes "only 1 of 3 ranks came, ranks 1 and 2 missing". Returns the number of missing ranks.
static uint32_t describe_missing(Error *text, const Rendezvous *meeting) {
    bool missing[GROUP_MAX_RANKS];
    char names[GROUP_RANKS_TEXT_BYTES];
    uint32_t count = 0;
    for (uint32_t rank = 0; rank < meeting->size; rank++)
        count += missing[rank] = meeting->pidfds[rank] < 0;
    fail(text, STATUS_TIMEOUT, "only %u of %u ranks came, %s missing", meeting->size - count, meeting->size,
         group_ranks_text(names, missing, meeting->size));
    return count;
}

static Status too_late(const Rendezvous *meeting, const char *what, Error *err) {
    return fail(err, STATUS_TIMEOUT, "%s: after %.1f s %s", meeting->place->name,
                clock_seconds_since(meeting->started_nanoseconds), what);
}

static Status strange_notice(const Rendezvous *meeting, uint32_t rank, Error *err) {
    return fail(err, STATUS_MISMATCH,
                "%s: what rank %u sent is not understood: another version of Sounder; build all ranks alike",
                meeting->place->name, rank);
}

static Status rank_ended(const Rendezvous *meeting, uint32_t rank, Error *err) {
    return fail(err, STATUS_PEER_DIED, "%s: rank %u (%s) ended while the group was meeting", meeting->place->name, rank,
                group_process_text(meeting->pids[rank]).text);
}

// Rank 0 --------------------------------------------------------------------------------------------------------------

void rendezvous_refuse(Rendezvous *meeting, Status status, const Error *reason) {
    if (meeting->listener >= 0) guests_let_in(&meeting->guests, meeting->listener); // also those not accepted yet
    for (uint32_t rank = 1; rank < meeting->size; rank++)
        if (meeting->sockets[rank] >= 0)
            notice_send(meeting->sockets[rank], NOTICE_REFUSED, status, reason->message, NULL, 0);
    for (uint32_t i = 0; i < GUESTS_MOST; i++)
        if (meeting->guests.sockets[i] >= 0)
            notice_send(meeting->guests.sockets[i], NOTICE_REFUSED, status, reason->message, NULL, 0);
}

// Returns the remedy for two jobs that seem to have met at one place.
static const char *parting(const Rendezvous *meeting) {
    return meeting->place->is_file
               ? "name another file in one of them"
               : "start one of them with sounder launch --standalone, or give it another --master-port";
}

// A process of another job found the same place. It is told so, and the meeting continues without it.
static bool is_of_another_job(const Rendezvous *meeting, const Hello *hello, int guest) {
    if (strncmp(hello->job, meeting->place->job, sizeof hello->job) == 0) return false;
    Error reason;
    fail(&reason, STATUS_MISMATCH, "%s: rank %d (%s) and rank 0 (%s) belong to two jobs at one place; %s",
         meeting->place->name, hello->rank, group_process_text(socket_peer(guest).pid).text,
         group_process_text(getpid()).text, parting(meeting));
    notice_send(guest, NOTICE_REFUSED, STATUS_MISMATCH, reason.message, NULL, 0);
    return true;
}

// Checks the process's message against what rank 0 and the other ranks have said.
static Status check_hello(const Rendezvous *meeting, const Hello *hello, int pid, Error *err) {
    const GroupProcessText process = group_process_text(pid);
    if (hello->size != (int)meeting->size)
        return fail(err, STATUS_MISMATCH,
                    "%s: rank %d (%s) expects %d ranks, rank 0 (%s) %u; if these are two jobs, %s",
                    meeting->place->name, hello->rank, process.text, hello->size, group_process_text(getpid()).text,
                    meeting->size, parting(meeting));
    if (hello->memory != meeting->memory)
        return fail(err, STATUS_MISMATCH, "%s: rank %d has its buffers on %s, rank 0 on %s", meeting->place->name,
                    hello->rank, hello->memory == GROUP_CUDA ? "a CUDA device" : "the host",
                    meeting->memory == GROUP_CUDA ? "a CUDA device" : "the host");
    if (meeting->pidfds[hello->rank] >= 0)
        return fail(err, STATUS_MISMATCH, "%s: two processes are rank %d (%s, %s), probably of two jobs; %s",
                    meeting->place->name, hello->rank, group_process_text(meeting->pids[hello->rank]).text,
                    process.text, parting(meeting));
    return STATUS_OK;
}

static void tell_ranks_who_is_missing(const Rendezvous *meeting) {
    Error text;
    if (describe_missing(&text, meeting) == 0) return;
    for (uint32_t rank = 1; rank < meeting->size; rank++) // a rank with a full buffer has been told before
        if (meeting->sockets[rank] >= 0)
            notice_send(meeting->sockets[rank], NOTICE_WAITING, STATUS_OK, text.message, NULL, 0);
}

// A guest introduces itself and becomes a rank. A guest that does not speak this protocol is disconnected.
static Status admit(Rendezvous *meeting, int *guest, Error *err) {
    Hello hello;
    int pidfd = -1;
    size_t fd_count = 1;
    long bytes = packet_receive(*guest, &hello, sizeof hello, &pidfd, &fd_count);
    if (bytes < 0 && errno == EAGAIN) return STATUS_OK;
    if (bytes != sizeof hello || hello.magic != rendezvous_magic || fd_count != 1 || hello.rank < 0 ||
        hello.rank >= hello.size || is_of_another_job(meeting, &hello, *guest)) {
        close_one(&pidfd);
        close_one(guest);
        return STATUS_OK;
    }
    const int pid = socket_peer(*guest).pid;
    Status status = check_hello(meeting, &hello, pid, err);
    if (status != STATUS_OK) {
        close_one(&pidfd);
        return status;
    }
    assert(hello.rank < (int)meeting->size && meeting->sockets[hello.rank] < 0 && pidfd >= 0);
    meeting->pidfds[hello.rank] = pidfd;
    meeting->pids[hello.rank] = pid;
    meeting->sockets[hello.rank] = *guest;
    *guest = -1;
    tell_ranks_who_is_missing(meeting);
    return STATUS_OK;
}

// Reads from a rank that waits; it sends only when its deadline has passed, and closes only when it ends.
static Status hear(Rendezvous *meeting, uint32_t rank, Error *err) {
    assert(rank > 0 && meeting->sockets[rank] >= 0);
    Notice notice;
    size_t fd_count = 0;
    NoticeFate fate = notice_receive(&notice, NULL, &fd_count, meeting->sockets[rank]);
    if (fate == NOTICE_IS_NOT_THERE) return STATUS_OK;
    close_one(&meeting->sockets[rank]);
    if (fate == NOTICE_IS_THERE) return fail(err, STATUS_TIMEOUT, "%s", notice.text);
    if (fate == NOTICE_IS_STRANGE) return strange_notice(meeting, rank, err);
    return rank_ended(meeting, rank, err);
}

// Waits for one event and handles the listener, the guests and the ranks, in this order.
static Status look_round(Rendezvous *meeting, Error *err) {
    struct pollfd polls[1 + GUESTS_MOST + GROUP_MAX_RANKS];
    Guests *guests = &meeting->guests;
    const uint64_t silence_ends = guests_drop_silent(guests), deadline = meeting->deadline;
    polls[0] = (struct pollfd){.fd = guests_have_room(guests) ? meeting->listener : -1, .events = POLLIN};
    for (uint32_t i = 0; i < GUESTS_MOST; i++)
        polls[1 + i] = (struct pollfd){.fd = guests->sockets[i], .events = POLLIN};
    struct pollfd *ranks = polls + 1 + GUESTS_MOST;
    for (uint32_t rank = 0; rank < meeting->size; rank++)
        ranks[rank] = (struct pollfd){.fd = meeting->sockets[rank], .events = POLLIN};
    poll(polls, 1 + GUESTS_MOST + meeting->size, milliseconds_until(silence_ends < deadline ? silence_ends : deadline));
    if (polls[0].revents) guests_let_in(guests, meeting->listener);
    for (uint32_t i = 0; i < GUESTS_MOST; i++)
        if (polls[1 + i].revents) TRY(admit(meeting, &guests->sockets[i], err));
    for (uint32_t rank = 1; rank < meeting->size; rank++)
        if (ranks[rank].revents) TRY(hear(meeting, rank, err));
    return STATUS_OK;
}

static Status host(Rendezvous *meeting, Error *err) {
    assert(meeting->rank == 0 && meeting->listener >= 0);
    meeting->pids[0] = getpid();
    meeting->pidfds[0] = pidfd_open(getpid(), 0);
    if (meeting->pidfds[0] < 0) return no_process_descriptor(meeting, err);
    Error missing, reason;
    int last_looks = 2; // after the deadline, for guests and their messages: this process may have been stopped
    while (describe_missing(&missing, meeting) > 0) {
        const bool looks = clock_nanoseconds() < meeting->deadline || last_looks-- > 0;
        Status status = looks ? look_round(meeting, &reason) : too_late(meeting, missing.message, &reason);
        if (status == STATUS_OK) continue;
        rendezvous_refuse(meeting, status, &reason);
        return fail(err, status, "%s", reason.message);
    }
    stop_listening(meeting);
    return STATUS_OK;
}

Status rendezvous_share(Rendezvous *meeting, int memory_fd, Error *err) {
    assert(meeting->rank == 0 && memory_fd >= 0);
    int fds[1 + GROUP_MAX_RANKS] = {memory_fd};
    memcpy(fds + 1, meeting->pidfds, meeting->size * sizeof *fds);
    for (uint32_t rank = 1; rank < meeting->size; rank++) {
        assert(meeting->sockets[rank] >= 0 && meeting->pidfds[rank] >= 0); // no rank is missing
        // The kernel limits the descriptors in transfer (ETOOMANYREFS): they get fewer as ranks receive theirs.
        while (notice_send(meeting->sockets[rank], NOTICE_WELCOME, STATUS_OK, "", fds, 1 + meeting->size) != 0) {
            if (errno == EPIPE || errno == ECONNRESET) return rank_ended(meeting, rank, err);
            if (clock_nanoseconds() >= meeting->deadline || (errno != ETOOMANYREFS && errno != EAGAIN))
                return fail_errno(err, STATUS_OS, "%s: cannot hand rank %u the group's memory", meeting->place->name,
                                  rank);
            pause_before_retry();
        }
    }
    return STATUS_OK;
}

// The others ----------------------------------------------------------------------------------------------------------

static Status say_hello(Rendezvous *meeting, Error *err) {
    assert(meeting->sockets[0] >= 0 && meeting->rank < meeting->size);
    if (!socket_peer(meeting->sockets[0]).is_of_same_user)
        return fail(err, STATUS_USAGE, "%s: another user's process listens there; choose another place",
                    meeting->place->name);
    Hello hello = {.magic = rendezvous_magic,
                   .rank = (int32_t)meeting->rank,
                   .size = (int32_t)meeting->size,
                   .memory = meeting->memory};
    memcpy(hello.job, meeting->place->job, sizeof hello.job);
    int pidfd = pidfd_open(getpid(), 0);
    if (pidfd < 0) return no_process_descriptor(meeting, err);
    packet_send(meeting->sockets[0], &hello, sizeof hello, &pidfd, 1); // if this fails, the answer is an end of file
    close(pidfd);
    return STATUS_OK;
}

// Connects to rank 0, waiting until it listens.
static Status visit(Rendezvous *meeting, Error *err) {
    while (socket_connect(&meeting->sockets[0], meeting->place) != 0) {
        if (meeting->place->is_file && errno == ECONNREFUSED) return stale_file(meeting, err);
        if (errno != ECONNREFUSED && errno != ENOENT && errno != EAGAIN)
            return fail_errno(err, STATUS_OS, "%s: rank %u cannot connect", meeting->place->name, meeting->rank);
        if (clock_nanoseconds() >= meeting->deadline) return too_late(meeting, "rank 0 is missing", err);
        pause_before_retry();
    }
    return say_hello(meeting, err);
}

static Status take_descriptors(Rendezvous *meeting, int *memory_fd, const int *fds, size_t count, Error *err) {
    if (count != 1 + meeting->size) {
        for (size_t i = 0; i < count; i++)
            close(fds[i]);
        return fail(err, STATUS_SOFTWARE, "%s: rank 0 sent %zu descriptors, not %u", meeting->place->name, count,
                    1 + meeting->size);
    }
    *memory_fd = fds[0];
    memcpy(meeting->pidfds, fds + 1, meeting->size * sizeof *fds);
    return STATUS_OK;
}

// Notices that rank 0 is still waiting only update the sentence for the case that this rank's deadline passes.
Status rendezvous_receive(Rendezvous *meeting, int *memory_fd, Error *err) {
    assert(meeting->sockets[0] >= 0);
    Error missing = {.message = "rank 0 is there, but does not answer"}, reason;
    for (;;) {
        struct pollfd answer = {.fd = meeting->sockets[0], .events = POLLIN};
        poll(&answer, 1, milliseconds_until(meeting->deadline));
        Notice notice;
        int fds[1 + GROUP_MAX_RANKS];
        size_t fd_count = 1 + GROUP_MAX_RANKS;
        switch (notice_receive(&notice, fds, &fd_count, meeting->sockets[0])) {
        case NOTICE_IS_NOT_THERE:
            if (clock_nanoseconds() < meeting->deadline) continue;
            too_late(meeting, missing.message, &reason);
            notice_send(meeting->sockets[0], NOTICE_REFUSED, STATUS_TIMEOUT, reason.message, NULL, 0);
            return fail(err, STATUS_TIMEOUT, "%s", reason.message);
        case NOTICE_IS_TOO_MUCH:
            return fail(err, STATUS_OS, "%s: a group of %u needs %u more open files; raise the limit (ulimit -n)",
                        meeting->place->name, meeting->size, 1 + meeting->size);
        case NOTICE_IS_STRANGE:
            return strange_notice(meeting, 0, err);
        case NOTICE_IS_OVER:
            return fail(err, STATUS_PEER_DIED,
                        "%s: rank 0 ended while the group was meeting, or met %u other ranks before rank %u came",
                        meeting->place->name, meeting->size - 1, meeting->rank);
        case NOTICE_IS_THERE:
            break;
        }
        if (notice.kind == NOTICE_WELCOME) return take_descriptors(meeting, memory_fd, fds, fd_count, err);
        if (notice.kind == NOTICE_REFUSED) return fail(err, (Status)notice.status, "%s", notice.text);
        fail(&missing, STATUS_TIMEOUT, "%s", notice.text);
    }
}

// All ranks -----------------------------------------------------------------------------------------------------------

// Another process listens there already. If it is a second rank 0 that is still meeting, it must learn of this one, and
// then both fail; if it has just ended, the place is free.
static Status meet_rival(Rendezvous *meeting, Error *err) {
    if (socket_connect(&meeting->sockets[0], meeting->place) != 0) {
        if (meeting->place->is_file && errno == ECONNREFUSED) return stale_file(meeting, err);
        pause_before_retry();
        return clock_nanoseconds() < meeting->deadline ? STATUS_OK : too_late(meeting, "the place is still taken", err);
    }
    TRY(say_hello(meeting, err));
    int memory_fd = -1;
    Status status = rendezvous_receive(meeting, &memory_fd, err);
    close_one(&memory_fd);
    close_one(&meeting->sockets[0]);
    return status == STATUS_PEER_DIED ? STATUS_OK : status;
}

static Status join(Rendezvous *meeting, Error *err) {
    if (meeting->rank > 0) return visit(meeting, err);
    while (socket_listen(&meeting->listener, meeting->place) != 0) {
        if (errno != EADDRINUSE)
            return fail_errno(err, STATUS_CANTCREATE, "%s: rank 0 cannot listen there", meeting->place->name);
        TRY(meet_rival(meeting, err));
    }
    return host(meeting, err);
}

Status rendezvous_join(Rendezvous *meeting, const GroupPlace *place, GroupMemory memory, uint64_t deadline,
                       Error *err) {
    assert(place->rank >= 0 && place->rank < place->size && place->size <= GROUP_MAX_RANKS && !place->is_mpi);
    *meeting = (Rendezvous){.rank = (uint32_t)place->rank,
                            .size = (uint32_t)place->size,
                            .memory = memory,
                            .listener = -1,
                            .place = place,
                            .started_nanoseconds = clock_nanoseconds(),
                            .deadline = deadline};
    memset(meeting->pidfds, -1, sizeof meeting->pidfds);
    memset(meeting->sockets, -1, sizeof meeting->sockets);
    guests_init(&meeting->guests);
    Status status = join(meeting, err);
    if (status != STATUS_OK) rendezvous_free(meeting);
    return status;
}

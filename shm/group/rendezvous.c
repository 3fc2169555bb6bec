#include "shm/group/rendezvous.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "shm/group/rendezvous_message.h"

enum { RETRY_MILLISECONDS = 5 }; // between two attempts to connect to rank 0

static void close_one(int *fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

static void stop_listening(Rendezvous *meeting) {
    if (meeting->listener >= 0 && meeting->path[0]) unlink(meeting->path);
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

// Addresses -----------------------------------------------------------------------------------------------------------

static socklen_t make_address(struct sockaddr_un *address, const char *name, bool is_file) {
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    size_t length = strnlen(name, sizeof address->sun_path - 1);
    memcpy(address->sun_path + !is_file, name, is_file ? length + 1 : length); // an abstract name has a zero byte first
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + 1);
}

static Status stale_file(const Rendezvous *meeting, Error *err) {
    return fail(err, STATUS_DATA, "%s: the file is there, but nobody meets at it: an earlier run left it; remove it",
                meeting->name);
}

static Status no_process_descriptor(const Rendezvous *meeting, Error *err) {
    return fail_errno(err, STATUS_OS,
                      "%s: pidfd_open, which needs Linux 5.3 and a container whose seccomp profile allows it",
                      meeting->name);
}

// Connects a socket to rank 0. Returns 0, or -1 with errno.
static int connect_to(int *fd, const GroupPlace *place) {
    struct sockaddr_un address;
    socklen_t bytes = make_address(&address, place->socket, place->is_file);
    *fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*fd < 0) return -1;
    if (connect(*fd, (struct sockaddr *)&address, bytes) == 0) return 0;
    int error = errno;
    close_one(fd);
    errno = error;
    return -1;
}

// Rank 0 --------------------------------------------------------------------------------------------------------------

// Never replaces another file. A network file system (NFS) may lack RENAME_NOREPLACE; a link also fails if the name
// exists.
static int rename_to_new(const char *from, const char *to) {
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) return 0;
    if ((errno != EINVAL && errno != ENOSYS) || link(from, to) != 0) return -1;
    unlink(from);
    return 0;
}

static int bind_to(int fd, const char *name, bool is_file) {
    struct sockaddr_un address;
    const socklen_t bytes = make_address(&address, name, is_file);
    return bind(fd, (struct sockaddr *)&address, bytes);
}

// The socket file gets its name only when it accepts connections: it is created under another name and renamed.
static int listen_at_file(int fd, const char *path) {
    char beside[108];
    snprintf(beside, sizeof beside, "%.91s.%d", path, getpid());
    if (bind_to(fd, beside, true) != 0) return -1;
    if (listen(fd, GROUP_MAX_RANKS) == 0 && rename_to_new(beside, path) == 0) return 0;
    const int why = errno == EEXIST ? EADDRINUSE : errno;
    unlink(beside);
    errno = why;
    return -1;
}

static Status listen_at(Rendezvous *meeting, const GroupPlace *place, bool *taken, Error *err) {
    *taken = false;
    meeting->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (meeting->listener < 0) return fail_errno(err, STATUS_OS, "%s: no socket", meeting->name);
    const int bound = place->is_file ? listen_at_file(meeting->listener, place->socket)
                      : bind_to(meeting->listener, place->socket, false) == 0
                          ? listen(meeting->listener, GROUP_MAX_RANKS)
                          : -1;
    if (bound == 0) {
        if (place->is_file) snprintf(meeting->path, sizeof meeting->path, "%s", place->socket);
        return STATUS_OK;
    }
    *taken = errno == EADDRINUSE;
    if (!*taken) fail_errno(err, STATUS_CANTCREATE, "%s: rank 0 cannot listen there", meeting->name);
    close_one(&meeting->listener);
    return *taken ? STATUS_OK : STATUS_CANTCREATE;
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
    return fail(err, STATUS_TIMEOUT, "%s: after %.1f s %s", meeting->name,
                clock_seconds_since(meeting->started_nanoseconds), what);
}

static Status strange_notice(const Rendezvous *meeting, uint32_t rank, Error *err) {
    return fail(err, STATUS_MISMATCH,
                "%s: what rank %u sent is not understood: another version of Sounder; build all ranks alike",
                meeting->name, rank);
}

static Status rank_ended(const Rendezvous *meeting, uint32_t rank, Error *err) {
    return fail(err, STATUS_PEER_DIED, "%s: rank %u (%s) ended while the group was meeting", meeting->name, rank,
                group_process_text(meeting->pids[rank]).text);
}

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
    return meeting->is_file ? "name another file in one of them"
                            : "start one of them with sounder launch --standalone, or give it another --master-port";
}

// The peer's pid as this process sees it; 0 if the peer is in another PID namespace.
static int peer_pid(int socket) {
    struct ucred peer = {.pid = 0};
    socklen_t bytes = sizeof peer;
    getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes);
    return peer.pid;
}

// A process of another job found the same place. It is told so, and the meeting continues without it.
static bool is_of_another_job(const Rendezvous *meeting, const Hello *hello, int guest) {
    if (strncmp(hello->job, meeting->job, sizeof hello->job) == 0) return false;
    Error reason;
    fail(&reason, STATUS_MISMATCH, "%s: rank %d (%s) and rank 0 (%s) belong to two jobs at one place; %s",
         meeting->name, hello->rank, group_process_text(peer_pid(guest)).text, group_process_text(getpid()).text,
         parting(meeting));
    notice_send(guest, NOTICE_REFUSED, STATUS_MISMATCH, reason.message, NULL, 0);
    return true;
}

// Checks the process's message against what rank 0 and the other ranks have said.
static Status check_hello(const Rendezvous *meeting, const Hello *hello, int pid, Error *err) {
    const GroupProcessText process = group_process_text(pid);
    if (hello->size != (int)meeting->size)
        return fail(err, STATUS_MISMATCH,
                    "%s: rank %d (%s) expects %d ranks, rank 0 (%s) %u; if these are two jobs, %s", meeting->name,
                    hello->rank, process.text, hello->size, group_process_text(getpid()).text, meeting->size,
                    parting(meeting));
    if (hello->memory != meeting->memory)
        return fail(err, STATUS_MISMATCH, "%s: rank %d has its buffers on %s, rank 0 on %s", meeting->name, hello->rank,
                    hello->memory == GROUP_CUDA ? "a CUDA device" : "the host",
                    meeting->memory == GROUP_CUDA ? "a CUDA device" : "the host");
    if (meeting->pidfds[hello->rank] >= 0)
        return fail(err, STATUS_MISMATCH, "%s: two processes are rank %d (%s, %s), probably of two jobs; %s",
                    meeting->name, hello->rank, group_process_text(meeting->pids[hello->rank]).text, process.text,
                    parting(meeting));
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
    const int pid = peer_pid(*guest);
    Status status = check_hello(meeting, &hello, pid, err);
    if (status != STATUS_OK) {
        close_one(&pidfd);
        return status;
    }
    meeting->pidfds[hello.rank] = pidfd;
    meeting->pids[hello.rank] = pid;
    meeting->sockets[hello.rank] = *guest;
    *guest = -1;
    tell_ranks_who_is_missing(meeting);
    return STATUS_OK;
}

// Reads from a rank that waits; it sends only when its deadline has passed, and closes only when it ends.
static Status hear(Rendezvous *meeting, uint32_t rank, Error *err) {
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
static Status look_round(Rendezvous *meeting, uint64_t deadline, Error *err) {
    enum { MOST = 1 + GUESTS_MOST + GROUP_MAX_RANKS };
    struct pollfd polls[MOST];
    Guests *guests = &meeting->guests;
    uint64_t silence_ends = guests_drop_silent(guests);
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

static Status host(Rendezvous *meeting, uint64_t deadline, Error *err) {
    meeting->pids[0] = getpid();
    meeting->pidfds[0] = pidfd_open(getpid(), 0);
    if (meeting->pidfds[0] < 0) return no_process_descriptor(meeting, err);
    Error missing, reason;
    int last_looks = 2; // after the deadline, for guests and their messages: this process may have been stopped
    while (describe_missing(&missing, meeting) > 0) {
        const bool looks = clock_nanoseconds() < deadline || last_looks-- > 0;
        Status status = looks ? look_round(meeting, deadline, &reason) : too_late(meeting, missing.message, &reason);
        if (status == STATUS_OK) continue;
        rendezvous_refuse(meeting, status, &reason);
        return fail(err, status, "%s", reason.message);
    }
    stop_listening(meeting);
    return STATUS_OK;
}

Status rendezvous_share(Rendezvous *meeting, int memory_fd, uint64_t deadline, Error *err) {
    int fds[1 + GROUP_MAX_RANKS] = {memory_fd};
    memcpy(fds + 1, meeting->pidfds, meeting->size * sizeof *fds);
    for (uint32_t rank = 1; rank < meeting->size; rank++) {
        // The kernel limits the descriptors in transfer (ETOOMANYREFS): they get fewer as ranks receive theirs.
        while (notice_send(meeting->sockets[rank], NOTICE_WELCOME, STATUS_OK, "", fds, 1 + meeting->size) != 0) {
            if (errno == EPIPE || errno == ECONNRESET) return rank_ended(meeting, rank, err);
            if (clock_nanoseconds() >= deadline || (errno != ETOOMANYREFS && errno != EAGAIN))
                return fail_errno(err, STATUS_OS, "%s: cannot hand rank %u the group's memory", meeting->name, rank);
            pause_before_retry();
        }
    }
    return STATUS_OK;
}

// The others ----------------------------------------------------------------------------------------------------------

static Status say_hello(Rendezvous *meeting, Error *err) {
    if (!socket_is_of_same_user(meeting->sockets[0]))
        return fail(err, STATUS_USAGE, "%s: another user's process listens there; choose another place", meeting->name);
    Hello hello = {.magic = rendezvous_magic,
                   .rank = (int32_t)meeting->rank,
                   .size = (int32_t)meeting->size,
                   .memory = meeting->memory};
    memcpy(hello.job, meeting->job, sizeof hello.job);
    int pidfd = pidfd_open(getpid(), 0);
    if (pidfd < 0) return no_process_descriptor(meeting, err);
    packet_send(meeting->sockets[0], &hello, sizeof hello, &pidfd, 1); // if this fails, the answer is an end of file
    close(pidfd);
    return STATUS_OK;
}

// Connects to rank 0, waiting until it listens.
static Status visit(Rendezvous *meeting, const GroupPlace *place, uint64_t deadline, Error *err) {
    while (connect_to(&meeting->sockets[0], place) != 0) {
        if (place->is_file && errno == ECONNREFUSED) return stale_file(meeting, err);
        if (errno != ECONNREFUSED && errno != ENOENT && errno != EAGAIN)
            return fail_errno(err, STATUS_OS, "%s: rank %u cannot connect", meeting->name, meeting->rank);
        if (clock_nanoseconds() >= deadline) return too_late(meeting, "rank 0 is missing", err);
        pause_before_retry();
    }
    return say_hello(meeting, err);
}

static Status take_descriptors(Rendezvous *meeting, int *memory_fd, const int *fds, size_t count, Error *err) {
    if (count != 1 + meeting->size) {
        for (size_t i = 0; i < count; i++)
            close(fds[i]);
        return fail(err, STATUS_SOFTWARE, "%s: rank 0 sent %zu descriptors, not %u", meeting->name, count,
                    1 + meeting->size);
    }
    *memory_fd = fds[0];
    memcpy(meeting->pidfds, fds + 1, meeting->size * sizeof *fds);
    return STATUS_OK;
}

// Notices that rank 0 is still waiting only update the sentence for the case that this rank's deadline passes.
Status rendezvous_receive(Rendezvous *meeting, int *memory_fd, uint64_t deadline, Error *err) {
    Error missing = {.message = "rank 0 is there, but does not answer"}, reason;
    for (;;) {
        struct pollfd answer = {.fd = meeting->sockets[0], .events = POLLIN};
        poll(&answer, 1, milliseconds_until(deadline));
        Notice notice;
        int fds[1 + GROUP_MAX_RANKS];
        size_t fd_count = 1 + GROUP_MAX_RANKS;
        switch (notice_receive(&notice, fds, &fd_count, meeting->sockets[0])) {
        case NOTICE_IS_NOT_THERE:
            if (clock_nanoseconds() < deadline) continue;
            too_late(meeting, missing.message, &reason);
            notice_send(meeting->sockets[0], NOTICE_REFUSED, STATUS_TIMEOUT, reason.message, NULL, 0);
            return fail(err, STATUS_TIMEOUT, "%s", reason.message);
        case NOTICE_IS_TOO_MUCH:
            return fail(err, STATUS_OS, "%s: a group of %u needs %u more open files; raise the limit (ulimit -n)",
                        meeting->name, meeting->size, 1 + meeting->size);
        case NOTICE_IS_STRANGE:
            return strange_notice(meeting, 0, err);
        case NOTICE_IS_OVER:
            return fail(err, STATUS_PEER_DIED,
                        "%s: rank 0 ended while the group was meeting, or met %u other ranks before rank %u came",
                        meeting->name, meeting->size - 1, meeting->rank);
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
static Status meet_rival(Rendezvous *meeting, const GroupPlace *place, uint64_t deadline, Error *err) {
    if (connect_to(&meeting->sockets[0], place) != 0) {
        if (place->is_file && errno == ECONNREFUSED) return stale_file(meeting, err);
        pause_before_retry();
        return clock_nanoseconds() < deadline ? STATUS_OK : too_late(meeting, "the place is still taken", err);
    }
    TRY(say_hello(meeting, err));
    int memory_fd = -1;
    Status status = rendezvous_receive(meeting, &memory_fd, deadline, err);
    close_one(&memory_fd);
    close_one(&meeting->sockets[0]);
    return status == STATUS_PEER_DIED ? STATUS_OK : status;
}

static Status join(Rendezvous *meeting, const GroupPlace *place, uint64_t deadline, Error *err) {
    if (meeting->rank > 0) return visit(meeting, place, deadline, err);
    for (bool taken = true; taken;) {
        TRY(listen_at(meeting, place, &taken, err));
        if (taken) TRY(meet_rival(meeting, place, deadline, err));
    }
    return host(meeting, deadline, err);
}

Status rendezvous_join(Rendezvous *meeting, const GroupPlace *place, GroupMemory memory, uint64_t deadline,
                       Error *err) {
    *meeting = (Rendezvous){.rank = (uint32_t)place->rank,
                            .size = (uint32_t)place->size,
                            .memory = memory,
                            .listener = -1,
                            .is_file = place->is_file,
                            .started_nanoseconds = clock_nanoseconds()};
    snprintf(meeting->name, sizeof meeting->name, "%s", place->name);
    memcpy(meeting->job, place->job, sizeof meeting->job);
    memset(meeting->pidfds, -1, sizeof meeting->pidfds);
    memset(meeting->sockets, -1, sizeof meeting->sockets);
    guests_init(&meeting->guests);
    Status status = join(meeting, place, deadline, err);
    if (status != STATUS_OK) rendezvous_free(meeting);
    return status;
}

// Part of launch_group.h: the launchers of several machines meet at MASTER_PORT, where rank 0 will later serve its
// store, before they start ranks. Node 0's launcher waits for the others, each of which says how it was started; then
// either all of them continue or all of them end.
//
//   node 1 -> node 0   "sounder launch: node 1 of 2 with 4 ranks\n"
//   node 0 -> node 1   "0 go\n", once all are connected; or a Status and a sentence that names the two that do not fit
//
// The guests close first, so that no connection in TIME_WAIT occupies the port that rank 0 opens next.
#include "launch_group.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "launch_port.h"
#include "shm/group/group_transport.h"

enum { LINE_BYTES = 512, STRANGERS = 16, LATER_MILLISECONDS = 100 };

static const double goodbye_seconds = 5; // from the answer until the guests have closed
static const double notice_seconds = 5;  // until the user is told that this launcher waits
static const double silence_seconds = 3; // until a guest must have sent its line

// How a launcher was started.
typedef struct Hello {
    int node, nodes, ranks;
} Hello;

typedef struct Guest {
    int fd; // owned; -1: none
    Hello hello;
    bool is_known; // its hello is complete
    uint64_t came_nanoseconds;
    size_t used;
    char line[LINE_BYTES];
    char address[INET6_ADDRSTRLEN];
} Guest;

typedef struct Meeting {
    LaunchGroup *group; // borrowed, as are the options
    const LaunchOptions *options;
    uint64_t begin_nanoseconds;
    bool is_told; // the user was told that this launcher waits
} Meeting;

static double seconds_left(const Meeting *meeting) {
    return meeting->options->meet_seconds - clock_seconds_since(meeting->begin_nanoseconds);
}

// Waits until one of polls (count) is readable or writable, or for this many milliseconds. polls[0] is for signals; one
// that asks for an end is counted in group->requests.
static Status wait_for(Meeting *meeting, struct pollfd *polls, size_t count, int milliseconds, Error *err) {
    LaunchGroup *group = meeting->group;
    polls[0] = (struct pollfd){.fd = group->signal_fd, .events = POLLIN};
    if (poll(polls, count, milliseconds) < 0 && errno != EINTR)
        return fail_errno(err, STATUS_OS, "cannot wait for the other launchers");
    struct signalfd_siginfo info;
    while (polls[0].revents && read(group->signal_fd, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGTSTP) suspend_self();
        if (info.ssi_signo == SIGTSTP || info.ssi_signo == SIGCHLD) continue;
        if (info.ssi_signo == SIGUSR1 || info.ssi_signo == SIGUSR2) continue; // for ranks, and none is started yet
        stop_requests_add(&group->requests, clock_nanoseconds());
        group->last_signal = (int)info.ssi_signo;
    }
    return STATUS_OK;
}

// The others may wait at another address. Only a warning: a router may lead here under an address that this machine
// does not know.
static void warn_of_address(const Meeting *meeting) {
    const LaunchOptions *options = meeting->options;
    bool is_here;
    if (options->node_rank > 0 || group_place_is_here(&is_here, options->master_addr) != 0 || is_here) return;
    launch_group_say(
        meeting->group,
        "warning: --master-addr %.200s: no address of this machine, which is node 0; give all launchers the "
        "address of node 0",
        options->master_addr);
}

static void tell_wait(Meeting *meeting, const char *whom) {
    const LaunchOptions *options = meeting->options;
    if (meeting->is_told || clock_seconds_since(meeting->begin_nanoseconds) < notice_seconds) return;
    meeting->is_told = true;
    launch_group_say(meeting->group, "waiting for %s at %.200s:%d (at most %g s: --meet-seconds)", whom,
                     options->master_addr, options->master_port, options->meet_seconds);
    warn_of_address(meeting);
    launch_group_flush(meeting->group, NULL);
}

// Node 0 --------------------------------------------------------------------------------------------------------------

static void dismiss(Guest *guest) {
    close(guest->fd);
    *guest = (Guest){.fd = -1};
}

// Returns a free place, or the place of the stranger that has been silent longest: a launcher sends its line at once.
static Guest *place_for(Guest *guests, int room) {
    Guest *place = NULL;
    for (int i = 0; i < room; i++) {
        if (guests[i].fd < 0) return &guests[i];
        if (!guests[i].is_known && (!place || guests[i].came_nanoseconds < place->came_nanoseconds)) place = &guests[i];
    }
    return place; // never NULL: there are more places than launchers
}

static void welcome(Guest *guests, int room, int listener) {
    static const char mapped[] = "::ffff:"; // prefix of an IPv4 address
    struct sockaddr_storage from;
    socklen_t bytes = sizeof from;
    const int fd = accept4(listener, (struct sockaddr *)&from, &bytes, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return;
    Guest *guest = place_for(guests, room);
    if (guest->fd >= 0) dismiss(guest);
    *guest = (Guest){.fd = fd, .came_nanoseconds = clock_nanoseconds()};
    char *address = guest->address;
    if (getnameinfo((struct sockaddr *)&from, bytes, address, sizeof guest->address, NULL, 0, NI_NUMERICHOST) != 0)
        strcpy(address, "unknown");
    if (strncmp(address, mapped, strlen(mapped)) == 0)
        memmove(address, address + strlen(mapped), strlen(address + strlen(mapped)) + 1);
}

// Reads the guest's line. A guest that is no launcher is sent away.
static void hear(Guest *guest) {
    const ssize_t got = recv(guest->fd, guest->line + guest->used, LINE_BYTES - 1 - guest->used, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0 || guest->is_known) {
        dismiss(guest);
        return;
    }
    guest->used += (size_t)got;
    guest->line[guest->used] = '\0';
    Hello *hello = &guest->hello;
    int end = 0;
    const char *newline = strchr(guest->line, '\n');
    if (!newline && guest->used < LINE_BYTES - 1) return;
    if (sscanf(guest->line, "sounder launch: node %9d of %9d with %9d ranks%n", &hello->node, &hello->nodes,
               &hello->ranks, &end) == 3 &&
        newline == guest->line + end)
        guest->is_known = true;
    else
        dismiss(guest);
}

// Checks that a guest was started like node 0, with a node number of its own.
static Status compare(const Guest *guest, const Guest *guests, int room, const LaunchOptions *options, Error *err) {
    const Hello *hello = &guest->hello;
    if (hello->nodes != options->nnodes || hello->ranks != options->ranks)
        return fail(err, STATUS_USAGE,
                    "node 0 was started with --nnodes %d --nproc-per-node %d, but node %d (%s) with --nnodes %d "
                    "--nproc-per-node %d; give all the same",
                    options->nnodes, options->ranks, hello->node, guest->address, hello->nodes, hello->ranks);
    if (hello->node < 1 || hello->node >= options->nnodes)
        return fail(err, STATUS_USAGE, "--node-rank %d (%s): another one is needed, from 0 to %d", hello->node,
                    guest->address, options->nnodes - 1);
    for (int i = 0; i < room; i++)
        if (guests[i].is_known && &guests[i] != guest && guests[i].hello.node == hello->node)
            return fail(err, STATUS_USAGE,
                        "--node-rank %d: two launchers were started with it (%s and %s); number them", hello->node,
                        guests[i].address, guest->address);
    return STATUS_OK;
}

static void answer(const Guest *guest, Status status, const char *sentence) {
    char text[ERROR_MESSAGE_BYTES + 16];
    const int bytes = snprintf(text, sizeof text, "%d %s\n", (int)status, sentence);
    if (guest->fd >= 0) send(guest->fd, text, (size_t)bytes, MSG_NOSIGNAL); // a guest that has left needs no answer
}

static void answer_all(const Meeting *meeting, const Guest *guests, int room, Status status, const Error *err) {
    for (int i = 0; i < room; i++)
        if (status != STATUS_OK)
            answer(&guests[i], status, err->message);
        else if (meeting->group->requests.count)
            answer(&guests[i], STATUS_CANCELLED, "the launcher of node 0 was stopped by a signal; start all anew");
        else
            answer(&guests[i], STATUS_OK, "go");
}

static int known_of(const Guest *guests, int room) {
    int known = 0;
    for (int i = 0; i < room; i++)
        known += guests[i].is_known;
    return known;
}

// Reads whatever the guests still send, even from those whose line was not complete: closing a connection with unread
// bytes would reset it and lose the answer.
static void hear_out(Guest *guests, int room) {
    char rest[LINE_BYTES];
    for (int i = 0; i < room; i++) {
        ssize_t got = 1;
        while (guests[i].fd >= 0 && got > 0)
            got = recv(guests[i].fd, rest, sizeof rest, 0);
        if (guests[i].fd >= 0 && (got == 0 || (errno != EAGAIN && errno != EINTR))) dismiss(&guests[i]);
    }
}

// After the answers, waits until the guests have closed: then the port is free.
static Status part(Meeting *meeting, Guest *guests, int room, struct pollfd *polls, Error *err) {
    const uint64_t begin = clock_nanoseconds();
    hear_out(guests, room);
    while (known_of(guests, room) > 0 && clock_seconds_since(begin) < goodbye_seconds) {
        for (int i = 0; i < room; i++)
            polls[1 + i] = (struct pollfd){.fd = guests[i].is_known ? guests[i].fd : -1, .events = POLLIN};
        TRY(wait_for(meeting, polls, 1 + (size_t)room, LATER_MILLISECONDS, err));
        hear_out(guests, room);
    }
    return STATUS_OK;
}

static Status refuse_absence(const Meeting *meeting, const Guest *guests, int room, Error *err) {
    int absent = 1;
    if (!meeting->is_told) warn_of_address(meeting);
    launch_group_flush(meeting->group, NULL);
    for (int i = 0; i < room; i++)
        if (guests[i].is_known && guests[i].hello.node == absent) absent++, i = -1;
    return fail(
        err, STATUS_TIMEOUT,
        "--nnodes %d: node %d has not come within %g s; start `sounder launch --nnodes %d --node-rank %d` there, or "
        "raise --meet-seconds",
        meeting->options->nnodes, absent, meeting->options->meet_seconds, meeting->options->nnodes, absent);
}

static Status gather(Meeting *meeting, Guest *guests, int room, int listener, struct pollfd *polls, Error *err) {
    const LaunchOptions *options = meeting->options;
    while (known_of(guests, room) < options->nnodes - 1 && !meeting->group->requests.count) {
        for (int i = 0; i < room; i++)
            polls[1 + i] = (struct pollfd){.fd = guests[i].fd, .events = POLLIN};
        polls[1 + room] = (struct pollfd){.fd = listener, .events = POLLIN};
        TRY(wait_for(meeting, polls, 2 + (size_t)room, LATER_MILLISECONDS, err));
        for (int i = 0; i < room; i++) {
            Guest *guest = &guests[i];
            if (guest->fd < 0 || (guest->is_known && !polls[1 + i].revents)) continue;
            if (polls[1 + i].revents) hear(guest);
            if (guest->is_known) TRY(compare(guest, guests, room, options, err));
            if (guest->fd >= 0 && !guest->is_known && clock_seconds_since(guest->came_nanoseconds) > silence_seconds)
                dismiss(guest);
        }
        // last, so that a guest which has spoken keeps its place
        if (polls[1 + room].revents) welcome(guests, room, listener);
        tell_wait(meeting, "the launchers of the other nodes");
        if (seconds_left(meeting) <= 0) return refuse_absence(meeting, guests, room, err);
    }
    return STATUS_OK;
}

static Status wait_for_others(Meeting *meeting, Error *err) {
    const int room = meeting->options->nnodes - 1 + STRANGERS;
    int listener = -1;
    Guest *guests = calloc((size_t)room, sizeof *guests);
    struct pollfd *polls = calloc((size_t)room + 2, sizeof *polls);
    Status status = guests && polls ? STATUS_OK : fail(err, STATUS_OS, "no memory to meet %d launchers", room);
    for (int i = 0; guests && i < room; i++)
        guests[i].fd = -1;
    if (status == STATUS_OK) status = launch_port_open(&listener, meeting->options, err);
    if (status == STATUS_OK) status = gather(meeting, guests, room, listener, polls, err);
    if (listener >= 0) answer_all(meeting, guests, room, status, err);
    if (listener >= 0) part(meeting, guests, room, polls, status == STATUS_OK ? err : NULL);
    for (int i = 0; guests && i < room; i++)
        if (guests[i].fd >= 0) close(guests[i].fd);
    if (listener >= 0) close(listener);
    free(polls);
    free(guests);
    return status;
}

// The others ----------------------------------------------------------------------------------------------------------

// *fd: -1 if nothing listens there yet.
static Status try_to_connect(int *fd, Meeting *meeting, const struct addrinfo *place, Error *err) {
    struct pollfd polls[2];
    *fd = socket(place->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*fd < 0) return errno == EAFNOSUPPORT ? STATUS_OK : fail_errno(err, STATUS_OS, "cannot open a connection");
    bool is_there = connect(*fd, place->ai_addr, place->ai_addrlen) == 0;
    if (!is_there && errno == EINPROGRESS) {
        int reason = ETIMEDOUT;
        socklen_t bytes = sizeof reason;
        polls[1] = (struct pollfd){.fd = *fd, .events = POLLOUT};
        TRY(wait_for(meeting, polls, 2, 10 * LATER_MILLISECONDS, err));
        if (polls[1].revents) getsockopt(*fd, SOL_SOCKET, SO_ERROR, &reason, &bytes);
        is_there = reason == 0;
    }
    if (is_there) return STATUS_OK;
    close(*fd);
    *fd = -1;
    return STATUS_OK;
}

// The line may have been written by another program; then it is no answer.
static Status take_answer(bool *is_answered, const char *line, Error *err) {
    int status, end = 0;
    *is_answered = sscanf(line, "%2d %n", &status, &end) == 1 && end > 0 && status >= 0 && status <= STATUS_MISMATCH;
    return !*is_answered || status == STATUS_OK ? STATUS_OK : fail(err, (Status)status, "%s", line + end);
}

// Says hello and waits for the answer. *is_answered: false if none arrived before the other side closed.
static Status ask(bool *is_answered, Meeting *meeting, int fd, Error *err) {
    const LaunchOptions *options = meeting->options;
    char line[ERROR_MESSAGE_BYTES + 1];
    size_t used = 0;
    struct pollfd polls[2];
    const int bytes = snprintf(line, sizeof line, "sounder launch: node %d of %d with %d ranks\n", options->node_rank,
                               options->nnodes, options->ranks);
    *is_answered = false;
    if (send(fd, line, (size_t)bytes, MSG_NOSIGNAL) != bytes) return STATUS_OK;
    while (!meeting->group->requests.count && seconds_left(meeting) > 0) {
        polls[1] = (struct pollfd){.fd = fd, .events = POLLIN};
        TRY(wait_for(meeting, polls, 2, LATER_MILLISECONDS, err));
        tell_wait(meeting, "the launchers of all nodes");
        if (!polls[1].revents) continue;
        const ssize_t got = recv(fd, line + used, sizeof line - 1 - used, 0);
        if (got <= 0) return STATUS_OK;
        used += (size_t)got;
        line[used] = '\0';
        char *newline = strchr(line, '\n');
        if (!newline && used < sizeof line - 1) continue;
        if (newline) *newline = '\0';
        return take_answer(is_answered, line, err);
    }
    return STATUS_OK;
}

// Whether this error may vanish when the name gets its address later.
static bool is_for_later(int reason) {
#ifdef EAI_NODATA
    if (reason == EAI_NODATA) return true;
#endif
    return reason == EAI_NONAME || reason == EAI_AGAIN || reason == EAI_FAIL;
}

// Waits for a name that cannot be resolved yet: machines that start together get their names one after the other.
// *place: NULL after a signal.
static Status find_place(struct addrinfo **place, Meeting *meeting, Error *err) {
    const LaunchOptions *options = meeting->options;
    char port[16];
    struct pollfd polls[1];
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    snprintf(port, sizeof port, "%d", options->master_port);
    *place = NULL;
    while (!meeting->group->requests.count) {
        const int reason = getaddrinfo(options->master_addr, port, &hints, place);
        if (reason == 0) return STATUS_OK;
        if (!is_for_later(reason))
            return fail(err, STATUS_UNAVAILABLE, "--master-addr %.200s: %s; give the name or address of node 0",
                        options->master_addr, gai_strerror(reason));
        if (seconds_left(meeting) <= 0)
            return fail(err, STATUS_UNAVAILABLE,
                        "--master-addr %.200s: %s (asked for %g s: --meet-seconds); give the name or address of node 0",
                        options->master_addr, gai_strerror(reason), options->meet_seconds);
        tell_wait(meeting, "node 0, whose name is not known yet,");
        TRY(wait_for(meeting, polls, 1, LATER_MILLISECONDS, err));
    }
    return STATUS_OK;
}

static Status report_to_first(Meeting *meeting, Error *err) {
    enum { MOST_SILENCES = 50 }; // connections closed without an answer, a tenth of a second apart
    const LaunchOptions *options = meeting->options;
    struct addrinfo *places;
    Status status = STATUS_OK;
    bool is_answered = false;
    int silences = 0;
    TRY(find_place(&places, meeting, err));
    const struct addrinfo *place = places;
    while (status == STATUS_OK && !is_answered && !meeting->group->requests.count && silences < MOST_SILENCES &&
           seconds_left(meeting) > 0) {
        int fd;
        struct pollfd polls[1];
        status = try_to_connect(&fd, meeting, place, err);
        if (status == STATUS_OK && fd >= 0) status = ask(&is_answered, meeting, fd, err);
        if (fd >= 0) close(fd), silences++;
        place = place->ai_next ? place->ai_next : places;
        tell_wait(meeting, "the launcher of node 0");
        if (status == STATUS_OK && !is_answered) status = wait_for(meeting, polls, 1, LATER_MILLISECONDS, err);
    }
    if (places) freeaddrinfo(places);
    if (status != STATUS_OK || is_answered || meeting->group->requests.count) return status;
    if (silences > 0)
        return fail(err, STATUS_TIMEOUT,
                    "--nnodes %d --master-addr %.200s --master-port %d: who is there has no answer for node %d; start "
                    "`sounder launch --nnodes %d --node-rank 0` there, or give another port to all",
                    options->nnodes, options->master_addr, options->master_port, options->node_rank, options->nnodes);
    return fail(err, STATUS_TIMEOUT,
                "--nnodes %d --master-addr %.200s --master-port %d: node 0 was not there within %g s; start `sounder "
                "launch --nnodes %d --node-rank 0` there, or raise --meet-seconds",
                options->nnodes, options->master_addr, options->master_port, options->meet_seconds, options->nnodes);
}

Status launch_group_meet(LaunchGroup *group, const LaunchOptions *options, Error *err) {
    Meeting meeting = {.group = group, .options = options, .begin_nanoseconds = clock_nanoseconds()};
    group->has_met = options->nnodes > 1 && options->meet_seconds > 0;
    if (!group->has_met) return STATUS_OK;
    return options->node_rank == 0 ? wait_for_others(&meeting, err) : report_to_first(&meeting, err);
}

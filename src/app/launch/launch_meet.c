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
#include "base/owned.h"
#include "launch_port.h"
#include "shm/group/group_transport.h"

enum { LINE_BYTES = 512, STRANGERS = 16 };

static const double goodbye_seconds = 5; // from the answer until the guests have closed
static const double notice_seconds = 5;  // until the user is told that this launcher waits
static const double silence_seconds = 3; // until a guest must have sent its line

typedef struct Guest {
    int fd;                 // owned; -1: none
    bool is_known;          // its line is complete
    int node, nodes, ranks; // how it was started
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
    Owned owned;
    int room;             // of node 0: the launchers that must come, and places for strangers; of other nodes: 0
    Guest *guests;        // (room)
    struct pollfd *polls; // (2 + room): the signals, one more descriptor, the guests
} Meeting;

static double seconds_left(const Meeting *meeting) {
    return meeting->options->meet_seconds - clock_seconds_since(meeting->begin_nanoseconds);
}

// Waits until a guest sends, or fd (-1: none) is ready for these events, at most a tenth of a second. polls[1] says
// whether fd is ready, polls[2 + i] whether guest i sends. A signal that asks for an end is counted in group->requests.
static Status wait_for(Meeting *meeting, int fd, short events, Error *err) {
    enum { MILLISECONDS = 100 };
    LaunchGroup *group = meeting->group;
    struct pollfd *polls = meeting->polls;
    polls[0] = (struct pollfd){.fd = group->signal_fd, .events = POLLIN};
    polls[1] = (struct pollfd){.fd = fd, .events = events};
    for (int i = 0; i < meeting->room; i++)
        polls[2 + i] = (struct pollfd){.fd = meeting->guests[i].fd, .events = POLLIN};
    if (poll(polls, 2 + (nfds_t)meeting->room, MILLISECONDS) < 0 && errno != EINTR)
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
static Guest *place_for(const Meeting *meeting) {
    Guest *place = NULL;
    for (Guest *guest = meeting->guests; guest < meeting->guests + meeting->room; guest++) {
        if (guest->fd < 0) return guest;
        if (!guest->is_known && (!place || guest->came_nanoseconds < place->came_nanoseconds)) place = guest;
    }
    return place; // never NULL: there are more places than launchers
}

static void welcome(const Meeting *meeting, int listener) {
    static const char mapped[] = "::ffff:"; // prefix of an IPv4 address
    struct sockaddr_storage from;
    socklen_t bytes = sizeof from;
    const int fd = accept4(listener, (struct sockaddr *)&from, &bytes, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return;
    Guest *guest = place_for(meeting);
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
    int end = 0;
    const char *newline = strchr(guest->line, '\n');
    if (!newline && guest->used < LINE_BYTES - 1) return;
    if (sscanf(guest->line, "sounder launch: node %9d of %9d with %9d ranks%n", &guest->node, &guest->nodes,
               &guest->ranks, &end) == 3 &&
        newline == guest->line + end)
        guest->is_known = true;
    else
        dismiss(guest);
}

// Checks that a guest was started like node 0, with a node number of its own.
static Status compare(const Meeting *meeting, const Guest *guest, Error *err) {
    const LaunchOptions *options = meeting->options;
    if (guest->nodes != options->nnodes || guest->ranks != options->ranks)
        return fail(err, STATUS_USAGE,
                    "node 0 was started with --nnodes %d --nproc-per-node %d, but node %d (%s) with --nnodes %d "
                    "--nproc-per-node %d; give all the same",
                    options->nnodes, options->ranks, guest->node, guest->address, guest->nodes, guest->ranks);
    if (guest->node < 1 || guest->node >= options->nnodes)
        return fail(err, STATUS_USAGE, "--node-rank %d (%s): must be from 0 to %d", guest->node, guest->address,
                    options->nnodes - 1);
    for (int i = 0; i < meeting->room; i++) {
        const Guest *other = &meeting->guests[i];
        if (other->is_known && other != guest && other->node == guest->node)
            return fail(err, STATUS_USAGE,
                        "--node-rank %d: two launchers were started with it (%s and %s); number them", guest->node,
                        other->address, guest->address);
    }
    return STATUS_OK;
}

static void answer_all(const Meeting *meeting, Status status, const char *sentence) {
    char text[ERROR_MESSAGE_BYTES + 16];
    const int bytes = snprintf(text, sizeof text, "%d %s\n", (int)status, sentence);
    for (int i = 0; i < meeting->room; i++)
        if (meeting->guests[i].fd >= 0) send(meeting->guests[i].fd, text, (size_t)bytes, MSG_NOSIGNAL);
}

static int count_known(const Meeting *meeting) {
    int known = 0;
    for (int i = 0; i < meeting->room; i++)
        known += meeting->guests[i].is_known;
    return known;
}

// Reads whatever the guests still send, even from those whose line was not complete: closing a connection with unread
// bytes would reset it and lose the answer.
static void hear_out(const Meeting *meeting) {
    char rest[LINE_BYTES];
    for (Guest *guest = meeting->guests; guest < meeting->guests + meeting->room; guest++) {
        ssize_t got = 1;
        while (guest->fd >= 0 && got > 0)
            got = recv(guest->fd, rest, sizeof rest, 0);
        if (guest->fd >= 0 && (got == 0 || (errno != EAGAIN && errno != EINTR))) dismiss(guest);
    }
}

// After the answers, waits until the guests have closed: then the port is free.
static void part(Meeting *meeting) {
    const uint64_t begin = clock_nanoseconds();
    do
        hear_out(meeting);
    while (count_known(meeting) > 0 && clock_seconds_since(begin) < goodbye_seconds &&
           wait_for(meeting, -1, 0, NULL) == STATUS_OK);
}

static Status refuse_absence(const Meeting *meeting, Error *err) {
    int absent = 1;
    if (!meeting->is_told) warn_of_address(meeting);
    launch_group_flush(meeting->group, NULL);
    for (int i = 0; i < meeting->room; i++)
        if (meeting->guests[i].is_known && meeting->guests[i].node == absent) absent++, i = -1;
    return fail(
        err, STATUS_TIMEOUT,
        "--nnodes %d: node %d has not come within %g s; start `sounder launch --nnodes %d --node-rank %d` there, or "
        "raise --meet-seconds",
        meeting->options->nnodes, absent, meeting->options->meet_seconds, meeting->options->nnodes, absent);
}

static Status gather(Meeting *meeting, int listener, Error *err) {
    while (count_known(meeting) < meeting->options->nnodes - 1 && !meeting->group->requests.count) {
        TRY(wait_for(meeting, listener, POLLIN, err));
        for (int i = 0; i < meeting->room; i++) {
            Guest *guest = &meeting->guests[i];
            const bool has_sent = meeting->polls[2 + i].revents;
            if (guest->fd < 0 || (guest->is_known && !has_sent)) continue;
            if (has_sent) hear(guest);
            if (guest->is_known) TRY(compare(meeting, guest, err));
            if (guest->fd >= 0 && !guest->is_known && clock_seconds_since(guest->came_nanoseconds) > silence_seconds)
                dismiss(guest);
        }
        // last, so that a guest which has spoken keeps its place
        if (meeting->polls[1].revents) welcome(meeting, listener);
        tell_wait(meeting, "the launchers of the other nodes");
        if (seconds_left(meeting) <= 0) return refuse_absence(meeting, err);
    }
    return STATUS_OK;
}

static Status wait_for_others(Meeting *meeting, Error *err) {
    int listener;
    for (int i = 0; i < meeting->room; i++)
        meeting->guests[i].fd = -1;
    Status status = launch_port_open(&listener, meeting->options, err);
    if (status == STATUS_OK) {
        status = gather(meeting, listener, err);
        if (status != STATUS_OK)
            answer_all(meeting, status, err->message);
        else if (meeting->group->requests.count)
            answer_all(meeting, STATUS_CANCELLED, "the launcher of node 0 was stopped by a signal; start all again");
        else
            answer_all(meeting, STATUS_OK, "go");
        part(meeting);
    }
    for (int i = 0; i < meeting->room; i++)
        if (meeting->guests[i].fd >= 0) close(meeting->guests[i].fd);
    if (listener >= 0) close(listener);
    return status;
}

// The others ----------------------------------------------------------------------------------------------------------

// *fd: -1 if nothing listens there yet.
static Status try_to_connect(int *fd, Meeting *meeting, const struct addrinfo *place, Error *err) {
    *fd = socket(place->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*fd < 0) return errno == EAFNOSUPPORT ? STATUS_OK : fail_errno(err, STATUS_OS, "cannot open a connection");
    bool is_there = connect(*fd, place->ai_addr, place->ai_addrlen) == 0;
    if (!is_there && errno == EINPROGRESS) {
        int reason = ETIMEDOUT;
        socklen_t bytes = sizeof reason;
        int waits = 10; // a second
        do
            TRY(wait_for(meeting, *fd, POLLOUT, err));
        while (!meeting->polls[1].revents && !meeting->group->requests.count && --waits > 0);
        if (meeting->polls[1].revents) getsockopt(*fd, SOL_SOCKET, SO_ERROR, &reason, &bytes);
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
    const int bytes = snprintf(line, sizeof line, "sounder launch: node %d of %d with %d ranks\n", options->node_rank,
                               options->nnodes, options->ranks);
    *is_answered = false;
    if (send(fd, line, (size_t)bytes, MSG_NOSIGNAL) != bytes) return STATUS_OK;
    while (!meeting->group->requests.count && seconds_left(meeting) > 0) {
        TRY(wait_for(meeting, fd, POLLIN, err));
        tell_wait(meeting, "the launchers of all nodes");
        if (!meeting->polls[1].revents) continue;
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
        TRY(wait_for(meeting, -1, 0, err));
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
        status = try_to_connect(&fd, meeting, place, err);
        if (status == STATUS_OK && fd >= 0) status = ask(&is_answered, meeting, fd, err);
        if (fd >= 0) close(fd), silences++;
        place = place->ai_next ? place->ai_next : places;
        tell_wait(meeting, "the launcher of node 0");
        if (status == STATUS_OK && !is_answered) status = wait_for(meeting, -1, 0, err);
    }
    if (places) freeaddrinfo(places);
    if (status != STATUS_OK || is_answered || meeting->group->requests.count) return status;
    if (silences > 0)
        return fail(err, STATUS_TIMEOUT,
                    "--nnodes %d --master-addr %.200s --master-port %d: the program at that port has no answer for "
                    "node %d; start "
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
    meeting.room = options->node_rank == 0 ? options->nnodes - 1 + STRANGERS : 0;
    meeting.guests = own(&meeting.owned, (size_t)meeting.room, sizeof *meeting.guests);
    meeting.polls = own(&meeting.owned, (size_t)meeting.room + 2, sizeof *meeting.polls);
    Status status = meeting.owned.lacks_memory
                        ? fail(err, STATUS_OS, "no memory to meet %d launchers", options->nnodes - 1)
                    : options->node_rank == 0 ? wait_for_others(&meeting, err)
                                              : report_to_first(&meeting, err);
    owned_free(&meeting.owned);
    return status;
}

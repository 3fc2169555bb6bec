#include "launch_port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const char *remedy(const LaunchOptions *options) {
    return options->nnodes > 1 ? "give another to all launchers" : "give --standalone, or another --master-port";
}

Status launch_port_open(int *listener, const LaunchOptions *options, Error *err) {
    const int yes = 1, no = 0;
    const in_port_t port = htons((uint16_t)options->master_port);
    struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = port, .sin6_addr = in6addr_any};
    struct sockaddr_in any4 = {.sin_family = AF_INET, .sin_port = port};
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const bool is_old = fd < 0; // this machine has no IPv6
    if (is_old) fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (!is_old) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    const struct sockaddr *address = is_old ? (struct sockaddr *)&any4 : (struct sockaddr *)&any;
    *listener = fd;
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
        bind(fd, address, is_old ? sizeof any4 : sizeof any) == 0 && listen(fd, SOMAXCONN) == 0)
        return STATUS_OK;
    const int reason = errno;
    return fail(err, STATUS_UNAVAILABLE, "--master-port %d: cannot be opened: %s; %s", options->master_port,
                strerror(reason), remedy(options));
}

// The process that holds the name; pid 0: it is gone, or in another PID namespace. false: it has just let go.
static bool find_holder(struct ucred *holder, const struct sockaddr_un *address, socklen_t bytes) {
    *holder = (struct ucred){.uid = getuid()};
    socklen_t room = sizeof *holder;
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return true;
    const bool is_there = connect(fd, (const struct sockaddr *)address, bytes) == 0 || errno != ECONNREFUSED;
    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, holder, &room);
    close(fd);
    return is_there;
}

// *held: -1 if another launcher of this user, *holder, has the port. A name that another user has taken holds nothing.
static Status hold(int *held, pid_t *holder, int port, Error *err) {
    enum { TRIES = 5 };
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int length =
        snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "sounder-launch-%u-%d", getuid(), port);
    const socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    struct ucred owner = {.pid = 0};
    *held = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*held < 0) return fail_errno(err, STATUS_OS, "no socket to reserve port %d", port);
    for (int tries = 0; tries < TRIES; tries++) {
        if (bind(*held, (const struct sockaddr *)&address, bytes) == 0 && listen(*held, SOMAXCONN) == 0)
            return STATUS_OK;
        if (errno != EADDRINUSE) return fail_errno(err, STATUS_OS, "port %d cannot be reserved", port);
        if (!find_holder(&owner, &address, bytes)) continue;
        if (owner.uid != getuid()) return STATUS_OK;
        break;
    }
    close(*held);
    *held = -1;
    *holder = owner.pid;
    return STATUS_OK;
}

Status launch_port_hold(int *held, const LaunchOptions *options, Error *err) {
    pid_t holder;
    int listener;
    TRY(hold(held, &holder, options->master_port, err));
    if (*held < 0) {
        char process[32] = "";
        if (holder > 0) snprintf(process, sizeof process, " (process %d)", holder);
        return fail(err, STATUS_UNAVAILABLE,
                    "--master-port %d: another sounder launch%s uses it, and the ranks of both would meet; %s",
                    options->master_port, process, remedy(options));
    }
    Status status = launch_port_open(&listener, options, err);
    if (listener >= 0) close(listener);
    return status;
}

Status launch_port_choose(int *held, int *port, Error *err) {
    enum { TRIES = 100 };
    *held = -1;
    for (int tries = 0; tries < TRIES && *held < 0; tries++) {
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t bytes = sizeof address;
        pid_t holder;
        const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const bool found = fd >= 0 && bind(fd, (struct sockaddr *)&address, bytes) == 0 &&
                           getsockname(fd, (struct sockaddr *)&address, &bytes) == 0;
        if (!found) fail_errno(err, STATUS_OS, "--standalone: no free TCP port");
        if (fd >= 0) close(fd); // for rank 0
        if (!found) return STATUS_OS;
        *port = ntohs(address.sin_port);
        TRY(hold(held, &holder, *port, err));
    }
    return *held >= 0 ? STATUS_OK : fail(err, STATUS_OS, "--standalone: %d free TCP ports belong to launchers", TRIES);
}

#include "shm/group/rendezvous_socket.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static socklen_t make_address(struct sockaddr_un *address, const char *name, bool is_file) {
    assert(*name && (!is_file || *name == '/'));
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    size_t length = strnlen(name, sizeof address->sun_path - 1);
    memcpy(address->sun_path + !is_file, name, is_file ? length + 1 : length); // an abstract name has a zero byte first
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + 1);
}

static int bind_to(int fd, const char *name, bool is_file) {
    struct sockaddr_un address;
    const socklen_t bytes = make_address(&address, name, is_file);
    return bind(fd, (struct sockaddr *)&address, bytes);
}

static int connect_to(int fd, const GroupPlace *place) {
    struct sockaddr_un address;
    const socklen_t bytes = make_address(&address, place->socket, place->is_file);
    return connect(fd, (struct sockaddr *)&address, bytes);
}

// Never replaces another file. A network file system (NFS) may lack RENAME_NOREPLACE; a link also fails if the name
// exists.
static int rename_to_new(const char *from, const char *to) {
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) return 0;
    if ((errno != EINVAL && errno != ENOSYS) || link(from, to) != 0) return -1;
    unlink(from);
    return 0;
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

static int listen_at(int fd, const GroupPlace *place) {
    if (place->is_file) return listen_at_file(fd, place->socket);
    return bind_to(fd, place->socket, false) == 0 ? listen(fd, GROUP_MAX_RANKS) : -1;
}

static int open_socket(int *fd, const GroupPlace *place, int (*use)(int fd, const GroupPlace *place)) {
    *fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*fd < 0 || use(*fd, place) == 0) return *fd < 0 ? -1 : 0;
    const int why = errno;
    close(*fd);
    *fd = -1;
    errno = why;
    return -1;
}

int socket_listen(int *fd, const GroupPlace *place) {
    return open_socket(fd, place, listen_at);
}

int socket_connect(int *fd, const GroupPlace *place) {
    return open_socket(fd, place, connect_to);
}

SocketPeer socket_peer(int socket) {
    struct ucred peer = {.pid = 0};
    socklen_t bytes = sizeof peer;
    const bool is_known = getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0;
    return (SocketPeer){.pid = peer.pid, .is_of_same_user = is_known && peer.uid == geteuid()};
}

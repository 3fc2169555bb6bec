// Unix sockets at a meeting place: a name in the abstract namespace, which disappears with the process, or a file.
#ifndef SOUNDER_SHM_GROUP_RENDEZVOUS_SOCKET_H
#define SOUNDER_SHM_GROUP_RENDEZVOUS_SOCKET_H

#include <stdbool.h>
#include <sys/types.h>

#include "shm/group/group_transport.h"

// Both open a non-blocking socket of packets, which the caller owns. They return 0, or -1 with errno and *fd -1.
// socket_listen fails with EADDRINUSE if another process has the place; a file appears only when it accepts
// connections, and the caller removes it.
int socket_listen(int *fd, const GroupPlace *place);
int socket_connect(int *fd, const GroupPlace *place);

// The process at the other end of a connection; pid 0: it is in another PID namespace.
typedef struct SocketPeer {
    pid_t pid;
    bool is_of_same_user;
} SocketPeer;
SocketPeer socket_peer(int socket);

#endif

// Messages between the ranks of a meeting: one packet of a Unix socket per message, with descriptors attached.
#ifndef SOUNDER_SHM_GROUP_RENDEZVOUS_MESSAGE_H
#define SOUNDER_SHM_GROUP_RENDEZVOUS_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "shm/group/group_transport.h"

// The first word of every message; messages with another word (of another version) are ignored.
static const uint64_t rendezvous_magic = 0x33726564736f7572; // changes with every change of these messages

// A rank's first message; its process descriptor is attached.
typedef struct Hello {
    uint64_t magic; // rendezvous_magic
    int32_t rank, size;
    uint32_t memory;           // GroupMemory
    char job[GROUP_JOB_BYTES]; // as GroupPlace
} Hello;

typedef enum NoticeKind {
    NOTICE_WAITING, // text: the missing ranks
    NOTICE_REFUSED, // status, text: reason of the failure
    NOTICE_WELCOME  // attached: the memory, then the process descriptors in the order of the ranks
} NoticeKind;

typedef struct Notice {
    uint64_t magic;        // rendezvous_magic
    uint32_t kind, status; // NoticeKind; Status, not OK if REFUSED
    char text[ERROR_MESSAGE_BYTES];
} Notice;

// Sends a message of `bytes` bytes and fd_count descriptors (at most 253, SCM_MAX_FD) without waiting. Returns 0, or -1
// with errno.
int packet_send(int socket, const void *message, size_t bytes, const int *fds, size_t fd_count);

// Receives without waiting. Returns the number of bytes (0: the other side has closed), or -1 with errno. *fd_count is
// the room in fds and becomes the number received, which the caller owns (close-on-exec). Fails with EMFILE if this
// process may not open all of them.
long packet_receive(int socket, void *message, size_t bytes, int *fds, size_t *fd_count);

// Sends a notice without waiting. Returns 0, or -1 with errno.
int notice_send(int socket, NoticeKind kind, Status status, const char *text, const int *fds, size_t fd_count);

typedef enum NoticeFate {
    NOTICE_IS_THERE,
    NOTICE_IS_NOT_THERE, // nothing has arrived yet
    NOTICE_IS_OVER,      // the other side has closed, or the socket has failed
    NOTICE_IS_TOO_MUCH,  // more descriptors arrived than this process may open
    NOTICE_IS_STRANGE    // the message is no notice of this version
} NoticeFate;

// Receives a notice without waiting and terminates its text. *fd_count is the room in fds and becomes the number of
// descriptors attached to a WELCOME, which the caller owns; 0 in all other cases.
NoticeFate notice_receive(Notice *notice, int *fds, size_t *fd_count, int socket);

#endif

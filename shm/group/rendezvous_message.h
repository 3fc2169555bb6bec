// What the ranks of a meeting write to each other: one packet of a Unix socket a message, descriptors beside it.
#ifndef SOUNDER_SHM_GROUP_RENDEZVOUS_MESSAGE_H
#define SOUNDER_SHM_GROUP_RENDEZVOUS_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "shm/group/group_transport.h"

// Every message begins with it: who speaks another version is not listened to.
static const uint64_t rendezvous_magic = 0x33726564736f7572; // changes with every change of these messages

// The first message of whoever comes; his process descriptor is with it.
typedef struct Hello {
    uint64_t magic; // rendezvous_magic
    int32_t rank, size;
    uint32_t memory;           // GroupMemory
    char job[GROUP_JOB_BYTES]; // as GroupPlace
} Hello;

typedef enum NoticeKind {
    NOTICE_WAITING, // text: who is missing
    NOTICE_REFUSED, // status, text: why nothing comes of it
    NOTICE_WELCOME  // with it: the memory, then the process descriptors in the order of the ranks
} NoticeKind;

typedef struct Notice {
    uint64_t magic;        // rendezvous_magic
    uint32_t kind, status; // NoticeKind; Status, not OK if it is REFUSED
    char text[ERROR_MESSAGE_BYTES];
} Notice;

// Sends without waiting, bytes of a message and fd_count descriptors (at most 253, SCM_MAX_FD). -1 and errno.
int packet_send(int socket, const void *message, size_t bytes, const int *fds, size_t fd_count);

// Receives without waiting: how many bytes (0: the other side has closed), -1 and errno. *fd_count, the room in fds,
// becomes the number received, which are the caller's and close on exec. EMFILE when not all of them fitted.
long packet_receive(int socket, void *message, size_t bytes, int *fds, size_t *fd_count);

// Sends a notice without waiting. -1 and errno.
int notice_send(int socket, NoticeKind kind, Status status, const char *text, const int *fds, size_t fd_count);

typedef enum NoticeFate {
    NOTICE_IS_THERE,
    NOTICE_IS_NOT_THERE, // nothing has come yet
    NOTICE_IS_OVER,      // the other side has closed, or the socket has failed
    NOTICE_IS_TOO_MUCH,  // more descriptors came than this process may open
    NOTICE_IS_STRANGE    // what came is no notice of this version
} NoticeFate;

// Receives a notice without waiting, its text terminated. *fd_count, the room in fds, becomes how many came with a
// WELCOME, which are the caller's; it is 0 in all other cases.
NoticeFate notice_receive(Notice *notice, int *fds, size_t *fd_count, int socket);

#endif

#include "shm/group/rendezvous_message.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_DESCRIPTORS = 253 }; // SCM_MAX_FD of the kernel

// Room for the descriptors, with the alignment that the kernel requires.
typedef union Control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(MAX_DESCRIPTORS * sizeof(int))];
} Control;

int packet_send(int socket, const void *message, size_t bytes, const int *fds, size_t fd_count) {
    assert(fd_count <= MAX_DESCRIPTORS && (fds || fd_count == 0));
    Control control = {.bytes = {0}};
    struct iovec part = {.iov_base = (void *)(uintptr_t)message, .iov_len = bytes}; // read only
    struct msghdr packet = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd_count > 0) {
        packet.msg_control = &control;
        packet.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(fd_count * sizeof(int));
        memcpy(CMSG_DATA(&control.header), fds, fd_count * sizeof(int));
    }
    return sendmsg(socket, &packet, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -1 : 0;
}

// If this process may not open all descriptors, it closes those that it has got: a message counts only as a whole.
long packet_receive(int socket, void *message, size_t bytes, int *fds, size_t *fd_count) {
    Control control;
    struct iovec part = {.iov_base = message, .iov_len = bytes};
    struct msghdr packet = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    size_t room = *fd_count, found = 0;
    *fd_count = 0;
    ssize_t received = recvmsg(socket, &packet, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    // The other side has closed without reading everything: the kernel reports this error once, and its last message
    // follows.
    if (received < 0 && errno == ECONNRESET) received = recvmsg(socket, &packet, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (received < 0) return -1;
    struct cmsghdr *header = CMSG_FIRSTHDR(&packet);
    if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS)
        found = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < found; i++) {
        int fd;
        memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
        if (i < room)
            fds[(*fd_count)++] = fd;
        else
            close(fd);
    }
    if (!(packet.msg_flags & MSG_CTRUNC)) return received;
    for (size_t i = 0; i < *fd_count; i++)
        close(fds[i]);
    *fd_count = 0;
    errno = EMFILE;
    return -1;
}

int notice_send(int socket, NoticeKind kind, Status status, const char *text, const int *fds, size_t fd_count) {
    assert((kind == NOTICE_REFUSED) == (status != STATUS_OK));
    assert((kind == NOTICE_WELCOME) == (fd_count > 0)); // others' descriptors would be closed on arrival
    Notice notice = {.magic = rendezvous_magic, .kind = kind, .status = status};
    size_t length = strnlen(text, sizeof notice.text - 1);
    memcpy(notice.text, text, length);
    return packet_send(socket, &notice, offsetof(Notice, text) + length + 1, fds, fd_count);
}

// Says whether the `bytes` bytes received are a message that this version writes.
static bool is_notice(const Notice *notice, long bytes) {
    if (bytes <= (long)offsetof(Notice, text) || notice->magic != rendezvous_magic) return false;
    if (notice->kind == NOTICE_REFUSED) return notice->status != STATUS_OK && notice->status <= STATUS_MISMATCH;
    return notice->kind == NOTICE_WAITING || notice->kind == NOTICE_WELCOME;
}

NoticeFate notice_receive(Notice *notice, int *fds, size_t *fd_count, int socket) {
    long bytes = packet_receive(socket, notice, sizeof *notice - 1, fds, fd_count);
    if (bytes < 0 && errno == EAGAIN) return NOTICE_IS_NOT_THERE;
    if (bytes < 0 && errno == EMFILE) return NOTICE_IS_TOO_MUCH;
    bool known = is_notice(notice, bytes);
    if (known) ((char *)notice)[bytes] = '\0';
    if (known && notice->kind == NOTICE_WELCOME) return NOTICE_IS_THERE;
    for (size_t i = 0; i < *fd_count; i++) // no caller would close the descriptors of another message
        close(fds[i]);
    *fd_count = 0;
    return known ? NOTICE_IS_THERE : bytes <= 0 ? NOTICE_IS_OVER : NOTICE_IS_STRANGE;
}

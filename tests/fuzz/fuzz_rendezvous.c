// Any packets with any number of descriptors, read as notices: a text ends, and no descriptor stays open that the
// reader was not told of. A packet is its length (two bytes), its descriptors (one byte) and its bytes.
#include "fuzz.h"

#include <stdbool.h>
#include <sys/socket.h>

#include "shm/group/rendezvous_message.h"

enum { MOST_PACKETS = 6, MOST_DESCRIPTORS = 12, ROOM = 8 };

static int lowest_free_descriptor(void) {
    int fd = dup(STDIN_FILENO);
    close(fd);
    return fd;
}

static void send_packets(int socket, const uint8_t *input, size_t bytes) {
    int fds[MOST_DESCRIPTORS] = {0};
    size_t at = 0;
    for (int sent = 0; sent < MOST_PACKETS && at + 3 <= bytes; sent++) {
        size_t length = input[at] | (size_t)(input[at + 1] % 8) << 8, count = input[at + 2] % MOST_DESCRIPTORS;
        at += 3;
        if (length > bytes - at) length = bytes - at;
        packet_send(socket, input + at, length, fds, count);
        at += length;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t bytes) {
    int before = lowest_free_descriptor(), ends[2];
    must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
    send_packets(ends[1], input, bytes);
    close(ends[1]);
    for (bool over = false; !over;) {
        Notice notice;
        int fds[ROOM];
        size_t count = ROOM;
        NoticeFate fate = notice_receive(&notice, fds, &count, ends[0]);
        must(count <= ROOM && (count == 0 || fate == NOTICE_IS_THERE));
        must(fate != NOTICE_IS_THERE || memchr(notice.text, 0, sizeof notice.text));
        for (size_t i = 0; i < count; i++)
            close(fds[i]);
        over = fate == NOTICE_IS_OVER || fate == NOTICE_IS_NOT_THERE;
    }
    close(ends[0]);
    must(lowest_free_descriptor() == before);
    return 0;
}

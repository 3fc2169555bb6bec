// Lesson 18. Meeting: memory for a rank that is no child.
//
// Rank 1 is another program: it was started by exec, has inherited nothing, and knows a name. At that name rank 0
// listens on a socket. Over the socket it does not send the memory, but its descriptor: sendmsg with SCM_RIGHTS puts a
// file that rank 0 has open into rank 1's own table, under a number of its own. Then both map it.
//
//   rank 0   fd 3 ─▶ memory ◀─ fd 5   rank 1
//
// The name is in Linux's abstract space (its first byte is 0): there is no file to remove. Which of the two starts
// first is not known: here rank 1 does, and tries until rank 0 is there.
//
// Question: a third program knows the name, too. What would you send with the descriptor, so that the wrong ones
// notice?
// Build: cc -O2 -o lesson 18_meeting.c
// Run: ./lesson
// Prints, in any order:
//   rank 1 reads: 42
//   rank 0 reads: 43
// Change: "PATIENCE_MS = 5000" -> "PATIENCE_MS = 0": prints rank 1 has not found rank 0
// Change: "data->cmsg_type = SCM_RIGHTS" -> "data->cmsg_type = 0x7f": lacks rank 1 reads: 42
// Read: shm/group/rendezvous.h: ranks that `sounder launch` starts meet in the same way. What do they tell each other
// first, and what does a rank say that waits for one which never comes?
// PyTorch: init_process_group, and the file_descriptor sharing of multiprocessing, which sends each tensor's descriptor
// in this way.
#define _GNU_SOURCE 1
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "ranks.h"

enum { BYTES = 4096, PATIENCE_MS = 5000, LATE_MS = 100 };

static socklen_t address_of(struct sockaddr_un *address, const char *name) {
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    strncpy(address->sun_path + 1, name, sizeof address->sun_path - 2);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
}

// A message of one byte, with room for a descriptor beside it.
typedef struct Parcel {
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(sizeof(int))]; // begins with a struct cmsghdr
    char byte;
    struct iovec part;
    struct msghdr message;
} Parcel;

static struct msghdr *wrap(Parcel *parcel) {
    *parcel = (Parcel){.part = {&parcel->byte, 1}};
    parcel->message = (struct msghdr){
        .msg_iov = &parcel->part, .msg_iovlen = 1, .msg_control = parcel->room, .msg_controllen = sizeof parcel->room};
    return &parcel->message;
}

static int *map(int fd) {
    int *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory != MAP_FAILED) return memory;
    printf("this descriptor is no memory\n");
    exit(EX_SOFTWARE);
}

static int join(const char *name) {
    struct sockaddr_un address;
    const socklen_t bytes = address_of(&address, name);
    const int socket_fd = socket(AF_UNIX, SOCK_STREAM, 0);
    int waited = 0;
    while (connect(socket_fd, (struct sockaddr *)&address, bytes) != 0) {
        if (waited++ >= PATIENCE_MS) {
            printf("rank 1 has not found rank 0\n");
            return EXIT_FAILURE;
        }
        usleep(1000);
    }
    Parcel parcel;
    struct msghdr *message = wrap(&parcel);
    if (recvmsg(socket_fd, message, 0) != 1) return EX_SOFTWARE;
    struct cmsghdr *data = CMSG_FIRSTHDR(message);
    int fd = -1;
    if (data && data->cmsg_type == SCM_RIGHTS) memcpy(&fd, CMSG_DATA(data), sizeof fd);
    int *memory = map(fd);
    printf("rank 1 reads: %d\n", *memory);
    *memory = 43;
    return 0;
}

static void give(int listener, int fd) {
    const int socket_fd = accept(listener, NULL, NULL);
    Parcel parcel;
    struct msghdr *message = wrap(&parcel);
    struct cmsghdr *data = CMSG_FIRSTHDR(message);
    data->cmsg_level = SOL_SOCKET;
    data->cmsg_type = SCM_RIGHTS;
    data->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(data), &fd, sizeof fd);
    if (sendmsg(socket_fd, message, MSG_NOSIGNAL) != 1) perror("sendmsg");
    close(socket_fd);
}

int main(int argc, char **argv) {
    if (argc > 1) return join(argv[1]);
    char name[64];
    snprintf(name, sizeof name, "lesson-18-%d", getpid());
    const pid_t rank_1 = fork_rank();
    if (rank_1 == 0) {
        execl("/proc/self/exe", argv[0], name, NULL);
        perror("rank 1 cannot be started from /proc/self/exe, which qemu does not have");
        _exit(NOT_HERE);
    }
    usleep(1000 * LATE_MS);
    const int fd = memfd_create("letter", MFD_CLOEXEC), listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (ftruncate(fd, BYTES) != 0) return EX_OSERR;
    int *memory = map(fd), status;
    *memory = 42;
    struct sockaddr_un address;
    const socklen_t bytes = address_of(&address, name);
    if (bind(listener, (struct sockaddr *)&address, bytes) != 0 || listen(listener, 1) != 0) return EX_OSERR;
    if (waitpid(rank_1, &status, WNOHANG) == rank_1) // it has given up, or has not begun
        return WIFEXITED(status) && WEXITSTATUS(status) == NOT_HERE ? NOT_HERE : EX_SOFTWARE;
    give(listener, fd);
    waitpid(rank_1, &status, 0);
    printf("rank 0 reads: %d\n", *memory);
    return WIFEXITED(status) ? WEXITSTATUS(status) : EX_SOFTWARE;
}

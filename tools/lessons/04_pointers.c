// Lesson 4. A pointer does not travel.
//
// Two processes map the same memory, each where its kernel finds room: at different addresses. A list whose links are
// pointers is right in the process that made it, and points somewhere else in the other one. A list whose links are
// offsets from the start of the memory is right in both.
//
//   maker   0x7f..1000 [ 1 |   ][ 2 |   ][ 3 | 0 ]       next = 0x7f..1010, or 16 from the start
//   reader  0x7f..9000 [ the same bytes           ]      0x7f..1010 is no part of it; 16 from the start is
//
// The reader is forked before the maker maps anything, and has something else where the maker finds room.
//
// Question: what does the reader print if that something else may be read? Is it better or worse than a crash?
// Build: cc -O2 -o lesson 04_pointers.c
// Run: ./lesson
// Prints:
//   by offset: 1 2 3
//   by pointer: killed by signal 11
// Change: "PROT_NONE" -> "PROT_READ": prints by pointer: 1 0
// Read: fedavg/memory/layout.h: how does a worker find the queue of jobs in the control segment?
// PyTorch: storages are sent as (handle, size, offset), never as addresses.
#define _GNU_SOURCE 1
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 1 << 16, NODES = 3 };

typedef struct Node {
    int value;
    unsigned offset;   // of the next node, from the start of the memory; 0: none
    struct Node *next; // NULL: none
} Node;

static Node *map(int fd, int rights) {
    Node *memory = mmap(NULL, BYTES, rights, fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) exit(EXIT_FAILURE);
    return memory;
}

static void make_list(int fd) {
    Node *nodes = map(fd, PROT_READ | PROT_WRITE);
    for (int i = 0; i < NODES; i++) {
        const int is_last = i == NODES - 1;
        nodes[i] = (Node){i + 1, is_last ? 0 : (unsigned)((i + 1) * (int)sizeof(Node)), is_last ? NULL : &nodes[i + 1]};
    }
}

static void read_list(int fd, int by_pointer) {
    map(-1, PROT_NONE); // takes the place that the maker's memory gets there
    const Node *begin = map(fd, PROT_READ), *node = begin;
    printf("by %s:", by_pointer ? "pointer" : "offset");
    for (const Node *next; node; node = next) {
        printf(" %d", node->value);
        next = node->offset ? (const Node *)((const char *)begin + node->offset) : NULL;
        if (by_pointer) next = node->next;
    }
    printf("\n");
}

int main(void) {
    const int fd = memfd_create("list", 0);
    if (fd < 0 || ftruncate(fd, BYTES) != 0) return EXIT_FAILURE;
    int go[2][2];
    pid_t readers[2];
    for (int by_pointer = 0; by_pointer < 2; by_pointer++) {
        if (pipe(go[by_pointer]) != 0) return EXIT_FAILURE;
        readers[by_pointer] = fork();
        if (readers[by_pointer] != 0) continue;
        close(go[by_pointer][1]); // or read would wait for ever if the maker is killed
        char byte;
        if (read(go[by_pointer][0], &byte, 1) == 1) read_list(fd, by_pointer);
        return EXIT_SUCCESS;
    }
    make_list(fd);
    for (int by_pointer = 0; by_pointer < 2; by_pointer++) {
        int status = 0;
        if (write(go[by_pointer][1], "", 1) != 1) return EXIT_FAILURE;
        waitpid(readers[by_pointer], &status, 0);
        if (WIFSIGNALED(status)) printf("by pointer: killed by signal %d\n", WTERMSIG(status));
    }
    return EXIT_SUCCESS;
}

// Lesson 2. Memory that is private, and memory that is shared.
//
// fork copies memory: what a rank writes to its copy no other process sees. Memory that was mapped with MAP_SHARED is
// not copied: its pages are the same for all. The kernel lists a process's mappings in /proc/self/maps; the fourth
// letter says which kind each is.
//
//        parent            rank 0            rank 1
//   private  [0 0 0 0]     [0 0 0 0]         [0 1 0 0]       a copy each, made at the first write
//   shared   [----------------- 0 1 4 9 --------------]      one
//
// Each rank writes a place of its own, and the parent reads after all have ended: so no lock is needed yet.
//
// Question: which line changes if both mappings are MAP_PRIVATE?
// Build: cc -O2 -o lesson 02_mmap.c
// Run: ./lesson
// Prints:
//   private: 0 0 0 0   rw-p
//   shared:  0 1 4 9   rw-s /dev/zero (deleted)
// Change: "MAP_SHARED" -> "MAP_PRIVATE": prints shared:  0 0 0 0   rw-p
// Change: "MAP_PRIVATE" -> "MAP_SHARED": prints private: 0 1 4 9   rw-s /dev/zero (deleted)
// Read: shm/segment.c, nameless_memory. Workers are no forks (shm/supervisor.h): what do they get in the place of an
// anonymous mapping? Why does it call posix_fallocate?
// PyTorch: model.share_memory() in the Hogwild example, and every tensor sent through a torch.multiprocessing queue.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 4, BYTES = 1 << 20 };

static int *map(int flags) {
    int *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) exit(EXIT_FAILURE);
    return memory;
}

// The values, then the mapping's rights and the name of its file, as the kernel tells them.
static void print(const char *name, const int *values) {
    printf("%-8s", name);
    for (int rank = 0; rank < RANKS; rank++)
        printf(" %d", values[rank]);
    char line[512], rights[8];
    unsigned long first, end;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        int path = 0;
        if (sscanf(line, "%lx-%lx %7s %*s %*s %*s %n", &first, &end, rights, &path) < 3) continue;
        if ((unsigned long)values < first || (unsigned long)values >= end) continue;
        line[strcspn(line, "\n")] = '\0';
        printf("   %s%s%s", rights, line[path] ? " " : "", line + path);
    }
    printf("\n");
    if (maps) fclose(maps);
}

int main(void) {
    int *mine = map(MAP_PRIVATE), *ours = map(MAP_SHARED);
    for (int rank = 0; rank < RANKS; rank++)
        if (fork() == 0) {
            mine[rank] = rank * rank;
            ours[rank] = rank * rank;
            _exit(0);
        }
    while (wait(NULL) > 0)
        ;
    print("private:", mine);
    print("shared:", ours);
    return 0;
}

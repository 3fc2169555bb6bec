// Lesson 11. First touch: when memory becomes memory.
//
// mmap promises memory and gives none. A page is there after its first touch: the processor stops, the kernel finds a
// page, fills it with zeros, and goes back (a page fault; minor, since no disk is read). 64 MiB are 16,384 of them.
// With MAP_POPULATE the kernel does all of it in mmap, without faults. Huge pages of 2 MiB need 32 instead of 16,384;
// for shared memory the kernel must be told to give them (/sys/kernel/mm/transparent_hugepage/shmem_enabled).
//
// A second process that maps the same memory has the pages, but no entries for them in its own table: it faults, too,
// at a read for sixteen neighbouring pages at once.
//
//                  page table                      pages
//   touched        [ a . . . . . . . ]  ─▶  [ A . . . . . . . ]      one fault per page: the kernel finds b and B next
//   populated      [ a b c d e f g h ]  ─▶  [ A B C D E F G H ]      all of both, in mmap
//   another rank   [ . . . . . . . . ]      the same pages: a fault enters a to h, and finds no new page
//
// Question: which of the first two does a program want that must answer within a millisecond? Which does one want that
// asks for more memory than it will use?
// Build: cc -O2 -o lesson 11_first_touch.c
// Run: ./lesson
// Prints:
//   touched:      <number> ms in mmap, <number> ms and <number> faults at the first touch, <number> ms at the second
//   populated:    <number> ms in mmap, <number> ms and 0 faults at the first touch, <number> ms at the second
//   another rank: <number> ms and <number> faults at its first look
// Change: "MAP_POPULATE" -> "0": lacks 0 faults
// Read: shm/segment.c: which process populates a segment, and why not those that map it later? What would happen
// without posix_fallocate in a container with 64 MiB of /dev/shm? (A signal, not an error: which?)
// PyTorch: a first epoch that is slower than the second; shared memory too small in Docker is its "bus error".
#define _GNU_SOURCE 1
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

#include "ranks.h"

enum { BYTES = 64 << 20, PAGE = 4096 };

static double milliseconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return 1e3 * (double)time.tv_sec + 1e-6 * (double)time.tv_nsec;
}

static long faults(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
}

static double touch(volatile char *memory) {
    const double begin = milliseconds();
    for (size_t i = 0; i < BYTES; i += PAGE)
        memory[i] = 1;
    return milliseconds() - begin;
}

// MAP_POPULATE is a wish: qemu, for one, does not grant it.
static int is_populated(char *memory, int flags) {
    static unsigned char pages[BYTES / PAGE];
    return !(flags & MAP_POPULATE) ||
           (mincore(memory, BYTES, pages) == 0 && pages[0] & 1 && pages[BYTES / PAGE - 1] & 1);
}

static char *map_and_touch(const char *name, int flags) {
    const double begin = milliseconds();
    char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | flags, -1, 0);
    if (memory == MAP_FAILED) exit(EX_OSERR);
    const double mapped = milliseconds() - begin;
    if (!is_populated(memory, flags)) {
        fprintf(stderr, "mmap has populated nothing, although it was told to\n");
        exit(NOT_HERE);
    }
    const long before = faults();
    const double first = touch(memory);
    const long taken = faults() - before;
    printf("%-13s %.2f ms in mmap, %.2f ms and %ld faults at the first touch, %.2f ms at the second\n", name, mapped,
           first, taken, touch(memory));
    return memory;
}

static void look(const volatile char *memory) {
    const long before = faults();
    const double begin = milliseconds();
    for (size_t i = 0; i < BYTES; i += PAGE)
        (void)memory[i];
    printf("another rank: %.2f ms and %ld faults at its first look\n", milliseconds() - begin, faults() - before);
}

int main(void) {
    munmap(map_and_touch("touched:", 0), BYTES);
    char *memory = map_and_touch("populated:", MAP_POPULATE);
    if (fork_rank() == 0) {
        look(memory);
        return 0;
    }
    wait(NULL);
    return 0;
}

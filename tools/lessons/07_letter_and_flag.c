// Lesson 7. A letter and a flag: release and acquire.
//
// The pattern under every queue and mailbox: write the letter, which is ordinary memory, then raise the flag. Two
// things can go wrong. The compiler, which knows of no other process, may load the flag once and wait for ever for a
// register to change. And compiler or processor may let the two writes be seen in another order: then the flag is up,
// while the letter is still the old one.
//
//   rank 0   letter = 42 ──▶ flag = 1          release: what I wrote before is seen with this
//                              │
//   rank 1                   flag == 1 ──▶ read the letter      acquire: what I read after it is as new
//
// Question: with a plain int as the flag, at which optimization does the lesson end, and at which not? Try -O0.
// Build: cc -O2 -o lesson 07_letter_and_flag.c
// Run: ./lesson
// Prints:
//   letter 1 says 42
//   2000 of 2000 letters came in order
// Change: "_Atomic int first_flag" -> "int first_flag": hangs
// Change: "/* the flag first */" -> "atomic_store(&shared->written, i), usleep(1);":
//   lacks 2000 of 2000 letters came in order
// Read: shm/barrier.c: find a release and the acquire that it pairs with. What is the letter there?
// PyTorch: the flags inside mp.Queue and gloo's buffers. x86 keeps the order of writes, whatever the program says; Arm,
// where PyTorch runs as well, does not.
#include <stdatomic.h>
#include <stdio.h>

#include "ranks.h"

enum { LETTERS = 2000 };

typedef struct Shared {
    int letter, first_letter; // ordinary memory
    _Atomic int first_flag;
    _Atomic int written, read; // numbers of letters: the flag of every letter, and of its answer
} Shared;

static void write_letters(Shared *shared) {
    usleep(20000); // so that rank 1 waits already
    shared->first_letter = 42;
    shared->first_flag = 1; // of an _Atomic variable this is a release (and more: lesson 8)
    for (int i = 1; i <= LETTERS; i++) {
        /* the flag first */
        shared->letter = 7 * i;
        atomic_store_explicit(&shared->written, i, memory_order_release); // pairs with the acquire in read_letters
        while (atomic_load_explicit(&shared->read, memory_order_acquire) < i)
            ;
    }
}

static void read_letters(Shared *shared) {
    while (!shared->first_flag)
        ;
    printf("letter 1 says %d\n", shared->first_letter);
    fflush(stdout);
    int in_order = 0;
    for (int i = 1; i <= LETTERS; i++) {
        while (atomic_load_explicit(&shared->written, memory_order_acquire) < i) // pairs with the release above
            ;
        in_order += shared->letter == 7 * i;
        atomic_store_explicit(&shared->read, i, memory_order_release);
    }
    printf("%d of %d letters came in order\n", in_order, LETTERS);
}

static void work(int rank, int size, void *memory) {
    (void)size;
    (rank == 0 ? write_letters : read_letters)(memory);
}

int main(void) {
    Shared *shared = share(sizeof *shared);
    pid_t pids[2];
    start_ranks(pids, 2, work, shared);
    join_ranks(pids, 2);
    return 0;
}

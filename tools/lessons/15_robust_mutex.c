// Lesson 15. A lock whose owner is killed: the robust mutex.
//
// Rank 0 takes a lock, has done half of its work, and is killed. With an ordinary mutex all others wait for ever. A
// robust one is given to the next rank that asks, with EOWNERDEAD: the kernel keeps for each thread a list of the
// robust locks that it has, and goes through it when the thread ends, whatever ended it.
//
//   rank 0   its list of robust locks ─▶ [ mutex: owner rank 0    | a 1 | b 0 ] ◀─ mapped by both
//   killed                the kernel ──▶ [ mutex: its owner died  | a 1 | b 0 ]
//   parent   lock: EOWNERDEAD ─────────▶ [ mutex: owner parent    | a 1 | b 1 ]      it has mended b
//
// That gives back the lock, not the data: `a` has been counted and `b` not. The new owner must know what was half done,
// mend it, and say so with pthread_mutex_consistent. If it cannot, it unlocks without a word, and the mutex is of no
// more use to any rank.
//
// Question: what must a rank write down, and when, so that a successor can mend any half-done work?
// Build: cc -O2 -pthread -o lesson 15_robust_mutex.c
// Run: ./lesson
// Prints:
//   lock: Owner died; a 1, b 0
//   mended: a 1, b 1
//   again: Success
// Change: "pthread_mutex_consistent(&shared->mutex);" -> "": prints again: State not recoverable
// Change: "PTHREAD_MUTEX_ROBUST" -> "PTHREAD_MUTEX_STALLED": hangs
// Read: no process of a run holds a lock that another one waits for. fedavg/memory/queue.h: how is a job of a dead
// worker found, and why may it be done again from the beginning?
// PyTorch: multiprocessing.Lock is a semaphore: if its owner is killed, it stays taken.
#define _GNU_SOURCE 1
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include "ranks.h"

typedef struct Shared {
    pthread_mutex_t mutex;
    int a, b; // equal whenever no rank has the mutex
} Shared;

int main(void) {
    void *list;
    size_t bytes;
    if (syscall(SYS_get_robust_list, 0, &list, &bytes) != 0) { // as under qemu
        perror("this kernel keeps no list of robust locks");
        return NOT_HERE;
    }
    Shared *shared = share(sizeof *shared);
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&shared->mutex, &attributes);
    if (fork_rank() == 0) {
        pthread_mutex_lock(&shared->mutex);
        shared->a++;
        raise(SIGKILL);
    }
    wait(NULL);

    const int error = pthread_mutex_lock(&shared->mutex);
    printf("lock: %s; a %d, b %d\n", strerror(error), shared->a, shared->b);
    if (error == EOWNERDEAD) {
        shared->b = shared->a;
        pthread_mutex_consistent(&shared->mutex);
    }
    printf("mended: a %d, b %d\n", shared->a, shared->b);
    pthread_mutex_unlock(&shared->mutex);
    printf("again: %s\n", strerror(pthread_mutex_lock(&shared->mutex)));
    return 0;
}

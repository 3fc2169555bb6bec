// Lesson 20. Isend and irecv: begin now, wait later.
//
// isend and irecv begin a message and come back at once; until group_wait says that it is done, the buffer is not ours:
// what is sent must not change, what is received is not there yet. All ranks pass a number round a ring, each to its
// neighbour. With a blocking send of a long message every rank would wait for another; begun first and waited for
// later, the messages cross. It takes at least 2 ranks.
//
//   rank 0 ─ ring 0→1 ─▶ rank 1 ─ ring 1→2 ─▶ rank 2 ─ ring 2→3 ─▶ rank 3 ─ ring 3→0 ─▶ rank 0
//
// Each ring (lesson 17) is a part of the memory that all ranks map. It holds 64 KiB: a longer message flows through it
// while its receiver empties it.
//
// PyTorch, "Writing Distributed Applications", non-blocking point-to-point:
//   req = dist.isend(tensor=tensor, dst=1)   group_isend(group, &request, tensor, 1, GROUP_F32, 1, ...)
//   req = dist.irecv(tensor=tensor, src=0)   group_irecv(group, &request, tensor, 1, GROUP_F32, 0, ...)
//   req.wait()                               group_wait(group, &request, NULL, ...)
//
// Question: all ranks call group_send of 4 MiB before they receive anything. What do they do, and until when? (The
// Change.)
// Build: cc -O2 -o lesson 20_isend_irecv.c $(pkg-config --cflags --libs sounder)
// Run: sounder launch --standalone -n 4 ./lesson
// Prints, in any order:
//   [0] rank 0 sent 0 to rank 1 and has 9 from rank 3
//   [1] rank 1 sent 1 to rank 2 and has 0 from rank 0
//   [2] rank 2 sent 4 to rank 3 and has 1 from rank 1
//   [3] rank 3 sent 9 to rank 0 and has 4 from rank 2
// Change: "BLOCKING = 0, PATIENCE_SECONDS = 30" -> "BLOCKING = 1, PATIENCE_SECONDS = 2": ends with code 75
// Read: shm/group/group.h, group_wait: messages move only inside calls. So what can a rank compute between group_isend
// and group_wait, and when does the message move?
#include <stdio.h>

#include "lesson.h"
#include <sounder/shm/group/group.h>

enum { COUNT = 1 << 20, BLOCKING = 0, PATIENCE_SECONDS = 30 }; // COUNT: 4 MiB, more than has room between two ranks

static float mine[COUNT], theirs[COUNT];

int main(void) {
    Error err;
    Group *group;
    must(group_init(&group, &(GroupConfig){.rank = -1, .size = -1, .timeout_seconds = PATIENCE_SECONDS}, &err), &err);
    const uint32_t rank = group_rank(group), size = group_size(group);
    const uint32_t next = (rank + 1) % size, previous = (rank + size - 1) % size;
    for (int i = 0; i < COUNT; i++)
        mine[i] = (float)(rank * rank);

    if (BLOCKING) {
        must(group_send(group, mine, COUNT, GROUP_F32, next, &err), &err);
        must(group_recv(group, theirs, NULL, COUNT, GROUP_F32, (int)previous, &err), &err);
    } else {
        GroupRequest sending, receiving;
        must(group_irecv(group, &receiving, theirs, COUNT, GROUP_F32, (int)previous, &err), &err);
        must(group_isend(group, &sending, mine, COUNT, GROUP_F32, next, &err), &err);
        // ... here is time to compute something that needs neither `mine` to change nor `theirs` to be there ...
        must(group_wait(group, &receiving, NULL, &err), &err);
        must(group_wait(group, &sending, NULL, &err), &err);
    }

    printf("rank %u sent %g to rank %u and has %g from rank %u\n", rank, mine[COUNT - 1], next, theirs[COUNT - 1],
           previous);
    must(group_finish(group, &err), &err);
    return 0;
}

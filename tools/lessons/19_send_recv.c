// Lesson 19. Send and receive.
//
// `sounder launch` starts the ranks, and tells each its number and where they meet. group_init waits until all are
// there. A message goes from one rank to one other; recv waits for it, and both must agree on type and count: a short
// message that is taken for a long one is an error on both sides, and no garbage. It takes at least 2 ranks.
//
//   rank 0   tensor ──copy──▶ [ header | ring 0→1 | ring 1→0 | ... ] ──copy──▶ tensor   rank 1
//            its own          memory without a name, which rank 0 has    its own
//                             made, and whose descriptor it has sent
//                             to rank 1 (lesson 18); both map it
//
// PyTorch, "Writing Distributed Applications", blocking point-to-point:
//   dist.init_process_group("gloo")          group_init
//   dist.send(tensor=tensor, dst=1)          group_send(group, tensor, 1, GROUP_F32, 1, ...)
//   dist.recv(tensor=tensor, src=0)          group_recv(group, tensor, NULL, 1, GROUP_F32, 0, ...)
//
// Question: what happens if rank 1 receives two floats of which rank 0 sends one? On which of the two is it an error?
// (The Change.)
// Build: cc -O2 -o lesson 19_send_recv.c $(pkg-config --cflags --libs sounder)
// Run: sounder launch --standalone -n 2 ./lesson
// Prints, in any order:
//   [0] rank 0 has data 1
//   [1] rank 1 has data 1
// Change: "NULL, 1, GROUP_F32, 0" -> "NULL, 2, GROUP_F32, 0": ends with code 70
// Change: "tensor += 1" -> "raise(SIGKILL)": ends with code 137
// Read: shm/group/group.h: what does group_recv wait for, and what if the sender is killed before it sends?
#include <stdio.h>

#include "lesson.h"
#include <sounder/shm/group/group.h>

int main(void) {
    Error err;
    Group *group;
    must(group_init(&group, &(GroupConfig){.rank = -1, .size = -1, .timeout_seconds = 30}, &err), &err);

    float tensor = 0;
    if (group_rank(group) == 0) {
        tensor += 1;
        must(group_send(group, &tensor, 1, GROUP_F32, 1, &err), &err);
    } else if (group_rank(group) == 1) {
        must(group_recv(group, &tensor, NULL, 1, GROUP_F32, 0, &err), &err);
    }
    printf("rank %u has data %g\n", group_rank(group), tensor);
    must(group_finish(group, &err), &err);
    return 0;
}

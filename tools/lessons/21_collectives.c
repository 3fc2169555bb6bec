// Lesson 21. Collectives: broadcast, reduce, all_reduce, and a group within the group.
//
// A collective is one call that all ranks make, in the same order. broadcast copies one rank's data to all; reduce
// combines those of all at one rank; all_reduce gives the result to all, bit for bit the same. A rank that calls
// something else at the same time is told so at once, and so are the others: no rank waits for a call that will never
// come. It takes at least 4 ranks.
//
//   group   [ rings | slot 0 | slot 1 | slot 2 | slot 3 ]      mapped by ranks 0 to 3
//   pair    [ rings | slot 0 | slot 1 ]                        another memory, mapped by ranks 0 and 1
//
// A rank copies its data into its own slot, writes that it has arrived, and reads the slots of the others.
//
// PyTorch, "Writing Distributed Applications", collective communication:
//   pair = dist.new_group([0, 1])                     group_subset(&pair, group, (uint32_t[]){0, 1}, 2, ...)
//   dist.broadcast(tensor, src=3)                     group_broadcast(group, tensor, 1, GROUP_F32, 3, ...)
//   dist.reduce(tensor, dst=0, op=dist.ReduceOp.MAX)  group_reduce(group, out, in, 1, GROUP_F32, GROUP_MAX, 0, ...)
//   dist.all_reduce(tensor, group=pair)               group_all_reduce(pair, out, in, 1, GROUP_F32, GROUP_SUM, ...)
//
// Question: rank 2 calls group_barrier where the others call group_reduce. What do they say? (The first Change.)
// Build: cc -O2 -o lesson 21_collectives.c $(pkg-config --cflags --libs sounder)
// Run: sounder launch --standalone -n 4 ./lesson
// Prints, in any order:
//   [0] broadcast from rank 3: 13
//   [1] broadcast from rank 3: 13
//   [2] broadcast from rank 3: 13
//   [3] broadcast from rank 3: 13
//   [0] greatest: 13
//   [0] sum of all: 46
//   [1] sum of all: 46
//   [2] sum of all: 46
//   [3] sum of all: 46
//   [0] sum of ranks 0 and 1: 21
//   [1] sum of ranks 0 and 1: 21
// Change: "must(group_reduce(" -> "must(rank == 2 ? group_barrier(group, &err) : group_reduce(": ends with code 70
// Change: "(uint32_t[]){0, 1}, 2" -> "(uint32_t[]){1, 3}, 2": prints [3] sum of ranks 0 and 1: 24
// Read: shm/group/group.h on the order of sums: why has all_reduce the same bits on all ranks and in every run?
#include <stdio.h>

#include "lesson.h"
#include <sounder/shm/group/group.h>

int main(void) {
    Error err;
    Group *group, *pair;
    must(group_init(&group, &(GroupConfig){.rank = -1, .size = -1, .timeout_seconds = 30}, &err), &err);
    const uint32_t rank = group_rank(group);
    const float mine = 10 + (float)rank;

    float copied = mine;
    must(group_broadcast(group, &copied, 1, GROUP_F32, 3, &err), &err);
    printf("broadcast from rank 3: %g\n", copied);

    float greatest;
    must(group_reduce(group, &greatest, &mine, 1, GROUP_F32, GROUP_MAX, 0, &err), &err);
    if (rank == 0) printf("greatest: %g\n", greatest); // no other rank has it

    float sum;
    must(group_all_reduce(group, &sum, &mine, 1, GROUP_F32, GROUP_SUM, &err), &err);
    printf("sum of all: %g\n", sum);

    must(group_subset(&pair, group, (uint32_t[]){0, 1}, 2, &err), &err);
    if (pair) { // NULL for ranks 2 and 3
        must(group_all_reduce(pair, &sum, &mine, 1, GROUP_F32, GROUP_SUM, &err), &err);
        printf("sum of ranks 0 and 1: %g\n", sum);
    }
    must(group_finish(pair, &err), &err);
    must(group_finish(group, &err), &err);
    return 0;
}

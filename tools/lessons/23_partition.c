// Lesson 23. Partition a data set.
//
// Who trains on what? Nothing is sent: every rank knows its number and computes its share. The contiguous split cuts
// the data set into runs. The distributed sampler deals the samples round like GPUs, so that all ranks take equally
// many: 10 samples for 3 ranks are made 12 by dealing the first two again, or 9 by leaving the last one out. For each
// epoch it shuffles the pack first, in the same way on all ranks, since they have the same seed.
//
// PyTorch: DistributedSampler(dataset, num_replicas, rank, shuffle, seed, drop_last) and set_epoch in the DDP
// tutorials; DataPartitioner in "Writing Distributed Applications".
//
// Question: which samples are trained on twice in an epoch in which 10 are made 12, and which one is left out where they
// are made 9? Is it the same one in each epoch?
// Build: cc -O2 -o lesson 23_partition.c $(pkg-config --cflags --libs sounder)
// Run: sounder launch -n 3 ./lesson
// Prints, in any order:
//   [0] contiguous: 3 samples from 0 on
//   [1] contiguous: 3 samples from 3 on
//   [2] contiguous: 4 samples from 6 on
//   [0] dealt: 0 3 6 9
//   [1] dealt: 1 4 7 0
//   [2] dealt: 2 5 8 1
//   [0] dealt, last dropped: 0 3 6
//   [1] dealt, last dropped: 1 4 7
//   [2] dealt, last dropped: 2 5 8
//   [0] epoch 1, shuffled: 5 9 6
//   [0] epoch 2, shuffled: 9 7 0
// Change: "sampler.drop_last = true;" -> "": prints [0] dealt, last dropped: 0 3 6 9
// Change: "&sampler, 2)" -> "&sampler, 1)": prints [0] epoch 2, shuffled: 5 9 6
// Read: datasets/partition.h: which partitioner makes clients differ, and how is one chosen on the command line?
#include <stdio.h>

#include <sounder/datasets/order.h>
#include "lesson.h"

enum { SAMPLES = 10 };

static void print_epoch(const char *title, const DistributedSampler *sampler, uint32_t epoch) {
    Error err;
    uint32_t indices[SAMPLES], order[SAMPLES];
    must(distributed_sampler_check(sampler, &err), &err);
    distributed_sampler_draw(indices, order, sampler, epoch);
    printf("%s:", title);
    for (uint32_t i = 0; i < distributed_sampler_count(sampler); i++)
        printf(" %u", indices[i]);
    printf("\n");
}

int main(void) {
    const char *rank = getenv("RANK"), *ranks = getenv("WORLD_SIZE"); // from sounder launch
    Error err = {.message = "RANK and WORLD_SIZE are not set; start this with sounder launch -n 3"};
    must(rank && ranks ? STATUS_OK : STATUS_USAGE, &err);
    DistributedSampler sampler = {.samples = SAMPLES, .ranks = (uint32_t)atoi(ranks), .rank = (uint32_t)atoi(rank)};

    uint32_t first, count;
    contiguous_split(&first, &count, SAMPLES, sampler.ranks, sampler.rank);
    printf("contiguous: %u samples from %u on\n", count, first);

    print_epoch("dealt", &sampler, 0);
    sampler.drop_last = true;
    print_epoch("dealt, last dropped", &sampler, 0);
    sampler.shuffle = true;
    if (sampler.rank == 0) print_epoch("epoch 1, shuffled", &sampler, 1);
    if (sampler.rank == 0) print_epoch("epoch 2, shuffled", &sampler, 2);
    return 0;
}

// Lesson 24. Average gradients: what DistributedDataParallel does.
//
// Every rank has the whole model and its own part of the data. Rank 0's weights are copied to all once; from then on
// all take the same steps, because each step uses the mean of all gradients. As the parts are equally large, that mean
// is the gradient of the whole data set: four ranks do what one would have done. all_reduce gives the same bits to all,
// so the copies never drift apart. The model is y = w x + b, the truth y = 2 x + 1.
//
//   rank 0   weights [ w b ]    its gradients ─▶ [ slot 0 | slot 1 | slot 2 | slot 3 ] ─▶ their mean
//   rank 1   weights [ w b ]    its gradients ─▶       mapped by all (lesson 21)      ─▶ the same
//            each its own, and never shared: only gradients travel, 8 bytes per step
//
// PyTorch, DDP tutorial (and average_gradients in "Writing Distributed Applications"):
//   model = DDP(model)                                           group_broadcast of the weights, once
//   loss.backward()                                              group_all_reduce of the gradients, at every step
//   dist.all_reduce(param.grad.data, op=dist.ReduceOp.SUM)
//   param.grad.data /= size                                      GROUP_AVG
//
// Question: the sums of four floats depend on their order. Who sees to it that all ranks add in the same one?
// Build: cc -O2 -o lesson 24_average_gradients.c $(pkg-config --cflags --libs sounder)
// Run: sounder launch --standalone -n 4 ./lesson
// Prints, in any order:
//   [0] rank 0: w 2.000, b 1.000, the same bits on all ranks: yes
//   [1] rank 1: w 2.000, b 1.000, the same bits on all ranks: yes
//   [2] rank 2: w 2.000, b 1.000, the same bits on all ranks: yes
//   [3] rank 3: w 2.000, b 1.000, the same bits on all ranks: yes
// Change: "must(group_broadcast(group, weights, WEIGHTS, GROUP_F32, 0, &err), &err);" -> "":
//   prints [1] rank 1: w 1.619, b 1.463, the same bits on all ranks: no
// Change: "must(group_all_reduce(group, gradients, gradients, WEIGHTS, GROUP_F32, GROUP_AVG, &err), &err);" -> "":
//   prints [0] rank 0: w 2.000, b 1.000, the same bits on all ranks: no
// Read: fedavg/worker/ssgd.c: the same with hundreds of thousands of weights. What is a bucket, and what is computed
// while it is summed?
#include <stdio.h>
#include <string.h>

#include <sounder/datasets/order.h>
#include "lesson.h"
#include <sounder/shm/group/group.h>

enum { SAMPLES = 64, STEPS = 300, WEIGHTS = 2 };

int main(void) {
    Error err;
    Group *group;
    must(group_init(&group, &(GroupConfig){.rank = -1, .size = -1, .timeout_seconds = 30}, &err), &err);
    const uint32_t rank = group_rank(group), size = group_size(group);
    const DistributedSampler sampler = {.samples = SAMPLES, .ranks = size, .rank = rank};
    const uint32_t count = distributed_sampler_count(&sampler);
    uint32_t indices[SAMPLES], order[SAMPLES];
    distributed_sampler_draw(indices, order, &sampler, 0);

    float weights[WEIGHTS] = {(float)rank, -(float)rank}; // w and b: every rank begins elsewhere ...
    must(group_broadcast(group, weights, WEIGHTS, GROUP_F32, 0, &err), &err); // ... but not for long
    for (int step = 0; step < STEPS; step++) {
        float gradients[WEIGHTS] = {0, 0};
        for (uint32_t i = 0; i < count; i++) {
            const float x = (float)indices[i] / (SAMPLES / 2) - 1, y = 2 * x + 1;
            const float error = weights[0] * x + weights[1] - y;
            gradients[0] += 2 * error * x / (float)count;
            gradients[1] += 2 * error / (float)count;
        }
        must(group_all_reduce(group, gradients, gradients, WEIGHTS, GROUP_F32, GROUP_AVG, &err), &err);
        for (int i = 0; i < WEIGHTS; i++)
            weights[i] -= 0.1f * gradients[i];
    }

    int32_t bits[WEIGHTS], least[WEIGHTS], greatest[WEIGHTS];
    memcpy(bits, weights, sizeof bits);
    must(group_all_reduce(group, least, bits, WEIGHTS, GROUP_I32, GROUP_MIN, &err), &err);
    must(group_all_reduce(group, greatest, bits, WEIGHTS, GROUP_I32, GROUP_MAX, &err), &err);
    const char *same = memcmp(least, greatest, sizeof least) == 0 ? "yes" : "no";
    printf("rank %u: w %.3f, b %.3f, the same bits on all ranks: %s\n", rank, weights[0], weights[1], same);
    must(group_finish(group, &err), &err);
    return 0;
}

// Lesson 25. Federated averaging.
//
// Each rank is a client whose data never leave it. In a round every client starts from the global model, trains on its
// own samples for a while, and only then are the models averaged, each with the weight of its number of samples. That
// is one message per round instead of one per step. The clients here know little of each other's world: client k has seen
// only x between k and k + 1, and its data are fewer the higher its number; yet the average finds the line that fits
// all. (At most 16 ranks: the step of a client grows with its x, and that of rank 16 would be too long.)
//
// group_all_reduce adds the ranks' parts in the order of the ranks. Rank 0 adds them in the other order, too, once as
// floats and once as whole numbers: a sum of floats depends on the order, since each addition is rounded; a sum of
// whole numbers does not.
//
// PyTorch: the seed of this project and of most federated learning code:
//   local = copy.deepcopy(model); train(local)                   train(local, ...)
//   for p in local.parameters(): p.data *= n / total             local[i] *= samples / total
//   dist.all_reduce(p.data)                                      group_all_reduce(group, global, local, ..., GROUP_SUM)
//
// Question: with eight ranks, is round 10 nearer to w = 2 or farther from it? Try it.
// Build: cc -O2 -o lesson 25_federated_averaging.c $(pkg-config --cflags --libs sounder)
// Run: sounder launch --standalone -n 4 ./lesson
// Prints:
//   [0] round 1: loss 0.046, w 1.429, b 1.200
//   [0] round 10: loss 0.000, w 1.929, b 1.085
//   [0] round 100: loss 0.000, w 2.000, b 1.000
//   [0] from the last rank to the first: <number> of 200 sums of floats are others, and 0 of whole numbers
// Change: "parts[last - rank][i];" -> "parts[rank][i];":
//   prints [0] from the last rank to the first: 0 of 200 sums of floats are others, and 0 of whole numbers
// Change: "LOCAL_EPOCHS = 5" -> "LOCAL_EPOCHS = 1": prints [0] round 10: loss 0.024, w 1.842, b 1.202
// Read: fedavg/rules/sum/aggregate.h: Sounder sums the updates as whole numbers. What does that make equal for 1, 2 and
// 4 workers that GROUP_SUM leaves different?
#include <stdio.h>
#include <string.h>

#include "lesson.h"
#include <sounder/shm/group/group.h>

enum { ROUNDS = 100, LOCAL_EPOCHS = 5, WEIGHTS = 2, MOST_SAMPLES = 40, MOST_RANKS = 16 };

typedef struct Client {
    uint32_t samples;
    float x[MOST_SAMPLES], y[MOST_SAMPLES]; // (samples)
} Client;

// Client k has 40 / (k + 1) samples of y = 2 x + 1 with x from k to k + 1.
static void collect(Client *client, uint32_t rank) {
    client->samples = MOST_SAMPLES / (rank + 1);
    for (uint32_t i = 0; i < client->samples; i++) {
        client->x[i] = (float)rank + (float)i / (float)client->samples;
        client->y[i] = 2 * client->x[i] + 1;
    }
}

// One pass of SGD over the client's samples, one by one. Returns their mean squared error on the way.
static float train(float weights[WEIGHTS], const Client *client) {
    float loss = 0;
    for (uint32_t i = 0; i < client->samples; i++) {
        const float error = weights[0] * client->x[i] + weights[1] - client->y[i];
        weights[0] -= 0.01f * error * client->x[i];
        weights[1] -= 0.01f * error;
        loss += error * error / (float)client->samples;
    }
    return loss;
}

// How many of the sums are others if they are added from the last rank to the first: of floats, and of the same
// numbers as multiples of 2^-40, which are whole numbers.
static void count_other_sums(int other[2], float (*const parts)[WEIGHTS], uint32_t ranks) {
    for (int i = 0; i < WEIGHTS; i++) {
        float up = 0, down = 0;
        int64_t whole_up = 0, whole_down = 0;
        for (uint32_t rank = 0, last = ranks - 1; rank < ranks; rank++) {
            up += parts[rank][i];
            down += parts[last - rank][i];
            whole_up += (int64_t)(parts[rank][i] * 0x1p40f);
            whole_down += (int64_t)(parts[last - rank][i] * 0x1p40f);
        }
        other[0] += up != down;
        other[1] += whole_up != whole_down;
    }
}

int main(void) {
    Error err;
    Group *group;
    must(group_init(&group, &(GroupConfig){.rank = -1, .size = -1, .timeout_seconds = 30}, &err), &err);
    if (group_size(group) > MOST_RANKS)
        must(fail(&err, STATUS_USAGE, "%u ranks, but the step suits at most %d", group_size(group), MOST_RANKS), &err);
    Client client;
    collect(&client, group_rank(group));
    const float samples = (float)client.samples;
    float total, global[WEIGHTS] = {0, 0}, parts[MOST_RANKS][WEIGHTS];
    int other[2] = {0, 0};
    must(group_all_reduce(group, &total, &samples, 1, GROUP_F32, GROUP_SUM, &err), &err);

    for (int round = 1; round <= ROUNDS; round++) {
        float local[WEIGHTS], loss = 0;
        memcpy(local, global, sizeof local);
        for (int epoch = 0; epoch < LOCAL_EPOCHS; epoch++)
            loss = train(local, &client);
        for (int i = 0; i < WEIGHTS; i++)
            local[i] *= samples / total;
        must(group_all_reduce(group, global, local, WEIGHTS, GROUP_F32, GROUP_SUM, &err), &err);
        must(group_gather(group, parts, local, WEIGHTS, GROUP_F32, 0, &err), &err);
        if (group_rank(group) == 0) count_other_sums(other, parts, group_size(group));
        must(group_reduce(group, &loss, &loss, 1, GROUP_F32, GROUP_AVG, 0, &err), &err);
        if (group_rank(group) == 0 && (round == 1 || round == 10 || round == ROUNDS))
            printf("round %d: loss %.3f, w %.3f, b %.3f\n", round, loss, global[0], global[1]);
    }
    if (group_rank(group) == 0)
        printf("from the last rank to the first: %d of %d sums of floats are others, and %d of whole numbers\n",
               other[0], WEIGHTS * ROUNDS, other[1]);
    must(group_finish(group, &err), &err);
    return 0;
}

// Exchanges of messages on a group, checked: whatever its transport.
#ifndef SOUNDER_TESTS_SHM_GROUP_GROUP_EXCHANGES_H
#define SOUNDER_TESTS_SHM_GROUP_GROUP_EXCHANGES_H

#include "ranks.h"

enum { LONG = 100000 }; // elements of a message that no ring holds

static inline void fill(int32_t *data, size_t count, int32_t first) {
    for (size_t i = 0; i < count; i++)
        data[i] = first + (int32_t)i;
}

static inline bool is_filled(const int32_t *data, size_t count, int32_t first) {
    for (size_t i = 0; i < count; i++)
        if (data[i] != first + (int32_t)i) return false;
    return true;
}

static inline void pass_round(Group *group, const void *context) {
    (void)context;
    Error err = {.message = ""};
    uint32_t rank = group_rank(group), size = group_size(group), from = (rank + size - 1) % size;
    const size_t counts[] = {0, 1, 7, 8, 9, 1000, LONG};
    int32_t *data = malloc(LONG * sizeof *data);
    require(data);
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        uint32_t source = 99;
        fill(data, counts[c], (int32_t)c);
        if (rank == 0) require_ok(group_send(group, data, counts[c], GROUP_I32, 1, &err));
        memset(data, 0, LONG * sizeof *data);
        require_ok(group_recv(group, data, &source, counts[c], GROUP_I32, (int)from, &err));
        require(source == from && is_filled(data, counts[c], (int32_t)c));
        if (rank != 0) require_ok(group_send(group, data, counts[c], GROUP_I32, (rank + 1) % size, &err));
    }
    free(data);
    require_ok(group_finish(group, &err));
}

// All send at once before any receives: the long messages can only advance while everybody waits for his own.
static inline void exchange_with_all(Group *group, const void *context) {
    (void)context;
    Error err = {.message = ""};
    uint32_t rank = group_rank(group), size = group_size(group);
    int32_t *out = malloc(LONG * sizeof *out), *in = malloc(size * LONG * sizeof *in);
    GroupRequest sends[RANKS_MOST], receives[RANKS_MOST];
    require(out && in);
    fill(out, LONG, (int32_t)rank);
    for (uint32_t other = 0; other < size; other++)
        if (other != rank) {
            require_ok(group_isend(group, &sends[other], out, LONG, GROUP_I32, other, &err));
            require_ok(group_irecv(group, &receives[other], in + other * LONG, LONG, GROUP_I32, (int)other, &err));
        }
    require_ok(group_barrier(group, &err)); // messages advance in any call
    for (uint32_t other = 0; other < size; other++)
        if (other != rank) {
            uint32_t source = 99;
            require_ok(group_wait(group, &receives[other], &source, &err));
            require_ok(group_wait(group, &sends[other], NULL, &err));
            require(source == other && is_filled(in + other * LONG, LONG, (int32_t)other));
        }
    free(out);
    free(in);
    require_ok(group_finish(group, &err));
}

enum { MANY = 3000 };

// Rank 0 hears everyone; each sender's messages come in his order.
static inline void gather_from_any(Group *group, const void *context) {
    (void)context;
    Error err = {.message = ""};
    uint32_t rank = group_rank(group), size = group_size(group);
    int64_t next[RANKS_MOST] = {0}, value;
    for (int64_t i = 0; i < MANY && rank != 0; i++)
        require_ok(group_send(group, &i, 1, GROUP_I64, 0, &err));
    for (uint32_t i = 0; i < MANY * (size - 1) && rank == 0; i++) {
        uint32_t source = 0;
        require_ok(group_recv(group, &value, &source, 1, GROUP_I64, GROUP_ANY, &err));
        require(source >= 1 && source < size && value == next[source]++);
    }
    require_ok(group_finish(group, &err));
}

// Several requests are open; each takes the message that its place in the order gives it.
static inline void match_in_order(Group *group, const void *context) {
    (void)context;
    Error err = {.message = ""};
    uint8_t values[4] = {0};
    GroupRequest requests[4];
    const int from[] = {2, GROUP_ANY, 2, 1};
    if (group_rank(group) == 0)
        for (int i = 0; i < 4; i++)
            require_ok(group_irecv(group, &requests[i], &values[i], 1, GROUP_U8, from[i], &err));
    require_ok(group_barrier(group, &err));
    if (group_rank(group) == 2)
        for (uint8_t value = 20; value < 23; value++)
            require_ok(group_send(group, &value, 1, GROUP_U8, 0, &err));
    for (int i = 2; group_rank(group) == 0 && i >= 0; i--)
        require_ok(group_wait(group, &requests[i], NULL, &err));
    require_ok(group_barrier(group, &err)); // the one for any sender has been taken by rank 2
    if (group_rank(group) == 1) require_ok(group_send(group, &(uint8_t){10}, 1, GROUP_U8, 0, &err));
    if (group_rank(group) == 0) {
        require_ok(group_wait(group, &requests[3], NULL, &err));
        require(values[0] == 20 && values[1] == 21 && values[2] == 22 && values[3] == 10);
    }
    require_ok(group_finish(group, &err));
}

static inline void test_until_done(Group *group, const void *context) {
    (void)context;
    Error err = {.message = ""};
    int32_t *data = malloc(LONG * sizeof *data);
    GroupRequest request;
    bool done = false;
    uint32_t source = 99;
    require(data);
    if (group_rank(group) == 0) {
        fill(data, LONG, 5);
        require_ok(group_isend(group, &request, data, LONG, GROUP_I32, 1, &err));
        require(!request.done); // nobody receives it yet
        require_ok(group_barrier(group, &err));
    } else {
        require_ok(group_irecv(group, &request, data, LONG, GROUP_I32, GROUP_ANY, &err));
        require_ok(group_test(group, &request, &done, &source, &err));
        require_ok(group_barrier(group, &err));
    }
    while (!done)
        require_ok(group_test(group, &request, &done, &source, &err));
    require_ok(group_test(group, &request, &done, NULL, &err)); // again is no harm, nor is a wait
    require_ok(group_wait(group, &request, NULL, &err));
    if (group_rank(group) == 1) require(source == 0 && is_filled(data, LONG, 5));
    free(data);
    require_ok(group_finish(group, &err));
}

static inline void refuse_arguments(Group *group, const void *context) {
    (void)context;
    Error err = {.message = ""};
    float data[8] = {0};
    uint32_t rank = group_rank(group);
    require(group_send(group, data, 1, GROUP_F32, rank, &err) == STATUS_USAGE && strstr(err.message, "itself"));
    require(group_recv(group, data, NULL, 1, GROUP_F32, (int)rank, &err) == STATUS_USAGE);
    require(strstr(err.message, "cannot receive a message from itself: name another rank"));
    require(group_send(group, data, 1, GROUP_F32, 2, &err) == STATUS_USAGE && strstr(err.message, "ranks 0 to 1"));
    require(group_recv(group, data, NULL, 1, GROUP_F32, -2, &err) == STATUS_USAGE);
    require(group_broadcast(group, data, 1, GROUP_F32, 2, &err) == STATUS_USAGE && strstr(err.message, "root 2"));
    require(group_send(group, data, SIZE_MAX / 2, GROUP_F32, 1 - rank, &err) == STATUS_USAGE);
    for (GroupOp op = GROUP_BAND; op <= GROUP_BXOR; op++)
        for (GroupType type = GROUP_F32; type <= GROUP_F64; type++)
            require(group_all_reduce(group, data, data, 1, type, op, &err) == STATUS_USAGE);
    data[0] = 1; // the group works as if nothing had been
    require_ok(group_all_reduce(group, data, data, 1, GROUP_F32, GROUP_SUM, &err));
    require(data[0] == 2);
    require_ok(group_finish(group, &err));
}

#endif

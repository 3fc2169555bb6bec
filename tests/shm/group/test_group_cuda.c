// Groups whose buffers are on one GPU: every collective, type and combination, messages, parts, and a death. The
// test's executable starts itself again as ranks, since no process may be forked from one that has used the GPU.
#include <cuda_runtime_api.h>
#include <spawn.h>

#include "group_everything.h"
#include "tests/gpu/gpu.h"

enum { DEADLINE_SECONDS = 560, LONG = 100000 };

// Rank ---------------------------------------------------------------------------------------------------------------

static void require_cuda(cudaError_t error) {
    if (error != cudaSuccess) requirement_not_met(cudaGetErrorString(error), "CUDA", 0);
}

// Buffers of a rank, (size, count) elements each, on the host and on the GPU.
typedef struct GpuBuffers {
    Buffers host;
    void *in, *out;
} GpuBuffers;

static GpuBuffers gpu_buffers_init(const Group *group, size_t count, GroupType type) {
    GpuBuffers buffers = {.host = buffers_init(group, count, type)};
    require_cuda(cudaMalloc(&buffers.in, buffers.host.bytes + GUARD_BYTES));
    require_cuda(cudaMalloc(&buffers.out, buffers.host.bytes + GUARD_BYTES));
    return buffers;
}

static void gpu_buffers_free(GpuBuffers *buffers) {
    cudaFree(buffers->in);
    cudaFree(buffers->out);
    buffers_free(&buffers->host);
}

static void fill(const GpuBuffers *b, uint32_t rank) {
    buffers_fill(&b->host, rank);
    require_cuda(cudaMemcpy(b->in, b->host.in, b->host.bytes + GUARD_BYTES, cudaMemcpyHostToDevice));
    require_cuda(cudaMemcpy(b->out, b->host.out, b->host.bytes + GUARD_BYTES, cudaMemcpyHostToDevice));
}

// `written` elements of out were to be written.
static void fetch(const GpuBuffers *b, size_t written) {
    require_cuda(cudaMemcpy(b->host.in, b->in, b->host.bytes + GUARD_BYTES, cudaMemcpyDeviceToHost));
    require_cuda(cudaMemcpy(b->host.out, b->out, b->host.bytes + GUARD_BYTES, cudaMemcpyDeviceToHost));
    require_guards(&b->host, written);
}

static void combine_on_gpu(Group *group, const GpuBuffers *b, GroupOp op) {
    Error err = {.message = ""};
    uint32_t rank = group_rank(group), size = group_size(group), root = size / 2;
    size_t count = b->host.count;
    GroupType type = b->host.type;

    fill(b, rank);
    require_ok(group_all_reduce(group, b->out, b->in, count, type, op, &err));
    require_ok(group_all_reduce(group, b->in, b->in, count, type, op, &err)); // in place
    fetch(b, count);
    for (size_t i = 0; i < count; i++)
        require(holds(b->host.out, i, type, combined(size, i, op)) &&
                holds(b->host.in, i, type, combined(size, i, op)));

    fill(b, rank);
    require_ok(group_reduce(group, rank == root ? b->out : NULL, b->in, count, type, op, root, &err));
    fetch(b, rank == root ? count : 0);
    for (size_t i = 0; i < count && rank == root; i++)
        require(holds(b->host.out, i, type, combined(size, i, op)));

    require_ok(group_reduce_scatter(group, b->out, b->in, count, type, op, &err));
    fetch(b, count);
    for (size_t i = 0; i < count; i++)
        require(holds(b->host.out, i, type, combined(size, rank * count + i, op)));
}

static void copy_on_gpu(Group *group, const GpuBuffers *b) {
    Error err = {.message = ""};
    uint32_t rank = group_rank(group), size = group_size(group), root = size - 1;
    size_t count = b->host.count;
    GroupType type = b->host.type;

    fill(b, rank);
    require_ok(group_gather(group, rank == root ? b->out : NULL, b->in, count, type, root, &err));
    fetch(b, rank == root ? size * count : 0);
    if (rank == root) require_rows(group, &b->host, 0);
    require_ok(group_all_gather(group, b->out, b->in, count, type, &err));
    fetch(b, size * count);
    require_rows(group, &b->host, 0);
    require_ok(group_all_to_all(group, b->out, b->in, count, type, &err));
    fetch(b, size * count);
    require_rows(group, &b->host, rank);

    fill(b, rank);
    require_ok(group_scatter(group, b->out, rank == root ? b->in : NULL, count, type, root, &err));
    require_ok(group_broadcast(group, b->in, count, type, root, &err));
    fetch(b, count);
    for (size_t i = 0; i < count; i++) {
        require(holds(b->host.out, i, type, (double)input_of(root, rank * count + i)));
        require(holds(b->host.in, i, type, (double)input_of(root, i)));
    }
}

static void do_everything(Group *group) {
    Error err = {.message = ""};
    const size_t counts[] = {0, 1, 37, 3001};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (GroupType type = GROUP_F32; type <= GROUP_U8; type++) {
            GpuBuffers buffers = gpu_buffers_init(group, counts[c], type);
            for (GroupOp op = GROUP_SUM; op <= GROUP_BXOR; op++)
                if (op <= GROUP_AVG || type >= GROUP_I32) combine_on_gpu(group, &buffers, op);
            copy_on_gpu(group, &buffers);
            gpu_buffers_free(&buffers);
        }
    require_ok(group_finish(group, &err));
}

static void do_large(Group *group) {
    Error err = {.message = ""};
    GpuBuffers buffers = gpu_buffers_init(group, LONG, GROUP_F32);
    combine_on_gpu(group, &buffers, GROUP_SUM);
    copy_on_gpu(group, &buffers);
    gpu_buffers_free(&buffers);
    require_ok(group_finish(group, &err));
}

// Everybody sends everybody a long message at once, then a short one to the next in a part.
static void do_messages(Group *group) {
    Error err = {.message = ""};
    uint32_t rank = group_rank(group), size = group_size(group), source = 99;
    GpuBuffers b = gpu_buffers_init(group, LONG, GROUP_I32);
    int32_t *out = b.out;
    GroupRequest sends[RANKS_MOST], receives[RANKS_MOST];
    fill(&b, rank);
    for (uint32_t other = 0; other < size; other++)
        if (other != rank) {
            require_ok(group_isend(group, &sends[other], b.in, LONG, GROUP_I32, other, &err));
            require_ok(group_irecv(group, &receives[other], out + other * LONG, LONG, GROUP_I32, (int)other, &err));
        }
    for (uint32_t other = 0; other < size; other++)
        if (other != rank) {
            require_ok(group_wait(group, &receives[other], &source, &err));
            require_ok(group_wait(group, &sends[other], NULL, &err));
        }
    require_cuda(cudaMemcpy(out + rank * LONG, b.in, LONG * sizeof *out, cudaMemcpyDeviceToDevice));
    fetch(&b, size * LONG);
    require_rows(group, &b.host, 0);

    Group *part;
    require_ok(group_split(&part, group, (int)(rank % 2), 0, &err));
    fill(&b, rank);
    require_ok(group_broadcast(part, b.in, 5, GROUP_I32, 0, &err));
    fetch(&b, 0);
    for (size_t i = 0; i < 5; i++)
        require(holds(b.host.in, i, GROUP_I32, (double)input_of(rank % 2, i)));
    require_ok(group_finish(part, &err));
    gpu_buffers_free(&b);
    require_ok(group_finish(group, &err));
}

static void do_die(Group *group) {
    Error err = {.message = ""};
    GpuBuffers b = gpu_buffers_init(group, LONG, GROUP_F32);
    fill(&b, group_rank(group));
    require_ok(group_all_reduce(group, b.out, b.in, LONG, GROUP_F32, GROUP_SUM, &err));
    if (group_rank(group) == 1) raise(SIGKILL);
    require(group_all_reduce(group, b.out, b.in, LONG, GROUP_F32, GROUP_SUM, &err) == STATUS_PEER_DIED);
    require(group_failed_rank(group) == 1);
    gpu_buffers_free(&b);
    require(group_finish(group, &err) == STATUS_PEER_DIED);
}

// Rank 0 sends from an address that the GPU refuses: rank 1 waits for its message.
static void do_stray(Group *group) {
    Error err = {.message = ""};
    GpuBuffers b = gpu_buffers_init(group, LONG, GROUP_F32);
    const Status status = group_rank(group) == 0 ? group_send(group, (void *)(uintptr_t)8, LONG, GROUP_F32, 1, &err)
                                                 : group_recv(group, b.out, NULL, LONG, GROUP_F32, 0, &err);
    require(status == STATUS_UNAVAILABLE && strstr(err.message, "on the GPU between ranks"));
    require(group_failed_rank(group) == -1);
    gpu_buffers_free(&b);
    require(group_finish(group, &err) == STATUS_UNAVAILABLE);
}

static const struct Scenario {
    const char *name;
    void (*function)(Group *group);
} scenarios[] = {{"everything", do_everything},
                 {"large", do_large},
                 {"messages", do_messages},
                 {"die", do_die},
                 {"stray", do_stray}};

// test_group_cuda rank SCENARIO PLACE RANK SIZE
static int rank_main(char **arguments) {
    Device device;
    Error err = {.message = ""};
    Group *group;
    deadline_join();
    alarm(DEADLINE_SECONDS);
    require_ok(device_open(&device, -1, &err));
    GroupConfig config = {.init = arguments[3],
                          .rank = atoi(arguments[4]),
                          .size = atoi(arguments[5]),
                          .timeout_seconds = RANKS_TIMEOUT_SECONDS,
                          .memory = GROUP_CUDA};
    require_ok(group_init(&group, &config, &err));
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
        if (strcmp(scenarios[i].name, arguments[2]) == 0) scenarios[i].function(group);
    device_close();
    return 0;
}

// Test ---------------------------------------------------------------------------------------------------------------

static int run_on_gpu(uint32_t size, const char *scenario) {
    pid_t pids[RANKS_MOST];
    char place[64], ranks[RANKS_MOST][12], size_text[12];
    meeting_place(place);
    snprintf(size_text, sizeof size_text, "%u", size);
    for (uint32_t rank = 0; rank < size; rank++) {
        snprintf(ranks[rank], sizeof ranks[rank], "%u", rank);
        char *arguments[] = {
            (char *)"test", (char *)"rank", (char *)(uintptr_t)scenario, place, ranks[rank], size_text, NULL};
        assert_int_equal(posix_spawn(&pids[rank], "/proc/self/exe", NULL, NULL, arguments, environ), 0);
    }
    return wait_for_ranks(pids, size);
}

static void every_collective_on_one_gpu_is_exact(void **state) {
    (void)state;
    const uint32_t sizes[] = {1, 2, 3, 7};
    for (int i = 0; i < 4; i++)
        assert_int_equal(run_on_gpu(sizes[i], "everything"), 0);
}

static void data_of_many_chunks_on_the_gpu_is_exact_too(void **state) {
    (void)state;
    assert_int_equal(run_on_gpu(3, "large"), 0);
}

static void messages_and_parts_work_on_the_gpu(void **state) {
    (void)state;
    assert_int_equal(run_on_gpu(4, "messages"), 0);
}

static void a_death_is_named_to_the_others_on_the_gpu(void **state) {
    (void)state;
    assert_int_equal(run_on_gpu(3, "die"), 0);
}

static void a_message_that_cannot_be_moved_fails_on_both_its_ranks(void **state) {
    (void)state;
    assert_int_equal(run_on_gpu(2, "stray"), 0);
}

int main(int argc, char **argv) {
    if (argc == 6 && strcmp(argv[1], "rank") == 0) return rank_main(argv);
    deadline_set(DEADLINE_SECONDS);
    if (gpu_is_missing()) return GPU_TEST_SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_collective_on_one_gpu_is_exact),
        cmocka_unit_test(data_of_many_chunks_on_the_gpu_is_exact_too),
        cmocka_unit_test(messages_and_parts_work_on_the_gpu),
        cmocka_unit_test(a_death_is_named_to_the_others_on_the_gpu),
        cmocka_unit_test(a_message_that_cannot_be_moved_fails_on_both_its_ranks),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}

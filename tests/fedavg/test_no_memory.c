// What takes memory says so in one sentence when there is none, and holds on to nothing.
#include "tests/no_memory.h"

#include <stdlib.h>
#include <unistd.h>

#include "datasets/partition.h"
#include "datasets/unpacked_cache.h"
#include "fedavg/nodes/nodes.h"
#include "fedavg/parent/ssgd_exchange.h"
#include "nn/net.h"
#include "shm/group/group.h"
#include "shm/segment.h"
#include "tests/datasets/idx_files.h"

static Status read_synthetic(void *block, Error *err) {
    DatasetSource source;
    TRY(dataset_find(&source, "synthetic:1x6x6:20:10", 1, err));
    return dataset_read(block, &source, err);
}

static void the_synthetic_data_set_needs_its_prototypes(void **state) {
    (void)state;
    void *block = aligned_alloc(64, 1 << 16);
    no_memory_sweep("a synthetic data set", read_synthetic, block);
    free(block);
}

static void a_copy_that_cannot_be_mapped_is_not_used(void **state) {
    struct timespec changed;
    DatasetSource source;
    Error err;
    int fd = -1;
    setenv("SOUNDER_CACHE", "on", 1);
    setenv("XDG_CACHE_HOME", *state, 1);
    idx_files_write(*state, GRAY_SET, true);
    check_ok(dataset_find(&source, *state, 1, &err));
    void *block = aligned_alloc(64, source.block_bytes);
    check_ok(dataset_read(block, &source, &err));
    unpacked_cache_keep(block, &source);
    no_memory.until_failure = 1;
    assert_false(unpacked_cache_open(&fd, &changed, &source));
    assert_int_equal(no_memory.until_failure, 0);
    assert_true(unpacked_cache_open(&fd, &changed, &source));
    close(fd);
    free(block);
    setenv("SOUNDER_CACHE", "off", 1);
    unsetenv("XDG_CACHE_HOME");
}

static Status build_partitions(void *block, Error *err) {
    static const uint16_t labels[40] = {0, 1, 2, 3, 1, 2, 3, 3, 3, 1};
    static const char *const texts[] = {"dirichlet",          "shards",
                                        "inner-dirichlet",    "pathological",
                                        "shard per-client=2", "linear",
                                        "size sizes=10",      "noniid-label",
                                        "noniid-labeldir",    "distribution preassigned=1",
                                        "similarity",         "iid-diff-quantity minimum=0"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        PartitionSpec spec = {.clients = 4, .seed = 1};
        TRY(partition_parse(&spec.form, texts[i], err));
        TRY(partition_build(block, &spec, labels, 40, 4, err));
    }
    return STATUS_OK;
}

static void partitions_by_label_need_room_to_sort(void **state) {
    (void)state;
    uint64_t block[128];
    no_memory_sweep("partitions", build_partitions, block);
}

static Status make_net(void *context, Error *err) {
    Net net;
    TRY(net_init(&net, context, kernels_best(), err));
    net_free(&net);
    return STATUS_OK;
}

static void a_net_needs_its_arena(void **state) {
    (void)state;
    Spec spec;
    Error err;
    check_ok(spec_parse(&spec, "conv 4 3; relu; linear 10", (Shape){1, 8, 8}, 10, &err));
    no_memory_sweep("a net", make_net, &spec);
    check_ok(spec_parse(&spec, "linear 1030; relu; linear 1030; relu; linear 10", (Shape){1, 8, 8}, 10, &err));
    no_memory_sweep("a net that multiplies through OpenBLAS", make_net, &spec);
}

static Status share_and_meet(void *context, Error *err) {
    Segment segment;
    Group *group;
    TRY(segment_create(&segment, "numbers", 1000, err));
    Status status = group_init(&group, &(GroupConfig){.init = context, .size = 1}, err);
    segment_free(&segment);
    return status == STATUS_OK ? group_finish(group, err) : status;
}

static void a_segment_and_a_group_need_their_memory(void **state) {
    char meeting[SCRATCH_PATH_BYTES + 16];
    snprintf(meeting, sizeof meeting, "file://%s/meeting", (const char *)*state);
    no_memory_sweep("a segment and a group", share_and_meet, meeting);
}

// Two nodes of which only this one exists: their transport opens, and after that it refuses.
static Status open_pair(NodesConnection **connection, uint32_t *rank, uint32_t *size, Error *err) {
    (void)connection, (void)err;
    *rank = 0, *size = 2;
    return STATUS_OK;
}

static Status refuse_to_gather(NodesConnection *connection, void *all, const void *mine, const size_t *counts,
                               Error *err) {
    (void)connection, (void)all, (void)mine, (void)counts;
    return fail(err, STATUS_UNAVAILABLE, "there is no other node");
}

Status nodes_transport_load(const NodesTransport **transport, Error *err) {
    static const NodesTransport alone = {.open = open_pair, .begin_gather = refuse_to_gather};
    (void)err;
    *transport = &alone;
    return STATUS_OK;
}

static Status join_nodes(void *context, Error *err) {
    Nodes nodes;
    Status status = nodes_init(&nodes, err);
    (void)context;
    return status == STATUS_UNAVAILABLE ? STATUS_OK : status; // they came as far as the meeting
}

static void nodes_need_room_for_each_other(void **state) {
    (void)state;
    setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
    no_memory_sweep("two nodes", join_nodes, NULL);
    unsetenv("OMPI_COMM_WORLD_SIZE");
}

static Status make_exchange(void *context, Error *err) {
    Nodes nodes = {.rank = 1, .size = 2};
    Exchange exchange;
    TRY(exchange_init(&exchange, context, &nodes, err));
    exchange_free(&exchange);
    return STATUS_OK;
}

static void an_exchange_needs_room_for_every_nodes_sums(void **state) {
    (void)state;
    static RunConfig config = {.clients = 5, .nodes = 2, .node = 1};
    const RunMemory memory = {.config = &config};
    Error err;
    check_ok(spec_parse(&config.spec, "conv 4 3; relu; linear 10", (Shape){1, 8, 8}, 10, &err));
    config.parameters = config.spec.parameter_count;
    no_memory_sweep("an exchange", make_exchange, (void *)(uintptr_t)&memory);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_synthetic_data_set_needs_its_prototypes),
        cmocka_unit_test_setup_teardown(a_copy_that_cannot_be_mapped_is_not_used, scratch_set_up, scratch_tear_down),
        cmocka_unit_test(partitions_by_label_need_room_to_sort),
        cmocka_unit_test(a_net_needs_its_arena),
        cmocka_unit_test_setup_teardown(a_segment_and_a_group_need_their_memory, scratch_set_up, scratch_tear_down),
        cmocka_unit_test(nodes_need_room_for_each_other),
        cmocka_unit_test(an_exchange_needs_room_for_every_nodes_sums),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}

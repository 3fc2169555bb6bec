// The limits of control groups, versions 1 and 2, in folders that look like the kernel's.
#include "base/cgroup.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/check.h"

typedef struct Tree {
    char root[64], membership[80];
} Tree;

static void write_file(const Tree *tree, const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", tree->root, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void make_folder(const Tree *tree, const char *name) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", tree->root, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

static void plant(Tree *tree, const char *membership) {
    snprintf(tree->root, sizeof tree->root, "/tmp/sounder-cgroup-XXXXXX");
    assert_non_null(mkdtemp(tree->root));
    snprintf(tree->membership, sizeof tree->membership, "%s/membership", tree->root);
    write_file(tree, "membership", membership);
}

static void fell(const Tree *tree) {
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", tree->root);
    assert_int_equal(system(command), 0);
}

static int cores(int most, const Tree *tree) {
    return cgroup_cores(most, tree->membership, tree->root);
}

static uint64_t memory_left(const Tree *tree) {
    return cgroup_memory_left(tree->membership, tree->root);
}

static void the_tightest_quota_of_version_2_limits_the_cores(void **state) {
    (void)state;
    Tree tree;
    plant(&tree, "9:cpu:/other\n0::/job/not-mounted\n");
    make_folder(&tree, "job");
    assert_int_equal(cores(16, &tree), 16); // no quota anywhere
    write_file(&tree, "cpu.max", "max 100000\n");
    assert_int_equal(cores(16, &tree), 16);
    write_file(&tree, "job/cpu.max", "350000 100000\n");
    assert_int_equal(cores(16, &tree), 3);
    assert_int_equal(cores(2, &tree), 2);
    write_file(&tree, "cpu.max", "200000 100000\n"); // the tighter of the two counts
    assert_int_equal(cores(16, &tree), 2);
    write_file(&tree, "cpu.max", "50000 100000\n");
    assert_int_equal(cores(16, &tree), 1);
    write_file(&tree, "cpu.max", "\n");
    assert_int_equal(cores(16, &tree), 3);
    assert_int_equal(cgroup_cores(16, "/nonexistent", tree.root), 16);
    fell(&tree);
}

static void the_tightest_quota_of_version_1_limits_the_cores(void **state) {
    (void)state;
    Tree tree;
    plant(&tree, "11:memory:/job\n3:cpuset:/\n2:cpuacct,cpu:/job\n0::/\n");
    make_folder(&tree, "cpu");
    make_folder(&tree, "cpu/job");
    write_file(&tree, "cpu/cpu.cfs_quota_us", "-1\n");
    write_file(&tree, "cpu/cpu.cfs_period_us", "100000\n");
    assert_int_equal(cores(16, &tree), 16);
    write_file(&tree, "cpu/job/cpu.cfs_quota_us", "300000\n");
    assert_int_equal(cores(16, &tree), 16); // of no known period
    write_file(&tree, "cpu/job/cpu.cfs_period_us", "100000\n");
    assert_int_equal(cores(16, &tree), 3);
    write_file(&tree, "cpu/cpu.cfs_quota_us", "50000\n");
    assert_int_equal(cores(16, &tree), 1);
    fell(&tree);
}

static void the_tightest_memory_limit_of_version_2_counts_and_cached_files_are_free(void **state) {
    (void)state;
    Tree tree;
    plant(&tree, "0::/job/step\n");
    make_folder(&tree, "job");
    make_folder(&tree, "job/step");
    assert_true(memory_left(&tree) == UINT64_MAX);
    write_file(&tree, "job/step/memory.max", "max\n");
    write_file(&tree, "job/step/memory.current", "1000\n");
    assert_true(memory_left(&tree) == UINT64_MAX);
    write_file(&tree, "job/memory.max", "5000\n");
    assert_true(memory_left(&tree) == UINT64_MAX); // without a word on what is in use
    write_file(&tree, "job/memory.current", "3000\n");
    assert_int_equal(memory_left(&tree), 2000);
    write_file(&tree, "job/memory.stat", "anon 1500\nfile 1400\ninactive_file 300\nactive_file 200\nshmem 900\n");
    assert_int_equal(memory_left(&tree), 2500);
    write_file(&tree, "job/step/memory.max", "2200\n");
    assert_int_equal(memory_left(&tree), 1200);
    write_file(&tree, "job/step/memory.max", "900\n");
    assert_int_equal(memory_left(&tree), 0);
    fell(&tree);
}

static void the_tightest_memory_limit_of_version_1_counts_and_cached_files_are_free(void **state) {
    (void)state;
    Tree tree;
    plant(&tree, "4:memory:/job/not-mounted\n2:cpu:/\n0::/\n");
    make_folder(&tree, "memory");
    write_file(&tree, "memory/memory.limit_in_bytes", "9223372036854771712\n");
    write_file(&tree, "memory/memory.usage_in_bytes", "3000\n");
    assert_true(memory_left(&tree) > (uint64_t)1 << 62);
    write_file(&tree, "memory/memory.limit_in_bytes", "5000\n"); // of a container's own group, mounted at the root
    write_file(&tree, "memory/memory.stat", "inactive_file 9\ntotal_inactive_file 300\ntotal_active_file 200\n");
    assert_int_equal(memory_left(&tree), 2500);
    fell(&tree);
}

static void the_kernels_kills_for_memory_are_counted(void **state) {
    (void)state;
    Tree tree;
    plant(&tree, "4:memory:/job\n0::/\n");
    const uint64_t machine = cgroup_memory_kills(tree.membership, tree.root);
    assert_true(cgroup_memory_kills("/nonexistent", tree.root) >= machine);
    make_folder(&tree, "memory");
    write_file(&tree, "memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1007\n");
    assert_int_equal(cgroup_memory_kills(tree.membership, tree.root), 1007);
    write_file(&tree, "membership", "0::/\n");
    write_file(&tree, "memory.events", "low 0\nhigh 0\nmax 12\noom 3\noom_kill 1002\noom_group_kill 0\n");
    assert_int_equal(cgroup_memory_kills(tree.membership, tree.root), 1002);
    fell(&tree);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_tightest_quota_of_version_2_limits_the_cores),
        cmocka_unit_test(the_tightest_quota_of_version_1_limits_the_cores),
        cmocka_unit_test(the_tightest_memory_limit_of_version_2_counts_and_cached_files_are_free),
        cmocka_unit_test(the_tightest_memory_limit_of_version_1_counts_and_cached_files_are_free),
        cmocka_unit_test(the_kernels_kills_for_memory_are_counted),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}

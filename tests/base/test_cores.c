// The default number of workers: what the affinity mask and the cgroup's quota leave. Subnormal numbers as zeros.
#include "base/cores.h"

#include <float.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/check.h"

static void write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void a_cpu_quota_limits_the_usable_cores(void **state) {
    (void)state;
    char root[] = "/tmp/sounder-cgroup-XXXXXX", group[64], membership[64];
    assert_non_null(mkdtemp(root));
    snprintf(group, sizeof group, "%s/job", root);
    assert_int_equal(mkdir(group, 0700), 0);
    snprintf(membership, sizeof membership, "%s/membership", root);
    write_file(membership, "9:cpu:/other\n0::/job/not-mounted\n");
    char root_quota[64], group_quota[80];
    snprintf(root_quota, sizeof root_quota, "%s/cpu.max", root);
    snprintf(group_quota, sizeof group_quota, "%s/cpu.max", group);

    assert_int_equal(cores_within_quota(16, membership, root), 16); // no quota anywhere
    write_file(root_quota, "max 100000\n");
    assert_int_equal(cores_within_quota(16, membership, root), 16);
    write_file(group_quota, "350000 100000\n");
    assert_int_equal(cores_within_quota(16, membership, root), 3);
    assert_int_equal(cores_within_quota(2, membership, root), 2);
    write_file(root_quota, "200000 100000\n"); // the tighter of the two counts
    assert_int_equal(cores_within_quota(16, membership, root), 2);
    write_file(root_quota, "50000 100000\n");
    assert_int_equal(cores_within_quota(16, membership, root), 1);
    write_file(root_quota, "\n");
    assert_int_equal(cores_within_quota(16, membership, root), 3);
    assert_int_equal(cores_within_quota(16, "/nonexistent", root), 16);

    unlink(root_quota);
    unlink(group_quota);
    unlink(membership);
    rmdir(group);
    rmdir(root);
}

static void the_affinity_mask_limits_the_usable_cores(void **state) {
    (void)state;
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    assert_in_range(cores_usable(), 1, CPU_COUNT(&before));
    size_t core = 0;
    while (!CPU_ISSET(core, &before))
        core++;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    int usable = cores_usable();
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_int_equal(usable, 1);
}

#if defined __x86_64__ || defined __aarch64__
typedef struct Smallest {
    volatile float half, of_child;
} Smallest;

static float half_of_the_smallest(void) {
    volatile float smallest = FLT_MIN;
    return smallest / 2;
}

static void *halve(void *smallest) {
    ((Smallest *)smallest)->of_child = half_of_the_smallest();
    return NULL;
}

static void *flush_and_halve(void *smallest) {
    subnormals_flush();
    ((Smallest *)smallest)->half = half_of_the_smallest();
    pthread_t child;
    if (pthread_create(&child, NULL, halve, smallest) == 0) pthread_join(child, NULL);
    return NULL;
}

static void a_thread_and_those_that_it_starts_take_subnormals_for_zero(void **state) {
    (void)state;
    Smallest smallest = {.half = 1, .of_child = 1};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, flush_and_halve, &smallest), 0);
    pthread_join(thread, NULL);
    assert_true(smallest.half == 0 && smallest.of_child == 0);
    assert_true(half_of_the_smallest() > 0); // nobody else does
}
#endif

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cpu_quota_limits_the_usable_cores),
        cmocka_unit_test(the_affinity_mask_limits_the_usable_cores),
#if defined __x86_64__ || defined __aarch64__
        cmocka_unit_test(a_thread_and_those_that_it_starts_take_subnormals_for_zero),
#endif
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}

// The default number of workers: what the affinity mask and Slurm leave. Subnormal numbers as zeros.
#include "base/cores.h"

#include <float.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "tests/check.h"

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

static void a_slurm_task_has_the_cores_that_slurm_gave_it(void **state) {
    (void)state;
    const int cores = cores_usable();
    if (cores < 2) skip();
    setenv("SLURM_CPUS_ON_NODE", "1", 1);
    assert_int_equal(cores_usable(), 1);
    setenv("SLURM_CPUS_ON_NODE", "100000", 1);
    setenv("SLURM_CPUS_PER_TASK", "1", 1);
    assert_int_equal(cores_usable(), cores); // a batch script has the cores of all its tasks
    setenv("SLURM_STEP_NUM_TASKS", "4", 1);
    assert_int_equal(cores_usable(), 1);
    unsetenv("SLURM_STEP_NUM_TASKS");
    unsetenv("SLURM_CPUS_PER_TASK");
    unsetenv("SLURM_CPUS_ON_NODE");
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
        cmocka_unit_test(the_affinity_mask_limits_the_usable_cores),
        cmocka_unit_test(a_slurm_task_has_the_cores_that_slurm_gave_it),
#if defined __x86_64__ || defined __aarch64__
        cmocka_unit_test(a_thread_and_those_that_it_starts_take_subnormals_for_zero),
#endif
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}

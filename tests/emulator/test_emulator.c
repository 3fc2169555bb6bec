// The emulated GPU itself: that it runs kernels, streams and graphs as a GPU does, and that it notices mistakes.
#include "test_emulator.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "emulator.h"
#include "tests/check.h"
#include "tests/deadline.h"

enum { COUNT = 1000, BLOCKS = 3 };

#define check_cuda(call)                                                                                               \
    do {                                                                                                               \
        cudaError_t check_error_ = (call);                                                                             \
        if (check_error_ != cudaSuccess) fail_msg("%s: %s", #call, cudaGetErrorString(check_error_));                  \
    } while (0)

static int reset(void **state) {
    (void)state;
    emulator_reset();
    check_cuda(cudaSetDevice(0));
    return 0;
}

static float *device_floats(size_t count) {
    void *memory = NULL;
    check_cuda(cudaMalloc(&memory, count * sizeof(float)));
    return memory;
}

// 0, 1, 2, ...
static float *device_numbers(size_t count) {
    float *numbers = malloc(count * sizeof(float));
    for (size_t i = 0; i < count; i++)
        numbers[i] = (float)i;
    float *memory = device_floats(count);
    check_cuda(cudaMemcpy(memory, numbers, count * sizeof(float), cudaMemcpyHostToDevice));
    free(numbers);
    return memory;
}

static float device_value(const float *memory) {
    float value;
    check_cuda(cudaMemcpy(&value, memory, sizeof value, cudaMemcpyDeviceToHost));
    return value;
}

// Runs act in a child, which must abort, or die of a bad access, with this on stderr.
static void expect_fault(void (*act)(void), const char *sentence) {
    int pipe_ends[2];
    assert_int_equal(pipe(pipe_ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        deadline_join();
        dup2(pipe_ends[1], STDERR_FILENO);
        signal(SIGABRT, SIG_DFL); // cmocka has handlers
        signal(SIGSEGV, SIG_DFL);
        cudaSetDevice(0);
        act();
        _exit(0);
    }
    close(pipe_ends[1]);
    char said[4096];
    size_t length = 0;
    for (ssize_t got; (got = read(pipe_ends[0], said + length, sizeof said - 1 - length)) > 0;)
        length += (size_t)got;
    said[length] = '\0';
    close(pipe_ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!strstr(said, sentence)) fail_msg("\"%s\" was not said, but: %s", sentence, said);
    assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

// AddressSanitizer would explain it in its own words, had the child not put the handlers back.
static void expect_bad_access(void (*act)(void), const char *sentence) {
#ifdef __SANITIZE_ADDRESS__
    sentence = "";
#endif
    expect_fault(act, sentence);
}

static void a_kernel_runs_over_all_threads_of_its_grid(void **state) {
    (void)state;
    cudaStream_t stream;
    check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    float *values = device_numbers(COUNT);
    check_cuda(launch_scale(values, 2.0f, COUNT, stream));
    check_cuda(cudaStreamSynchronize(stream));
    for (size_t i = 0; i < COUNT; i += 111)
        assert_true(device_value(values + i) == 2.0f * (float)i);
}

static void threads_of_a_block_meet_at_barriers_in_any_order(void **state) {
    (void)state;
    const char *orders[] = {"forward", "reversed", "shuffled"};
    for (size_t order = 0; order < 3; order++) {
        emulator_set_order(orders[order]);
        float *values = device_numbers(BLOCKS * 128), *sums = device_floats(BLOCKS);
        check_cuda(launch_block_sums(sums, values, BLOCKS, NULL));
        for (int block = 0; block < BLOCKS; block++)
            assert_true(device_value(sums + block) == (float)(128 * 127 / 2 + block * 128 * 128));
    }
}

static void a_captured_stream_is_replayed_from_its_graph(void **state) {
    (void)state;
    cudaStream_t stream;
    cudaGraph_t graph, whole;
    cudaGraphNode_t node;
    cudaGraphExec_t executable;
    check_cuda(cudaStreamCreate(&stream));
    float *values = device_numbers(COUNT);
    check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    check_cuda(launch_scale(values, 2.0f, COUNT, stream));
    check_cuda(launch_scale(values, 3.0f, COUNT, stream));
    check_cuda(cudaStreamEndCapture(stream, &graph));
    check_cuda(cudaGraphCreate(&whole, 0));
    check_cuda(cudaGraphAddChildGraphNode(&node, whole, NULL, 0, graph));
    check_cuda(cudaGraphAddChildGraphNode(&node, whole, &node, 1, graph));
    check_cuda(cudaGraphInstantiateWithFlags(&executable, whole, 0));
    assert_true(device_value(values + 1) == 1.0f); // captured, not run
    check_cuda(cudaGraphLaunch(executable, stream));
    check_cuda(cudaGraphLaunch(executable, stream));
    check_cuda(cudaGraphExecDestroy(executable));
    check_cuda(cudaGraphDestroy(whole));
    check_cuda(cudaGraphDestroy(graph));
    check_cuda(cudaStreamSynchronize(stream));
    assert_true(device_value(values + 1) == 6.0f * 6.0f * 6.0f * 6.0f);
    check_cuda(cudaStreamDestroy(stream));
    check_cuda(cudaFree(values));
    assert_int_equal(emulator_objects(), 0);
}

static void results_read_before_the_stream_was_waited_for_are_the_old_ones(void **state) {
    (void)state;
    cudaStream_t stream;
    check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    void *memory;
    check_cuda(cudaMallocManaged(&memory, sizeof(float), cudaMemAttachGlobal));
    float *value = memory;
    *value = 1;
    check_cuda(launch_scale(value, 2.0f, 1, stream));
    assert_true(*value == 1.0f);
    check_cuda(cudaStreamSynchronize(stream));
    assert_true(*value == 2.0f);
}

static void a_copy_reads_pageable_memory_early_or_late(void **state) {
    (void)state;
    for (int late = 0; late <= 1; late++) {
        emulator_set_pageable(late);
        cudaStream_t stream;
        check_cuda(cudaStreamCreate(&stream));
        float source = 1, *copy = device_floats(1);
        check_cuda(cudaMemcpyAsync(copy, &source, sizeof source, cudaMemcpyHostToDevice, stream));
        source = 2;
        check_cuda(cudaStreamSynchronize(stream));
        assert_true(device_value(copy) == (late ? 2.0f : 1.0f));
    }
}

static void an_event_orders_two_streams(void **state) {
    (void)state;
    cudaStream_t first, second;
    cudaEvent_t event;
    check_cuda(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
    check_cuda(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    float *value = device_numbers(2), *copy = device_floats(2);
    check_cuda(launch_scale(value, 5.0f, 2, first));
    check_cuda(cudaEventRecord(event, first));
    check_cuda(launch_scale(value, 7.0f, 2, first));
    check_cuda(cudaStreamWaitEvent(second, event, 0));
    check_cuda(cudaMemcpyAsync(copy, value, 2 * sizeof(float), cudaMemcpyDeviceToDevice, second));
    assert_int_equal(cudaEventQuery(event), cudaErrorNotReady);
    check_cuda(cudaStreamSynchronize(second));
    check_cuda(cudaEventQuery(event));
    assert_true(device_value(copy + 1) == 5.0f);
}

static void fresh_memory_is_poison(void **state) {
    (void)state;
    float *fresh = device_floats(8);
    float value = device_value(fresh + 7);
    assert_true(value != value);
    float *sums = device_floats(1);
    check_cuda(launch_mistaken(sums, READS_UNWRITTEN_SHARED, 1, NULL));
    value = device_value(sums);
    assert_true(value != value);
}

static void a_missing_barrier_shows_in_some_order(void **state) {
    (void)state;
    int wrong = 0;
    const char *orders[] = {"forward", "reversed", "shuffled"};
    for (size_t order = 0; order < 3; order++) {
        emulator_set_order(orders[order]);
        float *sums = device_floats(1);
        check_cuda(launch_mistaken(sums, NO_SECOND_BARRIER, 1, NULL));
        wrong += device_value(sums) != 31 * 32 / 2;
    }
    assert_true(wrong > 0);
}

static void run_mistaken(Mistake mistake) {
    float *sums = device_floats(2);
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    launch_mistaken(sums, mistake, 2, stream);
    cudaStreamSynchronize(stream);
}

static void leave_before_barrier(void) {
    run_mistaken(SOME_LEAVE_BEFORE_BARRIER);
}

static void wait_at_two_barriers(void) {
    run_mistaken(BARRIERS_DIFFER);
}

static void write_behind_the_end(void) {
    run_mistaken(WRITES_BEHIND_THE_END);
}

static void write_just_behind_the_end(void) {
    run_mistaken(WRITES_JUST_BEHIND_THE_END);
}

static void use_what_is_freed(void) {
    float *values = device_floats(COUNT);
    cudaFree(values);
    launch_scale(values, 2.0f, COUNT, NULL);
}

static void follow_a_device_pointer_on_the_host(void) {
    float *values = device_numbers(COUNT);
    values[3] = 1;
}

static void free_twice(void) {
    float *values = device_floats(COUNT);
    cudaFree(values);
    cudaFree(values);
}

static void mistakes_of_kernels_and_hosts_are_faults(void **state) {
    (void)state;
    expect_fault(leave_before_barrier, "but 1 threads have ended");
    expect_fault(leave_before_barrier, "kernel mistaken(float*, Mistake), block (0,0,0)");
    expect_fault(wait_at_two_barriers, "thread (16,0,0) in ");
    expect_fault(write_just_behind_the_end, "byte 8 of an allocation of 8 bytes");
    expect_fault(free_twice, "byte 0 of 4000 that have been freed");
    expect_bad_access(write_behind_the_end, "kernel mistaken(float*, Mistake), block (1,0,0), thread (5,0,0) touches "
                                            "byte 20008 of an allocation of 8 bytes");
    expect_bad_access(use_what_is_freed, "byte 0 of 4000 that have been freed");
    expect_bad_access(follow_a_device_pointer_on_the_host, "the host touches byte 12 of an allocation of 4000 bytes");
}

static void launches_beyond_the_limits_are_refused(void **state) {
    (void)state;
    float *values = device_floats(1);
    assert_int_equal(launch_threads(values, 1025, NULL), cudaErrorInvalidConfiguration);
    assert_int_equal(launch_threads(values, 0, NULL), cudaErrorInvalidConfiguration);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidConfiguration);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    check_cuda(launch_threads(values, 1024, NULL));
}

static void copies_across_the_end_or_in_the_wrong_direction_are_refused(void **state) {
    (void)state;
    float host[16] = {0};
    float *values = device_floats(8);
    assert_int_equal(cudaMemcpy(values, host, sizeof host, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    assert_int_equal(cudaMemcpy(host, values, 32, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    assert_int_equal(cudaMemset(values, 0, 33), cudaErrorInvalidValue);
    check_cuda(cudaMemcpy(values, host, 32, cudaMemcpyDefault));
}

static void waiting_for_a_stream_that_captures_spoils_the_capture(void **state) {
    (void)state;
    cudaStream_t stream;
    cudaGraph_t graph;
    check_cuda(cudaStreamCreate(&stream));
    check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    assert_int_equal(cudaStreamSynchronize(stream), cudaErrorStreamCaptureUnsupported);
    assert_int_equal(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
}

static void the_planned_call_fails_and_no_other(void **state) {
    (void)state;
    void *memory;
    emulator_fail("cudaMalloc:2");
    check_cuda(cudaMalloc(&memory, 4));
    assert_int_equal(cudaMalloc(&memory, 4), cudaErrorMemoryAllocation);
    check_cuda(cudaMalloc(&memory, 4));
    emulator_fail_call(emulator_calls() + 2);
    check_cuda(cudaDeviceSynchronize());
    assert_int_equal(cudaDeviceSynchronize(), cudaErrorUnknown);
    check_cuda(cudaDeviceSynchronize());
}

static void a_failed_kernel_makes_everything_fail_from_then_on(void **state) {
    (void)state;
    float *values = device_numbers(COUNT);
    cudaStream_t stream;
    check_cuda(cudaStreamCreate(&stream));
    emulator_fail("kernel:2");
    check_cuda(launch_scale(values, 2.0f, COUNT, stream));
    check_cuda(launch_scale(values, 2.0f, COUNT, stream));
    assert_int_equal(cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
    cudaGetLastError();
    assert_int_equal(cudaFree(values), cudaErrorIllegalAddress);
    assert_int_equal(cudaGetLastError(), cudaErrorIllegalAddress);
}

static void memory_is_counted_and_given_back(void **state) {
    (void)state;
    size_t before, with, after, total;
    void *memory;
    check_cuda(cudaMemGetInfo(&before, &total));
    check_cuda(cudaMalloc(&memory, 10 << 20));
    check_cuda(cudaMemGetInfo(&with, &total));
    check_cuda(cudaFree(memory));
    check_cuda(cudaMemGetInfo(&after, &total));
    assert_int_equal(before - with, 10 << 20);
    assert_int_equal(after, before);
    assert_int_equal(cudaMalloc(&memory, before + 1), cudaErrorMemoryAllocation);
    assert_null(memory);
}

int main(int argc, char **argv) {
    deadline_set(560);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_kernel_runs_over_all_threads_of_its_grid, reset),
        cmocka_unit_test_setup(threads_of_a_block_meet_at_barriers_in_any_order, reset),
        cmocka_unit_test_setup(a_captured_stream_is_replayed_from_its_graph, reset),
        cmocka_unit_test_setup(results_read_before_the_stream_was_waited_for_are_the_old_ones, reset),
        cmocka_unit_test_setup(a_copy_reads_pageable_memory_early_or_late, reset),
        cmocka_unit_test_setup(an_event_orders_two_streams, reset),
        cmocka_unit_test_setup(fresh_memory_is_poison, reset),
        cmocka_unit_test_setup(a_missing_barrier_shows_in_some_order, reset),
        cmocka_unit_test_setup(mistakes_of_kernels_and_hosts_are_faults, reset),
        cmocka_unit_test_setup(launches_beyond_the_limits_are_refused, reset),
        cmocka_unit_test_setup(copies_across_the_end_or_in_the_wrong_direction_are_refused, reset),
        cmocka_unit_test_setup(waiting_for_a_stream_that_captures_spoils_the_capture, reset),
        cmocka_unit_test_setup(the_planned_call_fails_and_no_other, reset),
        cmocka_unit_test_setup(a_failed_kernel_makes_everything_fail_from_then_on, reset),
        cmocka_unit_test_setup(memory_is_counted_and_given_back, reset),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}

// Opening a GPU where there is none, or one that does not work, and failures of any call on the way: every one ends in
// a sentence, and nothing is left to give back.
#include "base/device.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

#include "emulator.h"
#include "shm/cuda_share.h"
#include "tests/check.h"

enum { BYTES = 1 << 20, CALLS_MAX = 1000 };

static const char *const local_ranks[] = {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                                          "SLURM_LOCALID"};

static int reset(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof local_ranks / sizeof *local_ranks; i++)
        unsetenv(local_ranks[i]);
    emulator_reset();
    return 0;
}

static void expect_unavailable(int gpu, const char *sentence) {
    Device device;
    Error err;
    assert_int_equal(device_open(&device, gpu, &err), STATUS_UNAVAILABLE);
    if (!strstr(err.message, sentence)) fail_msg("\"%s\" is not in: %s", sentence, err.message);
}

static void a_gpu_is_described(void **state) {
    (void)state;
    Device device;
    Error err;
    check_ok(device_open(&device, -1, &err));
    assert_true(device_is_built());
    assert_int_equal(device.index, 0);
    assert_string_equal(device.name, "Emulated card");
    assert_int_equal(device.major, 8);
    assert_int_equal(device.memory_bytes, 4ull << 30);
    assert_in_range(device.free_bytes, 1, device.memory_bytes - 1); // the context takes some
    device_close();
    assert_int_equal(emulator_used_bytes(), 0);
}

static void why_there_is_no_gpu_is_said_with_a_remedy(void **state) {
    (void)state;
    emulator_set_driver(0);
    expect_unavailable(-1, "no NVIDIA driver was found: install it");
    emulator_set_driver(11040);
    expect_unavailable(-1, "the NVIDIA driver supports CUDA 11.4, but this program was built for CUDA 12.0: update");
    emulator_set_driver(13000);
    emulator_set_devices(0);
    expect_unavailable(-1, "no GPU was found: look at nvidia-smi and CUDA_VISIBLE_DEVICES");
    emulator_set_devices(2);
    expect_unavailable(2, "there is no GPU 2: this machine has 2, numbered from 0");
    emulator_fail("cudaFuncGetAttributes");
    expect_unavailable(1, "this program has no code for GPU 1 (Emulated card, compute capability 8.0): build it on");
}

static void a_multi_process_service_that_fails_is_named_with_its_log(void **state) {
    (void)state;
    Device device;
    Error err;
    static const char *const calls[] = {"cudaGetDeviceCount:1=805", "cudaSetDevice:1=808"};
    for (size_t i = 0; i < 2; i++) {
        emulator_reset();
        unsetenv("CUDA_MPS_LOG_DIRECTORY");
        emulator_fail(calls[i]);
        expect_unavailable(-1,
                           "Multi-Process Service does not serve this process (server.log in /var/log/nvidia-mps may");
        setenv("CUDA_MPS_LOG_DIRECTORY", "/some/log", 1);
        emulator_reset();
        emulator_fail(calls[i]);
        expect_unavailable(-1, "server.log in /some/log may say why; --mps off does without): ");
        unsetenv("CUDA_MPS_LOG_DIRECTORY");
    }
    emulator_reset();
    emulator_fail("cudaSetDeviceFlags:1=810");
    assert_int_equal(device_sleep_when_waiting(0, &err), STATUS_UNAVAILABLE);
    assert_non_null(strstr(err.message, "Multi-Process Service"));
    emulator_reset();
    check_ok(device_sleep_when_waiting(0, &err));
    check_ok(device_open(&device, 0, &err));
    assert_int_equal(device_sleep_when_waiting(7, &err), STATUS_UNAVAILABLE);
}

static void gpus_of_a_launcher_go_round_by_local_rank(void **state) {
    (void)state;
    Device device;
    Error err;
    emulator_set_devices(3);
    static const char *const values[] = {"5", "1", "2", "4"};
    static const int gpus[] = {2, 1, 2, 1};
    for (size_t i = sizeof local_ranks / sizeof *local_ranks; i-- > 0;) { // an inner launcher wins
        setenv(local_ranks[i], values[i], 1);
        check_ok(device_open(&device, -1, &err));
        assert_int_equal(device.index, gpus[i]);
    }
    check_ok(device_open(&device, 1, &err)); // a GPU that is asked for wins
    assert_int_equal(device.index, 1);
    setenv("LOCAL_RANK", "first", 1);
    assert_int_equal(device_open(&device, -1, &err), STATUS_USAGE);
    assert_non_null(strstr(err.message, "LOCAL_RANK is \"first\""));
}

static void too_little_memory_for_a_context_is_said(void **state) {
    (void)state;
    emulator_set_memory_bytes(1000);
    Device device;
    Error err;
    assert_int_equal(device_open(&device, -1, &err), STATUS_OS);
    assert_non_null(strstr(err.message, "out of memory"));
}

static Status open_device(Error *err) {
    Device device;
    return device_open(&device, -1, err);
}

static Status share_memory(Error *err) {
    CudaShare block;
    TRY(cuda_share_create(&block, BYTES, err));
    cuda_share_free(&block);
    return STATUS_OK;
}

// Lets call after call fail until one run of `act` has none left; each failure is a sentence and leaves no object. Of
// its calls, so many only give something back, which they do: their failure is nobody's concern.
static void fail_every_call(Status (*act)(Error *err), uint64_t calls_at_least, uint64_t giving_back) {
    Error err;
    check_ok(open_device(&err));
    size_t objects = emulator_objects();
    uint64_t unnoticed = 0;
    for (uint64_t failing = 1; failing < CALLS_MAX; failing++) {
        uint64_t before = emulator_calls();
        err.message[0] = '\0';
        emulator_fail_call(before + failing);
        Status status = act(&err);
        uint64_t calls = emulator_calls() - before;
        emulator_fail(NULL);
        assert_int_equal(emulator_objects(), objects);
        if (calls < failing) {
            assert_int_equal(status, STATUS_OK);
            assert_true(calls >= calls_at_least);
            assert_int_equal(unnoticed, giving_back);
            return;
        }
        unnoticed += status == STATUS_OK;
        if (status != STATUS_OK && !err.message[0]) fail_msg("no sentence for the failure of call %d", (int)failing);
    }
    fail_msg("more than %d calls", CALLS_MAX);
}

static void the_failure_of_any_call_leaves_a_sentence_and_nothing_else(void **state) {
    (void)state;
    fail_every_call(open_device, 4, 0);
    fail_every_call(share_memory, 6, 1);
}

static void a_gpu_that_failed_for_good_fails_every_call_with_a_sentence(void **state) {
    (void)state;
    Error err;
    CudaShare block;
    check_ok(open_device(&err));
    emulator_fail_for_good();
    assert_int_equal(cuda_share_create(&block, BYTES, &err), STATUS_UNAVAILABLE);
    assert_non_null(strstr(err.message, "an illegal memory access was encountered (cudaErrorIllegalAddress)"));
    device_close(); // returns
}

static void where_memory_cannot_be_opened_by_others_is_said_with_a_remedy(void **state) {
    (void)state;
    Error err;
    CudaShare block, other;
    check_ok(open_device(&err));
    check_ok(cuda_share_create(&block, BYTES, &err));
    emulator_set_ipc(0);
    assert_int_equal(cuda_share_open(&other, &block.handle, &err), STATUS_UNAVAILABLE);
    assert_non_null(strstr(err.message, "docker run --pid=host"));
    emulator_fail("cudaIpcGetMemHandle:2");
    assert_int_equal(cuda_share_create(&other, BYTES, &err), STATUS_UNAVAILABLE);
    assert_non_null(strstr(err.message, "neither WSL nor a virtual GPU"));
    cuda_share_free(&block);
    assert_int_equal(emulator_objects(), 0);
}

static void more_memory_than_the_gpu_has_is_refused_with_the_size(void **state) {
    (void)state;
    Error err;
    CudaShare block;
    check_ok(open_device(&err));
    assert_int_equal(cuda_share_create(&block, (size_t)5 << 30, &err), STATUS_OS);
    assert_non_null(strstr(err.message, "cannot allocate 5122 MiB of GPU memory: out of memory"));
    assert_int_equal(cuda_share_create(&block, SIZE_MAX - 5, &err), STATUS_OS);
    assert_null(block.memory);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_gpu_is_described, reset),
        cmocka_unit_test_setup(why_there_is_no_gpu_is_said_with_a_remedy, reset),
        cmocka_unit_test_setup(a_multi_process_service_that_fails_is_named_with_its_log, reset),
        cmocka_unit_test_setup(gpus_of_a_launcher_go_round_by_local_rank, reset),
        cmocka_unit_test_setup(too_little_memory_for_a_context_is_said, reset),
        cmocka_unit_test_setup(the_failure_of_any_call_leaves_a_sentence_and_nothing_else, reset),
        cmocka_unit_test_setup(a_gpu_that_failed_for_good_fails_every_call_with_a_sentence, reset),
        cmocka_unit_test_setup(where_memory_cannot_be_opened_by_others_is_said_with_a_remedy, reset),
        cmocka_unit_test_setup(more_memory_than_the_gpu_has_is_refused_with_the_size, reset),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}

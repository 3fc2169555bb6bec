// Device memory shared between processes: what one writes the other reads, and nothing is left behind when either is
// killed. The test's executable starts itself again as importers and owners.
#include "shm/cuda_share.h"

#include <cuda_runtime_api.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/check.h"
#include "tests/deadline.h"
#include "tests/gpu/gpu.h"

// MANY_BYTES: of which it shows in the GPU's free memory whether they are taken; contexts grow and shrink by less.
enum { BYTES = 3 << 20, MANY_BYTES = 64 << 20, MARK_PLACE = 12345, DEADLINE_SECONDS = 560 };

// Other processes ----------------------------------------------------------------------------------------------------

typedef struct Other {
    pid_t pid;
    int to, from; // its standard input and output
} Other;

// What an importer answers.
typedef struct Answer {
    Status status;
    uint32_t mark; // what it found at MARK_PLACE
    Error err;
} Answer;

static void start(Other *other, const char *role) {
    int in[2], out[2];
    assert_int_equal(pipe(in) | pipe(out), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    for (int i = 0; i < 2; i++) {
        posix_spawn_file_actions_addclose(&actions, in[i]);
        posix_spawn_file_actions_addclose(&actions, out[i]);
    }
    char *arguments[] = {(char *)"test", (char *)role, NULL};
    assert_int_equal(posix_spawn(&other->pid, "/proc/self/exe", &actions, NULL, arguments, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    other->to = in[1];
    other->from = out[0];
}

static void tell(const Other *other, const CudaShareHandle *handle) {
    assert_int_equal(write(other->to, handle, sizeof *handle), sizeof *handle);
}

static void hear(const Other *other, void *answer, size_t bytes) {
    assert_int_equal(read(other->from, answer, bytes), bytes);
}

// Lets it come to its end, or kills it; its exit code, or -1.
static int finish(Other *other, int signal_number) {
    if (signal_number) kill(other->pid, signal_number);
    close(other->to);
    close(other->from);
    int status;
    assert_int_equal(waitpid(other->pid, &status, 0), other->pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Reads a handle, opens it, answers, adds one to the mark when it is told to go on by the end of its input.
static int importer_main(void) {
    Device device;
    CudaShareHandle handle;
    CudaShare block = {0};
    Answer answer = {0};
    if (read(STDIN_FILENO, &handle, sizeof handle) != sizeof handle) return 90;
    answer.status = device_open(&device, -1, &answer.err);
    if (answer.status == STATUS_OK) answer.status = cuda_share_open(&block, &handle, &answer.err);
    if (answer.status == STATUS_OK)
        cudaMemcpy(&answer.mark, (char *)block.memory + MARK_PLACE * 4, sizeof answer.mark, cudaMemcpyDeviceToHost);
    if (write(STDOUT_FILENO, &answer, sizeof answer) != sizeof answer) return 91;
    char end;
    if (read(STDIN_FILENO, &end, 1) != 0) return 92;
    uint32_t next = answer.mark + 1;
    if (block.memory &&
        cudaMemcpy((char *)block.memory + MARK_PLACE * 4, &next, sizeof next, cudaMemcpyHostToDevice) != cudaSuccess)
        return 93;
    cuda_share_free(&block);
    device_close();
    return 0;
}

// Shares a block and waits for its death.
static int owner_main(void) {
    Device device;
    CudaShare block;
    Error err;
    if (device_open(&device, -1, &err) != STATUS_OK || cuda_share_create(&block, MANY_BYTES, &err) != STATUS_OK)
        return 94;
    if (write(STDOUT_FILENO, &block.handle, sizeof block.handle) != sizeof block.handle) return 95;
    pause();
    return 0;
}

// The tests ----------------------------------------------------------------------------------------------------------

static size_t free_bytes(void) {
    size_t available, total;
    assert_int_equal(cudaMemGetInfo(&available, &total), cudaSuccess);
    return available;
}

// A GPU gives the memory of a process back some time after its death; a context may have grown meanwhile.
static void wait_until_free(size_t wanted) {
    for (int tenths = 0; tenths < 200 && free_bytes() < wanted - MANY_BYTES / 2; tenths++)
        usleep(100000);
    assert_true(free_bytes() >= wanted - MANY_BYTES / 2);
}

static uint32_t read_mark(const CudaShare *block) {
    uint32_t mark;
    assert_int_equal(cudaMemcpy(&mark, (char *)block->memory + MARK_PLACE * 4, sizeof mark, cudaMemcpyDeviceToHost),
                     cudaSuccess);
    return mark;
}

static void write_mark(const CudaShare *block, uint32_t mark) {
    assert_int_equal(cudaMemcpy((char *)block->memory + MARK_PLACE * 4, &mark, sizeof mark, cudaMemcpyHostToDevice),
                     cudaSuccess);
}

static void a_block_is_zero_and_an_allocation_of_its_own_in_multiples_of_2_mib(void **state) {
    (void)state;
    Error err;
    CudaShare block;
    const size_t sizes[] = {1, CUDA_SHARE_UNIT_BYTES - 8, CUDA_SHARE_UNIT_BYTES - 7, BYTES};
    const size_t units[] = {1, 1, 2, 2};
    for (size_t i = 0; i < 4; i++) {
        check_ok(cuda_share_create(&block, sizes[i], &err));
        assert_int_equal(block.handle.bytes, units[i] * CUDA_SHARE_UNIT_BYTES);
        assert_true(block.bytes >= sizes[i] && !block.imported);
        char *contents = malloc(block.bytes);
        assert_int_equal(cudaMemcpy(contents, block.memory, block.bytes, cudaMemcpyDeviceToHost), cudaSuccess);
        for (size_t byte = 0; byte < block.bytes; byte++)
            assert_int_equal(contents[byte], 0);
        free(contents);
        cuda_share_free(&block);
        assert_null(block.memory);
    }
}

static void what_a_process_writes_another_reads(void **state) {
    (void)state;
    Error err;
    CudaShare block;
    Other importers[2];
    check_ok(cuda_share_create(&block, BYTES, &err));
    write_mark(&block, 7);
    for (uint32_t i = 0; i < 2; i++) { // one after the other: each finds what the one before has left
        Answer answer;
        start(&importers[i], "importer");
        tell(&importers[i], &block.handle);
        hear(&importers[i], &answer, sizeof answer);
        if (answer.status != STATUS_OK) fail_msg("%s", answer.err.message);
        assert_int_equal(answer.mark, 7 + i);
        assert_int_equal(finish(&importers[i], 0), 0);
    }
    assert_int_equal(read_mark(&block), 9);
    cuda_share_free(&block);
}

static void an_importer_that_sees_other_memory_says_so(void **state) {
    (void)state;
    Error err;
    CudaShare block;
    Other importer;
    Answer answer;
    check_ok(cuda_share_create(&block, BYTES, &err));
    CudaShareHandle wrong = block.handle;
    wrong.nonce ^= 1;
    start(&importer, "importer");
    tell(&importer, &wrong);
    hear(&importer, &answer, sizeof answer);
    assert_int_equal(answer.status, STATUS_UNAVAILABLE);
    assert_non_null(strstr(answer.err.message, "shows other contents here"));
    assert_int_equal(finish(&importer, 0), 0);
    cuda_share_free(&block); // which the importer has closed
}

static void a_handle_that_names_nothing_is_refused_with_a_remedy(void **state) {
    (void)state;
    CudaShareHandle nothing = {.handle = {1, 2, 3}, .bytes = CUDA_SHARE_UNIT_BYTES};
    CudaShare block;
    Error err;
    assert_int_equal(cuda_share_open(&block, &nothing, &err), STATUS_UNAVAILABLE);
    assert_non_null(strstr(err.message, "--pid=host"));
    assert_null(block.memory);
    nothing.bytes++;
    assert_int_equal(cuda_share_open(&block, &nothing, &err), STATUS_SOFTWARE);
}

static void the_owner_cannot_open_its_own_handle(void **state) {
    (void)state;
    Error err;
    CudaShare block, again;
    check_ok(cuda_share_create(&block, BYTES, &err));
    assert_int_equal(cuda_share_open(&again, &block.handle, &err), STATUS_UNAVAILABLE);
    cuda_share_free(&block);
}

static void memory_is_back_after_an_importer_was_killed(void **state) {
    (void)state;
    Error err;
    CudaShare block;
    Other importer;
    Answer answer;
    size_t before = free_bytes();
    check_ok(cuda_share_create(&block, MANY_BYTES, &err));
    assert_true(free_bytes() <= before - MANY_BYTES);
    start(&importer, "importer");
    tell(&importer, &block.handle);
    hear(&importer, &answer, sizeof answer);
    assert_int_equal(answer.status, STATUS_OK);
    assert_int_equal(finish(&importer, SIGKILL), -1);
    write_mark(&block, 3); // the owner's memory is none the worse
    assert_int_equal(read_mark(&block), 3);
    cuda_share_free(&block);
    wait_until_free(before);
}

static void memory_is_back_after_the_owner_was_killed(void **state) {
    (void)state;
    Other owner, importer;
    CudaShareHandle handle;
    Answer answer;
    size_t before = free_bytes();
    start(&owner, "owner");
    hear(&owner, &handle, sizeof handle);
    assert_true(free_bytes() <= before - MANY_BYTES);
    start(&importer, "importer");
    tell(&importer, &handle);
    hear(&importer, &answer, sizeof answer);
    assert_int_equal(answer.status, STATUS_OK);
    assert_int_equal(finish(&owner, SIGKILL), -1);
    finish(&importer, SIGKILL); // what is left of the block is nobody's to use
    wait_until_free(before);
}

int main(int argc, char **argv) {
    if (argc == 2 && (strcmp(argv[1], "owner") == 0 || strcmp(argv[1], "importer") == 0)) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(DEADLINE_SECONDS); // should all that is tested here fail, no process shall be left for ever
        return strcmp(argv[1], "owner") == 0 ? owner_main() : importer_main();
    }
    deadline_set(DEADLINE_SECONDS);
    if (gpu_is_missing()) return GPU_TEST_SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_is_zero_and_an_allocation_of_its_own_in_multiples_of_2_mib),
        cmocka_unit_test(what_a_process_writes_another_reads),
        cmocka_unit_test(an_importer_that_sees_other_memory_says_so),
        cmocka_unit_test(a_handle_that_names_nothing_is_refused_with_a_remedy),
        cmocka_unit_test(the_owner_cannot_open_its_own_handle),
        cmocka_unit_test(memory_is_back_after_an_importer_was_killed),
        cmocka_unit_test(memory_is_back_after_the_owner_was_killed),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}

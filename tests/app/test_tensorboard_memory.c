// A run's event file when memory runs out: nothing is left out of it in silence. What is in it, test_tensorboard.py of
// tests/runs looks at.
#include "app/train/tensorboard.h"

#include <fcntl.h>

#include "tests/no_memory.h"
#include "tests/scratch.h"

// As metrics.jsonl has them: numbers, lists of numbers, counts, and what clients tell until the round is done.
static const char *const lines[] = {
    "{\"type\":\"round\",\"round\":0,\"test_loss\":2.5}",
    "{\"type\":\"client\",\"round\":1,\"client\":0,\"loss\":1.5,\"seconds\":0.1}",
    "{\"type\":\"client\",\"round\":1,\"client\":1,\"loss\":1.25,\"seconds\":0.3}",
    "{\"type\":\"round\",\"round\":1,\"test_loss\":2.25,\"barrier_wait_seconds\":[0.5,0.0],\"staleness\":[3,0,1]}",
    "{\"type\":\"client_evaluation\",\"round\":1,\"model\":\"global\",\"client\":0,\"accuracy\":0.5}",
    "{\"type\":\"clients_evaluation\",\"round\":1,\"model\":\"global\",\"accuracy_mean\":0.5}",
    "{\"type\":\"summary\",\"rounds\":1,\"test_loss\":2.25}"};

static void note(Tensorboard *tensorboard, size_t first, size_t end) {
    for (size_t i = first; i < end; i++) {
        json_t *line = json_loads(lines[i], 0, NULL);
        assert_non_null(line);
        tensorboard_note(tensorboard, line);
        json_decref(line);
    }
}

// Pieces held more than before; in the file that is open already the allocation with that number fails, 0: none does.
static long note_a_run(const Folder *folder, long failing, bool *failed, bool *wanted) {
    const size_t count = sizeof lines / sizeof *lines;
    const long held = no_memory.held;
    Options options;
    Tensorboard tensorboard;
    options_defaults(&options);
    tensorboard_begin(&tensorboard, folder, &options, 0);
    note(&tensorboard, 0, 1);
    no_memory.until_failure = failing;
    note(&tensorboard, 1, count);
    *failed = failing > 0 && no_memory.until_failure == 0;
    no_memory.until_failure = 0;
    *wanted = tensorboard.wanted;
    tensorboard_end(&tensorboard);
    return no_memory.held - held;
}

static void whichever_allocation_fails_the_run_goes_on_without_the_file(void **state) {
    Folder folder = {.fd = open(*state, O_RDONLY | O_DIRECTORY | O_CLOEXEC), .path = *state};
    bool failed = true, wanted = false;
    assert_true(folder.fd >= 0);
    const long libraries = note_a_run(&folder, 0, &failed, &wanted); // what the C library took and we gave back
    assert_true(wanted);
    long failing = 1;
    for (; failed || failing == 1; failing++) {
        assert_int_equal(note_a_run(&folder, failing, &failed, &wanted), libraries);
        assert_true(wanted == !failed);
    }
    assert_true(failing > 8);
    close(folder.fd);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whichever_allocation_fails_the_run_goes_on_without_the_file),
    };
    return run_cases(argc, argv, tests, scratch_set_up, scratch_tear_down);
}

// Any lines that a trainer may answer, to a turn, to the first line, or to the question which tensors its net has: an
// accepted answer holds numbers that a run can use. The first byte says which of the three, and what the turn is; the
// second how many samples the turn has, or values the desk.
#include "fuzz.h"

#include <math.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "fedavg/trainer/describe.h"

// The fuzzer's lines end with one that ends the wait, so that no answer has to be waited for.
static void put_lines(int socket, const uint8_t *lines, size_t bytes) {
    static const char end[] = "\n{\"error\":\"end\"}\n";
    must(bytes == 0 || send(socket, lines, bytes, 0) == (ssize_t)bytes);
    must(send(socket, end, strlen(end), 0) == (ssize_t)strlen(end));
}

static void ask(TrainerProcess *process, uint8_t kind, uint8_t count) {
    static RunConfig config;
    static uint32_t order[UINT8_MAX], ends[UINT8_MAX];
    static float answers[UINT8_MAX];
    Error err = {.message = ""};
    RunMemory memory = {.config = &config};
    Trainer trainer = {
        .memory = &memory, .process = *process, .desk = {.order = order, .ends = ends, .room = UINT8_MAX}};
    const TrainerTurn turn = {.tests = kind & 2 ? NULL : "test", .client = UINT32_MAX};
    TrainerAnswer answer;
    config.spec.squared_loss = kind & 4;
    if (kind & 8) trainer.desk.answers = answers;
    desk_add_batch(&trainer.desk, (uint32_t[UINT8_MAX]){0}, count);
    must(!trainer.desk.overfull); // else no answer would be read
    const Status status = refused_with_a_sentence(trainer_ask(&answer, &trainer, &turn, &err), &err);
    must(trainer.desk.samples == 0);
    if (status == STATUS_OK) {
        must(!isinf(answer.loss_sum) && answer.travel >= 0 && isfinite(answer.travel));
        must(memchr(answer.kept, 0, sizeof answer.kept));
        must(kind & 2 || (answer.samples == count && answer.hits <= count));
        must(!answer.answers || ((kind & 8) && !(kind & 2)));
    } else
        must(status == STATUS_UNAVAILABLE || status == STATUS_DATA);
    process->used = trainer.process.used;
}

static void begin(TrainerProcess *process) {
    const TrainerWait wait = {0};
    Error err = {.message = ""};
    json_t *ready;
    const Status status = refused_with_a_sentence(trainer_process_ready(&ready, process, &wait, &err), &err);
    must(status == STATUS_OK ? trainer_flag(ready, "ready") : !ready);
    must(status == STATUS_OK || status == STATUS_UNAVAILABLE || status == STATUS_DATA);
    json_decref(ready);
}

static void describe(TrainerProcess *process, uint8_t values) {
    const TrainerWait wait = {0};
    Error err = {.message = ""};
    json_t *told;
    if (refused_with_a_sentence(trainer_process_receive(&told, process, &wait, &err), &err) != STATUS_OK) return;
    const int desk = memfd_create("desk", MFD_CLOEXEC);
    must(desk >= 0 && ftruncate(desk, values * (off_t)sizeof(float)) == 0);
    TrainerNet net;
    if (refused_with_a_sentence(trainer_net_read(&net, told, desk, &err), &err) == STATUS_OK) {
        size_t parameters = 0;
        for (int t = 0; t < net.count; t++) {
            size_t count = 1;
            for (int d = 0; d < net.tensors[t].rank; d++)
                count *= (size_t)net.tensors[t].shape[d];
            must(net.tensors[t].first == parameters && net.tensors[t].count == count && net.tensors[t].name[0]);
            parameters += count;
        }
        must(net.count > 0 && net.parameters == parameters && parameters == values);
        trainer_net_free(&net);
    }
    json_decref(told);
    close(desk);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t bytes) {
    int ends[2];
    if (bytes < 2) return 0;
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    TrainerProcess process = {.socket = ends[0], .leash = -1, .buffer = malloc(TRAINER_LINE_BYTES)};
    must(process.buffer);
    put_lines(ends[1], input + 2, bytes - 2);
    if (input[0] & 1)
        ask(&process, input[0], input[1]);
    else if (input[0] & 2)
        begin(&process);
    else
        describe(&process, input[1]);
    free(process.buffer);
    close(ends[0]);
    close(ends[1]);
    return 0;
}

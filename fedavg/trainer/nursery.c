#include "nursery.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "fedavg/memory/fingerprint.h"
#include "fedavg/trainer/files.h"
#include "fedavg/trainer/lines.h"
#include "fedavg/trainer/program.h"
#include "fedavg/trainer/reads.h"

enum { REHEARSALS = 2, REHEARSED_BATCHES = 2, REHEARSED_TESTS = 3, MOST_DEATHS = 3 };

static const double LONG_LIFE_SECONDS = 10, SEND_SECONDS = 10;

void nursery_init(Nursery *nursery) {
    *nursery = (Nursery){.workers_end = -1, .own_end = -1, .output = -1};
    nursery->trainer = (Trainer){.desk.fd = -1, .process = {.socket = -1, .leash = -1}};
}

Status nursery_start(Nursery *nursery, TrainerProcess *process, const TrainerPlan *plan, const RunMemory *memory,
                     int desk_fd, Error *err) {
    int ends[2], fds[TRAINER_MOST_FDS + 1];
    char number[16];
    if (nursery->own_end < 0) {
        // Made once, and kept when a nursery dies: workers have inherited their end, and what they ask meanwhile waits
        // for the next nursery. Datagrams, because workers share one end: each request is read whole, with its
        // descriptors.
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
            return fail_errno(err, STATUS_OS, "no socket for the nursery of trainers");
        nursery->workers_end = ends[0];
        nursery->own_end = ends[1];
    }
    const size_t count = trainer_line_fds(fds, desk_fd, memory);
    fds[count] = nursery->own_end;
    snprintf(number, sizeof number, "%d", nursery->own_end);
    setenv("SOUNDER_NURSERY", number, 1);
    const Status status = trainer_process_start(process, plan, fds, count + 1, nursery->output, err);
    unsetenv("SOUNDER_NURSERY");
    return status;
}

// The program that has told its net is the nursery: a second start would import everything again.
void nursery_adopt(Nursery *nursery, TrainerProcess *process, int desk_fd) {
    nursery->trainer.process = *process;
    nursery->trainer.desk.fd = desk_fd;
    *process = (TrainerProcess){.socket = -1, .leash = -1};
}

static Status send_line(Nursery *nursery, JsonObject *line, Error *err) {
    const TrainerWait wait = {.silence_seconds = SEND_SECONDS};
    return trainer_process_send(&nursery->trainer.process, line, &wait, err);
}

// first: the whole of a first line; otherwise the program has had the rest of it, when it told its net.
static Status greet(Nursery *nursery, bool first, Error *err) {
    const RunMemory *memory = nursery->trainer.memory;
    JsonObject line, desk;
    if (first) {
        trainer_line_begin(&line, &memory->config->trainer, memory, memory->config->seed);
        put_whole(&line, "nursery", 1);
    } else {
        json_begin(&line);
    }
    nursery->rehearsals = 0;
    put_whole(&line, "rank", -1);
    put_whole(&line, "parameters", (int64_t)memory->config->parameters);
    put_object(&line, "desk", desk_told(&desk, &nursery->trainer.desk));
    trainer_line_put_tensors(&line, &memory->tensors);
    nursery->state = NURSERY_STARTING;
    return send_line(nursery, &line, err);
}

// Two batches: the second is the first in which an optimizer has state. The desk is the nursery's own, so that what the
// turn leaves there reaches no round.
static Status rehearse(Nursery *nursery, Error *err) {
    Trainer *trainer = &nursery->trainer;
    TrainerTurn turn = trainer_trial(trainer, nursery->first, nursery->client, nursery->batches);
    JsonObject line;
    turn.rehearses = true;
    turn.checks = nursery->rehearsals == REHEARSALS; // the one that finds the cause
    turn.keeps = trainer->desk.state != NULL;
    if (turn.keeps) memset(trainer->desk.state, 0, trainer->desk.state_bytes);
    trainer_turn_line(&line, trainer, &turn);
    nursery->rehearsals++;
    nursery->state = NURSERY_REHEARSING;
    return send_line(nursery, &line, err);
}

static void warn_of_rehearsal(const Nursery *nursery, const json_t *told) {
    const TrainerPlan *plan = &nursery->trainer.memory->config->trainer;
    char kept[TRAINER_KEPT_BYTES] = "";
    trainer_read_kept(kept, json_object_get(told, "kept"));
    log_warning(
        "%s %.200s trained a rehearsed turn (client %u) to other weights when it was asked again: %s%s of "
        "before the turn, so that results depend on the number of workers; make optimizers in every turn, draw from "
        "turn.generator or turn.random, and see --check-trainer",
        plan->option, plan->command, nursery->client, kept[0] ? "it uses " : "it uses something", kept);
}

static Status ask_for_forks(Nursery *nursery, Error *err) {
    JsonObject line;
    nursery->state = NURSERY_ASKED;
    json_begin(&line);
    put_whole(&line, "forks", 1);
    return send_line(nursery, &line, err);
}

// The samples of one turn of a test, in halves: the first one, the other one, and the first one again. A metric that
// remembers may give one value for a half and for twice this half. A test of all samples in one turn could take
// minutes: it is rehearsed with no more samples than other tests.
static Status test(Nursery *nursery, Error *err) {
    const RunMemory *memory = nursery->trainer.memory;
    const uint32_t all = memory->data.test.count, count = all < EVALUATION_CHUNK ? all : EVALUATION_CHUNK;
    const uint32_t half = (count + 1) / 2, first = nursery->rehearsals == 1 && count > half ? half : 0;
    const TrainerTurn turn = {
        .tests = "test", .of_test_set = true, .round = 1, .key = 1, .client = UINT32_MAX, .rehearses = true};
    JsonObject line;
    if (nursery->was_open || memory->data.items.are_clients || nursery->skips_tests) return ask_for_forks(nursery, err);
    desk_clear(&nursery->trainer.desk);
    memcpy(nursery->trainer.desk.weights, nursery->first, memory->config->parameters * sizeof *nursery->first);
    trainer_add_test(&nursery->trainer, NULL, first, first > 0 ? count - half : half);
    trainer_turn_line(&line, &nursery->trainer, &turn);
    nursery->rehearsals++;
    nursery->state = NURSERY_TESTING;
    return send_line(nursery, &line, err);
}

// A table of constants in a saved buffer travels with the statistics, and noise would wear it away.
static void warn_of_constants(const Nursery *nursery) {
    const RunMemory *memory = nursery->trainer.memory;
    const TrainerPlan *plan = &memory->config->trainer;
    const Algorithm algorithm = run_algorithm(memory->config);
    if (!algorithm.traits.has[TRAIT_NOISES] && !algorithm.traits.has[TRAIT_RELEASES]) return;
    for (int t = 0; t < memory->tensors.count; t++) {
        const ParameterTensor *tensor = &memory->tensors.tensors[t];
        const size_t bytes = tensor->count * sizeof *nursery->first;
        if (tensor->follows && !tensor->frozen &&
            memcmp(nursery->first + tensor->first, nursery->trainer.desk.weights + tensor->first, bytes) == 0)
            log_warning("%s %.200s: no batch has changed the buffer %s, and the noise of --algorithm will; if it holds "
                        "constants, register it with persistent=False, or leave it out of exchange=",
                        plan->option, plan->command, tensor->name);
    }
}

// Asks for one turn twice. If the results differ, a third one lets the program look for the cause.
static Status judge_rehearsal(Nursery *nursery, const json_t *told, Error *err) {
    const Trainer *trainer = &nursery->trainer;
    const RunConfig *config = trainer->memory->config;
    const TrainerWitness now = trainer_witness_of(told, trainer_witness_hash(nursery->first, config->parameters),
                                                  trainer->desk.weights, config->parameters);
    trainer_note_reads(trainer->memory->control, &config->trainer, told);
    if (nursery->rehearsals == 1) nursery->now = now;
    if (nursery->rehearsals == 1 && !nursery->was_open) warn_of_constants(nursery);
    if (nursery->rehearsals > REHEARSALS)
        warn_of_rehearsal(nursery, told);
    else if (!nursery->was_open && (nursery->rehearsals < REHEARSALS || now.weights != nursery->now.weights))
        return rehearse(nursery, err);
    nursery->rehearsals = 0;
    return test(nursery, err);
}

// The figures of a test. The names of options that were read are left out, since a process tells them once.
static uint64_t hash_of_figures(const json_t *told) {
    static const char *const figures[] = {"loss_sum", "samples", "hits", "metrics"};
    uint64_t hash = 0;
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        char *text = json_dumps(json_object_get(told, figures[i]), JSON_ENCODE_ANY | JSON_SORT_KEYS);
        if (text) hash = XXH3_64bits_withSeed(text, strlen(text), hash);
        free(text);
    }
    return hash;
}

static Status judge_test(Nursery *nursery, const json_t *told, Error *err) {
    const TrainerPlan *plan = &nursery->trainer.memory->config->trainer;
    const uint64_t hash = hash_of_figures(told);
    trainer_note_reads(nursery->trainer.memory->control, plan, told);
    if (nursery->rehearsals == 1) nursery->tested = hash;
    if (nursery->rehearsals < REHEARSED_TESTS) return test(nursery, err);
    if (hash != nursery->tested)
        log_warning("%s %.200s tested the same weights to other figures when it was asked again: it keeps something "
                    "from test to test, so that results depend on the number of workers; begin each test with "
                    "nothing, as by a metric's reset(), and see --check-trainer",
                    plan->option, plan->command);
    return ask_for_forks(nursery, err);
}

// Closes what requests brought, so that the workers hear of it: a worker waits on the other ends, with no limit, as a
// start may take minutes.
static void refuse_requests(const Nursery *nursery) {
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(TRAINER_REQUEST_FDS * sizeof(int))];
    } control;
    char text[64];
    for (;;) {
        struct iovec part = {text, sizeof text};
        struct msghdr message = {
            .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control};
        if (nursery->own_end < 0 || recvmsg(nursery->own_end, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) <= 0) return;
        const struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        if (!head || head->cmsg_type != SCM_RIGHTS) continue;
        const size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(head) + i * sizeof fd, sizeof fd);
            close(fd);
        }
    }
}

// forks is 0 before the program ends: a worker whose fork dies with it then starts a trainer itself.
static void end(Nursery *nursery) {
    if (nursery->trainer.memory) atomic_store(&nursery->trainer.memory->control->forks, 0);
    trainer_process_end(&nursery->trainer.process, TRAINER_GOODBYE_SECONDS);
    nursery->state = NURSERY_NONE;
    refuse_requests(nursery);
}

static void give_up(Nursery *nursery) {
    end(nursery);
    desk_free(&nursery->trainer.desk);
}

// A later start of the program has to be what the first one was. By now it has imported what its turns import.
static Status judge_start(Nursery *nursery, const json_t *told, Error *err) {
    const TrainerPlan *plan = &nursery->trainer.memory->config->trainer;
    const json_t *files = json_object_get(told, "files");
    if (files) TRY(trainer_hash_files(&nursery->now.files, plan, files, err));
    nursery->now.client = nursery->client, nursery->now.batches = nursery->batches;
    if (!nursery->was_open) nursery->witness = nursery->now;
    nursery->trainer.memory->control->config.trainer.witness = nursery->witness; // workers that start it compare
    const Status same = trainer_witness_judge(&nursery->witness, &nursery->now, plan, false, err);
    nursery->is_other = same != STATUS_OK;
    return same;
}

// Only after the rehearsal can the program tell whether it can be forked: threads and children mostly begin in the
// first turn.
static Status open_or_not(Nursery *nursery, const json_t *told, Error *err) {
    const bool wanted = nursery->trainer.memory->config->trainer.forks;
    TRY(judge_start(nursery, told, err));
    if (wanted && !trainer_flag(told, "forks")) trainer_line_say_unforked(told);
    if (!wanted || !trainer_flag(told, "forks")) {
        give_up(nursery);
        return STATUS_OK;
    }
    nursery->state = NURSERY_OPEN;
    nursery->was_open = true;
    nursery->opened_nanoseconds = clock_nanoseconds();
    atomic_store(&nursery->trainer.memory->control->forks, 1);
    return STATUS_OK;
}

// The parent serves the nursery between its other work, so that a start never blocks it: each line that arrives leads
// to the next step.
static Status advance(Nursery *nursery, const json_t *told, Error *err) {
    switch (nursery->state) {
    case NURSERY_STARTING: {
        const Status same = trainer_program_check(&nursery->trainer.memory->config->trainer, told, err);
        nursery->is_other = same != STATUS_OK;
        return same == STATUS_OK ? rehearse(nursery, err) : same;
    }
    case NURSERY_REHEARSING:
        return judge_rehearsal(nursery, told, err);
    case NURSERY_TESTING:
        return judge_test(nursery, told, err);
    case NURSERY_ASKED:
        return open_or_not(nursery, told, err);
    case NURSERY_NONE:
    case NURSERY_OPEN:
        break;
    }
    return STATUS_OK;
}

// A program may need what two batches lack, such as samples of each class: it is asked for a whole turn then. One that
// wants its test whole may fail with a part of it, and is not asked for one again. A program that says that trying
// again is of no use is believed.
static bool rehearses_otherwise(Nursery *nursery, Status failed, const Error *why) {
    const TrainerPlan *plan = &nursery->trainer.memory->config->trainer;
    if (failed != STATUS_UNAVAILABLE || nursery->was_open || nursery->trainer.process.was_killed) return false;
    if (nursery->state == NURSERY_REHEARSING && nursery->batches == REHEARSED_BATCHES) {
        log_info("its rehearsal of %d batches failed, and is made again with all batches of client %u: %s",
                 REHEARSED_BATCHES, nursery->client, why->message);
        nursery->batches = UINT32_MAX;
        return true;
    }
    if (nursery->state != NURSERY_TESTING || !plan->whole_test) return false;
    log_info("its rehearsal with a part of the test failed, and is left out: %s", why->message);
    nursery->skips_tests = true;
    return true;
}

// A program that fails in its first turn would fail in every worker. One that is killed, or that has rehearsed before,
// gets another try.
static Status start_again(Nursery *nursery, Status failed, const Error *why, Error *err) {
    TrainerProcess *process = &nursery->trainer.process;
    const RunMemory *memory = nursery->trainer.memory;
    const bool was_open = nursery->state == NURSERY_OPEN;
    if (rehearses_otherwise(nursery, failed, why)) {
        trainer_process_end(process, 0);
        TRY(nursery_start(nursery, process, &memory->config->trainer, memory, nursery->trainer.desk.fd, err));
        return greet(nursery, true, err);
    }
    if (nursery->is_other)
        return fail(err, STATUS_DATA, "%s %.200s: %s", memory->config->trainer.option, memory->config->trainer.command,
                    why->message);
    // Its own sentence, and not a warning: the user has to mend the program, and no round has been lost.
    if (!nursery->was_open && !process->was_killed)
        return fail(err, STATUS_UNAVAILABLE, "%s %.200s, in its rehearsal (client %u): %s",
                    memory->config->trainer.option, memory->config->trainer.command, nursery->client, why->message);
    // A nursery that is killed once an hour is worth its start each time. One that dies as soon as it is open is not.
    if (was_open && clock_seconds_since(nursery->opened_nanoseconds) > LONG_LIFE_SECONDS) nursery->deaths = 0;
    log_warning("the nursery of trainers has ended: %s", why->message);
    Error reason = *why;
    trainer_process_end(process, 0);
    if (++nursery->deaths < MOST_DEATHS &&
        nursery_start(nursery, process, &memory->config->trainer, memory, nursery->trainer.desk.fd, &reason) ==
            STATUS_OK &&
        greet(nursery, true, &reason) == STATUS_OK)
        return STATUS_OK;
    log_info("--trainer-start each, because the trainer cannot be forked: %s", reason.message);
    give_up(nursery);
    return STATUS_OK;
}

Status nursery_begin(Nursery *nursery, const RunMemory *memory, const float *first, Error *err) {
    Trainer *trainer = &nursery->trainer;
    Error why;
    trainer->memory = memory;
    nursery->first = first;
    nursery->batches = REHEARSED_BATCHES;
    nursery->client = trainer_client_from(memory, 0); // one without samples would rehearse nothing
    TRY(desk_create(&trainer->desk, memory, trainer->desk.fd, err));
    const Status status = greet(nursery, false, &why);
    return status == STATUS_OK ? STATUS_OK : start_again(nursery, status, &why, err);
}

// While it is open the nursery owes a sign of life only if a request waits: it takes each at once, unless it hangs. The
// worker of that request would wait for ever, since a start has no limit.
static Status check_silence(Nursery *nursery, Error *err) {
    TrainerProcess *process = &nursery->trainer.process;
    struct pollfd requests = {.fd = nursery->own_end, .events = POLLIN};
    const bool owed = nursery->had_request;
    nursery->had_request = nursery->state == NURSERY_OPEN && poll(&requests, 1, 0) > 0;
    if (nursery->state == NURSERY_NONE) return STATUS_OK;
    if (nursery->state == NURSERY_STARTING)
        return trainer_process_check_start(process, nursery->trainer.memory->config->trainer.start_seconds, err);
    if (nursery->state == NURSERY_OPEN && !(owed && nursery->had_request))
        process->heard_nanoseconds = clock_nanoseconds();
    return trainer_process_check_silence(process, nursery->trainer.memory->config->trainer.hang_seconds, err);
}

Status nursery_serve(Nursery *nursery, Error *err) {
    TrainerProcess *process = &nursery->trainer.process;
    const TrainerWait wait = {0};
    if (nursery->state == NURSERY_NONE) {
        refuse_requests(nursery);
        return STATUS_OK;
    }
    for (json_t *told = NULL;;) {
        Error why;
        Status status = trainer_process_poll(&told, process, &wait, &why);
        if (status == STATUS_OK && told) {
            status = advance(nursery, told, &why);
            json_decref(told);
            if (status == STATUS_OK && nursery->state != NURSERY_NONE) continue;
        }
        if (status == STATUS_OK) status = check_silence(nursery, &why);
        return status == STATUS_OK ? STATUS_OK : start_again(nursery, status, &why, err);
    }
}

// Workers have ended by now, and with them the leashes of all forks.
void nursery_free(Nursery *nursery) {
    end(nursery);
    desk_free(&nursery->trainer.desk);
    if (nursery->workers_end >= 0) close(nursery->workers_end);
    if (nursery->own_end >= 0) close(nursery->own_end);
    nursery_init(nursery);
}

#include "host.h"

#include <stdlib.h>

enum { NURSERY_POLLS = 2, WAIT_MILLISECONDS = 100 };

Status trainer_host_open(TrainerHost *host, Error *err) {
    *host = (TrainerHost){0};
    nursery_init(&host->nursery);
    TRY(trainer_output_open(&host->output, err));
    host->nursery.output = trainer_output_fd(&host->output, OUTPUT_OF_NURSERY);
    return STATUS_OK;
}

// A nursery that starts again has other descriptors; poll ignores those that are -1.
static void watch_nursery(TrainerHost *host) {
    const TrainerProcess *process = &host->nursery.trainer.process;
    struct pollfd *polls = host->polls + host->output.sources;
    polls[0] = (struct pollfd){.fd = process->socket, .events = POLLIN};
    polls[1] = (struct pollfd){.fd = process->leash, .events = POLLIN};
}

// The list of descriptors never moves again: the supervisor's loop holds on to it for the whole run.
Status trainer_host_add_workers(TrainerHost *host, uint32_t workers, Error *err) {
    TRY(trainer_output_add_workers(&host->output, workers, err));
    host->poll_count = host->output.sources + NURSERY_POLLS;
    host->polls = calloc(host->poll_count, sizeof *host->polls);
    if (!host->polls) return fail(err, STATUS_OS, "no memory for the output of %u trainers", workers);
    trainer_output_poll(&host->output, host->polls);
    watch_nursery(host);
    return STATUS_OK;
}

// Before workers start: they ask for forks at once. The output is served meanwhile, since a program that fills its pipe
// would wait for ever.
Status trainer_host_rehearse(TrainerHost *host, const RunMemory *memory, const float *first, Error *err) {
    if (host->nursery.trainer.process.socket < 0) return STATUS_OK;
    Status status = nursery_begin(&host->nursery, memory, first, err);
    while (status == STATUS_OK && nursery_is_busy(&host->nursery)) {
        poll(host->polls, host->poll_count, WAIT_MILLISECONDS);
        status = trainer_host_serve(host, err);
    }
    if (status != STATUS_OK) trainer_host_blame(host, OUTPUT_OF_NURSERY);
    return status;
}

// Called whenever a descriptor of polls is ready, and at least several times a second. Output first: an exception
// should be in the log before the sentence that follows from it.
Status trainer_host_serve(TrainerHost *host, Error *err) {
    trainer_output_serve(&host->output);
    const Status status = nursery_serve(&host->nursery, err);
    watch_nursery(host);
    return status;
}

// The run ends by the worker's sentence, and what its trainer has printed, mostly an exception, explains it.
void trainer_host_blame(TrainerHost *host, int rank) {
    host->failed = true;
    host->failed_rank = rank;
}

void trainer_host_end(TrainerHost *host) {
    nursery_free(&host->nursery);
}

void trainer_host_close(TrainerHost *host) {
    if (!host->output.source) return;
    nursery_free(&host->nursery);
    trainer_output_close(&host->output);
    free(host->polls);
    *host = (TrainerHost){.output.file = -1};
}

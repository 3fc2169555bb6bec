#include "host.h"

#include <stdlib.h>

Status trainer_host_open(TrainerHost *host, Error *err) {
    *host = (TrainerHost){0};
    return trainer_output_open(&host->output, err);
}

Status trainer_host_add_workers(TrainerHost *host, uint32_t workers, Error *err) {
    TRY(trainer_output_add_workers(&host->output, workers, err));
    host->polls = calloc(host->output.sources, sizeof *host->polls);
    if (!host->polls) return fail(err, STATUS_OS, "no memory for the output of %u trainers", workers);
    host->poll_count = host->output.sources;
    trainer_output_poll(&host->output, host->polls);
    return STATUS_OK;
}

void trainer_host_serve(TrainerHost *host) {
    trainer_output_serve(&host->output);
}

void trainer_host_blame(TrainerHost *host, int rank) {
    host->failed = true;
    host->failed_rank = rank;
}

void trainer_host_close(TrainerHost *host) {
    trainer_output_close(&host->output);
    free(host->polls);
    *host = (TrainerHost){.output = {.file = -1, .aggregator_fd = -1, .nursery_fd = -1}};
}

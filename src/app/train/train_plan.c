// Part of run.h: `sounder train --plan`: the memory, files and time of a run, instead of the run.
#include "app/train/run.h"
#include "app/train/train.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/command.h"
#include "app/train/process_memory.h"
#include "base/clock.h"
#include "shm/segment.h"

// The sizes are asked for with the options of the run. The turn that is timed has one worker: that is the least that
// could fit, and a worker's memory does not depend on the number of workers. On the real clock a client
// trains as on the simulated one.
Status train_plan_begin(Run *run, Error *err) {
    Forecast *forecast = &run->prospect.forecast;
    Options *options = &run->options;
    const DatasetSegment *data = &run->memory.data_segment;
    *forecast = (Forecast){.workers = (uint32_t)options->workers,
                           .data = data->segment.bytes,
                           .data_is_cached = data->is_copy,
                           .partition = run->memory.partition_segment.bytes};
    TRY(run_plan_memory(&run->prospect.plan, &run->memory, options, &run->model, &run->device, &run->nodes, err));
    forecast->segments = run_memory_sizes(&run->memory, &run->prospect.plan);
    forecast->available = segment_available() + (forecast->data_is_cached ? 0 : forecast->data) + forecast->partition;
    snprintf(forecast->folder, sizeof forecast->folder, "%.4000s", options->out);
    if (run->device.on_gpu) {
        forecast->gpu = gpu_need(&run->prospect.plan.config, &run->model.spec, &run->memory.data);
        forecast->gpu_free = run->device.gpu.free_bytes;
    }
    run_device_describe(forecast->device, sizeof forecast->device, &run->device, options,
                        run->prospect.plan.config.gpu.models_per_launch);
    const Status status = run_check_memory(&run->prospect.plan, &run->memory, options, &run->folder, err);
    if (status != STATUS_OK) forecast_print(stdout, forecast);
    TRY(status);
    options->workers = 1;
    if (options_clock_is_real(options)) strcpy(options->clock, "simulated");
    return STATUS_OK;
}

Status train_plan_turn(Run *run, Error *err) {
    Forecast *forecast = &run->prospect.forecast;
    const uint32_t models = run->memory.config->gpu.models_per_launch;
    forecast->start_seconds = clock_seconds_since(run->call.start_nanoseconds);
    progress_step_begin(&run->progress, "timing a turn");
    const Status status = rounds_rehearse(&run->rounds, models > 0 ? models : 1, &forecast->turn, err);
    progress_step_end(&run->progress);
    TRY(status);
    forecast->parent = process_private_bytes(getpid());
    forecast->worker = worker_private_bytes(&run->rounds.phases.supervisor);
    forecast->trainer = trainer_private_bytes(run->memory.control);
    forecast->program = process_child_bytes(run->trainers.nursery.trainer.process.guard);
    forecast->aggregator = process_child_bytes(run->rounds.external.aggregator.process.guard);
    forecast->checkpoint = run_checkpoint_bytes(&run->memory);
    return STATUS_OK;
}

// After the worker of the rehearsal has ended.
Status train_plan_end(Run *run, Error *err) {
    Forecast *forecast = &run->prospect.forecast;
    run->options.workers = (int)forecast->workers;
    forecast_settle(forecast, &run->memory, &run->prospect.plan, &run->options,
                    run->device.on_gpu ? &run->device.gpu : NULL);
    if (run->call.told) {
        *run->call.told = (Outlook){.memory = forecast->memory,
                                    .shared = forecast->data_is_cached ? 0 : forecast->data,
                                    .seconds = forecast->seconds,
                                    .start_seconds = forecast->start_seconds,
                                    .rounds = (int)forecast->rounds,
                                    .on_gpu = run->device.on_gpu};
        return STATUS_OK;
    }
    forecast_print(stdout, forecast);
    return forecast_check(forecast, &run->options, err);
}

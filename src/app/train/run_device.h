// Where a run's arithmetic is done: the options' wish, and what there is.
//
//   TRY(run_device_open(&device, &options, folder, err));     // folder: the run's; NULL: no daemon is started there
//   device.on_gpu ? ... : ...
//   run_device_close(&device, false);
#ifndef SOUNDER_APP_TRAIN_RUN_DEVICE_H
#define SOUNDER_APP_TRAIN_RUN_DEVICE_H

#include <signal.h>
#include <stdbool.h>

#include "app/options/options.h"
#include "app/train/mps.h"
#include "base/device.h"
#include "datasets/dataset.h"

typedef struct RunDevice {
    bool on_gpu;
    Device gpu;    // on_gpu
    Mps mps;       // on_gpu
    Error why_not; // --device auto in a build with CUDA, and yet not on a GPU: the sentence; else empty
    bool signals_are_blocked;
    sigset_t saved_mask;
} RunDevice;

// The first CUDA call of the process, with MPS seen to before. UNAVAILABLE when --device cuda cannot be had. The stop
// signals (shm/supervisor.h) are blocked from here to run_device_close when a GPU is used: CUDA's threads must not
// take those, and a daemon that was started must not be left without its run.
Status run_device_open(RunDevice *device, const Options *options, const char *folder, Error *err);
void run_device_close(RunDevice *device, bool quickly); // quickly: somebody wants the end now

// Whether workers work on the GPU side by side, by MPS.
bool run_device_side_by_side(const RunDevice *device);

// Says what so many workers mean for the GPU; USAGE when MPS does not serve as many.
Status run_device_check_workers(const RunDevice *device, int workers, Error *err);

// UNAVAILABLE for --device cuda in a build without CUDA: what can be said before anything else is looked at.
Status run_device_check(const Options *options, Error *err);

// Whether the device can compute with such data: float samples and targets are for the CPU alone, which --device auto
// then means. USAGE for --device cuda.
Status run_device_fit(Options *options, const DatasetSource *source, Error *err);

// "NVIDIA H200" or "cpu": for the summary.
const char *run_device_name(const RunDevice *device);

// A line of the heading: "NVIDIA H200 (GPU 0), 4 workers take turns (no MPS), 25 models a launch", or why it is the
// CPU, if a GPU was asked for or is there; otherwise empty.
void run_device_describe(char *text, size_t bytes, const RunDevice *device, const Options *options, uint32_t models);

#endif

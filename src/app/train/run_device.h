// Chooses where a run computes: by the options, and by the hardware that is there.
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
    Error why_not; // with --device auto in a build with CUDA: why not on a GPU; else empty
    bool signals_are_blocked;
    sigset_t saved_mask;
} RunDevice;

// Makes the first CUDA call of the process, after MPS was set up. UNAVAILABLE if --device cuda is impossible. If a GPU
// is used, stop signals (shm/supervisor.h) are blocked from here to run_device_close: CUDA's threads must not receive
// them, and a daemon that was started must not outlive its run.
Status run_device_open(RunDevice *device, const Options *options, const char *folder, Error *err);
void run_device_close(RunDevice *device, bool quickly); // quickly: a signal asks for a quick end

// Whether workers use the GPU side by side, by MPS.
bool run_device_side_by_side(const RunDevice *device);

// Warns if this number of workers suits the GPU badly; USAGE if MPS does not serve as many.
Status run_device_check_workers(const RunDevice *device, int workers, Error *err);

// UNAVAILABLE for --device cuda in a build without CUDA; can be called before anything else is checked.
Status run_device_check(const Options *options, Error *err);

// Whether the device supports the data. Float samples and targets are for the CPU only, which --device auto then
// chooses; USAGE for --device cuda.
Status run_device_fit(Options *options, const DatasetSource *source, Error *err);

// Returns "NVIDIA H200" or "cpu", for the summary.
const char *run_device_name(const RunDevice *device);

// Writes a line of the heading: "NVIDIA H200 (GPU 0), 4 workers take turns (no MPS), 25 models a launch", or the reason
// for the CPU if a GPU was asked for or exists; otherwise empty.
void run_device_describe(char *text, size_t bytes, const RunDevice *device, const Options *options, uint32_t models);

#endif

// Chooses where a run computes: by the options, and by the hardware that is there.
//
//   RunDevice device = {0};
//   TRY(run_device_open(&device, &options, folder, err)); // folder: the run's; NULL: no daemon is started there
//   TRY(run_device_prove(&device, &options, err));               // workers can use it, too
//   device.on_gpu ? ... : ...
//   run_device_close(&device, false);
#ifndef SOUNDER_APP_TRAIN_RUN_DEVICE_H
#define SOUNDER_APP_TRAIN_RUN_DEVICE_H

#include <signal.h>
#include <stdbool.h>

#include "app/options/options.h"
#include "app/train/mps.h"
#include "base/device.h"
#include "nn/blas.h"

typedef struct RunDevice {
    bool on_gpu;
    Device gpu;    // on_gpu
    Mps mps;       // on_gpu
    Error why_not; // with --device auto: why not on a GPU; else empty
    bool gave_up;  // a GPU is there, but turned out not to serve
    bool signals_are_blocked;
    sigset_t saved_mask;
    char blas[BLAS_NAME_BYTES]; // library that multiplies for wide layers; empty if the net has none, or on a GPU
} RunDevice;

// Makes the first CUDA call of the process, after MPS was set up. UNAVAILABLE if --device cuda is impossible, USAGE if
// the options are for the CPU alone. device: zeros, or closed after run_device_give_up, whose reason is
// kept. If a GPU is used, stop signals (shm/supervisor.h) are blocked from here to run_device_close: CUDA's threads
// must not receive them, and a daemon that was started must not outlive its run.
Status run_device_open(RunDevice *device, const Options *options, const char *folder, Error *err);

// Whether workers can use the GPU beside this process (gpu_serves). With --device auto the CPU is chosen if not.
Status run_device_prove(RunDevice *device, const Options *options, Error *err);

// To be called when something has failed on the GPU that nothing depends on yet. Returns whether --device auto makes
// the CPU the device in its place; then close the device and open it again. why: the sentence of the failure.
bool run_device_give_up(RunDevice *device, const Options *options, const Error *why);

void run_device_close(RunDevice *device, bool quickly); // quickly: a signal asks for a quick end

// run_device_close at the end of a run. Returns a stop signal that arrived meanwhile, 0 if none did: it does not kill
// the process, which still has a folder to close.
int run_device_end(RunDevice *device, bool quickly);

// Whether workers use the GPU side by side, by MPS.
bool run_device_side_by_side(const RunDevice *device);

// Warns if this number of workers suits the GPU badly; USAGE if MPS does not serve as many.
Status run_device_check_workers(const RunDevice *device, int workers, Error *err);

// UNAVAILABLE for --device cuda in a build without CUDA; can be called before anything else is checked.
Status run_device_check(const Options *options, Error *err);

// Whether Linux sees an NVIDIA GPU, with or without its driver: on the bus, or, in a container or WSL, as a device.
bool run_device_is_there(void);

// Returns "NVIDIA H200" or "cpu", for the summary.
const char *run_device_name(const RunDevice *device);

// Returns why the CPU computes, if a GPU was asked for or is there; otherwise NULL.
const char *run_device_why_not(const RunDevice *device, const Options *options);

// Logs a warning where an option that only a GPU reads has no effect, and --quiet hides the line of the heading.
void run_device_warn(const RunDevice *device, const Options *options);

// Writes a line of the heading: "NVIDIA H200 (GPU 0), 4 workers take turns (no MPS), 25 models a launch", or the reason
// for the CPU (run_device_why_not); otherwise empty.
void run_device_describe(char *text, size_t bytes, const RunDevice *device, const Options *options, uint32_t models);

#endif

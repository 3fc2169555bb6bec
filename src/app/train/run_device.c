#include "run_device.h"

#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

#include "app/options/option_traits.h"
#include "app/options/run_target.h"
#include "base/log.h"
#include "fedavg/gpu/gpu.h"
#include "shm/stop_signals.h"

Status run_device_check(const Options *options, Error *err) {
    if (options->device != DEVICE_CUDA || device_is_built()) return STATUS_OK;
    return fail(err, STATUS_UNAVAILABLE,
                "--device cuda: this sounder was built without CUDA; use --device cpu, or configure with "
                "-DSOUNDER_CUDA=ON where the CUDA toolkit is installed");
}

// Returns an option that asks for a GPU; NULL if the run has none.
static const char *wish_for_gpu(const Options *options) {
    static const char *const wishes[] = {"gpu", "models-per-launch", "tf32", "mps"};
    for (size_t i = 0; i < sizeof wishes / sizeof *wishes; i++)
        if (options_given(options, wishes[i])) return wishes[i];
    return NULL;
}

enum { NVIDIA = 0x10de }; // vendor number in PCI

static void block_signals(RunDevice *device) {
    sigset_t interrupts;
    parent_signals(&interrupts);
    sigprocmask(SIG_BLOCK, &interrupts, &device->saved_mask);
    device->signals_are_blocked = true;
}

bool run_device_side_by_side(const RunDevice *device) {
    return device->on_gpu && device->mps.state != MPS_ABSENT;
}

Status run_device_check_workers(const RunDevice *device, int workers, Error *err) {
    if (!device->on_gpu) return STATUS_OK;
    if (run_device_side_by_side(device)) return mps_check_clients(workers + 1, err);
    if (workers > 1)
        log_info("%s: no MPS runs, so that %d workers take turns on it; --mps start has them work side by side",
                 device->gpu.name, workers);
    return STATUS_OK;
}

// The run itself is asked before the build, since a build with CUDA would be no remedy for what only the CPU computes.
static Status check_possible(const Options *options, Error *err) {
    Traits traits;
    options_traits(&traits, options);
    traits.has[TRAIT_ON_GPU] = true;
    TRY(options_check_traits(options, &traits, err));
    const RunFigure figure = run_figure_of(options, false);
    char name[RUN_FIGURE_NAME_BYTES];
    if (run_figure_has(&figure, FIGURE_OF_CLASSES) && figure.validates)
        return fail(err, STATUS_USAGE, "the %s is computed on the CPU alone", run_figure_name(name, &figure));
    if (device_is_built()) return STATUS_OK;
    return fail(err, STATUS_UNAVAILABLE,
                "this sounder was built without CUDA (build it where the CUDA toolkit is installed)");
}

Status run_device_open(RunDevice *device, const Options *options, const char *folder, Error *err) {
    const bool automatic = options->device == DEVICE_AUTO, // --gpu N asks for a GPU where the run can use one
        does_without = automatic && !options_given(options, "gpu");
    *device = (RunDevice){.mps.keeper_fd = -1, .why_not = device->why_not, .gave_up = device->gave_up};
    TRY(run_device_check(options, err));
    if (options->device == DEVICE_CPU || device->gave_up) return STATUS_OK;
    const Status possible = check_possible(options, &device->why_not);
    if (possible != STATUS_OK)
        return does_without || (automatic && possible == STATUS_USAGE)
                   ? STATUS_OK
                   : fail(err, possible, "%s; use --device cpu", device->why_not.message);
    block_signals(device);
    Error mps_err, gpu_err;
    MpsUse use = folder ? (MpsUse)options->mps : MPS_AUTO;
    Status mps_status = mps_prepare(&device->mps, use, folder, &mps_err);
    Status status = device_open(&device->gpu, options_given(options, "gpu") ? options->gpu : -1, &gpu_err);
    device->on_gpu = status == STATUS_OK;
    bool do_without = status == STATUS_UNAVAILABLE && does_without;
    if (do_without) fail(&device->why_not, status, "there is no GPU: %s", gpu_err.message);
    // "There is no GPU" explains more than "its service does not start".
    if (status != STATUS_OK)
        *err = gpu_err;
    else if (mps_status != STATUS_OK)
        *err = mps_err, status = mps_status;
    if (device->on_gpu && status == STATUS_OK) return STATUS_OK;
    run_device_close(device, false);
    return do_without ? STATUS_OK : status;
}

Status run_device_prove(RunDevice *device, const Options *options, Error *err) {
    if (!device->on_gpu) return STATUS_OK;
    const Status status = gpu_serves(&device->gpu, run_device_side_by_side(device), err);
    if (status == STATUS_OK || !run_device_give_up(device, options, err)) return status;
    run_device_close(device, false);
    return STATUS_OK;
}

bool run_device_give_up(RunDevice *device, const Options *options, const Error *why) {
    if (!device->on_gpu || options->device != DEVICE_AUTO) return false;
    device->why_not = *why;
    return device->gave_up = true;
}

static void release(RunDevice *device, bool quickly) {
    if (device->on_gpu) device_close();
    device->on_gpu = false;
    mps_close(&device->mps, quickly);
}

static void restore_mask(RunDevice *device) {
    if (device->signals_are_blocked) sigprocmask(SIG_SETMASK, &device->saved_mask, NULL);
    device->signals_are_blocked = false;
}

void run_device_close(RunDevice *device, bool quickly) {
    release(device, quickly);
    restore_mask(device);
}

int run_device_end(RunDevice *device, bool quickly) {
    sigset_t stops;
    int taken = 0;
    release(device, quickly);
    stop_signals(&stops);
    for (int number = 1; device->signals_are_blocked && number > 0;) {
        number = sigtimedwait(&stops, NULL, &(struct timespec){0});
        if (number > 0) taken = number;
    }
    restore_mask(device);
    return taken;
}

const char *run_device_name(const RunDevice *device) {
    return device->on_gpu ? device->gpu.name : "cpu";
}

// (glob would be shorter, but glibc's frees twice when memory runs out.)
bool run_device_is_there(void) {
    static const char devices[] = "/sys/bus/pci/devices";
    bool there = access("/dev/nvidia0", F_OK) == 0 || access("/dev/dxg", F_OK) == 0;
    DIR *listing = opendir(devices);
    for (const struct dirent *device; listing && !there && (device = readdir(listing));) {
        char path[sizeof devices + sizeof device->d_name + 8];
        unsigned vendor = 0;
        snprintf(path, sizeof path, "%s/%s/vendor", devices, device->d_name);
        FILE *file = fopen(path, "re");
        if (!file) continue;
        there = fscanf(file, "%x", &vendor) == 1 && vendor == NVIDIA;
        fclose(file);
    }
    if (listing) closedir(listing);
    return there;
}

const char *run_device_why_not(const RunDevice *device, const Options *options) {
    if (device->on_gpu || !*device->why_not.message) return NULL;
    return device->gave_up || wish_for_gpu(options) || run_device_is_there() ? device->why_not.message : NULL;
}

void run_device_warn(const RunDevice *device, const Options *options) {
    const char *wish = wish_for_gpu(options), *why_not = run_device_why_not(device, options);
    if (options->quiet && wish && why_not) log_warning("--%s has no effect: the CPU trains, for %s", wish, why_not);
}

void run_device_describe(char *text, size_t bytes, const RunDevice *device, const Options *options, uint32_t models) {
    static const char *const together[] = {[MPS_ABSENT] = "take turns (no MPS)",
                                           [MPS_RUNNING] = "work side by side (MPS)",
                                           [MPS_STARTED] = "work side by side (MPS, started for this run)"};
    const char *why_not = run_device_why_not(device, options);
    text[0] = 0;
    if (why_not) snprintf(text, bytes, "the CPU, for %s", why_not);
    if (!device->on_gpu) return;
    int workers = options->workers;
    char several[80] = "";
    if (workers > 1) snprintf(several, sizeof several, ", %d workers %s", workers, together[device->mps.state]);
    snprintf(text, bytes, "%s (GPU %d)%s, %u model%s a launch", device->gpu.name, device->gpu.index, several, models,
             models == 1 ? "" : "s");
}

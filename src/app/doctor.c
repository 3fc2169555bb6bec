// Part of command.h: `sounder doctor` says whether a GPU serves here, and how fast, before anyone waits for a run.
//
// One line per check; each check needs the ones before it. The first line that fails says what to do, and is the last.
// Short runs of `sounder train` check CUDA IPC between processes, the results, and the speed.
#include "app/command.h"

#include <stddef.h>
#include <stdio.h>

#include "app/look/trial.h"
#include "app/train/mps.h"
#include "app/train/progress.h"
#include "app/train/run_device.h"
#include "app/train/temporary_folder.h"
#include "base/cores.h"
#include "base/device.h"
#include "base/log.h"
#include "fedavg/gpu/gpu.h"
#include "fedavg/nodes/nodes.h"

typedef struct DoctorOptions {
    int samples;
} DoctorOptions;

static const Option rows[] = {
    {.name = "samples",
     .type = OPTION_WHOLE,
     .offset = offsetof(DoctorOptions, samples),
     .placeholder = "N",
     .preset = "60000",
     .minimum = 100,
     .maximum = 1000000,
     .help = "training samples of the rounds that are timed"},
};
enum { ROWS = sizeof rows / sizeof *rows };

const OptionTable doctor_options = {.rows = rows, .count = ROWS, .command = "doctor"};

typedef struct Doctor {
    DoctorOptions options;
    TemporaryFolder folder;
    Mps mps;
    Device device;
    bool is_open;
    Trial on_gpu; // of one step
} Doctor;

// The GPU -------------------------------------------------------------------------------------------------------------

static Status check_driver(Doctor *self, Error *err) {
    int driver, built_for;
    TRY(mps_prepare(&self->mps, MPS_AUTO, NULL, err));
    TRY(device_open(&self->device, -1, err));
    self->is_open = true;
    device_versions(&driver, &built_for);
    printf("for CUDA %d.%d; this program was built for CUDA %d.%d", driver / 1000, driver % 1000 / 10, built_for / 1000,
           built_for % 1000 / 10);
    return STATUS_OK;
}

static Status check_gpu(Doctor *self, Error *err) {
    (void)err;
    const Device *device = &self->device;
    printf("%s (GPU %d), compute capability %d.%d, %d multiprocessors", device->name, device->index, device->major,
           device->minor, device->multiprocessors);
    return STATUS_OK;
}

// device_open has loaded a kernel: there is code for this GPU.
static Status check_code(Doctor *self, Error *err) {
    (void)self, (void)err;
    printf("built for %s; its kernels load", device_code());
    return STATUS_OK;
}

static Status check_memory(Doctor *self, Error *err) {
    (void)err;
    printf("%.1f of %.1f GiB are free", (double)self->device.free_bytes / (1 << 30),
           (double)self->device.memory_bytes / (1 << 30));
    return STATUS_OK;
}

static Status check_mps(Doctor *self, Error *err) {
    (void)err;
    printf(self->mps.state == MPS_ABSENT ? "does not run: workers would take turns, and one is the default"
                                         : "runs: workers compute side by side");
    return STATUS_OK;
}

static Status check_access(Doctor *self, Error *err) {
    TRY(gpu_serves(&self->device, self->mps.state != MPS_ABSENT, err));
    printf("several processes may use the GPU, %s",
           gpu_has_blas() ? "and cuBLAS is there"
                          : "but without cuBLAS batches of more than 64 and --tf32 run on the CPU");
    return STATUS_OK;
}

static Status check_view(Doctor *self, Error *err) {
    const char *memory;
    TRY(gpu_view_memory(&memory, &self->device, err));
    printf("the host sees the model in %s", memory);
    return STATUS_OK;
}

// Short runs ----------------------------------------------------------------------------------------------------------

// One step: rounding differs, nothing else, and a large step shows it. The learning rate is that large for it.
static Status step_on(Trial *trial, const Doctor *self, const char *device, Error *err) {
    char *options[] = {"--data",    "synthetic:1x28x28:64:16",
                       "--clients", "1",
                       "--workers", "1",
                       "--rounds",  "1",
                       "--lr",      "1",
                       "--device",  (char *)device,
                       NULL};
    return trial_run(trial, self->folder.path, device, options, err);
}

// The context of this process would stay on the GPU during the runs.
static Status check_worker(Doctor *self, Error *err) {
    device_close();
    self->is_open = false;
    TRY(step_on(&self->on_gpu, self, "cuda", err));
    printf("opens its parent's memory by CUDA IPC, and trains");
    return STATUS_OK;
}

static Status check_twin(Doctor *self, Error *err) {
    static const double tolerance = 1e-4;
    Trial on_cpu;
    double difference;
    TRY(step_on(&on_cpu, self, "cpu", err));
    TRY(trial_compare(&difference, &self->on_gpu, &on_cpu, err));
    if (!(difference <= tolerance))
        return fail(err, STATUS_SOFTWARE,
                    "%s computes wrong: after one step of lenet a weight is %.1e from the CPU's, more than %.0e; use "
                    "--device cpu, and report it with these lines",
                    self->device.name, difference, tolerance);
    printf("after one step of lenet no weight is further than %.0e from the CPU's", difference);
    return STATUS_OK;
}

// Times rounds of lenet; the first of them also makes the graphs of a GPU, and the last one counts.
static Status print_speed(const Doctor *self, const char *device, int workers, Error *err) {
    char data[48], name[16], number[16], rate[PROGRESS_NUMBER_BYTES];
    Trial trial;
    snprintf(data, sizeof data, "synthetic:1x28x28:%d:100", self->options.samples);
    snprintf(name, sizeof name, "timed-%s", device);
    snprintf(number, sizeof number, "%d", workers);
    char *options[] = {"--data",   data,           "--clients",    "32", "--workers",          number, "--rounds", "3",
                       "--device", (char *)device, "--eval-every", "0",  "--checkpoint-every", "0",    NULL};
    TRY(trial_run(&trial, self->folder.path, name, options, err));
    printf("%d worker%s: %s samples/s of lenet, %.2f s to start", workers, plural((uint64_t)workers),
           with_commas(rate, (uint64_t)trial.samples_per_second), trial.start_seconds);
    return STATUS_OK;
}

static Status check_speed(Doctor *self, Error *err) {
    TRY(print_speed(self, "cuda", 1, err));
    printf("; the CPU with ");
    return print_speed(self, "cpu", cores_usable(), err);
}

static Status check_cpu(Doctor *self, Error *err) {
    return print_speed(self, "cpu", cores_usable(), err);
}

// The lines -----------------------------------------------------------------------------------------------------------

typedef struct Check {
    const char *name;
    Status (*check)(Doctor *self, Error *err); // prints what it finds
} Check;

static const Check checks[] = {
    {"driver", check_driver}, {"GPU", check_gpu},       {"code", check_code}, {"memory", check_memory},
    {"MPS", check_mps},       {"access", check_access}, {"view", check_view}, {"worker", check_worker},
    {"twin", check_twin},     {"speed", check_speed},
};
static const Check cpu_check = {"CPU", check_cpu};

// device_open names the GPU before it asks for the code.
static bool gpu_is_there(const Doctor *self) {
    return self->device.name[0] || run_device_is_there();
}

static bool passes(Doctor *self, const Check *check) {
    Error err;
    printf("%-8s", check->name);
    fflush(stdout);
    const bool passed = check->check(self, &err) == STATUS_OK;
    const bool is_no_fault = check->check == check_driver && !gpu_is_there(self);
    if (!passed) printf("%s%s", is_no_fault ? "" : "FAILED: ", err.message);
    putchar('\n');
    fflush(stdout);
    return passed;
}

// Returns whether all is well. A machine without a GPU is.
static bool examine(Doctor *self) {
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        if (passes(self, &checks[i])) continue;
        if (i > 0 || gpu_is_there(self)) return false;
        const bool cpu_works = passes(self, &cpu_check);
        printf("runs use the CPU; a GPU needs: one of NVIDIA's of compute capability 7.0 or later, %s\n",
               device_is_built() ? "and its driver; this program has code for it"
                                 : "its driver, and a build where CUDA 11.8 or later is installed");
        return cpu_works;
    }
    return true;
}

Status command_doctor(int argc, char **argv, int *exit_code, Error *err) {
    Doctor self = {.options.samples = 60000, .mps.keeper_fd = -1};
    TRY(option_read_all(&self.options, argc, argv, &doctor_options, err));
    log_init(LOG_ERROR, LOG_RANK_PARENT);
    nodes_stay_alone();
    TRY(temporary_folder_make(&self.folder, "doctor", err));

    *exit_code = !examine(&self);
    if (self.is_open) device_close();
    temporary_folder_remove(&self.folder);
    return STATUS_OK;
}

// Part of device.h: a program without CUDA has no GPU.
#include "base/device.h"

bool device_is_built(void) {
    return false;
}

Status device_open(Device *device, int gpu, Error *err) {
    *device = (Device){.index = gpu};
    return device_sleep_when_waiting(gpu, err);
}

Status device_sleep_when_waiting(int gpu, Error *err) {
    (void)gpu;
    return fail(
        err, STATUS_UNAVAILABLE,
        "this program was built without CUDA: use --device cpu, or build it where the CUDA toolkit is installed");
}

void device_versions(int *driver, int *built_for) {
    *driver = *built_for = 0;
}

const char *device_code(void) {
    return "";
}

void device_close(void) {}

#include "module.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void beside_program(char path[PATH_MAX], const char *folder, const char *file) {
    char program[PATH_MAX / 2];
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = '\0';
    char *end = strrchr(program, '/');
    if (end) *end = '\0';
    snprintf(path, PATH_MAX, "%s%s/%s", program, folder, file);
}

const void *module_symbol(const char *file, const char *symbol, bool global) {
    char path[PATH_MAX];
    beside_program(path, "", file);
    if (access(path, R_OK) != 0) beside_program(path, "/" SOUNDER_MODULE_FOLDER, file);
    void *module = dlopen(path, RTLD_NOW | RTLD_NODELETE | (global ? RTLD_GLOBAL : RTLD_LOCAL));
    return module ? dlsym(module, symbol) : NULL;
}

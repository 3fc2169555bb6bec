// What the emulated build finds as <dlfcn.h>: a "libcublas.so..." that is opened is the emulator's cuBLAS.
#ifndef SOUNDER_TESTS_EMULATOR_INCLUDE_DLFCN_H
#define SOUNDER_TESTS_EMULATOR_INCLUDE_DLFCN_H

#include_next <dlfcn.h>

#ifdef __cplusplus
extern "C" {
#endif

void *emulated_dlopen(const char *name, int flags);
void *emulated_dlsym(void *library, const char *symbol);
char *emulated_dlerror(void);
int emulated_dlclose(void *library);

#ifdef __cplusplus
}
#endif

#define dlopen  emulated_dlopen
#define dlsym   emulated_dlsym
#define dlerror emulated_dlerror
#define dlclose emulated_dlclose

#endif

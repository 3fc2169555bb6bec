#include "blas.h"
// OpenBLAS is opened with dlopen and its functions are looked up by name; their types come from its header. The symbol
// table of this program therefore never needs it.

#include <cblas.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct OpenBlas {
    Blas blas;     // the public part; first, so that one pointer serves for both
    void *library; // owned
    __typeof__(cblas_sgemm) *floats;
    __typeof__(cblas_dsyrk) *products;
    __typeof__(openblas_get_config) *config;
    __typeof__(openblas_get_corename) *core;
    __typeof__(openblas_get_num_threads) *threads;
    __typeof__(openblas_set_num_threads) *set_threads;
    char name[BLAS_NAME_BYTES];
} OpenBlas;

// An unknown word is refused rather than taken as one of the two: a misspelt "off" would change the bits in silence.
Status blas_allowed(bool *allowed, Error *err) {
    const char *wish = getenv("SOUNDER_BLAS");
    *allowed = !wish || !*wish || strcmp(wish, "on") == 0;
    if (*allowed || strcmp(wish, "off") == 0) return STATUS_OK;
    return fail(err, STATUS_USAGE, "SOUNDER_BLAS=%s: needs on or off", wish);
}

// OpenBLAS's name for the oldest core that has the build's instructions; NULL: OpenBLAS chooses. OpenBLAS must not use
// wider instructions than the run's own ops: a run with SOUNDER_ISA=avx2 gives equal bits on a machine with AVX-512 and
// on one without.
static const char *core_of(const Kernels *kernels) {
#ifdef __x86_64__
    static const char *const cores[][2] = {{"avx512", "SkylakeX"}, {"avx2", "Haswell"}, {"baseline", "Prescott"}};
    for (size_t i = 0; i < sizeof cores / sizeof *cores; i++)
        if (strcmp(kernels->name, cores[i][0]) == 0) return cores[i][1];
#else
    (void)kernels;
#endif
    return NULL;
}

// Sets a variable unless the user has set it. Returns whether it did. The caller takes it back once the library has
// read it, so that programs started later do not inherit it.
static bool lend(const char *variable, const char *value) {
    return value && !getenv(variable) && setenv(variable, value, 0) == 0;
}

// RTLD_LOCAL, so that another BLAS in this process keeps its own names. The variables are set only while the library is
// loaded.
static void *load(const Kernels *kernels, bool *one_thread) {
    static const char *const names[] = {"libopenblas.so.0", "libopenblas.so"};
    bool core = lend("OPENBLAS_CORETYPE", core_of(kernels));
    *one_thread = lend("OPENBLAS_NUM_THREADS", "1");
    void *library = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !library; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (core) unsetenv("OPENBLAS_CORETYPE");
    if (*one_thread) unsetenv("OPENBLAS_NUM_THREADS");
    return library;
}

// memcpy instead of a cast: C does not convert between pointers to data and to functions.
static Status find(void *function, void *library, const char *name, Error *err) {
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
    if (symbol) return STATUS_OK;
    return fail(err, STATUS_UNAVAILABLE, "OpenBLAS has no function %s; install libopenblas0 of Debian, or a later one",
                name);
}

// Builds the name from OpenBLAS's own text, "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ...", of which it takes two words.
static void write_name(OpenBlas *blas) {
    const char *config = blas->config();
    int words = 0, length = 0;
    for (; config[length] && (config[length] != ' ' || ++words < 2); length++) {
    }
    char threads[32] = "";
    if (blas->threads() > 1) snprintf(threads, sizeof threads, ", %d threads", blas->threads());
    snprintf(blas->name, sizeof blas->name, "%.*s %.32s%s", length < 32 ? length : 32, config, blas->core(), threads);
}

static CBLAS_TRANSPOSE as_given(BlasMatrix matrix) {
    return matrix.transposed ? CblasTrans : CblasNoTrans;
}

// All matrices are row-major, with a distance between rows: no factor is copied before OpenBLAS copies it to its
// blocks.
static void multiply(const Blas *blas, float *out, size_t out_stride, BlasMatrix left, BlasMatrix right, float keep,
                     size_t rows, size_t columns, size_t inner) {
    ((const OpenBlas *)blas)
        ->floats(CblasRowMajor, as_given(left), as_given(right), (blasint)rows, (blasint)columns, (blasint)inner, 1,
                 left.at, (blasint)left.stride, right.at, (blasint)right.stride, keep, out, (blasint)out_stride);
}

// Every function is found before the first is called, so that a library without one of them is refused with its name.
Status blas_open(Blas **opened, const Kernels *kernels, Error *err) {
    OpenBlas *blas = calloc(1, sizeof *blas);
    if (!blas) return fail_errno(err, STATUS_OS, "no memory for OpenBLAS's functions");
    blas->blas.multiply = multiply;
    bool one_thread;
    Status status;
    blas->library = load(kernels, &one_thread);
    if (!blas->library) {
        status = fail(err, STATUS_UNAVAILABLE,
                      "this run's products are large enough for OpenBLAS, which cannot be opened (%s); install "
                      "libopenblas0, or set SOUNDER_BLAS=off to do without, more slowly and to other bits",
                      dlerror());
        goto fail;
    }
    TRY_GOTO(fail, find(&blas->floats, blas->library, "cblas_sgemm", err));
    TRY_GOTO(fail, find(&blas->products, blas->library, "cblas_dsyrk", err));
    TRY_GOTO(fail, find(&blas->config, blas->library, "openblas_get_config", err));
    TRY_GOTO(fail, find(&blas->core, blas->library, "openblas_get_corename", err));
    TRY_GOTO(fail, find(&blas->threads, blas->library, "openblas_get_num_threads", err));
    TRY_GOTO(fail, find(&blas->set_threads, blas->library, "openblas_set_num_threads", err));
    if (one_thread) blas->set_threads(1); // the build on OpenMP listens to OMP_NUM_THREADS alone
    write_name(blas);
    *opened = &blas->blas;
    return STATUS_OK;
fail:
    blas_close(&blas->blas);
    return status;
}

// The public part is the first member, so its address is that of the whole.
void blas_close(Blas *blas) {
    if (!blas) return;
    void *library = ((OpenBlas *)blas)->library;
    if (library) dlclose(library);
    free(blas);
}

const char *blas_name(const Blas *blas) {
    return ((const OpenBlas *)blas)->name;
}

// The product of a matrix with its own transpose is symmetric, and dsyrk computes half of it in half the time.
void blas_add_products(const Blas *blas, double *out, const double *values, size_t stride, size_t rows, size_t inner) {
    ((const OpenBlas *)blas)
        ->products(CblasRowMajor, CblasUpper, CblasNoTrans, (blasint)rows, (blasint)inner, 1, values, (blasint)stride,
                   1, out, (blasint)rows);
}

#include "cuda_blas.h"

#include <dlfcn.h>
#include <stdio.h>

#include "base/cuda_try.h"

#define WORD(name)         #name
#define VERSIONED(version) "libcublas.so." WORD(version)
#define LIBRARY            VERSIONED(CUBLAS_VER_MAJOR)
// The cuBLAS of the toolkit that built this program, for a loader that does not know its folder; a build can omit it.
#ifndef SOUNDER_CUBLAS_FOLDER
#define SOUNDER_CUBLAS_FOLDER ""
#endif
#define SYMBOL_OF(function)                                                                                            \
    WORD(function) // cublas_v2.h renames functions: the symbol of cublasCreate is cublasCreate_v2

// Functions that only cuda_blas_open calls.
// Their types are those of the header that this build was made with.
typedef struct Setup {
    __typeof__(cublasCreate) *create;
    __typeof__(cublasSetStream) *set_stream;
    __typeof__(cublasSetWorkspace) *set_workspace;
    __typeof__(cublasSetMathMode) *set_math_mode;
} Setup;

static Status find(void **function, void *library, const char *name, Error *err) {
    *function = dlsym(library, name);
    if (*function) return STATUS_OK;
    return fail(err, STATUS_UNAVAILABLE, "cuBLAS has no function %s; install the one of CUDA %d", name,
                CUBLAS_VER_MAJOR);
}

// The library of the version that this build knows is tried first, in the loader's path and in the toolkit's folder.
// The error message is that of the first try.
static Status load(CudaBlas *blas, Setup *setup, Error *err) {
    static const char *const names[] = {LIBRARY, SOUNDER_CUBLAS_FOLDER "/" LIBRARY, "libcublas.so"};
    char why[256] = ""; // of the first name, whose library has this build's version
    // RTLD_NODELETE: cuBLAS leaves state of its own in the process, whose code must not be unloaded.
    for (size_t i = 0; i < sizeof names / sizeof *names && !blas->library; i++) {
        blas->library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        if (!blas->library && i == 0) snprintf(why, sizeof why, "%s", dlerror());
    }
    if (!blas->library)
        return fail(err, STATUS_UNAVAILABLE,
                    "cuBLAS cannot be opened (%s); install " LIBRARY " or name its folder in LD_LIBRARY_PATH", why);
    TRY(find((void **)&setup->create, blas->library, SYMBOL_OF(cublasCreate), err));
    TRY(find((void **)&setup->set_stream, blas->library, SYMBOL_OF(cublasSetStream), err));
    TRY(find((void **)&setup->set_workspace, blas->library, SYMBOL_OF(cublasSetWorkspace), err));
    TRY(find((void **)&setup->set_math_mode, blas->library, SYMBOL_OF(cublasSetMathMode), err));
    TRY(find((void **)&blas->destroy, blas->library, SYMBOL_OF(cublasDestroy), err));
    TRY(find((void **)&blas->multiply, blas->library, SYMBOL_OF(cublasSgemmStridedBatched), err));
    return STATUS_OK;
}

// The library stays loaded (RTLD_NODELETE), so that the first net opens it at once.
Status cuda_blas_find(Error *err) {
    CudaBlas blas = {0};
    Setup setup;
    const Status status = load(&blas, &setup, err);
    cuda_blas_close(&blas);
    return status;
}

// The number stands for a name in NVIDIA's list; cublasGetStatusName is younger than the cuBLAS of some machines.
static Status blas_try(cublasStatus_t result, const char *what, Error *err) {
    if (result == CUBLAS_STATUS_SUCCESS) return STATUS_OK;
    Status status = result == CUBLAS_STATUS_ALLOC_FAILED ? STATUS_OS : STATUS_UNAVAILABLE;
    return fail(err, status, "%s: cuBLAS refused with status %d", what, (int)result);
}

// The net's own workspace makes captured products legal (cuda_blas.h).
Status cuda_blas_open(CudaBlas *blas, cudaStream_t stream, bool tf32, Error *err) {
    *blas = (CudaBlas){.failure = CUBLAS_STATUS_SUCCESS};
    Setup setup = {0};
    Status status;
    TRY_GOTO(fail, load(blas, &setup, err));
    TRY_GOTO(fail, blas_try(setup.create(&blas->handle), "starting cuBLAS", err));
    // In this order: setting the stream resets the workspace to cuBLAS's own.
    TRY_GOTO(fail, blas_try(setup.set_stream(blas->handle, stream), "giving cuBLAS its stream", err));
    cudaError_t allocated = cudaMalloc(&blas->workspace, CUDA_BLAS_WORKSPACE_BYTES);
    if (allocated != cudaSuccess) {
        status = cuda_fail(err, allocated, "no memory for cuBLAS's workspace of %d bytes", CUDA_BLAS_WORKSPACE_BYTES);
        goto fail;
    }
    TRY_GOTO(fail, blas_try(setup.set_workspace(blas->handle, blas->workspace, CUDA_BLAS_WORKSPACE_BYTES),
                            "giving cuBLAS its workspace", err));
    cublasMath_t mode = tf32 ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH;
    TRY_GOTO(fail, blas_try(setup.set_math_mode(blas->handle, mode), "setting cuBLAS's precision", err));
    return STATUS_OK;
fail:
    cuda_blas_close(blas);
    return status;
}

void cuda_blas_close(CudaBlas *blas) {
    if (blas->handle) blas->destroy(blas->handle);
    if (blas->workspace) cudaFree(blas->workspace);
    if (blas->library) dlclose(blas->library);
    *blas = (CudaBlas){0};
}

// A failure is remembered instead of returned: products are called between launches that cannot fail either, and a
// captured step is checked as a whole (cuda_blas_check). cuBLAS takes matrices by columns, where a row-major matrix is
// its transpose. So a row-major product = b a is asked for as its transpose a^T b^T: the factors change places and
// nothing is copied.
void cuda_blas_multiply(CudaBlas *blas, CudaProduct product, CudaFactor a, CudaFactor b, int columns, int rows,
                        int inner, int models) {
    const float one = 1, zero = 0;
    cublasStatus_t result =
        blas->multiply(blas->handle, a.as, b.as, columns, rows, inner, &one, a.at, a.row, (long long)a.stride, b.at,
                       b.row, (long long)b.stride, &zero, product.at, columns, (long long)product.stride, models);
    if (blas->failure == CUBLAS_STATUS_SUCCESS) blas->failure = result;
}

Status cuda_blas_check(CudaBlas *blas, Error *err) {
    if (!blas) return STATUS_OK;
    cublasStatus_t failure = blas->failure;
    blas->failure = CUBLAS_STATUS_SUCCESS;
    return blas_try(failure, "a product of a layer", err);
}

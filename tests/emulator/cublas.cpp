// The emulated cuBLAS, and the <dlfcn.h> through which it is found.
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "call.h"
#include "cublas_v2.h"
#include "memory.h"
#include "settings.h"
#include "stream.h"

#include <dlfcn.h>
#undef dlopen
#undef dlsym
#undef dlerror
#undef dlclose

using namespace emulator;

struct cublasContext {
    cudaStream_t stream;
};

namespace {

// A matrix as BLAS has it, column by column, possibly to be read transposed.
struct Matrix {
    const float *values;
    size_t stride, batch_stride;
    bool transposed;
};

struct Product {
    size_t m, n, k, batch;
    float alpha, beta;
    Matrix a, b;
    float *c;
    size_t c_stride, c_batch_stride;
};

float at(const Matrix &matrix, const float *values, size_t row, size_t column) {
    return matrix.transposed ? values[column + row * matrix.stride] : values[row + column * matrix.stride];
}

// c = alpha a b + beta c. a is laid out anew so that the inner loop runs along columns of a and c.
void multiply_one(const Product &product, const float *a, const float *b, float *c, std::vector<float> &columns) {
    for (size_t k = 0; k < product.k; k++)
        for (size_t i = 0; i < product.m; i++)
            columns[k * product.m + i] = at(product.a, a, i, k);
    std::vector<float> sum(product.m);
    for (size_t j = 0; j < product.n; j++) {
        std::fill(sum.begin(), sum.end(), 0.0f);
        for (size_t k = 0; k < product.k; k++) {
            float factor = at(product.b, b, k, j);
            const float *column = &columns[k * product.m];
            for (size_t i = 0; i < product.m; i++)
                sum[i] += column[i] * factor;
        }
        float *out = c + j * product.c_stride;
        for (size_t i = 0; i < product.m; i++)
            out[i] = product.alpha * sum[i] + (product.beta == 0 ? 0.0f : product.beta * out[i]);
    }
}

void multiply(const Product &product) {
    std::vector<float> columns(product.m * product.k);
    for (size_t i = 0; i < product.batch; i++)
        multiply_one(product, product.a.values + i * product.a.batch_stride,
                     product.b.values + i * product.b.batch_stride, product.c + i * product.c_batch_stride, columns);
}

struct Entry {
    const char *name;
    void *function;
};

#define ENTRY(name)                                                                                                    \
    { #name, reinterpret_cast < void *>(name) }
const Entry entries[] = {
    ENTRY(cublasCreate_v2),         ENTRY(cublasDestroy_v2),      ENTRY(cublasGetVersion_v2),
    ENTRY(cublasSetStream_v2),      ENTRY(cublasSetWorkspace_v2), ENTRY(cublasSetMathMode),
    ENTRY(cublasSetPointerMode_v2), ENTRY(cublasSetAtomicsMode),  ENTRY(cublasGetStatusName),
    ENTRY(cublasGetStatusString),   ENTRY(cublasSgemm_v2),        ENTRY(cublasSgemmStridedBatched),
};

char library; // its address stands for the opened library
std::string missing; // what could not be opened, and why
const char *last_error;

bool names_cublas(const char *name) {
    return name && std::strncmp(name, "libcublas.so", 12) == 0;
}

} // namespace

cublasStatus_t cublasCreate_v2(cublasHandle_t *handle) {
    if (enter(__func__) || memory_open_context()) return CUBLAS_STATUS_NOT_INITIALIZED;
    *handle = new cublasContext{nullptr};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    delete handle;
    return enter(__func__) ? CUBLAS_STATUS_INTERNAL_ERROR : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetVersion_v2(cublasHandle_t, int *version) {
    *version = CUBLAS_VERSION;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
    if (enter(__func__)) return CUBLAS_STATUS_INTERNAL_ERROR;
    handle->stream = stream;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t, void *workspace, size_t bytes) {
    if (enter(__func__)) return CUBLAS_STATUS_INTERNAL_ERROR;
    const Block *block = memory_block(workspace);
    bool fits = block && static_cast<char *>(workspace) + bytes <= block->base + block->bytes;
    bool aligned = reinterpret_cast<uintptr_t>(workspace) % 256 == 0;
    return bytes == 0 || (fits && aligned) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

static cublasStatus_t entered(const char *name) {
    return enter(name) ? CUBLAS_STATUS_INTERNAL_ERROR : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t) {
    return entered(__func__);
}
cublasStatus_t cublasSetAtomicsMode(cublasHandle_t, cublasAtomicsMode_t) {
    return entered(__func__);
}

cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t, cublasPointerMode_t mode) {
    return mode == CUBLAS_POINTER_MODE_HOST ? entered(__func__) : CUBLAS_STATUS_NOT_SUPPORTED;
}

const char *cublasGetStatusName(cublasStatus_t status) {
    return status == CUBLAS_STATUS_SUCCESS ? "CUBLAS_STATUS_SUCCESS" : "CUBLAS_STATUS_INTERNAL_ERROR";
}

const char *cublasGetStatusString(cublasStatus_t status) {
    return status == CUBLAS_STATUS_SUCCESS ? "the operation completed successfully" : "an internal cuBLAS error";
}

cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t handle, cublasOperation_t a_operation,
                                         cublasOperation_t b_operation, int m, int n, int k, const float *alpha,
                                         const float *a, int a_stride, long long int a_batch_stride, const float *b,
                                         int b_stride, long long int b_batch_stride, const float *beta, float *c,
                                         int c_stride, long long int c_batch_stride, int batch) {
    if (enter("cublasSgemmStridedBatched")) return CUBLAS_STATUS_EXECUTION_FAILED;
    bool a_transposed = a_operation != CUBLAS_OP_N, b_transposed = b_operation != CUBLAS_OP_N;
    if (!handle || m < 0 || n < 0 || k < 0 || batch < 0 || a_stride < (a_transposed ? k : m) ||
        b_stride < (b_transposed ? n : k) || c_stride < m || a_stride < 1 || b_stride < 1 || c_stride < 1)
        return CUBLAS_STATUS_INVALID_VALUE;
    Product product{static_cast<size_t>(m),
                    static_cast<size_t>(n),
                    static_cast<size_t>(k),
                    static_cast<size_t>(batch),
                    *alpha,
                    *beta,
                    {a, static_cast<size_t>(a_stride), static_cast<size_t>(a_batch_stride), a_transposed},
                    {b, static_cast<size_t>(b_stride), static_cast<size_t>(b_batch_stride), b_transposed},
                    c,
                    static_cast<size_t>(c_stride),
                    static_cast<size_t>(c_batch_stride)};
    cudaError_t error = stream_add(handle->stream, [product] { multiply(product); });
    return error ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSgemm_v2(cublasHandle_t handle, cublasOperation_t a_operation, cublasOperation_t b_operation,
                              int m, int n, int k, const float *alpha, const float *a, int a_stride, const float *b,
                              int b_stride, const float *beta, float *c, int c_stride) {
    return cublasSgemmStridedBatched(handle, a_operation, b_operation, m, n, k, alpha, a, a_stride, 0, b, b_stride, 0,
                                     beta, c, c_stride, 0, 1);
}

void *emulated_dlopen(const char *name, int flags) {
    if (!names_cublas(name)) return dlopen(name, flags);
    if (settings().cublas) return &library;
    missing = std::string(name) + ": cannot open shared object file: No such file or directory";
    last_error = missing.c_str();
    return nullptr;
}

void *emulated_dlsym(void *opened, const char *symbol) {
    if (opened != &library) return dlsym(opened, symbol);
    for (const Entry &entry : entries)
        if (std::strcmp(entry.name, symbol) == 0) return entry.function;
    last_error = "libcublas.so: undefined symbol";
    return nullptr;
}

char *emulated_dlerror() {
    const char *error = std::exchange(last_error, nullptr);
    return error ? const_cast<char *>(error) : dlerror();
}

int emulated_dlclose(void *opened) {
    return opened == &library ? 0 : dlclose(opened);
}

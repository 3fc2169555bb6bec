// Part of send_rules.h: PowerSGD (Vogels, Karimireddy, Jaggi, NeurIPS 2019, Algorithm 1) for a single client's update:
// each matrix M (rows x cols) of the update becomes a product of two thin matrices by one step of the power method,
//
//   P = M Q,   P orthonormal by Gram-Schmidt,   Q = M^T P,   the server reads P Q^T
//
// Q starts as normal numbers or, with feedback, as the client's last Q (the paper's warm start), which is stored in the
// client's state after the leftover. In the paper all workers share one Q, and P and Q are averaged in two exchanges
// per step. Here each client has its own, since the cohort changes every round, and the mean is taken of what they
// send. A tensor with more than two dimensions is a matrix of its first dimension and the rest, as in the paper's code.
//
// On the wire, for each tensor: P and Q, column by column, 4 r (rows + cols) bytes with r = min(rank, rows, cols); a
// vector is sent as it is.
#include <math.h>

#include "fedavg/rules/send/send_rules.h"
#include "fedavg/rules/sum/aggregate.h"

typedef float WireFloat __attribute__((may_alias)); // the wire is bytes, but this code writes only floats

typedef struct Matrix {
    size_t first, rows, cols, rank; // rank 0: a vector of `cols`
} Matrix;

// A rank above the shorter side adds nothing: with that many columns the product is the whole matrix already.
static Matrix matrix_at(const Coding *coding, uint32_t tensor) {
    const size_t first = tensor > 0 ? coding->ends[tensor - 1] : 0, count = coding->ends[tensor] - first;
    const size_t rows = coding->rows[tensor], rank = (size_t)coding->number[0];
    if (rows == 0) return (Matrix){.first = first, .cols = count};
    const size_t cols = count / rows, least = rows < cols ? rows : cols;
    return (Matrix){.first = first, .rows = rows, .cols = cols, .rank = rank < least ? rank : least};
}

static size_t wire_floats(const Matrix *matrix) {
    return matrix->rank > 0 ? matrix->rank * (matrix->rows + matrix->cols) : matrix->cols;
}

static uint64_t power_bytes(const Coding *coding) {
    uint64_t floats = 0;
    for (uint32_t t = 0; t < coding->tensors; t++) {
        const Matrix matrix = matrix_at(coding, t);
        floats += wire_floats(&matrix);
    }
    return floats * sizeof(float);
}

static size_t power_keeps(const Coding *coding) {
    size_t floats = 0;
    for (uint32_t t = 0; t < coding->tensors; t++) {
        const Matrix matrix = matrix_at(coding, t);
        floats += matrix.rank * matrix.cols;
    }
    return floats;
}

// The inner product, in 16 partial sums that are the same on every instruction set.
AGGREGATE_VECTORS static double inner(const WireFloat *a, const WireFloat *b, size_t count) {
    enum { LANES = 16 };
    double lanes[LANES] = {0}, sum = 0;
    const size_t whole = count / LANES * LANES;
    for (size_t i = 0; i < whole; i += LANES)
        for (size_t l = 0; l < LANES; l++)
            lanes[l] += (double)a[i + l] * (double)b[i + l];
    for (size_t i = whole; i < count; i++)
        lanes[i - whole] += (double)a[i] * (double)b[i];
    for (int l = 0; l < LANES; l++)
        sum += lanes[l];
    return sum;
}

AGGREGATE_VECTORS static void add_multiple(WireFloat *to, const WireFloat *values, double factor, size_t count) {
    for (size_t i = 0; i < count; i++)
        to[i] = (float)((double)to[i] + factor * (double)values[i]);
}

// Makes the columns (rank of count) orthonormal. Two passes, since after one a column that nearly depends on earlier
// ones would be mostly rounding error; a column that does depend on them becomes zeros.
static void make_orthonormal(WireFloat *columns, size_t count, size_t rank) {
    for (size_t c = 0; c < rank; c++) {
        WireFloat *column = columns + c * count;
        const double before = sqrt(inner(column, column, count));
        for (int pass = 0; pass < 2; pass++)
            for (size_t other = 0; other < c; other++)
                add_multiple(column, columns + other * count, -inner(column, columns + other * count, count), count);
        const double length = sqrt(inner(column, column, count));
        const double factor = length > 1e-6 * before ? 1 / length : 0;
        for (size_t i = 0; i < count; i++)
            column[i] = (float)((double)column[i] * factor);
    }
}

// product (cols) = M^T column, in blocks of columns. M is stored by rows: adding row after row to a block of sums reads
// it in order, where a walk down its columns would miss the cache at every step.
AGGREGATE_VECTORS static void multiply_transposed(WireFloat *product, const float *values, const WireFloat *column,
                                                  size_t rows, size_t cols) {
    double sums[CODE_BLOCK];
    for (size_t first = 0; first < cols; first += CODE_BLOCK) {
        const size_t block = cols - first < CODE_BLOCK ? cols - first : CODE_BLOCK;
        for (size_t j = 0; j < block; j++)
            sums[j] = 0;
        for (size_t i = 0; i < rows; i++) {
            const float *row = values + i * cols + first;
            for (size_t j = 0; j < block; j++)
                sums[j] += (double)row[j] * (double)column[i];
        }
        for (size_t j = 0; j < block; j++)
            product[first + j] = (float)sums[j];
    }
}

// Stores Q for the client's next turn. Columns of zeros would stay zeros forever, so the previous ones are kept
// instead.
static void keep(float *after, const float *before, const WireFloat *q, RngKey key, const Matrix *matrix) {
    for (size_t c = 0; c < matrix->rank; c++) {
        const size_t at = c * matrix->cols;
        const bool nothing = inner(q + at, q + at, matrix->cols) == 0;
        for (size_t j = at; j < at + matrix->cols; j++)
            after[j] = !nothing ? q[j] : before ? before[j] : (float)rng_normal(key, (uint32_t)(matrix->first + j));
    }
}

// One step of the power method turns P towards the directions in which M is largest. For an orthonormal P, Q = M^T P is
// the best second factor: P Q^T is then the projection of M onto the columns of P.
static void encode_matrix(WireFloat *p, const float *values, const Coding *coding, const Matrix *matrix, size_t kept) {
    const size_t rows = matrix->rows, cols = matrix->cols, rank = matrix->rank;
    const float *before = coding->before ? coding->before + kept : NULL;
    WireFloat *q = p + rank * rows;
    for (size_t j = 0; j < rank * cols; j++)
        q[j] = before ? before[j] : (float)rng_normal(coding->key, (uint32_t)(matrix->first + j));
    for (size_t c = 0; c < rank; c++)
        for (size_t i = 0; i < rows; i++)
            p[c * rows + i] = (float)inner(values + i * cols, q + c * cols, cols);
    make_orthonormal(p, rows, rank);
    for (size_t c = 0; c < rank; c++)
        multiply_transposed(q + c * cols, values, p + c * rows, rows, cols);
    if (coding->after) keep(coding->after + kept, before, q, coding->key, matrix);
}

static size_t power_encode(uint8_t *wire, const Payload *payload, const Coding *coding) {
    size_t kept = 0;
    uint8_t *at = wire;
    for (uint32_t t = 0; t < coding->tensors; t++) {
        const Matrix matrix = matrix_at(coding, t);
        const float *values = payload->update + matrix.first;
        if (matrix.rank > 0)
            encode_matrix((WireFloat *)(void *)at, values, coding, &matrix, kept);
        else
            memcpy(at, values, matrix.cols * sizeof *values);
        kept += matrix.rank * matrix.cols;
        at += wire_floats(&matrix) * sizeof(float);
    }
    return (size_t)(at - wire);
}

static void power_decode(float *values, const uint8_t *wire, size_t bytes, const Coding *coding) {
    (void)bytes;
    for (uint32_t t = 0; t < coding->tensors; t++) {
        const Matrix matrix = matrix_at(coding, t);
        const WireFloat *p = (const WireFloat *)(const void *)wire, *q = p + matrix.rank * matrix.rows;
        float *to = values + matrix.first;
        memset(to, 0, (coding->ends[t] - matrix.first) * sizeof *to);
        if (matrix.rank == 0) memcpy(to, wire, matrix.cols * sizeof *to);
        for (size_t i = 0; i < matrix.rows; i++)
            for (size_t c = 0; c < matrix.rank; c++)
                add_multiple(to + i * matrix.cols, q + c * matrix.cols, (double)p[c * matrix.rows + i], matrix.cols);
        wire += wire_floats(&matrix) * sizeof(float);
    }
}

const SendCode power_send_code = {
    .text = {"powersgd",
             "sends each matrix as a product of two thin ones, of RANK columns; unlike the paper's workers, which "
             "share one and exchange twice, each client has its own, so that the mean of several has a higher rank",
             "Vogels, Karimireddy, Jaggi, NeurIPS 2019",
             {{.name = "rank", .preset = 2, .minimum = 1, .maximum = 4096, .whole = true},
              FEEDBACK_ON,
              FEEDBACK_DECAY(1)}},
    .keeps = power_keeps,
    .bytes = power_bytes,
    .encode = power_encode,
    .decode = power_decode};

// Part of combine_rules.h: clients train low-rank adapters, and their mean product is kept exactly, or as well as the
// rank allows.
//
//   mean    B = sum_k p_k B_k,  A = sum_k p_k A_k                 (FedIT: Zhang et al., ICASSP 2024)
//   exact   as mean, and the base += scale (sum_k p_k B_k A_k - B A)   (FedEx-LoRA: Singhal et al., ACL 2025)
//   svd     B A = sum_k p_k B_k A_k, cut to the rank              (FlexLoRA: Bai et al., NeurIPS 2024)
#include "adapters.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fedavg/rules/combine/combine_rules.h"

enum { HOW, SCALE, TRANSPOSED };

const CombineRule adapters_combine_rule = {
    .text = {"adapters",
             "low-rank adapters (lora_A, lora_B): the mean of factors; exact: what it leaves out of their mean product "
             "joins the base's weight, which has to travel; svd: the product's best factors of the rank",
             "Singhal et al., ACL 2025 (FedEx-LoRA); Bai et al., NeurIPS 2024 (FlexLoRA)",
             {[HOW] = {.name = "how", .words = {"mean", "exact", "svd"}},
              [SCALE] = {.name = "scale", .preset = NAN, .minimum = 0, .maximum = 1e6, .derived = "lora_alpha/r"},
              [TRANSPOSED] = {.name = "transposed", .preset = NAN, .words = {"no", "yes"}},
              COMBINE_WEIGHTS}},
    .rows = true,
    .adapters = true};

int adapters_how(const Chosen *chosen) {
    return (int)chosen->number[HOW];
}

double adapters_scale(const Chosen *chosen) {
    return chosen->number[SCALE];
}

// Pairs ---------------------------------------------------------------------------------------------------------------

static const ParameterTensor *find(const TensorList *list, const char *name) {
    for (int t = 0; t < list->count; t++)
        if (strcmp(list->tensors[t].name, name) == 0) return &list->tensors[t];
    return NULL;
}

static Status find_base(AdapterPair *pair, const Chosen *chosen, const TensorList *list, size_t name_bytes,
                        Error *err) {
    char name[TENSOR_NAME_BYTES + 32];
    snprintf(name, sizeof name, "%.*sbase_layer.weight", (int)name_bytes, pair->a->name);
    pair->base = find(list, name);
    if (!pair->base)
        return fail(err, STATUS_USAGE,
                    "combine adapters how=exact: %s does not travel, to which the residual would be added; let it "
                    "(serve(..., exchange=[\"*lora_*\", \"*base_layer.weight\"])), or take how=svd",
                    name);
    const int64_t *shape = pair->base->shape;
    const size_t rows = (size_t)shape[0], columns = rows > 0 ? pair->base->count / rows : 0;
    const bool fits = rows == pair->out && columns == pair->in, turned = rows == pair->in && columns == pair->out;
    if (fits && turned && isnan(chosen->number[TRANSPOSED]))
        return fail(err, STATUS_USAGE,
                    "combine adapters how=exact: %s is square; say how it is stored: transposed=no (outputs by inputs, "
                    "as nn.Linear) or transposed=yes (as Conv1D of GPT-2)",
                    name);
    pair->transposed = isnan(chosen->number[TRANSPOSED]) ? turned : chosen->number[TRANSPOSED] != 0;
    if (pair->base->rank < 2 || !(pair->transposed ? turned : fits))
        return fail(err, STATUS_USAGE, "combine adapters how=exact: %s has %zu x %zu weights, its adapter %zu x %zu",
                    name, rows, columns, pair->transposed ? pair->in : pair->out,
                    pair->transposed ? pair->out : pair->in);
    return STATUS_OK;
}

static Status read_pair(AdapterPair *pair, const ParameterTensor *a, const Chosen *chosen, const TensorList *list,
                        const bool *travels, Error *err) {
    char name[TENSOR_NAME_BYTES];
    const size_t at = (size_t)(strstr(a->name, "lora_A") - a->name);
    snprintf(name, sizeof name, "%s", a->name);
    name[at + strlen("lora_")] = 'B';
    const ParameterTensor *b = find(list, name);
    if (!b) return fail(err, STATUS_USAGE, "combine adapters: %s has no %s beside it", a->name, name);
    *pair = (AdapterPair){.a = a, .b = b, .rank = (size_t)a->shape[0], .out = (size_t)b->shape[0]};
    if (a->rank < 2 || b->rank < 2 || b->count != pair->out * pair->rank)
        return fail(err, STATUS_USAGE, "combine adapters: %s and %s are no two factors (rank, inputs), (outputs, rank)",
                    a->name, name);
    pair->in = a->count / pair->rank;
    if (chosen->number[HOW] == ADAPTERS_MEAN) return STATUS_OK;
    if (!travels[a - list->tensors] || !travels[b - list->tensors])
        return fail(err, STATUS_USAGE,
                    "combine adapters: %s does not reach the server, so that there is no mean of products; take "
                    "how=mean",
                    travels[a - list->tensors] ? name : a->name);
    return chosen->number[HOW] == ADAPTERS_EXACT ? find_base(pair, chosen, list, at, err) : STATUS_OK;
}

Status adapter_pairs(AdapterPairs *pairs, const Chosen *chosen, const TensorList *list, const bool *travels,
                     Error *err) {
    pairs->count = 0;
    if (chosen->number[HOW] == ADAPTERS_EXACT && isnan(chosen->number[SCALE]))
        return fail(err, STATUS_USAGE,
                    "combine adapters how=exact: by what is B A multiplied in the net? Write scale=2 (lora_alpha / r)");
    for (int t = 0; t < list->count; t++)
        if (strstr(list->tensors[t].name, "lora_A"))
            TRY(read_pair(&pairs->pairs[pairs->count++], &list->tensors[t], chosen, list, travels, err));
    if (pairs->count > 0) return STATUS_OK;
    return fail(err, STATUS_USAGE,
                "combine adapters: no tensor of the net has lora_A in its name, as PEFT's adapters have; take fedavg");
}

// Products ------------------------------------------------------------------------------------------------------------

void adapter_residual(double *residual, const AdapterFactors *factors, const double *b, const double *a, size_t rank) {
    const size_t in = factors->in;
    memset(residual, 0, factors->out * in * sizeof *residual);
    for (size_t o = 0; o < factors->out; o++) {
        double *row = residual + o * in;
        for (size_t k = 0; k < factors->count; k++)
            for (size_t i = 0; i < in; i++)
                row[i] += factors->left[o * factors->count + k] * factors->right[k * in + i];
        for (size_t k = 0; k < rank; k++)
            for (size_t i = 0; i < in; i++)
                row[i] -= b[o * rank + k] * a[k * in + i];
    }
}

static double dot(const double *x, const double *y, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += x[i] * y[i];
    return sum;
}

// The rows of right (count, in) as combinations of an orthonormal basis (found, in): right = coefficients (count,
// found) basis. Gram-Schmidt, twice, which is enough (Giraud et al. 2005). A row within the span of others adds nothing
// to the basis. stride: of coefficients. Returns found.
static size_t orthonormalise(double *basis, double *coefficients, size_t stride, const AdapterFactors *factors) {
    static const double WITHIN = 1e-13;
    const size_t in = factors->in;
    size_t found = 0;
    for (size_t k = 0; k < factors->count; k++) {
        double *next = basis + found * in, *own = coefficients + k * stride;
        memset(own, 0, stride * sizeof *own);
        if (found < stride) memcpy(next, factors->right + k * in, in * sizeof *next);
        const double *row = factors->right + k * in, length = sqrt(dot(row, row, in));
        if (found == stride) { // the basis is whole
            for (size_t j = 0; j < found; j++)
                own[j] = dot(basis + j * in, row, in);
            continue;
        }
        for (int pass = 0; pass < 2; pass++)
            for (size_t j = 0; j < found; j++) {
                const double part = dot(basis + j * in, next, in);
                own[j] += part;
                for (size_t i = 0; i < in; i++)
                    next[i] -= part * basis[j * in + i];
            }
        const double left = sqrt(dot(next, next, in));
        if (!(left > WITHIN * length)) continue;
        own[found++] = left;
        for (size_t i = 0; i < in; i++)
            next[i] /= left;
    }
    return found;
}

// One-sided Jacobi (Hestenes 1958): rotates pairs of the rows of w (count, out) until all are orthogonal; v (count,
// count), the identity at first, takes these rotations.
static void make_orthogonal(double *w, double *v, size_t count, size_t out) {
    static const double ORTHOGONAL = 1e-15;
    enum { MOST_SWEEPS = 60 };
    bool rotated = true;
    for (int sweep = 0; sweep < MOST_SWEEPS && rotated; sweep++) {
        rotated = false;
        for (size_t p = 0; p < count; p++)
            for (size_t q = p + 1; q < count; q++) {
                double *rows[2][2] = {{w + p * out, w + q * out}, {v + p * count, v + q * count}};
                const size_t lengths[2] = {out, count};
                const double pp = dot(rows[0][0], rows[0][0], out), qq = dot(rows[0][1], rows[0][1], out);
                const double pq = dot(rows[0][0], rows[0][1], out);
                if (fabs(pq) <= ORTHOGONAL * sqrt(pp * qq) || pq == 0) continue;
                const double zeta = (qq - pp) / (2 * pq);
                const double tangent = copysign(1, zeta) / (fabs(zeta) + sqrt(1 + zeta * zeta));
                const double cosine = 1 / sqrt(1 + tangent * tangent), sine = cosine * tangent;
                rotated = true;
                for (int kind = 0; kind < 2; kind++)
                    for (size_t i = 0; i < lengths[kind]; i++) {
                        const double x = rows[kind][0][i], y = rows[kind][1][i];
                        rows[kind][0][i] = cosine * x - sine * y;
                        rows[kind][1][i] = sine * x + cosine * y;
                    }
            }
    }
}

// The row of w (count, out) that is longest, and not yet taken.
static size_t longest(const double *w, const bool *taken, size_t count, size_t out) {
    size_t best = count;
    double most = -1;
    for (size_t j = 0; j < count; j++) {
        const double squared = taken[j] ? -1 : dot(w + j * out, w + j * out, out);
        if (squared > most) most = squared, best = j;
    }
    return best;
}

static double sign_of(const double *row, size_t count) {
    size_t most = 0;
    for (size_t i = 1; i < count; i++)
        if (fabs(row[i]) > fabs(row[most])) most = i;
    return row[most] < 0 ? -1 : 1;
}

// M = left right = (left coefficients) basis = W basis. Rotations V make the columns of W orthogonal, U S, so that
// M = U S (V basis).
Status adapter_svd(double *b, double *a, const AdapterFactors *factors, size_t rank, Error *err) {
    const size_t in = factors->in, out = factors->out, most = factors->count < in ? factors->count : in;
    Owned owned = {0};
    double *basis = own(&owned, most * in, sizeof *basis);
    double *coefficients = own(&owned, factors->count * most, sizeof *coefficients);
    double *w = own(&owned, most * out, sizeof *w), *v = own(&owned, most * most, sizeof *v);
    bool *taken = own(&owned, most + 1, sizeof *taken);
    if (owned.lacks_memory) {
        owned_free(&owned);
        return fail(err, STATUS_OS, "no memory for the singular values of %zu x %zu weights", out, in);
    }
    const size_t count = orthonormalise(basis, coefficients, most, factors);
    for (size_t j = 0; j < count; j++) {
        v[j * count + j] = 1;
        for (size_t o = 0; o < out; o++)
            for (size_t k = 0; k < factors->count; k++)
                w[j * out + o] += factors->left[o * factors->count + k] * coefficients[k * most + j];
    }
    make_orthogonal(w, v, count, out);
    memset(a, 0, rank * in * sizeof *a);
    memset(b, 0, out * rank * sizeof *b);
    for (size_t r = 0; r < rank && r < count; r++) {
        const size_t j = longest(w, taken, count, out);
        taken[j] = true;
        for (size_t c = 0; c < count; c++)
            for (size_t i = 0; i < in; i++)
                a[r * in + i] += v[j * count + c] * basis[c * in + i];
        const double sign = sign_of(a + r * in, in);
        for (size_t i = 0; i < in; i++)
            a[r * in + i] *= sign;
        for (size_t o = 0; o < out; o++)
            b[o * rank + r] = sign * w[j * out + o];
    }
    owned_free(&owned);
    return STATUS_OK;
}

// Pooling by every build, against references in double precision: the largest value of a window, or its mean. Shapes
// are odd on purpose: they do not divide the vectors.
#include "builds.h"
#include "tests/tensor.h"

static void check_pool(const Kernels *kernels, Shape in, int size, int samples, bool ties, bool overwrite) {
    Layer layer = {
        .kind = LAYER_POOL, .in = in, .out = {in.channels, in.rows / size, in.columns / size}, .kernel = size};
    size_t n = (size_t)samples;
    Tensor values = tensor_random(shape_size(in) * n, 5), out = tensor_new(shape_size(layer.out) * n);
    Tensor out_gradient = tensor_random(out.count, 6), gradient = tensor_new(values.count);
    if (ties)
        for (size_t i = 0; i < values.count; i++)
            values.at[i] = roundf(values.at[i]);
    double *maxima = malloc(out.count * sizeof *maxima), *expected = calloc(values.count, sizeof *expected);
    assert_true(maxima && expected);
    size_t place = 0;
    for (int c = 0; c < layer.out.channels; c++)
        for (int y = 0; y < layer.out.rows; y++)
            for (int x = 0; x < layer.out.columns; x++)
                for (int s = 0; s < samples; s++, place++) {
                    size_t best = SIZE_MAX;
                    for (int t = 0; t < size * size; t++) {
                        int iy = y * size + t / size, ix = x * size + t % size;
                        size_t i = (size_t)((c * in.rows + iy) * in.columns + ix) * n + (size_t)s;
                        if (best == SIZE_MAX || values.at[i] > values.at[best]) best = i;
                    }
                    maxima[place] = (double)values.at[best];
                    expected[best] = (double)out_gradient.at[place];
                }
    kernels->pool_forward(out.at, values.at, &layer, samples);
    check_close("pool forward", out.at, maxima, out.count, 0);
    float *to = overwrite ? values.at : gradient.at;
    kernels->pool_backward(to, values.at, out_gradient.at, &layer, samples);
    check_close("pool backward", to, expected, values.count, 0);
    free(maxima);
    free(expected);
    tensor_free(values);
    tensor_free(out);
    tensor_free(out_gradient);
    tensor_free(gradient);
}

static void check_pools(const Kernels *kernels) {
    for (int ties = 0; ties < 2; ties++)
        for (int overwrite = 0; overwrite < 2; overwrite++) {
            check_pool(kernels, (Shape){3, 8, 6}, 2, kernels->lanes, ties, overwrite);
            check_pool(kernels, (Shape){2, 7, 5}, 2, 2 * kernels->lanes, ties, overwrite);
            check_pool(kernels, (Shape){2, 11, 10}, 3, kernels->lanes, ties, overwrite);
            check_pool(kernels, (Shape){2, 3, 4}, 1, kernels->lanes, ties, overwrite);
        }
}

static void pooling_takes_the_maximum_and_sends_the_gradient_to_the_first_one(void **state) {
    (void)state;
    with_each_build_and_few(check_pools);
}

// A window of the reference: the place of its maximum, and its sum.
typedef struct Seen {
    size_t best;
    double sum;
} Seen;

static Seen look(const Tensor *values, const Layer *layer, int c, int y, int x, size_t n, size_t s) {
    const Window *of = &layer->window;
    Seen seen = {.best = SIZE_MAX};
    for (int ky = 0; ky < of->size.rows; ky++)
        for (int kx = 0; kx < of->size.columns; kx++) {
            int iy = y * of->stride.rows - of->pad.rows + ky, ix = x * of->stride.columns - of->pad.columns + kx;
            if (iy < 0 || ix < 0 || iy >= layer->in.rows || ix >= layer->in.columns) continue;
            size_t i = (size_t)((c * layer->in.rows + iy) * layer->in.columns + ix) * n + s;
            seen.sum += (double)values->at[i];
            if (seen.best == SIZE_MAX || values->at[i] > values->at[seen.best]) seen.best = i;
        }
    return seen;
}

// Adds a window's gradient to where it belongs.
static void spread(double *gradient, const Layer *layer, int c, int y, int x, size_t n, size_t s, double given) {
    const Window *of = &layer->window;
    for (int ky = 0; ky < of->size.rows; ky++)
        for (int kx = 0; kx < of->size.columns; kx++) {
            int iy = y * of->stride.rows - of->pad.rows + ky, ix = x * of->stride.columns - of->pad.columns + kx;
            if (iy < 0 || ix < 0 || iy >= layer->in.rows || ix >= layer->in.columns) continue;
            gradient[(size_t)((c * layer->in.rows + iy) * layer->in.columns + ix) * n + s] += given;
        }
}

static void check_windows(const Kernels *kernels, Shape in, Window window, bool average) {
    Layer layer = {.kind = average ? LAYER_AVERAGE : LAYER_POOL, .in = in, .window = window};
    layer.out = (Shape){in.channels, windows_along(in.rows, window.size.rows, window.stride.rows, window.pad.rows),
                        windows_along(in.columns, window.size.columns, window.stride.columns, window.pad.columns)};
    size_t n = (size_t)kernels->lanes * 2, place = 0;
    Tensor values = tensor_random(shape_size(in) * n, 21), out = tensor_new(shape_size(layer.out) * n);
    Tensor out_gradient = tensor_random(out.count, 22), gradient = tensor_new(values.count);
    for (size_t i = 0; i < values.count && !average; i++)
        values.at[i] = roundf(4 * values.at[i]); // ties: the first counts
    double *expected = malloc(out.count * sizeof *expected), *back = calloc(values.count, sizeof *back);
    const double share = 1.0 / (window.size.rows * window.size.columns);
    assert_true(expected && back);
    for (int c = 0; c < layer.out.channels; c++)
        for (int y = 0; y < layer.out.rows; y++)
            for (int x = 0; x < layer.out.columns; x++)
                for (size_t s = 0; s < n; s++, place++) {
                    Seen seen = look(&values, &layer, c, y, x, n, s);
                    double given = (double)out_gradient.at[place];
                    expected[place] = average ? seen.sum * share : (double)values.at[seen.best];
                    if (average)
                        spread(back, &layer, c, y, x, n, s, given * share);
                    else
                        back[seen.best] += given;
                }
    if (average) {
        kernels->average_forward(out.at, values.at, &layer, (int)n);
        kernels->average_backward(gradient.at, out_gradient.at, &layer, (int)n);
    } else {
        kernels->pool_forward(out.at, values.at, &layer, (int)n);
        kernels->pool_backward(gradient.at, values.at, out_gradient.at, &layer, (int)n);
    }
    check_close("windows forward", out.at, expected, out.count, average ? 1e-6 : 0);
    check_close("windows backward", gradient.at, back, values.count, 1e-6);
    free(expected);
    free(back);
    tensor_free(values), tensor_free(out), tensor_free(out_gradient), tensor_free(gradient);
}

static void check_all_windows(const Kernels *kernels) {
    for (int average = 0; average < 2; average++) {
        check_windows(kernels, (Shape){2, 7, 9}, (Window){{3, 3}, {2, 2}, {1, 1}}, average);
        check_windows(kernels, (Shape){2, 8, 6}, (Window){{3, 2}, {1, 3}, {0, 1}}, average);
        check_windows(kernels, (Shape){3, 5, 4}, (Window){{2, 2}, {3, 3}, {0, 0}}, average); // some belong to none
        check_windows(kernels, (Shape){3, 4, 5}, (Window){{4, 5}, {4, 5}, {0, 0}}, average);
    }
}

static void windows_may_overlap_reach_over_the_edge_and_leave_gaps(void **state) {
    (void)state;
    with_each_build_and_few(check_all_windows);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pooling_takes_the_maximum_and_sends_the_gradient_to_the_first_one),
        cmocka_unit_test(windows_may_overlap_reach_over_the_edge_and_leave_gaps),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}

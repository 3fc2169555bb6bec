// A relu that a convolution, a norm or a pooling computes together with its own work, by every build: the same to the
// bit as one after the other.
#include "builds.h"
#include "tests/tensor.h"

static void same_floats(const Tensor *left, const Tensor *right) {
    assert_memory_equal(left->at, right->at, left->count * sizeof *left->at);
}

static void check_conv_with_relu(const ConvKernels *conv, const Kernels *kernels, int ins, int side) {
    Layer layer = {.kind = LAYER_CONV, .in = {ins, 9, 6}, .out = {7, 9, 6}, .kernel = side, .pad = side / 2};
    const size_t n = (size_t)kernels->lanes, outs = shape_size(layer.out);
    const ConvSizes sizes = conv->sizes(&layer);
    Tensor in = tensor_random(shape_size(layer.in) * n, 31), bias = tensor_random(7, 32);
    Tensor weight = tensor_random((size_t)(7 * ins * side * side), 33), packed = tensor_new(sizes.packed);
    Tensor apart = tensor_new(outs * n), together = tensor_new(outs * n), scratch = tensor_new(sizes.scratch);
    conv->pack(packed.at, weight.at, &layer);
    conv->forward(apart.at, scratch.at, in.at, packed.at, bias.at, &layer, (int)n, (int)n);
    kernels->relu_forward(apart.at, outs, (int)n);
    layer.rectifies = true;
    conv->forward(together.at, scratch.at, in.at, packed.at, bias.at, &layer, (int)n, (int)n);
    same_floats(&apart, &together);
    tensor_free(in), tensor_free(bias), tensor_free(weight), tensor_free(packed);
    tensor_free(apart), tensor_free(together), tensor_free(scratch);
}

static void check_pool_with_relu(const Kernels *kernels, Window window) {
    Layer layer = {.kind = LAYER_POOL, .in = {3, 8, 6}, .out = {3, 4, 3}, .kernel = 2, .window = window};
    const size_t n = (size_t)kernels->lanes, ins = shape_size(layer.in);
    Tensor values = tensor_random(ins * n, 34), out_gradient = tensor_random(shape_size(layer.out) * n, 35);
    Tensor apart = tensor_new(ins * n), together = tensor_new(ins * n);
    for (size_t i = 0; i < values.count; i++)
        values.at[i] -= 0.5f; // whole windows are zeros afterwards
    kernels->relu_forward(values.at, ins, (int)n);
    kernels->pool_backward(apart.at, values.at, out_gradient.at, &layer, (int)n);
    kernels->relu_backward(apart.at, values.at, ins, (int)n);
    layer.rectified = true;
    kernels->pool_backward(together.at, values.at, out_gradient.at, &layer, (int)n);
    same_floats(&apart, &together);
    tensor_free(values), tensor_free(out_gradient), tensor_free(apart), tensor_free(together);
}

static void check_norm_with_relu(const Kernels *kernels) {
    Layer layer = {.kind = LAYER_NORM, .in = {4, 3, 5}, .out = {4, 3, 5}, .groups = 2, .bias = 4};
    const size_t n = (size_t)kernels->lanes, values = 60 * n;
    Tensor in = tensor_random(values, 36), weight = tensor_random(8, 37), statistics = tensor_new(4 * n);
    Tensor apart = tensor_new(values), together = tensor_new(values);
    kernels->norm_forward(apart.at, statistics.at, in.at, weight.at, weight.at + 4, &layer, (int)n);
    kernels->relu_forward(apart.at, 60, (int)n);
    layer.rectifies = true;
    kernels->norm_forward(together.at, statistics.at, in.at, weight.at, weight.at + 4, &layer, (int)n);
    same_floats(&apart, &together);
    tensor_free(in), tensor_free(weight), tensor_free(statistics), tensor_free(apart), tensor_free(together);
}

static void check_joined_relus(const Kernels *kernels) {
    check_conv_with_relu(&kernels->conv, kernels, 2, 3);
    check_conv_with_relu(&kernels->winograd, kernels, 6, 3);
    check_conv_with_relu(&kernels->winograd, kernels, 6, 5);
    check_conv_with_relu(&kernels->columns, kernels, 16, 1);
    check_pool_with_relu(kernels, (Window){0});
    check_pool_with_relu(kernels, (Window){{3, 3}, {2, 2}, {1, 1}});
    check_norm_with_relu(kernels);
}

static void a_relu_computed_with_its_neighbour_gives_what_it_gives_alone(void **state) {
    (void)state;
    with_each_build(check_joined_relus);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_relu_computed_with_its_neighbour_gives_what_it_gives_alone),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}

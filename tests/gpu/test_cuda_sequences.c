// Layers that read samples step by step, in lockstep: how many kernels a step of a net launches, and that a model's
// bits do not depend on the number of models beside it.
#include <stdlib.h>
#include <string.h>

#include "gpu.h"
#include "gpu_net.h"
#include "nn/cuda/cuda_pass.h"

static const Shape rows = {1, 80, 1};

// Captures a step of a net without running it, and counts the nodes of the graph. tf32: with cuBLAS.
static size_t nodes(const char *net, int models, uint32_t batch_size, bool tf32, CudaEnqueue enqueue) {
    Error err;
    GpuNet on;
    const CudaPass *pass;
    cudaGraph_t graph = NULL;
    size_t count = 0;
    gpu_net_prepare(&on, net, rows, models, batch_size);
    on.plan.tf32 = tf32;
    check_ok(cuda_net_init(&on.net, &on.plan, &err));
    check_ok(cuda_net_pass(on.net, &pass, &err));
    check_cuda(cudaStreamBeginCapture(pass->step.stream, cudaStreamCaptureModeThreadLocal));
    enqueue(pass);
    check_cuda(cudaStreamEndCapture(pass->step.stream, &graph));
    check_cuda(cudaGraphGetNodes(graph, NULL, &count));
    check_cuda(cudaGraphDestroy(graph));
    gpu_net_stop(&on);
    return count;
}

// Per lstm and step one launch forward and one backward; everything else is independent of the number of steps.
static void an_lstm_launches_one_kernel_for_a_step_and_a_direction(void **state) {
    (void)state;
    static const char net[] = "lstm 4; lstm 4 last; linear 7";
    // With tf32 the last layer's bias and gradient are launches of their own, and cuBLAS may take two for a product.
    for (int tf32 = 0; tf32 < 2; tf32++)
        for (int models = 1; models <= 8; models += 7) {
            assert_in_range(nodes(net, models, 10, tf32, cuda_pass_train), 4 * 80, 4 * 80 + 20);
            assert_in_range(nodes(net, models, 10, tf32, cuda_pass_evaluate), 2 * 80, 2 * 80 + 10);
        }
}

static void attention_launches_as_many_kernels_for_any_number_of_steps_and_models(void **state) {
    (void)state;
    static const char net[] = "linear 6 each; relu; attention 2 causal; linear 7";
    for (int models = 1; models <= 8; models += 7) {
        assert_in_range(nodes(net, models, 10, false, cuda_pass_train), 1, 25);
        assert_in_range(nodes(net, models, 10, true, cuda_pass_train), 1, 25);
        assert_in_range(nodes(net, models, 80, false, cuda_pass_train), 1, 25); // with cuBLAS, too
        assert_in_range(nodes(net, models, 10, true, cuda_pass_evaluate), 1, 10);
    }
}

// Model 0 after two steps; the others have other weights and samples, or nothing to do.
static float *trained(const char *net, int models, uint32_t batch_size) {
    Error err;
    GpuNet on;
    gpu_net_start(&on, net, (Shape){1, 2, 5}, models, batch_size);
    for (int m = 0; m < models && m < GPU_MOST_MODELS; m++)
        gpu_assign(&on, m, 2 * batch_size - (uint32_t)m);
    check_ok(cuda_net_train(on.net, 2, &err));
    float *weights = gpu_download(on.weights);
    assert_memory_not_equal(weights, on.initial, on.plan.spec.parameter_count * sizeof(float));
    gpu_net_stop(&on);
    return weights;
}

// 256 models have tiles of many rows in every product; batches of 9 and 36 few columns and many.
static void a_model_comes_to_the_same_bits_beside_any_number_of_models(void **state) {
    (void)state;
    static const char net[] = "lstm 20; linear 6 each; attention 2; lstm 20 last; linear 7";
    Error err;
    Spec spec;
    check_ok(spec_parse(&spec, net, (Shape){1, 2, 5}, GPU_CLASSES, &err));
    for (uint32_t batch_size = 9; batch_size <= 36; batch_size *= 4) {
        float *alone = trained(net, 1, batch_size);
        for (int models = 4; models <= 256; models *= 64) {
            float *together = trained(net, models, batch_size);
            assert_memory_equal(alone, together, spec.parameter_count * sizeof(float));
            free(together);
        }
        free(alone);
    }
}

int main(int argc, char **argv) {
    if (gpu_is_missing()) return GPU_TEST_SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_lstm_launches_one_kernel_for_a_step_and_a_direction),
        cmocka_unit_test(attention_launches_as_many_kernels_for_any_number_of_steps_and_models),
        cmocka_unit_test(a_model_comes_to_the_same_bits_beside_any_number_of_models),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}

// A net on the emulated GPU when any call of CUDA fails, or any kernel: one sentence, and nothing is left behind. And
// how many calls the CPU spends on an epoch.
#include <stdio.h>
#include <stdlib.h>

#include "emulator.h"
#include "fedavg/gpu/cuda_worker.h"
#include "fedavg/gpu/gpu.h"
#include "fedavg/parent/engine.h"
#include "gpu_net.h"
#include "nn/cuda/cuda_pass.h"
#include "tests/no_memory.h"

static const char layers[] = "conv 3 3; relu; pool 2; dropout 0.3; linear 7";
static const Shape shape = {1, 6, 6};
enum { STEPS = 18 }; // directly, in a large and in a small graph

// All that a worker does with a net.
static Status work(GpuNet *on, Error *err) {
    BatchResult result;
    CudaTask task = gpu_task(0, 300);
    float logits[20 * GPU_CLASSES];
    TRY(cuda_net_init(&on->net, &on->plan, err));
    TRY(cuda_net_assign(on->net, 0, &task, true, err));
    TRY(cuda_net_train(on->net, STEPS, err));
    TRY(cuda_net_results(on->net, &result, err));
    TRY(cuda_net_assign(on->net, 0, &task, true, err));
    TRY(cuda_net_gradient(on->net, err));
    TRY(cuda_net_gradient(on->net, err));
    TRY(cuda_net_evaluate(on->net, STEPS, err));
    TRY(cuda_net_logits(on->net, logits, 20, err));
    return cuda_net_results(on->net, &result, err);
}

static uint64_t calls_of_work(void) {
    Error err;
    GpuNet on;
    emulator_reset();
    gpu_net_prepare(&on, layers, shape, 1, 10);
    uint64_t before = emulator_calls();
    check_ok(work(&on, &err));
    uint64_t calls = emulator_calls() - before;
    gpu_net_stop(&on);
    assert_int_equal(emulator_objects(), 0);
    return calls;
}

static void any_call_that_fails_is_one_sentence_and_leaves_nothing(void **state) {
    (void)state;
    uint64_t calls = calls_of_work();
    assert_true(calls > 300);
    for (uint64_t k = 1; k <= calls; k += k < 50 || k > calls - 20 ? 1 : 19) { // in between are captured launches
        Error err = {0};
        GpuNet on;
        emulator_reset();
        gpu_net_prepare(&on, layers, shape, 1, 10);
        size_t objects = emulator_objects();
        emulator_fail_call(emulator_calls() + k);
        Status status = work(&on, &err);
        emulator_fail_call(0);
        if (status == STATUS_OK) fail_msg("call %d failed and nobody noticed", (int)k);
        assert_true(strlen(err.message) > 10 && !strchr(err.message, '\n'));
        cuda_net_free(on.net);
        on.net = NULL;
        assert_int_equal(emulator_objects(), objects);
        gpu_net_stop(&on);
    }
}

// The sweep above steps over some of the calls that make graphs; and what comes after a call whose failure nobody has
// looked at may fail, too, with a sentence about something else.
static void a_call_that_fails_while_a_net_starts_or_its_graphs_are_made_is_the_one_of_the_sentence(void **state) {
    (void)state;
    const struct {
        const char *call, *words;
    } failures[] = {{"cudaMemcpyAsync:1", "copying the channels' scale"},
                    {"cudaMemcpyAsync:2", "copying the channels' shift"},
                    {"cudaStreamSynchronize:1", "starting a net on the GPU"},
                    {"cudaStreamBeginCapture:1", "capturing"},
                    {"cudaStreamBeginCapture:2", "capturing"},
                    {"cudaStreamEndCapture:1", "capturing"},
                    {"cudaStreamEndCapture:2", "capturing"},
                    {"cudaGraphInstantiateWithFlags:1", "making a graph of the steps"},
                    {"cudaGraphInstantiateWithFlags:2", "making a graph of the steps"},
                    {"cudaGraphGetNodes:1", "counting what the steps launch"},
                    {"cudaGraphDestroy:1", "discarding the captured steps"},
                    {"cudaGraphDestroy:2", "discarding the captured steps"}};
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++) {
        Error err = {0};
        GpuNet on;
        emulator_reset();
        gpu_net_prepare(&on, layers, shape, 1, 10);
        size_t objects = emulator_objects();
        emulator_fail(failures[i].call);
        Status status = work(&on, &err);
        emulator_fail(NULL);
        if (status == STATUS_OK || !strstr(err.message, failures[i].words))
            fail_msg("%s failed: %s: %s", failures[i].call, status_name(status), err.message);
        cuda_net_free(on.net);
        on.net = NULL;
        assert_int_equal(emulator_objects(), objects);
        gpu_net_stop(&on);
    }
}

static void any_kernel_that_fails_is_one_sentence_and_leaves_nothing(void **state) {
    (void)state;
    for (int k = 1; k <= 330; k += k < 20 ? 1 : 37) { // the work has a few more
        Error err = {0};
        GpuNet on;
        char what[32];
        emulator_reset();
        gpu_net_prepare(&on, layers, shape, 1, 10);
        snprintf(what, sizeof what, "kernel:%d", k);
        size_t objects = emulator_objects();
        emulator_fail(what);
        Status status = work(&on, &err);
        if (status == STATUS_OK) fail_msg("kernel %d failed and nobody noticed", k);
        assert_true(strlen(err.message) > 10 && !strchr(err.message, '\n'));
        cuda_net_free(on.net);
        assert_int_equal(emulator_objects(), objects);
        net_free(&on.cpu); // the GPU is gone for good, and with it what the test has there
        free(on.initial);
        free(on.pixels);
    }
    emulator_reset();
}

static void without_cublas_a_sentence_says_what_to_install(void **state) {
    (void)state;
    Error err;
    GpuNet on;
    emulator_reset();
    gpu_net_prepare(&on, layers, shape, 1, 10);
    on.plan.tf32 = true; // only cuBLAS has it
    size_t objects = emulator_objects();
    emulator_set_cublas(0);
    assert_int_equal(cuda_net_init(&on.net, &on.plan, &err), STATUS_UNAVAILABLE);
    assert_non_null(
        strstr(err.message, "(libcublas.so.12: cannot open")); // the one of this build, which was tried first
    assert_non_null(strstr(err.message, "LD_LIBRARY_PATH"));
    assert_null(on.net);
    assert_int_equal(emulator_objects(), objects);
    gpu_net_stop(&on);
    emulator_reset();
}

static void too_little_memory_is_a_sentence_with_the_numbers(void **state) {
    (void)state;
    Error err;
    GpuNet on;
    emulator_reset();
    gpu_net_prepare(&on, layers, shape, 8, 64);
    on.plan.batch_size = 1 << 22;
    size_t objects = emulator_objects();
    assert_int_equal(cuda_net_init(&on.net, &on.plan, &err), STATUS_OS);
    assert_non_null(strstr(err.message, "8 models with batches of 4194304"));
    assert_int_equal(emulator_objects(), objects);
    gpu_net_stop(&on);
}

static void an_epoch_costs_a_handful_of_launches(void **state) {
    (void)state;
    Error err;
    GpuNet on;
    emulator_reset();
    gpu_net_start(&on, layers, shape, 8, 10);
    for (int m = 0; m < 8; m++)
        gpu_assign(&on, m, 500);
    check_ok(cuda_net_train(on.net, 35, &err)); // directly, and both graphs captured
    BatchResult results[8];
    check_ok(cuda_net_results(on.net, results, &err));
    for (int m = 0; m < 8; m++)
        gpu_assign(&on, m, 500);
    uint64_t before = emulator_calls();
    check_ok(cuda_net_train(on.net, 50, &err));
    assert_true(emulator_calls() - before <= 8); // the tasks; three times 16 steps; two single ones
    gpu_net_stop(&on);
}

// Kernels of a step of training, the task's own launch aside. With few models a convolution sums its
// gradients in parts, which is a launch more.
static void a_step_is_as_many_launches_as_it_has_to_be(void **state) {
    (void)state;
    const struct {
        const char *model;
        Shape shape;
        float momentum;
        unsigned launches;
    } rows[] = {{"lenet", {1, 28, 28}, 0.9f, 21}, {"lenet", {1, 28, 28}, 0, 21}, {"2nn", {1, 28, 28}, 0.9f, 8},
                {"2nn", {1, 28, 28}, 0, 8},       {"cnn", {1, 28, 28}, 0, 17},   {"resnet20", {3, 4, 4}, 0, 130}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Error err;
        GpuNet on;
        emulator_reset();
        gpu_net_prepare(&on, rows[i].model, rows[i].shape, 1, 4);
        on.plan.sgd.momentum = rows[i].momentum;
        check_ok(cuda_net_init(&on.net, &on.plan, &err));
        gpu_assign(&on, 0, 4);
        uint64_t before = emulator_calls();
        check_ok(cuda_net_train(on.net, 1, &err)); // directly
        unsigned launches = (unsigned)(emulator_calls() - before) - 1;
        if (launches != rows[i].launches)
            fail_msg("%s: %u launches a step, not %u", rows[i].model, launches, rows[i].launches);
        gpu_net_stop(&on);
    }
}

enum { ADDITIONS = 900 };

static void add_often(const CudaPass *pass) {
    float *ones = pass->plan.weights;
    for (int i = 0; i < ADDITIONS; i++)
        cuda_add((CudaRows){ones + 4, 1, 0}, (CudaRows){ones, 1, 0}, 1, true, &pass->step);
}

static void a_step_of_many_launches_makes_graphs_of_fewer_steps(void **state) {
    (void)state;
    static const float start[8] = {1, 1, 1, 1, 0, 0, 0, 0};
    const uint32_t count = 4;
    float sums[8];
    Error err;
    CudaBlas blas = {0};
    CudaPass pass = {.step = {.models = 1, .samples = 4}};
    CudaGraph graph = {.enqueue = add_often, .pass = &pass, .blas = &blas};
    emulator_reset();
    GpuTensor values = gpu_copy(start, sizeof start, 0), counts = gpu_copy(&count, sizeof count, 0);
    pass.plan.weights = gpu_floats(values);
    pass.step.counts = gpu_at(counts);
    check_cuda(cudaStreamCreate(&pass.step.stream));
    check_ok(cuda_graph_run(&graph, 7, &err)); // directly, and both graphs captured
    const uint64_t before = emulator_calls();
    check_ok(cuda_graph_run(&graph, 22, &err));
    assert_int_equal(emulator_calls() - before, 4 + 2); // 4,500 launches at once, and two single steps
    check_cuda(cudaStreamSynchronize(pass.step.stream));
    gpu_read(sums, values);
    assert_true(sums[4] == 29.0f * ADDITIONS);
    cuda_graph_free(&graph);
    cudaStreamDestroy(pass.step.stream);
    gpu_free(counts);
    gpu_free(values);
}

// A process cannot open what it has shared itself: here the blocks are the worker's own.
Status __wrap_cuda_blocks_open(CudaBlocks *blocks, const GpuConfig *gpu, Error *err);
Status __wrap_cuda_blocks_open(CudaBlocks *blocks, const GpuConfig *gpu, Error *err) {
    GpuConfig own = *gpu;
    return cuda_blocks_create(blocks, &own, err);
}

static Status begin_and_end_worker(void *memory, Error *err) {
    void *worker;
    TRY(worker_on_gpu()->init(&worker, memory, 0, err));
    worker_on_gpu()->free(worker);
    return STATUS_OK;
}

static void a_gpu_that_cannot_serve_a_run_says_why_and_keeps_nothing(void **state) {
    (void)state;
    static const char *const cases[][2] = {{"cudaIpcGetMemHandle", "GPU memory cannot be shared between processes"},
                                           {"cudaMalloc", "cannot allocate 2 MiB of GPU memory: out of memory"}};
    Device device;
    Error err;
    emulator_reset();
    check_ok(device_open(&device, 0, &err));
    check_ok(gpu_serves(&device, false, &err));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        emulator_reset();
        check_ok(device_open(&device, 0, &err));
        emulator_fail(cases[i][0]);
        assert_int_not_equal(gpu_serves(&device, false, &err), STATUS_OK);
        if (!strstr(err.message, cases[i][1])) fail_msg("\"%s\" is not in: %s", cases[i][1], err.message);
        assert_int_equal(emulator_objects(), 0);
    }
    setenv("SOUNDER_EMULATED_MODE", "exclusive", 1);
    emulator_reset();
    check_ok(device_open(&device, 0, &err));
    check_ok(gpu_serves(&device, true, &err));
    assert_int_equal(gpu_serves(&device, false, &err), STATUS_UNAVAILABLE);
    assert_non_null(strstr(err.message, "nvidia-smi -i 0 -c DEFAULT"));
    unsetenv("SOUNDER_EMULATED_MODE");
    emulator_reset();
}

static void a_worker_on_the_gpu_needs_memory_of_the_host_too(void **state) {
    (void)state;
    static const uint32_t indices[] = {0, 1, 2, 3}, offsets[] = {0, 2, 4};
    static const Dataset data = {.shape = {1, 6, 6}, .classes = 7, .train.count = 4, .test.count = 2};
    static RunConfig config = {.workers = 1, .nodes = 1, .clients = 2, .training.batch_size = 2};
    const Partition partition = {.clients = 2, .indices = indices, .offsets = offsets, .samples = 4};
    RunMemory memory = {.config = &config, .algorithm = run_algorithm(&config), .data = data, .partition = partition};
    Device device;
    Error err;
    emulator_reset();
    check_ok(spec_parse(&config.spec, layers, data.shape, data.classes, &err));
    config.parameters = config.spec.parameter_count;
    engine_plan(&config);
    check_ok(device_open(&device, 0, &err));
    check_ok(gpu_plan(&config, &device, &config.spec, &data, 2, 2, &err));
    no_memory_sweep("a worker on the card", begin_and_end_worker, &memory);
}

// Whether a tensor of every model is aligned to 16 bytes, if its offset among the parameters is.
static void check_alignment(const CudaNetPlan *plan, const float *models, size_t stride) {
    for (int t = 0; t < plan->spec.tensor_count; t++)
        for (size_t m = 0; m < (size_t)plan->models; m++) {
            const size_t first = plan->spec.tensors[t].first;
            assert_int_equal((uintptr_t)(models + m * stride + first) % 16, first * sizeof *models % 16);
        }
}

static void the_tensors_of_all_models_of_a_worker_are_aligned(void **state) {
    (void)state;
    static const uint32_t indices[] = {0, 1, 2}, offsets[] = {0, 1, 2, 3};
    static const Dataset data = {.shape = {1, 28, 28}, .classes = 10, .train.count = 3, .test.count = 1};
    static RunConfig config = {.workers = 1, .nodes = 1, .clients = 3, .training.batch_size = 1};
    const Partition partition = {.clients = 3, .indices = indices, .offsets = offsets, .samples = 3};
    RunMemory memory = {.config = &config, .algorithm = run_algorithm(&config), .data = data, .partition = partition};
    Device device;
    Error err;
    void *worker;
    const CudaPass *pass;
    emulator_reset();
    check_ok(spec_parse(&config.spec, "linear 200; relu; linear 200; relu; linear 10", data.shape, 10, &err));
    config.parameters = config.spec.parameter_count;
    assert_int_equal(config.parameters % 4, 2);
    engine_plan(&config);
    check_ok(device_open(&device, 0, &err));
    check_ok(gpu_plan(&config, &device, &config.spec, &data, 3, 3, &err));
    check_ok(worker_on_gpu()->init(&worker, &memory, 0, &err));
    check_ok(cuda_net_pass(((CudaWorker *)worker)->net, &pass, &err));
    assert_int_equal(pass->plan.models, 3);
    check_alignment(&pass->plan, pass->plan.weights, pass->plan.weights_stride);
    check_alignment(&pass->plan, pass->plan.velocity, pass->plan.stride);
    check_alignment(&pass->plan, pass->plan.gradient, pass->plan.stride);
    worker_on_gpu()->free(worker);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_on_the_gpu_needs_memory_of_the_host_too),
        cmocka_unit_test(the_tensors_of_all_models_of_a_worker_are_aligned),
        cmocka_unit_test(any_call_that_fails_is_one_sentence_and_leaves_nothing),
        cmocka_unit_test(a_call_that_fails_while_a_net_starts_or_its_graphs_are_made_is_the_one_of_the_sentence),
        cmocka_unit_test(any_kernel_that_fails_is_one_sentence_and_leaves_nothing),
        cmocka_unit_test(without_cublas_a_sentence_says_what_to_install),
        cmocka_unit_test(too_little_memory_is_a_sentence_with_the_numbers),
        cmocka_unit_test(a_gpu_that_cannot_serve_a_run_says_why_and_keeps_nothing),
        cmocka_unit_test(an_epoch_costs_a_handful_of_launches),
        cmocka_unit_test(a_step_is_as_many_launches_as_it_has_to_be),
        cmocka_unit_test(a_step_of_many_launches_makes_graphs_of_fewer_steps),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}

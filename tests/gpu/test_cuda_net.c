// Lockstep nets on the GPU against the CPU's net: from the same weights, samples and noise both must come to the same
// gradients, weights, losses and logits, within rounding. M models with different numbers of samples, some idle.
#include "gpu.h"
#include "gpu_net.h"
#include "nn/cuda/cuda_pass.h"
#include "tests/nn/layer_examples.h"

// What a net is tried with: small images, so that an emulated GPU has done before long.
typedef struct Try {
    const char *model;
    Shape shape;
    int models;
    uint32_t batch_size;
    uint32_t counts[GPU_MOST_MODELS]; // samples of each model
} Try;

static const char all_layers[] = "conv 5 5 pad 2; relu; pool 2; conv 6 3; dropout2d 0.4; pool 2; relu; "
                                 "linear 19; relu; dropout 0.3; linear 7";

static const Try tries[] = {
    {"softmax", {1, 6, 5}, 1, 64, {200}},
    {"softmax", {3, 4, 3}, 8, 10, {100, 0, 30, 31, 1, 9, 10, 11}},
    {"2nn", {1, 6, 5}, 3, 10, {40, 0, 13}},
    {"2nn", {1, 4, 4}, 8, 1, {3, 1, 0, 2, 3, 3, 2, 1}},
    {"lenet", {1, 16, 16}, 1, 10, {25}},
    {"lenet", {1, 16, 16}, 3, 1, {2, 0, 3}},
    {"cnn", {1, 4, 4}, 1, 4, {7}},
    {"cifar-cnn", {3, 6, 6}, 1, 4, {6}},
    {all_layers, {2, 10, 9}, 1, 64, {70}},
    {all_layers, {2, 10, 9}, 8, 10, {10, 0, 21, 1, 9, 11, 20, 0}},
    // Layers in any order; ops that fuse and ops that do not.
    {"dropout 0.1; relu; pool 2; relu; linear 7", {2, 7, 5}, 3, 10, {10, 5, 0}},
    {"pool 2; pool 2; linear 7; dropout2d 0.5", {2, 8, 9}, 3, 10, {10, 5, 0}},
    {"linear 30; conv 8 1; pool 1; conv 7 1; relu", {1, 3, 3}, 3, 10, {10, 5, 0}},
    {"conv 4 3; tanh; pool 3 stride 2 pad 1; relu; leakyrelu; avgpool 2 stride 1; gelu; linear 9; sigmoid; "
     "linear 7",
     {2, 9, 8},
     3,
     10,
     {10, 5, 0}},
    {"conv 4 3 stride 2 pad 1; relu; conv 6 3x2 groups 2 pad 1; tanh; conv 8 1 stride 2; conv 8 3 groups 8 dilation 2 "
     "pad 2; "
     "linear 7",
     {2, 9, 8},
     3,
     10,
     {10, 5, 0}},
    {"conv 4 3 pad 1 as a; groupnorm 2; relu as b; conv 4 3 pad 1; add a; relu as c; concat b; dropout 0.2 as d; pool "
     "2 from c; "
     "conv 4 1 as e; pool 2 from d; conv 4 1; layernorm as f; add e; add f; relu as h; dropout 0.1 from f as g; relu "
     "from f; "
     "concat g; concat h; linear 7",
     {2, 6, 5},
     3,
     10,
     {10, 5, 0}},
    {"pool 2 as a; conv 2 3 pad 1; add a; concat a; groupnorm 4; linear 7; layernorm; linear 7 as b; relu; add b",
     {2, 8, 6},
     3,
     10,
     {10, 5, 0}},
    {"batchnorm; conv 4 3 as a; batchnorm; relu as b; conv 4 3 pad 1 from a; batchnorm as c; add b; relu as d; tanh "
     "from c; concat d; "
     "linear 9; batchnorm; relu; linear 7",
     {2, 6, 5},
     3,
     10,
     {30, 5, 0}},
    {"linear 6 each; relu; attention 2 as a; linear 6 each; add a; layernorm each; attention 3 causal; linear 7",
     {1, 5, 6},
     3,
     10,
     {10, 5, 0}},
    {"embedding 256 5; lstm 6 last; linear 7", {1, 1, 6}, 3, 10, {10, 5, 0}}, // numbers, which are not normalised
    {"linear 9 each nobias; transpose; gru 5 as a; last; relu; linear 6 nobias; relu as b; mean from a; linear 6; mul "
     "b; "
     "linear 7 nobias",
     {1, 6, 5},
     3,
     10,
     {10, 5, 0}},
    {"conv1d 6 3 pad 1; layernorm channels; relu as a; chunk 1 2 as b; chunk 2 2 from a; conv1d 3 1 nobias; concat b; "
     "shuffle 2; globalpool 1x3; linear 7",
     {1, 4, 8},
     3,
     10,
     {10, 5, 0}},
    {"linear 9; relu as a; linear 8; relu; linear 9; add a; linear 7", {1, 6, 5}, 3, 10, {10, 5, 0}},
    {"linear 5; linear 6; linear 7; linear 6; linear 5; linear 6; tanh; linear 7; linear 6; linear 5; linear 7",
     {1, 6, 5},
     3,
     10,
     {10, 5, 0}},
    {"relu; pool 3x2 stride 2x1 pad 1; conv 7 2; relu; globalpool", {1, 6, 5}, 3, 10, {10, 5, 0}},
    {"conv 3 3; conv 3 3; relu; relu; pool 2; linear 7; relu; relu", {1, 9, 8}, 3, 10, {10, 5, 0}},
};
enum { TRIES = sizeof tries / sizeof *tries };

static void start(GpuNet *on, const Try *with) {
    gpu_net_start(on, with->model, with->shape, with->models, with->batch_size);
    for (int m = 0; m < with->models; m++)
        gpu_assign(on, m, with->counts[m]);
}

static void compare(const char *what, const GpuNet *on, int m, const float *actual, const float *expected,
                    double tolerance) {
    size_t count = on->plan.spec.parameter_count;
    double *exact = doubles(expected, count);
    check_close(what, actual + (size_t)m * count, exact, count, tolerance);
    free(exact);
}

static void compare_loss(double actual, double expected) {
    if (!(fabs(actual - expected) <= 1e-4 * (1 + fabs(expected))))
        fail_msg("a loss of %.9g, expected %.9g", actual, expected);
}

static void check_gradient(const Try *with) {
    Error err;
    GpuNet on;
    start(&on, with);
    BatchResult results[GPU_MOST_MODELS];
    double losses[GPU_MOST_MODELS] = {0};
    Tensor expected = tensor_new(on.plan.spec.parameter_count);
    for (uint32_t number = 0; number < 3; number++) { // directly, then captured, then replayed
        check_ok(cuda_net_gradient(on.net, &err));
        float *gradient = gpu_download(on.gradient);
        for (int m = 0; m < with->models; m++) {
            CudaTask task = gpu_task(m, with->counts[m]);
            Batch batch = gpu_batch(&on, &task, number);
            BatchResult result;
            task.noise.step += number;
            net_gradient(&on.cpu, expected.at, &result, gpu_initial(&on, m), &batch, &task.noise);
            if (batch.count > 0)
                compare("gradient", &on, m, gradient, expected.at, 1e-5); // an idle one's means nothing
            losses[m] += result.loss_sum;
        }
        free(gradient);
    }
    check_ok(cuda_net_results(on.net, results, &err));
    for (int m = 0; m < with->models; m++) {
        compare_loss(results[m].loss_sum, losses[m]);
        assert_int_equal(results[m].hits, 0);
    }
    tensor_free(expected);
    gpu_net_stop(&on);
}

static void gradients_are_those_of_the_cpu(void **state) {
    (void)state;
    for (int i = 0; i < TRIES; i++)
        check_gradient(&tries[i]);
}

static void every_layers_gradient_is_that_of_the_cpu(void **state) {
    (void)state;
    const Shape shape = {2, 6, 5};
    char text[SPEC_TEXT_BYTES];
    size_t tried = 0, word = 0;
    for (; layer_example(text, sizeof text, word, shape, GPU_CLASSES); word++) {
        if (!*text) continue;
        check_gradient(&(Try){text, shape, 3, 10, {10, 5, 0}});
        tried++;
    }
    assert_int_equal(tried, word - 1); // an embedding reads whole numbers: check_embedding
}

static void check_training(const Try *with) {
    enum {
        STEPS = 20
    }; // one directly, sixteen in one launch, three in one each; models idle from their last sample on
    Error err;
    GpuNet on;
    start(&on, with);
    BatchResult results[GPU_MOST_MODELS];
    size_t count = on.plan.spec.parameter_count;
    check_ok(cuda_net_train(on.net, STEPS, &err));
    check_ok(cuda_net_results(on.net, results, &err));
    float *weights = gpu_download(on.weights), *velocity = gpu_download(on.velocity);
    for (int m = 0; m < with->models; m++) {
        Tensor expected = tensor_zeros(count), expected_velocity = tensor_zeros(count);
        CudaTask task = gpu_task(m, with->counts[m]);
        double loss = 0;
        memcpy(expected.at, gpu_initial(&on, m), count * sizeof(float));
        for (uint32_t number = 0; number < STEPS; number++, task.noise.step++) {
            Batch batch = gpu_batch(&on, &task, number);
            BatchResult result;
            net_train_step(&on.cpu, expected.at, expected_velocity.at, &result, &gpu_sgd, NULL, &batch, &task.noise);
            loss += result.loss_sum;
        }
        compare("weights", &on, m, weights, expected.at, 1e-4);
        compare("velocity", &on, m, velocity, expected_velocity.at, 1e-3);
        compare_loss(results[m].loss_sum, loss);
        tensor_free(expected);
        tensor_free(expected_velocity);
    }
    free(weights);
    free(velocity);
    gpu_net_stop(&on);
}

static void twenty_steps_of_training_are_those_of_the_cpu(void **state) {
    (void)state;
    for (int i = 0; i < TRIES; i++)
        check_training(&tries[i]);
}

static void check_evaluation(const Try *with) {
    Error err;
    GpuNet on;
    start(&on, with);
    BatchResult results[GPU_MOST_MODELS], expected;
    uint32_t most = 0, classes = GPU_CLASSES;
    for (int m = 0; m < with->models; m++)
        most = with->counts[m] > most ? with->counts[m] : most;
    check_ok(cuda_net_evaluate(on.net, (most + with->batch_size - 1) / with->batch_size, &err));
    check_ok(cuda_net_results(on.net, results, &err));
    for (int m = 0; m < with->models; m++) {
        CudaTask task = gpu_task(m, with->counts[m]);
        Batch all = gpu_batch(&on, &task, 0);
        all.count = task.count;
        net_evaluate(&on.cpu, &expected, gpu_initial(&on, m), &all);
        compare_loss(results[m].loss_sum, expected.loss_sum);
        assert_int_equal(results[m].hits, expected.hits);
    }
    uint32_t count = with->counts[0];
    Tensor actual = tensor_new(count * classes), logits = tensor_new(count * classes);
    CudaTask task = gpu_task(0, count);
    Batch all = gpu_batch(&on, &task, 0);
    all.count = count;
    gpu_assign(&on, 0, count);
    check_ok(cuda_net_logits(on.net, actual.at, count, &err));
    net_logits(&on.cpu, logits.at, gpu_initial(&on, 0), &all);
    double *exact = doubles(logits.at, logits.count);
    check_close("logits", actual.at, exact, logits.count, 1e-5);
    free(exact);
    tensor_free(actual);
    tensor_free(logits);
    gpu_net_stop(&on);
}

static void losses_hits_and_logits_are_those_of_the_cpu(void **state) {
    (void)state;
    for (int i = 0; i < TRIES; i++)
        check_evaluation(&tries[i]);
}

// The same bits -------------------------------------------------------------------------------------------------------

static float *trained(const Try *with, uint32_t steps) {
    Error err;
    GpuNet on;
    start(&on, with);
    check_ok(cuda_net_train(on.net, steps, &err));
    float *weights = gpu_download(on.weights);
    gpu_net_stop(&on);
    return weights;
}

static void repeated_runs_give_the_same_bits_however_the_steps_are_launched(void **state) {
    (void)state;
    enum { STEPS = 18 };
    Error err;
    const Try with = {all_layers, {2, 10, 9}, 3, 4, {72, 0, 30}};
    GpuNet on;
    start(&on, &with);
    for (int step = 0; step < STEPS; step++) // one by one: another graph than sixteen at once
        check_ok(cuda_net_train(on.net, 1, &err));
    float *one_by_one = gpu_download(on.weights), *again = trained(&with, STEPS);
    assert_memory_equal(one_by_one, again, on.weights.bytes);
    assert_memory_not_equal(one_by_one, on.initial, on.plan.spec.parameter_count * sizeof(float));
    size_t count = on.plan.spec.parameter_count;
    assert_memory_equal(one_by_one + count, on.initial + count, count * sizeof(float)); // idle
    free(one_by_one);
    free(again);
    gpu_net_stop(&on);
}

static void a_model_comes_to_the_same_bits_whatever_the_others_do(void **state) {
    (void)state;
    const Try together = {all_layers, {2, 10, 9}, 3, 4, {20, 16, 9}},
              alone = {all_layers, {2, 10, 9}, 3, 4, {0, 16, 0}};
    float *weights = trained(&together, 6), *lonely = trained(&alone, 6);
    Error err;
    Spec spec;
    check_ok(spec_parse(&spec, all_layers, together.shape, GPU_CLASSES, &err));
    size_t count = spec.parameter_count;
    assert_memory_equal(weights + count, lonely + count, count * sizeof(float));
    assert_memory_not_equal(weights, lonely, count * sizeof(float));
    free(weights);
    free(lonely);
}

static void without_cublas_a_model_comes_to_the_same_bits_in_launches_of_any_size(void **state) {
    (void)state;
    static const char net[] = "conv 5 3; relu; pool 2; dropout 0.3; linear 70; relu; linear 7";
    const Shape single = {2, 10, 9};
    Error err;
    Spec spec;
    check_ok(spec_parse(&spec, net, single, GPU_CLASSES, &err));
    for (uint32_t batch = 9; batch <= 36; batch *= 4) { // few columns and many
        float *alone = trained(&(Try){net, single, 1, batch, {20}}, 6);
        for (int models = 3; models <= GPU_MOST_MODELS; models += GPU_MOST_MODELS - 3) {
            float *together = trained(&(Try){net, single, models, batch, {20, 16, 9}}, 6);
            assert_memory_equal(alone, together, spec.parameter_count * sizeof(float));
            free(together);
        }
        free(alone);
    }
}

static void models_with_the_same_task_come_to_the_same_bits_in_any_place(void **state) {
    (void)state;
    Error err;
    GpuNet on;
    gpu_net_start(&on, all_layers, (Shape){2, 10, 9}, 3, 4);
    size_t count = on.plan.spec.parameter_count;
    check_cuda(
        cudaMemcpy(gpu_floats(on.weights) + 2 * count, on.initial, count * sizeof(float), cudaMemcpyHostToDevice));
    const CudaTask task = gpu_task(0, 22), other = gpu_task(1, 9);
    check_ok(cuda_net_assign(on.net, 0, &task, true, &err));
    check_ok(cuda_net_assign(on.net, 1, &other, true, &err));
    check_ok(cuda_net_assign(on.net, 2, &task, true, &err));
    check_ok(cuda_net_train(on.net, 6, &err));
    float *weights = gpu_download(on.weights);
    assert_memory_equal(weights, weights + 2 * count, count * sizeof(float));
    assert_memory_not_equal(weights, on.initial, count * sizeof(float));
    free(weights);
    gpu_net_stop(&on);
}

// Tasks ---------------------------------------------------------------------------------------------------------------

static void epochs_continue_the_numbers_of_the_noise_and_the_sums(void **state) {
    (void)state;
    Error err;
    const Try with = {all_layers, {2, 10, 9}, 1, 10, {30}};
    GpuNet on;
    start(&on, &with);
    BatchResult whole, half, sum;
    check_ok(cuda_net_train(on.net, 3, &err));
    check_ok(cuda_net_results(on.net, &whole, &err));
    float *expected = gpu_download(on.weights);
    check_cuda(cudaMemcpy(on.weights.at, on.initial, on.weights.bytes, cudaMemcpyHostToDevice));
    check_cuda(cudaMemset(on.velocity.at, 0, on.velocity.bytes));
    CudaTask first = gpu_task(0, 20), second = first;
    second.first += 20;
    second.count = 10;
    second.noise.step += 2;
    check_ok(cuda_net_assign(on.net, 0, &second, true, &err)); // what is assigned twice before a step: the last counts
    check_ok(cuda_net_assign(on.net, 0, &first, false, &err));
    check_ok(cuda_net_train(on.net, 2, &err));
    check_ok(cuda_net_results(on.net, &half, &err));
    check_ok(cuda_net_assign(on.net, 0, &second, false, &err));
    check_ok(cuda_net_train(on.net, 1, &err));
    check_ok(cuda_net_results(on.net, &sum, &err));
    float *actual = gpu_download(on.weights);
    assert_memory_equal(actual, expected, on.weights.bytes);
    assert_true(half.loss_sum < sum.loss_sum && sum.loss_sum == whole.loss_sum);
    gpu_assign(&on, 0, 10);
    check_ok(cuda_net_results(on.net, &sum, &err));
    assert_true(sum.loss_sum == 0 && sum.hits == 0); // a fresh task has no loss yet
    free(actual);
    free(expected);
    gpu_net_stop(&on);
}

static void many_models_are_assigned_at_once(void **state) {
    (void)state;
    enum { MODELS = 150 };
    Error err;
    GpuNet on;
    BatchResult results[MODELS], expected;
    gpu_net_start(&on, "softmax", (Shape){1, 2, 2}, MODELS, 4);
    for (int m = MODELS - 1; m >= 0; m--) {
        CudaTask task = {.first = (uint32_t)m, .count = (uint32_t)m % 5};
        check_ok(cuda_net_assign(on.net, m, &task, true, &err));
    }
    assert_int_equal(cuda_net_assign(on.net, MODELS, &(CudaTask){0}, true, &err), STATUS_USAGE);
    check_ok(cuda_net_evaluate(on.net, 1, &err));
    check_ok(cuda_net_results(on.net, results, &err));
    for (int m = 0; m < MODELS; m++) {
        CudaTask task = {.first = (uint32_t)m, .count = (uint32_t)m % 5};
        Batch batch = gpu_batch(&on, &task, 0);
        net_evaluate(&on.cpu, &expected, gpu_initial(&on, m), &batch);
        compare_loss(results[m].loss_sum, expected.loss_sum);
        assert_int_equal(results[m].hits, expected.hits);
    }
    gpu_net_stop(&on);
}

// As ssgd and evaluation want it: many batches at once, one array of weights.
static void models_may_share_weights_that_do_not_change(void **state) {
    (void)state;
    Error err;
    GpuNet on;
    const uint32_t counts[] = {10, 0, 7};
    BatchResult results[3], expected;
    gpu_net_prepare(&on, all_layers, (Shape){2, 10, 9}, 3, 10);
    on.plan.weights_stride = 0;
    on.plan.velocity = NULL;
    check_ok(cuda_net_init(&on.net, &on.plan, &err));
    for (int m = 0; m < 3; m++)
        gpu_assign(&on, m, counts[m]);
    check_ok(cuda_net_gradient(on.net, &err));
    float *gradient = gpu_download(on.gradient);
    for (int m = 0; m < 3; m++)
        gpu_assign(&on, m, counts[m]);
    check_ok(cuda_net_evaluate(on.net, 1, &err));
    check_ok(cuda_net_results(on.net, results, &err));
    Tensor expected_gradient = tensor_new(on.plan.spec.parameter_count);
    for (int m = 0; m < 3; m++) {
        CudaTask task = gpu_task(m, counts[m]);
        Batch batch = gpu_batch(&on, &task, 0);
        net_gradient(&on.cpu, expected_gradient.at, &expected, gpu_initial(&on, 0), &batch, &task.noise);
        if (batch.count > 0) compare("gradient", &on, m, gradient, expected_gradient.at, 1e-5);
        net_evaluate(&on.cpu, &expected, gpu_initial(&on, 0), &batch);
        compare_loss(results[m].loss_sum, expected.loss_sum);
        assert_int_equal(results[m].hits, expected.hits);
    }
    tensor_free(expected_gradient);
    free(gradient);
    gpu_net_stop(&on);
}

// On a GPU with tensor cores the bits differ, and the logits by no more than factors rounded to 10 bits explain.
static void with_tf32_logits_stay_close(void **state) {
    (void)state;
    enum { COUNT = 20 };
    Error err;
    GpuNet on;
    gpu_net_prepare(&on, "2nn", (Shape){1, 6, 5}, 1, COUNT);
    on.plan.tf32 = true;
    check_ok(cuda_net_init(&on.net, &on.plan, &err));
    gpu_assign(&on, 0, COUNT);
    CudaTask task = gpu_task(0, COUNT);
    Batch batch = gpu_batch(&on, &task, 0);
    float actual[COUNT * GPU_CLASSES], logits[COUNT * GPU_CLASSES];
    check_ok(cuda_net_logits(on.net, actual, COUNT, &err));
    net_logits(&on.cpu, logits, gpu_initial(&on, 0), &batch);
    double *exact = doubles(logits, COUNT * GPU_CLASSES);
    check_close("logits", actual, exact, COUNT * GPU_CLASSES, 5e-3);
    free(exact);
    gpu_net_stop(&on);
}

// Launches of a step of training, with what a local rule adds to the gradients or without.
static size_t launches_of(const char *model, bool shifts) {
    Error err;
    GpuNet on;
    const CudaPass *pass;
    cudaGraph_t graph;
    size_t launches;
    gpu_net_prepare(&on, model, (Shape){1, 28, 28}, 3, 10);
    GpuTensor arrays[] = {gpu_zeros(on.weights.bytes), gpu_zeros(3 * sizeof(float))};
    if (shifts) on.plan.gradient_shifts = gpu_floats(arrays[0]);
    if (shifts) on.plan.pulls = gpu_floats(arrays[1]);
    check_ok(cuda_net_init(&on.net, &on.plan, &err));
    check_ok(cuda_net_train(on.net, 1, &err)); // loads all that a step needs
    check_ok(cuda_net_pass(on.net, &pass, &err));
    check_cuda(cudaStreamBeginCapture(pass->step.stream, cudaStreamCaptureModeThreadLocal));
    cuda_pass_train(pass);
    check_cuda(cudaStreamEndCapture(pass->step.stream, &graph));
    check_cuda(cudaGraphGetNodes(graph, NULL, &launches));
    check_cuda(cudaGraphDestroy(graph));
    gpu_net_stop(&on);
    gpu_free(arrays[0]), gpu_free(arrays[1]);
    return launches;
}

static void a_local_rule_costs_no_launches(void **state) {
    (void)state;
    const char *const models[] = {"2nn", "lenet"};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        assert_int_equal(launches_of(models[i], true), launches_of(models[i], false));
}

static void plans_that_cannot_work_are_refused(void **state) {
    (void)state;
    Error err;
    GpuNet on;
    CudaNet *net;
    gpu_net_prepare(&on, "softmax", (Shape){1, 2, 2}, 2, 4);
    CudaNetPlan plan = on.plan;
    plan.weights_stride = 0;
    assert_int_equal(cuda_net_init(&net, &plan, &err), STATUS_USAGE);
    assert_non_null(strstr(err.message, "2 models"));
    plan = on.plan;
    plan.models = 65536;
    assert_int_equal(cuda_net_init(&net, &plan, &err), STATUS_USAGE);
    plan = on.plan;
    plan.batch_size = 0;
    assert_int_equal(cuda_net_init(&net, &plan, &err), STATUS_USAGE);
    plan.batch_size = 1u << 31;
    assert_int_equal(cuda_net_init(&net, &plan, &err), STATUS_USAGE);
    plan = on.plan;
    plan.updates = gpu_at(on.gradient); // never looked at
    assert_int_equal(cuda_net_init(&net, &plan, &err), STATUS_USAGE);
    plan = on.plan;
    plan.models = 1;
    plan.weights_stride = 0;
    plan.updates = gpu_at(on.gradient);
    check_ok(spec_parse(&plan.spec, "batchnorm; linear 7", (Shape){1, 2, 2}, GPU_CLASSES, &err));
    assert_int_equal(cuda_net_init(&net, &plan, &err), STATUS_USAGE);
    assert_non_null(strstr(err.message, "running statistics of a batchnorm have no gradients"));
    plan = on.plan;
    plan.spec.parameter_count = 0;
    assert_int_equal(cuda_net_init(&net, &plan, &err), STATUS_USAGE);
    assert_null(net);
    assert_true(cuda_net_bytes(&plan.spec, 2, 64, false) > cuda_net_bytes(&plan.spec, 1, 64, false));
    gpu_net_stop(&on);
}

int main(int argc, char **argv) {
    if (gpu_is_missing()) return GPU_TEST_SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_those_of_the_cpu),
        cmocka_unit_test(every_layers_gradient_is_that_of_the_cpu),
        cmocka_unit_test(twenty_steps_of_training_are_those_of_the_cpu),
        cmocka_unit_test(losses_hits_and_logits_are_those_of_the_cpu),
        cmocka_unit_test(repeated_runs_give_the_same_bits_however_the_steps_are_launched),
        cmocka_unit_test(a_model_comes_to_the_same_bits_whatever_the_others_do),
        cmocka_unit_test(without_cublas_a_model_comes_to_the_same_bits_in_launches_of_any_size),
        cmocka_unit_test(models_with_the_same_task_come_to_the_same_bits_in_any_place),
        cmocka_unit_test(epochs_continue_the_numbers_of_the_noise_and_the_sums),
        cmocka_unit_test(many_models_are_assigned_at_once),
        cmocka_unit_test(models_may_share_weights_that_do_not_change),
        cmocka_unit_test(with_tf32_logits_stay_close),
        cmocka_unit_test(a_local_rule_costs_no_launches),
        cmocka_unit_test(plans_that_cannot_work_are_refused),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}

// Whole nets: batches of any size, noise, poisoned arenas, diverged parameters, and all builds alike.
#include "nn/buffers.h"

#include <string.h>

#include "tests/nn/layer_examples.h"
#include "tests/nn/net_fixture.h"
#include "tests/tensor.h"

static void check_batches(Fixture *fixture) {
    const uint32_t counts[] = {1, 3, 4, 10, 16, 17, 64, 65}; // few go through ops of their own
    static double sums[MOST_PARAMETERS];
    size_t parameters = fixture->net.spec.parameter_count;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        memset(sums, 0, sizeof sums);
        double loss_sum = 0;
        BatchResult result;
        for (uint32_t s = 0; s < counts[i]; s++) {
            Batch single = batch_of(fixture, s, 1);
            net_gradient(&fixture->net, fixture->gradient, &result, fixture->parameters, &single, NULL);
            loss_sum += result.loss_sum;
            for (size_t p = 0; p < parameters; p++)
                sums[p] += (double)fixture->gradient[p] / counts[i];
        }
        Batch batch = batch_of(fixture, 0, counts[i]);
        memset(fixture->gradient, 0xff, sizeof fixture->gradient); // must be overwritten
        net_gradient(&fixture->net, fixture->gradient, &result, fixture->parameters, &batch, NULL);
        check_close("gradient", fixture->gradient, sums, parameters, 2e-6);
        assert_true(fabs(result.loss_sum - loss_sum) < 1e-5 * loss_sum);
        assert_int_equal(result.hits, 0);
    }
}

static void the_gradient_of_a_batch_is_the_mean_of_its_samples_gradients(void **state) {
    (void)state;
    with_each_build(all_layers, check_batches);
    with_each_build(more_layers, check_batches);
    with_each_build(wide_head, check_batches);
    with_each_build(branches, check_batches);
    with_each_build("linear 9; relu; linear 5", check_batches);
    with_each_build("globalpool as a; linear 2; add a; linear 5", check_batches);
    with_each_build("pool 11; conv 5 1", check_batches); // needs more scratch for few samples than for many
}

// How fast the loss of the batch changes along the direction (parameters), by a difference of two steps.
static double derivative_along(Fixture *fixture, const float *direction, float step, const Batch *batch,
                               const Noise *noise) {
    static float moved[MOST_PARAMETERS], ignored[MOST_PARAMETERS];
    double losses[2];
    for (int side = 0; side < 2; side++) {
        BatchResult result;
        for (size_t p = 0; p < fixture->net.spec.parameter_count; p++)
            moved[p] = fixture->parameters[p] + (side ? step : -step) * direction[p];
        net_gradient(&fixture->net, ignored, &result, moved, batch, noise);
        losses[side] = result.loss_sum / batch->count;
    }
    return (losses[1] - losses[0]) / (2 * (double)step);
}

// Along the gradient a tensor whose gradient stays 0 would not move: each tensor alone moves along random numbers, too.
static void check_tensor(Fixture *fixture, const ParameterTensor *tensor, const Batch *batch, const Noise *noise) {
    static float direction[MOST_PARAMETERS];
    Tensor numbers = tensor_random(tensor->count, 7);
    double squares = 0, along = 0, steepness = 0;
    memset(direction, 0, sizeof direction);
    for (size_t i = 0; i < tensor->count; i++) {
        const double slope = (double)fixture->gradient[tensor->first + i];
        direction[tensor->first + i] = numbers.at[i];
        squares += (double)numbers.at[i] * (double)numbers.at[i];
        along += slope * (double)numbers.at[i];
        steepness += slope * slope;
    }
    tensor_free(numbers);
    const double derivative = derivative_along(fixture, direction, (float)(5e-4 / sqrt(squares)), batch, noise);
    const double off = fabs(derivative - along) / sqrt(squares), typical = sqrt(steepness / (double)tensor->count);
    if (off > 0.015 * typical + 5e-5)
        fail_msg("%s: the loss changes by %g, its gradient says %g", tensor->name, derivative, along);
}

static void check_derivative(Fixture *fixture) {
    const Noise noise = {.seed = 1, .round = 2, .client = 3, .step = 4};
    const Noise *with[] = {NULL, &noise};
    const Spec *spec = &fixture->net.spec;
    for (int i = 0; i < 2; i++) {
        const Batch batch = batch_of(fixture, 0, 37);
        BatchResult result;
        double steepness = 0;
        net_gradient(&fixture->net, fixture->gradient, &result, fixture->parameters, &batch, with[i]);
        for (size_t p = 0; p < spec->parameter_count; p++)
            steepness += (double)fixture->gradient[p] * (double)fixture->gradient[p];
        const float step = (float)(1e-3 / sqrt(steepness));
        const double derivative = derivative_along(fixture, fixture->gradient, step, &batch, with[i]);
        assert_true(fabs(derivative / steepness - 1) < 0.01);
        for (int t = 0; t < spec->tensor_count; t++)
            if (!spec->tensors[t].follows) check_tensor(fixture, &spec->tensors[t], &batch, with[i]);
    }
}

static void the_loss_changes_along_the_gradient_as_fast_as_the_gradient_says(void **state) {
    (void)state;
    with_each_build(all_layers, check_derivative);
    with_each_build(more_layers, check_derivative);
    with_each_build(wide_head, check_derivative);
    with_each_build(branches, check_derivative);
}

static void check_purity(Fixture *fixture) {
    const Noise noise = {.seed = 1, .round = 2, .client = 3, .step = 4};
    static float first[MOST_PARAMETERS], wild[MOST_PARAMETERS];
    Net *net = &fixture->net;
    size_t bytes = net->spec.parameter_count * sizeof(float);
    Batch batch = batch_of(fixture, 0, 27), other = batch_of(fixture, 5, 70);
    BatchResult first_result, result;
    memset(net->arena, 0xff, net->arena_bytes);
    net_gradient(net, first, &first_result, fixture->parameters, &batch, &noise);
    // Leave NaNs and another batch's values wherever the net keeps something.
    memset(wild, 0xff, sizeof wild);
    net_gradient(net, fixture->gradient, &result, wild, &other, &noise);
    net_gradient(net, fixture->gradient, &result, fixture->parameters, &batch, &noise);
    assert_memory_equal(first, fixture->gradient, bytes);
    assert_true(result.loss_sum == first_result.loss_sum && isfinite(result.loss_sum) != 0);
    // Each part of the noise matters.
    const Noise others[] = {{2, 2, 3, 4, 0}, {1, 3, 3, 4, 0}, {1, 2, 4, 4, 0}, {1, 2, 3, 5, 0}, {1, 2, 3, 4, 5}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        net_gradient(net, fixture->gradient, &result, fixture->parameters, &batch, &others[i]);
        assert_true(result.loss_sum != first_result.loss_sum);
    }
}

static void results_depend_on_the_arguments_alone(void **state) {
    (void)state;
    with_each_build(all_layers, check_purity);
    with_each_build(more_layers, check_purity);
    with_each_build(wide_head, check_purity);
    with_each_build(branches, check_purity);
}

// Every word of the grammar is in a net whose gradient is checked against differences, in `shape` and few lanes alike.
static void the_gradient_of_every_layer_is_that_of_its_loss(void **state) {
    (void)state;
    char text[SPEC_TEXT_BYTES];
    size_t tried = 0, word = 0;
    for (; layer_example(text, sizeof text, word, shape, CLASSES); word++) {
        if (!*text) continue;
        with_each_build(text, check_derivative);
        tried++;
    }
    assert_int_equal(tried, word - 1); // an embedding is in test_sequence.c
}

typedef struct Completions {
    const Net *net;
    const float *gradient;
    float seen[MOST_PARAMETERS]; // gradients at the moment they were said to be complete
    size_t next;                 // all from here on were
} Completions;

static void on_gradient(void *context, size_t first) {
    Completions *completions = context;
    assert_true(first < completions->next);
    memcpy(completions->seen + first, completions->gradient + first, (completions->next - first) * sizeof(float));
    completions->next = first;
}

static void check_completions(Fixture *fixture) {
    static Completions completions;
    Net *net = &fixture->net;
    size_t parameters = net->spec.parameter_count;
    const uint32_t counts[] = {1, 65}; // in one chunk, in several
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        completions = (Completions){.net = net, .gradient = fixture->gradient, .next = parameters};
        Batch batch = batch_of(fixture, 0, counts[i]);
        BatchResult result;
        net->on_gradient = (GradientHook){on_gradient, &completions};
        net_gradient(net, fixture->gradient, &result, fixture->parameters, &batch, NULL);
        net->on_gradient = (GradientHook){0};
        assert_int_equal(completions.next, 0);
        assert_memory_equal(completions.seen, fixture->gradient, parameters * sizeof(float));
    }
}

static void gradients_are_final_when_they_are_said_to_be_complete(void **state) {
    (void)state;
    with_each_build(all_layers, check_completions);
    with_each_build(more_layers, check_completions);
    with_each_build(wide_head, check_completions);
    with_each_build(branches, check_completions);
    with_each_build("linear 9; relu; linear 5", check_completions);
}

static void check_parts(Fixture *fixture) {
    const Noise noise = {.seed = 1, .round = 2, .client = 3, .step = 4};
    static double sums[MOST_PARAMETERS];
    size_t parameters = fixture->net.spec.parameter_count;
    const uint32_t cuts[] = {0, 13, 29, 50};
    memset(sums, 0, sizeof sums);
    for (int part = 0; part < 3; part++) {
        Batch batch = batch_of(fixture, cuts[part], cuts[part + 1] - cuts[part]);
        BatchResult result;
        Noise part_noise = noise;
        part_noise.first_sample = cuts[part];
        net_gradient(&fixture->net, fixture->gradient, &result, fixture->parameters, &batch, &part_noise);
        for (size_t p = 0; p < parameters; p++)
            sums[p] += (double)fixture->gradient[p] * batch.count / cuts[3];
    }
    Batch whole = batch_of(fixture, 0, cuts[3]);
    BatchResult result;
    net_gradient(&fixture->net, fixture->gradient, &result, fixture->parameters, &whole, &noise);
    check_close("gradient", fixture->gradient, sums, parameters, 2e-6);
}

static void parts_of_a_batch_that_know_their_place_drop_out_as_the_whole(void **state) {
    (void)state;
    with_each_build(all_layers, check_parts);
    with_each_build(more_layers, check_parts);
    with_each_build(wide_head, check_parts);
    with_each_build(branches, check_parts);
}

static void check_evaluation(Fixture *fixture) {
    Batch batch = batch_of(fixture, 0, 70);
    static float logits[70 * CLASSES];
    BatchResult result, single;
    net_evaluate(&fixture->net, &result, fixture->parameters, &batch);
    net_logits(&fixture->net, logits, fixture->parameters, &batch);
    double loss_sum = 0, singles = 0;
    uint32_t hits = 0;
    for (uint32_t s = 0; s < 70; s++) {
        const float *of = logits + s * CLASSES;
        int best = 0;
        double sum = 0;
        for (int k = 0; k < CLASSES; k++) {
            sum += exp((double)of[k]);
            if (of[k] > of[best]) best = k;
        }
        uint16_t label = fixture->labels[fixture->indices[s]];
        loss_sum += log(sum) - (double)of[label];
        hits += best == label;
        Batch one = {.pixels = fixture->pixels,
                     .labels = fixture->labels,
                     .first = fixture->indices[s],
                     .count = 1,
                     .scale = fixture->scale,
                     .shift = fixture->shift};
        net_evaluate(&fixture->net, &single, fixture->parameters, &one);
        singles += single.loss_sum;
    }
    assert_true(fabs(result.loss_sum - loss_sum) < 1e-5 * loss_sum);
    assert_true(fabs(result.loss_sum - singles) < 1e-5 * loss_sum);
    assert_int_equal(result.hits, hits);
    net_gradient(&fixture->net, fixture->gradient, &single, fixture->parameters, &batch, NULL);
    assert_true(single.loss_sum == result.loss_sum);
}

static void evaluation_counts_the_loss_and_the_hits_of_the_logits(void **state) {
    (void)state;
    with_each_build(all_layers, check_evaluation);
    with_each_build(more_layers, check_evaluation);
    with_each_build(wide_head, check_evaluation);
    with_each_build(branches, check_evaluation);
}

// A worker is judged alive by this count, so every way through the net must move it.
static void check_progress(Fixture *fixture) {
    static float velocity[MOST_PARAMETERS];
    const Sgd sgd = {.lr = 0.1f};
    const Batch seventy = batch_of(fixture, 0, 70), thirty = batch_of(fixture, 0, 30), none = batch_of(fixture, 0, 0);
    BatchResult result;
    _Atomic uint64_t progress = 1000;
    fixture->net.progress = &progress;
    net_evaluate(&fixture->net, &result, fixture->parameters, &seventy);
    assert_int_equal(atomic_load(&progress), 1070);
    net_gradient(&fixture->net, fixture->gradient, &result, fixture->parameters, &thirty, NULL);
    assert_int_equal(atomic_load(&progress), 1100);
    net_train_step(&fixture->net, fixture->parameters, velocity, &result, &sgd, NULL, &seventy, NULL);
    assert_int_equal(atomic_load(&progress), 1170);
    net_evaluate(&fixture->net, &result, fixture->parameters, &none);
    assert_int_equal(atomic_load(&progress), 1170);
}

static void every_sample_that_went_through_the_net_is_counted_as_progress(void **state) {
    (void)state;
    with_each_build(all_layers, check_progress);
}

static void check_divergence(Fixture *fixture) {
    const Spec *spec = &fixture->net.spec;
    for (int t = 0; t < spec->tensor_count; t++) {
        float *value = &fixture->parameters[spec->tensors[t].first + spec->tensors[t].count / 2], kept = *value;
        Batch batch = batch_of(fixture, 0, 20);
        BatchResult result;
        *value = NAN;
        net_gradient(&fixture->net, fixture->gradient, &result, fixture->parameters, &batch, NULL);
        assert_true(!isfinite(result.loss_sum));
        net_evaluate(&fixture->net, &result, fixture->parameters, &batch);
        assert_true(!isfinite(result.loss_sum));
        *value = kept;
    }
    fixture->parameters[spec->parameter_count - 1] = INFINITY; // a logit's bias
    Batch batch = batch_of(fixture, 0, 20);
    BatchResult result;
    net_evaluate(&fixture->net, &result, fixture->parameters, &batch);
    assert_true(!isfinite(result.loss_sum));
}

static void a_nan_in_any_parameter_tensor_shows_in_the_loss(void **state) {
    (void)state;
    with_each_build(all_layers, check_divergence);
    with_each_build(more_layers, check_divergence);
    with_each_build(branches, check_divergence);
}

static void check_empty(Fixture *fixture) {
    Batch batch = batch_of(fixture, 0, 0);
    BatchResult result;
    memset(fixture->gradient, 0xff, sizeof fixture->gradient);
    net_gradient(&fixture->net, fixture->gradient, &result, fixture->parameters, &batch, NULL);
    for (size_t p = 0; p < fixture->net.spec.parameter_count; p++)
        assert_true(fixture->gradient[p] == 0.0f);
    assert_true(result.loss_sum == 0);
    net_evaluate(&fixture->net, &result, fixture->parameters, &batch);
    assert_true(result.loss_sum == 0 && result.hits == 0);
}

static void an_empty_batch_has_no_loss_and_a_gradient_of_zeros(void **state) {
    (void)state;
    with_each_build(all_layers, check_empty);
}

// Keeps the baseline's gradient (the last build to run) and compares; the first call of a run finds none.
static double reference_gradient[MOST_PARAMETERS];
static bool compare_with_reference;

static void check_agreement(Fixture *fixture) {
    const Noise noise = {.seed = 9, .round = 8, .client = 7, .step = 6};
    Batch batch = batch_of(fixture, 0, 65);
    BatchResult result;
    size_t parameters = fixture->net.spec.parameter_count;
    net_gradient(&fixture->net, fixture->gradient, &result, fixture->parameters, &batch, &noise);
    if (compare_with_reference) check_close("gradient", fixture->gradient, reference_gradient, parameters, 2e-6);
    for (size_t p = 0; p < parameters; p++)
        reference_gradient[p] = (double)fixture->gradient[p];
    compare_with_reference = true;
}

static void all_builds_agree_within_rounding(void **state) {
    (void)state;
    with_each_build(all_layers, check_agreement);
    assert_true(compare_with_reference);
}

static void check_odd_net(Fixture *fixture) {
    Batch batch = batch_of(fixture, 0, 20);
    BatchResult result;
    net_gradient(&fixture->net, fixture->gradient, &result, fixture->parameters, &batch, &(Noise){.seed = 1});
    assert_true(isfinite(result.loss_sum) != 0);
    for (size_t p = 0; p < fixture->net.spec.parameter_count; p++)
        assert_true(isfinite(fixture->gradient[p]) != 0);
}

static void layers_may_come_in_any_order(void **state) {
    (void)state;
    with_each_build("dropout 0.1; relu; pool 2; relu; linear 5", check_odd_net);
    with_each_build("pool 2; pool 2; pool 2; linear 5; dropout2d 0.5", check_odd_net);
    with_each_build("linear 30; conv 8 1; pool 1; conv 5 1; relu", check_odd_net);
    with_each_build("pool 11; conv 5 1", check_odd_net);
    with_each_build("globalpool; tanh; linear 9; gelu; avgpool 1; pool 1 stride 3; linear 5", check_odd_net);
    with_each_build("globalpool 4x5; tanh; globalpool 3x7; conv 4 1; globalpool 2x4; linear 5", check_odd_net);
    with_each_build("conv 4 1 stride 2; conv 8 3 groups 4 pad 1; conv 5 7x6", check_odd_net);
    with_each_build("relu; conv 3 1 as a; add a; relu as b; concat b; conv 5 1 as c; add c; globalpool", check_odd_net);
    with_each_build("pool 2 as a; conv 2 3 pad 1; add a; concat a; groupnorm 4; linear 5", check_odd_net);
    with_each_build("tanh; relu; conv 5 3; relu; pool 3 stride 1 pad 1; relu; globalpool", check_odd_net);
    with_each_build("conv 3 3; conv 3 3; conv 6 3; conv 3 2; pool 4; linear 5; relu; relu", check_odd_net);
}

// The logits of a net that begins with an embedding, for the first samples of the fixture in this shape.
static void embed(float *logits, const Fixture *fixture, Shape numbers) {
    static float parameters[256 * 3 + (12 * 3 + 1) * CLASSES];
    const float unused[12] = {0};
    Net net;
    Spec spec;
    Error err;
    const Batch batch = {
        .pixels = fixture->pixels, .labels = fixture->labels, .count = 7, .scale = unused, .shift = unused};
    check_ok(spec_parse(&spec, "embedding 256 3; linear 5", numbers, CLASSES, &err));
    assert_int_equal(spec.parameter_count, sizeof parameters / sizeof *parameters);
    check_ok(net_init(&net, &spec, fixture->net.kernels, &err));
    spec_initialise(parameters, &spec, 3);
    net_logits(&net, logits, parameters, &batch);
    net_free(&net);
}

static void check_numbers(Fixture *fixture) {
    float row[7 * CLASSES], channels[7 * CLASSES];
    embed(row, fixture, (Shape){1, 1, 12});
    embed(channels, fixture, (Shape){12, 1, 1});
    assert_memory_equal(channels, row, sizeof row);
}

static void an_embedding_reads_the_same_numbers_in_a_row_and_in_channels(void **state) {
    (void)state;
    with_each_build("linear 5", check_numbers);
}

static void the_arena_is_carved_into_whole_vectors_and_fits_the_cache_if_it_can(void **state) {
    (void)state;
    Error err;
    for (size_t i = 0; i < zoo_entry_count; i++) {
        Net net;
        Spec spec;
        char text[SPEC_TEXT_BYTES];
        zoo_expand(text, sizeof text, zoo_entries[i].name, 10);
        check_ok(spec_parse(&spec, text, (Shape){1, 28, 28}, 10, &err));
        check_ok(net_init(&net, &spec, kernels_best(), &err));
        const ChunkPlan *chunk = &net.buffers->chunk;
        assert_int_equal(chunk->part % kernels_best()->lanes, 0);
        assert_int_equal(chunk->samples % chunk->part, 0);
        assert_int_equal((uintptr_t)net.arena % 64, 0);
        if (spec.layers[0].kind == LAYER_LINEAR) assert_true(chunk->part >= 64 && net.arena_bytes <= 1024 * 1024);
        net_free(&net);
        assert_null(net.arena);
    }
}

static ChunkPlan chunk_of(const char *text) {
    Error err;
    Spec spec;
    check_ok(spec_parse(&spec, text, shape, CLASSES, &err));
    return buffers_chunk(&spec, 8, false);
}

static void a_body_goes_part_by_part_where_the_heads_weights_are_far(void **state) {
    (void)state;
    const ChunkPlan far = chunk_of(wide_head), near = chunk_of(all_layers);
    assert_int_equal(far.head, 9);
    assert_true(far.part % 8 == 0 && far.samples >= 3 * far.part && far.samples % far.part == 0);
    assert_int_equal(near.head, 7);
    assert_int_equal(near.samples, near.part);
    const char *wholes[] = {"linear 9; relu; linear 5",                   // no body
                            "conv 5 3; globalpool",                       // no head
                            "globalpool as a; linear 2; add a; linear 5", // the head looks at the body
                            "conv 6 3; batchnorm; linear 5"};             // samples meet
    for (size_t i = 0; i < sizeof wholes / sizeof *wholes; i++) {
        const ChunkPlan whole = chunk_of(wholes[i]);
        assert_int_equal(whole.head, 0);
        assert_int_equal(whole.samples, whole.part);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_gradient_of_a_batch_is_the_mean_of_its_samples_gradients),
        cmocka_unit_test(the_loss_changes_along_the_gradient_as_fast_as_the_gradient_says),
        cmocka_unit_test(the_gradient_of_every_layer_is_that_of_its_loss),
        cmocka_unit_test(results_depend_on_the_arguments_alone),
        cmocka_unit_test(gradients_are_final_when_they_are_said_to_be_complete),
        cmocka_unit_test(parts_of_a_batch_that_know_their_place_drop_out_as_the_whole),
        cmocka_unit_test(evaluation_counts_the_loss_and_the_hits_of_the_logits),
        cmocka_unit_test(every_sample_that_went_through_the_net_is_counted_as_progress),
        cmocka_unit_test(a_nan_in_any_parameter_tensor_shows_in_the_loss),
        cmocka_unit_test(an_empty_batch_has_no_loss_and_a_gradient_of_zeros),
        cmocka_unit_test(all_builds_agree_within_rounding),
        cmocka_unit_test(layers_may_come_in_any_order),
        cmocka_unit_test(an_embedding_reads_the_same_numbers_in_a_row_and_in_channels),
        cmocka_unit_test(a_body_goes_part_by_part_where_the_heads_weights_are_far),
        cmocka_unit_test(the_arena_is_carved_into_whole_vectors_and_fits_the_cache_if_it_can),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}

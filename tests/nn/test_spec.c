// Net texts: their meaning, and the initial parameters (test_spec_refusals.c has mistakes).
#include "nn/spec.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "tests/check.h"

static const Shape grey = {1, 28, 28}, colour = {3, 32, 32};

static Spec parse_zoo(const char *name, Shape input) {
    Error err;
    Spec spec;
    char text[SPEC_TEXT_BYTES];
    zoo_expand(text, sizeof text, name, 10);
    check_ok(spec_parse(&spec, text, input, 10, &err));
    return spec;
}

static void the_zoo_has_the_published_parameter_counts(void **state) {
    (void)state;
    const struct {
        const char *name;
        Shape input;
        size_t parameters;
    } known[] = {{"lenet", grey, 21840},         {"softmax", grey, 7850},        {"2nn", grey, 199210},
                 {"cnn", grey, 1663370},         {"cifar-cnn", colour, 1626442}, {"lenet5", colour, 62006},
                 {"feddyn-cnn", colour, 797962}, {"resnet8", colour, 78378},     {"resnet20", colour, 273258},
                 {"resnet18", colour, 11178762}, {"mobilenet", colour, 37898},   {"char-lstm", {1, 1, 80}, 803338}};
    assert_int_equal(zoo_entry_count, sizeof known / sizeof *known);
    for (size_t i = 0; i < zoo_entry_count; i++) {
        assert_string_equal(zoo_entries[i].name, known[i].name);
        assert_int_equal(parse_zoo(known[i].name, known[i].input).parameter_count, known[i].parameters);
    }
}

static void a_model_that_is_no_zoo_name_is_its_own_text(void **state) {
    (void)state;
    char text[SPEC_TEXT_BYTES], small[8];
    zoo_expand(text, sizeof text, "conv 3 3; relu", 10);
    assert_string_equal(text, "conv 3 3; relu");
    zoo_expand(text, sizeof text, "2nn", 62);
    assert_string_equal(text, "linear 200; relu; linear 200; relu; linear 62");
    zoo_expand(small, sizeof small, "2nn", 62);
    assert_string_equal(small, "linear ");
}

static void the_last_layer_may_say_classes_before_its_options_and_names(void **state) {
    (void)state;
    const char *known[][2] = {
        {"linear classes", "linear 7"},
        {"relu; linear  classes nobias\n", "relu; linear  7 nobias\n"},
        {"linear 4 as a; relu;\tlinear classes from a as b ", "linear 4 as a; relu;\tlinear 7 from a as b "},
        {"linear 8 as classes", "linear 8 as classes"},
        {"linear 8 as subclasses", "linear 8 as subclasses"},
        {"linear subclasses", "linear subclasses"},
        {"linear", "linear"},
        {"linear classes;", "linear classes;"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        char text[SPEC_TEXT_BYTES];
        zoo_expand(text, sizeof text, known[i][0], 7);
        assert_string_equal(text, known[i][1]);
    }
}

static void tensors_have_pytorchs_names_shapes_and_order(void **state) {
    (void)state;
    Spec spec = parse_zoo("lenet", grey);
    const ParameterTensor expected[] = {
        {.name = "conv1.weight", .rank = 4, .shape = {10, 1, 5, 5}, .first = 0, .count = 250, .fan_in = 25},
        {.name = "conv1.bias", .rank = 1, .shape = {10}, .first = 250, .count = 10, .fan_in = 25},
        {.name = "conv2.weight", .rank = 4, .shape = {20, 10, 5, 5}, .first = 260, .count = 5000, .fan_in = 250},
        {.name = "conv2.bias", .rank = 1, .shape = {20}, .first = 5260, .count = 20, .fan_in = 250},
        {.name = "fc1.weight", .rank = 2, .shape = {50, 320}, .first = 5280, .count = 16000, .fan_in = 320},
        {.name = "fc1.bias", .rank = 1, .shape = {50}, .first = 21280, .count = 50, .fan_in = 320},
        {.name = "fc2.weight", .rank = 2, .shape = {10, 50}, .first = 21330, .count = 500, .fan_in = 50},
        {.name = "fc2.bias", .rank = 1, .shape = {10}, .first = 21830, .count = 10, .fan_in = 50},
    };
    assert_int_equal(spec.tensor_count, sizeof expected / sizeof *expected);
    for (int t = 0; t < spec.tensor_count; t++) {
        const ParameterTensor *tensor = &spec.tensors[t];
        assert_string_equal(tensor->name, expected[t].name);
        assert_int_equal(tensor->rank, expected[t].rank);
        assert_memory_equal(tensor->shape, expected[t].shape, sizeof tensor->shape);
        assert_int_equal(tensor->first, expected[t].first);
        assert_int_equal(tensor->count, expected[t].count);
        assert_int_equal(tensor->fan_in, expected[t].fan_in);
    }
    assert_int_equal(spec.layers[3].weight, 260);
    assert_int_equal(spec.layers[3].bias, 5260);
}

static void shapes_follow_from_the_text(void **state) {
    (void)state;
    Error err;
    Spec spec;
    check_ok(spec_parse(&spec, " conv 4 5 pad 2;pool 3 ;\trelu; dropout2d 0.25; conv 2 3; linear 7 ", (Shape){3, 11, 9},
                        7, &err));
    const Shape outs[] = {{4, 11, 9}, {4, 3, 3}, {4, 3, 3}, {4, 3, 3}, {2, 1, 1}, {7, 1, 1}};
    assert_int_equal(spec.layer_count, 6);
    for (int l = 0; l < spec.layer_count; l++) {
        assert_memory_equal(&spec.layers[l].out, &outs[l], sizeof outs[l]);
        if (l > 0) assert_memory_equal(&spec.layers[l].in, &outs[l - 1], sizeof outs[l]);
    }
    assert_int_equal(spec.layers[0].pad, 2);
    assert_true(spec.layers[3].rate == 0.25f);

    check_ok(spec_parse(&spec,
                        "pool 3x2 stride 2 pad 1; leakyrelu; avgpool 2 stride 1x2; leakyrelu 0.3; pool 2 stride 2; "
                        "globalpool; linear 7",
                        (Shape){3, 11, 9}, 7, &err));
    const Shape pooled[] = {{3, 6, 5}, {3, 6, 5}, {3, 5, 2}, {3, 5, 2}, {3, 2, 1}, {3, 1, 1}, {7, 1, 1}};
    for (int l = 0; l < spec.layer_count; l++)
        assert_memory_equal(&spec.layers[l].out, &pooled[l], sizeof pooled[l]);
    assert_true(spec.layers[1].rate == 0.01f && spec.layers[3].rate == 0.3f);
    assert_true(!layer_is_plain(&spec.layers[0]) && layer_is_plain(&spec.layers[4]));

    check_ok(
        spec_parse(&spec,
                   "conv 4 3x5 stride 2x1 pad 1x2; conv 8 3 dilation 2 groups 2 pad 2; conv 6 1 stride 2; conv 6 1 "
                   "groups 1 stride 1 dilation 1; linear 7",
                   (Shape){3, 11, 9}, 7, &err));
    const Shape convolved[] = {{4, 6, 9}, {8, 6, 9}, {6, 3, 5}, {6, 3, 5}, {7, 1, 1}};
    const int64_t weights[][4] = {{4, 3, 3, 5}, {8, 2, 3, 3}, {6, 8, 1, 1}, {6, 6, 1, 1}};
    for (int l = 0; l < 4; l++) {
        assert_memory_equal(&spec.layers[l].out, &convolved[l], sizeof convolved[l]);
        assert_memory_equal(spec.tensors[2 * l].shape, weights[l], sizeof weights[l]);
        assert_int_equal(layer_is_plain(&spec.layers[l]), l == 3);
    }
    assert_int_equal(spec.tensors[2].fan_in, 18);
}

static void layers_take_what_they_name(void **state) {
    (void)state;
    Error err;
    Spec spec;
    check_ok(spec_parse(
        &spec,
        "conv 4 3 as stem; groupnorm 2; relu as from-here; conv 6 3 stride 2; layernorm as b; conv 6 1 stride 2 "
        "pad 0 from from-here as c; avgpool 2 stride 1; add b; concat b; linear 10",
        (Shape){1, 11, 9}, 10, &err));
    const int sources[] = {SPEC_INPUT, 0, 1, 2, 3, 2, 5, 6, 7, 8};
    for (int l = 0; l < spec.layer_count; l++)
        assert_int_equal(spec.layers[l].source, sources[l]);
    assert_int_equal(spec.layers[7].other, 4);
    assert_int_equal(spec.layers[8].other, 4);
    assert_int_equal(spec.layers[8].out.channels, 12);
    const struct {
        const char *name;
        int rank;
        int64_t shape[3];
        float start;
    } norms[] = {{"norm1.weight", 1, {4}, 1}, {"norm1.bias", 1, {4}, 0}, {"norm2.weight", 3, {6, 4, 3}, 1}};
    const int numbers[] = {2, 3, 6};
    static float parameters[4096];
    assert_true(spec.parameter_count <= sizeof parameters / sizeof *parameters);
    spec_initialise(parameters, &spec, 1);
    for (size_t i = 0; i < 3; i++) {
        const ParameterTensor *tensor = &spec.tensors[numbers[i]];
        assert_string_equal(tensor->name, norms[i].name);
        assert_int_equal(tensor->rank, norms[i].rank);
        for (int d = 0; d < tensor->rank; d++)
            assert_int_equal(tensor->shape[d], norms[i].shape[d]);
        for (size_t p = 0; p < tensor->count; p++)
            assert_true(parameters[tensor->first + p] == norms[i].start);
    }
}

static void initial_parameters_are_uniform_within_pytorchs_bound_and_depend_on_the_seed(void **state) {
    (void)state;
    static float parameters[21840], again[21840], other[21840];
    Spec spec = parse_zoo("lenet", grey);
    spec_initialise(parameters, &spec, 1);
    spec_initialise(again, &spec, 1);
    spec_initialise(other, &spec, 2);
    assert_memory_equal(parameters, again, sizeof parameters);
    assert_memory_not_equal(parameters, other, sizeof parameters);
    for (int t = 0; t < spec.tensor_count; t++) {
        const ParameterTensor *tensor = &spec.tensors[t];
        double bound = 1 / sqrt((double)tensor->fan_in), squares = 0, sum = 0;
        for (size_t i = 0; i < tensor->count; i++) {
            double value = (double)parameters[tensor->first + i];
            assert_true(fabs(value) <= bound * 1.0000001);
            sum += value;
            squares += value * value;
        }
        if (tensor->count < 1000) continue;
        double count = (double)tensor->count;
        assert_true(fabs(sum / count) < 4 * bound / sqrt(3 * count));
        assert_true(fabs(squares / count / (bound * bound / 3) - 1) < 0.1);
    }
    // Element 6 of tensor 2 is word 2 of block 1 under that tensor's key.
    RngBlock block = rng_block(rng_key(1, RNG_INIT, 2, 0, 0), 1, 0, 0, 0);
    double expected = (2 * (double)rng_float(block.word[2]) - 1) / sqrt(250);
    assert_true(fabs((double)parameters[266] - expected) < 1e-8);
}

static void training_flop_are_those_of_the_layers(void **state) {
    (void)state;
    Spec spec = parse_zoo("lenet", grey);
    assert_true(spec_training_flop(&spec) == 2.0 * (2 * 144000 + 3 * (320000 + 16000 + 500)));
    spec = parse_zoo("softmax", grey);
    assert_true(spec_training_flop(&spec) == 2.0 * 2 * 7840);
}

static void check_tensors(const Spec *spec, const ParameterTensor *expected, size_t count) {
    for (size_t t = 0; t < count; t++) {
        assert_string_equal(spec->tensors[t].name, expected[t].name);
        assert_memory_equal(spec->tensors[t].shape, expected[t].shape, sizeof expected[t].shape);
        assert_int_equal(spec->tensors[t].first, expected[t].first);
        assert_int_equal(spec->tensors[t].count, expected[t].count);
    }
}

static void layers_of_sequences_have_pytorchs_names_shapes_and_order(void **state) {
    (void)state;
    Error err;
    Spec spec;
    check_ok(spec_parse(&spec, "embedding 100 8; lstm 16; lstm 5 last; linear 10", (Shape){1, 4, 3}, 10, &err));
    const ParameterTensor expected[] = {
        {.name = "embedding1.weight", .rank = 2, .shape = {100, 8}, .first = 0, .count = 800},
        {.name = "lstm1.weight_ih_l0", .rank = 2, .shape = {64, 8}, .first = 800, .count = 512},
        {.name = "lstm1.weight_hh_l0", .rank = 2, .shape = {64, 16}, .first = 1312, .count = 1024},
        {.name = "lstm1.bias_ih_l0", .rank = 1, .shape = {64}, .first = 2336, .count = 64},
        {.name = "lstm1.bias_hh_l0", .rank = 1, .shape = {64}, .first = 2400, .count = 64},
        {.name = "lstm2.weight_ih_l0", .rank = 2, .shape = {20, 16}, .first = 2464, .count = 320},
    };
    check_tensors(&spec, expected, sizeof expected / sizeof *expected);
    assert_int_equal(spec.layers[1].out.rows, 12);
    assert_int_equal(spec.layers[2].out.channels, 5);
    assert_int_equal(spec.parameter_count, 2464 + 20 * (16 + 5 + 2) + 60);
    float parameters[3000];
    double squares = 0;
    spec_initialise(parameters, &spec, 1);
    for (int i = 0; i < 800; i++)
        squares += (double)parameters[i] * (double)parameters[i] / 800;
    assert_true(fabs(squares - 1) < 0.2); // the embedding's: normally distributed
    for (size_t i = 800; i < 2464; i++)
        assert_true(fabsf(parameters[i]) <= 0.25f);
}

static void positions_have_a_small_value_for_each_of_the_sequence(void **state) {
    (void)state;
    Error err;
    float parameters[600];
    double squares = 0;
    Spec spec;
    check_ok(spec_parse(&spec, "positions; linear 2", (Shape){1, 20, 30}, 2, &err));
    const ParameterTensor expected[] = {{.name = "positions1.weight", .shape = {20, 30}, .count = 600},
                                        {.name = "fc1.weight", .shape = {2, 600}, .first = 600, .count = 1200}};
    check_tensors(&spec, expected, 2);
    assert_memory_equal(&spec.layers[0].out, &spec.input, sizeof spec.input);
    spec.parameter_count = 600, spec.tensor_count = 1;
    spec_initialise(parameters, &spec, 1);
    for (int i = 0; i < 600; i++)
        squares += (double)parameters[i] * (double)parameters[i] / 600;
    assert_true(fabs(sqrt(squares) - 0.02) < 0.002);
}

static void attentions_have_pytorchs_names_shapes_order_and_bounds(void **state) {
    (void)state;
    Error err;
    float parameters[500];
    Spec attention;
    check_ok(spec_parse(&attention, "attention 2 causal; linear 10", (Shape){1, 5, 6}, 10, &err));
    const ParameterTensor projections[] = {
        {.name = "attention1.in_proj_weight", .shape = {18, 6}, .count = 108},
        {.name = "attention1.in_proj_bias", .shape = {18}, .first = 108, .count = 18},
        {.name = "attention1.out_proj.weight", .shape = {6, 6}, .first = 126, .count = 36},
        {.name = "attention1.out_proj.bias", .shape = {6}, .first = 162, .count = 6},
        {.name = "fc1.weight", .shape = {10, 30}, .first = 168, .count = 300},
    };
    check_tensors(&attention, projections, sizeof projections / sizeof *projections);
    spec_initialise(parameters, &attention, 1);
    float largest = 0, second = 0;
    for (size_t i = 0; i < 108; i++)
        largest = fmaxf(largest, fabsf(parameters[i]));
    for (size_t i = 126; i < 162; i++)
        second = fmaxf(second, fabsf(parameters[i]));
    assert_true(largest > 0.47f && largest <= 0.5f);      // sqrt(6 / (18 + 6))
    assert_true(second > 0.37f && second <= 0.40824831f); // 1 / sqrt(6)
    for (size_t i = 108; i < 168; i = i == 125 ? 162 : i + 1)
        assert_true(parameters[i] == 0);
    assert_int_equal(spec_parse(&attention, "attention 4; linear 10", (Shape){1, 5, 6}, 10, &err), STATUS_USAGE);
    assert_string_equal(err.message, "layer 1 (\"attention 4\"): 4 heads do not divide the 6 values of a step; give a "
                                     "number that does");
    assert_int_equal(spec_parse(&attention, "attention 1; linear 10", (Shape){1, 1 << 15, 6}, 10, &err), STATUS_USAGE);
    assert_string_equal(
        err.message, "layer 1 (\"attention 1\"): 1 heads over 32768 steps of 6 values would keep more than 268435456 "
                     "values; use shorter sequences, fewer heads or fewer values");
}

static void a_norm_of_each_row_has_weights_for_one(void **state) {
    (void)state;
    Spec spec;
    Error err;
    assert_int_equal(spec_parse(&spec, "layernorm each; linear 10", (Shape){2, 5, 6}, 10, &err), STATUS_OK);
    assert_true(spec.tensors[0].rank == 1 && spec.tensors[0].shape[0] == 6 && spec.tensors[1].shape[0] == 6);
    assert_int_equal(spec.layers[0].groups, 10);
    assert_int_equal(spec_parse(&spec, "linear 7; layernorm each; linear 10", (Shape){2, 5, 6}, 10, &err),
                     STATUS_USAGE);
    assert_string_equal(err.message, "layer 2 (\"layernorm each\"): of 7 x 1 x 1 values each would become its shift; "
                                     "leave out \"each\"");
}

static void linear_layers_of_each_place_keep_the_other_axes(void **state) {
    (void)state;
    Error err;
    Spec each;
    check_ok(spec_parse(&each, "linear 9 each; linear 2 each; linear 10", (Shape){3, 4, 7}, 10, &err));
    assert_int_equal(each.layers[1].out.channels * 100 + each.layers[1].out.rows * 10 + each.layers[1].out.columns,
                     342);
    assert_string_equal(each.tensors[2].name, "fc2.weight");
    assert_memory_equal(each.tensors[2].shape, ((int64_t[]){2, 9}), 2 * sizeof(int64_t));
    assert_int_equal(each.tensors[3].count, 2);
    assert_int_equal(each.parameter_count, 9 * 8 + 2 * 10 + 10 * 25);
    assert_true(spec_training_flop(&each) == 2.0 * (2 * 12 * 9 * 7 + 3 * 12 * 2 * 9 + 3 * 24 * 10));
}

static void patterns_freeze_tensors_and_what_fits_none_is_refused(void **state) {
    (void)state;
    Error err;
    Spec spec = parse_zoo("lenet", grey);
    check_ok(spec_freeze(&spec, "conv1.*, fc2.bias", &err));
    assert_true(spec.tensors[0].frozen && spec.tensors[1].frozen && !spec.tensors[2].frozen && spec.tensors[7].frozen);
    assert_true(spec.freezes && spec.layers[0].frozen && !spec.layers[spec.layer_count - 1].frozen);
    assert_int_equal(spec_freeze(&spec, "conv1.weight,norm*", &err), STATUS_USAGE);
    assert_string_equal(err.message, "\"norm*\" fits none of the net's tensors; there are conv1.weight, conv1.bias, "
                                     "conv2.weight, conv2.bias, fc1.weight, fc1.bias, fc2.weight, fc2.bias");
    assert_int_equal(spec_freeze(&spec, "*", &err), STATUS_USAGE);
    assert_string_equal(err.message, "every tensor of the net that learns would be frozen; leave one");
    assert_int_equal(spec_freeze(&spec, " , ", &err), STATUS_USAGE); // no pattern
    assert_memory_equal(err.message, "\" , \" fits none of the net's tensors;", 37);
    char patterns[2100]; // of which only the last one fits nothing
    for (size_t at = 0; at < sizeof patterns - 4; at += 4)
        memcpy(patterns + at, "fc*,", 4);
    memcpy(patterns + sizeof patterns - 4, "no*", 4);
    assert_int_equal(spec_freeze(&spec, patterns, &err), STATUS_USAGE);
    assert_string_equal(err.message,
                        "the patterns have 2099 bytes, of which at most 2047 are read; write shorter ones, "
                        "with * for several tensors");
    check_ok(spec_parse(&spec, "batchnorm; linear 10", grey, 10, &err));
    assert_int_equal(spec_freeze(&spec, "*.weight,*.bias", &err), STATUS_USAGE); // running statistics do not learn
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_zoo_has_the_published_parameter_counts),
        cmocka_unit_test(a_model_that_is_no_zoo_name_is_its_own_text),
        cmocka_unit_test(the_last_layer_may_say_classes_before_its_options_and_names),
        cmocka_unit_test(tensors_have_pytorchs_names_shapes_and_order),
        cmocka_unit_test(shapes_follow_from_the_text),
        cmocka_unit_test(layers_take_what_they_name),
        cmocka_unit_test(initial_parameters_are_uniform_within_pytorchs_bound_and_depend_on_the_seed),
        cmocka_unit_test(layers_of_sequences_have_pytorchs_names_shapes_and_order),
        cmocka_unit_test(positions_have_a_small_value_for_each_of_the_sequence),
        cmocka_unit_test(attentions_have_pytorchs_names_shapes_order_and_bounds),
        cmocka_unit_test(a_norm_of_each_row_has_weights_for_one),
        cmocka_unit_test(linear_layers_of_each_place_keep_the_other_axes),
        cmocka_unit_test(patterns_freeze_tensors_and_what_fits_none_is_refused),
        cmocka_unit_test(training_flop_are_those_of_the_layers),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}

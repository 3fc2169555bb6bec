// Tensors by name, and modules in place of layers, stay with a client, or stay as they are: the parts of a net.
#include "fedavg/rules/local/personal_rules.h"

#include <string.h>

#include "fedavg/algorithm/recipe.h"
#include "fedavg/rules/local/fragments.h"
#include "fedavg/trainer/describe.h"
#include "tests/check.h"

enum { TENSORS = 6, PARAMETERS = 19 };

static const ParameterTensor net[TENSORS] = {
    {.name = "emb.weight", .first = 0, .count = 4},   {.name = "body.0.weight", .first = 4, .count = 6},
    {.name = "body.0.bias", .first = 10, .count = 2}, {.name = "head.weight", .first = 12, .count = 4},
    {.name = "head.bias", .first = 16, .count = 2},   {.name = "scale", .first = 18, .count = 1},
};
static const TensorList tensors = {.tensors = net, .count = TENSORS};
static const Training training = {.local_epochs = 1};

static Status plan(PersonalPlan *plan, const char *algorithm, Error *err) {
    static const Spec without_layers = {.parameter_count = PARAMETERS};
    Recipe recipe;
    TRY(recipe_parse(&recipe, algorithm, err));
    return personal_plan(plan, &recipe.personal, &without_layers, &tensors, &training, err);
}

static void expect_runs(const char *algorithm, uint32_t count, const PersonalRun *runs) {
    PersonalPlan planned;
    Error err;
    check_ok(plan(&planned, algorithm, &err));
    assert_int_equal(planned.run_count, count);
    for (uint32_t r = 0; r < count; r++) {
        assert_int_equal(planned.runs[r].first, runs[r].first);
        assert_int_equal(planned.runs[r].end, runs[r].end);
    }
}

static void expect_refused(const char *algorithm, const char *sentence) {
    PersonalPlan planned;
    Error err;
    assert_int_equal(plan(&planned, algorithm, &err), STATUS_USAGE);
    if (!strstr(err.message, sentence)) fail_msg("\"%s\" does not say \"%s\"", err.message, sentence);
}

static void names_and_patterns_say_which_tensors_stay(void **state) {
    (void)state;
    const PersonalRun ends[] = {{0, 4}, {12, 18}}, joined = {4, 18}, single = {18, 19};
    expect_runs("personal tensors names=emb.*,head.*", 2, ends);
    expect_runs("personal tensors names=\"head.*,emb.weight\"", 2, ends);
    expect_runs("personal tensors body.?.*,head.weight,head.bias", 1, &joined); // neighbours are one run
    expect_runs("personal tensors scale", 1, &single);
    expect_refused("personal tensors", "which ones? Write names or patterns");
    expect_refused("personal tensors head.*,tail.*", "\"tail.*\" fits none of the net's tensors; there are emb.weight");
    char algorithm[400] = "personal tensors ";
    memset(algorithm + strlen(algorithm), 'a', 300);
    expect_refused(algorithm, "names of at most 255 bytes");
}

static void modules_of_a_net_without_layers_are_its_layers(void **state) {
    (void)state;
    const PersonalRun scale = {18, 19}, head = {12, 19}, body = {0, 12};
    expect_runs("fedper", 1, &scale);
    expect_runs("fedper layers=2", 1, &head);
    expect_runs("lg-fedavg layers=2", 1, &body);
    expect_refused("fedper layers=5", "has only 4 modules");
}

static void a_part_that_leaves_nothing_to_the_other_is_refused(void **state) {
    (void)state;
    expect_refused("fedper layers=4", "personal head layers=4: no module is left to be sent; lower it");
    expect_refused("lg-fedavg layers=4", "personal body layers=4: no module is left to stay with the client; lower it");
    expect_refused("fedrep layers=4", "no module is left to be trained after the head; lower it");
}

static void patterns_freeze_tensors_and_leave_one_to_learn(void **state) {
    (void)state;
    ParameterTensor own[TENSORS];
    memcpy(own, net, sizeof own);
    TrainerNet of = {.tensors = own, .count = TENSORS};
    Error err;
    check_ok(trainer_net_freeze(&of, "body.*, emb.weight", &err));
    const bool frozen[TENSORS] = {true, true, true};
    for (int t = 0; t < TENSORS; t++)
        assert_int_equal(own[t].frozen, frozen[t]);
    assert_true(trainer_net_tensors(&of).freezes);
    assert_int_equal(trainer_net_freeze(&of, "tail", &err), STATUS_USAGE);
    assert_int_equal(trainer_net_freeze(&of, "*", &err), STATUS_USAGE);
    assert_non_null(strstr(err.message, "leave one"));
}

// By modules, each to the lightest so far: emb 4, body.0 8, head 6, scale 1.
static void fragments_are_modules_and_as_equal_as_these_allow(void **state) {
    (void)state;
    static Fragments cut;
    static PersonalRun runs[TENSORS_MOST];
    static const uint16_t of[][TENSORS] = {{0}, {0, 1, 1, 0, 0, 1}, {0, 1, 1, 2, 2, 0}};
    Error err;
    for (uint32_t count = 1; count <= 3; count++) {
        check_ok(fragments_plan(&cut, count, &tensors, &err));
        assert_memory_equal(cut.of, of[count - 1], sizeof of[0]);
    }
    assert_true(fragments_has(&cut, 0, 1) && fragments_has(&cut, 2, 2) && fragments_has(&cut, 2, 5));
    assert_false(fragments_has(&cut, 0, 2));
    assert_int_equal(fragments_runs(runs, &cut, &tensors, 4), 2);
    assert_true(runs[0].first == 0 && runs[0].end == 4 && runs[1].first == 18 && runs[1].end == 19);
    assert_int_equal(fragments_runs(runs, &cut, &tensors, 2), 1); // neighbours are one run
    float own[PARAMETERS] = {[3] = 8, [4] = 8}, global[PARAMETERS] = {[3] = 4, [4] = 4};
    fragments_mix(own, global, 0.25, &cut, &tensors, 1);
    assert_true(own[3] == 5 && own[4] == 8);
    assert_int_equal(fragments_plan(&cut, 5, &tensors, &err), STATUS_USAGE);
    assert_non_null(strstr(err.message, "fragments=5: the net has only 4 modules that are trained"));
    ParameterTensor frozen[TENSORS];
    memcpy(frozen, net, sizeof net);
    frozen[5].frozen = true;
    const TensorList three = {.tensors = frozen, .count = TENSORS, .freezes = true};
    assert_int_equal(fragments_plan(&cut, 4, &three, &err), STATUS_USAGE);
    check_ok(fragments_plan(&cut, 0, &three, &err)); // whole: each round has all
    assert_true(fragments_has(&cut, 0, 1) && fragments_has(&cut, 4, 2));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_patterns_say_which_tensors_stay),
        cmocka_unit_test(modules_of_a_net_without_layers_are_its_layers),
        cmocka_unit_test(a_part_that_leaves_nothing_to_the_other_is_refused),
        cmocka_unit_test(fragments_are_modules_and_as_equal_as_these_allow),
        cmocka_unit_test(patterns_freeze_tensors_and_leave_one_to_learn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

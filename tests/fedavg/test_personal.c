// Tensors by name, and modules in place of layers, stay with a client, or stay as they are: the parts of a net.
#include "fedavg/rules/local/personal_rules.h"

#include <string.h>

#include "fedavg/algorithm/recipe.h"
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_patterns_say_which_tensors_stay),
        cmocka_unit_test(modules_of_a_net_without_layers_are_its_layers),
        cmocka_unit_test(a_part_that_leaves_nothing_to_the_other_is_refused),
        cmocka_unit_test(patterns_freeze_tensors_and_leave_one_to_learn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

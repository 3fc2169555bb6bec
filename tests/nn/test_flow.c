// Where values and gradients of a graph lie: computed by hand for a chain, a residual and what must not be shared.
#include "nn/flow.h"

#include "tests/check.h"

enum { SIZE = 10 };

static FlowNode node(int source, int other) {
    return (FlowNode){.source = source, .other = other, .in = SIZE, .out = SIZE};
}

static FlowNode weights(int source) {
    FlowNode made = node(source, FLOW_INPUT);
    made.has_parameters = true;
    return made;
}

static FlowNode linear(int source) {
    FlowNode made = weights(source);
    made.lasts = true;
    return made;
}

static FlowNode relu(int source) {
    FlowNode made = node(source, FLOW_INPUT);
    made.in_place = made.looks_back = true;
    return made;
}

static FlowNode drop(int source) {
    FlowNode made = node(source, FLOW_INPUT);
    made.in_place = true;
    return made;
}

static FlowNode pool(int source) {
    FlowNode made = node(source, FLOW_INPUT);
    made.overwrites = true;
    return made;
}

static FlowNode sum(int source, int other) {
    FlowNode made = node(source, other);
    made.passes = true;
    return made;
}

#define PLAN(flow, ...)                                                                                                \
    const FlowNode flow##_nodes[] = {__VA_ARGS__};                                                                     \
    Flow flow;                                                                                                         \
    flow_plan(&flow, flow##_nodes, sizeof flow##_nodes / sizeof *flow##_nodes)

static void in_a_chain_two_slots_take_turns(void **state) {
    (void)state;
    PLAN(flow, node(FLOW_INPUT, FLOW_INPUT), weights(0), relu(1), weights(2), drop(3), weights(4));
    const int owners[] = {0, 1, 1, 3, 3, 5}, gradients[] = {FLOW_NOWHERE, 0, 0, 1, 1, 0};
    assert_int_equal(flow.slot_count, 2);
    for (int n = 0; n < 6; n++) {
        const FlowPlace *place = &flow.places[n];
        assert_int_equal(place->owner, owners[n]);
        assert_int_equal(place->gradient, gradients[n]);
        assert_int_equal(place->works, n > 0);
        assert_int_equal(place->in_gradient, n > 1 ? gradients[n - 1] : FLOW_NOWHERE);
        assert_int_equal(place->sum, FLOW_NOWHERE);
    }
}

static void a_gradient_that_lasts_keeps_its_slot(void **state) {
    (void)state;
    PLAN(flow, weights(FLOW_INPUT), linear(0), relu(1), weights(2), linear(3), weights(4));
    const int gradients[] = {0, 2, 2, 0, 1, 0}; // the linear layers are 1, whose relu is 2, and 4
    for (int n = 0; n < 6; n++)
        assert_int_equal(flow.places[n].gradient, gradients[n]);
}

static void a_gradient_that_two_read_is_written_once_and_added_to_once(void **state) {
    (void)state;
    // 0 -> 1 -> 2 -> sum with 0 -> 4
    PLAN(flow, weights(FLOW_INPUT), weights(0), weights(1), sum(2, 0), weights(3));
    const FlowPlace *places = flow.places;
    assert_int_equal(places[3].other_gradient, places[0].gradient);
    assert_false(places[3].other_adds);
    assert_int_equal(places[3].in_gradient, places[3].gradient); // what goes to the first lies where it is
    assert_int_equal(places[2].gradient, places[3].gradient);
    assert_int_not_equal(places[0].gradient, places[2].gradient);
    assert_int_equal(places[1].sum, places[0].gradient);
    assert_int_not_equal(places[1].in_gradient, places[0].gradient);
    assert_int_not_equal(places[1].in_gradient, places[1].gradient);
}

static void what_is_added_to_itself_gets_its_gradient_twice(void **state) {
    (void)state;
    PLAN(flow, weights(FLOW_INPUT), sum(0, 0));
    const FlowPlace *places = flow.places;
    assert_int_equal(places[1].other_gradient, places[0].gradient);
    assert_false(places[1].other_adds);
    assert_int_equal(places[1].sum, places[0].gradient);
    assert_int_equal(places[1].in_gradient, places[1].gradient);
    assert_int_not_equal(places[0].gradient, places[1].gradient);
}

static void what_can_add_needs_no_gradient_of_its_own(void **state) {
    (void)state;
    FlowNode first = weights(0), last = weights(1);
    first.adds = last.adds = true;
    PLAN(flow, weights(FLOW_INPUT), first, last, sum(2, 0), weights(3));
    assert_true(flow.places[1].adds); // behind the sum, which has written there
    assert_int_equal(flow.places[1].in_gradient, flow.places[0].gradient);
    assert_int_equal(flow.places[1].sum, FLOW_NOWHERE);
    assert_false(flow.places[2].adds); // nobody else reads its source
    assert_int_equal(flow.places[2].in_gradient, flow.places[1].gradient);
}

static void a_value_that_others_read_is_not_written_over(void **state) {
    (void)state;
    PLAN(flow, weights(FLOW_INPUT), relu(0), drop(1), weights(2), sum(3, 0), weights(4));
    assert_int_equal(flow.places[1].owner, 1); // the sum takes its input, too
    assert_int_equal(flow.places[2].owner, 1);
    assert_int_not_equal(flow.places[1].in_gradient, flow.places[1].gradient);
    assert_int_equal(flow.places[1].sum, flow.places[0].gradient);
}

static void a_pooling_overwrites_what_nobody_looks_at_any_more(void **state) {
    (void)state;
    PLAN(free_to, weights(FLOW_INPUT), drop(0), pool(1), weights(2));
    assert_int_equal(free_to.places[2].in_gradient, flow_over_value(1));
    assert_int_equal(free_to.places[0].gradient, flow_over_value(1));
    assert_int_equal(flow_over_value(free_to.places[2].in_gradient), 1);
    PLAN(relu_looks, weights(FLOW_INPUT), relu(0), drop(1), pool(2), weights(3));
    assert_true(relu_looks.places[3].in_gradient >= 0);
}

static void a_pooling_does_not_overwrite_what_others_read(void **state) {
    (void)state;
    PLAN(flow, weights(FLOW_INPUT), pool(0), weights(0), sum(1, 2));
    assert_true(flow.places[1].in_gradient >= 0);
    PLAN(relu_apart, weights(FLOW_INPUT), relu(0), pool(1), sum(2, 0), weights(3));
    assert_true(relu_apart.places[2].in_gradient >= 0); // the relu has a value of its own, and looks there
}

static void what_comes_before_all_parameters_has_no_gradient(void **state) {
    (void)state;
    PLAN(flow, node(FLOW_INPUT, FLOW_INPUT), weights(0), sum(1, 0), weights(2));
    assert_false(flow.places[0].works);
    assert_int_equal(flow.places[0].gradient, FLOW_NOWHERE);
    assert_int_equal(flow.places[2].other_gradient, FLOW_NOWHERE);
    assert_int_equal(flow.places[1].in_gradient, FLOW_NOWHERE);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_a_chain_two_slots_take_turns),
        cmocka_unit_test(a_gradient_that_lasts_keeps_its_slot),
        cmocka_unit_test(a_gradient_that_two_read_is_written_once_and_added_to_once),
        cmocka_unit_test(what_is_added_to_itself_gets_its_gradient_twice),
        cmocka_unit_test(what_can_add_needs_no_gradient_of_its_own),
        cmocka_unit_test(a_value_that_others_read_is_not_written_over),
        cmocka_unit_test(a_pooling_overwrites_what_nobody_looks_at_any_more),
        cmocka_unit_test(a_pooling_does_not_overwrite_what_others_read),
        cmocka_unit_test(what_comes_before_all_parameters_has_no_gradient),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}

// Messages between ranks: order, size, source, requests.
#include "group_exchanges.h"

static void a_message_of_any_size_goes_round_a_ring_of_ranks(void **state) {
    (void)state;
    assert_int_equal(run_ranks(2, pass_round, NULL), 0);
    assert_int_equal(run_ranks(5, pass_round, NULL), 0);
}

static void all_ranks_may_send_long_messages_to_all_at_once(void **state) {
    (void)state;
    assert_int_equal(run_ranks(4, exchange_with_all, NULL), 0);
}

static void receiving_from_any_names_the_sender_and_keeps_his_order(void **state) {
    (void)state;
    assert_int_equal(run_ranks(4, gather_from_any, NULL), 0);
}

static void open_requests_are_served_in_the_order_they_were_made(void **state) {
    (void)state;
    assert_int_equal(run_ranks(3, match_in_order, NULL), 0);
}

static void testing_moves_a_message_without_waiting(void **state) {
    (void)state;
    assert_int_equal(run_ranks(2, test_until_done, NULL), 0);
}

static void wrong_arguments_are_refused_and_harm_nothing(void **state) {
    (void)state;
    assert_int_equal(run_ranks(2, refuse_arguments, NULL), 0);
}

int main(int argc, char **argv) {
    deadline_set(100);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_of_any_size_goes_round_a_ring_of_ranks),
        cmocka_unit_test(all_ranks_may_send_long_messages_to_all_at_once),
        cmocka_unit_test(receiving_from_any_names_the_sender_and_keeps_his_order),
        cmocka_unit_test(open_requests_are_served_in_the_order_they_were_made),
        cmocka_unit_test(testing_moves_a_message_without_waiting),
        cmocka_unit_test(wrong_arguments_are_refused_and_harm_nothing),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}

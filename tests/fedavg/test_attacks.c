// Attacks: who attacks, on which labels attackers train, what they make of an update.
#include "fedavg/rules/attack/attack_rules.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "fedavg/rules/attack/crafted.h"
#include "tests/check.h"

enum { WEIGHTS = 20000, CLIENTS = 100 };

static const AttackTurn TURN = {.seed = 5, .round = 4, .client = 2, .key = 4, .share = 0.25};

static Chosen parsed(const char *text) {
    Chosen attack;
    Error err;
    check_ok(attack_parse(&attack, text, &err));
    return attack;
}

static uint32_t choose(uint8_t attackers[CLIENTS], const char *text, uint64_t seed) {
    Error err;
    uint32_t count = 0;
    memset(attackers, 0, CLIENTS);
    check_ok(attack_choose(attackers, text, CLIENTS, seed, &err));
    for (uint32_t client = 0; client < CLIENTS; client++)
        count += attackers[client];
    return count;
}

static void fill(float *weights, float *global) {
    for (int i = 0; i < WEIGHTS; i++) {
        global[i] = 0.5f * (float)(i % 7) - 1;
        weights[i] = global[i] + 0.125f * (float)(i % 5 - 2);
    }
}

// The update that an attacker hands in instead of 0.125 (i % 5 - 2).
static void attacked(double *update, const char *text, const AttackTurn *turn) {
    static float weights[WEIGHTS], global[WEIGHTS];
    const Chosen attack = parsed(text);
    fill(weights, global);
    attack_update(weights, global, WEIGHTS, &attack, turn);
    for (int i = 0; i < WEIGHTS; i++)
        update[i] = (double)weights[i] - (double)global[i];
}

static void attackers_are_a_drawn_part_of_the_clients_or_those_of_a_list(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint32_t count;
    } cases[] = {{"0.2", 20}, {"0.0", 0},   {"1.0", 100}, {".29", 29}, {"0.999", 99},
                 {"3,7", 2},  {"3-7,9", 6}, {"99", 1},    {"1", 1},    {"4,4", 1}};
    uint8_t attackers[CLIENTS], others[CLIENTS];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(choose(attackers, cases[i].text, 1), cases[i].count);
    choose(attackers, "3,7", 1);
    assert_true(attackers[3] && attackers[7]);
    choose(attackers, "0.2", 1);
    choose(others, "0.2", 2);
    assert_memory_not_equal(attackers, others, CLIENTS); // another seed draws others
    choose(others, "0.4", 1);
    for (uint32_t client = 0; client < CLIENTS; client++)
        assert_true(attackers[client] <= others[client]); // more of them are the same and some more
}

static void a_text_that_is_no_attack_and_nobody_is_refused(void **state) {
    (void)state;
    static const char *const attacks[][2] = {
        {"sign_flip", "sign_flip: no such attack, did you mean sign-flip?; there are label-flip, sign-flip, scaled, "
                      "gaussian, zero, free-rider, alie, ipm, min-max, min-sum, mimic, backdoor"},
        {"none", "none: no such attack; there are label-flip, sign-flip, scaled, gaussian, zero, free-rider, alie, "
                 "ipm, min-max, "
                 "min-sum, mimic, backdoor"},
        {"sign-flip scal=2",
         "part 1 (\"sign-flip scal=2\"): sign-flip has no number \"scal\", did you mean scale?; write "
         "it as \"sign-flip [scale=1]\""},
        {"alie -100.5", "part 1 (\"alie -100.5\"): z=-100.5: needs a number from -100 to 100"},
        {"alie 100.5", "part 1 (\"alie 100.5\"): z=100.5: needs a number from -100 to 100"},
        {"scaled -1", "part 1 (\"scaled -1\"): factor=-1: needs a number from 0 to 1e+06"},
    };
    static const char *const lists[] = {"",    "x",   "-1",   "100",   "3,",   ",3",   "3;7",
                                        "3 7", "1.5", "0.2x", "1e-1.", "-0.1", "0.1.2"};
    Chosen attack;
    Error err;
    for (size_t i = 0; i < sizeof attacks / sizeof *attacks; i++) {
        assert_int_equal(attack_parse(&attack, attacks[i][0], &err), STATUS_USAGE);
        assert_string_equal(err.message, attacks[i][1]);
    }
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        char sentence[256];
        snprintf(sentence, sizeof sentence,
                 "%s: needs a part of the clients, with a point: 0.2, or clients from 0 to 99: 3,7", lists[i]);
        assert_int_equal(attack_choose(NULL, lists[i], CLIENTS, 1, &err), STATUS_USAGE);
        assert_string_equal(err.message, sentence);
    }
    assert_int_equal(attack_choose(NULL, "0.009", CLIENTS, 1, &err), STATUS_USAGE);
    assert_string_equal(err.message, "0.009: of 100 clients that is none; raise it, or write 0.0 for none");
    check_ok(attack_choose(NULL, "0.0", CLIENTS, 1, &err));
}

static void labels_are_flipped_all_or_one_of_them(void **state) {
    (void)state;
    enum { CLASSES = 5 };
    static const struct {
        const char *text;
        uint16_t label_of[CLASSES];
    } cases[] = {{"label-flip", {4, 3, 2, 1, 0}},
                 {"label-flip from=1", {0, 3, 2, 3, 4}},
                 {"label-flip from=1 to=0", {0, 0, 2, 3, 4}},
                 {"label-flip to=2", {2, 2, 2, 2, 2}},
                 {"label-flip to=2 except=4", {2, 2, 2, 2, 4}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint16_t label_of[CLASSES];
        const Chosen attack = parsed(cases[i].text);
        assert_true(attack_is_on_labels(&attack));
        attack_labels(label_of, CLASSES, &attack);
        assert_memory_equal(label_of, cases[i].label_of, sizeof label_of);
    }
    const Chosen other = parsed("scaled");
    assert_false(attack_is_on_labels(&other));
}

static void an_update_is_turned_round_stretched_or_taken_away(void **state) {
    (void)state;
    static const struct {
        const char *text;
        double factor;
    } cases[] = {{"label-flip", 1}, {"sign-flip", -1}, {"sign-flip 3", -3}, {"scaled factor=6", 6},
                 {"scaled 1", 1},   {"scaled", 4}, // by the share of 1/4: the mean has all of the update
                 {"free-rider", 0}};
    static double update[WEIGHTS];
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        attacked(update, cases[c].text, &TURN);
        for (int i = 0; i < WEIGHTS; i++)
            if (update[i] != cases[c].factor * 0.125 * (i % 5 - 2))
                fail_msg("%s: weight %d moves by %g", cases[c].text, i, update[i]);
    }
    attacked(update, "zero", &TURN);
    for (int i = 0; i < WEIGHTS; i++)
        assert_true(update[i] == -(0.5 * (i % 7) - 1)); // the weight is 0
}

static void drawn_updates_have_their_mean_and_deviation_and_depend_on_client_and_round(void **state) {
    (void)state;
    static const struct {
        const char *text;
        double mean, deviation;
    } cases[] = {{"gaussian", 0.1, 0.1},
                 {"gaussian mean=-2 deviation=3", -2, 3},
                 {"free-rider noise=0.8", 0, 0.2}, // in round 4
                 {"free-rider noise=0.8 decay=0.5", 0, 0.4}};
    static double update[WEIGHTS], other[WEIGHTS];
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        double sum = 0, squares = 0;
        attacked(update, cases[c].text, &TURN);
        for (int i = 0; i < WEIGHTS; i++)
            sum += update[i], squares += (update[i] - cases[c].mean) * (update[i] - cases[c].mean);
        const double deviation = cases[c].deviation, mean_error = sum / WEIGHTS - cases[c].mean;
        if (!(fabs(mean_error) < 5 * deviation / sqrt(WEIGHTS)))
            fail_msg("%s: the mean is %g off", cases[c].text, mean_error);
        if (!(fabs(sqrt(squares / WEIGHTS) / deviation - 1) < 0.03))
            fail_msg("%s: the deviation is %g", cases[c].text, sqrt(squares / WEIGHTS));
        attacked(other, cases[c].text, &TURN);
        assert_memory_equal(update, other, sizeof update);
        for (int changed = 0; changed < 3; changed++) {
            AttackTurn turn = TURN;
            turn.seed += changed == 0, turn.key += changed == 1, turn.client += changed == 2;
            attacked(other, cases[c].text, &turn);
            assert_true(fabs(update[0] - other[0]) > 1e-6 * deviation);
        }
    }
}

static void a_little_is_as_much_as_some_honest_updates_are_off(void **state) {
    (void)state;
    static const struct {
        uint32_t clients, attackers;
        double z;
    } cases[] = {{50, 24, 1.426077}, {25, 5, 0.253347}, {100, 20, 0.285841}, {10, 2, 0},
                 {10, 9, 0},         {10, 6, 0.674490}}; // no other client is needed: further than all but one
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_true(fabs(crafted_alie(cases[i].clients, cases[i].attackers) - cases[i].z) < 5e-7);
}

enum { FAR_UPDATES = 140 };

// Finds the products of updates in the plane, and those with their deviations (1 and 0) after them.
static void find_plane_products(double *products, const double (*updates)[2], const double deviations[2],
                                uint32_t count) {
    for (uint32_t i = 0; i <= count; i++)
        for (uint32_t j = 0; j <= count; j++) {
            const double *a = i < count ? updates[i] : deviations, *b = j < count ? updates[j] : deviations;
            products[i * (count + 1) + j] = a[0] * b[0] + a[1] * b[1];
        }
}

static void attackers_go_exactly_as_far_as_updates_are_apart(void **state) {
    (void)state;
    static double updates[FAR_UPDATES][2], products[(FAR_UPDATES + 1) * (FAR_UPDATES + 1)], workspace[2 * FAR_UPDATES];
    // Two of 140 are 1 off to either side: the deviation is sqrt(2 / 140), and m - g s comes to 2 from one of them.
    updates[0][0] = 1, updates[1][0] = -1;
    const double deviation[2] = {sqrt(2.0 / FAR_UPDATES), 0};
    find_plane_products(products, updates, deviation, FAR_UPDATES);
    Chosen attack = parsed("min-max");
    const double reach = crafted_reach(products, FAR_UPDATES, &attack, workspace);
    assert_true(fabs(reach - sqrt(FAR_UPDATES / 2.0)) < 1e-12); // 8.37
    // The largest sum of squares is that of either of the two: 4 + 138; of the mean 2, and of m - g s 2 + 140 g^2 s^2.
    attack = parsed("min-sum");
    assert_true(fabs(crafted_reach(products, FAR_UPDATES, &attack, workspace) - sqrt(140 / 2.0)) < 1e-12);
    // Three updates that are not symmetric: (2, 0), (0, 1), (1, 2). The number that they compare is at its limit.
    const double three[3][2] = {{2, 0}, {0, 1}, {1, 2}}, mean[2] = {1, 1}, spread[2] = {sqrt(2 / 3.0), sqrt(2 / 3.0)};
    find_plane_products(products, three, spread, 3);
    for (int sums = 0; sums < 2; sums++) {
        attack = parsed(sums ? "min-sum" : "min-max");
        const double g = crafted_reach(products, 3, &attack, workspace), limit = sums ? 10 : 5;
        double most = 0;
        for (int i = 0; i < 3; i++) {
            const double x = mean[0] - g * spread[0] - three[i][0], y = mean[1] - g * spread[1] - three[i][1];
            most = sums ? most + x * x + y * y : fmax(most, x * x + y * y);
        }
        assert_true(g > 0 && fabs(most - limit) < 1e-12);
    }
    find_plane_products(products, (const double[3][2]){{2, 1}, {2, 1}, {2, 1}}, (const double[2]){0, 0}, 3);
    assert_true(crafted_reach(products, 3, &attack, workspace) == 0); // all are equal
}

static void the_update_that_is_copied_is_the_one_off_the_others(void **state) {
    (void)state;
    enum { UPDATES = 5, PLACES = 3 };
    static const double updates[UPDATES][PLACES] = {{1, 0, 0}, {0, 1, 0}, {1, 1, 0.5}, {-9, 2, 4}, {0, 0, 1}};
    double products[UPDATES * UPDATES], workspace[3 * UPDATES];
    for (int far = 0; far < UPDATES; far++) { // it is found in any place
        for (int i = 0; i < UPDATES; i++)
            for (int j = 0; j < UPDATES; j++) {
                const double *a = updates[(i + UPDATES - far + 3) % UPDATES],
                             *b = updates[(j + UPDATES - far + 3) % UPDATES];
                products[i * UPDATES + j] = a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
            }
        for (int i = 0; i < 3 * UPDATES; i++)
            workspace[i] = NAN; // what an earlier use left there
        assert_int_equal(crafted_furthest(products, UPDATES, workspace), far);
    }
    memset(products, 0, sizeof products);
    assert_int_equal(crafted_furthest(products, UPDATES, workspace), 0); // all are equal
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attackers_are_a_drawn_part_of_the_clients_or_those_of_a_list),
        cmocka_unit_test(a_text_that_is_no_attack_and_nobody_is_refused),
        cmocka_unit_test(labels_are_flipped_all_or_one_of_them),
        cmocka_unit_test(an_update_is_turned_round_stretched_or_taken_away),
        cmocka_unit_test(drawn_updates_have_their_mean_and_deviation_and_depend_on_client_and_round),
        cmocka_unit_test(attackers_go_exactly_as_far_as_updates_are_apart),
        cmocka_unit_test(the_update_that_is_copied_is_the_one_off_the_others),
        cmocka_unit_test(a_little_is_as_much_as_some_honest_updates_are_off),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}

// The rules: what each does with one weight, how much clients count, how long their trainings are.
#include "fedavg/algorithm/recipe.h"
#include "fedavg/rules/training.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "fedavg/rules/combine/combine_rules.h"
#include "fedavg/rules/local/local_rules.h"
#include "fedavg/rules/server/server_rules.h"
#include "fedavg/rules/sum/aggregate.h"
#include "fedavg/rules/world/schedule.h"
#include "fedavg/rules/world/walk.h"
#include "tests/check.h"

static Recipe parsed(const char *text) {
    Recipe recipe;
    Error err;
    check_ok(recipe_parse(&recipe, text, &err));
    return recipe;
}

static void steps_go_through_all_batches_in_turn_whatever_the_rounds(void **state) {
    (void)state;
    for (uint32_t batches = 1; batches <= 5; batches++)
        for (int steps = 1; steps <= 12; steps++) {
            const Chosen schedule = {.row = ENGINE_ROUNDS, .number = {steps, steps % 4}};
            uint64_t step = 0;
            for (uint32_t round = 1; round <= 9; round++) {
                const Walk walk = walk_of(&schedule, round, 1);
                const uint64_t before = step;
                Stretch stretch;
                for (uint32_t index = 0; walk_stretch(&stretch, &walk, index, batches); index++)
                    for (uint32_t i = 0; i < stretch.count; i++, step++) {
                        assert_int_equal(stretch.round, step / batches + 1);
                        assert_int_equal(stretch.first + i, step % batches);
                        assert_int_equal(stretch.step, stretch.first);
                    }
                assert_int_equal(step - before, (int)round <= steps % 4 ? 1 : steps);
                assert_int_equal(walk_steps(&walk, batches), step - before);
            }
        }
    const Walk personal = walk_of(&(Chosen){.number = {3, 0}}, 1u << 30 | 2, 4); // belongs to no round
    assert_int_equal(walk_samples(&personal, 25, 10), 100);
    const Walk walk = walk_of(&(Chosen){.number = {2, 0}}, 2, 4); // of 10, 10 and 5 samples: the third and the first
    assert_int_equal(walk_samples(&walk, 25, 10), 15);
}

// Turns of a P-th of the steps, which need not divide: all P of them have H, and a fragment's weights are stepped once.
static void fragments_share_the_steps_of_a_model_and_each_is_stepped_once(void **state) {
    (void)state;
    for (uint32_t fragments = 1; fragments <= 7; fragments++)
        for (uint32_t steps = fragments; steps <= 12; steps++) {
            const Chosen schedule = {.row = ENGINE_ROUNDS, .number = {steps, 0, fragments, 0, NAN}};
            uint64_t step = 0;
            for (uint32_t round = 1; round <= 3 * fragments; round++) {
                const Walk walk = walk_of(&schedule, round, 1);
                assert_true(walk.start == step && (walk.steps == steps / fragments ||
                                                   (steps % fragments && walk.steps == steps / fragments + 1)));
                step += walk.steps;
                if (round % fragments == 0) assert_int_equal(step, round / fragments * steps);
                assert_int_equal(walk_server_round(&schedule, round), 1 + (round - 1) / fragments);
                assert_true(walk_overlap(&schedule, round) == 0 && walk_mix(&schedule) == 0);
            }
        }
    const Recipe late = parsed("streaming-diloco H=8 fragments=2 delay=3"), given = parsed("streaming-diloco mix=0.2");
    assert_true(walk_overlap(&late.schedule, 2) == 0.75 && walk_mix(&late.schedule) == 0.5);
    assert_true(walk_mix(&given.schedule) == 0.2 && walk_delay(&given.schedule) == 2);
    const Walk whole = walk_of(&late.schedule, 2, 1), rest = walk_part(&whole, 3, 4);
    assert_true(rest.start == 7 && rest.steps == 1);
}

// A buffered visit counts as round visit 2^20 + version: its passes have more than 32 bits, and none is another's.
static void no_pass_of_a_late_visit_is_that_of_an_early_one(void **state) {
    (void)state;
    const Chosen schedule = {.row = ENGINE_BUFFERED, .number = {[BUFFERED_STEPS] = 64}};
    const uint32_t early = schedule_key(0, 0), late = schedule_key(0, 128);
    Stretch first, second;
    for (uint32_t index = 0; index < 16; index++) {
        const Walk one = walk_of(&schedule, early, 1), two = walk_of(&schedule, late, 1);
        assert_true(walk_stretch(&first, &one, index, 2) && walk_stretch(&second, &two, index, 2));
        assert_int_equal(first.epoch, 0);
        assert_true(first.round == index + 1);
        assert_true((((uint64_t)second.epoch << 32) | second.round) == UINT64_C(128) * (1 << 20) * 32 + index + 1);
    }
}

static void springs_conserve_the_sum_of_centre_and_replicas_exactly(void **state) {
    (void)state;
    enum { COUNT = 1000, REPLICAS = 3 };
    static float replicas[REPLICAS][COUNT], centre[COUNT];
    static int64_t changes[COUNT];
    const Chosen chosen = parsed("easgd 0.3").local;
    const LocalTurn turn = {.number = {chosen.number[0]}};
    ServerState rest[COUNT] = {0};
    for (int i = 0; i < COUNT; i++) {
        centre[i] = local_on_grid((float)sin(i) / (float)(1 + i % 7));
        for (int k = 0; k < REPLICAS; k++)
            replicas[k][i] = local_on_grid((float)cos(i * (k + 1)) * (i % 5 == 0 ? 1e-9f : 3.0f));
    }
    for (int exchange = 0; exchange < 4; exchange++) {
        int64_t before[COUNT], moved = 0;
        memset(changes, 0, sizeof changes);
        for (int i = 0; i < COUNT; i++) {
            before[i] = llrint((double)centre[i] * 0x1p40) + rest[i].whole;
            for (int k = 0; k < REPLICAS; k++)
                before[i] += llrint((double)replicas[k][i] * 0x1p40);
        }
        for (int k = 0; k < REPLICAS; k++) {
            float kept[COUNT];
            memcpy(kept, replicas[k], sizeof kept);
            const LocalVectors at = {.global = centre, .state = kept};
            assert_true(local_gifts_fit(&at, &turn, 4, COUNT));
            assert_false(local_gifts_fit(&at, &turn, 1e-9, COUNT));
            local_exchange(replicas[k], &at, &turn, COUNT);
            local_add_gifts(changes, &at, &turn, COUNT);
        }
        const ServerTurn step = {.population = REPLICAS};
        for (int i = 0; i < COUNT; i++) {
            centre[i] = (float)server_elastic((double)centre[i], (Update){0, changes[i]}, &rest[i], NULL, &step);
            int64_t after = llrint((double)centre[i] * 0x1p40) + rest[i].whole;
            for (int k = 0; k < REPLICAS; k++)
                after += llrint((double)replicas[k][i] * 0x1p40);
            assert_int_equal(after, before[i]);
            moved += changes[i] != 0;
        }
        assert_true(moved > COUNT * 9 / 10);
    }
}

// Server rules --------------------------------------------------------------------------------------------------------

enum { ROUNDS = 4, WEIGHTS = 5000 }; // more than one block of the loops

// A weight after each round of mean updates of `mean` (ROUNDS).
static void steps_of(float weight[ROUNDS], const char *text, const double mean[ROUNDS]) {
    static float weights[WEIGHTS];
    static ServerState states[SERVER_STATES][WEIGHTS];
    static int64_t sum[WEIGHTS];
    const Recipe recipe = parsed(text);
    const Chosen *server = &recipe.server;
    ServerMemory memory = {.states = {states[0], states[1]}};
    for (int s = 0; s < SERVER_STATES; s++)
        server_begin(states[s], s, server, WEIGHTS);
    for (int i = 0; i < WEIGHTS; i++)
        weights[i] = 1;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < WEIGHTS; i++)
            sum[i] = llrint(mean[round] * 0x1p40);
        const ServerSums sums = {.updates = (const int64_t *[]){sum}, .count = 1, .arrived = 1, .factor = 1};
        const ServerTurn turn = server_turn(server, round + 1, 4, 10);
        server_apply(weights, &memory, &sums, &turn, server->row, WEIGHTS);
        weight[round] = weights[WEIGHTS - 1];
        assert_true(weights[0] == weight[round]);
    }
}

static const double MEANS[ROUNDS] = {0.5, -0.25, 0.125, 0.75};

static void check_steps(const char *text, const double expected[ROUNDS]) {
    float weight[ROUNDS];
    steps_of(weight, text, MEANS);
    for (int round = 0; round < ROUNDS; round++)
        if (!(fabs((double)weight[round] - expected[round]) <= 5e-7))
            fail_msg("%s, round %d: %.9g, not %.9g", text, round + 1, (double)weight[round], expected[round]);
}

// The figures of these cases were computed by hand from the equations at the head of each rule's file.
static void momentum_is_that_of_the_papers(void **state) {
    (void)state;
    double v = 0, w = 1, heavy[ROUNDS], nesterov[ROUNDS], wn = 1;
    for (int r = 0; r < ROUNDS; r++) {
        v = 0.9 * v + MEANS[r];
        heavy[r] = w += 0.5 * v;
        nesterov[r] = wn += 0.5 * (MEANS[r] + 0.9 * v);
    }
    check_steps("fedavgm lr=0.5", heavy);
    check_steps("fedavgm lr=0.5 nesterov=yes", nesterov);
    check_steps("server nesterov lr=0.5", nesterov);
    check_steps("server nesterov lr=0.5 every=1", nesterov);
}

// Liu et al. 2024, Algorithm 3 with c = 0: the rounds' own parts join at once, their momentum in every second round.
static void delayed_momentum_joins_once_in_n_rounds(void **state) {
    (void)state;
    double m = 0, buffer = 0, w = 1, expected[ROUNDS];
    for (int r = 0; r < ROUNDS; r++) {
        buffer += MEANS[r];
        if (r % 2 == 1) m = 0.9 * m + buffer / 2, buffer = 0;
        expected[r] = w += 0.5 * (MEANS[r] / 2 + (r % 2 == 1 ? 0.9 * m : 0));
    }
    check_steps("server nesterov lr=0.5 every=2", expected);
}

static void adaptive_rules_are_those_of_reddi_and_others(void **state) {
    (void)state;
    static const struct {
        const char *text;
        double tau, start;
    } starts[] = {
        {"fedadagrad", 1e-3, 1e-6}, {"fedadagrad tau=0.5", 0.5, 0.25}, {"fedadagrad tau=0.5 start=0", 0.5, 0}};
    for (int s = 0; s < 3; s++) {
        double V = starts[s].start, w = 1, adagrad[ROUNDS];
        for (int r = 0; r < ROUNDS; r++)
            V += MEANS[r] * MEANS[r], adagrad[r] = w += 0.1 * MEANS[r] / (sqrt(V) + starts[s].tau);
        check_steps(starts[s].text, adagrad);
    }
    static const char *const corrections[] = {"no", "yes", "folded", "flower", "no start=0", "flower start=0.01"};
    for (int c = 0; c < 6; c++) {
        double m = 0, v = c == 0 ? 1e-6 : c == 5 ? 0.01 : 0, w = 1, adam[ROUNDS];
        const bool corrects = c > 0 && c != 4;
        for (int r = 0; r < ROUNDS; r++) {
            const int exponent = c == 3 || c == 5 ? r + 2 : r + 1; // Flower's rounds begin with 1, to which it adds 1
            const double D = MEANS[r], c1 = corrects ? 1 - pow(0.9, exponent) : 1;
            const double c2 = corrects ? 1 - pow(0.99, exponent) : 1;
            // folded: lr sqrt(c2) / c1 m / (sqrt(V) + tau)
            const double tau = corrects && c >= 2 ? 1e-3 / sqrt(c2) : 1e-3;
            m = 0.9 * m + 0.1 * D;
            v = 0.99 * v + 0.01 * D * D;
            adam[r] = w += 0.1 * (m / c1) / (sqrt(v / c2) + tau);
        }
        char text[64];
        snprintf(text, sizeof text, "fedadam bias-correction=%s", corrections[c]);
        check_steps(text, adam);
    }
}

static void block_momentum_is_classical_or_looks_ahead(void **state) {
    (void)state;
    double delta = 0, W = 1, classical[ROUNDS], ahead[ROUNDS];
    for (int r = 0; r < ROUNDS; r++) {
        delta = 0.75 * delta + MEANS[r]; // 1 - 1/4 clients
        W += delta;
        classical[r] = W;
        ahead[r] = W + 0.75 * delta; // what clients start from and what is evaluated
    }
    check_steps("bmuf", classical);
    check_steps("bmuf kind=nesterov", ahead);
    check_steps("bmuf kind=nesterov momentum=0", (double[]){1.5, 1.25, 1.375, 2.125});
}

static void the_majority_of_signs_decides_and_a_tie_moves_nothing(void **state) {
    (void)state;
    float weight[ROUNDS];
    steps_of(weight, "server vote lr=0.5; send sign; combine mean uniform", (double[]){0.25, -1, 0, 1e-11});
    assert_memory_equal(weight, ((float[]){1.5f, 1, 1, 1.5f}), sizeof weight);
}

// Reductions hold bit for bit.
static void server_rules_without_their_numbers_are_the_average(void **state) {
    (void)state;
    float average[ROUNDS], other[ROUNDS];
    const double means[ROUNDS] = {0.1, -0.03, 1e-7, 0.7};
    steps_of(average, "fedavg", means);
    static const char *const same[] = {"fedavgm beta=0", "fedavgm 0 nesterov=yes", "bmuf momentum=0",
                                       "server average lr=1"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        steps_of(other, same[i], means);
        assert_memory_equal(average, other, sizeof average);
    }
    float classical[ROUNDS], scaled[ROUNDS];
    steps_of(classical, "bmuf momentum=0.8 lr=1", means);
    steps_of(scaled, "fedavgm beta=0.8 lr=1", means);
    assert_memory_equal(classical, scaled, sizeof classical);
}

// A rule that forgets at once subtracts all of its second moment, and takes the root of the rest.
static void no_rules_second_moment_becomes_negative(void **state) {
    (void)state;
    int tested = 0;
    for (int row = 0; row < SERVER_RULE_COUNT; row++) {
        const RuleText *rule = &server_rules[row]->text;
        char text[128];
        float weight[ROUNDS];
        if (strcmp(rule->numbers[2].name ? rule->numbers[2].name : "", "beta2") != 0) continue;
        snprintf(text, sizeof text, "server %s beta2=0 tau=0.1", rule->name);
        steps_of(weight, text, (double[]){1e-3, 0.5, 1e-9, 0});
        for (int r = 0; r < ROUNDS; r++)
            assert_true(isfinite(weight[r]));
        tested++;
    }
    assert_true(tested >= 2);
}

// Local rules ---------------------------------------------------------------------------------------------------------

static void kept_numbers_lie_on_the_grid_of_the_exact_sums(void **state) {
    (void)state;
    const float values[] = {0, 1, -1.0f / 3, 0x1.8p-41f, 0x1p-42f, -0x1.000002p-17f, 12345.678f};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        const float on_grid = local_on_grid(values[i]);
        assert_true((double)on_grid * 0x1p40 == rint((double)on_grid * 0x1p40));
        assert_true(fabs((double)on_grid - (double)values[i]) <= 0x1p-41);
    }
}

// Whatever clients keep, turn after turn, the sum of the changes is the sum of what they keep.
static void changes_add_up_to_what_is_kept(void **state) {
    (void)state;
    enum { COUNT = 257, TURNS = 9 };
    static float global[COUNT], own[COUNT], common[COUNT], kept[COUNT], after[COUNT];
    static int64_t changes[COUNT];
    static const char *const rules[] = {"scaffold", "feddyn alpha=0.1"};
    for (size_t rule = 0; rule < 2; rule++) {
        const Recipe recipe = parsed(rules[rule]);
        const Chosen *chosen = &recipe.local;
        const Training training = {.sgd = {.lr = 0.1f}};
        memset(changes, 0, sizeof changes), memset(kept, 0, sizeof kept);
        for (uint32_t t = 1; t <= TURNS; t++) {
            for (uint32_t i = 0; i < COUNT; i++)
                global[i] = sinf((float)(i * t)), own[i] = global[i] + 1e-3f * cosf((float)(i + t)),
                common[i] = 1e-2f * sinf((float)(i + 3 * t));
            const LocalVectors at = {.global = global, .own = own, .state = t > 1 ? kept : NULL, .common = common};
            const LocalTurn turn = local_turn(chosen, &training, t, 1);
            assert_true(local_conclude(after, &at, &turn, chosen->row, 1e6, COUNT));
            aggregate_add(changes, after, at.state, 1, COUNT);
            memcpy(kept, after, sizeof kept);
        }
        for (int i = 0; i < COUNT; i++)
            assert_true((double)changes[i] == (double)kept[i] * 0x1p40);
    }
}

static void a_rate_that_has_fallen_to_nothing_leaves_what_scaffold_keeps(void **state) {
    (void)state;
    const Recipe recipe = parsed("scaffold");
    const Training training = {.sgd = {.lr = 0, .momentum = 0.5f}};
    const LocalTurn turn = local_turn(&recipe.local, &training, 7, 1);
    const float global[3] = {1, 2, 3}, kept[3] = {0.5f, -1, 0}, common[3] = {1, 1, 1};
    float after[3];
    const LocalVectors at = {.global = global, .own = global, .state = kept, .common = common};
    assert_true(local_conclude(after, &at, &turn, LOCAL_ROW_scaffold, 100, 3));
    assert_memory_equal(after, kept, sizeof after);
}

static void what_is_not_finite_or_could_overflow_is_not_kept(void **state) {
    (void)state;
    const Recipe recipe = parsed("feddyn");
    const Training training = {.sgd = {.lr = 0.1f}};
    const LocalTurn turn = local_turn(&recipe.local, &training, 1, 1);
    float global[3] = {0}, after[3];
    const float bad[][3] = {{1, NAN, 0}, {1, 0, INFINITY}, {-100, 0, 0}};
    for (size_t i = 0; i < 3; i++) {
        const LocalVectors at = {.global = global, .own = bad[i]};
        assert_false(local_conclude(after, &at, &turn, recipe.local.row, 100, 3));
    }
}

// Shares --------------------------------------------------------------------------------------------------------------

static void check_shares(const char *text, const Member *clients, uint32_t count, const double *expected,
                         double factor) {
    Member facts[4];
    CohortShares all;
    memcpy(facts, clients, count * sizeof *facts);
    const Recipe recipe = parsed(text);
    cohort_shares(&all, facts, count, &(World){0}, &recipe.combine);
    for (uint32_t k = 0; k < count; k++)
        assert_true(fabs(facts[k].share - expected[k]) < 1e-15);
    assert_true(fabs(all.factor - factor) < 1e-15);
}

static void clients_count_by_samples_or_otherwise(void **state) {
    (void)state;
    const Member clients[] = {{.samples = 99, .steps = 10, .reach = 10}, {.samples = 9, .steps = 2, .reach = 2}};
    check_shares("fedavg", clients, 2, (double[]){99.0 / 108, 9.0 / 108}, 1);
    check_shares("fedavg weights=uniform", clients, 2, (double[]){0.5, 0.5}, 1);
    check_shares("fedavg weights=sqrt", clients, 2, (double[]){sqrt(99) / (sqrt(99) + 3), 3 / (sqrt(99) + 3)}, 1);
    check_shares("fedavg weights=log", clients, 2, (double[]){2.0 / 3, 1.0 / 3}, 1);
}

static void fednova_divides_by_the_length_of_the_training(void **state) {
    (void)state;
    const Member clients[] = {{.samples = 60, .steps = 10, .reach = 20}, {.samples = 40, .steps = 4, .reach = 5}};
    // D = tau_eff sum p d/a: the shares carry p a_ref/a, the factor tau_eff/a_ref.
    check_shares("fednova", clients, 2, (double[]){0.6 * 5 / 20, 0.4}, (0.6 * 20 + 0.4 * 5) / 5);
    check_shares("fednova tau=steps", clients, 2, (double[]){0.6 * 5 / 20, 0.4}, (0.6 * 10 + 0.4 * 4) / 5);
    const Member equal[] = {{.samples = 60, .steps = 10, .reach = 41.381059609},
                            {.samples = 40, .steps = 10, .reach = 41.381059609}};
    Member facts[2], plain[2];
    memcpy(facts, equal, sizeof facts), memcpy(plain, equal, sizeof plain);
    CohortShares nova, mean;
    const Recipe fednova = parsed("fednova"), fedavg = parsed("fedavg");
    cohort_shares(&nova, facts, 2, &(World){0}, &fednova.combine);
    cohort_shares(&mean, plain, 2, &(World){0}, &fedavg.combine);
    assert_true(facts[0].share == plain[0].share && facts[1].share == plain[1].share); // to the bit
    assert_true(nova.factor == 1 && nova.total == 1);
}

// The figures are those of the FedNova authors' counters where they are right (plain, momentum), and sums by hand.
static void the_scalar_twin_knows_how_far_sgd_goes(void **state) {
    (void)state;
    static const struct {
        float momentum, lr;
        bool nesterov;
        double pull, reach;
    } cases[] = {{0, 1, false, 0, 10},
                 {0.9f, 1, false, 0, 41.381059609},
                 {0.9f, 1, true, 0, 47.242953648},
                 {0, 0.5f, false, 0.1, 8.025261215},
                 {0.9f, 0.5f, false, 0.1, 26.218458213}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const Training training = {.sgd = {.lr = cases[i].lr, .momentum = cases[i].momentum},
                                   .nesterov = cases[i].nesterov};
        const Chosen prox = {.row = LOCAL_ROW_prox, .number = {cases[i].pull}};
        const double reach = local_reach(&prox, &training, 10);
        if (!(fabs(reach - cases[i].reach) < 1e-5)) fail_msg("case %zu: %.9f, not %.9f", i, reach, cases[i].reach);
    }
    // A rate that has fallen to 0 has the reach of one that is nearly there, where a pull no longer tells.
    const Training still = {.sgd = {.lr = 0, .momentum = 0.9f}}, nearly = {.sgd = {.lr = 1e-30f, .momentum = 0.9f}};
    const Chosen prox = {.row = LOCAL_ROW_prox, .number = {0.1}};
    assert_true(fabs(local_reach(&prox, &still, 10) - local_reach(&prox, &nearly, 10)) < 1e-9);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_go_through_all_batches_in_turn_whatever_the_rounds),
        cmocka_unit_test(fragments_share_the_steps_of_a_model_and_each_is_stepped_once),
        cmocka_unit_test(no_pass_of_a_late_visit_is_that_of_an_early_one),
        cmocka_unit_test(springs_conserve_the_sum_of_centre_and_replicas_exactly),
        cmocka_unit_test(momentum_is_that_of_the_papers),
        cmocka_unit_test(delayed_momentum_joins_once_in_n_rounds),
        cmocka_unit_test(adaptive_rules_are_those_of_reddi_and_others),
        cmocka_unit_test(block_momentum_is_classical_or_looks_ahead),
        cmocka_unit_test(the_majority_of_signs_decides_and_a_tie_moves_nothing),
        cmocka_unit_test(server_rules_without_their_numbers_are_the_average),
        cmocka_unit_test(no_rules_second_moment_becomes_negative),
        cmocka_unit_test(kept_numbers_lie_on_the_grid_of_the_exact_sums),
        cmocka_unit_test(changes_add_up_to_what_is_kept),
        cmocka_unit_test(a_rate_that_has_fallen_to_nothing_leaves_what_scaffold_keeps),
        cmocka_unit_test(what_is_not_finite_or_could_overflow_is_not_kept),
        cmocka_unit_test(clients_count_by_samples_or_otherwise),
        cmocka_unit_test(fednova_divides_by_the_length_of_the_training),
        cmocka_unit_test(the_scalar_twin_knows_how_far_sgd_goes),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}

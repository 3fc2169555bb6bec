// What joins the sum of a round's updates, how much of it an epsilon takes, and what the updates are clipped to.
#include "fedavg/rules/privacy/release_rules.h"

#include <math.h>
#include <string.h>

#include "fedavg/algorithm/recipe.h"
#include "fedavg/rules/send/send_rules.h"
#include "fedavg/rules/sum/aggregate.h"
#include "tests/check.h"

static const NoiseKey KEY = {{5, 6, 7, 8}};

static Recipe parsed(const char *text) {
    Recipe recipe;
    Error err;
    check_ok(recipe_parse(&recipe, text, &err));
    return recipe;
}

static ReleaseWorld world = {.cohorts = COHORTS_POISSON, .clients = 1000, .clients_per_round = 100, .rounds = 50};

static ReleasePlan planned(const char *text) {
    ReleasePlan plan;
    Error err;
    const Recipe recipe = parsed(text);
    check_ok(release_plan(&plan, &recipe.release, &recipe.clip, &recipe.noise, &world, &err));
    return plan;
}

static void refused(const char *text, const char *sentence) {
    ReleasePlan plan;
    Error err;
    const Recipe recipe = parsed(text);
    assert_int_equal(release_plan(&plan, &recipe.release, &recipe.clip, &recipe.noise, &world, &err), STATUS_USAGE);
    assert_string_equal(err.message, sentence);
}

static void noise_is_given_or_follows_from_epsilon(void **state) {
    (void)state;
    ReleasePlan plan = planned("fedavg");
    assert_true(!plan.hides && plan.local_noise == 0 && isnan(plan.local_epsilon));
    plan = planned("dp-fedavg");
    assert_true(plan.hides && plan.mechanism.noise == 1 && plan.updates_noise == 1 && plan.mechanism.rate == 0.1);
    assert_true(plan.cohort == 100 && plan.delta == 1e-5);
    plan = planned("dp-fedavg epsilon=2 delta=1e-6");
    double rdp[ACCOUNTANT_ORDERS] = {0};
    accountant_add(rdp, &plan.mechanism, world.rounds);
    const double spent = accountant_spent(rdp, 1e-6).epsilon;
    assert_true(spent <= 2 && spent > 1.999);
    plan = planned("dp-fedavg noise=2 cohort=500"); // as if so many had been drawn
    assert_true(plan.mechanism.rate == 0.5 && plan.cohort == 500);
    plan = planned("local-dp epsilon=3 delta=1e-6");
    assert_true(fabs(gaussian_delta(plan.local_noise / 2, 3) - 1e-6) < 1e-12 && fabs(plan.local_epsilon - 3) < 1e-9);
    refused("dp-fedavg noise=1 epsilon=1",
            "release gaussian: one of noise and epsilon follows from the other; leave one of the two out");
    refused("dp-fedavg noise=1e5 norm=1e5", "release gaussian: updates clipped to 100000 and their noise may sum to "
                                            "1.001e+09, which is above 1.04858e+06; clip to less");
    refused("dp-ftrl noise=1e5 norm=1e5",
            "release tree: updates clipped to 100000 and their noise may sum to 1.001e+09, "
            "which is above 1.04858e+06; clip to less");
}

static void what_the_count_of_clipped_updates_costs_comes_off_the_noise(void **state) {
    (void)state;
    ReleasePlan plan = planned("dp-adaptive noise=1"); // count-noise is 100/20
    assert_true(plan.count_noise == 5 && plan.mechanism.noise == 1);
    assert_true(fabs(plan.updates_noise - 1.005037815) < 1e-9);
    refused(
        "dp-adaptive noise=2 count-noise=1",
        "release gaussian: noise=2 does not go with send adaptive-clip count-noise=1: it has to be below twice that; "
        "raise count-noise, or --clients-per-round, which it follows");
}

static void the_clip_follows_a_quantile_of_the_lengths(void **state) {
    (void)state;
    const Recipe recipe = parsed("send adaptive-clip");
    const ReleasePlan plan = planned("send adaptive-clip");
    const Chosen *clip = &recipe.clip;
    assert_true(plan.count_noise == 0);
    assert_true(fabs(release_next_clip(1, clip, &plan, 100, 0, &KEY, 1) - exp(-0.1)) < 1e-15);
    assert_true(fabs(release_next_clip(1, clip, &plan, 100, 100, &KEY, 1) - exp(0.1)) < 1e-15);
    assert_true(release_next_clip(1, clip, &plan, 100, 50, &KEY, 1) == 1);
    assert_true(release_next_clip(1, clip, &plan, 0, 0, &KEY, 1) == 1); // no client has reported yet
    const Recipe fixed = parsed("send clip 1");
    assert_true(release_next_clip(1, &fixed.clip, &plan, 100, 0, &KEY, 1) == 1);
    const ReleasePlan noisy = planned("dp-adaptive");
    const double one = release_next_clip(1, clip, &noisy, 100, 50, &KEY, 1),
                 two = release_next_clip(1, clip, &noisy, 100, 50, &KEY, 2);
    assert_true(one != 1 && one != two && fabs(one - 1) < 0.1);
}

static void noise_has_its_deviation_and_leaves_out_what_stays_with_clients(void **state) {
    (void)state;
    enum { COUNT = 20000, FIRST = 100, END = 300 };
    static int64_t total[COUNT], again[COUNT], other[COUNT];
    const double deviation = 0.01;
    const PersonalRun sent[] = {{0, FIRST}, {END, COUNT}};
    release_add_noise(total, deviation, &KEY, 3, sent, 2);
    release_add_noise(again, deviation, &KEY, 3, sent, 2);
    release_add_noise(other, deviation, &KEY, 4, sent, 2);
    assert_memory_equal(total, again, sizeof total);
    double squares = 0, product = 0;
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(total[i] == 0, i >= FIRST && i < END);
        squares += (double)total[i] * (double)total[i] * 0x1p-80;
        product += (double)total[i] * (double)other[i] * 0x1p-80;
    }
    const double variance = squares / (COUNT - (END - FIRST));
    assert_true(fabs(variance / (deviation * deviation) - 1) < 5 * sqrt(2.0 / COUNT));
    assert_true(fabs(product / (COUNT * deviation * deviation)) < 5 / sqrt(COUNT)); // of another round
    static int64_t none[COUNT];
    release_add_noise(none, 0, &KEY, 3, sent, 2);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(none[i], 0);
}

// The noise up to a round is that of the nodes that make up its number: its variance counts the bits that are set.
static void noise_on_a_tree_grows_with_the_bits_of_the_round(void **state) {
    (void)state;
    enum { COUNT = 20000, ROUNDS = 8 };
    const PersonalRun all = {0, COUNT};
    static int64_t total[COUNT], one[COUNT];
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        release_add_tree_noise(total, 0.01, ROUNDS, &KEY, round, &all, 1);
        double squares = 0;
        for (int i = 0; i < COUNT; i++)
            squares += (double)total[i] * (double)total[i] * 0x1p-80;
        const double nodes = squares / COUNT / 1e-4;
        if (!(fabs(nodes / __builtin_popcount(round) - 1) < 5 * sqrt(2.0 / COUNT)))
            fail_msg("round %u: noise of %g nodes", round, nodes);
        if (round == 1) memcpy(one, total, sizeof one);
    }
    static int64_t anew[COUNT]; // with the next tree: what there was stays, and another node joins
    release_add_tree_noise(anew, 0.01, ROUNDS, &KEY, ROUNDS + 1, &all, 1);
    double product = 0;
    for (int i = 0; i < COUNT; i++)
        product += (double)anew[i] * (double)one[i] * 0x1p-80;
    assert_true(fabs(product / (COUNT * 1e-4)) < 5 / sqrt(COUNT));
}

static void trees_last_as_long_as_each_client_comes_once(void **state) {
    (void)state;
    ReleasePlan plan = planned("dp-ftrl");
    assert_true(plan.tree_rounds == 10 && plan.mechanism.cohorts == COHORTS_TREE && plan.updates_noise == 1);
    plan = planned("dp-ftrl restart=4 epsilon=3");
    double rdp[ACCOUNTANT_ORDERS] = {0};
    accountant_add(rdp, &plan.mechanism, world.rounds);
    assert_true(plan.tree_rounds == 4 && accountant_spent(rdp, 1e-5).epsilon <= 3);
    refused("dp-ftrl restart=11",
            "release tree: restart=11: of 1000 clients with 100 a round the first ones come again "
            "after 10; give at most that");
}

static void whoever_arrives_counts_as_if_all_had(void **state) {
    (void)state;
    Member members[] = {
        {.fate = MEMBER_ARRIVES, .samples = 9}, {.fate = MEMBER_DROPS_OUT}, {.fate = MEMBER_ARRIVES, .samples = 1}};
    CohortShares all;
    release_shares(&all, members, 3, 4);
    assert_true(members[0].share == 0.25 && members[1].share == 0 && members[2].share == 0.25);
    assert_true(all.factor == 1 && all.total == 1);
}

// 1000 clients of which 100 are drawn, and 250 never arrive: the noise is that of the same draws, the mean that of 75.
static void absent_clients_leave_the_epsilon_and_divide_no_mean(void **state) {
    (void)state;
    const ReleasePlan whole = planned("dp-fedavg noise=0.8"), adaptive = planned("dp-adaptive noise=0.8");
    world.absent = 250;
    const ReleasePlan plan = planned("dp-fedavg noise=0.8"), counts = planned("dp-adaptive noise=0.8");
    world.absent = world.clients;
    const ReleasePlan none = planned("dp-fedavg noise=0.8");
    world.absent = 0;
    assert_true(plan.arriving == 75 && plan.cohort == 75 && whole.cohort == 100 && none.cohort == 100);
    assert_true(plan.mechanism.rate == whole.mechanism.rate && plan.updates_noise == whole.updates_noise);
    assert_true(counts.count_noise == 3.75 && adaptive.count_noise == 5);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(noise_is_given_or_follows_from_epsilon),
        cmocka_unit_test(what_the_count_of_clipped_updates_costs_comes_off_the_noise),
        cmocka_unit_test(the_clip_follows_a_quantile_of_the_lengths),
        cmocka_unit_test(noise_has_its_deviation_and_leaves_out_what_stays_with_clients),
        cmocka_unit_test(noise_on_a_tree_grows_with_the_bits_of_the_round),
        cmocka_unit_test(trees_last_as_long_as_each_client_comes_once),
        cmocka_unit_test(whoever_arrives_counts_as_if_all_had),
        cmocka_unit_test(absent_clients_leave_the_epsilon_and_divide_no_mean),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}

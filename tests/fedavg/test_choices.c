// Rules that choose among updates, or weigh them anew, by their products: against the same by hand.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "fedavg/rules/combine/combine_rules.h"
#include "fedavg/rules/combine/mix_rules.h"
#include "fedavg/rules/sum/aggregate.h"
#include "nn/blas.h"
#include "tests/check.h"

enum { MOST = 20, PARAMETERS = ROW_PRODUCT_BLOCK + 37 };

typedef struct Updates {
    uint32_t count;
    float trained[MOST][PARAMETERS], global[PARAMETERS];
    double products[MOST * MOST], weights[MOST], workspace[2 * MOST * MOST + 4 * MOST];
} Updates;

static double update_of(const Updates *all, uint32_t k, uint32_t i) {
    return (double)all->trained[k][i] - (double)all->global[i];
}

static double product_by_hand(const Updates *all, uint32_t a, uint32_t b) {
    double sum = 0;
    for (uint32_t i = 0; i < PARAMETERS; i++)
        sum += update_of(all, a, i) * update_of(all, b, i);
    return sum;
}

static void find_products(Updates *all, const Blas *blas) {
    const float *values[MOST], *from[MOST];
    static double wide[MOST * ROW_PRODUCT_BLOCK];
    for (uint32_t k = 0; k < all->count; k++)
        values[k] = all->trained[k], from[k] = all->global;
    const Rows rows = {.values = values, .from = from, .count = all->count};
    memset(all->products, 0, sizeof all->products);
    rows_products(all->products, &rows, blas, wide, PARAMETERS);
    for (uint32_t i = 0; i < all->count; i++)
        for (uint32_t j = 0; j < i; j++)
            all->products[i * all->count + j] = all->products[j * all->count + i];
}

// Normal numbers of length about 1, the same for the same seed.
static Updates *updates(uint32_t count, uint64_t seed) {
    Updates *all = malloc(sizeof *all);
    assert_non_null(all);
    all->count = count;
    for (uint32_t i = 0; i < PARAMETERS; i++) {
        all->global[i] = (float)rng_normal(rng_key(seed, RNG_INIT, 0, 0, 0), i);
        for (uint32_t k = 0; k < count; k++)
            all->trained[k][i] = all->global[i] + (float)rng_normal(rng_key(seed, RNG_INIT, 1, k, 0), i) / 32;
    }
    for (uint32_t k = 0; k < count; k++)
        all->weights[k] = 1.0 / count;
    find_products(all, NULL);
    return all;
}

static void move(Updates *all, uint32_t k, float by) {
    for (uint32_t i = 0; i < PARAMETERS; i++)
        all->trained[k][i] += by;
    find_products(all, NULL);
}

static void choose(double *shares, const CombineRule *rule, Updates *all, const double *number) {
    const Choice choice = {.products = all->products,
                           .count = all->count,
                           .weights = all->weights,
                           .number = number,
                           .workspace = all->workspace};
    rule->choose(shares, &choice);
}

static void products_are_those_of_the_updates_with_openblas_and_without(void **state) {
    (void)state;
    Updates *all = updates(7, 1);
    Blas *blas;
    Error err;
    check_ok(blas_open(&blas, kernels_best(), &err));
    for (int with = 0; with < 2; with++) {
        find_products(all, with ? blas : NULL);
        for (uint32_t i = 0; i < 7; i++)
            for (uint32_t j = 0; j < 7; j++)
                assert_true(fabs(all->products[i * 7 + j] - product_by_hand(all, i, j)) <= 1e-12);
    }
    blas_close(blas);
    free(all);
}

// Squared distances to the nearest, added by hand.
static double score_by_hand(const Updates *all, const bool *gone, uint32_t i, uint32_t neighbours) {
    double distances[MOST], sum = 0;
    uint32_t count = 0;
    for (uint32_t j = 0; j < all->count; j++) {
        if (j == i || gone[j]) continue;
        distances[count] = 0;
        for (uint32_t p = 0; p < PARAMETERS; p++) {
            const double apart = update_of(all, i, p) - update_of(all, j, p);
            distances[count] += apart * apart;
        }
        count++;
    }
    for (uint32_t taken = 0; taken < neighbours && taken < count; taken++) {
        uint32_t least = taken;
        for (uint32_t j = taken; j < count; j++)
            if (distances[j] < distances[least]) least = j;
        const double distance = distances[least];
        distances[least] = distances[taken];
        sum += distance;
    }
    return sum;
}

static uint32_t krum_by_hand(const Updates *all, const bool *gone, uint32_t neighbours) {
    uint32_t best = MOST;
    for (uint32_t i = 0; i < all->count; i++)
        if (!gone[i] &&
            (best == MOST || score_by_hand(all, gone, i, neighbours) < score_by_hand(all, gone, best, neighbours)))
            best = i;
    return best;
}

static void krum_takes_the_update_whose_neighbours_are_nearest(void **state) {
    (void)state;
    for (uint32_t byzantine = 0; byzantine < 4; byzantine++) {
        Updates *all = updates(11, 2 + byzantine);
        const double number[] = {byzantine, NAN};
        double shares[MOST], several[MOST];
        choose(shares, &krum_combine_rule, all, number);
        const uint32_t best = krum_by_hand(all, (bool[MOST]){false}, 11 - byzantine - 2);
        for (uint32_t k = 0; k < 11; k++)
            assert_true(shares[k] == (k == best));
        choose(several, &multi_krum_combine_rule, all, (double[]){byzantine, 1});
        assert_memory_equal(several, shares, 11 * sizeof *shares); // one of several is Krum's
        choose(several, &multi_krum_combine_rule, all, number);
        uint32_t taken = 0;
        for (uint32_t k = 0; k < 11; k++)
            taken += several[k] > 0;
        assert_int_equal(taken, 11 - byzantine - 2);
        assert_true(several[best] == 1.0 / taken);
        choose(several, &multi_krum_combine_rule, all, (double[]){byzantine, 11});
        for (uint32_t k = 0; k < 11; k++)
            assert_true(several[k] == 1.0 / 11); // all of them: the mean
        free(all);
    }
}

static void what_is_far_away_is_never_chosen(void **state) {
    (void)state;
    const CombineRule *const rules[] = {&krum_combine_rule, &multi_krum_combine_rule, &bulyan_combine_rule};
    for (size_t r = 0; r < 3; r++)
        for (uint32_t bad = 0; bad < 11; bad += 5) {
            Updates *all = updates(11, 9);
            move(all, bad, 1e6f), move(all, (bad + 3) % 11, 1e6f);
            double shares[MOST];
            choose(shares, rules[r], all, (double[]){2, NAN});
            assert_true(shares[bad] == 0 && shares[(bad + 3) % 11] == 0);
            free(all);
        }
}

static void of_updates_that_are_all_the_same_the_first_is_taken(void **state) {
    (void)state;
    Updates *all = updates(9, 3);
    for (uint32_t k = 1; k < 9; k++)
        memcpy(all->trained[k], all->trained[0], sizeof all->trained[0]);
    find_products(all, NULL);
    double shares[MOST];
    choose(shares, &krum_combine_rule, all, (double[]){2});
    for (uint32_t k = 0; k < 9; k++)
        assert_true(shares[k] == (k == 0));
    free(all);
}

static void bulyan_chooses_as_krum_again_and_again(void **state) {
    (void)state;
    for (uint32_t byzantine = 0; byzantine < 3; byzantine++) {
        Updates *all = updates(13, 4 + byzantine);
        double shares[MOST];
        bool gone[MOST] = {false};
        const uint32_t take = 13 - 2 * byzantine;
        choose(shares, &bulyan_combine_rule, all, (double[]){byzantine});
        for (uint32_t taken = 0; taken < take; taken++) {
            const int neighbours = (int)(13 - taken) - (int)byzantine - 2;
            gone[krum_by_hand(all, gone, neighbours < 1 ? 1 : (uint32_t)neighbours)] = true;
        }
        for (uint32_t k = 0; k < 13; k++)
            assert_true(shares[k] == (gone[k] ? 1.0 / take : 0));
        free(all);
    }
}

// Weiszfeld's steps on the updates themselves.
static void geometric_median_by_hand(double *z, const Updates *all, int steps, double nu) {
    for (uint32_t i = 0; i < PARAMETERS; i++) {
        z[i] = 0;
        for (uint32_t k = 0; k < all->count; k++)
            z[i] += all->weights[k] * update_of(all, k, i);
    }
    for (int step = 0; step < steps; step++) {
        double b[MOST], sum = 0;
        for (uint32_t k = 0; k < all->count; k++) {
            double squares = 0;
            for (uint32_t i = 0; i < PARAMETERS; i++)
                squares += (z[i] - update_of(all, k, i)) * (z[i] - update_of(all, k, i));
            sum += b[k] = all->weights[k] / fmax(nu, sqrt(squares));
        }
        for (uint32_t i = 0; i < PARAMETERS; i++) {
            z[i] = 0;
            for (uint32_t k = 0; k < all->count; k++)
                z[i] += b[k] / sum * update_of(all, k, i);
        }
    }
}

static void check_result(const Updates *all, const double *shares, const double *expected, double tolerance) {
    for (uint32_t i = 0; i < PARAMETERS; i++) {
        double actual = 0;
        for (uint32_t k = 0; k < all->count; k++)
            actual += shares[k] * update_of(all, k, i);
        if (!(fabs(actual - expected[i]) <= tolerance)) fail_msg("weight %u: %g, not %g", i, actual, expected[i]);
    }
}

static void the_geometric_median_is_that_of_weiszfelds_steps(void **state) {
    (void)state;
    static double z[PARAMETERS];
    Updates *all = updates(6, 5);
    double shares[MOST];
    for (uint32_t k = 0; k < 6; k++)
        all->weights[k] = (k + 1) / 21.0;
    move(all, 5, 0.3f);
    for (int steps = 1; steps <= 4; steps++) {
        geometric_median_by_hand(z, all, steps, 1e-5);
        choose(shares, &geometric_combine_rule, all, (double[]){steps, 1e-5});
        check_result(all, shares, z, 1e-9);
    }
    choose(shares, &geometric_combine_rule, all, (double[]){0, 1e-5});
    assert_memory_equal(shares, all->weights, 6 * sizeof *shares); // no step: FedAvg
    free(all);
    all = updates(1, 6);
    choose(shares, &geometric_combine_rule, all, (double[]){4, 1e-5});
    assert_true(shares[0] == 1);
    free(all);
}

static void centered_clipping_is_that_of_its_paper(void **state) {
    (void)state;
    static double v[PARAMETERS];
    double shares[MOST];
    for (int steps = 1; steps <= 3; steps++) {
        Updates *all = updates(6, 7); // the last is where the clipping begins
        move(all, 2, 0.4f);
        for (uint32_t i = 0; i < PARAMETERS; i++)
            v[i] = update_of(all, 5, i);
        for (int step = 0; step < steps; step++) {
            static double next[PARAMETERS];
            memcpy(next, v, sizeof next);
            for (uint32_t k = 0; k < 5; k++) {
                double squares = 0;
                for (uint32_t i = 0; i < PARAMETERS; i++)
                    squares += (update_of(all, k, i) - v[i]) * (update_of(all, k, i) - v[i]);
                for (uint32_t i = 0; i < PARAMETERS; i++)
                    next[i] += (update_of(all, k, i) - v[i]) * fmin(1, 1.5 / sqrt(squares)) / 5;
            }
            memcpy(v, next, sizeof v);
        }
        choose(shares, &centered_combine_rule, all, (double[]){1.5, steps});
        check_result(all, shares, v, 1e-9);
        choose(shares, &centered_combine_rule, all, (double[]){1e30, steps});
        for (uint32_t k = 0; k < 6; k++)
            assert_true(shares[k] == (k < 5 ? 1.0 / 5 : 0)); // nothing is clipped: the mean, exactly
        free(all);
    }
}

static void a_bound_shortens_what_is_longer_and_nothing_else(void **state) {
    (void)state;
    const double norm = 2;
    assert_true(bound_combine_rule.bound(4, &norm) == 1 && bound_combine_rule.bound(0, &norm) == 1);
    assert_true(bound_combine_rule.bound(16, &norm) == 0.5);
    assert_true(bound_combine_rule.bound(1e30, (double[]){1e30}) == 1);
}

// However long the updates are, rounding adds half a unit of the exact sum to each weight at most.
static void a_bound_holds_for_the_mean_to_the_rounding_of_the_exact_sum(void **state) {
    (void)state;
    static int64_t sum[PARAMETERS];
    const double norm = 0.3;
    Updates *all = updates(5, 9);
    for (uint32_t k = 0; k < 5; k++)
        for (uint32_t i = 0; i < PARAMETERS; i++) // all alike, so that nothing cancels
            all->trained[k][i] = all->global[i] + (float)(k + 1) * (all->trained[0][i] - all->global[i]);
    memset(sum, 0, sizeof sum);
    for (uint32_t k = 0; k < 5; k++) {
        const double squared = aggregate_squared_update(all->trained[k], all->global, PARAMETERS);
        aggregate_add(sum, all->trained[k], all->global, bound_combine_rule.bound(squared, &norm) / 5, PARAMETERS);
    }
    const double length = sqrt(aggregate_squared_total(sum, 0x1p-40, PARAMETERS));
    assert_true(length > 0.29 && length <= norm + 5 * sqrt(PARAMETERS) * 0x1p-41);
    free(all);
}

static void whoever_points_where_the_server_does_is_the_servers_update(void **state) {
    (void)state;
    static double server[PARAMETERS];
    Updates *all = updates(5, 10); // the last is the server's
    double shares[MOST];
    for (uint32_t i = 0; i < PARAMETERS; i++) {
        const float g = all->trained[4][i] - all->global[i];
        server[i] = (double)all->trained[4][i] - (double)all->global[i];
        all->trained[0][i] = all->global[i] + 4 * g, all->trained[1][i] = all->global[i] + 0.5f * g;
        all->trained[2][i] = all->global[i] + g, all->trained[3][i] = all->global[i] - 2 * g; // who is not trusted
    }
    find_products(all, NULL);
    choose(shares, &fltrust_combine_rule, all, (double[]){100});
    assert_true(shares[3] == 0 && shares[4] == 0);
    check_result(all, shares, server, 1e-6); // differences of floats
    free(all);
}

static void buckets_are_means_of_all_updates_once(void **state) {
    (void)state;
    double parts[MOST * MOST] = {0}, other[MOST * MOST] = {0}, number = 3;
    uint32_t order[MOST];
    MixTurn turn = {.count = 11, .stride = 11, .number = &number, .seed = 1, .round = 1, .order = order};
    const MixRule *rule = &mix_rules[MIX_BUCKETS];
    assert_int_equal(rule->mixed(11, &number), 4);
    rule->mix(parts, &turn);
    for (uint32_t k = 0; k < 11; k++) {
        uint32_t in = 0;
        for (uint32_t bucket = 0; bucket < 4; bucket++)
            in += parts[bucket * 11 + k] > 0;
        assert_int_equal(in, 1);
    }
    for (uint32_t bucket = 0; bucket < 4; bucket++)
        for (uint32_t k = 0; k < 11; k++)
            assert_true(parts[bucket * 11 + k] == 0 || parts[bucket * 11 + k] == (bucket < 3 ? 1.0 / 3 : 1.0 / 2));
    turn.round = 2;
    rule->mix(other, &turn);
    assert_true(memcmp(parts, other, sizeof parts) != 0); // each round deals anew
}

static void a_mixed_update_is_the_mean_of_its_nearest(void **state) {
    (void)state;
    Updates *all = updates(9, 8);
    move(all, 4, 5), move(all, 7, -5);
    double parts[MOST * MOST] = {0}, number = 2;
    const MixTurn turn = {.products = all->products, .count = 9, .stride = 9, .number = &number};
    const MixRule *rule = &mix_rules[MIX_NEAREST];
    assert_int_equal(rule->mixed(9, &number), 9);
    assert_int_equal(rule->mixed(5, &number), 5); // fewer than half may be byzantine
    assert_int_equal(rule->mixed(4, &number), 0);
    rule->mix(parts, &turn);
    for (uint32_t i = 0; i < 9; i++) {
        uint32_t in = 0;
        for (uint32_t k = 0; k < 9; k++) {
            in += parts[i * 9 + k] == 1.0 / 7;
            if ((k == 4 || k == 7) && i != 4 && i != 7) assert_true(parts[i * 9 + k] == 0);
        }
        assert_int_equal(in, 7);
        assert_true(parts[i * 9 + i] > 0);
    }
    free(all);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_those_of_the_updates_with_openblas_and_without),
        cmocka_unit_test(krum_takes_the_update_whose_neighbours_are_nearest),
        cmocka_unit_test(what_is_far_away_is_never_chosen),
        cmocka_unit_test(of_updates_that_are_all_the_same_the_first_is_taken),
        cmocka_unit_test(bulyan_chooses_as_krum_again_and_again),
        cmocka_unit_test(the_geometric_median_is_that_of_weiszfelds_steps),
        cmocka_unit_test(centered_clipping_is_that_of_its_paper),
        cmocka_unit_test(a_bound_shortens_what_is_longer_and_nothing_else),
        cmocka_unit_test(a_bound_holds_for_the_mean_to_the_rounding_of_the_exact_sum),
        cmocka_unit_test(whoever_points_where_the_server_does_is_the_servers_update),
        cmocka_unit_test(buckets_are_means_of_all_updates_once),
        cmocka_unit_test(a_mixed_update_is_the_mean_of_its_nearest),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}

// Part of combine_rules.h: Krum and Multi-Krum (Blanchard, El Mhamdi, Guerraoui, Stainer, NIPS 2017). The score of an
// update is the sum of the squared distances to its n - f - 2 nearest neighbours, where f clients may be byzantine.
// Krum takes the update with the least score, Multi-Krum the mean of the q updates with the least scores.
#include <math.h>
#include <stdlib.h>

#include "base/sorting.h"
#include "fedavg/rules/combine/combine_rules.h"

// scores (count): one per update. distances: workspace (count).
static void find_scores(double *scores, double *distances, const Choice *choice, double byzantine) {
    const double neighbours = fmax(1, choice->count - byzantine - 2);
    for (uint32_t i = 0; i < choice->count; i++) {
        uint32_t others = 0;
        for (uint32_t j = 0; j < choice->count; j++)
            if (j != i) distances[others++] = choice_squared_distance(choice, i, j);
        qsort(distances, others, sizeof *distances, ascending_reals);
        scores[i] = 0;
        for (uint32_t j = 0; j < others && j < neighbours; j++)
            scores[i] += distances[j];
    }
}

// Equal shares for the `take` least scores; of equal scores the first counts.
static void share_least(double *shares, double *scores, uint32_t count, uint32_t take) {
    for (uint32_t i = 0; i < count; i++)
        shares[i] = 0;
    for (uint32_t taken = 0; taken < take; taken++) {
        uint32_t least = count;
        for (uint32_t i = 0; i < count; i++)
            if (shares[i] == 0 && (least == count || scores[i] < scores[least])) least = i;
        shares[least] = 1.0 / take;
    }
}

static void choose_one(double *shares, const Choice *choice) {
    double *scores = choice->workspace;
    find_scores(scores, scores + choice->count, choice, choice->number[0]);
    share_least(shares, scores, choice->count, 1);
}

static void choose_several(double *shares, const Choice *choice) {
    double *scores = choice->workspace;
    const double byzantine = choice->number[0], asked = choice->number[1];
    const double take = isnan(asked) ? choice->count - byzantine - 2 : fmin(asked, choice->count);
    find_scores(scores, scores + choice->count, choice, byzantine);
    share_least(shares, scores, choice->count, take < 1 ? 1 : (uint32_t)take);
}

// The paper proves resilience for n >= 2f + 3.
static double least(const double *number) {
    return 2 * number[0] + 3;
}

const CombineRule krum_combine_rule = {
    .text = {"krum",
             "takes the update with the nearest neighbours; `byzantine` clients may be malicious",
             "Blanchard et al., NIPS 2017",
             {COMBINE_BYZANTINE}},
    .rows = true,
    .least = least,
    .picks = true,
    .choose = choose_one};

const CombineRule multi_krum_combine_rule = {.text = {"multi-krum",
                                                      "takes the mean of the updates with the nearest neighbours",
                                                      "Blanchard et al., NIPS 2017",
                                                      {COMBINE_BYZANTINE,
                                                       {.name = "chosen",
                                                        .preset = NAN,
                                                        .minimum = 1,
                                                        .maximum = 1000000,
                                                        .whole = true,
                                                        .derived = "cohort - byzantine - 2"}}},
                                             .rows = true,
                                             .least = least,
                                             .picks = true,
                                             .choose = choose_several};

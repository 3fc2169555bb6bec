// Part of combine_rules.h: Bulyan (El Mhamdi, Guerraoui, Rouault, ICML 2018), for n updates of which f may be
// byzantine. Krum chooses one of the remaining updates, n - 2f times. Then every weight moves by the mean of the n - 4f
// of its chosen values that are nearest to their median. With f = 0 this is the mean of all updates.
#include <math.h>
#include <stdlib.h>

#include "fedavg/rules/combine/combine_rules.h"
#include "fedavg/rules/sum/aggregate.h"

typedef struct Neighbour {
    double distance; // squared
    uint64_t row;
} Neighbour;

static int nearest_first(const void *a, const void *b) {
    const Neighbour *x = a, *y = b;
    if (x->distance != y->distance) return x->distance < y->distance ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

// The neighbours of each row, nearest first. Sorted once: later choices only skip rows that were taken.
static void sort_neighbours(Neighbour *all, const Choice *choice) {
    for (uint32_t i = 0; i < choice->count; i++) {
        Neighbour *of_row = all + (size_t)i * choice->count;
        for (uint32_t j = 0; j < choice->count; j++)
            of_row[j] = (Neighbour){j == i ? INFINITY : choice_squared_distance(choice, i, j), j};
        qsort(of_row, choice->count, sizeof *of_row, nearest_first);
    }
}

static double score(const Neighbour *of_row, const double *shares, uint32_t count, double neighbours) {
    double sum = 0;
    for (uint32_t j = 0; j + 1 < count && neighbours > 0; j++) {
        if (shares[of_row[j].row] > 0) continue; // taken already
        sum += of_row[j].distance;
        neighbours--;
    }
    return sum;
}

// Krum's choice, repeated. The number of neighbours in a score shrinks with the number of updates left, as in the
// paper.
static void choose(double *shares, const Choice *choice) {
    Neighbour *all = (Neighbour *)(void *)choice->workspace;
    const uint32_t count = choice->count;
    const double byzantine = choice->number[0];
    const uint32_t take = (uint32_t)(count - 2 * byzantine);
    sort_neighbours(all, choice);
    for (uint32_t i = 0; i < count; i++)
        shares[i] = 0;
    for (uint32_t taken = 0; taken < take; taken++) {
        const double neighbours = fmax(1, count - taken - byzantine - 2);
        uint32_t least = count;
        double least_score = 0;
        for (uint32_t i = 0; i < count; i++) {
            if (shares[i] > 0) continue;
            const double own = score(all + (size_t)i * count, shares, count, neighbours);
            if (least == count || own < least_score) least = i, least_score = own;
        }
        shares[least] = 1.0 / take;
    }
}

// The values nearest to the median are adjacent in sorted order. The window moves up as long as its lowest value is
// further from the median than the value above its highest.
static void column(int64_t *total, const float *sorted, const float *from, uint32_t count, const double *number) {
    const uint32_t cut = (uint32_t)(2 * number[0]), keep = count > cut ? count - cut : 1;
    const double scale = AGGREGATE_UNIT / keep;
    for (size_t l = 0; l < ROW_LANES; l++) {
        const double median2 =
            (double)sorted[(count - 1) / 2 * ROW_LANES + l] + (double)sorted[count / 2 * ROW_LANES + l];
        uint32_t skip = 0;
        while (skip + keep < count &&
               (double)sorted[skip * ROW_LANES + l] + (double)sorted[(skip + keep) * ROW_LANES + l] < median2)
            skip++;
        total[l] = 0;
        for (uint32_t row = skip; row < skip + keep; row++)
            total[l] += llrint(((double)sorted[row * ROW_LANES + l] - (double)from[l]) * scale);
    }
}

// The paper proves resilience for n >= 4f + 3.
static double least(const double *number) {
    return 4 * number[0] + 3;
}

const CombineRule bulyan_combine_rule = {
    .text = {"bulyan",
             "Krum's choice, repeated, then for each weight the mean of the values nearest to the median",
             "El Mhamdi et al., ICML 2018",
             {COMBINE_BYZANTINE}},
    .rows = true,
    .least = least,
    .picks = true,
    .choose = choose,
    .column = column};

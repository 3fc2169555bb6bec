// Part of dataset_block.h: normalises numbers.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "datasets/dataset_block.h"

Status dataset_exact_begin(DatasetArrays to[DATASET_SPLITS], size_t size, Error *err) {
    for (DatasetSplitKind split = 0; split < DATASET_SPLITS; split++) {
        to[split].exact = malloc((to[split].count * size + 1) * sizeof *to[split].exact);
        if (to[split].exact) continue;
        const Status status = fail(err, STATUS_OS, "no memory for %u samples of %zu numbers", to[split].count, size);
        dataset_exact_free(to);
        return status;
    }
    return STATUS_OK;
}

void dataset_exact_free(DatasetArrays to[DATASET_SPLITS]) {
    for (DatasetSplitKind split = 0; split < DATASET_SPLITS; split++) {
        free(to[split].exact);
        to[split].exact = NULL;
    }
}

// Number `place` of sample i is of kind place / run: a feature, or a channel of `run` pixels.
typedef struct Scaling {
    size_t kinds, run;
    double *means, *stddevs; // (kinds)
} Scaling;

static double number_at(const DatasetArrays *of, size_t place) {
    return of->exact ? of->exact[place] : (double)((const float *)of->samples)[place];
}

// Adds x - from or (x - from)^2 of each number x to the sum of its kind. from: (kinds).
static void add_up(double *sums, const DatasetArrays *of, uint32_t samples, const Scaling *scaling, const double *from,
                   bool squared) {
    size_t place = 0;
    for (size_t i = 0; i < samples; i++)
        for (size_t kind = 0; kind < scaling->kinds; kind++)
            for (size_t j = 0; j < scaling->run; j++, place++) {
                const double distance = number_at(of, place) - from[kind];
                sums[kind] += squared ? distance * distance : distance;
            }
}

// Distances from the kind's first number are summed: those of a constant feature are 0. It is only centred, as is one
// that differs by no more than its rounding.
static Status learn_scales(const Scaling *scaling, const DatasetArrays *train, uint32_t samples, Error *err) {
    const double count = samples > 0 ? (double)samples * (double)scaling->run : 1, noise = train->exact ? 1e-12 : 1e-6;
    double *first = calloc(3 * scaling->kinds, sizeof *first);
    if (!first) return fail(err, STATUS_OS, "no memory for the means of %zu features", scaling->kinds);
    double *sums = first + scaling->kinds, *squares = sums + scaling->kinds;
    for (size_t kind = 0; kind < scaling->kinds && samples > 0; kind++)
        first[kind] = number_at(train, kind * scaling->run);
    add_up(sums, train, samples, scaling, first, false);
    for (size_t kind = 0; kind < scaling->kinds; kind++)
        scaling->means[kind] = first[kind] + sums[kind] / count;
    add_up(squares, train, samples, scaling, scaling->means, true);
    for (size_t kind = 0; kind < scaling->kinds; kind++) {
        const double deviation = sqrt(squares[kind] / count);
        scaling->stddevs[kind] = deviation > noise * fabs(scaling->means[kind]) && (float)deviation > 0 ? deviation : 1;
    }
    free(first);
    return STATUS_OK;
}

void dataset_apply_scales(const DatasetArrays of[DATASET_SPLITS], size_t size, const double *means,
                          const double *stddevs, size_t kinds) {
    const size_t run = size / kinds;
    for (DatasetSplitKind split = 0; split < DATASET_SPLITS; split++) {
        float *to = of[split].samples;
        size_t place = 0;
        for (size_t i = 0; i < of[split].count; i++)
            for (size_t kind = 0; kind < kinds; kind++)
                for (size_t j = 0; j < run; j++, place++)
                    to[place] = (float)((number_at(&of[split], place) - means[kind]) / stddevs[kind]);
    }
}

Status dataset_scale_numbers(DatasetBlock *block, const DatasetArrays of[DATASET_SPLITS], const DatasetSource *source,
                             Error *err) {
    const DatasetModel *model = source->model;
    const size_t size = shape_size(block->shape);
    Scaling scaling = {.kinds = block->items.scales, .means = dataset_at(block, block->layout.scales)};
    if (scaling.kinds == 0) return STATUS_OK;
    scaling.run = size / scaling.kinds;
    scaling.stddevs = scaling.means + scaling.kinds;
    if (model && model->scales > 0 && model->scales != scaling.kinds)
        return fail(err, STATUS_USAGE, "%s: the model was trained on %u normalised features, but samples have %zu",
                    source->name, model->scales, scaling.kinds);
    if (model && model->scales > 0) {
        memcpy(scaling.means, model->means, scaling.kinds * sizeof *scaling.means);
        memcpy(scaling.stddevs, model->stddevs, scaling.kinds * sizeof *scaling.stddevs);
    } else
        TRY(learn_scales(&scaling, &of[DATASET_TRAIN], block->counts[DATASET_TRAIN] - block->validation_count, err));
    dataset_apply_scales(of, size, scaling.means, scaling.stddevs, scaling.kinds);
    return STATUS_OK;
}

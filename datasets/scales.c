// Part of dataset_block.h: normalises float32 samples.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "datasets/dataset_block.h"

// Number `place` of sample i is of kind place / run: a feature, or a channel of `run` pixels.
typedef struct Scaling {
    size_t kinds, run;
    float *means, *stddevs; // (kinds)
} Scaling;

// Adds x or (x - mean)^2 of each number x to the sum of its kind.
static void add_up(double *sums, const float *values, uint32_t samples, const Scaling *scaling, const double *means) {
    for (size_t i = 0; i < samples; i++)
        for (size_t kind = 0; kind < scaling->kinds; kind++, values += scaling->run)
            for (size_t j = 0; j < scaling->run; j++) {
                const double distance = (double)values[j] - (means ? means[kind] : 0);
                sums[kind] += means ? distance * distance : distance;
            }
}

// A constant feature is only centred.
static Status learn_scales(Scaling *scaling, DatasetBlock *block, Error *err) {
    const float *values = dataset_arrays(block, DATASET_TRAIN).samples;
    const uint32_t samples = block->counts[DATASET_TRAIN] - block->validation_count;
    const double count = (double)samples * (double)scaling->run;
    double *means = calloc(2 * scaling->kinds, sizeof *means), *squares = means ? means + scaling->kinds : NULL;
    if (!means) return fail(err, STATUS_OS, "no memory for the means of %zu features", scaling->kinds);
    add_up(means, values, samples, scaling, NULL);
    for (size_t kind = 0; kind < scaling->kinds; kind++)
        means[kind] /= count > 0 ? count : 1;
    add_up(squares, values, samples, scaling, means);
    for (size_t kind = 0; kind < scaling->kinds; kind++) {
        const double deviation = sqrt(squares[kind] / (count > 0 ? count : 1));
        scaling->means[kind] = (float)means[kind];
        scaling->stddevs[kind] = deviation > 1e-6 * fabs(means[kind]) && (float)deviation > 0 ? (float)deviation : 1;
    }
    free(means);
    return STATUS_OK;
}

void dataset_apply_scales(DatasetBlock *block, const float *means, const float *stddevs, size_t kinds) {
    const size_t run = shape_size(block->shape) / kinds;
    for (DatasetSplitKind split = 0; split < DATASET_SPLITS; split++) {
        float *values = dataset_arrays(block, split).samples;
        for (size_t i = 0; i < block->counts[split]; i++)
            for (size_t kind = 0; kind < kinds; kind++, values += run)
                for (size_t j = 0; j < run; j++)
                    values[j] = (values[j] - means[kind]) / stddevs[kind];
    }
}

Status dataset_scale_numbers(DatasetBlock *block, const DatasetSource *source, Error *err) {
    const DatasetModel *model = source->model;
    Scaling scaling = {.kinds = block->items.scales, .means = dataset_at(block, block->layout.scales)};
    if (scaling.kinds == 0) return STATUS_OK;
    scaling.run = shape_size(block->shape) / scaling.kinds;
    scaling.stddevs = scaling.means + scaling.kinds;
    if (model && model->scales > 0 && model->scales != scaling.kinds)
        return fail(err, STATUS_USAGE, "%s: the model was trained on %u normalised features, but samples have %zu",
                    source->name, model->scales, scaling.kinds);
    if (model && model->scales > 0) {
        memcpy(scaling.means, model->means, scaling.kinds * sizeof *scaling.means);
        memcpy(scaling.stddevs, model->stddevs, scaling.kinds * sizeof *scaling.stddevs);
    } else
        TRY(learn_scales(&scaling, block, err));
    dataset_apply_scales(block, scaling.means, scaling.stddevs, scaling.kinds);
    return STATUS_OK;
}

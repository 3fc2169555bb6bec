// Part of dataset_block.h: fills gaps in tables.
#include <math.h>
#include <stdlib.h>

#include "datasets/dataset_block.h"
#include "datasets/settings.h"

static double number_at(const DatasetArrays *of, size_t place) {
    return of->exact ? of->exact[place] : (double)((const float *)of->samples)[place];
}

static int by_size(const void *a, const void *b) {
    const double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

// Distances from the first number are summed, so that large numbers keep their digits.
static double middle_of(double *numbers, size_t count, bool is_median) {
    double sum = 0;
    if (is_median) {
        qsort(numbers, count, sizeof *numbers, by_size);
        return count % 2 ? numbers[count / 2]
                         : numbers[count / 2 - 1] + (numbers[count / 2] - numbers[count / 2 - 1]) / 2;
    }
    for (size_t i = 0; i < count; i++)
        sum += numbers[i] - numbers[0];
    return numbers[0] + sum / (double)count;
}

// fills: NAN for a feature that no training sample has.
static Status learn_fills(double *fills, size_t features, const DatasetArrays *train, const DatasetSource *source,
                          Error *err) {
    const bool is_median = settings_say(&source->settings, SETTING_MISSING, "median");
    double *numbers = malloc((train->count + 1) * sizeof *numbers);
    if (!numbers) return fail(err, STATUS_OS, "no memory for %u numbers of %s", train->count, source->folder);
    for (size_t feature = 0; feature < features; feature++) {
        size_t count = 0;
        for (size_t i = 0; i < train->count; i++) {
            const double number = number_at(train, i * features + feature);
            if (!isnan(number)) numbers[count++] = number;
        }
        fills[feature] = count > 0 ? middle_of(numbers, count, is_median) : (double)NAN;
    }
    free(numbers);
    return STATUS_OK;
}

Status dataset_fill_gaps(DatasetBlock *block, const DatasetArrays of[DATASET_SPLITS], const DatasetSource *source,
                         Error *err) {
    const DatasetModel *model = source->model;
    const size_t features = block->items.fills;
    double *fills = dataset_at(block, block->layout.fills);
    if (features == 0) return STATUS_OK;
    if (model && model->fills > 0 && model->fills != features)
        return fail(err, STATUS_USAGE, "%s: the model fills gaps of %u features, but samples have %zu", source->name,
                    model->fills, features);
    for (size_t i = 0; i < features && model && model->fills > 0; i++)
        fills[i] = model->fill[i];
    if (!model || model->fills == 0) TRY(learn_fills(fills, features, &of[DATASET_TRAIN], source, err));
    for (DatasetSplitKind split = 0; split < DATASET_SPLITS; split++)
        for (size_t place = 0; place < of[split].count * features; place++) {
            if (!isnan(number_at(&of[split], place))) continue;
            if (isnan(fills[place % features]))
                return fail(err, STATUS_DATA,
                            "%s: no training sample has a value of feature %zu (`sounder data` lists them), so that "
                            "gaps have none to be filled with; leave its column out: without=COLUMN in --data",
                            source->folder, place % features);
            dataset_put(&of[split], place, fills[place % features]);
        }
    for (size_t i = 0; i < features; i++)
        if (isnan(fills[i])) fills[i] = 0; // it has no gap either
    return STATUS_OK;
}

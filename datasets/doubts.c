#include "datasets/doubts.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "datasets/formats/format.h"

enum {
    MOST_NUMBERS = 1 << 20, // of samples that are checked
    LEAST_PIXELS = 64,      // smallest sample that may be an image
    FEW_CLASSES = 10,
};

__attribute__((format(printf, 2, 3))) static void add(DatasetDoubts *doubts, const char *format, ...) {
    va_list arguments;
    if (doubts->count == DATASET_MOST_DOUBTS) return;
    va_start(arguments, format);
    vsnprintf(doubts->sentences[doubts->count++], DATASET_DOUBT_BYTES, format, arguments);
    va_end(arguments);
}

typedef struct Range {
    float least, greatest;
    bool whole; // all numbers are whole
} Range;

// numbers: float32, possibly at an odd address.
static Range range_of(const uint8_t *numbers, size_t count) {
    Range range = {INFINITY, -INFINITY, true};
    for (size_t i = 0; i < count && range.whole; i++) {
        const float number = dataset_number(numbers, i);
        range.least = fminf(range.least, number);
        range.greatest = fmaxf(range.greatest, number);
        range.whole = number == floorf(number);
    }
    return range;
}

// Classes that were saved as floating-point numbers would be targets of the squared loss. Classes occur several times
// each, so there is a doubt only if there are at most half as many possible values as samples.
static void doubt_targets(DatasetDoubts *doubts, const Dataset *data, const DatasetFormat *format) {
    const Range range = range_of((const uint8_t *)data->train.labels, data->train.count);
    if (!range.whole || range.least < 0 || 2 * ((double)range.greatest + 1) > data->train.count) return;
    add(doubts,
        "%s: all targets are whole numbers, from %g to %g, and will be learned as quantities, by the squared loss; if "
        "they are classes, %s",
        data->name, (double)range.least, (double)range.greatest, format->classes);
}

// A class without samples costs an output of the net that is never right; many classes with few samples each are
// probably quantities.
static void doubt_classes(DatasetDoubts *doubts, const Dataset *data, const DatasetFormat *format) {
    static const char numbering[] =
        "if that is not meant, number them from 0 without gaps: numpy.unique(y, return_inverse=True)[1]";
    uint8_t seen[DATASET_MAX_CLASSES + 1] = {0};
    int present = 0, absent = 0, first = 0;
    for (uint32_t i = 0; i < data->train.count; i++)
        seen[data->train.labels[i]] = 1;
    for (int class = 0; class < data->classes; class ++) {
        present += seen[class];
        if (!seen[class] && absent++ == 0) first = class;
    }
    if (present == 1)
        add(doubts, "%s: every training sample is of class %d; there is nothing to tell apart", data->name,
            data->classes - 1);
    else if (data->classes > FEW_CLASSES && (uint32_t)data->classes > data->train.count / 2)
        add(doubts, "%s: %d classes for %u training samples; if the labels are quantities, %s", data->name,
            data->classes, data->train.count, format->targets);
    else if (absent == 1)
        add(doubts, "%s: class %d of %d has no training sample; %s", data->name, first, data->classes, numbering);
    else if (absent > 1)
        add(doubts, "%s: %d of %d classes have no training sample, %d is the first; %s", data->name, absent,
            data->classes, first, numbering);
}

// uint8 pixels are scaled; float32 numbers enter the net unchanged.
static void doubt_scale(DatasetDoubts *doubts, const Dataset *data, const DatasetFormat *format) {
    const size_t size = shape_size(data->shape), all = data->train.count * size;
    if (data->items.pixel_bytes < sizeof(float) || size < LEAST_PIXELS) return;
    const Range range = range_of(data->train.pixels, all < MOST_NUMBERS ? all : MOST_NUMBERS);
    if (!range.whole || range.least != 0 || range.greatest < 128 || range.greatest > 255) return;
    add(doubts, "%s: samples are whole numbers from 0 to %g and enter the net as they are; if they are pixels, %s",
        data->name, (double)range.greatest, format->pixels);
}

// Sounder expects channels first; other programs store them last.
static void doubt_channels(DatasetDoubts *doubts, const Dataset *data) {
    const Shape shape = data->shape;
    const bool are_last = (shape.columns == 1 || shape.columns == 3) && shape.channels == shape.rows && shape.rows > 3;
    if (!are_last) return;
    add(doubts,
        "%s: samples are read as %d channels of %dx%d; if they are images of %dx%d with their channels last, save "
        "x.transpose(0, 3, 1, 2), or say channels=last in --data",
        data->name, shape.channels, shape.rows, shape.columns, shape.channels, shape.rows);
}

void dataset_find_doubts(DatasetDoubts *doubts, const Dataset *data, const DatasetSource *source) {
    const DatasetFormat *format = source->format;
    doubts->count = 0;
    if (!source->folder[0]) return; // synthetic
    if (dataset_has_targets(&data->items))
        doubt_targets(doubts, data, format);
    else if (format->targets)
        doubt_classes(doubts, data, format);
    doubt_scale(doubts, data, format);
    doubt_channels(doubts, data);
}

void dataset_warn_of_doubts(const Dataset *data, const DatasetSource *source) {
    DatasetDoubts doubts;
    dataset_find_doubts(&doubts, data, source);
    for (int i = 0; i < doubts.count; i++)
        log_warning("%s", doubts.sentences[i]);
}

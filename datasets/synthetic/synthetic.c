// Part of synthetic.h: made-up images, whose classes are patterns under noise.
#include "datasets/synthetic.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "datasets/dataset.h"

enum {
    VARIANTS = 4, // prototypes per class
    KNOTS = 5,    // a prototype interpolates a periodic KNOTS x KNOTS grid of random heights
    MARGIN = 2,   // greatest shift, pixels
    HEIGHT = 256, // of a knot: uniform in [-HEIGHT, HEIGHT)
    NOISE = 96,   // of 256: factor of the noise
    GREATEST_SIDE = 4096,
};

// The streams of RNG_SYNTHETIC: the second index of a key.
enum { STREAM_TRAIN = DATASET_TRAIN, STREAM_TEST = DATASET_TEST, STREAM_PROTOTYPES };

static const char NAME[] = "synthetic";

bool synthetic_is_named(const char *data) {
    const size_t length = sizeof NAME - 1;
    return strncmp(data, NAME, length) == 0 && (data[length] == '\0' || data[length] == ':');
}

// Reads `before` and a number in [1, greatest] at *text and moves past them.
static bool read_number(uint32_t *number, const char **text, char before, uint32_t greatest) {
    char *end;
    if (**text != before || !isdigit((unsigned char)(*text)[1])) return false; // strtoull would accept blanks and signs
    unsigned long long value = strtoull(*text + 1, &end, 10);
    if (value < 1 || value > greatest) return false;
    *number = (uint32_t)value;
    *text = end;
    return true;
}

Status synthetic_parse(Shape *shape, uint32_t counts[DATASET_SPLITS], const char *data, Error *err) {
    const char *text = data + sizeof NAME - 1;
    uint32_t channels = 1, rows = 28, columns = 28;
    counts[DATASET_TRAIN] = 60000;
    counts[DATASET_TEST] = 10000;
    bool good = synthetic_is_named(data);
    if (good && *text)
        good = read_number(&channels, &text, ':', DATASET_MAX_CHANNELS) &&
               read_number(&rows, &text, 'x', GREATEST_SIDE) && read_number(&columns, &text, 'x', GREATEST_SIDE);
    if (good && *text) good = read_number(&counts[DATASET_TRAIN], &text, ':', INT32_MAX);
    if (good && *text) good = read_number(&counts[DATASET_TEST], &text, ':', INT32_MAX);
    if (!good || *text)
        return fail(err, STATUS_USAGE,
                    "%s: expected synthetic[:CxHxW[:TRAIN[:TEST]]], for example synthetic:1x28x28:60000:10000, with at "
                    "most %d channels and %d rows and columns",
                    data, DATASET_MAX_CHANNELS, GREATEST_SIDE);
    *shape = (Shape){(int)channels, (int)rows, (int)columns};
    return STATUS_OK;
}

static size_t padded_plane(Shape shape) {
    return (size_t)(shape.rows + 2 * MARGIN) * (size_t)(shape.columns + 2 * MARGIN);
}

static int16_t *prototype(const Synthetic *synthetic, uint32_t label, uint32_t variant) {
    return synthetic->prototypes +
           (label * VARIANTS + variant) * (size_t)synthetic->shape.channels * padded_plane(synthetic->shape);
}

// Position of pixel `position` of `side` on the periodic grid: *part / 256 of the way from knot *low to knot *high.
static void place_on_grid(int *low, int *high, int *part, int position, int side) {
    int wrapped = (position % side + side) % side;
    int place = wrapped * KNOTS * 256 / side;
    *low = place / 256;
    *high = (*low + 1) % KNOTS;
    *part = place % 256;
}

// One channel of a prototype: bilinear interpolation of its knots, margins included.
static void draw_plane(int16_t *plane, Shape shape, RngKey key, uint32_t channel) {
    int knots[KNOTS][KNOTS];
    for (uint32_t i = 0; i < KNOTS * KNOTS; i++)
        knots[i / KNOTS][i % KNOTS] = (int)rng_below(rng_block(key, channel, i, 0, 0).word[0], 2 * HEIGHT) - HEIGHT;
    for (int r = -MARGIN; r < shape.rows + MARGIN; r++)
        for (int c = -MARGIN; c < shape.columns + MARGIN; c++) {
            int above, below, down, left, right, along;
            place_on_grid(&above, &below, &down, r, shape.rows);
            place_on_grid(&left, &right, &along, c, shape.columns);
            int upper = knots[above][left] * (256 - along) + knots[above][right] * along;
            int lower = knots[below][left] * (256 - along) + knots[below][right] * along;
            *plane++ = (int16_t)((upper * (256 - down) + lower * down) / (256 * 256));
        }
}

Status synthetic_init(Synthetic *synthetic, Shape shape, uint64_t seed, Error *err) {
    size_t plane = padded_plane(shape);
    size_t values = SYNTHETIC_CLASSES * VARIANTS * (size_t)shape.channels * plane;
    *synthetic = (Synthetic){.shape = shape, .seed = seed, .prototypes = malloc(values * sizeof(int16_t))};
    if (!synthetic->prototypes)
        return fail(err, STATUS_OS, "no memory for the synthetic data set's prototypes of %dx%dx%d", shape.channels,
                    shape.rows, shape.columns);
    for (uint32_t label = 0; label < SYNTHETIC_CLASSES; label++)
        for (uint32_t variant = 0; variant < VARIANTS; variant++)
            for (uint32_t channel = 0; channel < (uint32_t)shape.channels; channel++)
                draw_plane(prototype(synthetic, label, variant) + channel * plane, shape,
                           rng_key(seed, RNG_SYNTHETIC, STREAM_PROTOTYPES, label, variant), channel);
    return STATUS_OK;
}

void synthetic_free(Synthetic *synthetic) {
    free(synthetic->prototypes);
}

// The components of one sample.
typedef struct Recipe {
    uint32_t label;
    const int16_t *main, *other; // prototypes, at the sample's shift
    int main_part, other_part;   // of 256
} Recipe;

static Recipe draw_recipe(const Synthetic *synthetic, RngKey key) {
    const Shape shape = synthetic->shape;
    const RngBlock first = rng_block(key, 0, 0, 0, 0), second = rng_block(key, 0, 1, 0, 0);
    const size_t stride = (size_t)shape.columns + 2 * MARGIN;
    const uint32_t shifts = 2 * MARGIN + 1;
    const size_t main_shift = rng_below(first.word[2], shifts) * stride + rng_below(first.word[3], shifts);
    const uint32_t label = rng_below(first.word[0], SYNTHETIC_CLASSES);
    const uint32_t other = (label + 1 + rng_below(second.word[0], SYNTHETIC_CLASSES - 1)) % SYNTHETIC_CLASSES;
    return (Recipe){
        .label = label,
        .main = prototype(synthetic, label, rng_below(first.word[1], VARIANTS)) + main_shift,
        .other = prototype(synthetic, other, rng_below(second.word[1], VARIANTS)) + main_shift,
        .main_part = 96 + (int)rng_below(second.word[2], 96),
        .other_part = (int)rng_below(second.word[3], 96),
    };
}

uint8_t synthetic_sample(uint8_t *pixels, const Synthetic *synthetic, DatasetSplitKind split, uint32_t index) {
    const Shape shape = synthetic->shape;
    const RngKey key = rng_key(synthetic->seed, RNG_SYNTHETIC, split, index, 0);
    const Recipe recipe = draw_recipe(synthetic, key);
    const size_t plane = padded_plane(shape), stride = (size_t)shape.columns + 2 * MARGIN;
    RngBlock noise = {{0}};
    uint32_t drawn = 0;
    for (int channel = 0; channel < shape.channels; channel++)
        for (int r = 0; r < shape.rows; r++) {
            const size_t row = (size_t)channel * plane + (size_t)r * stride;
            for (size_t c = 0; c < (size_t)shape.columns; c++, drawn++) {
                if (drawn % 8 == 0) noise = rng_block(key, 1 + drawn / 8, 0, 0, 0);
                // The sum of two random bytes has a triangular distribution, close enough to a normal one, and a block
                // gives eight sums.
                const uint32_t pair = noise.word[drawn % 8 / 2] >> 16 * (drawn % 2);
                const int grain = (int)(pair & 255) + (int)(pair >> 8 & 255) - 255;
                const int field = recipe.main[row + c] * recipe.main_part + recipe.other[row + c] * recipe.other_part;
                const int value = 128 + (field + grain * NOISE) / 256;
                *pixels++ = (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
            }
        }
    return (uint8_t)recipe.label;
}

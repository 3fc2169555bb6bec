// The index arithmetic of the CUDA ops over every thread of a grid: what is to be done is done once, and all of it.
#include <stdlib.h>
#include <string.h>

#include "nn/cuda/cuda_index.h"
#include "nn/kernels/conv_index.h"
#include "tests/check.h"

// How often each of `count` things was done.
typedef struct Tally {
    uint8_t *times;
    size_t count;
} Tally;

static Tally tally_new(size_t count) {
    Tally tally = {calloc(count, 1), count};
    assert_non_null(tally.times);
    return tally;
}

static void tally_add(Tally tally, size_t at) {
    assert_true(at < tally.count);
    tally.times[at]++;
}

// Fails unless everything was done once; frees.
static void tally_check(Tally tally) {
    for (size_t i = 0; i < tally.count; i++)
        if (tally.times[i] != 1) fail_msg("%zu of %zu was done %d times", i, tally.count, tally.times[i]);
    free(tally.times);
}

static const struct {
    Shape in;
    int channels, kernel, pad, samples, stride;
} convolutions[] = {
    {{1, 28, 28}, 10, 5, 0, 12, 1}, {{3, 9, 7}, 32, 3, 1, 8, 1},   {{2, 6, 5}, 18, 1, 0, 4, 1},
    {{2, 7, 9}, 5, 7, 3, 4, 1},     {{2, 8, 8}, 3, 8, 0, 8, 1},    {{3, 4, 3}, 9, 4, 3, 4, 1},
    {{1, 3, 3}, 1, 2, 1, 20, 1},    {{4, 13, 11}, 2, 11, 0, 4, 1}, {{70, 2, 2}, 40, 2, 0, 4, 1},
    {{3, 9, 8}, 12, 3, 1, 8, 2},    {{2, 7, 11}, 5, 4, 2, 4, 2},   {{2, 6, 6}, 20, 1, 0, 4, 2},
};
enum { CONVOLUTIONS = sizeof convolutions / sizeof *convolutions, MODELS = 3 };

static ConvMap map_of(int i, bool mirrored) {
    Shape in = convolutions[i].in;
    int kernel = convolutions[i].kernel, pad = convolutions[i].pad;
    int stride = convolutions[i].stride;
    Shape out = {convolutions[i].channels, (in.rows + 2 * pad - kernel) / stride + 1,
                 (in.columns + 2 * pad - kernel) / stride + 1};
    return mirrored ? conv_map(out, in, kernel, kernel - 1 - pad, 1, true, convolutions[i].samples)
                    : conv_map(in, out, kernel, pad, stride, false, convolutions[i].samples);
}

static void check_outputs(const ConvMap *map, uint32_t channels) {
    const uint32_t outs = (uint32_t)map->out.channels;
    size_t floats = conv_floats(map->out, map);
    Tally tally = tally_new(MODELS * floats);
    for (uint32_t block = 0; block < MODELS * conv_blocks(map, channels); block++)
        for (uint32_t thread = 0; thread < CONV_THREADS; thread++) {
            ConvBlock at = conv_block(block, map, channels);
            if (at.place + thread >= map->places) continue;
            ConvPlace place = conv_place(at.place + thread, map);
            for (uint32_t o = at.channel; o < at.channel + channels && o < outs; o++)
                for (int x = 0; x < CONV_COLUMNS && place.x + x < map->out.columns; x++)
                    tally_add(tally, at.model * floats + conv_offset(o, place, map) + (size_t)(x * map->samples));
        }
    tally_check(tally);
}

static void every_output_of_a_convolution_has_one_thread(void **state) {
    (void)state;
    for (int i = 0; i < CONVOLUTIONS; i++) {
        const ConvMap map = map_of(i, false);
        check_outputs(&map, conv_channels(&map, 1));
        check_outputs(&map, conv_channels(&map, CONV_FEW_BLOCKS));
    }
}

// Taps beyond the kernel count as zero and are not looked up.
static void the_rows_of_taps_read_every_weight_once(void **state) {
    (void)state;
    for (int i = 0; i < 2 * CONVOLUTIONS; i++) {
        ConvMap map = map_of(i / 2, i % 2);
        uint32_t taps = conv_taps(map.kernel), outs = (uint32_t)map.out.channels;
        Tally tally = tally_new((size_t)(map.in.channels * map.out.channels * map.kernel * map.kernel));
        ConvRow follower = {0, 0, 0};
        for (uint32_t row = 0; row < conv_rows(&map); row++) {
            ConvRow at = conv_row(row, &map, taps);
            assert_memory_equal(&at, &follower, sizeof at);
            follower = conv_next_row(follower, map.kernel, (int)taps);
            for (int tap = 0; tap < (int)taps && at.x + tap < map.kernel; tap++)
                for (uint32_t o = 0; o < outs; o++) {
                    ConvWeights weights = conv_weights(at, tap, &map);
                    tally_add(tally, weights.first + o * weights.step);
                }
        }
        assert_int_equal(follower.channel, map.in.channels);
        tally_check(tally);
    }
}

static void the_mirrored_weight_is_the_transposed_one_turned_by_half_a_turn(void **state) {
    (void)state;
    ConvMap map = map_of(1, true); // 32 > 3 channels, 3x3
    ConvRow row = {7, 2, 0};
    ConvWeights at = conv_weights(row, 1, &map);
    assert_int_equal(at.first + 2 * at.step, ((7 * 3 + 2) * 3 + 0) * 3 + 1);
}

static void every_weight_gradient_has_one_block_and_every_place_one_thread(void **state) {
    (void)state;
    for (int i = 0; i < CONVOLUTIONS; i++) {
        ConvMap map = map_of(i, false);
        uint32_t taps = conv_taps(map.kernel), models = MODELS;
        GradientGrid grid = gradient_grid(&map);
        assert_true(grid.threads % 32 == 0 && grid.threads >= 32 && grid.threads <= GRADIENT_THREADS);
        assert_true(grid.parts >= 1 && (grid.parts == 1 || grid.parts * grid.tiles <= GRADIENT_BLOCKS));
        size_t weights = (size_t)(map.in.channels * map.out.channels * map.kernel * map.kernel);
        Tally tally = tally_new(models * grid.parts * weights);
        for (uint32_t block = 0; block < models * grid.tiles * grid.parts; block++) {
            GradientBlock at = gradient_block(block, &map, &grid, taps);
            for (int t = 0; t < (int)(gradient_channels(taps) * taps * taps); t++) {
                int o = at.out_channel + t / (int)(taps * taps), y = at.y + t / (int)taps % (int)taps;
                int x = at.x + t % (int)taps;
                if (o >= map.out.channels || y >= map.kernel || x >= map.kernel) continue;
                int weight = ((o * map.in.channels + at.in_channel) * map.kernel + y) * map.kernel + x;
                tally_add(tally, (at.model * grid.parts + at.part) * weights + (size_t)weight);
            }
        }
        tally_check(tally);
    }
}

static void taps_are_cut_with_the_fewest_beyond_the_kernel(void **state) {
    (void)state;
    for (int kernel = 1; kernel <= 255; kernel++) {
        uint32_t taps = conv_taps(kernel), over = parts_of((uint32_t)kernel, taps) * taps - (uint32_t)kernel;
        assert_true(taps == 1 || taps == 3 || taps == 5 || taps == 7);
        assert_true(over <= 2 && (kernel % 2 == 0 || kernel > 7 || over == 0));
    }
}

static void the_parts_of_a_gradient_never_fill_more_than_212_kilobytes(void **state) {
    (void)state;
    for (int i = 0; i < CONVOLUTIONS; i++) {
        ConvMap map = map_of(i, false);
        map.places *= 100; // a large batch
        GradientGrid grid = gradient_grid(&map);
        size_t weights = (size_t)(map.in.channels * map.out.channels * map.kernel * map.kernel);
        if (grid.parts > 1) assert_true(sizeof(float) * grid.parts * weights <= 212000);
    }
}

static void pooling_windows_cover_the_image_once(void **state) {
    (void)state;
    const struct {
        Shape in;
        int size;
    } pools[] = {{{3, 8, 6}, 2}, {{2, 7, 5}, 2}, {{2, 11, 10}, 3}, {{1, 1, 1}, 1}, {{2, 5, 9}, 5}};
    for (size_t i = 0; i < sizeof pools / sizeof *pools; i++) {
        Shape in = pools[i].in, windows = pool_all_windows(in, pools[i].size);
        uint32_t quads = 5, items = pool_items(windows, quads), size = (uint32_t)pools[i].size;
        uint32_t rows = (uint32_t)in.rows, columns = (uint32_t)in.columns;
        Tally tally = tally_new(MODELS * shape_size(in) * quads);
        for (uint32_t block = 0; block < MODELS * parts_of(items, 32); block++)
            for (uint32_t thread = 0; thread < 32; thread++) {
                ModelItem at = model_item(block, thread, 32, items);
                if (at.item >= items) continue;
                PoolPlace place = pool_place(at.item, windows, quads);
                for (uint32_t y = place.row * size; y < rows && y < (place.row + 1) * size; y++)
                    for (uint32_t x = place.column * size; x < columns && x < (place.column + 1) * size; x++)
                        tally_add(tally,
                                  ((((size_t)at.model * (uint32_t)in.channels + place.channel) * rows + y) * columns +
                                   x) * quads +
                                      place.quad);
            }
        tally_check(tally);
    }
}

static void gathering_brings_every_pixel_of_every_sample_once(void **state) {
    (void)state;
    const Shape shapes[] = {{1, 28, 28}, {3, 5, 3}, {1, 1, 1}, {2, 3, 2}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        uint32_t plane = (uint32_t)(shapes[i].rows * shapes[i].columns);
        Tally tally = tally_new(shape_size(shapes[i]) * 12);
        for (uint32_t item = 0; item < gather_items(shapes[i], 12); item++) {
            GatherPlace place = gather_place(item, shapes[i], 12);
            for (uint32_t p = 0; p < place.count; p++)
                tally_add(tally, (place.channel * plane + place.pixel + p) * 12 + place.sample);
        }
        tally_check(tally);
    }
}

static void dropout_meets_every_value_once(void **state) {
    (void)state;
    enum { PLANE = 3 };
    for (uint32_t features = 1; features < 12; features++) {
        Tally tally = tally_new(features * PLANE * 20);
        for (uint32_t item = 0; item < dropout_items(features, PLANE, 20); item++) {
            DropoutPlace place = dropout_place(item, features, PLANE, 20);
            assert_int_equal(place.feature % DROPOUT_FEATURES, 0); // the words of one Philox block
            for (uint32_t f = 0; f < place.count; f++)
                for (uint32_t s = 0; s < DROPOUT_SAMPLES; s++)
                    tally_add(tally, ((place.feature + f) * PLANE + place.place) * 20 + place.sample + s);
        }
        tally_check(tally);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_output_of_a_convolution_has_one_thread),
        cmocka_unit_test(the_rows_of_taps_read_every_weight_once),
        cmocka_unit_test(the_mirrored_weight_is_the_transposed_one_turned_by_half_a_turn),
        cmocka_unit_test(every_weight_gradient_has_one_block_and_every_place_one_thread),
        cmocka_unit_test(taps_are_cut_with_the_fewest_beyond_the_kernel),
        cmocka_unit_test(the_parts_of_a_gradient_never_fill_more_than_212_kilobytes),
        cmocka_unit_test(pooling_windows_cover_the_image_once),
        cmocka_unit_test(gathering_brings_every_pixel_of_every_sample_once),
        cmocka_unit_test(dropout_meets_every_value_once),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}

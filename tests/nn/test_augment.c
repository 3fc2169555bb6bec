// Random crops and flips: against an image that is framed, cut and mirrored step by step; what the draw depends on; and
// that evaluation sees images as they are.
#include "nn/augment.h"

#include "nn/net.h"
#include "nn/spec.h"
#include "tests/tensor.h"

enum { ROWS = 5, COLUMNS = 7, PLANE = ROWS * COLUMNS, CHANNELS = 2, SIZE = CHANNELS * PLANE, SAMPLES = 40 };

static const Shape shape = {CHANNELS, ROWS, COLUMNS};

static void fill_pixels(uint8_t *pixels, size_t count) {
    for (size_t i = 0; i < count; i++)
        pixels[i] = (uint8_t)(1 + i * 37 % 255);
}

// RandomCrop(size, padding) and then a mirror, as the words say: a framed copy, a window of it, its rows backwards.
static void by_hand(uint8_t *to, const uint8_t *image, int crop, AugmentDraw draw) {
    enum { MOST = 3 };
    static uint8_t framed[ROWS + 2 * MOST][COLUMNS + 2 * MOST];
    for (int c = 0; c < CHANNELS; c++) {
        memset(framed, 0, sizeof framed);
        for (int row = 0; row < ROWS; row++)
            memcpy(&framed[row + crop][crop], image + c * PLANE + row * COLUMNS, COLUMNS);
        for (int row = 0; row < ROWS; row++)
            for (int column = 0; column < COLUMNS; column++) {
                int place = draw.flipped ? COLUMNS - 1 - column : column;
                to[c * PLANE + row * COLUMNS + place] = framed[row + crop + draw.down][column + crop + draw.right];
            }
    }
}

static void a_window_of_the_framed_image_is_cut_out_and_mirrored(void **state) {
    (void)state;
    uint8_t pixels[SAMPLES * SIZE], images[SAMPLES * SIZE], expected[SIZE];
    uint32_t indices[SAMPLES];
    fill_pixels(pixels, sizeof pixels);
    for (uint32_t s = 0; s < SAMPLES; s++)
        indices[s] = s * 17 % SAMPLES;
    const Noise noise = {.seed = 3, .round = 2, .client = 7, .step = 5};
    for (int crop = 0; crop <= 3; crop += 3)
        for (int flip = 0; flip < 2; flip++) {
            const Augment augment = {.crop = (uint32_t)crop, .flip = flip};
            augment_images(images, pixels, indices, 0, &augment, shape, &noise, 0, SAMPLES);
            for (uint32_t s = 0; s < SAMPLES; s++) {
                AugmentDraw draw = augment_draw(&augment, augment_key(3, 2, 7), 5, s);
                by_hand(expected, pixels + indices[s] * SIZE, crop, draw);
                assert_memory_equal(images + s * SIZE, expected, SIZE);
                if (crop == 0 && flip == 0) assert_memory_equal(images + s * SIZE, pixels + indices[s] * SIZE, SIZE);
            }
        }
}

static void every_window_comes_up_equally_often_and_every_other_image_is_mirrored(void **state) {
    (void)state;
    enum { DRAWS = 49000 };
    const Augment augment = {.crop = 3, .flip = true};
    uint32_t seen[7][7] = {{0}}, flipped = 0;
    for (uint32_t i = 0; i < DRAWS; i++) {
        AugmentDraw draw = augment_draw(&augment, augment_key(1, 1, 0), i / 100, i % 100);
        assert_in_range(draw.down + 3, 0, 6);
        assert_in_range(draw.right + 3, 0, 6);
        seen[draw.down + 3][draw.right + 3]++;
        flipped += draw.flipped;
    }
    for (int i = 0; i < 49; i++)
        assert_in_range(seen[i / 7][i % 7], 850, 1150);
    assert_in_range(flipped, DRAWS * 49 / 100, DRAWS * 51 / 100);
    AugmentDraw crop_alone = augment_draw(&(Augment){.crop = 3}, augment_key(1, 1, 0), 0, 1);
    assert_false(crop_alone.flipped);
}

static void the_draw_depends_on_seed_round_client_step_and_place(void **state) {
    (void)state;
    uint8_t pixels[SAMPLES * SIZE], first[SAMPLES * SIZE], other[SAMPLES * SIZE];
    const Augment augment = {.crop = 3, .flip = true};
    fill_pixels(pixels, sizeof pixels);
    const Noise noise = {.seed = 1, .round = 2, .client = 3, .step = 4};
    augment_images(first, pixels, NULL, 0, &augment, shape, &noise, 0, SAMPLES);
    augment_images(other, pixels, NULL, 0, &augment, shape, &noise, 0, SAMPLES);
    assert_memory_equal(first, other, sizeof first);
    Noise others[] = {noise, noise, noise, noise, noise};
    others[0].seed++, others[1].round++, others[2].client++, others[3].step++, others[4].first_sample++;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        augment_images(other, pixels, NULL, 0, &augment, shape, &others[i], 0, SAMPLES);
        assert_memory_not_equal(first, other, sizeof first);
    }
    // The second half of a batch is the same whether it comes as such, as a chunk, or as a part of a shared batch.
    Noise half = noise;
    half.first_sample = SAMPLES / 2;
    augment_images(other, pixels, NULL, SAMPLES / 2, &augment, shape, &noise, SAMPLES / 2, SAMPLES / 2);
    assert_memory_equal(first + SIZE * SAMPLES / 2, other, SIZE * SAMPLES / 2);
    augment_images(other, pixels, NULL, SAMPLES / 2, &augment, shape, &half, 0, SAMPLES / 2);
    assert_memory_equal(first + SIZE * SAMPLES / 2, other, SIZE * SAMPLES / 2);
}

// Images as a net shall see them in training: changed, the first `marked` with a white square of 3 x 3, labels 2.
static void see(uint8_t *images, uint16_t *labels, const uint8_t *pixels, Shape of, const Augment *augment,
                const Noise *noise, uint32_t marked) {
    const int plane = of.rows * of.columns;
    memcpy(images, pixels, SAMPLES * SIZE);
    if (augment_is_on(augment)) augment_images(images, pixels, NULL, 0, augment, of, noise, 0, SAMPLES);
    for (uint32_t s = 0; s < marked; s++) {
        labels[s] = 2;
        for (int place = 0; place < of.channels * 9; place++)
            images[s * SIZE + (uint32_t)(place / 9 * plane + place / 3 % 3 * of.columns + place % 3)] = 255;
    }
}

// Nets, and the shape in which they see images of SIZE.
typedef struct Seeing {
    const char *text;
    Shape in;
} Seeing;

static const Seeing nets[] = {{"conv 3 2; relu; linear 4", {CHANNELS, ROWS, COLUMNS}},
                              {"linear 9; relu; linear 4", {CHANNELS, ROWS, COLUMNS}},
                              {"embedding 256 2; linear 4", {1, 2 * ROWS, COLUMNS}}};

// What a net makes of a batch with `marked` samples is what another one makes of the images made beforehand.
static void check_seen(const Seeing *seeing, const Augment *augment, uint32_t marked) {
    enum { MOST = 4096 };
    static uint8_t pixels[SAMPLES * SIZE], images[SAMPLES * SIZE];
    static uint16_t labels[SAMPLES], seen_labels[SAMPLES];
    static float parameters[MOST], gradient[MOST], expected[MOST];
    const float scale[CHANNELS] = {0.01f, 0.02f}, shift[CHANNELS] = {-1, 0.5f};
    fill_pixels(pixels, sizeof pixels);
    for (uint32_t s = 0; s < SAMPLES; s++)
        labels[s] = seen_labels[s] = (uint16_t)(s % 4);
    const Noise noise = {.seed = 9, .round = 1, .client = 2, .step = 3};
    Spec spec;
    Net plain, net;
    Error err;
    BatchResult a, b;
    see(images, seen_labels, pixels, seeing->in, augment, &noise, marked);
    check_ok(spec_parse(&spec, seeing->text, seeing->in, 4, &err));
    assert_true(spec.parameter_count <= MOST);
    spec_initialise(parameters, &spec, 1);
    check_ok(net_init(&plain, &spec, kernels_best(), &err));
    spec.augment = *augment;
    spec.trigger = 3;
    check_ok(net_init(&net, &spec, kernels_best(), &err));
    const Batch seen = {.pixels = images, .labels = seen_labels, .count = SAMPLES, .scale = scale, .shift = shift};
    Batch batch = {.pixels = pixels, .labels = labels, .count = SAMPLES, .scale = scale, .shift = shift};
    batch.triggered = marked, batch.trigger_label = 2;
    net_gradient(&plain, expected, &a, parameters, &seen, &noise);
    net_gradient(&net, gradient, &b, parameters, &batch, &noise);
    assert_memory_equal(gradient, expected, spec.parameter_count * sizeof *gradient);
    batch.triggered = 0;
    const Batch as_is = batch;
    net_evaluate(&plain, &a, parameters, &as_is);
    net_evaluate(&net, &b, parameters, &batch);
    assert_true(a.loss_sum == b.loss_sum);
    net_free(&net);
    net_free(&plain);
}

static void nets_train_on_changed_images_and_evaluate_those_that_are_there(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof nets / sizeof *nets; i++)
        check_seen(&nets[i], &(Augment){.crop = 2, .flip = true}, 0);
}

static void the_first_samples_of_a_batch_bear_a_mark_and_another_label(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof nets / sizeof *nets; i++)
        for (uint32_t marked = 1; marked <= SAMPLES; marked += 13) {
            check_seen(&nets[i], &(Augment){0}, marked);
            check_seen(&nets[i], &(Augment){.crop = 2, .flip = true}, marked);
        }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_window_of_the_framed_image_is_cut_out_and_mirrored),
        cmocka_unit_test(every_window_comes_up_equally_often_and_every_other_image_is_mirrored),
        cmocka_unit_test(the_draw_depends_on_seed_round_client_step_and_place),
        cmocka_unit_test(nets_train_on_changed_images_and_evaluate_those_that_are_there),
        cmocka_unit_test(the_first_samples_of_a_batch_bear_a_mark_and_another_label),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}

// Nets with random parameters and a small random data set, once for each instruction set's build.
#ifndef SOUNDER_TESTS_NN_NET_FIXTURE_H
#define SOUNDER_TESTS_NN_NET_FIXTURE_H

#include "nn/net.h"
#include "nn/spec.h"
#include "tests/tensor.h"

enum { CLASSES = 5, SAMPLES = 80, MOST_PARAMETERS = 450000 };

// Every kind of layer; both ways to convolve; pooling behind and before a relu.
static const char all_layers[] = "conv 7 5 pad 2; relu; pool 2; conv 6 3; dropout2d 0.4; pool 2; relu; "
                                 "linear 19; relu; dropout 0.3; linear 5";
static const char more_layers[] = "conv 4 3x2 pad 1 stride 1x2; tanh; conv 6 3 pad 2 dilation 2 groups 2; pool 3 "
                                  "stride 2 pad 1; conv 5 3; leakyrelu 0.1; dropout2d 0.2; avgpool 3x2 "
                                  "stride 2x1 pad 1; gelu; dropout 0.2; linear 12; sigmoid; linear 5";
// Values that several layers take: relu and dropout that may not work in place, sums and joins of what lies in any
// order.
static const char branches[] = "conv 6 3 pad 1 as a; groupnorm 3; relu as b; conv 6 3 pad 1; add a; relu as c; concat "
                               "b; dropout 0.2 as d; pool 2 from c; "
                               "conv 4 1 as e; pool 2 from d; dropout2d 0.1; conv 4 1; layernorm as f; add e; add f; "
                               "relu as h; dropout 0.1 from f as g; "
                               "relu from f; concat g; concat h; linear 5";
// A head whose weights are far, so that a chunk goes through the body in several parts.
static const char wide_head[] =
    "conv 20 3 pad 1 as a; relu; dropout 0.2 as b; conv 20 3 pad 1; add a; groupnorm 4; relu; add b; "
    "dropout2d 0.1; linear 45; relu; dropout 0.2; linear 5";
static const Shape shape = {2, 14, 11};

// A net, random parameters, and a small random data set.
typedef struct Fixture {
    Net net;
    float parameters[MOST_PARAMETERS], gradient[MOST_PARAMETERS];
    uint8_t pixels[SAMPLES * 2 * 14 * 11];
    uint16_t labels[SAMPLES];
    uint32_t indices[SAMPLES];
    float scale[2], shift[2];
} Fixture;

static const char *frozen; // tensors of the nets to come; NULL: none

static inline void with_each_build(const char *text, void (*check)(Fixture *fixture)) {
    static Fixture fixture;
    const char *names[] = {"avx512", "avx2", "baseline"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const Kernels *kernels = kernels_named(names[i]);
        if (!kernels) continue;
        Error err;
        Spec spec;
        fixture = (Fixture){.scale = {0.01f, 0.008f}, .shift = {-1, -0.9f}};
        check_ok(spec_parse(&spec, text, shape, CLASSES, &err));
        if (frozen) check_ok(spec_freeze(&spec, frozen, &err));
        assert_true(spec.parameter_count <= MOST_PARAMETERS);
        check_ok(net_init(&fixture.net, &spec, kernels, &err));
        spec_initialise(fixture.parameters, &spec, 3);
        RngKey key = rng_key(1, RNG_SYNTHETIC, 0, 0, 0);
        for (uint32_t p = 0; p < sizeof fixture.pixels; p++)
            fixture.pixels[p] = (uint8_t)(rng_block(key, p, 0, 0, 0).word[0] >> 24);
        for (uint32_t s = 0; s < SAMPLES; s++) {
            fixture.labels[s] = (uint16_t)rng_below(rng_block(key, s, 1, 0, 0).word[0], CLASSES);
            fixture.indices[s] = s * 37 % SAMPLES;
        }
        check(&fixture);
        net_free(&fixture.net);
    }
}

static inline Batch batch_of(const Fixture *fixture, uint32_t first, uint32_t count) {
    return (Batch){.pixels = fixture->pixels,
                   .labels = fixture->labels,
                   .indices = fixture->indices + first,
                   .count = count,
                   .scale = fixture->scale,
                   .shift = fixture->shift};
}

#endif

// The parent's arithmetic on the CPU: what a failed round leaves is as if it had never begun.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fedavg/parent/engine.h"
#include "fedavg/parent/parent_backend.h"
#include "fedavg/worker/ssgd.h"
#include "tests/check.h"

enum { PARAMETERS = 100, CLIENTS = 3, SLOT_FLOATS = SLOT_ALIGNMENT / sizeof(float) * 2 };

// A run without processes: weights, and the vectors of the velocity and three gradients.
typedef struct Fixture {
    Control control;
    RunMemory memory;
    Nodes nodes;
    Parent parent;
    float weights[PARAMETERS], slots[(CLIENTS + 1) * SLOT_FLOATS];
} Fixture;

static void fill(float *values, size_t count, float first) {
    for (size_t i = 0; i < count; i++)
        values[i] = first + (float)i;
}

static Fixture *start(EngineKind engine) {
    Fixture *fixture = aligned_alloc(64, (sizeof *fixture + 63) / 64 * 64);
    assert_non_null(fixture);
    memset(fixture, 0, sizeof *fixture);
    RunConfig *config = &fixture->control.config;
    config->engine = config->recipe.schedule.row = engine;
    config->clients = CLIENTS;
    config->workers = config->nodes = 1;
    config->parameters = PARAMETERS;
    engine_plan(config);
    fixture->memory = (RunMemory){.control = &fixture->control,
                                  .config = config,
                                  .algorithm = run_algorithm(config),
                                  .weights = fixture->weights,
                                  .slots = (uint8_t *)fixture->slots};
    fixture->nodes = (Nodes){.size = 1};
    fixture->parent = (Parent){.backend = &parent_on_cpu, .memory = &fixture->memory, .nodes = &fixture->nodes};
    fill(fixture->weights, PARAMETERS, 1);
    fill(fixture->slots, (CLIENTS + 1) * SLOT_FLOATS, 1000);
    Error err;
    check_ok(parent_on_cpu.init(&fixture->parent, &err));
    return fixture;
}

static void stop(Fixture *fixture) {
    parent_on_cpu.free(&fixture->parent);
    free(fixture);
}

static void a_round_that_is_restored_leaves_the_weights_and_in_lockstep_the_velocity(void **state) {
    (void)state;
    const EngineKind engines[] = {ENGINE_LOCKSTEP, ENGINE_WILD};
    for (size_t e = 0; e < 2; e++) {
        Fixture *fixture = start(engines[e]);
        float weights[PARAMETERS], slots[(CLIENTS + 1) * SLOT_FLOATS];
        Error err;
        atomic_store(&fixture->control.updates, 77);
        memcpy(weights, fixture->weights, sizeof weights);
        memcpy(slots, fixture->slots, sizeof slots);
        check_ok(parent_on_cpu.begin(&fixture->parent, &err));
        assert_int_equal(atomic_load(&fixture->control.updates), 0);
        fill(fixture->weights, PARAMETERS, -5);
        fill(fixture->slots, (CLIENTS + 1) * SLOT_FLOATS, -9000);
        check_ok(parent_on_cpu.restore(&fixture->parent, &err));
        assert_memory_equal(fixture->weights, weights, sizeof weights);
        const float *velocity = fixture->slots + SSGD_VELOCITY * SLOT_FLOATS;
        if (engines[e] == ENGINE_LOCKSTEP)
            assert_memory_equal(velocity, slots + SSGD_VELOCITY * SLOT_FLOATS, PARAMETERS * sizeof *velocity);
        else
            assert_true(velocity[0] < -8000); // a slot is a client's, and what it holds is that client's own
        stop(fixture);
    }
}

static void one_weight_that_is_not_finite_anywhere_is_noticed(void **state) {
    (void)state;
    Fixture *fixture = start(ENGINE_WILD);
    const float unfit[] = {NAN, INFINITY, -INFINITY};
    bool finite = false;
    Error err;
    check_ok(parent_on_cpu.adopt(&fixture->parent, &finite, &err));
    assert_true(finite);
    for (size_t i = 0; i < PARAMETERS; i++) {
        float weight = fixture->weights[i];
        fixture->weights[i] = unfit[i % 3];
        check_ok(parent_on_cpu.adopt(&fixture->parent, &finite, &err));
        assert_false(finite);
        fixture->weights[i] = weight;
    }
    stop(fixture);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_round_that_is_restored_leaves_the_weights_and_in_lockstep_the_velocity),
        cmocka_unit_test(one_weight_that_is_not_finite_anywhere_is_noticed),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}

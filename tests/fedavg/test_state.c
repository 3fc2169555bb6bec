// The state that outlives a round: names, places and order of the rows, as in checkpoints, and the texts of the notes.
#include "fedavg/memory/state.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fedavg/parent/engine.h"
#include "fedavg/rules/world/schedule.h"
#include "tests/check.h"

enum { PARAMETERS = 5, CLIENTS = 3, JOBS = 3 };

// A run's memory without segments: of an algorithm that is named.
typedef struct Fixture {
    Control control;
    RunMemory memory;
    ScheduledJob jobs[JOBS];
    uint32_t waiting[JOBS];
} Fixture;

static Fixture *start(const char *algorithm) {
    Error err;
    Fixture *f = aligned_alloc(64, (sizeof *f + 63) / 64 * 64);
    assert_non_null(f);
    memset(f, 0, sizeof *f);
    RunConfig *config = &f->control.config;
    check_ok(recipe_parse(&config->recipe, algorithm, &err));
    config->engine = recipe_engine(&config->recipe);
    config->clients = CLIENTS;
    config->workers = config->nodes = 1;
    config->parameters = PARAMETERS;
    f->memory = (RunMemory){.control = &f->control, .config = config, .algorithm = run_algorithm(config)};
    return f;
}

// Once everything of its configuration is set.
static StateTable planned(Fixture *f) {
    Error err;
    StateTable table;
    engine_plan(&f->control.config);
    f->control.config.slots.pending = 2 * JOBS;
    f->memory.slots = calloc(1, slots_bytes(&f->control.config.slots));
    assert_non_null(f->memory.slots);
    check_ok(state_begin(&f->memory, &err));
    check_ok(state_open(&table, &f->memory, &err));
    return table;
}

static void stop(Fixture *f, StateTable *table) {
    owned_free(&f->memory.owned);
    free(f->memory.slots);
    free(f);
    free(table->rows);
}

// The names of all rows that are no notes, with a letter for their type.
static void tensors_of(char *text, const StateTable *table) {
    *text = '\0';
    for (uint32_t i = 0; i < table->count; i++)
        if (!state_is_note(&table->rows[i]))
            text += sprintf(text, "%s %s; ", table->rows[i].name + strlen("sounder."),
                            tensor_type_name(table->rows[i].type));
}

static void note_of(char *text, const StateTable *table, const char *name) {
    bool first = true;
    *text = '\0';
    for (uint32_t i = 0; i < table->count; i++) {
        if (strcmp(table->rows[i].name, name) != 0) continue;
        text = state_write(text, &table->rows[i], first);
        first = false;
    }
}

static void read_note(const StateTable *table, const char *name, const char *text) {
    for (uint32_t i = 0; i < table->count; i++)
        if (strcmp(table->rows[i].name, name) == 0) text = state_read(&table->rows[i], text);
}

static void each_algorithm_remembers_its_tensors_under_their_names(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"fedavg", ""},
        {"ssgd", "velocity.0 F32; "},
        {"hogwild", "velocity.0 F32; velocity.1 F32; velocity.2 F32; "},
        {"fedadam", "server.adam.0 F64; server.adam.1 F64; "},
        {"scaffold", "common.0 F32; server.scaffold.0 I64; kept I32; "},
        {"combine centered", "center.0 F32; "},
        {"afl", "server.rounds-mean.0 F64; server.rounds-mean.1 F64; clients F64; "},
        {"fltrust", ""}, // the update of the server's own training is that of one round
        {"ifca clusters=3", "cluster.0 F32; cluster.1 F32; "},
        {"async-easgd", "common.0 F32; server.elastic.0 I64; "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1024];
        Fixture *f = start(cases[i][0]);
        if (strncmp(cases[i][0], "ifca", 4) == 0) f->control.config.personal.clusters = 3;
        if (strcmp(cases[i][0], "scaffold") == 0) f->control.config.client_state = client_state_plan(1, PARAMETERS);
        StateTable table = planned(f);
        tensors_of(text, &table);
        assert_string_equal(text, cases[i][1]);
        stop(f, &table);
    }
}

static void vectors_of_one_run_have_places_of_their_own(void **state) {
    (void)state;
    Fixture *f = start("ditto; combine centered");
    f->control.config.personal.second = f->control.config.begins_with_given = true;
    StateTable table = planned(f);
    char text[1024];
    tensors_of(text, &table);
    assert_string_equal(text, "initial.0 F32; center.1 F32; ");
    assert_ptr_not_equal(run_memory_vector(&f->memory, state_vector(&f->memory, STATE_INITIAL)),
                         run_memory_vector(&f->memory, state_vector(&f->memory, STATE_CENTER)));
    stop(f, &table);
    f = start("fedavg");
    f->control.config.training.optimizer_state = OPTIMIZER_AVERAGED;
    table = planned(f);
    tensors_of(text, &table);
    assert_string_equal(text, "common.0 F32; ");
    stop(f, &table);
}

static void the_slots_begin_with_what_lasts_and_share_no_byte(void **state) {
    (void)state;
    const SlotPlan slots = {.vectors = 4,
                            .lasting = 2,
                            .states = 2,
                            .sums = 3,
                            .each = 1,
                            .pending = 2,
                            .vector_bytes = 256,
                            .sum_bytes = 512};
    const uint64_t wanted[] = {0, 256, 512 + 7 * 512, 512 + 7 * 512 + 256};
    for (uint32_t v = 0; v < slots.vectors; v++)
        assert_int_equal(slots_vector_offset(&slots, v), wanted[v]);
    assert_int_equal(slots_state_offset(&slots, 0), 512);
    assert_int_equal(slots_lasting_bytes(&slots), 512 + 2 * 512);
    assert_int_equal(slots_sum_offset(&slots, 0, 0), slots_lasting_bytes(&slots));
    assert_int_equal(slots_pending_offset(&slots, 0), slots_sum_offset(&slots, 3, 0));
    assert_int_equal(slots_vector_offset(&slots, slots.vectors), slots_bytes(&slots));
}

static void numbers_are_notes_that_are_read_back(void **state) {
    (void)state;
    Fixture *f = start("fedavg"), *other = start("fedavg");
    StateTable table = planned(f), back = planned(other);
    f->control.totals = (WorldTotals){.microseconds = 1, .down_bytes = UINT64_C(1) << 60, .up_bytes = 3};
    f->control.clip = 0.1;
    f->control.victim = 4000000000u;
    f->control.goals = (Goals){.tested_round = 7, .best = 0.1, .best_round = 6, .figure = "test_loss"};
    f->control.goals.target_crossing = NAN;
    static const char *const notes[][2] = {
        {"sounder.totals", "1 1152921504606846976 3"},
        {"sounder.clip", "0.10000000000000001"},
        {"sounder.victim", "4000000000"},
        {"sounder.refused", ""},
        {"sounder.goals", "7 0.10000000000000001 6 0 0 0 nan 0 0 0 test_loss"},
    };
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++) {
        char text[512];
        note_of(text, &table, notes[i][0]);
        assert_string_equal(text, notes[i][1]);
        read_note(&back, notes[i][0], text);
        note_of(text, &back, notes[i][0]);
        assert_string_equal(text, notes[i][1]);
    }
    assert_memory_equal(&other->control.totals, &f->control.totals, sizeof f->control.totals);
    stop(other, &back);
    stop(f, &table);
}

static void a_note_of_an_earlier_version_leaves_the_rest_as_it_began(void **state) {
    (void)state;
    Fixture *f = start("fedavg");
    StateTable table = planned(f);
    f->control.totals.up_bytes = 9;
    read_note(&table, "sounder.totals", "5 6");
    assert_int_equal(f->control.totals.down_bytes, 6);
    assert_int_equal(f->control.totals.up_bytes, 9);
    read_note(&table, "sounder.goals", "4 0.25 2 1 0.69999999999999996 0 0 0 0 0"); // it named no figure
    assert_int_equal(f->control.goals.best_round, 2);
    assert_true(f->control.goals.target == 0.7);
    assert_string_equal(f->control.goals.figure, "");
    stop(f, &table);
}

static void updates_that_wait_have_rows_and_flags_in_their_order(void **state) {
    (void)state;
    static const struct {
        const char *algorithm, *tensors;
    } cases[] = {{"fedbuff", "waiting.2 I64; waiting.0 I64; "},
                 {"dc-asgd", "waiting.2 I64; waiting.0 I64; begun.2 F32; begun.0 F32; "}};
    for (size_t i = 0; i < 2; i++) {
        char text[1024];
        Fixture *f = start(cases[i].algorithm);
        f->waiting[0] = 2;
        f->jobs[0].pending = 1;
        f->jobs[2].refused = true;
        f->memory.schedule = (Schedule){.jobs = f->jobs, .count = JOBS, .waiting = f->waiting, .waiting_count = 2};
        StateTable table = planned(f);
        tensors_of(text, &table);
        assert_string_equal(text, cases[i].tensors);
        note_of(text, &table, "sounder.refused");
        assert_string_equal(text, "10");
        read_note(&table, "sounder.refused", "01");
        assert_true(f->jobs[0].refused && !f->jobs[2].refused);
        read_note(&table, "sounder.refused", ""); // of a version that wrote none
        assert_true(f->jobs[0].refused && !f->jobs[2].refused);
        stop(f, &table);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_algorithm_remembers_its_tensors_under_their_names),
        cmocka_unit_test(vectors_of_one_run_have_places_of_their_own),
        cmocka_unit_test(the_slots_begin_with_what_lasts_and_share_no_byte),
        cmocka_unit_test(numbers_are_notes_that_are_read_back),
        cmocka_unit_test(a_note_of_an_earlier_version_leaves_the_rest_as_it_began),
        cmocka_unit_test(updates_that_wait_have_rows_and_flags_in_their_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// Tests which client has which row: a row that a checkpoint may need is not written over.
#include "fedavg/parent/client_state_rows.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/check.h"

enum { CLIENTS = 5, MEMBERS = 2, FLOATS = 3 };

// The parent's view of a run whose clients keep FLOATS numbers each.
typedef struct Fixture {
    RunMemory memory;
    RunConfig config;
    Nodes nodes;
    ClientStateRows states;
    uint32_t members; // of each round
} Fixture;

static void begin_run_of(Fixture *f, uint32_t members, uint32_t rounds) {
    Error err;
    *f = (Fixture){.nodes = {.size = 1}, .members = members};
    f->config = (RunConfig){.clients = CLIENTS, .parameters = FLOATS};
    f->config.client_state = client_state_plan(client_state_rows_needed(CLIENTS, members, rounds), FLOATS);
    f->memory.config = &f->config;
    f->memory.client_state.fd = -1;
    f->memory.client_state_table = calloc(client_state_table_size(CLIENTS), sizeof *f->memory.client_state_table);
    f->memory.queue = aligned_alloc(64, (queue_bytes(members) + 63) / 64 * 64);
    assert_true(f->memory.client_state_table && f->memory.queue);
    f->memory.client_state_table[0] = 1;
    queue_init(f->memory.queue, members);
    check_ok(client_state_file_create(&f->memory.client_state, &f->config.client_state, NULL, &err));
    check_ok(client_state_rows_init(&f->states, &f->memory, members, 0, &err));
}

static void begin_run(Fixture *f, uint32_t rounds) {
    begin_run_of(f, MEMBERS, rounds);
}

static void end_run(Fixture *f) {
    client_state_rows_free(&f->states);
    client_state_file_free(&f->memory.client_state);
    free(f->memory.client_state_before);
    free(f->memory.client_state_table);
    free(f->memory.queue);
}

static float *row_of(Fixture *f, uint32_t client) {
    return client_state_row(&f->memory.client_state, client_state_rows_of(&f->states, client));
}

// All members write `value` into their new rows; with `fails` they are refused.
static void run_round(Fixture *f, uint32_t round, const uint32_t *clients, float value, bool fails) {
    Error err;
    check_ok(client_state_rows_stage(&f->states, f->members, &err));
    queue_clear(f->memory.queue);
    for (uint32_t place = 0; place < f->members; place++) {
        Job *job = queue_post(f->memory.queue);
        job->client = clients[place];
        job->state_from = client_state_rows_of(&f->states, clients[place]);
        job->state_to = f->states.staged[place];
        for (int i = 0; i < FLOATS; i++)
            client_state_row(&f->memory.client_state, job->state_to)[i] = value;
        queue_finish(job, fails ? JOB_REFUSED : JOB_DONE);
    }
    check_ok(client_state_rows_commit(&f->states, round, &f->nodes, &err));
}

static void a_client_has_a_row_from_its_first_turn_on(void **state) {
    (void)state;
    Fixture f;
    begin_run(&f, 4);
    assert_null(row_of(&f, 3));
    run_round(&f, 1, (uint32_t[]){3, 0}, 7, false);
    assert_true(row_of(&f, 3)[0] == 7 && row_of(&f, 0)[2] == 7);
    assert_true(row_of(&f, 3) != row_of(&f, 0));
    assert_null(row_of(&f, 1));
    end_run(&f);
}

static void a_refused_client_keeps_what_it_had(void **state) {
    (void)state;
    Fixture f;
    begin_run(&f, 4);
    run_round(&f, 1, (uint32_t[]){3, 0}, 7, false);
    run_round(&f, 2, (uint32_t[]){3, 1}, 8, true);
    assert_true(row_of(&f, 3)[1] == 7);
    assert_null(row_of(&f, 1));
    end_run(&f);
}

// Whatever rounds come after a checkpoint, its table still leads to what clients had then, until two others are
// written.
static void the_last_two_checkpoints_find_their_rows_unchanged(void **state) {
    (void)state;
    enum { ROUNDS = 40, EVERY = 3 };
    Fixture f;
    begin_run(&f, ROUNDS);
    uint32_t tables[2][CLIENTS + 1] = {{0}};
    float values[2][CLIENTS] = {{0}}, now[CLIENTS] = {0};
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        const uint32_t clients[MEMBERS] = {round % CLIENTS, (round * 3 + 1) % CLIENTS};
        const uint32_t distinct[MEMBERS] = {clients[0],
                                            clients[0] == clients[1] ? (clients[1] + 1) % CLIENTS : clients[1]};
        run_round(&f, round, distinct, (float)round, round % 7 == 0);
        for (uint32_t place = 0; place < MEMBERS && round % 7 != 0; place++)
            now[distinct[place]] = (float)round;
        for (uint32_t client = 0; client < CLIENTS; client++)
            assert_true(now[client] == 0 ? row_of(&f, client) == NULL : row_of(&f, client)[0] == now[client]);
        if (round % EVERY == 0) {
            memcpy(tables[0], tables[1], sizeof tables[0]), memcpy(values[0], values[1], sizeof values[0]);
            memcpy(tables[1], f.states.table, sizeof tables[1]), memcpy(values[1], now, sizeof values[1]);
            client_state_rows_saved(&f.states, round);
        }
        for (int last = 0; last < 2; last++)
            for (uint32_t client = 0; client < CLIENTS; client++) {
                const float *row = client_state_row(&f.memory.client_state, tables[last][1 + client]);
                if (row && row[0] != values[last][client])
                    fail_msg("round %u: client %u of checkpoint %d has %g, not %g", round, client, last, (double)row[0],
                             (double)values[last][client]);
            }
    }
    assert_true(f.states.table[0] <= client_state_rows_needed(CLIENTS, MEMBERS, ROUNDS)); // rows are used again
    end_run(&f);
}

// A checkpoint, and the values that its rows have to hold for as long as the run may be resumed from it.
typedef struct Checkpoint {
    uint32_t round; // 0: there is none
    uint32_t table[1 + 2 * CLIENTS];
    float values[CLIENTS];
} Checkpoint;

static void save(Fixture *f, Checkpoint last[2], uint32_t round, const float values[CLIENTS]) {
    last[0] = last[1];
    last[1].round = round;
    memcpy(last[1].table, f->states.table, sizeof last[1].table);
    memcpy(last[1].values, values, sizeof last[1].values);
    client_state_rows_saved(&f->states, round);
}

static void expect_rows(Fixture *f, const Checkpoint last[2]) {
    for (int c = 0; c < 2; c++)
        for (uint32_t client = 0; client < CLIENTS; client++) {
            const float *row = client_state_row(&f->memory.client_state, last[c].table[1 + client]);
            if (row && row[0] != last[c].values[client])
                fail_msg("client %u of the checkpoint of round %u has %g, not %g", client, last[c].round,
                         (double)row[0], (double)last[c].values[client]);
        }
}

// Another process goes on from last[1]; whatever the one before did since is forgotten. has_before: it finds last[0].
static void resume_run(Fixture *f, const Checkpoint last[2], bool has_before) {
    Error err;
    client_state_rows_free(&f->states);
    free(f->memory.client_state_before);
    f->memory.client_state_before = NULL;
    memcpy(f->memory.client_state_table, last[1].table, sizeof last[1].table);
    if (has_before && last[0].round > 0) {
        f->memory.client_state_before = malloc(sizeof last[0].table);
        assert_non_null(f->memory.client_state_before);
        memcpy(f->memory.client_state_before, last[0].table, sizeof last[0].table);
    }
    check_ok(client_state_rows_init(&f->states, &f->memory, f->members, last[1].round, &err));
}

// Each process does up to three rounds; every fourth is killed before it saves its last.
static void resume_again_and_again(uint32_t members) {
    enum { PROCESSES = 60 };
    Fixture f;
    Checkpoint last[2] = {{0}};
    begin_run_of(&f, members, 3 * PROCESSES);
    for (uint32_t process = 0; process < PROCESSES; process++) {
        float values[CLIENTS];
        if (process > 0) resume_run(&f, last, true);
        memcpy(values, last[1].values, sizeof values);
        const uint32_t before = last[1].round, rounds = 1 + process % 3;
        for (uint32_t round = before + 1; round <= before + rounds; round++) {
            uint32_t clients[CLIENTS];
            const float value = (float)(process * 1000 + round);
            for (uint32_t place = 0; place < members; place++)
                values[clients[place] = (round * 3 + place) % CLIENTS] = value;
            run_round(&f, round, clients, value, false);
            expect_rows(&f, last);
            if (round < before + rounds || process % 4 < 3) save(&f, last, round, values);
        }
    }
    assert_true(last[1].round > PROCESSES);
    end_run(&f);
}

static void a_run_may_be_resumed_any_number_of_times(void **state) {
    (void)state;
    for (uint32_t members = 1; members <= CLIENTS; members++)
        resume_again_and_again(members);
}

// A run that is resumed may have to fall back on the checkpoint before the one that it began with.
static void a_resumed_run_spares_what_the_checkpoint_before_may_need(void **state) {
    (void)state;
    Fixture f;
    Checkpoint last[2] = {{0}};
    begin_run(&f, 20);
    run_round(&f, 1, (uint32_t[]){0, 1}, 1, false);
    save(&f, last, 1, (float[CLIENTS]){1, 1});
    run_round(&f, 2, (uint32_t[]){0, 1}, 2, false);
    save(&f, last, 2, (float[CLIENTS]){2, 2});
    resume_run(&f, last, true);
    for (uint32_t round = 3; round < 5; round++)
        run_round(&f, round, (uint32_t[]){2, 3}, (float)round, false);
    expect_rows(&f, last);
    const uint32_t used = f.states.table[0];
    client_state_rows_saved(&f.states, 4);
    client_state_rows_saved(&f.states, 5);
    run_round(&f, 6, (uint32_t[]){2, 3}, 6, false);
    assert_int_equal(f.states.table[0], used); // the old rows are free now
    assert_true(row_of(&f, 0)[0] == 2 && row_of(&f, 2)[0] == 6);
    end_run(&f);
}

static void rows_that_no_checkpoint_holds_are_free_at_once(void **state) {
    (void)state;
    Fixture f;
    Checkpoint last[2] = {{0}};
    begin_run(&f, 20);
    for (uint32_t round = 1; round <= 3; round++)
        run_round(&f, round, (uint32_t[]){0, 1}, (float)round, false);
    save(&f, last, 3, (float[CLIENTS]){3, 3});
    run_round(&f, 4, (uint32_t[]){2, 3}, 4, false); // no checkpoint saves it
    resume_run(&f, last, false);
    assert_int_equal(f.states.spares, f.states.table[0] - 1 - 2); // all but the rows of clients 0 and 1
    assert_null(row_of(&f, 2));
    expect_rows(&f, last);
    end_run(&f);
}

// It never resumes from rows of its own.
static void another_node_keeps_rows_for_no_checkpoint(void **state) {
    (void)state;
    Fixture f;
    Checkpoint last[2] = {{0}};
    begin_run_of(&f, CLIENTS, 20);
    const uint32_t all[CLIENTS] = {0, 1, 2, 3, 4};
    run_round(&f, 1, all, 1, false);
    save(&f, last, 1, (float[CLIENTS]){1, 1, 1, 1, 1});
    f.config.node = 1;
    resume_run(&f, last, false);
    for (uint32_t round = 2; round <= 20; round++)
        run_round(&f, round, all, (float)round, false); // no checkpoint of its own comes in between
    assert_int_equal(f.states.table[0], 1 + 2 * CLIENTS);
    end_run(&f);
}

static void a_table_from_a_file_is_checked_before_it_is_used(void **state) {
    (void)state;
    const ClientStatePlan plan = client_state_plan(8, FLOATS);
    Error err;
    const struct {
        uint32_t table[1 + CLIENTS];
        const char *says; // NULL: it is right
    } tables[] = {{{1, 0, 0, 0, 0, 0}, NULL},
                  {{8, 7, 0, 3, 1, 0}, NULL},
                  {{0, 0, 0, 0, 0, 0}, "0 rows are in use"},
                  {{9, 1, 0, 0, 0, 0}, "9 rows are in use, of the 8"},
                  {{UINT32_MAX, 1, 0, 0, 0, 0}, "4294967295 rows are in use"},
                  {{3, 1, 3, 0, 0, 0}, "client 1 the row 3, which is none of those in use"},
                  {{3, 0, 0, 0, 0, 0x7fffffff}, "client 4 the row 2147483647"},
                  {{5, 2, 0, 4, 2, 0}, "client 3 the row 2, which another client has"}};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        const Status status = client_state_table_check(tables[i].table, &plan, CLIENTS, &err);
        assert_int_equal(status, tables[i].says ? STATUS_DATA : STATUS_OK);
        if (tables[i].says && !strstr(err.message, tables[i].says)) fail_msg("%s", err.message);
    }
}

static void what_is_written_into_a_row_is_read_there_even_if_the_file_takes_no_writes(void **state) {
    (void)state;
    const float values[] = {1, 2, 3}, others[] = {4, 5};
    Fixture f;
    begin_run(&f, 3);
    client_state_row_write(&f.memory.client_state, 2, values, FLOATS);
    assert_memory_equal(client_state_row(&f.memory.client_state, 2), values, sizeof values);
    const int own = f.memory.client_state.fd;
    f.memory.client_state.fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    client_state_row_write(&f.memory.client_state, 2, others, 2);
    close(f.memory.client_state.fd);
    f.memory.client_state.fd = own;
    assert_memory_equal(client_state_row(&f.memory.client_state, 2), others, sizeof others);
    assert_true(client_state_row(&f.memory.client_state, 2)[2] == 3 &&
                client_state_row(&f.memory.client_state, 3)[0] == 0);
    end_run(&f);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_has_a_row_from_its_first_turn_on),
        cmocka_unit_test(a_refused_client_keeps_what_it_had),
        cmocka_unit_test(the_last_two_checkpoints_find_their_rows_unchanged),
        cmocka_unit_test(a_run_may_be_resumed_any_number_of_times),
        cmocka_unit_test(rows_that_no_checkpoint_holds_are_free_at_once),
        cmocka_unit_test(another_node_keeps_rows_for_no_checkpoint),
        cmocka_unit_test(a_table_from_a_file_is_checked_before_it_is_used),
        cmocka_unit_test(a_resumed_run_spares_what_the_checkpoint_before_may_need),
        cmocka_unit_test(what_is_written_into_a_row_is_read_there_even_if_the_file_takes_no_writes),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}

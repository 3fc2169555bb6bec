// Which row is whose: what a checkpoint may need is not written over.
#include "fedavg/parent/kept_rows.h"

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
    KeptRows kept;
} Fixture;

static void begin_run(Fixture *f, uint32_t rounds) {
    Error err;
    *f = (Fixture){.nodes = {.size = 1}};
    f->config = (RunConfig){.clients = CLIENTS, .parameters = FLOATS};
    f->config.kept = kept_plan(kept_rows_needed(CLIENTS, MEMBERS, rounds), FLOATS);
    f->memory.config = &f->config;
    f->memory.kept.fd = -1;
    f->memory.kept_table = calloc(kept_table_size(CLIENTS), sizeof *f->memory.kept_table);
    f->memory.queue = aligned_alloc(64, (queue_bytes(MEMBERS) + 63) / 64 * 64);
    assert_true(f->memory.kept_table && f->memory.queue);
    f->memory.kept_table[0] = 1;
    queue_init(f->memory.queue, MEMBERS);
    check_ok(kept_file_create(&f->memory.kept, &f->config.kept, NULL, &err));
    check_ok(kept_rows_init(&f->kept, &f->memory, MEMBERS, 0, &err));
}

static void end_run(Fixture *f) {
    kept_rows_free(&f->kept);
    kept_file_free(&f->memory.kept);
    free(f->memory.kept_table);
    free(f->memory.queue);
}

static float *row_of(Fixture *f, uint32_t client) {
    return kept_row(&f->memory.kept, kept_rows_of(&f->kept, client));
}

// Both clients write `value` into their new rows; those with `fails` are refused.
static void run_round(Fixture *f, uint32_t round, const uint32_t clients[MEMBERS], float value, bool fails) {
    Error err;
    check_ok(kept_rows_stage(&f->kept, MEMBERS, &err));
    queue_clear(f->memory.queue);
    for (uint32_t place = 0; place < MEMBERS; place++) {
        Job *job = queue_post(f->memory.queue);
        job->client = clients[place];
        job->kept_from = kept_rows_of(&f->kept, clients[place]);
        job->kept_to = f->kept.staged[place];
        for (int i = 0; i < FLOATS; i++)
            kept_row(&f->memory.kept, job->kept_to)[i] = value;
        queue_finish(job, fails ? JOB_REFUSED : JOB_DONE);
    }
    check_ok(kept_rows_commit(&f->kept, round, &f->nodes, &err));
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
            memcpy(tables[1], f.kept.table, sizeof tables[1]), memcpy(values[1], now, sizeof values[1]);
            kept_rows_saved(&f.kept, round);
        }
        for (int last = 0; last < 2; last++)
            for (uint32_t client = 0; client < CLIENTS; client++) {
                const float *row = kept_row(&f.memory.kept, tables[last][1 + client]);
                if (row && row[0] != values[last][client])
                    fail_msg("round %u: client %u of checkpoint %d has %g, not %g", round, client, last, (double)row[0],
                             (double)values[last][client]);
            }
    }
    assert_true(f.kept.table[0] <= kept_rows_needed(CLIENTS, MEMBERS, ROUNDS)); // rows are used again
    end_run(&f);
}

// A run that is resumed may have to fall back on the checkpoint before the one that it began with.
static void a_resumed_run_spares_what_the_checkpoint_before_may_need(void **state) {
    (void)state;
    Fixture f;
    Error err;
    begin_run(&f, 20);
    run_round(&f, 1, (uint32_t[]){0, 1}, 1, false);
    uint32_t before[CLIENTS + 1];
    memcpy(before, f.kept.table, sizeof before);
    kept_rows_saved(&f.kept, 1);
    run_round(&f, 2, (uint32_t[]){0, 1}, 2, false);
    kept_rows_saved(&f.kept, 2);
    kept_rows_free(&f.kept);
    check_ok(kept_rows_init(&f.kept, &f.memory, MEMBERS, 2, &err)); // the table is that of round 2
    for (uint32_t round = 3; round < 5; round++)
        run_round(&f, round, (uint32_t[]){2, 3}, (float)round, false);
    assert_true(kept_row(&f.memory.kept, before[1])[0] == 1 && kept_row(&f.memory.kept, before[2])[0] == 1);
    const uint32_t used = f.kept.table[0];
    kept_rows_saved(&f.kept, 4);
    kept_rows_saved(&f.kept, 5);
    run_round(&f, 6, (uint32_t[]){2, 3}, 6, false);
    assert_int_equal(f.kept.table[0], used); // the old rows are free now
    assert_true(row_of(&f, 0)[0] == 2 && row_of(&f, 2)[0] == 6);
    end_run(&f);
}

static void what_is_written_into_a_row_is_read_there_even_if_the_file_takes_no_writes(void **state) {
    (void)state;
    const float values[] = {1, 2, 3}, others[] = {4, 5};
    Fixture f;
    begin_run(&f, 3);
    kept_row_write(&f.memory.kept, 2, values, FLOATS);
    assert_memory_equal(kept_row(&f.memory.kept, 2), values, sizeof values);
    const int own = f.memory.kept.fd;
    f.memory.kept.fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    kept_row_write(&f.memory.kept, 2, others, 2);
    close(f.memory.kept.fd);
    f.memory.kept.fd = own;
    assert_memory_equal(kept_row(&f.memory.kept, 2), others, sizeof others);
    assert_true(kept_row(&f.memory.kept, 2)[2] == 3 && kept_row(&f.memory.kept, 3)[0] == 0);
    end_run(&f);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_has_a_row_from_its_first_turn_on),
        cmocka_unit_test(a_refused_client_keeps_what_it_had),
        cmocka_unit_test(the_last_two_checkpoints_find_their_rows_unchanged),
        cmocka_unit_test(a_resumed_run_spares_what_the_checkpoint_before_may_need),
        cmocka_unit_test(what_is_written_into_a_row_is_read_there_even_if_the_file_takes_no_writes),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}

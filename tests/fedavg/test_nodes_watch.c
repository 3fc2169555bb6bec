// Tests which nodes are taken for lost: the transport is made up, and so are the times when the others were heard.
#include "fedavg/nodes/nodes.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/check.h"
#include "tests/late_clock.h"

enum { MOST_SIGNALS = 8 };

// Node 1 is the other one: what it has said, in order, and what this node has said to it.
struct NodesConnection {
    NodeSignal coming[MOST_SIGNALS], sent[MOST_SIGNALS];
    uint32_t come, coming_count, sent_count;
};

static Status say(NodesConnection *self, NodeSignal signal, Error *err) {
    (void)err;
    if (self->sent_count < MOST_SIGNALS) self->sent[self->sent_count++] = signal;
    return STATUS_OK;
}

static Status listen_to(NodesConnection *self, uint32_t *from, NodeSignal *signal, Error *err) {
    (void)err;
    *from = 1;
    *signal = self->come < self->coming_count ? self->coming[self->come++] : (NodeSignal)0;
    return STATUS_OK;
}

static Status test_done(NodesConnection *self, bool *done, Error *err) {
    (void)self, (void)err;
    *done = true;
    return STATUS_OK;
}

// Node 1 has nothing but z. No message may be longer than message_bytes.
static Status gather(NodesConnection *self, void *all, const void *mine, const size_t *counts, Error *err) {
    (void)self, (void)err;
    if (counts[0] + counts[1] > 10) return fail(err, STATUS_SOFTWARE, "%zu bytes at once", counts[0] + counts[1]);
    memcpy(all, mine, counts[0]);
    for (size_t i = 0; i < counts[1]; i++)
        ((char *)all)[counts[0] + i] = 'z';
    return STATUS_OK;
}

static const NodesTransport transport = {.begin_gather = gather, .test = test_done, .signal = say, .listen = listen_to};

typedef struct Fixture {
    NodesConnection connection;
    NodePeer peers[2];
    Nodes nodes;
} Fixture;

static void set_up(Fixture *f) {
    memset(f, 0, sizeof *f);
    f->nodes = (Nodes){.size = 2,
                       .silence_seconds = 60,
                       .message_bytes = 10,
                       .transport = &transport,
                       .connection = &f->connection,
                       .peers = f->peers};
    f->peers[0].pidfd = f->peers[1].pidfd = -1;
    f->peers[1].heard_nanoseconds = clock_nanoseconds();
    strcpy(f->peers[1].host, "there");
}

// Node 1 says something, then nothing for so many seconds, in which this node has looked.
static Status hear(Fixture *f, NodeSignal signal, uint64_t seconds, Error *err) {
    const uint64_t second = 1000000000;
    f->connection.coming[f->connection.coming_count++] = signal;
    f->nodes.watched_nanoseconds = clock_nanoseconds() - second / 10;
    TRY(nodes_watch(&f->nodes, err));
    f->peers[1].heard_nanoseconds -= seconds * second;
    f->nodes.watched_nanoseconds = clock_nanoseconds() - second / 10;
    return nodes_watch(&f->nodes, err);
}

static void a_silent_node_is_lost_and_one_that_works_alone_is_not(void **state) {
    (void)state;
    Fixture f;
    Error err;
    set_up(&f);
    check_ok(hear(&f, NODE_ALIVE, 50, &err));
    check_ok(hear(&f, NODE_BUSY, 1000, &err));
    check_ok(hear(&f, NODE_ALIVE, 0, &err));
    assert_int_equal(hear(&f, NODE_ALIVE, 70, &err), STATUS_UNAVAILABLE);
    assert_non_null(strstr(err.message, "on there) is lost: nothing was heard of it for 60 s"));
    set_up(&f);
    assert_int_equal(hear(&f, NODE_BUSY, NODES_BUSY_SECONDS + 10, &err), STATUS_UNAVAILABLE);
    assert_non_null(strstr(err.message, "nothing was heard of it for 3600 s"));
    set_up(&f);
    f.nodes.silence_seconds = 0; // for ever
    check_ok(hear(&f, NODE_BUSY, NODES_BUSY_SECONDS + 10, &err));
}

static void a_node_that_was_heard_while_this_one_worked_is_not_lost(void **state) {
    (void)state;
    Fixture f;
    Error err;
    set_up(&f);
    f.nodes.watched_nanoseconds = clock_nanoseconds() - UINT64_C(10000000000);
    f.connection.coming[f.connection.coming_count++] = NODE_ALIVE;
    check_ok(nodes_busy(&f.nodes, &err)); // hears it
    check_ok(nodes_watch(&f.nodes, &err));
}

static void work_ends_with_the_next_wait(void **state) {
    (void)state;
    Fixture f;
    Error err;
    bool done;
    set_up(&f);
    f.nodes.watched_nanoseconds = clock_nanoseconds();
    check_ok(nodes_busy(&f.nodes, &err));
    check_ok(nodes_test(&f.nodes, &done, &err));
    check_ok(nodes_test(&f.nodes, &done, &err)); // says no more: a tenth of a second is not over
    assert_true(done);
    assert_int_equal(f.connection.sent_count, 3);
    assert_int_equal(f.connection.sent[1], NODE_BUSY);
    assert_int_equal(f.connection.sent[2], NODE_ALIVE);
}

static void what_is_too_large_for_one_message_is_gathered_in_pieces(void **state) {
    (void)state;
    Fixture f;
    Error err;
    char all[64] = "";
    set_up(&f);
    check_ok(nodes_gather(&f.nodes, all, "abcdefghijklm", (size_t[]){13, 21}, &err));
    assert_string_equal(all, "abcdefghijklmzzzzzzzzzzzzzzzzzzzzz");
    memset(all, 0, sizeof all);
    check_ok(nodes_gather(&f.nodes, all, "abc", (size_t[]){3, 5}, &err));
    assert_string_equal(all, "abczzzzz");
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_silent_node_is_lost_and_one_that_works_alone_is_not),
        cmocka_unit_test(a_node_that_was_heard_while_this_one_worked_is_not_lost),
        cmocka_unit_test(work_ends_with_the_next_wait),
        cmocka_unit_test(what_is_too_large_for_one_message_is_gathered_in_pieces),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}

// The ring of spans between a writer and the parent: neither waits for the other, and none is lost or read twice.
#include "fedavg/memory/trace.h"

#include <stdlib.h>

#include "tests/check.h"

enum { CAPACITY = 5 };

static void write_spans(TraceBuffer *trace, uint32_t first, uint32_t end) {
    for (uint32_t number = first; number < end; number++)
        trace_end(trace, TRACE_CLIENT, trace_begin(trace), 1, number);
}

static void what_is_written_while_the_parent_reads_comes_with_its_next_look(void **state) {
    (void)state;
    TraceBuffer *trace = calloc(1, trace_buffer_bytes(CAPACITY));
    trace->capacity = CAPACITY;
    uint32_t next = 0, written = 0;
    for (uint32_t round = 0; round < 20; round++) {
        write_spans(trace, written, written + 2), written += 2;
        const size_t ready = trace_ready(trace);
        write_spans(trace, written, written + 1), written += 1; // behind its back
        for (size_t i = 0; i < ready; i++)
            assert_int_equal(trace_next(trace, i)->number, next++);
        trace_take(trace, ready);
    }
    assert_int_equal(trace_ready(trace), written - next);
    assert_int_equal(trace->dropped, 0);
    write_spans(trace, 0, 10); // which have no room
    assert_int_equal(trace_ready(trace), CAPACITY);
    assert_int_equal(trace->dropped, 10 - (CAPACITY - (written - next)));
    free(trace);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_while_the_parent_reads_comes_with_its_next_look),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}

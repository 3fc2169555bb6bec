// The job queue: claims are exclusive and in order, and whatever a dead worker left half done is opened again.
#include "fedavg/memory/queue.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "fedavg/parent/rounds.h"
#include "tests/check.h"

static Queue *queue_of(uint32_t capacity, uint32_t posted) {
    Queue *queue = aligned_alloc(64, queue_bytes(capacity));
    assert_non_null(queue);
    memset(queue, 0xa5, queue_bytes(capacity)); // the memory of an earlier use
    queue_init(queue, capacity);
    for (uint32_t i = 0; i < posted; i++) {
        Job *job = queue_post(queue);
        assert_non_null(job);
        job->client = 100 + i;
    }
    return queue;
}

static void a_full_queue_refuses_another_job(void **state) {
    (void)state;
    Queue *queue = queue_of(3, 3);
    assert_null(queue_post(queue));
    queue_clear(queue);
    assert_null(queue_take(queue, 0));
    assert_non_null(queue_post(queue));
    free(queue);
}

static void jobs_are_taken_in_the_order_they_were_posted(void **state) {
    (void)state;
    Queue *queue = queue_of(5, 4);
    for (uint32_t i = 0; i < 4; i++) {
        Job *job = queue_take(queue, i);
        assert_non_null(job);
        assert_int_equal(job->client, 100 + i);
        assert_int_equal(atomic_load(&job->owner), i + 1);
    }
    assert_null(queue_take(queue, 0));
    free(queue);
}

static void a_reused_slot_remembers_nothing_of_its_last_job(void **state) {
    (void)state;
    Queue *queue = queue_of(1, 1);
    Job *job = queue_take(queue, 4);
    job->hits = 7;
    job->loss_sum = 1.5;
    queue_finish(job, JOB_DONE);
    queue_clear(queue);
    Job *again = queue_post(queue);
    assert_ptr_equal(again, job);
    assert_int_equal(atomic_load(&again->owner), 0);
    assert_int_equal(atomic_load(&again->state), JOB_OPEN);
    assert_int_equal(again->hits, 0);
    assert_true(again->loss_sum == 0);
    free(queue);
}

static void jobs_claimed_but_not_finished_are_opened_again(void **state) {
    (void)state;
    Queue *queue = queue_of(5, 5);
    Job *done = queue_take(queue, 0), *lost = queue_take(queue, 1), *refused = queue_take(queue, 0);
    queue_finish(done, JOB_DONE);
    queue_finish(refused, JOB_REFUSED);
    lost->samples = 99; // half-written results of the dead owner

    assert_int_equal(queue_unfinished(queue), 3);
    assert_int_equal(queue_reopen(queue), 3); // the lost one and the two that nobody took
    assert_int_equal(atomic_load(&done->state), JOB_DONE);
    assert_int_equal(atomic_load(&refused->state), JOB_REFUSED);
    assert_ptr_equal(queue_take(queue, 2), lost);
    assert_int_equal(lost->samples, 0);
    assert_int_equal(queue_take(queue, 2)->client, 103);
    assert_int_equal(queue_take(queue, 2)->client, 104);
    assert_null(queue_take(queue, 2));
    free(queue);
}

static void the_finished_jobs_of_a_discarded_rank_are_opened_again(void **state) {
    (void)state;
    Queue *queue = queue_of(4, 4);
    for (uint32_t i = 0; i < 4; i++) {
        Job *job = queue_take(queue, i % 2);
        job->samples = 10;
        queue_finish(job, i < 2 ? JOB_DONE : JOB_REFUSED);
    }
    assert_int_equal(queue_reopen_rank(queue, 1, false), 0);
    assert_int_equal(queue_reopen_rank(queue, 1, true), 2);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(atomic_load(&queue->jobs[i].owner), i % 2 ? 0 : 1);
        assert_int_equal(queue->jobs[i].samples, i % 2 ? 0 : 10);
    }
    free(queue);
}

enum { RACE_JOBS = 20000, RACERS = 4 };

typedef struct Racer {
    Queue *queue;
    uint32_t rank, taken;
    _Atomic uint32_t *starters;
} Racer;

static void *race(void *argument) {
    Racer *racer = argument;
    atomic_fetch_add(racer->starters, 1);
    while (atomic_load(racer->starters) < RACERS)
        ;
    Job *job;
    while ((job = queue_take(racer->queue, racer->rank))) {
        job->hits++; // not atomic: two owners would lose a count or count twice
        racer->taken++;
        queue_finish(job, JOB_DONE);
    }
    return NULL;
}

static void every_job_is_taken_exactly_once_by_racing_workers(void **state) {
    (void)state;
    Queue *queue = queue_of(RACE_JOBS, RACE_JOBS);
    _Atomic uint32_t starters = 0;
    Racer racers[RACERS];
    pthread_t threads[RACERS];
    for (uint32_t i = 0; i < RACERS; i++) {
        racers[i] = (Racer){.queue = queue, .rank = i, .starters = &starters};
        assert_int_equal(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
    }
    uint32_t taken = 0;
    for (uint32_t i = 0; i < RACERS; i++) {
        pthread_join(threads[i], NULL);
        taken += racers[i].taken;
    }
    assert_int_equal(taken, RACE_JOBS);
    for (uint32_t i = 0; i < RACE_JOBS; i++) {
        assert_int_equal(queue->jobs[i].hits, 1);
        assert_int_equal(atomic_load(&queue->jobs[i].state), JOB_DONE);
    }
    free(queue);
}

static void a_phase_with_more_jobs_than_the_queue_holds_is_an_error(void **state) {
    (void)state;
    RunMemory memory = {.queue = queue_of(2, 0)};
    Nodes nodes = {.rank = 1, .size = 2};
    Rounds rounds = {.memory = &memory, .nodes = &nodes};
    Job *job;
    Error err;
    for (uint32_t place = 0; place < 2; place++) {
        check_ok(rounds_post(&job, &rounds, place, &err));
        assert_int_equal(job->place, place);
        assert_int_equal(job->node, 1);
    }
    assert_int_equal(rounds_post(&job, &rounds, 2, &err), STATUS_SOFTWARE);
    assert_string_equal(err.message, "the queue has room for 2 jobs, and a phase has more");
    free(memory.queue);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_queue_refuses_another_job),
        cmocka_unit_test(a_phase_with_more_jobs_than_the_queue_holds_is_an_error),
        cmocka_unit_test(jobs_are_taken_in_the_order_they_were_posted),
        cmocka_unit_test(a_reused_slot_remembers_nothing_of_its_last_job),
        cmocka_unit_test(jobs_claimed_but_not_finished_are_opened_again),
        cmocka_unit_test(the_finished_jobs_of_a_discarded_rank_are_opened_again),
        cmocka_unit_test(every_job_is_taken_exactly_once_by_racing_workers),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}

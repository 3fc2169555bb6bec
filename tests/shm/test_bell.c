// Bells: whoever waits for what others store hears of it, however the two meet.
#include "shm/bell.h"

#include <pthread.h>
#include <string.h>

#include "tests/check.h"
#include "tests/deadline.h"

enum { THREADS = 4, TURNS = 5000 };

static const uint64_t an_hour = 3600ull * 1000000000;

// A turn goes round among the threads.
typedef struct Ring {
    Bell bell;
    _Atomic uint32_t turn;
} Ring;

typedef struct Player {
    Ring *ring;
    uint32_t number;
} Player;

static void *play(void *argument) {
    const Player *player = argument;
    Ring *ring = player->ring;
    for (uint32_t turn = player->number; turn < TURNS; turn += THREADS) {
        while (atomic_load_explicit(&ring->turn, memory_order_relaxed) != turn) {
            const uint32_t heard = bell_listen(&ring->bell);
            if (atomic_load_explicit(&ring->turn, memory_order_relaxed) != turn)
                bell_wait(&ring->bell, heard, an_hour); // a ring that is lost ends the test by its deadline
        }
        atomic_store_explicit(&ring->turn, turn + 1, memory_order_relaxed);
        bell_ring(&ring->bell);
    }
    return NULL;
}

static void no_ring_is_lost_among_many_who_listen(void **state) {
    (void)state;
    Ring ring;
    memset(&ring, 0, sizeof ring);
    pthread_t threads[THREADS];
    Player players[THREADS];
    for (uint32_t i = 0; i < THREADS; i++) {
        players[i] = (Player){&ring, i};
        assert_int_equal(pthread_create(&threads[i], NULL, play, &players[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(ring.turn, TURNS);
}

static void a_ring_between_listening_and_sleeping_is_heard(void **state) {
    (void)state;
    Bell bell;
    memset(&bell, 0, sizeof bell);
    const uint32_t heard = bell_listen(&bell);
    bell_ring(&bell);
    bell_wait(&bell, heard, an_hour); // does not sleep
    const uint32_t later = bell_listen(&bell);
    assert_int_not_equal(later, heard);
    bell_wait(&bell, later, 1000); // ends by itself
    assert_int_equal(bell_listen(&bell), later);
}

static void a_bell_that_nobody_listens_to_stays_as_it_is(void **state) {
    (void)state;
    Bell bell;
    memset(&bell, 0, sizeof bell);
    bell_ring(&bell);
    assert_int_equal(bell.word, 0);
}

int main(int argc, char **argv) {
    deadline_set(560);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_ring_is_lost_among_many_who_listen),
        cmocka_unit_test(a_ring_between_listening_and_sleeping_is_heard),
        cmocka_unit_test(a_bell_that_nobody_listens_to_stays_as_it_is),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}

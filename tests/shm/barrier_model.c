// A model checker for shm/barrier.c: visits every state that any interleaving of its atomic operations can reach, with
// up to `kills` SIGKILLs at any point of any worker, and looks for two faults: a hang (nothing can move, but somebody
// alive has not come through) and an early opening (the generation moves on although a member has not arrived).
//
// The operations modelled are sequentially consistent in barrier.c, so interleavings are all there is. A look at the
// generation followed by a compare-and-swap that is repeated until it succeeds counts as one operation, since the
// repetitions that fail change nothing; so does the kernel's compare-and-sleep of a futex. That the checker finds
// faults is shown by mutations of the protocol, each of which it must catch.
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tests/deadline.h"

enum { WORKERS_MAX = 3, GENERATION_STEP = 2, SLEEPERS = 1, STATES_MAX = 1 << 21, TABLE_SLOTS = 1 << 22 };

typedef enum Mutation {
    FAITHFUL,
    DEPART_DOES_NOT_WAKE,     // barrier_depart without its unconditional wake
    DEPART_SCANS_BEFORE_GONE, // barrier_depart looks for completeness before it marks the rank
    SLEEP_WITHOUT_THE_BIT,    // barrier_sleep does not announce the sleeper
    SCAN_FROM_THE_FIRST_RANK, // open_if_complete does not begin at the supervisor
    REVIVE_KEEPS_THE_ARRIVAL, // barrier_revive does not take back what the dead process had arrived for
} Mutation;

typedef struct Model {
    int workers, rounds, kills;
    bool supervisor_takes_part; // as the last rank; it then revives dead ranks between its arrivals
    Mutation mutation;
} Model;

// Where an actor stands in barrier_arrive and barrier_sleep. A worker goes round; the supervisor borrows SCAN.. WAKE.
typedef enum Step {
    READ_GENERATION,
    STORE_ARRIVAL,
    SCAN_GONE,    // of rank `scanned`
    SCAN_ARRIVAL, // of rank `scanned`
    OPEN,
    WAKE,
    LOOK,  // poll, and set the sleepers bit if nothing has changed
    ENTER, // the kernel compares the word, then sleeps
    ASLEEP,
    FINISHED,
    DEAD,
    IDLE, // supervisor only, from here on
    DEPART_MARK,
    DEPART_READ_GENERATION,
    DEPART_WAKE,
    REVIVE_ARRIVAL,
    REVIVE_GONE,
    REVIVE_START,
} Step;

typedef struct Actor {
    uint8_t step, generation, scanned;
} Actor;

// Everything shared, every program counter, every local variable. All bytes, so that states compare with memcmp.
typedef struct State {
    Actor workers[WORKERS_MAX];
    Actor supervisor;
    uint8_t arrived[WORKERS_MAX + 1], gone[WORKERS_MAX + 1];
    uint8_t word; // generation and sleepers bit
    uint8_t kills;
    uint8_t subject;   // rank that the supervisor departs or revives
    uint8_t departing; // whether the supervisor's scan belongs to barrier_depart
} State;

typedef struct Search {
    Model model;
    State *states;   // every state met so far, in the order met: those before `next` have been expanded
    uint32_t *table; // open addressing: index + 1 into states
    size_t count, next;
    size_t hangs, early_openings;
} Search;

static size_t hash_of(const State *state) {
    const unsigned char *bytes = (const unsigned char *)state;
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < sizeof *state; i++)
        hash = (hash ^ bytes[i]) * 1099511628211u;
    return (size_t)(hash ^ hash >> 29);
}

static void insert(Search *search, const State *state) {
    size_t slot = hash_of(state) & (TABLE_SLOTS - 1);
    while (search->table[slot]) {
        if (memcmp(&search->states[search->table[slot] - 1], state, sizeof *state) == 0) return;
        slot = (slot + 1) & (TABLE_SLOTS - 1);
    }
    search->states[search->count++] = *state;
    search->table[slot] = (uint32_t)search->count;
    assert_true(search->count < STATES_MAX);
}

static int rank_count(const Model *model) {
    return model->workers + model->supervisor_takes_part;
}

static int generation_of(const State *state) {
    return state->word & ~SLEEPERS;
}

static void wake_sleepers(const Model *model, State *state) {
    for (int rank = 0; rank < model->workers; rank++)
        if (state->workers[rank].step == ASLEEP) state->workers[rank].step = LOOK;
}

// What the barrier promises: when a generation ends, every member has arrived for it, and not only a dead process
// before the one that has taken over its rank.
static bool opens_early(const Model *model, const State *state) {
    int awaited = generation_of(state) + GENERATION_STEP;
    for (int rank = 0; rank < model->workers; rank++)
        if (!state->gone[rank] && (state->arrived[rank] != awaited || state->workers[rank].step <= STORE_ARRIVAL))
            return true;
    return model->supervisor_takes_part && state->arrived[model->workers] != awaited;
}

static void start_scan(const Model *model, Actor *actor) {
    actor->step = SCAN_GONE;
    actor->scanned = model->mutation == SCAN_FROM_THE_FIRST_RANK ? 0 : (uint8_t)(rank_count(model) - 1);
}

static void scan_next(const Model *model, Actor *actor) {
    bool upwards = model->mutation == SCAN_FROM_THE_FIRST_RANK;
    if (actor->scanned == (upwards ? rank_count(model) - 1 : 0)) {
        actor->step = OPEN;
        actor->scanned = 0;
    } else {
        actor->step = SCAN_GONE;
        actor->scanned = (uint8_t)(actor->scanned + (upwards ? 1 : -1));
    }
}

// One operation of open_if_complete, on behalf of a worker or the supervisor; `after` is where it goes when done.
static void step_open_if_complete(Search *search, State *state, Actor *actor, Step after) {
    const Model *model = &search->model;
    switch (actor->step) {
    case SCAN_GONE:
        if (state->gone[actor->scanned])
            scan_next(model, actor);
        else
            actor->step = SCAN_ARRIVAL;
        break;
    case SCAN_ARRIVAL:
        if (state->arrived[actor->scanned] == actor->generation + GENERATION_STEP) {
            scan_next(model, actor);
        } else {
            actor->step = (uint8_t)after;
            actor->scanned = 0;
        }
        break;
    case OPEN:
        actor->step = (uint8_t)after;
        if (generation_of(state) != actor->generation) break;
        search->early_openings += opens_early(model, state);
        if (state->word & SLEEPERS) actor->step = WAKE;
        state->word = (uint8_t)(actor->generation + GENERATION_STEP);
        break;
    case WAKE:
        wake_sleepers(model, state);
        actor->step = (uint8_t)after;
        break;
    default:
        break;
    }
}

static void cross(const Model *model, Actor *actor) {
    bool last = actor->generation + GENERATION_STEP == model->rounds * GENERATION_STEP;
    *actor = (Actor){.step = last ? FINISHED : READ_GENERATION};
}

// The next operation of a worker. False: it has none.
static bool step_worker(Search *search, State *state, int rank) {
    const Model *model = &search->model;
    Actor *actor = &state->workers[rank];
    switch (actor->step) {
    case READ_GENERATION:
        actor->generation = (uint8_t)generation_of(state);
        actor->step = STORE_ARRIVAL;
        return true;
    case STORE_ARRIVAL:
        state->arrived[rank] = (uint8_t)(actor->generation + GENERATION_STEP);
        start_scan(model, actor);
        return true;
    case LOOK:
        if (generation_of(state) != actor->generation) {
            cross(model, actor);
        } else {
            if (model->mutation != SLEEP_WITHOUT_THE_BIT) state->word |= SLEEPERS;
            actor->step = ENTER;
        }
        return true;
    case ENTER: {
        int expected = model->mutation == SLEEP_WITHOUT_THE_BIT ? actor->generation : actor->generation | SLEEPERS;
        actor->step = state->word == expected ? ASLEEP : LOOK;
        return true;
    }
    case ASLEEP:
    case FINISHED:
    case DEAD:
        return false;
    default:
        step_open_if_complete(search, state, actor, LOOK);
        return true;
    }
}

static bool supervisor_is_finished(const Model *model, const State *state) {
    return !model->supervisor_takes_part || state->arrived[model->workers] == model->rounds * GENERATION_STEP;
}

// An idle supervisor may depart any dead rank, revive any departed one before its own arrival, and arrive, be the
// others there or not. Each choice leads to a state of its own.
static bool choose_for_supervisor(Search *search, const State *state) {
    const Model *model = &search->model;
    bool moved = false;
    bool has_to_arrive = !supervisor_is_finished(model, state) &&
                         state->arrived[model->workers] != generation_of(state) + GENERATION_STEP;
    for (int rank = 0; rank < model->workers; rank++) {
        if (state->workers[rank].step != DEAD || (state->gone[rank] && !has_to_arrive)) continue;
        State next = *state;
        next.subject = (uint8_t)rank;
        next.departing = !state->gone[rank];
        next.supervisor.step = state->gone[rank]                             ? REVIVE_ARRIVAL
                               : model->mutation == DEPART_SCANS_BEFORE_GONE ? DEPART_READ_GENERATION
                                                                             : DEPART_MARK;
        insert(search, &next);
        moved = true;
    }
    if (has_to_arrive) {
        State next = *state;
        next.supervisor.generation = (uint8_t)generation_of(state);
        next.supervisor.step = STORE_ARRIVAL;
        insert(search, &next);
        moved = true;
    }
    return moved;
}

static void step_supervisor(Search *search, State *state) {
    const Model *model = &search->model;
    Actor *actor = &state->supervisor;
    bool marks_last = model->mutation == DEPART_SCANS_BEFORE_GONE;
    switch (actor->step) {
    case STORE_ARRIVAL:
        state->arrived[model->workers] = (uint8_t)(actor->generation + GENERATION_STEP);
        start_scan(model, actor);
        return;
    case DEPART_MARK:
        state->gone[state->subject] = 1;
        actor->step = marks_last ? DEPART_WAKE : DEPART_READ_GENERATION;
        return;
    case DEPART_READ_GENERATION:
        actor->generation = (uint8_t)generation_of(state);
        start_scan(model, actor);
        return;
    case DEPART_WAKE:
        if (model->mutation != DEPART_DOES_NOT_WAKE) wake_sleepers(model, state);
        break;
    case REVIVE_ARRIVAL:
        if (model->mutation != REVIVE_KEEPS_THE_ARRIVAL) state->arrived[state->subject] = (uint8_t)generation_of(state);
        actor->step = REVIVE_GONE;
        return;
    case REVIVE_GONE:
        state->gone[state->subject] = 0;
        actor->step = REVIVE_START;
        return;
    case REVIVE_START:
        state->workers[state->subject] = (Actor){.step = READ_GENERATION};
        break;
    default:
        step_open_if_complete(search, state, actor, !state->departing ? IDLE : marks_last ? DEPART_MARK : DEPART_WAKE);
        if (actor->step != IDLE) return;
    }
    *actor = (Actor){.step = IDLE};
    state->subject = state->departing = 0;
}

static void expand(Search *search, const State *state) {
    const Model *model = &search->model;
    bool moved = false;
    for (int rank = 0; rank < model->workers; rank++) {
        State next = *state;
        if (step_worker(search, &next, rank)) {
            insert(search, &next);
            moved = true;
        }
        if (state->kills < model->kills && state->workers[rank].step < FINISHED) {
            next = *state;
            next.workers[rank] = (Actor){.step = DEAD};
            next.kills++;
            insert(search, &next);
        }
    }
    if (state->supervisor.step == IDLE) {
        moved |= choose_for_supervisor(search, state);
    } else {
        State next = *state;
        step_supervisor(search, &next);
        insert(search, &next);
        moved = true;
    }
    if (moved) return;
    bool hang = !supervisor_is_finished(model, state);
    for (int rank = 0; rank < model->workers; rank++)
        hang |= state->workers[rank].step < FINISHED;
    search->hangs += hang;
}

// Explores everything, or, of a mutation, as much as it takes to find a fault.
static Search explore(Model model) {
    Search search = {.model = model};
    search.states = malloc(STATES_MAX * sizeof *search.states); // pages that are never touched cost nothing
    search.table = calloc(TABLE_SLOTS, sizeof *search.table);
    assert_non_null(search.states);
    assert_non_null(search.table);
    State start;
    memset(&start, 0, sizeof start);
    start.supervisor.step = IDLE;
    insert(&search, &start);
    while (search.next < search.count && (model.mutation == FAITHFUL || search.hangs + search.early_openings == 0)) {
        State state = search.states[search.next++];
        expand(&search, &state);
    }
    print_message("%d workers, %d rounds, %d kills%s, mutation %d: %zu states, %zu hangs, %zu early openings\n",
                  model.workers, model.rounds, model.kills, model.supervisor_takes_part ? ", revival" : "",
                  model.mutation, search.count, search.hangs, search.early_openings);
    free(search.states);
    free(search.table);
    return search;
}

static void three_ranks_neither_hang_nor_open_early_whichever_two_are_killed(void **state) {
    (void)state;
    Search search = explore((Model){.workers = 3, .rounds = 2, .kills = 2});
    assert_int_equal(search.hangs, 0);
    assert_int_equal(search.early_openings, 0);
    assert_true(search.count > 10000); // it has looked
}

static void a_supervisor_that_takes_part_may_revive_the_dead(void **state) {
    (void)state;
    Search search = explore((Model){.workers = 2, .rounds = 3, .kills = 2, .supervisor_takes_part = true});
    assert_int_equal(search.hangs, 0);
    assert_int_equal(search.early_openings, 0);
    search = explore((Model){.workers = 3, .rounds = 2, .kills = 2, .supervisor_takes_part = true});
    assert_int_equal(search.hangs, 0);
    assert_int_equal(search.early_openings, 0);
}

static Search explore_mutation(Mutation mutation, bool supervisor_takes_part) {
    return explore((Model){.workers = supervisor_takes_part ? 2 : 3,
                           .rounds = 2,
                           .kills = 2,
                           .supervisor_takes_part = supervisor_takes_part,
                           .mutation = mutation});
}

static void a_departure_that_does_not_wake_is_found_to_hang(void **state) {
    (void)state;
    assert_true(explore_mutation(DEPART_DOES_NOT_WAKE, false).hangs > 0);
}

static void a_departure_that_scans_before_it_marks_is_found_to_hang(void **state) {
    (void)state;
    assert_true(explore_mutation(DEPART_SCANS_BEFORE_GONE, false).hangs > 0);
}

static void sleeping_without_the_bit_is_found_to_hang(void **state) {
    (void)state;
    assert_true(explore_mutation(SLEEP_WITHOUT_THE_BIT, false).hangs > 0);
}

static void a_scan_from_the_first_rank_is_found_to_open_early_after_a_revival(void **state) {
    (void)state;
    assert_true(explore_mutation(SCAN_FROM_THE_FIRST_RANK, true).early_openings > 0);
}

static void a_revival_that_keeps_the_arrival_of_the_dead_is_found_to_open_early(void **state) {
    (void)state;
    assert_true(explore_mutation(REVIVE_KEEPS_THE_ARRIVAL, true).early_openings > 0);
}

int main(int argc, char **argv) {
    deadline_set(110);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_ranks_neither_hang_nor_open_early_whichever_two_are_killed),
        cmocka_unit_test(a_supervisor_that_takes_part_may_revive_the_dead),
        cmocka_unit_test(a_departure_that_does_not_wake_is_found_to_hang),
        cmocka_unit_test(a_departure_that_scans_before_it_marks_is_found_to_hang),
        cmocka_unit_test(sleeping_without_the_bit_is_found_to_hang),
        cmocka_unit_test(a_scan_from_the_first_rank_is_found_to_open_early_after_a_revival),
        cmocka_unit_test(a_revival_that_keeps_the_arrival_of_the_dead_is_found_to_open_early),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}

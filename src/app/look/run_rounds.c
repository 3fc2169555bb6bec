#include "run_rounds.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/look/figure_charts.h"
#include "base/sorting.h"
#include "io/metrics.h"

enum { MOST_ROUNDS = 500 };

bool run_rounds_begin(RunRounds *rounds) {
    *rounds = (RunRounds){.lists = json_object(), .waits = json_array()};
    return rounds->lists && rounds->waits;
}

void run_rounds_free(RunRounds *rounds) {
    json_decref(rounds->lists);
    json_decref(rounds->waits);
    json_decref(rounds->staleness);
    free(rounds->losses);
}

// Lines ---------------------------------------------------------------------------------------------------------------

static bool note_loss(RunRounds *rounds, double loss) {
    if (isnan(loss)) return true;
    if (rounds->loss_count == rounds->loss_capacity) {
        const size_t capacity = 2 * rounds->loss_capacity + 64;
        double *losses = realloc(rounds->losses, capacity * sizeof *losses);
        if (!losses) return false;
        rounds->losses = losses;
        rounds->loss_capacity = capacity;
    }
    rounds->losses[rounds->loss_count++] = loss;
    return true;
}

// Adds the round's entry to the list of the key, if the value is a number. Consumes the value.
static bool note_value(RunRounds *rounds, const char *key, json_t *value) {
    if (!json_is_number(value)) {
        json_decref(value);
        return true;
    }
    json_t *list = json_object_get(rounds->lists, key);
    if (!list && json_object_set_new(rounds->lists, key, json_array()) == 0) list = json_object_get(rounds->lists, key);
    while (json_array_size(list) < rounds->count && json_array_append_new(list, json_null()) == 0)
        continue;
    return json_array_append_new(list, value) == 0;
}

// note_value of a number that is computed here. One that is not finite has no entry.
static bool note_number(RunRounds *rounds, const char *key, double number) {
    if (!isfinite(number)) return true;
    json_t *value = json_real(number);
    return value && note_value(rounds, key, value);
}

// Adds what is computed here: the seconds so far, and the spread of the clients' losses.
static bool note_computed(RunRounds *rounds, const json_t *line) {
    const double seconds = past_run_number(line, "seconds"), tests = past_run_number(line, "eval_seconds");
    const size_t count = rounds->loss_count;
    rounds->seconds += (isnan(seconds) ? 0 : seconds) + (isnan(tests) ? 0 : tests);
    rounds->loss_count = 0;
    const bool noted = note_number(rounds, "seconds_total", rounds->seconds);
    if (count < 2) return noted;
    qsort(rounds->losses, count, sizeof *rounds->losses, ascending_reals);
    return noted && note_number(rounds, "loss_low", sorted_quantile(rounds->losses, count, 0.1)) &&
           note_number(rounds, "loss_high", sorted_quantile(rounds->losses, count, 0.9));
}

static bool note_figure(RunRounds *rounds, const json_t *line, const Figure *figure, bool validates) {
    char key[FIGURE_KEY_BYTES];
    figure_key(key, figure, validates);
    return note_value(rounds, key, json_incref(json_object_get(line, key)));
}

static bool note_round(RunRounds *rounds, const json_t *line) {
    static const char *const keys[] = {"round",
                                       "train_loss",
                                       "seconds",
                                       "eval_seconds",
                                       "simulated_seconds_total",
                                       "down_bytes_total",
                                       "up_bytes_total",
                                       "training_joules_total",
                                       "link_joules_total",
                                       "tokens_total",
                                       "epsilon",
                                       "sample_epsilon"};
    const char *name;
    json_t *value, *waits = json_object_get(line, "barrier_wait_seconds"), *stale = json_object_get(line, "staleness");
    bool noted = note_computed(rounds, line);
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        noted &= note_value(rounds, keys[k], json_incref(json_object_get(line, keys[k])));
    for (size_t i = 0; i < figure_count; i++) {
        noted &= !figure_is_drawn(&figure_table[i]) || note_figure(rounds, line, &figure_table[i], false);
        noted &= !figure_is_drawn(&figure_table[i]) || figure_table[i].of != FIGURE_OF_MODEL ||
                 note_figure(rounds, line, &figure_table[i], true);
    }
    json_object_foreach(json_object_get(line, figure_metric.key), name, value) {
        char key[FIGURE_KEY_BYTES];
        snprintf(key, sizeof key, "%s.%s", figure_metric.key, name);
        noted &= note_value(rounds, key, json_incref(value));
    }
    noted &= json_array_append_new(rounds->waits, json_is_array(waits) ? json_incref(waits) : json_array()) == 0;
    rounds->count++;
    if (!json_is_array(stale)) return noted;
    json_decref(rounds->staleness);
    rounds->staleness = json_incref(stale);
    return noted;
}

bool run_rounds_note(RunRounds *rounds, const json_t *line) {
    if (metrics_is(line, "client")) return note_loss(rounds, past_run_number(line, "loss"));
    return !metrics_is(line, "round") || note_round(rounds, line);
}

// Lists ---------------------------------------------------------------------------------------------------------------

static bool is_tested(const RunRounds *rounds, size_t round) {
    return json_is_number(json_array_get(json_object_get(rounds->lists, "eval_seconds"), round));
}

// Tests are kept before other rounds, which have only the loss in training: a rare test would else be lost wherever it
// is between two rounds that are kept.
bool round_choice_make(RoundChoice *choice, const PastRuns *runs) {
    size_t tests = 0, others = 0;
    *choice = (RoundChoice){.rounds = 0};
    for (size_t i = 0; i < runs->count; i++) {
        const PastRun *run = &runs->all[i];
        const size_t left = run->rounds > run->tests ? run->rounds - run->tests : 0;
        choice->rounds = run->rounds > choice->rounds ? run->rounds : choice->rounds;
        tests = run->tests > tests ? run->tests : tests;
        others = left > others ? left : others;
    }
    const size_t for_tests = MOST_ROUNDS - (others < MOST_ROUNDS / 2 ? others : MOST_ROUNDS / 2),
                 for_others = MOST_ROUNDS - (tests < for_tests ? tests : for_tests);
    choice->every[0] = others / (for_others + 1) + 1;
    choice->every[1] = tests / (for_tests + 1) + 1;
    choice->is_end = calloc((size_t)choice->rounds + 1, sizeof *choice->is_end);
    for (size_t i = 0; i < runs->count && choice->is_end; i++)
        choice->is_end[runs->all[i].rounds] = true;
    return choice->is_end;
}

// Returns which rounds are written, malloc'ed; NULL: no memory.
static bool *choose(const RunRounds *rounds, const RoundChoice *choice) {
    const json_t *numbers = json_object_get(rounds->lists, "round");
    bool *chosen = calloc(rounds->count + 1, sizeof *chosen);
    size_t at[2] = {0};
    for (size_t i = 0; i < rounds->count && chosen; i++) {
        const json_int_t number = json_integer_value(json_array_get(numbers, i));
        const bool tested = is_tested(rounds, i);
        chosen[i] = ++at[tested] % choice->every[tested] == 0 ||
                    (number >= 0 && number <= choice->rounds && choice->is_end[number]);
    }
    return chosen;
}

// Returns the chosen entries of a list; NULL: no memory.
static json_t *thinned(const json_t *list, const bool *chosen, size_t count) {
    json_t *left = json_array();
    for (size_t i = 0; i < count && left; i++) {
        json_t *value = json_array_get(list, i);
        if (!chosen[i] || json_array_append_new(left, value ? json_incref(value) : json_null()) == 0) continue;
        json_decref(left);
        left = NULL;
    }
    return left;
}

void run_rounds_put(JsonObject *details, const RunRounds *rounds, const RoundChoice *choice) {
    bool *chosen = choose(rounds, choice);
    const char *key;
    json_t *list;
    JsonObject lists;
    json_begin(&lists);
    json_object_foreach(rounds->lists, key, list)
        put_value(&lists, key, chosen ? thinned(list, chosen, rounds->count) : NULL);
    put_object(details, "rounds", &lists);
    put_value(details, "waits", chosen ? thinned(rounds->waits, chosen, rounds->count) : NULL);
    if (rounds->staleness) put_value(details, "staleness", json_incref(rounds->staleness));
    free(chosen);
}

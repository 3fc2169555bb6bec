// Collects the rounds of one run for a report: of each number in the rounds' lines a list with one entry per round.
//
//   RunRounds rounds;
//   run_rounds_begin(&rounds);
//   run_rounds_note(&rounds, line);            // each line "client" and "round", in their order
//   run_rounds_put(&details, &rounds);
//   run_rounds_free(&rounds);
//
//   "rounds": {"round": [1, 2], "train_loss": [...], ...,    null where a round has no number
//              "seconds_total": [...],                       of training and tests so far
//              "loss_low": [...], "loss_high": [...],        10th and 90th percentile of the clients' losses
//              "test_metrics.recall": [...]},                each metric of a trainer's test
//   "waits": [[rank 0, rank 1], ...], "staleness": [...]     staleness: of the last round that has it
//
// The lists of a long run have at most 500 rounds and the last one: every N-th test, and every M-th other round.
#ifndef SOUNDER_APP_INSPECT_RUN_ROUNDS_H
#define SOUNDER_APP_INSPECT_RUN_ROUNDS_H

#include "io/json.h"

typedef struct RunRounds {
    json_t *lists;     // owned: {key: list of numbers and null}; a list ends with its last number
    json_t *waits;     // owned: a list per round
    json_t *staleness; // owned; NULL: none
    size_t count;      // rounds
    double seconds;    // so far
    double *losses;    // owned: losses of the round's clients
    size_t loss_count, loss_capacity;
} RunRounds;

// These return false if memory runs out.
bool run_rounds_begin(RunRounds *rounds);
bool run_rounds_note(RunRounds *rounds, const json_t *line);

void run_rounds_put(JsonObject *details, const RunRounds *rounds);
void run_rounds_free(RunRounds *rounds); // also after a failure

#endif

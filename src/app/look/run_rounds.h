// Collects the rounds of one run for a report: of each number in the rounds' lines a list with one entry per round.
//
//   RoundChoice choice;
//   round_choice_make(&choice, &runs);
//   RunRounds rounds;
//   run_rounds_begin(&rounds);
//   run_rounds_note(&rounds, line);            // each line "client" and "round", in their order
//   run_rounds_put(&details, &rounds, &choice);
//   run_rounds_free(&rounds);
//   free(choice.is_end);
//
//   "rounds": {"round": [1, 2], "train_loss": [...], ...,    null where a round has no number
//              "seconds_total": [...],                       of training and tests so far
//              "loss_low": [...], "loss_high": [...],        10th and 90th percentile of the clients' losses
//              "test_metrics.recall": [...]},                each metric of a trainer's test
//   "waits": [[rank 0, rank 1], ...], "staleness": [...]     staleness: of the last round that has it
//
// The lists of a long run have every N-th test and every M-th other round, at most 500 together, and the rounds with
// which runs end. N and M are equal for all runs of a report, for its curves are means over runs, round by round.
#ifndef SOUNDER_APP_LOOK_RUN_ROUNDS_H
#define SOUNDER_APP_LOOK_RUN_ROUNDS_H

#include "app/look/past_run.h"
#include "io/json.h"

typedef struct RoundChoice {
    size_t every[2]; // of other rounds; of tests
    bool *is_end;    // owned, (rounds + 1): a run ends with this round
    uint32_t rounds; // of the longest run
} RoundChoice;

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
bool round_choice_make(RoundChoice *choice, const PastRuns *runs);
bool run_rounds_begin(RunRounds *rounds);
bool run_rounds_note(RunRounds *rounds, const json_t *line);

void run_rounds_put(JsonObject *details, const RunRounds *rounds, const RoundChoice *choice);
void run_rounds_free(RunRounds *rounds); // also after a failure

#endif

// A run as `sounder top` shows it: history from metrics.jsonl, read on as it grows, its processes from /proc, and the
// phase under way from its control segment. It touches nothing that the run uses, and costs the workers nothing.
//
//   TRY(top_state_open(&state, "runs/a", err));
//   for (;;) { TRY(top_state_refresh(&state, err)); ... }
//   top_state_close(&state);
#ifndef SOUNDER_APP_INSPECT_TOP_STATE_H
#define SOUNDER_APP_INSPECT_TOP_STATE_H

#include <stdio.h>
#include <sys/types.h>

#include "app/inspect/past_run.h"
#include "app/inspect/top_phase.h"

enum { TOP_RANKS = 256, TOP_HISTORY = 512, TOP_SLOWEST = 3 };

typedef struct TopRank {
    double waited_share; // of the last round, at the barrier; NaN: not told
    double samples_per_second;
    uint32_t clients;      // that it trained in the last round
    char process;          // as in /proc: R runs, S sleeps, ...; 0: there is none
    int64_t private_bytes; // of its memory
    double cpu_seconds;    // so far
} TopRank;

typedef struct TopClient {
    long long client;
    double seconds, samples;
} TopClient;

// The clients of one round, counted as their lines arrive.
typedef struct TopRound {
    uint32_t clients[TOP_RANKS];
    double samples[TOP_RANKS], seconds[TOP_RANKS];
    TopClient slowest[TOP_SLOWEST]; // seconds 0: none
    uint32_t elsewhere;             // clients that other nodes trained; the ranks are those of node 0
} TopRound;

typedef struct TopState {
    char path[4096];
    PastRun run;                                      // options, start; its figures are those below
    FILE *file;                                       // owned: metrics.jsonl
    ino_t inode;                                      // of the file: one that a run goes on with is a new one
    double figures[TOP_HISTORY], losses[TOP_HISTORY]; // of the last tests, in their order
    size_t tests;                                     // how many there are
    double best, figure, loss, train_loss;            // the first two: by the run's figure
    uint32_t best_round, round, rounds;
    double seconds, seconds_lately; // of all rounds; of one round, mean of the last few
    double samples_per_second, bytes, simulated_seconds;
    double lost, refused; // workers, updates
    bool finished, running;
    bool is_chosen; // the caller's to set: the user has not named this run
    int ranks, nodes;
    pid_t parent; // 0: unknown
    TopPhase phase;
    TopRound next, last;
    TopRank rank[TOP_RANKS];
} TopState;

// NOINPUT where there is no run, or it has no metrics.
Status top_state_open(TopState *state, const char *path, Error *err);
Status top_state_refresh(TopState *state, Error *err);
void top_state_close(TopState *state);

#endif

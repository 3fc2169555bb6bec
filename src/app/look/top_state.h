// The state of a run for `sounder top`: history from metrics.jsonl, read on as it grows, processes from /proc, and the
// current phase from the control segment. It changes nothing of the run, and costs the workers nothing.
//
//   TRY(top_state_open(&state, "runs/a", err));
//   for (;;) { TRY(top_state_refresh(&state, err)); ... }
//   top_state_close(&state);
#ifndef SOUNDER_APP_LOOK_TOP_STATE_H
#define SOUNDER_APP_LOOK_TOP_STATE_H

#include <stdio.h>
#include <sys/types.h>

#include "app/look/past_run.h"
#include "fedavg/memory/layout.h"
#include "shm/segment.h"

enum { TOP_RANKS = 256, TOP_HISTORY = 512, TOP_SLOWEST = 3 };

typedef struct TopRank {
    double waited_share; // share of the last round at the barrier; NaN: unknown
    double samples_per_second;
    uint32_t clients;      // clients that it trained in the last round
    char process;          // state in /proc: R running, S sleeping, ...; 0: no process
    int64_t private_bytes; // private memory
    double cpu_seconds;    // used so far
} TopRank;

typedef struct TopClient {
    long long client;
    double seconds, samples;
} TopClient;

// The clients of one round, counted as their lines arrive.
typedef struct TopRound {
    uint32_t clients[TOP_RANKS];
    double samples[TOP_RANKS], seconds[TOP_RANKS];
    TopClient slowest[TOP_SLOWEST]; // seconds 0: unused
    uint32_t elsewhere;             // clients trained by other nodes; ranks are those of node 0
} TopRound;

// The current phase, from the control segment (found by the link live/control), mapped read-only while workers take and
// finish its jobs.
typedef struct TopPhase {
    Segment segment; // owned: the control segment, mapped while `parent` is the run's parent
    pid_t parent;    // the process that owns the segment; 0: nothing is mapped
    PhaseKind kind;  // PHASE_NONE also if unknown
    uint32_t round;
    uint32_t jobs, done;          // jobs of the phase
    uint32_t client[MAX_WORKERS]; // 1 + the client that a rank is training; 0: none
} TopPhase;

typedef struct TopState {
    char path[4096];
    PastRun run;                                      // owned: what its record has told so far
    FILE *file;                                       // owned: metrics.jsonl
    ino_t inode;                                      // inode of file: a resumed run replaces the file
    double figures[TOP_HISTORY], losses[TOP_HISTORY]; // of the last tests, in order
    size_t tests;                                     // number of entries in figures and losses
    double seconds_lately;                            // of one round, as the mean of the last few
    double train_loss;                                // of the last round; NaN: no client arrived in it
    double refused;                                   // updates
    bool is_chosen;                                   // set by the caller: the user did not name this run
    int ranks, nodes;
    pid_t parent; // 0: unknown
    TopPhase phase;
    TopRound next, last;
    TopRank rank[TOP_RANKS];
} TopState;

// NOINPUT if there is no run, or no metrics.
Status top_state_open(TopState *state, const char *path, Error *err);
Status top_state_refresh(TopState *state, Error *err);
void top_state_close(TopState *state);

// The key of the loss of the run's tests: that of the validation set if it has one.
const char *top_loss_key(const TopState *state);

#endif

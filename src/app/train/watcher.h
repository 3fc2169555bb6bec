// One row of the table of watchers (watchers.h).
#ifndef SOUNDER_APP_TRAIN_WATCHER_H
#define SOUNDER_APP_TRAIN_WATCHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "fedavg/figures/round_facts.h"

struct Run;

typedef enum Moment {
    MOMENT_OPEN,       // there are no workers yet; also with --plan
    MOMENT_START,      // the workers are ready, and no round of this process has begun
    MOMENT_TRAINED,    // the queue has the clients' turns
    MOMENT_TESTED,     // after a test of the global model
    MOMENT_CLIENTS,    // after a test of clients, which the queue has
    MOMENT_ROUND,      // the round is over, and does not count as done yet; the shared weights are its model
    MOMENT_DONE,       // it counts as done
    MOMENT_CHECKPOINT, // a checkpoint is being written: the record goes to the disk before it
    MOMENT_STOP,       // after the last round, or a failure: the workers live still
    MOMENT_END,        // the final model was tested; the workers have ended
    MOMENTS
} Moment;

// The facts of a moment; zeros where there are none. Pointers are borrowed.
typedef struct Seen {
    uint32_t round;
    const RoundTest *test;    // of the round
    const char *model;        // CLIENTS: the tested model, "global", "personal", "fine-tuned", "new", "new-fine-tuned"
    const ClientTests *tests; // CLIENTS: over all clients
    bool each;                // CLIENTS: each client's test is asked for, too
    bool reaches_target;      // ROUND: it is the first to reach --target
    bool is_last;             // DONE: of this process
    uint64_t began;           // DONE: trace_begin at the begin of the round
    Status status;            // STOP: of the run so far
} Seen;

typedef Status Watch(struct Run *run, void *state, const Seen *seen, Error *err);

typedef struct Watcher {
    size_t bytes;                               // of its state, which begins zeroed
    bool all_nodes;                             // otherwise only the first node has it
    bool (*wanted)(const struct Run *run);      // NULL: every run
    Watch *at[MOMENTS];                         // NULL: it does nothing then
    void (*tick)(struct Run *run, void *state); // while the run waits for workers, some times a second; NULL: nothing
    void (*close)(void *state);                 // frees what the state owns; NULL: nothing
} Watcher;

enum { WATCHERS = 11 };

#endif

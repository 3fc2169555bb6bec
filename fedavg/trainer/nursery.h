// The nursery: the user's program, started once by the parent, up to its first turn. Trainers are forks of it, so that
// importing PyTorch costs time and memory once per run and not once per worker and restart.
//
//   TRY(nursery_start(&nursery, &process, plan, memory, desk_fd, err)); // parent: the program, which tells its net
//   nursery_adopt(&nursery, &process, desk_fd);                         // it says that it can fork
//   TRY(nursery_begin(&nursery, memory, net.values, err));
//   while (nursery_is_busy(&nursery)) TRY(nursery_serve(&nursery, err));
//   TRY(trainer_process_fork(&process, FD_NURSERY, desk_fd, output, err)); // worker
//
// The first turn is a rehearsal, whose result is thrown away: first optimizers import hundreds of modules. It is made
// twice: a program that trains to other weights the second time keeps something from turn to turn, which a warning
// names. A test is made again after another one. Each start of the program makes the first rehearsal from the weights
// that it makes itself, by which it is compared with the first start (witness.h). Then the program says whether it can
// be forked: not with threads, with children or with an open GPU. If not, or if the nursery dies again and again,
// control->forks is 0 and workers start trainers themselves, as with --trainer-start each; each such start makes the
// first rehearsal, too, and is compared by it (trainer.c).
//
// Workers ask at a socket of datagrams that they share and that outlives each nursery: a request that finds it dead
// waits for the next one. A request brings the fork's line, its leash, its desk and its output. The nursery keeps the
// leash as a guard does (guard.h): it ends a fork whose leash ends, says how a fork has ended, and reaps it. All forks
// die with the nursery, and the nursery with the parent.
#ifndef SOUNDER_FEDAVG_TRAINER_NURSERY_H
#define SOUNDER_FEDAVG_TRAINER_NURSERY_H

#include "fedavg/trainer/trainer.h"
#include "fedavg/trainer/witness.h"

typedef enum NurseryState {
    NURSERY_NONE,
    NURSERY_STARTING,   // it reads its first line
    NURSERY_REHEARSING, // it trains two batches of a client, several times
    NURSERY_TESTING,    // it tests some samples, three times
    NURSERY_ASKED,      // it sees whether it can be forked
    NURSERY_OPEN,       // it forks
} NurseryState;

typedef struct Nursery {
    NurseryState state;
    Trainer trainer;          // its process, and the desk on which it rehearses
    int workers_end, own_end; // of the socket of requests; owned, -1: none
    int output;               // where it prints; borrowed
    uint32_t client;          // it rehearses with
    uint32_t batches;         // of a rehearsal
    uint32_t rehearsals;      // of this start that it has been asked for
    const float *first;       // (parameters) weights that the program has made, with which it rehearses; borrowed
    TrainerWitness witness;   // of its first start
    TrainerWitness now;       // of this one
    uint64_t tested;          // hash of its first test's figures
    bool skips_tests;         // it has failed with a part of its test
    uint32_t deaths;          // in a row, without a long life in between
    uint64_t opened_nanoseconds;
    bool had_request; // open, and a request was waiting at the last check
    bool is_other;    // it has started again as another program, which ends the run
    bool was_open;    // until then what the program says against its first turn ends the run
} Nursery;

void nursery_init(Nursery *nursery);

// Starts the program as one that may become the nursery; as trainer_process_start.
Status nursery_start(Nursery *nursery, TrainerProcess *process, const TrainerPlan *plan, const RunMemory *memory,
                     int desk_fd, Error *err);

// Takes a program that can fork, and the memory file of its desk.
void nursery_adopt(Nursery *nursery, TrainerProcess *process, int desk_fd);

// Sends the run's tensors, when they have their memory. first: (parameters) the weights that the program told with its
// tensors; they outlive the nursery.
Status nursery_begin(Nursery *nursery, const RunMemory *memory, const float *first, Error *err);

// The next step, if there is one; never waits for long. Fails with the program's sentence if its first turn fails.
Status nursery_serve(Nursery *nursery, Error *err);

static inline bool nursery_is_busy(const Nursery *nursery) {
    return nursery->state != NURSERY_NONE && nursery->state != NURSERY_OPEN;
}

// Ends the program. Workers that still ask are refused.
void nursery_free(Nursery *nursery);

#endif

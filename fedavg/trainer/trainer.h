// A worker's trainer and the desk, memory that both have mapped: a turn's weights, what the algorithm adds to the
// gradients, and the order of the samples. `sounder help trainer` documents the lines.
//
//   TRY(trainer_open(&trainer, memory, rank, err));
//   memcpy(trainer.desk.weights, global, ...);
//   desk_add_batch(&trainer.desk, indices, count); ...     // what the turn trains on, or evaluates
//   TRY(trainer_ask(&answer, &trainer, &turn, err));     // the weights are the result
//   trainer_close(&trainer);
//
// How the processes are connected with --trainer-start fork. With `each`, every worker has a guard in the place of the
// nursery, and the program as its child.
//
//   parent ──── guard ── nursery            the program, up to its first turn
//     │                   └── trainer 0     its forks
//     └── worker 0 ┄┄┄┄┄┄┄┄┄┄┄┘             by three things:
//
//   socket   lines of JSON, both ways; its end tells either side that the other one is gone
//   leash    to the trainer's keeper, the guard or the nursery, which kills the trainer when the worker's end closes,
//            and says on it how the trainer has ended
//   desk     memory with the turn's weights and sample numbers (desk.h)
//
//   dies      and then
//   trainer   the worker sees the end of the socket, starts another one, and does the turn again
//   worker    the keeper sees the end of the leash and kills the trainer; another worker gets the job
//   nursery   its forks die with it; their workers ask the next nursery, or start trainers themselves
//   guard     the kernel kills the program; the worker sees the end of the socket
//   parent    workers and the guard see it, and end what is theirs
//
// The desk is the worker's: it outlives a trainer that dies. A fault costs the turn: trainer_restart and do it again.
#ifndef SOUNDER_FEDAVG_TRAINER_TRAINER_H
#define SOUNDER_FEDAVG_TRAINER_TRAINER_H

#include <stdbool.h>

#include "base/err.h"
#include "fedavg/memory/run_memory.h"
#include "fedavg/trainer/desk.h"
#include "fedavg/trainer/process.h"

typedef struct Trainer {
    const RunMemory *memory; // borrowed
    uint32_t rank;
    bool has_asked_gpu; // how many trainers its GPU can hold
    TrainerProcess process;
    Desk desk;      // owned
    uint64_t turns; // asked so far
} Trainer;

// A turn on the batches that desk_add_batch has put on the desk since the turn before.
typedef struct TrainerTurn {
    const char *tests;           // "test", "validation" or "client": whose samples; NULL: the turn trains
    bool of_test_set;            // the numbers are those of test samples
    uint32_t round, key, epochs; // key: of the random numbers
    uint32_t client;             // UINT32_MAX: none
    float lr, momentum, weight_decay, pull;
    bool shifts;
    bool measures;                   // the algorithm divides by what the steps amount to
    bool keeps;                      // desk.state has the client's state, and gets its next one
    bool viewed;                     // the batches have rows of samples as the client sees them
    uint64_t still_first, still_end; // parameters of whole tensors that rest; equal: all are trained
    bool rehearses;                  // the result is thrown away
    bool checks;                     // the trainer says what it uses that is older than the turn
} TrainerTurn;

enum { TRAINER_KEPT_BYTES = 256 };

typedef struct TrainerAnswer {
    double loss_sum; // NAN: the trainer has none
    uint32_t hits;
    bool judges;  // whether it counts hits
    bool answers; // desk.answers has the net's answer for each sample of the test
    uint64_t samples, steps;
    uint64_t tokens;   // 0: it counts none
    double travel;     // how far a gradient of 1 in every step would have taken a weight; 0: by steps of SGD
    bool other_steps;  // than those of SGD with the turn's lr and momentum
    bool gradients;    // desk.gradients has their mean
    bool steps_stated; // the trainer's author says how many steps, or the travel; otherwise they were only counted
    char kept[TRAINER_KEPT_BYTES]; // of a turn that checks: such things by name; "": none, or the trainer cannot say
    MetricSums metrics;
} TrainerAnswer;

// Writes the names of an answer's list `kept` one after the other; those that do not fit are left out.
void trainer_read_kept(char kept[TRAINER_KEPT_BYTES], const json_t *names);

// Creates the desk and starts the trainer. Nothing to close on failure.
Status trainer_open(Trainer *trainer, const RunMemory *memory, uint32_t rank, Error *err);

// Returns UNAVAILABLE if the trainer failed in a way that another one may not, DATA with a sentence that ends the run.
Status trainer_ask(TrainerAnswer *answer, Trainer *trainer, const TrainerTurn *turn, Error *err);

// Kills the trainer and starts another one.
Status trainer_restart(Trainer *trainer, Error *err);

void trainer_close(Trainer *trainer);

// Puts samples of a test on the desk: those with the numbers `indices` (count), or with NULL those from `first` on.
void trainer_add_test(Trainer *trainer, const uint32_t *indices, uint32_t first, uint32_t count);

// A turn of a trial: puts these weights (NULL: leaves those of the desk) and the first batches of the client (at most
// `batches`) on the desk, in the order of the data set, without shuffling, and returns the turn. Its rate is that of
// the options, which no round has changed yet.
TrainerTurn trainer_trial(Trainer *trainer, const float *first, uint32_t client, uint32_t batches);

// The first client from `client` on that has samples, going round.
uint32_t trainer_client_from(const RunMemory *memory, uint32_t client);

// The line that asks for a turn.
void trainer_turn_line(JsonObject *line, Trainer *trainer, const TrainerTurn *turn);

#endif

// The desk: memory that a worker and its trainer have mapped, so that weights and samples of a turn are never copied
// from one to the other. It belongs to the worker and outlives a trainer that dies.
//
//   TRY(desk_create(&desk, memory, -1, err));
//   memcpy(desk.weights, global, ...);
//   desk_add_batch(&desk, indices, count);      // of the next turn, until desk_clear
//   put_object(&line, "desk", desk_told(&told, &desk));
//   desk_free(&desk);
//
//   weights   in: the weights that the turn begins with; out: the trained ones
//   shift     in: what the algorithm adds to every gradient, beside pull * weight
//   gradients out: the mean of the turn's gradients, if the answer says so
//   state     in and out: what the client keeps from turn to turn (--client-optimizer-state keep)
//   order     in: sample numbers of all batches, one after the other
//   ends      in: where each batch ends in order
//   places    in: for each entry of order, its row of samples and labels, where the client sees other ones than the
//             data set has (noise, drift, attacks on data)
//
// Its size is that of the largest turn that the run can have, so that nothing in it ever moves. Pages that no turn uses
// are never allocated.
#ifndef SOUNDER_FEDAVG_TRAINER_DESK_H
#define SOUNDER_FEDAVG_TRAINER_DESK_H

#include <stdbool.h>

#include "base/err.h"
#include "fedavg/memory/run_memory.h"
#include "io/json.h"

typedef struct Desk {
    int fd;          // owned
    uint8_t *memory; // owned (bytes)
    size_t bytes, state_bytes;
    // Its parts, in the memory:
    float *weights;         // (parameters)
    float *shift;           // (parameters); NULL: no algorithm adds to the gradients
    float *gradients;       // (parameters); NULL: no rule asks for them
    float *state;           // (trainer.state_floats) that a client's turn begins and ends with; NULL: clients keep none
    float *answers;         // (samples of a test, classes) the net's answers, in the turn's order; NULL: not wanted
    uint32_t *order, *ends; // sample numbers of the next turn, all batches one after the other; where each batch ends
    uint32_t room;          // entries of order, ends and places
    uint32_t count, batches; // sample numbers, and batches, of the next turn so far
    bool overfull;           // the next turn had more of them than there is room for
    // Where clients may see other samples than the data set has: for each sample number its row of samples and labels.
    uint32_t *places; // NULL: no view differs
    uint8_t *samples, *labels;
    size_t sample_bytes, label_bytes;
    bool has_floats;  // the samples are floats, as they enter a net
    uint32_t rows;    // of the next turn so far
    uint32_t *row_of; // owned: 1 + the row of each sample number; 0: it has none
} Desk;

// Takes the next part, of `bytes`, after those that are used. memory NULL: only counts them, so that one list of parts
// says how large the file must be and where each part begins.
void *desk_part(uint8_t *memory, size_t *used, uint64_t bytes);

// Maps `bytes` bytes of a memory file (*fd; -1: of a new one), which both processes write. The caller closes *fd, also
// after a failure.
Status desk_map(uint8_t **memory, int *fd, size_t bytes, Error *err);

// Puts the place of a part into the object that says where the parts are; nothing if part is NULL.
void desk_put_part(JsonObject *told, const char *key, const uint8_t *memory, const void *part);

// Whether the run's algorithm adds to the gradients. Without that a desk has no `shift`, and turn.correct() of the
// library does nothing: FedAvg pays for neither.
bool desk_has_shift(const RunMemory *memory);

// fd: a memory file that a trainer has open already, which becomes the desk's; -1: a new one. Nothing to free on
// failure.
Status desk_create(Desk *desk, const RunMemory *memory, int fd, Error *err);
void desk_free(Desk *desk);

// Adds a batch of samples, indices (count), to the next turn; where they have rows, desk->places is the caller's to
// write then (worker/trainer_view.c). indices may be where the desk has them: desk->order + desk->count.
void desk_add_batch(Desk *desk, const uint32_t *indices, uint32_t count);

// Whether a batch of `count` samples fits into the next turn. One that does not is left out, and makes the desk
// overfull: trainer_ask then fails, since the turn would not be the one that the run asks for.
bool desk_has_room(Desk *desk, uint32_t count);

// The next turn has no batches.
void desk_clear(Desk *desk);

// Returns told: the object of the first line that says where the parts are.
JsonObject *desk_told(JsonObject *told, const Desk *desk);

#endif

// The state that outlives a round: each number, beside the weights, that a run needs to continue with the same bits is
// a row of one table. Checkpoints, nodes, and the memory of a run loop over it, so that all of them cover the same
// rows.
//
//   StateTable state;
//   TRY(state_open(&state, memory, err));
//   for (uint32_t i = 0; i < state.count; i++)
//       ... state.rows[i].values, state.rows[i].count * tensor_type_bytes(state.rows[i].type)
//   free(state.rows);
//
// To remember one more number: a field where it is stored (layout.h: Control, for a number of the parent's) and a row
// in state.c. A vector of the model's size needs a StateVector below and its row; what a server rule remembers of each
// weight (ServerRule.states) has rows by itself.
#ifndef SOUNDER_FEDAVG_MEMORY_STATE_H
#define SOUNDER_FEDAVG_MEMORY_STATE_H

#include <stdint.h>

#include "base/err.h"
#include "fedavg/memory/run_memory.h"
#include "io/safetensors.h"

typedef enum StateScope {
    STATE_ONE,               // one number of the run
    STATE_PER_WEIGHT,        // a lasting vector (TENSOR_F32), a state of the server rule (64 bits)
    STATE_PER_CLIENT,        // one number per client
    STATE_PER_CLIENT_VECTOR, // the table of the file of rows (client_state_file.h); the rows themselves stay in that file
    STATE_PER_PENDING_UPDATE // an update that waits for its step, the weights it began with, and whether it was refused
} StateScope;

#define STATE_NOISE_KEY "sounder.noise_key" // of private rules: a checkpoint with this note is for its owner alone

enum { STATE_NAME_BYTES = 64, STATE_TEXT_BYTES = 40 };

// Numbers and flags are notes of a checkpoint; all other rows are tensors of rank 1 in it. Rows of one name are
// adjacent and make one note together.
typedef struct StateRow {
    char name[STATE_NAME_BYTES]; // in checkpoints: "sounder.server.adam.0"
    TensorType type;             // TENSOR_I32, TENSOR_I64: unsigned as numbers; TENSOR_U8: a flag (1), a text (count)
    StateScope scope;
    uint64_t count; // elements
    void *values;   // (count) borrowed from the memory
} StateRow;

typedef struct StateTable {
    StateRow *rows; // owned (count): in the order of checkpoints
    uint32_t count;
} StateTable;

// The rows of the memory as it is now: those of pending updates change from round to round (schedule_resume). On
// failure the table has no rows.
Status state_open(StateTable *table, const RunMemory *memory, Error *err);

// A note's text, row by row. state_write returns the end of the text, which has room for STATE_TEXT_BYTES more; first:
// the row is the first of its name. state_read returns where the next row of the note begins; rows that the text does
// not reach stay as they are.
bool state_is_note(const StateRow *row);
char *state_write(char *text, const StateRow *row, bool first);
const char *state_read(const StateRow *row, const char *text);

// The vectors of the model's size that outlive a round (SlotPlan.lasting), in their order in the slots segment.
typedef enum StateVector {
    STATE_VELOCITY,   // hogwild: one per client; ssgd: one for all
    STATE_COMMON,     // what the server rule tells the clients (ServerRule.tells)
    STATE_INITIAL,    // given weights that personal models begin with
    STATE_CENTER,     // what the combine rule remembers (CombineRule.remembers)
    STATE_MOMENTUM,   // the mean momentum that clients begin with (OPTIMIZER_AVERAGED)
    STATE_MET,        // what the last replica to arrive met: the centre before it gave
    STATE_AGGREGATOR, // what the run's aggregator remembers
    STATE_CLUSTERS,   // the models of all clusters but the first, which is the shared one
    STATE_VECTORS
} StateVector;

// The index of the (first) vector of this kind, for run_memory_vector and cuda_blocks_vector.
uint32_t state_vector(const RunMemory *memory, StateVector which);

// The models of a run (parameters): the shared one, and that of each further cluster (PersonalPlan.clusters).
uint32_t state_models(const RunConfig *config);
float *state_model(const RunMemory *memory, uint32_t model);

// The one of them that is tested as the global model and becomes the run's: that of most clients in the last round that
// any client finished; the first of equal ones.
float *state_tested_model(const RunMemory *memory);

// Fills in lasting and states of config->slots, whose vectors begin with the lasting ones.
void state_plan(RunConfig *config);

// First values of a run, once the segments are there: allocates the lists that the memory owns with one element per
// client, sets the numbers and the states of the server rule.
Status state_begin(RunMemory *memory, Error *err);

#endif

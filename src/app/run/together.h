// What the nodes of a run settle before its first round, each function called by all of them. Alone they do nothing.
#ifndef SOUNDER_APP_RUN_TOGETHER_H
#define SOUNDER_APP_RUN_TOGETHER_H

#include "app/options/options.h"
#include "fedavg/memory/run_memory.h"
#include "fedavg/nodes/nodes.h"

// Everybody takes the options of node 0, which alone has read what --resume names. mine: whether that went well there.
Status together_options(Options *options, Nodes *nodes, Status mine, Error *err);

enum { TOGETHER_NAME_BYTES = 256 };

// The same data set and the same arithmetic (the card's name, or the instruction set's and OpenBLAS's) everywhere: with
// others the sums would be of another model. mine: whether this node has what its arithmetic needs.
Status together_check(const RunMemory *memory, const char *arithmetic, Nodes *nodes, Status mine, Error *err);

// Everybody goes on from what node 0 has restored: weights, velocity, rounds done, and whether the run has its result.
Status together_start(const RunMemory *memory, uint32_t *rounds_done, bool *has_result, Nodes *nodes, Error *err);

#endif

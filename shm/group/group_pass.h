// The collectives as passes over their data, for every transport. A pass says which rank publishes what for which rank;
// the transport moves it. Each collective is one pass or two:
//
//   published data         published by   read by   action    operation
//   one piece for all      all            all       copy      all_gather, split, second pass of all_reduce
//                          all            root      copy      gather
//                          root           all       copy      broadcast
//                          all            all       combine   all_reduce of little data
//                          all            root      combine   reduce
//   one row for each rank  all            all       copy      all_to_all
//                          root           all       copy      scatter
//                          all            all       combine   reduce_scatter, first pass of all_reduce
//   nothing                                                   barrier, finish
#ifndef SOUNDER_SHM_GROUP_GROUP_PASS_H
#define SOUNDER_SHM_GROUP_GROUP_PASS_H

#include "shm/group/group_call.h"

enum { ALL_RANKS = -1 };

// Rank p publishes piece (p, q) for rank q. Pieces are rows: row q of p's input, or p's whole input.
typedef struct Pass {
    const GroupCall *call;
    const unsigned char *in;
    unsigned char *out;
    bool has_rows;         // `in` has one row for each reader; otherwise it is one piece for all readers
    bool combines;         // a reader combines its pieces into one row; otherwise `out` has one row for each publisher
    int publisher, reader; // a rank, or ALL_RANKS
    size_t row_elements;   // of every row; the last rows are shorter if ...
    size_t elements;       // ... `elements` is less than all rows together
} Pass;

// The part of a pass that one step moves: elements [begin, begin + most) of every row, up to the row's end.
typedef struct Chunk {
    size_t begin, most;
} Chunk;

static inline bool pass_concerns(int whom, uint32_t rank) {
    return whom == ALL_RANKS || whom == (int)rank;
}

// Number of elements of the chunk of piece (publisher, reader); the same on all ranks.
size_t pass_piece_length(const Pass *pass, const Chunk *chunk, uint32_t publisher, uint32_t reader);

// Address of this rank's own piece for a reader; NULL where the rank gives nothing.
const unsigned char *pass_own_piece(const Pass *pass, const Chunk *chunk, uint32_t reader);

// Address at which this rank stores the piece of a publisher, or the combination; NULL where it gets nothing.
unsigned char *pass_place(const Pass *pass, const Chunk *chunk, uint32_t publisher);

typedef Status PassRunner(Group *group, const Pass *pass, Error *err);

// Carries out a call: one or two passes, each by `run`.
Status group_run_passes(Group *group, const GroupCall *call, void *out, const void *in, PassRunner *run, Error *err);

#endif

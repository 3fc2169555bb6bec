// The collectives as passes over their data, for every transport. A pass says who publishes what for whom; the
// transport carries it there. Each collective is one pass, or two:
//
//   what is published      who publishes   who reads   what they do   operation
//   one piece for all      all             all         copy           all_gather, split, second pass of all_reduce
//                          all             root        copy           gather
//                          root            all         copy           broadcast
//                          all             all         combine        all_reduce of little data
//                          all             root        combine        reduce
//   a row for each rank    all             all         copy           all_to_all
//                          root            all         copy           scatter
//                          all             all         combine        reduce_scatter, first pass of all_reduce
//   nothing                                                           barrier, finish
#ifndef SOUNDER_SHM_GROUP_GROUP_PASS_H
#define SOUNDER_SHM_GROUP_GROUP_PASS_H

#include "shm/group/group_call.h"

enum { EVERYBODY = -1 };

// What rank p publishes for rank q is piece (p, q). Pieces are rows: q's row of p's input, or p's own.
typedef struct Pass {
    const GroupCall *call;
    const unsigned char *in;
    unsigned char *out;
    bool has_rows;         // in has a row for each reader; otherwise it is one piece, for all of them
    bool combines;         // what a reader gets, into one row; otherwise out has a row for each publisher
    int publisher, reader; // a rank, or EVERYBODY
    size_t row_elements;   // of every row, but the last ones are shorter if ...
    size_t elements;       // ... this is less than all rows together
} Pass;

// The part of a pass that one step moves: elements [begin, begin + most) of every row, as far as it goes.
typedef struct Chunk {
    size_t begin, most;
} Chunk;

static inline bool pass_concerns(int whom, uint32_t rank) {
    return whom == EVERYBODY || whom == (int)rank;
}

// Elements of the chunk of piece (publisher, reader); all ranks come to the same number.
size_t pass_piece_length(const Pass *pass, const Chunk *chunk, uint32_t publisher, uint32_t reader);

// Where this rank's own piece for a reader is.
const unsigned char *pass_own_piece(const Pass *pass, const Chunk *chunk, uint32_t reader);

// Where this rank puts what it reads from a publisher, or what it combines.
unsigned char *pass_place(const Pass *pass, const Chunk *chunk, uint32_t publisher);

typedef Status PassRunner(Group *group, const Pass *pass, Error *err);

// Carries out a call: one or two passes, each by `run`.
Status group_run_passes(Group *group, const GroupCall *call, void *out, const void *in, PassRunner *run, Error *err);

#endif

// What a rank asks of its group: the header that the ranks compare, and its words for sentences.
#ifndef SOUNDER_SHM_GROUP_GROUP_CALL_H
#define SOUNDER_SHM_GROUP_GROUP_CALL_H

#include "shm/group/group.h"

typedef enum GroupOperation {
    OPERATION_BARRIER,
    OPERATION_BROADCAST,
    OPERATION_REDUCE,
    OPERATION_ALL_REDUCE,
    OPERATION_GATHER,
    OPERATION_ALL_GATHER,
    OPERATION_SCATTER,
    OPERATION_REDUCE_SCATTER,
    OPERATION_ALL_TO_ALL,
    OPERATION_SPLIT, // an all_gather of a few bytes of host memory, whatever memory the group has
    OPERATION_FINISH,
    OPERATION_COUNT
} GroupOperation;

// One collective. Bytes that nobody sets are zero, so that two headers agree when their bytes do.
typedef struct GroupCall {
    uint64_t sequence; // 1: the first call of the group
    uint64_t count;    // elements
    uint32_t root;     // 0 where there is none
    uint8_t operation; // GroupOperation
    uint8_t type;      // GroupType
    uint8_t op;        // GroupOp; GROUP_SUM where nothing is combined
    uint8_t unused;
} GroupCall;

_Static_assert(sizeof(GroupCall) == 24, "no padding, it is compared byte by byte");

enum { GROUP_CALL_TEXT_BYTES = 96 };

// "all_reduce of 10 f32 (sum)", "broadcast of 3 i64 from rank 1", "barrier". Returns text.
const char *group_call_text(char text[GROUP_CALL_TEXT_BYTES], const GroupCall *call);

// Two calls of the same place in the order: do they fit together?
bool group_call_fits(const GroupCall *call, const GroupCall *other);

// The sentence about two that do not: "call 7 of the group: rank 0 called barrier, but rank 2 called ...".
Status group_call_mismatch(const GroupCall *call, uint32_t rank, const GroupCall *other, uint32_t other_rank,
                           Error *err);

// "process 123"; of pid 0, which the kernel gives for a process of another PID namespace: "in another container".
typedef struct GroupProcessText {
    char text[32];
} GroupProcessText;
GroupProcessText group_process_text(int pid);

// "rank 1", "ranks 1, 2 and 5", from marks[size]; those that are not `mark`ed are left out, and beyond a dozen only
// counted. Returns text.
enum { GROUP_RANKS_TEXT_BYTES = 128 };
const char *group_ranks_text(char text[GROUP_RANKS_TEXT_BYTES], const bool *marks, uint32_t size);

#endif

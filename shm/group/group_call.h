// A call of a rank on its group: the header that the ranks compare, and texts for sentences.
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
    OPERATION_SPLIT, // an all_gather of a few bytes in host memory, also for groups on a GPU
    OPERATION_FINISH,
    OPERATION_COUNT
} GroupOperation;

// One collective. Unused bytes are zero, so that two headers are equal if their bytes are.
typedef struct GroupCall {
    uint64_t sequence; // 1: the first call of the group
    uint64_t count;    // elements
    uint32_t root;     // 0 if the call has none
    uint8_t operation; // GroupOperation
    uint8_t type;      // GroupType
    uint8_t op;        // GroupOp; GROUP_SUM for calls that combine nothing
    uint8_t unused;
} GroupCall;

_Static_assert(sizeof(GroupCall) == 24, "no padding, it is compared byte by byte");

// The part of the root in a call; ROOT_NONE: the call has no root.
typedef enum GroupRoot { ROOT_NONE, ROOT_PUBLISHES, ROOT_READS } GroupRoot;

typedef struct GroupOperationFacts {
    const char *name;
    GroupRoot root;
    bool combines;       // pieces are combined into one; otherwise they are copied
    bool has_rows;       // a rank has one piece for each reader; otherwise one piece for all readers
    bool names_elements; // sentences say how many elements of which type
} GroupOperationFacts;

// (OPERATION_COUNT)
extern const GroupOperationFacts group_operations[];

enum { GROUP_CALL_TEXT_BYTES = 96 };

// Writes "all_reduce of 10 f32 (sum)", "broadcast of 3 i64 from rank 1" or "barrier". Returns text.
const char *group_call_text(char text[GROUP_CALL_TEXT_BYTES], const GroupCall *call);

// Says whether two calls with the same place in the order fit together.
bool group_call_fits(const GroupCall *call, const GroupCall *other);

// Writes the sentence about two calls that do not fit: "... rank 0's call 7 is barrier, but rank 2's call 7 is ...".
Status group_call_mismatch(const GroupCall *call, uint32_t rank, const GroupCall *other, uint32_t other_rank,
                           Error *err);

// Returns "process 123", or "in another container" for pid 0, which the kernel reports for another PID namespace.
typedef struct GroupProcessText {
    char text[32];
} GroupProcessText;
GroupProcessText group_process_text(int pid);

// Writes "rank 1" or "ranks 1, 2 and 5": the ranks whose mark in marks[size] is set; ranks beyond a dozen are only
// counted. Returns text.
enum { GROUP_RANKS_TEXT_BYTES = 128 };
const char *group_ranks_text(char text[GROUP_RANKS_TEXT_BYTES], const bool *marks, uint32_t size);

#endif

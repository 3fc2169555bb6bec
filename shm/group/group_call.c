#include "shm/group/group_call.h"

#include <stdio.h>
#include <string.h>

static const char *const operation_names[OPERATION_COUNT] = {
    [OPERATION_BARRIER] = "barrier",       [OPERATION_BROADCAST] = "broadcast",
    [OPERATION_REDUCE] = "reduce",         [OPERATION_ALL_REDUCE] = "all_reduce",
    [OPERATION_GATHER] = "gather",         [OPERATION_ALL_GATHER] = "all_gather",
    [OPERATION_SCATTER] = "scatter",       [OPERATION_REDUCE_SCATTER] = "reduce_scatter",
    [OPERATION_ALL_TO_ALL] = "all_to_all", [OPERATION_SPLIT] = "split",
    [OPERATION_FINISH] = "finish",
};

size_t group_type_bytes(GroupType type) {
    static const size_t bytes[] = {[GROUP_F32] = 4, [GROUP_F64] = 8, [GROUP_I32] = 4, [GROUP_I64] = 8, [GROUP_U8] = 1};
    return bytes[type];
}

const char *group_type_name(GroupType type) {
    static const char *const names[] = {
        [GROUP_F32] = "f32", [GROUP_F64] = "f64", [GROUP_I32] = "i32", [GROUP_I64] = "i64", [GROUP_U8] = "u8"};
    return names[type];
}

const char *group_op_name(GroupOp op) {
    static const char *const names[] = {
        [GROUP_SUM] = "sum", [GROUP_PRODUCT] = "product", [GROUP_MIN] = "min", [GROUP_MAX] = "max",
        [GROUP_AVG] = "avg", [GROUP_BAND] = "band",       [GROUP_BOR] = "bor", [GROUP_BXOR] = "bxor"};
    return names[op];
}

const char *group_call_text(char text[GROUP_CALL_TEXT_BYTES], const GroupCall *call) {
    char detail[32] = "";
    switch (call->operation) {
    case OPERATION_BROADCAST:
    case OPERATION_SCATTER:
        snprintf(detail, sizeof detail, " from rank %u", call->root);
        break;
    case OPERATION_GATHER:
        snprintf(detail, sizeof detail, " to rank %u", call->root);
        break;
    case OPERATION_REDUCE:
        snprintf(detail, sizeof detail, " (%s) to rank %u", group_op_name(call->op), call->root);
        break;
    case OPERATION_ALL_REDUCE:
    case OPERATION_REDUCE_SCATTER:
        snprintf(detail, sizeof detail, " (%s)", group_op_name(call->op));
        break;
    default:
        break;
    }
    const char *name = operation_names[call->operation];
    if (call->operation == OPERATION_BARRIER || call->operation == OPERATION_FINISH ||
        call->operation == OPERATION_SPLIT)
        snprintf(text, GROUP_CALL_TEXT_BYTES, "%s", name);
    else
        snprintf(text, GROUP_CALL_TEXT_BYTES, "%s of %lu %s%s", name, call->count, group_type_name(call->type), detail);
    return text;
}

bool group_call_fits(const GroupCall *call, const GroupCall *other) {
    return memcmp(call, other, sizeof *call) == 0;
}

Status group_call_mismatch(const GroupCall *call, uint32_t rank, const GroupCall *other, uint32_t other_rank,
                           Error *err) {
    if (other_rank < rank) return group_call_mismatch(other, other_rank, call, rank, err);
    char text[GROUP_CALL_TEXT_BYTES], other_text[GROUP_CALL_TEXT_BYTES];
    return fail(err, STATUS_MISMATCH,
                "the ranks' calls do not fit together: rank %u's call %lu is %s, but rank %u's call %lu is %s", rank,
                call->sequence, group_call_text(text, call), other_rank, other->sequence,
                group_call_text(other_text, other));
}

GroupProcessText group_process_text(int pid) {
    GroupProcessText process = {"in another container"};
    if (pid > 0) snprintf(process.text, sizeof process.text, "process %d", pid);
    return process;
}

const char *group_ranks_text(char text[GROUP_RANKS_TEXT_BYTES], const bool *marks, uint32_t size) {
    enum { NAMED_AT_MOST = 12 };
    uint32_t total = 0, named = 0;
    for (uint32_t rank = 0; rank < size; rank++)
        total += marks[rank];
    int used = snprintf(text, GROUP_RANKS_TEXT_BYTES, total == 1 ? "rank" : "ranks");
    for (uint32_t rank = 0; rank < size && named < NAMED_AT_MOST; rank++) {
        if (!marks[rank]) continue;
        const char *before = named == 0 ? " " : named + 1 == total ? " and " : ", ";
        used += snprintf(text + used, (size_t)(GROUP_RANKS_TEXT_BYTES - used), "%s%u", before, rank);
        named++;
    }
    if (named < total) snprintf(text + used, (size_t)(GROUP_RANKS_TEXT_BYTES - used), " and %u more", total - named);
    return text;
}

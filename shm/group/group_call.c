#include "shm/group/group_call.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

// clang-format off
const GroupOperationFacts group_operations[OPERATION_COUNT] = {
    //                              name              root            combines  rows   elements
    [OPERATION_BARRIER]        = {"barrier",        ROOT_NONE,      false,    false, false},
    [OPERATION_BROADCAST]      = {"broadcast",      ROOT_PUBLISHES, false,    false, true},
    [OPERATION_REDUCE]         = {"reduce",         ROOT_READS,     true,     false, true},
    [OPERATION_ALL_REDUCE]     = {"all_reduce",     ROOT_NONE,      true,     false, true},
    [OPERATION_GATHER]         = {"gather",         ROOT_READS,     false,    false, true},
    [OPERATION_ALL_GATHER]     = {"all_gather",     ROOT_NONE,      false,    false, true},
    [OPERATION_SCATTER]        = {"scatter",        ROOT_PUBLISHES, false,    true,  true},
    [OPERATION_REDUCE_SCATTER] = {"reduce_scatter", ROOT_NONE,      true,     true,  true},
    [OPERATION_ALL_TO_ALL]     = {"all_to_all",     ROOT_NONE,      false,    true,  true},
    [OPERATION_SPLIT]          = {"split",          ROOT_NONE,      false,    false, false},
    [OPERATION_FINISH]         = {"finish",         ROOT_NONE,      false,    false, false},
};
// clang-format on

size_t group_type_bytes(GroupType type) {
    assert((unsigned)type <= GROUP_U8);
    static const size_t bytes[] = {[GROUP_F32] = 4, [GROUP_F64] = 8, [GROUP_I32] = 4, [GROUP_I64] = 8, [GROUP_U8] = 1};
    return bytes[type];
}

const char *group_type_name(GroupType type) {
    assert((unsigned)type <= GROUP_U8);
    static const char *const names[] = {
        [GROUP_F32] = "f32", [GROUP_F64] = "f64", [GROUP_I32] = "i32", [GROUP_I64] = "i64", [GROUP_U8] = "u8"};
    return names[type];
}

const char *group_op_name(GroupOp op) {
    assert((unsigned)op <= GROUP_BXOR);
    static const char *const names[] = {
        [GROUP_SUM] = "sum", [GROUP_PRODUCT] = "product", [GROUP_MIN] = "min", [GROUP_MAX] = "max",
        [GROUP_AVG] = "avg", [GROUP_BAND] = "band",       [GROUP_BOR] = "bor", [GROUP_BXOR] = "bxor"};
    return names[op];
}

const char *group_call_text(char text[GROUP_CALL_TEXT_BYTES], const GroupCall *call) {
    assert(call->operation < OPERATION_COUNT);
    const GroupOperationFacts *facts = &group_operations[call->operation];
    char elements[32] = "", op[16] = "", root[24] = "";
    if (facts->names_elements)
        snprintf(elements, sizeof elements, " of %lu %s", call->count, group_type_name(call->type));
    if (facts->combines) snprintf(op, sizeof op, " (%s)", group_op_name(call->op));
    if (facts->root != ROOT_NONE)
        snprintf(root, sizeof root, " %s rank %u", facts->root == ROOT_READS ? "to" : "from", call->root);
    snprintf(text, GROUP_CALL_TEXT_BYTES, "%s%s%s%s", facts->name, elements, op, root);
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
    snprintf(text, GROUP_RANKS_TEXT_BYTES, total == 1 ? "rank" : "ranks");
    for (uint32_t rank = 0; rank < size && named < NAMED_AT_MOST; rank++) {
        if (!marks[rank]) continue;
        const char *before = named == 0 ? " " : named + 1 == total ? " and " : ", ";
        text_add(text, GROUP_RANKS_TEXT_BYTES, "%s%u", before, rank);
        named++;
    }
    if (named < total) text_add(text, GROUP_RANKS_TEXT_BYTES, " and %u more", total - named);
    return text;
}

#include "cohort_failures.h"

#include <assert.h>

Status cohort_failures_begin(CohortFailures *failures, const RunConfig *config, uint64_t now, Nodes *nodes,
                             Error *err) {
    *failures = (CohortFailures){.lives = failures->lives};
    if (!failures->lives) return STATUS_OK;
    for (uint32_t client = 0; client < config->clients; client++)
        failures_advance(&failures->lives[client], &config->world.failures, client, config->seed, now);
    return nodes_broadcast(nodes, failures->lives, config->clients * sizeof *failures->lives, err);
}

uint32_t cohort_failures_leave_out(CohortFailures *failures, Member *members, uint32_t count, const World *world,
                                   uint64_t now) {
    uint32_t left = 0;
    if (!failures->lives) return count;
    failures->first_back = UINT64_MAX;
    for (uint32_t i = 0; i < count; i++) {
        const Life *life = &failures->lives[members[i].client];
        const uint64_t over = failures_over(life, &world->failures);
        if (life->fails > now)
            members[left++] = members[i];
        else if (over < failures->first_back)
            failures->first_back = over;
    }
    failures->down = count - left;
    return left;
}

void cohort_failures_meet(const CohortFailures *failures, Member *member, uint64_t now) {
    if (!failures->lives || member->fate != MEMBER_ARRIVES) return;
    const Life *life = &failures->lives[member->client];
    assert(life->fails > now); // those that are down were left out
    if (life->fails - now >= member->end_microseconds) return;
    member->fate = MEMBER_FAILS;
    member->end_microseconds = life->fails - now;
}

void cohort_failures_conclude(CohortFailures *failures, uint64_t *microseconds, const Member *members, uint32_t count,
                              const Arrivals *arrivals, const World *world) {
    uint64_t last = 0;
    if (!failures->lives) return;
    for (uint32_t i = 0; i < count; i++) {
        const Member *member = &members[i];
        failures->failed += member->fate == MEMBER_FAILS;
        if (member->fate == MEMBER_FAILS && member->end_microseconds > last) last = member->end_microseconds;
        if (member->fate == MEMBER_ARRIVES && !arrivals->abandoned)
            failures->useful_microseconds += member->training_microseconds;
    }
    const bool waits = arrivals->count == 0 || (world->over_selection <= 1 && world->deadline == 0);
    if (waits && last > *microseconds) *microseconds = last;
    failures->replica_microseconds = (uint64_t)(count + failures->down) * *microseconds;
}

Status cohort_failures_lost(const CohortFailures *failures, uint8_t *lost, const RunConfig *config, uint64_t begin,
                            uint64_t now, Nodes *nodes, Error *err) {
    assert(failures->lives && begin <= now);
    for (uint32_t client = 0; client < config->clients; client++)
        lost[client] =
            failures_begin_within(&failures->lives[client], &config->world.failures, client, config->seed, begin, now);
    return nodes_broadcast(nodes, lost, config->clients, err);
}

// Part of rounds.h: the jobs of a phase on several nodes, dealt before it and merged after it.
#include "fedavg/parent/rounds.h"

#include <stdlib.h>
#include <string.h>

// Jobs are in the order of falling size, so that dealing them in turn gives each node nearly as much work.
bool node_jobs_mine(const Nodes *nodes, uint32_t place) {
    return place % nodes->size == nodes->rank;
}

// Nodes have different numbers of jobs, and a gather has to know all sizes in advance. A sum in which each node fills
// in its own place tells them.
static Status count_jobs(size_t *counts, uint32_t *total, const Queue *queue, Nodes *nodes, Error *err) {
    int64_t *each = calloc(nodes->size, sizeof *each);
    if (!each) return fail(err, STATUS_OS, "no memory for %u nodes", nodes->size);
    each[nodes->rank] = queue->count;
    Status status = nodes_sum(nodes, each, nodes->size, err);
    for (uint32_t node = 0; node < nodes->size; node++) {
        counts[node] = (size_t)each[node] * sizeof(Job);
        *total += (uint32_t)each[node];
    }
    free(each);
    return status;
}

// Puts all nodes' jobs into this queue by their places. Everything that is then computed from the queue is computed on
// every node, in one order, so that it needs no message of its own.
Status node_jobs_merge(Queue *queue, Nodes *nodes, Error *err) {
    if (nodes->size == 1) return STATUS_OK;
    size_t *counts = calloc(nodes->size, sizeof *counts);
    if (!counts) return fail(err, STATUS_OS, "no memory for %u nodes", nodes->size);
    uint32_t total = 0;
    Job *jobs = NULL;
    Status status;
    TRY_GOTO(end, count_jobs(counts, &total, queue, nodes, err));
    jobs = aligned_alloc(_Alignof(Job), (total + 1) * sizeof *jobs);
    if (!jobs) status = fail(err, STATUS_OS, "no memory for %u jobs", total);
    if (jobs) status = nodes_gather(nodes, jobs, queue->jobs, counts, err);
    for (uint32_t i = 0; i < total && status == STATUS_OK; i++)
        memcpy(&queue->jobs[jobs[i].place], &jobs[i], sizeof *jobs);
    if (status == STATUS_OK) queue->count = total;
end:
    free(jobs);
    free(counts);
    return status;
}

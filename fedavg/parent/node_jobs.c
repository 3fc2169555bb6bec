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
static Status count_jobs(int64_t *each, uint32_t *total, const Queue *queue, Nodes *nodes, Error *err) {
    each[nodes->rank] = queue->count;
    TRY(nodes_sum(nodes, each, nodes->size, err));
    for (uint32_t node = 0; node < nodes->size; node++)
        *total += (uint32_t)each[node];
    return STATUS_OK;
}

// Gathers the nodes' arrays, one entry of `bytes` per job, into one array in the nodes' order, which the caller frees.
// each: jobs of each node.
static Status gather(void **all, const void *mine, size_t bytes, const int64_t *each, uint32_t total, Nodes *nodes,
                     Error *err) {
    size_t *counts = calloc(nodes->size, sizeof *counts);
    *all = aligned_alloc(64, ((total + 1) * bytes + 63) / 64 * 64);
    for (uint32_t node = 0; node < nodes->size && counts; node++)
        counts[node] = (size_t)each[node] * bytes;
    Status status = counts && *all ? nodes_gather(nodes, *all, mine, counts, err)
                                   : fail(err, STATUS_OS, "no memory for %u jobs", total);
    free(counts);
    return status;
}

// Gathers the metrics of the jobs that have some, in the order of the jobs: a row is large, and many trainers have no
// metrics. This node's rows move together at the front, which the merge overwrites. each: jobs of each node; on return,
// its rows.
static Status gather_metrics(void **rows, const RunMemory *memory, const Job *jobs, int64_t *each, Nodes *nodes,
                             Error *err) {
    const Queue *queue = memory->queue;
    uint32_t total = 0, mine = 0;
    for (uint32_t i = 0; i < queue->count; i++)
        if (queue->jobs[i].metrics > 0) memory->metrics[mine++] = memory->metrics[i];
    for (uint32_t node = 0; node < nodes->size; node++) {
        const Job *end = jobs + each[node];
        for (each[node] = 0; jobs < end; jobs++)
            each[node] += jobs->metrics > 0;
        total += (uint32_t)each[node];
    }
    return total > 0 ? gather(rows, memory->metrics, sizeof(MetricSums), each, total, nodes, err) : STATUS_OK;
}

// Puts all nodes' jobs into this queue by their places, with the metrics of their trainers. Everything that is then
// computed from the queue is computed on every node, in one order, so that it needs no message of its own.
Status node_jobs_merge(const RunMemory *memory, Nodes *nodes, Error *err) {
    if (nodes->size == 1) return STATUS_OK;
    Queue *queue = memory->queue;
    int64_t *each = calloc(nodes->size, sizeof *each);
    if (!each) return fail(err, STATUS_OS, "no memory for %u nodes", nodes->size);
    uint32_t total = 0;
    void *jobs = NULL, *rows = NULL;
    Status status;
    TRY_GOTO(end, count_jobs(each, &total, queue, nodes, err));
    TRY_GOTO(end, gather(&jobs, queue->jobs, sizeof(Job), each, total, nodes, err));
    if (memory->metrics) TRY_GOTO(end, gather_metrics(&rows, memory, jobs, each, nodes, err));
    const MetricSums *row = rows;
    for (uint32_t i = 0; i < total; i++) {
        const Job *job = (const Job *)jobs + i;
        memcpy(&queue->jobs[job->place], job, sizeof *job);
        if (job->metrics > 0) memory->metrics[job->place] = *row++;
    }
    queue->count = total;
end:
    free(rows);
    free(jobs);
    free(each);
    return status;
}

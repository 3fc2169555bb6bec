// Part of rounds.h: the jobs of a phase on several nodes, dealt before it and merged after it.
#include "fedavg/parent/rounds.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// Jobs are in the order of falling size, so that dealing them in turn gives each node nearly as much work.
bool node_jobs_mine(const Nodes *nodes, uint32_t place) {
    assert(nodes->rank < nodes->size);
    return place % nodes->size == nodes->rank;
}

// Puts all nodes' jobs into this queue by their places, with the metrics of their trainers. Everything that is then
// computed from the queue is computed on every node, in one order, so that it needs no message of its own. Only jobs
// with metrics send their rows, which are large: these move together at the front, which the merge overwrites.
Status node_jobs_merge(const RunMemory *memory, Nodes *nodes, Error *err) {
    if (nodes->size == 1) return STATUS_OK;
    Queue *queue = memory->queue;
    size_t *counts = malloc(nodes->size * sizeof *counts), mine = 0;
    if (!counts) return fail(err, STATUS_OS, "no memory for %u nodes", nodes->size);
    void *jobs = NULL, *rows = NULL;
    Status status;
    for (uint32_t i = 0; i < queue->count && memory->metrics; i++)
        if (queue->jobs[i].metrics > 0) memory->metrics[mine++] = memory->metrics[i];
    if (memory->metrics)
        TRY_GOTO(end, nodes_collect(nodes, &rows, counts, memory->metrics, mine * sizeof(MetricSums), err));
    TRY_GOTO(end, nodes_collect(nodes, &jobs, counts, queue->jobs, queue->count * sizeof(Job), err));
    queue->count = 0;
    for (uint32_t node = 0; node < nodes->size; node++) {
        assert(counts[node] % sizeof(Job) == 0);
        queue->count += (uint32_t)(counts[node] / sizeof(Job));
    }
    const MetricSums *row = rows;
    assert(queue->count <= queue->capacity);
    for (uint32_t i = 0; i < queue->count; i++) {
        const Job *job = (const Job *)jobs + i;
        assert(job->place < queue->count && job->node < nodes->size);
        memcpy(&queue->jobs[job->place], job, sizeof *job);
        if (job->metrics > 0) memory->metrics[job->place] = *row++;
    }
end:
    free(rows);
    free(jobs);
    free(counts);
    return status;
}

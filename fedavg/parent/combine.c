#include "combine.h"

#include <stdlib.h>
#include <string.h>

Status combine_init(Combine *combine, const RunMemory *memory, Nodes *nodes, Error *err) {
    const RunConfig *config = memory->config;
    const uint32_t rows = config->cohort;
    *combine = (Combine){.memory = memory, .nodes = nodes};
    if (config->slots.rows == 0) return STATUS_OK;
    TRY(row_walk_init(&combine->walk, memory, nodes, err));
    combine->jobs = malloc(rows * sizeof *combine->jobs);
    combine->columns = aligned_alloc(64, rows * ROW_LANES * sizeof *combine->columns);
    combine->total = malloc(config->parameters * sizeof *combine->total);
    if (combine->jobs && combine->columns && combine->total) return STATUS_OK;
    combine_free(combine);
    return fail(err, STATUS_OS, "no memory to combine the updates of %u clients", rows);
}

void combine_free(Combine *combine) {
    free(combine->total);
    free(combine->columns);
    free(combine->jobs);
    row_walk_free(&combine->walk);
    *combine = (Combine){0};
}

static int by_client(const void *a, const void *b) {
    const Job *x = *(const Job *const *)a, *y = *(const Job *const *)b;
    return (x->client > y->client) - (x->client < y->client);
}

// Rows are in the order of the clients, not of the jobs, so that ties go to the lower client.
static void list_jobs(Combine *combine) {
    const Queue *queue = combine->memory->queue;
    combine->count = 0;
    for (uint32_t i = 0; i < queue->count; i++)
        if (queue->jobs[i].state == JOB_DONE) combine->jobs[combine->count++] = &queue->jobs[i];
    qsort(combine->jobs, combine->count, sizeof *combine->jobs, by_client);
}

static void combine_columns(void *context, const Rows *rows, uint32_t section, size_t first, size_t count) {
    const Combine *combine = context;
    const Chosen *chosen = &combine->memory->config->recipe.parts[PART_COMBINE];
    (void)section;
    rows_columns(combine->total + first, rows, combine_rules[chosen->row]->column, chosen->number, combine->columns,
                 count);
}

// Each node has the total of what it has seen; of the rest zeros.
Status combine_rows(Combine *combine, Error *err) {
    const size_t parameters = combine->memory->config->parameters;
    list_jobs(combine);
    memset(combine->total, 0, parameters * sizeof *combine->total);
    TRY(row_walk(&combine->walk, combine->jobs, combine->count, combine_columns, combine, err));
    return nodes_sum(combine->nodes, combine->total, parameters, err);
}

// A phase's jobs on several nodes: dealt before it, put together after it.
//
//   job->place = place, job->node = nodes.rank;                  // of all the phase's jobs, every node posts its own
//   TRY(phases_run_jobs(...));
//   TRY(node_jobs_merge(queue, &nodes, err));                    // the queue holds all jobs of all nodes, by place
//
// What is then computed from the queue (losses, shares, accuracy) is computed in the same order as by one node alone.
#ifndef SOUNDER_FEDAVG_PARENT_NODE_JOBS_H
#define SOUNDER_FEDAVG_PARENT_NODE_JOBS_H

#include "fedavg/nodes/nodes.h"
#include "fedavg/memory/queue.h"

// Whose job is the one at `place`, where jobs are dealt one by one: neighbours in a list of falling sizes differ least.
bool node_jobs_mine(const Nodes *nodes, uint32_t place);

// The queue's capacity is at least that of all jobs.
Status node_jobs_merge(Queue *queue, Nodes *nodes, Error *err);

#endif

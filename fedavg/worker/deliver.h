// The way of a trained update from a client into the memory that workers and parent share. The client's update is
// measured, checked and sent (sender.h), and then put where the run's rules want it: added to the worker's sum, written
// into a row beside the updates of others, or stored until the step that it belongs to. The choice follows
// from the run's configuration alone.
//
//   deliver(model, &job, &vectors, &turn, round);             // per client; the job is done or refused
//
// The checks are for workers on the GPU, too, which put accepted updates in place themselves.
#ifndef SOUNDER_FEDAVG_WORKER_DELIVER_H
#define SOUNDER_FEDAVG_WORKER_DELIVER_H

#include "fedavg/rules/local/local_rules.h"
#include "fedavg/worker/local_model.h"

// Hands in what the model has trained for `job` and finishes the job: as done, or as refused (the log says why, and
// shared memory is as before) when the update is not finite or out of range. at, turn: of the client's local rule.
void deliver(LocalModel *model, Job *job, const LocalVectors *at, const LocalTurn *turn, uint32_t round);

// Notes the length of the update and the fingerprint of the trained weights (parameters) in the job if the run inspects
// updates (RunConfig.inspects_updates): for models on the GPU. deliver notes the fingerprint of every update.
void deliver_inspect(Job *job, const RunMemory *memory, const float *trained);

// The client attacks with its update, clips it and encodes it. trained: its weights (parameters), which an attack
// changes; NULL if the client does not attack, nothing is encoded and the job has the length: then the update stays
// where it is, and sent->values is NULL. key: of the random numbers of its training. Returns whether the update may be
// handed in; if not, the log says why.
bool deliver_send(Sent *sent, Sender *sender, Job *job, float *trained, uint32_t key);

// The share of an update of this length, or of one that was sent, that the combine rule keeps: exactly 1 if the rule
// has no bound.
double deliver_bound(const RunMemory *memory, double squared_length);
double deliver_bound_sent(const RunMemory *memory, const Sent *sent);

// Logs that an update is refused because its client would keep a vector that is not finite or too large.
void deliver_log_unkept(const Job *job, const RunConfig *config);

#endif

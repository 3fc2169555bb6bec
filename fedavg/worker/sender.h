// A client changes its update before it hands it in (rules/send/send_rules.h): clips it, adds noise, encodes it. The
// bytes that would travel are really made, and the update that is handed in is decoded from them.
//
//   const Sent sent = sender_send(&sender, job, trained, round);
//   aggregate_add(sum, sent.values, sent.from, job->share * sent.factor, parameters);
#ifndef SOUNDER_FEDAVG_WORKER_SENDER_H
#define SOUNDER_FEDAVG_WORKER_SENDER_H

#include "base/err.h"
#include "base/owned.h"
#include "fedavg/memory/run_memory.h"
#include "fedavg/rules/send/send_rules.h"

typedef struct Sender {
    const RunMemory *memory; // borrowed
    SentWeights weights;
    Owned owned;            // the arrays below
    float *update, *become; // (sent): what is encoded; NULL where nothing is
    float *left;            // (sent): what a client's updates left over; NULL where nothing feeds back
    float *global;          // (sent): the global weights that are sent
    float *read;            // (sent): what the server reads
    float *values;          // (parameters): the same among all weights; NULL where that is what was trained
    uint8_t *wire;
    struct XXH3_state_s *hash; // owned: XXH3_state_t of xxhash.h, for fingerprints
} Sender;

// An update as it is handed in: factor * (values - from).
typedef struct Sent {
    const float *values, *from; // (parameters); from NULL: zeros
    double factor;              // the part that clipping left; exactly 1 if the update was not clipped
    double squared_length;      // of values - from; NaN: not measured
} Sent;

// Nothing to free on failure.
Status sender_init(Sender *sender, const RunMemory *memory, Error *err);
void sender_free(Sender *sender);

// trained (parameters): finite; the job says the squared length of the update, or NaN. Feedback goes into the
// job's new row, and the job counts the bytes that were sent. The result borrows from trained, the sender and the
// memory.
Sent sender_send(Sender *sender, Job *job, const float *trained, uint32_t round);

// Whether what was trained is handed in as it is: neither clipped nor encoded.
bool sender_is_idle(const Sender *sender);

// row (count) = the global weights moved by the update.
void sent_as_weights(float *row, const Sent *sent, const float *global, size_t count);

#endif

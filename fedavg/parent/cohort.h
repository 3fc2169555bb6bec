// The cohort of a round: who is drawn, who starts, how many epochs each does, who arrives, when the round ends on the
// simulated clock, how many bytes travel. All of it is known before anybody trains, and every node computes the same.
//
//   TRY(cohort_init(&cohort, &memory, clients_per_round, err));
//   each round: cohort_begin(&cohort, round);
//               if (cohort.candidates) ... cohort.losses[i] = that of candidate i ...; cohort_choose(&cohort);
//               TRY(cohort_complete(&cohort, nodes, err));   // members[0] to members[jobs - 1] train, in this order
//   cohort_free(&cohort);
//
// Bytes: every client that starts receives the model (of a majority vote its outcome, 2 bits per weight) and what the
// server rule tells, also if it drops out; those that hand in, also too late, send the encoded update, REPORT_BYTES,
// and what their local rule has the server sum besides. With fragments= they send the round's fragment and receive the
// one before it, in the first round the model; a replica that has missed rounds would receive more. A candidate
// receives the model once and sends its loss.
#ifndef SOUNDER_FEDAVG_PARENT_COHORT_H
#define SOUNDER_FEDAVG_PARENT_COHORT_H

#include "base/err.h"
#include "base/owned.h"
#include "fedavg/memory/run_memory.h"
#include "fedavg/nodes/nodes.h"
#include "fedavg/parent/cohort_failures.h"

enum { REPORT_BYTES = 16 }; // of a client: its number, samples, loss

// To a client; of its encoded update, and of all that it hands in.
typedef struct CohortBytes {
    uint64_t down, sent, up;
} CohortBytes;

// Fills in which client trains when, in a run of `rounds` rounds in which updates may wait for later steps. All nodes
// take the schedule of node 0, whose durations count. The config has its slots; its pending update is planned here.
Status cohort_schedule(RunMemory *memory, RunConfig *config, uint32_t rounds, Nodes *nodes, Error *err);

// Plans the pending update of a schedule from elsewhere, such as a file.
void cohort_plan_pending(RunConfig *config, const Schedule *schedule);

typedef struct Cohort {
    const RunMemory *memory; // borrowed
    Owned owned;
    uint32_t most, wanted; // clients that the largest round is to have; that this one is
    uint32_t round;        // whose cohort this is; 0: none yet
    uint32_t candidates;   // power-of-choice, until chosen: how many wait for their losses
    uint32_t *drawn;       // owned (clients): the candidates
    double *losses;        // owned (2 clients): theirs, and room to sort them
    uint32_t *samples;     // owned (clients): of each client
    uint64_t *scratch;     // owned (clients + 1)
    uint8_t *there;        // owned (clients): by the file of --sampling available; NULL without it
    CohortFailures failures;
    uint64_t nobody_until; // microseconds of all rounds: when the next client comes, or UINT64_MAX if one is there
    Member *members;       // owned (clients): who was drawn
    uint32_t count;        // of them
    CohortShares shares;   // of those that arrive
    uint32_t jobs;         // the first so many train, the one with most to do first
    uint32_t dropped_out, straggling, late; // so many; a straggler may drop out or be late, too
    bool abandoned; // too few arrived in time, and no client trains; or for masks or combine, and the model stays
    CohortBytes each;
    uint64_t microseconds, down_bytes, up_bytes;
    double training_joules, link_joules; // 0 where the clients' watts are not known
} Cohort;

// Nothing to free on failure.
Status cohort_init(Cohort *cohort, const RunMemory *memory, uint32_t clients_per_round, Error *err);
void cohort_free(Cohort *cohort);

// Members in the largest cohort, or candidates: what a queue must have room for. And of them those that can train.
uint32_t cohort_capacity(const World *world, uint32_t clients, uint32_t clients_per_round);
uint32_t cohort_trains(const World *world, uint32_t clients, uint32_t clients_per_round);

// Draws the members, or for power-of-choice the candidates. A function of seed, round and simulated time.
void cohort_begin(Cohort *cohort, uint32_t round);

// Draws this many clients into cohort->drawn; in_order as in sampler.h. Returns how many were drawn.
uint32_t cohort_draw(Cohort *cohort, uint32_t size, uint32_t round, bool in_order);

// On the real clock no client is drawn for a round: its clients are known when it is over.
void cohort_expect(Cohort *cohort, uint32_t round);

// Whether the members' losses have to be known before they train: then, after cohort_complete, members[i].loss is
// filled in for the first `jobs` and cohort_weigh called. They have the model already: only the loss travels for it.
bool cohort_wants_losses(const Cohort *cohort);
Status cohort_weigh(Cohort *cohort, Nodes *nodes, Error *err);
// losses has those of the candidates, in their order. Makes members of the candidates with the largest.
void cohort_choose(Cohort *cohort);

// The server remembers a number of each client from round to round in RunMemory.client_notes: its loss when it last
// trained (power-of-choice by that), or what it counts in the next round (a combine rule that learns). cohort_note:
void cohort_note(Cohort *cohort, const Queue *queue); // the round's jobs are done

// The round's jobs are done: shares and jobs follow the samples that trainers have told, and the steps that they have
// made, where these are not what was planned.
void cohort_count_steps(Cohort *cohort, Queue *queue);

// The round's jobs are done: what varies of their bytes is known.
void cohort_count_sent(Cohort *cohort, const Queue *queue);

// nodes: durations are those of node 0, whose exp and log may differ from another's.
Status cohort_complete(Cohort *cohort, Nodes *nodes, Error *err);

#endif

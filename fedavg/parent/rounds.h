// The parent's rounds: post jobs, let the workers go, wait for all of them, put right what deaths undid, publish.
//
//   TRY(rounds_init(&rounds, &config, err));            // starts the workers
//   for (round = 1; ...; round++) {
//       TRY(rounds_draw(&rounds, round, err));               // who takes part
//       TRY(rounds_train(&rounds, round, &report, err));     // the shared weights are the new model
//       TRY(rounds_evaluate(&rounds, round, EVALUATE_TEST_SET, &report, err));  // loss and accuracy
//   }
//   rounds_free(&rounds);
//
// phases.h says what happens in between, deaths included.
#ifndef SOUNDER_FEDAVG_PARENT_ROUNDS_H
#define SOUNDER_FEDAVG_PARENT_ROUNDS_H

#include "base/err.h"
#include "base/owned.h"
#include "fedavg/memory/queue.h"
#include "fedavg/memory/run_memory.h"
#include "fedavg/nodes/nodes.h"
#include "fedavg/parent/client_state_rows.h"
#include "fedavg/parent/cohort.h"
#include "fedavg/parent/combine.h"
#include "fedavg/parent/crafting.h"
#include "fedavg/parent/engine.h"
#include "fedavg/parent/external.h"
#include "fedavg/parent/parent_backend.h"
#include "fedavg/parent/pending.h"
#include "fedavg/parent/phases.h"
#include "fedavg/parent/ssgd_exchange.h"
#include "fedavg/rules/privacy/sample_privacy.h"
#include "fedavg/rules/world/schedule.h"

typedef struct RoundsConfig {
    PhasesConfig phases;
    const ParentBackend *backend; // where the parent's arithmetic is done
    uint32_t clients_per_round;
    uint32_t rounds_done; // of a run that is resumed
    Nodes *nodes;         // borrowed; all of them call each function of this header
} RoundsConfig;

// One round as the program writes it to metrics.jsonl and to the terminal. Fields of other engines are zero, or NaN
// where a zero would be a figure.
typedef struct RoundReport {
    uint32_t round;
    double lr;         // of the local trainings
    double train_loss; // mean over the samples trained
    bool validates;    // the test was one of the validation set: test_* are its figures
    double test_loss;  // mean over the test set
    uint32_t test_hits, test_count;
    bool test_judged;                       // whether the test counts hits: a trainer's need not
    MetricSums train_metrics, test_metrics; // of a trainer
    AnswerFigures test_figures;             // of the test's answers; NaN where it has none
    uint32_t backdoor_hits, backdoor_count; // of marked test samples; 0 of 0: no backdoor, or a trainer counts no hits
    double seconds;                         // from the first job to the published model
    double evaluate_seconds;
    uint64_t samples;                           // training samples processed
    uint64_t tokens;                            // in them, where trainers count them
    uint32_t workers_lost;                      // deaths since the previous report
    uint32_t refused;                           // clients whose update was refused
    uint32_t attackers;                         // clients that attacked
    int64_t trained_of[PERSONAL_MOST_CLUSTERS]; // clients whose update is in the mean of each of several models
    uint32_t clipped;                           // clients whose update was longer than `clip`
    double clip;                                // what updates were clipped to; 0: to nothing
    double epsilon;         // spent so far, at the release's delta; infinite where nothing is hidden
    double sample_epsilon;  // spent on a sample so far, at its delta; infinite where no sample is hidden
    const Cohort *cohort;   // of the rounds; borrowed
    const Combine *combine; // likewise
    const Pending *pending; // likewise; NULL where updates never wait
    // Lengths of the updates that arrived: mean and largest; mean by share of their squares; that of the mean update,
    // squared. NaN where they are not measured.
    double length_mean, length_most, mean_square, square_of_mean;
    uint64_t refused_steps; // hogwild
    // How many updates landed between the reading of weights and the update made of them: how many have 0, 1, 2, ...,
    // the last that many or more; the mean of all. NaN: nothing is ever stale.
    int64_t staleness[STALENESS_BUCKETS];
    double staleness_mean;
    double barrier_wait_seconds[MAX_WORKERS]; // how long each rank stood at the barrier until the last one came
    // ssgd: seconds in gradient sync; hidden are those in which gradients were still computed, the rest is exposed. A
    // worker syncs while it waits for others and while it sums; a node, while gradients are under way to other nodes.
    // The round's seconds are the mean over this node's workers, whose waits contain the node's.
    double worker_sync_seconds[MAX_WORKERS], worker_hidden_seconds[MAX_WORKERS];
    double exchange_seconds, exchange_hidden_seconds;
    double synchronising_seconds, hidden_seconds;
    int stop_signal; // that has reached one of the nodes: the run must end here; 0: none
} RoundReport;

// The time and the samples of a turn and a test, which are made once before a run and thrown away.
typedef struct Rehearsal {
    uint32_t client, clients;       // the first one that trained; how many did
    uint64_t trained, tested;       // samples
    double seconds, test_seconds;   // that they took
    uint64_t round_samples, places; // samples and clients of the whole first round
} Rehearsal;

// The state of real_clock.c, in the parent. The workers' side is one Flight per rank, in the control segment
// (memory/layout.h).
typedef struct RealClock {
    Schedule log; // owned: the jobs that were applied, in the order of their arrival
    Owned owned;
    uint32_t *visits, *lost; // owned (clients): how often each has begun; those that have to begin again (lost_count)
    uint8_t *busy;           // owned (clients)
    uint32_t picked, next;   // of the draw of the version (Cohort.drawn); its next client
    uint32_t lost_count;
    uint32_t collected, refused; // updates of the version in the making; those refused since the last
    uint32_t untold;             // refused or late ones for which its record has no place
    uint64_t start_nanoseconds, round_nanoseconds;
    bool flies; // the workers train
} RealClock;

struct Rounds {
    const Engine *engine;
    Phases phases;     // and with them the workers
    RunMemory *memory; // borrowed
    Cohort cohort;
    ClientStateRows client_states;
    Combine combine;
    External external;
    Crafting crafting;
    Pending pending;
    RealClock clock;
    Parent parent;
    Nodes *nodes;                  // borrowed
    Exchange exchange;             // ssgd on several nodes
    TraceBuffer *trace;            // the parent's
    bool wants_answers;            // the caller's: tests on a GPU have answers, too, which costs time
    double rdp[ACCOUNTANT_ORDERS]; // of one round's release; zeros for a tree
    SampleBudget budget;           // of private steps
};

// Starts all workers and waits until they are at the barrier. Nothing to free on failure.
Status rounds_init(Rounds *rounds, const RoundsConfig *config, Error *err);

// Draws the round's cohort; has candidates evaluated where the draw asks for their losses.
Status rounds_draw(Rounds *rounds, uint32_t round, Error *err);

// Where clients begin with something else than the model (ServerRule.trains_state), the shared weights become that; so
// does rounds_draw.
void rounds_go_on(RunMemory *memory, uint32_t round);

// Trains one round and publishes the result in the shared weights, which are finite on success. SOFTWARE when nothing
// finite came out (the weights are then those before the round), UNAVAILABLE when workers died and may not or can not
// be replaced, CANCELLED after a second stop signal, DATA when the trainers have more metrics than there may be.
Status rounds_train(Rounds *rounds, uint32_t round, RoundReport *report, Error *err);

// Evaluates the shared weights on the test set (EVALUATE_TEST_SET) or the validation set (EVALUATE_VALIDATION): by all
// workers of all nodes in chunks, or by the parent itself where it does that. DATA for a trainer that counts hits in
// some turns and not in others, or has too many metrics.
Status rounds_evaluate(Rounds *rounds, uint32_t round, EvaluationTask task, RoundReport *report, Error *err);

// Evaluates other weights (parameters) on the test set, while no worker trains: the shared ones are unchanged
// afterwards.
Status rounds_evaluate_other(Rounds *rounds, uint32_t round, const float *weights, RoundReport *report, Error *err);

// Evaluates the own samples of every client that may train, or of every new one, by `task` (EVALUATE_CLIENT,
// EVALUATE_FINE_TUNED). The results are the jobs of the queue, one per client, in the order of their numbers.
Status rounds_evaluate_clients(Rounds *rounds, uint32_t round, EvaluationTask task, bool new_ones, Error *err);

// Trains the `clients` largest clients of the first round (in lockstep: makes a few steps of all shards), and tests the
// model on one chunk, or on a GPU on all of the test set. The rounds are then good for nothing but rounds_free.
Status rounds_rehearse(Rounds *rounds, uint32_t clients, Rehearsal *rehearsal, Error *err);

// For rounds_rehearse: the test.
Status rounds_rehearse_test(Rounds *rounds, Rehearsal *rehearsal, Error *err);

// The slots of a run that is planned for config->workers, with as many workers instead (config->clients of them, where
// each worker is a client).
void engine_plan_workers(RunConfig *config, uint32_t workers);

// Exchanges worker deaths and stop signals between nodes at the end of a round.
Status rounds_conclude(Rounds *rounds, RoundReport *report, Error *err);

// Samples all workers have worked through since their start: for a progress line.
uint64_t rounds_progress(const Rounds *rounds);

// Samples that this node's workers will work through in the round that was drawn: in training, and to evaluate if that
// is theirs to do.
uint64_t rounds_samples(const Rounds *rounds, bool evaluate);

// Jobs in the largest phase of such a run, whose larger set of tests has test_count samples: what RunPlan.job_capacity
// needs.
uint32_t rounds_job_capacity(const RunConfig *config, const Dataset *data, uint32_t clients_per_round,
                             uint32_t test_count);

// Test samples of a job. Where a sample is a client, its test takes as long as a client's own test: workers share them.
uint32_t rounds_test_chunk(const Dataset *data);

void rounds_free(Rounds *rounds);

// For rounds_draw: who of the candidates takes part, what each member counts, by the losses of the global model on
// their data.
Status rounds_choose_candidates(Rounds *rounds, uint32_t round, Error *err);
Status rounds_weigh_members(Rounds *rounds, uint32_t round, Error *err);

// Fills in what the round's training has counted, after its last job.
Status rounds_collect_training(const Rounds *rounds, RoundReport *report, Error *err);

// For rounds_train (rounds_privacy.c): fills in the clip and the epsilons of a report; the second one counts the
// private steps of the queue's jobs. OS without memory.
void rounds_note_release(const Rounds *rounds, RoundReport *report);
Status rounds_note_steps(Rounds *rounds, RoundReport *report, Error *err);

// Returns how many workers have died since the last call.
uint32_t rounds_take_deaths(Rounds *rounds);

// For the engines. Posts a job at this place of the phase, SOFTWARE if the queue is full; sets what the workers count
// in a round to zero.
Status rounds_post(Job **job, Rounds *rounds, uint32_t place, Error *err);
void rounds_clear_tallies(Rounds *rounds);

// A phase's jobs on several nodes: dealt before it, put together after it.
//
//   job->place = place, job->node = nodes.rank;                  // of all the phase's jobs, every node posts its own
//   TRY(phases_run_jobs(...));
//   TRY(node_jobs_merge(memory, &nodes, err));                   // the queue holds all jobs of all nodes, by place
//
// All that is then computed from the queue (losses, shares, accuracy) is computed in the order that one node alone
// would take.

// Whether the job at `place` is this node's. Jobs are dealt one by one, since neighbours in a list of falling sizes
// differ least.
bool node_jobs_mine(const Nodes *nodes, uint32_t place);

// The queue's capacity is at least that of all jobs.
Status node_jobs_merge(const RunMemory *memory, Nodes *nodes, Error *err);

#endif

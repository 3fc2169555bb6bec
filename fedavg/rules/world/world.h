// The world, which decides the fate of a round's clients for any algorithm: which are drawn (sampler.h), which drop out
// or are slow, how long everything takes on a simulated clock, which arrive in time, and their shares in the mean.
//
//   world_absences(members, count, &world, local_epochs, seed, round);      // who trains, and how many epochs
//   for each member: member->end_microseconds = world_duration(...);
//   Arrivals arrivals = world_arrivals(members, count, wanted, &world);     // who is in time
//   cohort_shares(&shares, members, count, &world, combine);      // combine_rules.h
//
// All of it is a function of (seed, round, client) and known before training, so that shares are exact and no client's
// work is thrown away. Every number has its own random stream: a seed draws the same cohort for every algorithm.
#ifndef SOUNDER_FEDAVG_RULES_WORLD_WORLD_H
#define SOUNDER_FEDAVG_RULES_WORLD_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "fedavg/rules/world/failures.h"

// How the clients of a round are drawn.
typedef enum Sampling {
    SAMPLING_UNIFORM,         // a fixed number, without replacement
    SAMPLING_POISSON,         // each with the same probability: the size of the cohort is random
    SAMPLING_BY_SIZE,         // by their samples, with or without replacement
    SAMPLING_POWER_OF_CHOICE, // of candidates drawn by samples, those with the largest loss (Cho et al. 2020)
    SAMPLING_CYCLIC,          // one group after another
    SAMPLING_AVAILABLE,       // uniformly from the available clients
} Sampling;

enum { SAMPLING_COUNT = SAMPLING_AVAILABLE + 1 };

// The loss of a candidate of power-of-choice (Cho et al. 2020: pow-d, cpow-d, rpow-d).
enum {
    CANDIDATES_DATA,  // of the global model on all its training data
    CANDIDATES_BATCH, // ... on one batch of it
    CANDIDATES_LAST, // its mean loss when it last trained, which the server remembers; clients that never trained come first
};

// Clients that cannot finish all epochs: their work is lost (McMahan et al. 2017), or the part they did counts
// (FedProx, Li et al. 2020).
enum { STRAGGLERS_DROP, STRAGGLERS_PARTIAL };

// The distribution of a client's training time; one number is drawn per client.
typedef enum ClientTime {
    CLIENT_TIME_CONSTANT,             // mean
    CLIENT_TIME_LOGNORMAL,            // mean exp(N(0, deviation)); the mean is the median
    CLIENT_TIME_LOGNORMAL_PER_SAMPLE, // the same, times the samples of all epochs (FedScale, Lai et al. 2022)
    CLIENT_TIME_HALF_NORMAL,          // minimum + |N(0, deviation)| (FedBuff, Nguyen et al. 2022)
    CLIENT_TIME_UNIFORM,              // from minimum to 2 mean - minimum
    CLIENT_TIME_EXPONENTIAL,          // with this mean
    CLIENT_TIME_PER_SAMPLE,           // max(N(mean, deviation), minimum), times the samples of all epochs
    CLIENT_TIME_FILE,                 // the member's own number, times the samples of all epochs
} ClientTime;

// How the clients of a round change in number, up to those of --clients-per-round.
typedef enum CohortKind {
    COHORT_CONSTANT,
    COHORT_LINEAR, // from the first number in round 1 in equal steps, rounded down, to the full one in round `rounds`
    COHORT_STEP,   // times the factor after every `rounds` rounds, rounded down
} CohortKind;

typedef struct CohortSchedule {
    uint32_t kind;   // CohortKind
    uint32_t first;  // clients of round 1
    uint32_t rounds; // COHORT_LINEAR: until all take part; COHORT_STEP: between two rises
    double factor;   // COHORT_STEP
} CohortSchedule;

// The options of the world. Plain data; workers read it in the control segment.
typedef struct World {
    int sampling;          // Sampling
    bool replacement;      // by-size
    bool cycle_shuffle;    // cyclic: a new order in each cycle
    int candidates;        // power-of-choice: d
    int candidates_by;     // power-of-choice: CANDIDATES_*
    double availability;   // available: the probability that a client is available in a round
    double drop_out;       // the probability that a drawn client never hands in
    double stragglers;     // the fraction of drawn clients that cannot finish all epochs
    int straggler_work;    // STRAGGLERS_*
    double over_selection; // this many times more are drawn; the first to arrive are kept (Bonawitz et al. 2019)
    double deadline;       // simulated seconds after which a client is late; 0: none
    int client_time;       // ClientTime
    double time_mean, time_deviation, time_minimum; // seconds
    CohortSchedule cohort;
    Failures failures;
    double time_noise;                                 // deviation of the logarithm of a factor drawn per job
    double up_bytes_per_second, down_bytes_per_second; // of every client; 0: no limit
} World;

typedef enum MemberFate {
    MEMBER_ARRIVES,
    MEMBER_HAS_NO_SAMPLES, // nothing to learn, no weight in the mean
    MEMBER_DROPS_OUT,
    MEMBER_IS_DROPPED, // a straggler whose work is lost
    MEMBER_IS_LATE,    // after the deadline, or after enough others
    MEMBER_FAILS,      // before it could hand in (--failures)
} MemberFate;

// A client drawn for a round, and its fate, which is known before any client trains. So the shares of the members that
// arrive are exact when their updates are added, and a client whose work would be lost does not train.
typedef struct Member {
    uint32_t client, samples;
    uint32_t times;                              // how often it was drawn; more than once only with replacement
    uint32_t epochs;                             // that it trains
    double seconds_per_sample, bytes_per_second; // with CLIENT_TIME_FILE; 0 bytes: no limit
    double weight;            // what it counts in place of its samples (--client-weights); 0: its samples
    double overlap;           // the part of its training during which bytes travel beside it (walk_overlap)
    double watts, link_watts; // with CLIENT_TIME_FILE, while it trains and while bytes travel; 0: not known
    bool straggles;
    bool absent;     // it never arrives, in no round (--without), and costs nothing
    uint32_t flight; // in a schedule: its job
    MemberFate fate;
    uint64_t steps;                 // batches in those epochs
    double reach;                   // its optimizer's displacement, in steps of plain SGD (local_reach)
    uint64_t end_microseconds;      // since the round began, when it hands in, or fails
    uint64_t training_microseconds; // of them, with --failures
    double loss;                    // mean loss of the global weights on its training data, if the rule needs it
    double share;                   // p_k, its weight in the mean, 0 unless it arrives; they sum to 1
} Member;

// The outcome of a round.
typedef struct Arrivals {
    uint32_t count;
    bool abandoned;        // fewer than half of the wanted clients were in time: the round is lost
    uint64_t microseconds; // how long the round took
} Arrivals;

// The clients of a round, of which there are `most` in the end.
uint32_t world_cohort(const World *world, uint32_t most, uint32_t round);

// Sets fate, straggles and epochs of the members (ascending by client).
void world_absences(Member *members, uint32_t count, const World *world, uint32_t local_epochs, uint64_t seed,
                    uint32_t round);

// Whether the member sends its update, be it too late.
bool world_hands_in(const Member *member);

// Microseconds from the start of the round until the member hands in. Uses the C library's exp and log; between
// machines where these differ, results may differ by one microsecond.
uint64_t world_duration(const Member *member, const World *world, uint32_t local_epochs, uint64_t down_bytes,
                        uint64_t up_bytes, uint64_t seed, uint32_t round);

// Adds the joules that the member spends on training, and on its link: watts times the seconds of the clock. All
// members receive; those that drop out do not train; those that hand in, also too late, send. Bytes without a limit
// take no time.
void world_energy(double *training, double *links, const Member *member, const World *world, uint32_t local_epochs,
                  uint64_t down_bytes, uint64_t up_bytes, uint64_t seed, uint32_t round);

// The joules of these bytes on the member's link.
double world_link_joules(const Member *member, const World *world, uint64_t down_bytes, uint64_t up_bytes);

// Whether durations are random; otherwise they are the same on all machines.
bool world_has_random_durations(const World *world);

// Marks the members that are late. wanted: the planned number of arrivals. Orders the members by (end, client).
Arrivals world_arrivals(Member *members, uint32_t count, uint32_t wanted, const World *world);

#endif

// What the world does to the clients of a round, whatever the algorithm: who is drawn (sampler.h), who drops out or is
// slow, how long everything takes on a simulated clock, who arrives in time, with which share in the mean.
//
//   world_absences(members, count, &world, local_epochs, seed, round);      // who trains, and how many epochs
//   for each member: member->end_microseconds = world_duration(...);
//   Arrivals arrivals = world_arrivals(members, count, wanted, &world);     // who is in time
//   cohort_shares(&shares, members, count, &world, combine);      // combine_rules.h
//
// All of it is a function of (seed, round, client) and is known before anything is trained, so that shares are exact
// and nobody trains in vain. Every number comes from a stream of its own: a seed draws the same cohort for every
// algorithm.
#ifndef SOUNDER_FEDAVG_RULES_WORLD_WORLD_H
#define SOUNDER_FEDAVG_RULES_WORLD_WORLD_H

#include <stdbool.h>
#include <stdint.h>

// How the clients of a round are drawn.
typedef enum Sampling {
    SAMPLING_UNIFORM,         // so many, without replacement
    SAMPLING_POISSON,         // each with the same probability: the size of the cohort is random
    SAMPLING_BY_SIZE,         // by their samples, with or without replacement
    SAMPLING_POWER_OF_CHOICE, // of candidates drawn by their samples, those with the largest loss (Cho et al. 2020)
    SAMPLING_CYCLIC,          // one group after the other
    SAMPLING_AVAILABLE,       // uniformly of those that are there
} Sampling;

enum { SAMPLING_COUNT = SAMPLING_AVAILABLE + 1 };

// Whose loss a candidate of power-of-choice is known by (Cho et al. 2020: pow-d, cpow-d, rpow-d).
enum {
    CANDIDATES_DATA,  // that of the global model on all that it trains on
    CANDIDATES_BATCH, // ... on one batch of that
    CANDIDATES_LAST,  // its mean loss when it last trained, which the server remembers; who never has comes first
};

// What becomes of a client that does not manage all epochs: its work is lost (McMahan et al. 2017), or what it has done
// counts (FedProx, Li et al. 2020).
enum { STRAGGLERS_DROP, STRAGGLERS_PARTIAL };

// How long a client trains: the distribution of a number that is drawn once a client.
typedef enum ClientTime {
    CLIENT_TIME_CONSTANT,             // mean
    CLIENT_TIME_LOGNORMAL,            // mean exp(N(0, deviation)), of which the mean is the median
    CLIENT_TIME_LOGNORMAL_PER_SAMPLE, // the same, times the samples of all epochs (FedScale, Lai et al. 2022)
    CLIENT_TIME_HALF_NORMAL,          // minimum + |N(0, deviation)| (FedBuff, Nguyen et al. 2022)
    CLIENT_TIME_UNIFORM,              // from minimum to 2 mean - minimum
    CLIENT_TIME_EXPONENTIAL,          // of this mean
    CLIENT_TIME_PER_SAMPLE,           // max(N(mean, deviation), minimum), times the samples of all epochs
    CLIENT_TIME_FILE,                 // what the member says of itself, times the samples of all epochs
} ClientTime;

// The options of the world. Plain data; workers read it in the control segment.
typedef struct World {
    int sampling;          // Sampling
    bool replacement;      // by-size
    bool cycle_shuffle;    // cyclic: another order in each cycle
    int candidates;        // power-of-choice: d
    int candidates_by;     // power-of-choice: CANDIDATES_*
    double availability;   // available: the probability that a client is there in a round
    double drop_out;       // the probability that a client that was drawn never hands in
    double stragglers;     // the part of those drawn that does not manage all epochs
    int straggler_work;    // STRAGGLERS_*
    double over_selection; // so many times more are drawn than wanted, and the first ones kept (Bonawitz et al. 2019)
    double deadline;       // simulated seconds in which a client has to hand in; 0: none
    int client_time;       // ClientTime
    double time_mean, time_deviation, time_minimum; // seconds
    double time_noise;                              // deviation of the logarithm of a factor that is drawn once a job
    double up_bytes_per_second, down_bytes_per_second; // of every client; 0: no limit
} World;

typedef enum MemberFate {
    MEMBER_ARRIVES,
    MEMBER_HAS_NO_SAMPLES, // nothing to learn, no weight in the mean
    MEMBER_DROPS_OUT,
    MEMBER_IS_DROPPED, // a straggler whose work is lost
    MEMBER_IS_LATE,    // behind the deadline, or behind as many as were wanted
} MemberFate;

// A client that was drawn for a round, and what becomes of it.
typedef struct Member {
    uint32_t client, samples;
    uint32_t times;                              // it was drawn so often; more than once only with replacement
    uint32_t epochs;                             // it does if it trains
    double seconds_per_sample, bytes_per_second; // with CLIENT_TIME_FILE; 0 bytes: no limit
    bool straggles;
    uint32_t flight; // of a schedule: which of its jobs this is
    MemberFate fate;
    uint64_t steps;            // batches in those epochs
    double reach;              // how many full steps its optimizer makes of them (local_reach)
    uint64_t end_microseconds; // since the round's begin, when it hands in
    double loss;               // mean loss of the global weights on its training data, where the rule asks for it
    double share;              // of those that arrive: p_k, its weight in the mean; they sum to 1
} Member;

// What a round needed.
typedef struct Arrivals {
    uint32_t count;
    bool abandoned;        // fewer than half of those wanted were in time: the round is lost
    uint64_t microseconds; // how long the round took
} Arrivals;

// Sets fate, straggles and epochs of the members (ascending by client).
void world_absences(Member *members, uint32_t count, const World *world, uint32_t local_epochs, uint64_t seed,
                    uint32_t round);

// Microseconds from the round's begin until the member hands in. Uses the C library's exp and log: machines on which
// those differ may differ by one microsecond.
uint64_t world_duration(const Member *member, const World *world, uint32_t local_epochs, uint64_t down_bytes,
                        uint64_t up_bytes, uint64_t seed, uint32_t round);

// Whether durations are drawn at all: without this they are the same everywhere.
bool world_has_random_durations(const World *world);

// Marks those that are late. wanted: how many the round is to have. Orders the members by (end, client).
Arrivals world_arrivals(Member *members, uint32_t count, uint32_t wanted, const World *world);

#endif

// The privacy budget (epsilon, delta) of a run that releases sums of clipped updates with Gaussian noise.
//
//   double rdp[ACCOUNTANT_ORDERS] = {0};
//   accountant_add(rdp, &(Mechanism){COHORTS_POISSON, 0.01, 1.1}, 10000);
//   Spent spent = accountant_spent(rdp, 1e-5);                        // epsilon 5.63199 of order 4.7
//
// Renyi differential privacy (Mironov, CSF 2017) at the orders that Opacus uses. Cohorts drawn by Poisson sampling hide
// whether a client takes part: Mironov, Talwar, Zhang 2019, section 3.3, whose series for fractional orders is summed
// with its signs. Cohorts of a fixed size hide which client takes part: replacing a client changes the sum by twice the
// norm (Wang, Balle, Kasiviswanathan, AISTATS 2019, theorem 27), so the same noise counts half. RDP is converted to
// (epsilon, delta) by Canonne, Kamath, Steinke, NeurIPS 2020, proposition 12.
//
// Noise on the nodes of a tree over the rounds (Kairouz, McMahan, Song, Thakkar, Thakurta, Xu, ICML 2021) needs no
// random cohorts: one client is part of at most ceil(log2(rounds + 1)) of the released nodes.
#ifndef SOUNDER_FEDAVG_RULES_PRIVACY_ACCOUNTANT_H
#define SOUNDER_FEDAVG_RULES_PRIVACY_ACCOUNTANT_H

#include <stdbool.h>

#include "base/err.h"

enum { ACCOUNTANT_TENTHS = 99, ACCOUNTANT_ORDERS = ACCOUNTANT_TENTHS + 52 }; // 1.1, 1.2 ... 10.9, 12, 13 ... 63

typedef enum Cohorts {
    COHORTS_POISSON, // each client with the same probability
    COHORTS_FIXED,   // a fixed number of clients, without replacement
    COHORTS_TREE,    // any clients, but each at most once until the tree of noise restarts
} Cohorts;

// How the two federations differ that epsilon makes indistinguishable, after "one client ": "joins or leaves", or "is
// replaced by another".
extern const char *const cohorts_neighbouring[];

// One release; all rounds of a tree are one release.
typedef struct Mechanism {
    Cohorts cohorts;
    double rate;  // the fraction of clients drawn, in (0, 1]; with a tree: 1 / the rounds until it restarts
    double noise; // standard deviation of the sum's noise, in clipping norms; 0: no noise, nothing is hidden
} Mechanism;

typedef struct Spent {
    double epsilon;
    double order;   // the order that gives this epsilon
    bool at_an_end; // the order is the first or the last; one beyond might give a smaller epsilon
} Spent;

// The orders at which the Renyi divergence is bounded; epsilon is the least over them.
double accountant_order(int index);

// rdp (ACCOUNTANT_ORDERS) += the RDP of `times` releases.
void accountant_add(double *rdp, const Mechanism *mechanism, double times);

Spent accountant_spent(const double *rdp, double delta);

// By the conversion of papers before 2020: RDP + log(1/delta) / (order - 1).
Spent accountant_spent_as_before(const double *rdp, double delta);

// The least noise with which `times` releases spend at most epsilon. USAGE if no noise is enough.
Status accountant_noise(double *noise, Cohorts cohorts, double rate, double times, double epsilon, double delta,
                        Error *err);

// One release of all clients, exactly (Balle, Wang, ICML 2018). noise: its deviation, in units of what one client
// changes. Return delta for an epsilon, epsilon for a delta, and the least noise for both.
double gaussian_delta(double noise, double epsilon);
double gaussian_epsilon(double noise, double delta);
double gaussian_noise(double epsilon, double delta);

#endif

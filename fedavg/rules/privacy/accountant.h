// What noise is worth: (epsilon, delta) of a run whose sums of clipped updates are released with Gaussian noise.
//
//   double rdp[ACCOUNTANT_ORDERS] = {0};
//   accountant_add(rdp, &(Mechanism){COHORTS_POISSON, 0.01, 1.1}, 10000);
//   Spent spent = accountant_spent(rdp, 1e-5);                        // epsilon 5.63199 of order 4.7
//
// Renyi differential privacy (Mironov, CSF 2017) of the orders that Opacus uses. Cohorts by Poisson sampling hide that
// a client is there at all: Mironov, Talwar, Zhang 2019, section 3.3, whose series for orders that are not whole is
// summed with its signs. Cohorts of a fixed size hide which client it is: one that is replaced changes the sum by twice
// the norm (Wang, Balle, Kasiviswanathan, AISTATS 2019, theorem 27), so that noise counts half. The conversion is that
// of Canonne, Kamath, Steinke, NeurIPS 2020, proposition 12.
//
// Noise on the nodes of a tree over the rounds (Kairouz, McMahan, Song, Thakkar, Thakurta, Xu, ICML 2021) needs no
// cohorts drawn at random: one client is in at most ceil(log2(rounds + 1)) of the nodes that are released.
#ifndef SOUNDER_FEDAVG_RULES_PRIVACY_ACCOUNTANT_H
#define SOUNDER_FEDAVG_RULES_PRIVACY_ACCOUNTANT_H

#include <stdbool.h>

#include "base/err.h"

enum { ACCOUNTANT_TENTHS = 99, ACCOUNTANT_ORDERS = ACCOUNTANT_TENTHS + 52 }; // 1.1, 1.2 ... 10.9, 12, 13 ... 63

typedef enum Cohorts {
    COHORTS_POISSON, // each client with the same probability
    COHORTS_FIXED,   // so many, without replacement
    COHORTS_TREE,    // whoever, but each client at most once until the tree of noise begins anew
} Cohorts;

// The clients of two federations between which epsilon hides the difference, after "one client ": "joins or leaves", or
// "is replaced by another".
extern const char *const cohorts_neighbouring[];

// One release; the rounds of a tree are one.
typedef struct Mechanism {
    Cohorts cohorts;
    double rate;  // the part of the clients that is drawn, in (0, 1]; with a tree: 1 / the rounds until it begins anew
    double noise; // deviation of the sum's noise, in norms that updates are clipped to; 0: nothing is hidden
} Mechanism;

typedef struct Spent {
    double epsilon;
    double order;   // that says so
    bool at_an_end; // it is the first or the last: another one might say less
} Spent;

double accountant_order(int index);

// rdp (ACCOUNTANT_ORDERS) += that of so many releases.
void accountant_add(double *rdp, const Mechanism *mechanism, double times);

Spent accountant_spent(const double *rdp, double delta);

// By the conversion of papers before 2020, RDP + log(1/delta) / (order - 1).
Spent accountant_spent_as_before(const double *rdp, double delta);

// The least noise with which so many releases spend at most epsilon. USAGE where no noise does.
Status accountant_noise(double *noise, Cohorts cohorts, double rate, double times, double epsilon, double delta,
                        Error *err);

// One release of all clients, exactly (Balle, Wang, ICML 2018): delta of noise whose deviation is so many times what
// one client changes, epsilon of it, and the least noise for both.
double gaussian_delta(double noise, double epsilon);
double gaussian_epsilon(double noise, double delta);
double gaussian_noise(double epsilon, double delta);

#endif

// Updates that attackers agree on after seeing other updates (attack_rules.h). They are made from the mean m and the
// standard deviation s of each weight, or copied:
//
//   alie       m - z s,       z as large as some honest updates are off          Baruch, Baruch, Goldberg 2019
//   ipm        -epsilon m                                                        Xie, Koyejo, Gupta 2019
//   min-max    m - g s,       no further from any update than two of them are    Shejwalkar, Houmansadr 2021
//   min-sum    m - g s,       by sums of squared distances instead               Shejwalkar, Houmansadr 2021
//   mimic      one of them, the same in all rounds                               Karimireddy, He, Jaggi 2022
//
//   crafted_deviations(out, rows, count);           // of a block of weights
//   crafted_make(out, rows, of_mean, of_deviation, count);
//
// The same bits on every machine: apart from the normal quantile, only + - * / and roots are used, in a fixed order.
#ifndef SOUNDER_FEDAVG_RULES_ATTACK_CRAFTED_H
#define SOUNDER_FEDAVG_RULES_ATTACK_CRAFTED_H

#include <stddef.h>
#include <stdint.h>

#include "fedavg/rules/combine/rows.h"
#include "fedavg/rules/rule.h"

// Whether the attack needs the inner products of the updates.
bool crafted_wants_products(const Chosen *attack);

// ALIE's z for this number of clients and attackers: the normal quantile of (n - f - s) / (n - f), where s is the
// number of honest clients that the attackers need besides themselves for a majority. At most the quantile for s = 1.
double crafted_alie(uint32_t clients, uint32_t attackers);

// out (count), for the first `count` weights of the rows: the population standard deviation of the updates; of_mean
// times their mean - of_deviation times their standard deviation.
void crafted_deviations(double *out, const Rows *rows, size_t count);
void crafted_make(double *out, const Rows *rows, double of_mean, double of_deviation, size_t count);

// The number of standard deviations that min-max (or min-sum) goes: the largest g within the limit, found as a root of
// quadratics (published code searches by halving steps). products (count + 1, count + 1): of the updates, and of their
// deviations as the last row. workspace (2 count).
double crafted_reach(const double *products, uint32_t count, const Chosen *attack, double *workspace);

// The index of the update furthest from the mean along the first principal direction of all updates; the first one of
// equals. products (count, count): of the updates. workspace (3 count).
uint32_t crafted_furthest(const double *products, uint32_t count, double *workspace);

#endif

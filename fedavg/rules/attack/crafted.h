// The update on which attackers agree when they have seen others (attack_rules.h), from their mean m and their standard
// deviations s, weight by weight, or as one of them:
//
//   alie       m - z s,       z as large as some honest updates are off          Baruch, Baruch, Goldberg 2019
//   ipm        -epsilon m                                                        Xie, Koyejo, Gupta 2019
//   min-max    m - g s,       no further from any update than two of them are    Shejwalkar, Houmansadr 2021
//   min-sum    m - g s,       the same with sums of squared distances            likewise
//   mimic      one of them, the same in all rounds                               Karimireddy, He, Jaggi 2022
//
//   crafted_deviations(out, rows, count);           // of a block of weights
//   crafted_make(out, rows, of_mean, of_deviation, count);
//
// All but the normal quantile is made of + - * / and roots alone, in a fixed order: the same bits on every machine.
#ifndef SOUNDER_FEDAVG_RULES_ATTACK_CRAFTED_H
#define SOUNDER_FEDAVG_RULES_ATTACK_CRAFTED_H

#include <stddef.h>
#include <stdint.h>

#include "fedavg/rules/combine/rows.h"
#include "fedavg/rules/rule.h"

// Whether attackers look at how far updates are apart.
bool crafted_wants_products(const Chosen *attack);

// ALIE's z for so many clients of which so many attack: the normal quantile of (n - f - s) / (n - f), where s is how
// many honest ones attackers need besides themselves for a majority; at most that of all honest ones but one.
double crafted_alie(uint32_t clients, uint32_t attackers);

// out (count): the population's standard deviations of the updates of the first `count` weights of the rows, and
// of_mean times their mean - of_deviation times these.
void crafted_deviations(double *out, const Rows *rows, size_t count);
void crafted_make(double *out, const Rows *rows, double of_mean, double of_deviation, size_t count);

// How many standard deviations min-max (or min-sum) goes: the largest g that keeps to the limit, a root of quadratics
// (published code looks for it by halving steps). products (count + 1, count + 1): of the updates, and of their
// deviations as the last. workspace (2 count).
double crafted_reach(const double *products, uint32_t count, const Chosen *attack, double *workspace);

// Which update is the furthest from the mean along the first principal direction of all; of equal ones the first.
// products (count, count): of the updates. workspace (3 count).
uint32_t crafted_furthest(const double *products, uint32_t count, double *workspace);

#endif

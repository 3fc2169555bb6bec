// The parent's part of attacks whose update follows from the updates of others (rules/attack/crafted.h). All clients
// have trained, honest ones and attackers, and their updates are stored side by side; then the attackers' rows become
// the update on which they agree, before any rule combines the rows.
//
//   TRY(crafting_init(&crafting, &combine, err));
//   TRY(crafting_rows(&crafting, err));                // each round, when all jobs are done
//   crafting_free(&crafting);
//
// The crafted update is a function of the rows alone: its bits do not depend on the number of workers and nodes. Each
// node crafts the weights that it sees of all rows, and the exact sum carries them to the others.
#ifndef SOUNDER_FEDAVG_PARENT_CRAFTING_H
#define SOUNDER_FEDAVG_PARENT_CRAFTING_H

#include "base/err.h"
#include "base/owned.h"
#include "fedavg/parent/combine.h"

// A run without such an attack has zeros here, and no memory.
typedef struct Crafting {
    Combine *combine; // borrowed: its walk over the rows, its OpenBLAS
    Owned owned;
    const Job **jobs;  // owned (cohort): whose updates the attackers know, ascending by client
    uint32_t count;    // of them
    double *update;    // owned (parameters): what is crafted
    float *values;     // owned (parameters): the deviations of what they know; then the weights that they hand in
    double *products;  // owned (cohort + 1, cohort + 1); NULL: not wanted
    double *workspace; // owned (3 cohort + 3), likewise
    double of_mean, of_deviation;
    uint32_t copied; // mimic: the row among jobs; UINT32_MAX with other attacks
} Crafting;

// Where the run's attack crafts nothing this and the rest do nothing. Nothing to free on failure.
Status crafting_init(Crafting *crafting, Combine *combine, Error *err);
void crafting_free(Crafting *crafting);

// The queue holds all the round's jobs. Attackers whose crafted update does not fit are refused by name. Attackers that
// know no client hand in what they have trained.
Status crafting_rows(Crafting *crafting, Error *err);

#endif

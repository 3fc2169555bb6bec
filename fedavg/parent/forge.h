// The parent's part of attacks whose update follows from those of others (rules/forgery.h): all have trained, honest
// clients and attackers, and what they hand in lies side by side; then the attackers' rows become the update on which
// they agree, before anything is combined.
//
//   TRY(forge_init(&forge, &combine, err));
//   TRY(forge_rows(&forge, err));                // each round, when all jobs are done
//   forge_free(&forge);
//
// What is forged is a function of the rows alone: the same bits for any number of workers and nodes. Each node forges
// the weights that it sees of all rows, and the exact sum carries them to the others.
#ifndef SOUNDER_FEDAVG_PARENT_FORGE_H
#define SOUNDER_FEDAVG_PARENT_FORGE_H

#include "base/err.h"
#include "fedavg/parent/combine.h"

typedef struct Forge {
    Combine *combine;  // borrowed: its walk over the rows, its OpenBLAS
    const Job **jobs;  // owned (cohort): whose updates the attackers know, ascending by client
    uint32_t count;    // of them
    double *update;    // owned (parameters): what is forged
    float *values;     // owned (parameters): the deviations of what they know; then the weights that they hand in
    double *products;  // owned (ROW_SECTIONS + 1, squares of cohort + 1): of the sections, and of all; NULL: not wanted
    double *workspace; // owned (rows, ROW_PRODUCT_BLOCK), likewise
    double of_mean, of_deviation;
    uint32_t copied; // mimic: the row among jobs; UINT32_MAX with other attacks
} Forge;

// Where the run's attack forges nothing this and the rest do nothing. Nothing to free on failure.
Status forge_init(Forge *forge, Combine *combine, Error *err);
void forge_free(Forge *forge);

// The queue holds all the round's jobs. Attackers whose forged update does not fit are refused by name. Where nobody is
// known to the attackers they hand in what they have trained.
Status forge_rows(Forge *forge, Error *err);

#endif

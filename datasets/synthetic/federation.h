// Made-up data of users who differ: float32 samples, each with an owner, so that --partition natural-id gives every
// client what is its own. `sounder help federations` lists them. All numbers come from the counter-based generator: a
// federation is a pure function of its form and the seed.
//
//   quadratics a=A,... b=B,... [samples=N,...]     one client a number
// Client i has the loss a_i/2 (w - b_i)^2 + c^2/2 in the weight w and the bias c of the net "linear 1", to rounding:
// half of its samples are (x, target) = (sqrt(a_i), sqrt(a_i) b_i), the other half (-sqrt(a_i), -sqrt(a_i) b_i), under
// the loss (output - target)^2 / 2. So the bias moves alone, towards 0, and w is the x of what theory says about
// quadratics: with batches of at least `samples` a local epoch is one step w -= lr a_i (w - b_i). The test set is the
// training set: its loss is the global objective, weighted by samples.
//
// The others (federation_classes.c) are the synthetic data of FedProx, FedDyn and LEAF, and NIID-Bench's FCUBE: users
// with linear models of their own, whose classes are to be learned. Their test sets have owners, too.
#ifndef SOUNDER_DATASETS_SYNTHETIC_FEDERATION_H
#define SOUNDER_DATASETS_SYNTHETIC_FEDERATION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/keyed_text.h"
#include "datasets/dataset.h"

extern const FormTable federation_table;

// Whether the first word of --data is a federation's.
bool federation_is_named(const char *data);

// Fills in all of source but where things lie: shape, classes, counts, items, users. USAGE when the form is wrong.
Status federation_describe(DatasetSource *source, const char *data, uint64_t seed, Error *err);

// The arrays of one split, of the caller's.
typedef struct FederationSplit {
    float *values;    // (count, C,H,W)
    uint16_t *labels; // (count) classes, or float32 targets
    uint32_t *owners;
} FederationSplit;

typedef struct FederationArrays {
    FederationSplit train, test;
} FederationArrays;

Status federation_fill(FederationArrays *arrays, const DatasetSource *source, Error *err);

// What is behind the rows of federation_table besides quadratics: for federation.c.

// Each describes a source whose form, seed, name and items are set, and fills arrays of that size.
Status describe_fedprox(DatasetSource *source, Error *err);
Status fill_fedprox(FederationArrays *arrays, const DatasetSource *source, Error *err);
Status describe_feddyn(DatasetSource *source, Error *err);
Status fill_feddyn(FederationArrays *arrays, const DatasetSource *source, Error *err);
Status describe_leaf(DatasetSource *source, Error *err);
Status fill_leaf(FederationArrays *arrays, const DatasetSource *source, Error *err);
Status describe_fcube(DatasetSource *source, Error *err);
Status fill_fcube(FederationArrays *arrays, const DatasetSource *source, Error *err);

#endif

// Synthetic data of users who differ: float32 samples, each with an owner, so that --partition natural-id gives every
// client the samples of one user. `sounder help federations` lists them. All numbers come from the counter-based
// generator: a federation is a pure function of its form and the seed.
//
//   quadratics a=A,... b=B,... [samples=N,...]     one client per number
// Client i has the loss a_i/2 (w - b_i)^2 + c^2/2 in the weight w and the bias c of the net "linear 1", up to rounding:
// half of its samples are (x, target) = (sqrt(a_i), sqrt(a_i) b_i), the other half (-sqrt(a_i), -sqrt(a_i) b_i), under
// the loss (output - target)^2 / 2. The bias is independent of w and tends to 0, and w is the x of theorems about
// quadratics: with batches of at least `samples` a local epoch is one step w -= lr a_i (w - b_i). The test set is the
// training set: its loss is the global objective, weighted by samples.
//
//   clients:N
// One number per client: labels alone, for a trainer that has the samples.
//
// The others (federation_classes.c) are the synthetic data of FedProx, FedDyn and LEAF, and NIID-Bench's FCUBE:
// classification by linear models that differ between users. The samples of their test sets have owners, too.
#ifndef SOUNDER_DATASETS_SYNTHETIC_FEDERATION_H
#define SOUNDER_DATASETS_SYNTHETIC_FEDERATION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/keyed_text.h"
#include "datasets/dataset_block.h"

extern const FormTable federation_table;

// Says whether the first word of --data is the name of a federation.
bool federation_is_named(const char *data);

// Sets all fields of source except the sizes of the block: shape, classes, counts, items, users. Fails with USAGE for a
// wrong form.
Status federation_describe(DatasetSource *source, const char *data, uint64_t seed, Error *err);

// Fills the arrays (DATASET_SPLITS) of the caller.
Status federation_fill(const DatasetArrays *arrays, const DatasetSource *source, Error *err);

// How the users of a federation of classes differ: for federation_classes.c.
typedef struct UserKind UserKind;

// A row: `describe` sets the sizes of a source whose form, seed, name and items are set, `fill` fills arrays of these
// sizes. A new federation is a file with its functions and its row, and its name in FEDERATIONS.
typedef struct Federation {
    FormRow text;
    Status (*describe)(DatasetSource *source, const UserKind *kind, Error *err);
    Status (*fill)(const DatasetArrays *arrays, const DatasetSource *source, const UserKind *kind, Error *err);
    const UserKind *kind; // NULL: not used
} Federation;

// The federations, in the order of the help.
#define FEDERATIONS(EACH) EACH(quadratics) EACH(fedprox) EACH(feddyn) EACH(leaf) EACH(fcube) EACH(clients)

#define DECLARE_FEDERATION(name) extern const Federation name##_federation;
FEDERATIONS(DECLARE_FEDERATION)

#endif

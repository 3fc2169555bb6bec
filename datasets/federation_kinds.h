// What is behind the rows of federation_table besides quadratics: for federation.c.
#ifndef SOUNDER_DATASETS_FEDERATION_KINDS_H
#define SOUNDER_DATASETS_FEDERATION_KINDS_H

#include "datasets/federation.h"

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

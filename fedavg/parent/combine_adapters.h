// Part of combine.h: the factors of low-rank adapters, after the mean of all weights (rules/combine/adapters.h).
#ifndef SOUNDER_FEDAVG_PARENT_COMBINE_ADAPTERS_H
#define SOUNDER_FEDAVG_PARENT_COMBINE_ADAPTERS_H

#include "fedavg/parent/combine.h"

// combine->total has the mean update on all nodes. With how=exact the bases get what the mean factors leave out; with
// how=svd the factors' own totals are replaced. Nothing for another rule. DATA for a weight that would move too far.
Status combine_adapters(Combine *combine, Error *err);

#endif

// The record leaves out every figure that tells a draw which an epsilon takes for secret: with --noise-key system the
// clients of a round (RunConfig.hides_cohorts), and the samples of a step of --dp-sgd (hides_batches).
//
//   metrics_begin(&line, "round");
//   ...
//   return hidden_append(metrics, &line, memory->config, err);     // in place of metrics_append
#ifndef SOUNDER_APP_TRAIN_HIDDEN_FIGURES_H
#define SOUNDER_APP_TRAIN_HIDDEN_FIGURES_H

#include "fedavg/memory/layout.h"
#include "io/metrics.h"

// metrics_append of the line without its hidden keys; a client's line of a hidden cohort is freed and not written.
Status hidden_append(Metrics *metrics, JsonObject *line, const RunConfig *config, Error *err);

#endif

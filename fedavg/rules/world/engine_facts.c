#include "engine_facts.h"

#include <math.h>

#include "fedavg/rules/world/schedule.h"

// The engine of the real clock has no text of its own: it is the schedule `buffered` with another option.
const EngineFacts engine_facts[ENGINE_COUNT] = {
    [ENGINE_ROUNDS] =
        {.text =
             {"rounds",
              "clients train on their own, then the server combines their updates; steps= instead of epochs "
              "continue from "
              "round to round; fragments: in each round, of a P-th of the steps, one of P parts of the model travels "
              "and is stepped, and clients train on with weights of their own, into which delay steps later the new "
              "values are mixed, 1 - mix of them",
              "McMahan et al. 2017; steps: Stich 2019; warmup, rounds of one step: Lin et al. 2020; fragments: "
              "Douillard et al. 2025",
              {[ROUNDS_STEPS] = {.name = "steps",
                                 .preset = NAN,
                                 .minimum = 1,
                                 .maximum = 1e6,
                                 .derived = "--local-epochs",
                                 .also = "H",
                                 .whole = true},
               [ROUNDS_WARMUP] = {.name = "warmup", .preset = 0, .minimum = 0, .maximum = 1e9, .whole = true},
               [ROUNDS_FRAGMENTS] = {.name = "fragments",
                                     .preset = NAN,
                                     .minimum = 1,
                                     .maximum = 1000,
                                     .derived = "none",
                                     .whole = true},
               [ROUNDS_DELAY] = {.name = "delay", .preset = 0, .minimum = 0, .maximum = 1e6, .whole = true},
               [ROUNDS_MIX] =
                   {.name = "mix", .preset = NAN, .minimum = 0, .maximum = 1, .derived = "0.5 with a delay, else 0"}}}},
    [ENGINE_WILD] =
        {.text = {"wild",
                  "workers write the global weights as they train",
                  "Niu et al. 2011; steps: Dean et al. 2012; bound: Ho et al. 2013; update: plain stores may lose "
                  "updates, atomic adds "
                  "do not; data: a worker trains on all samples, or on its part",
                  {[WILD_STEPS] = {.name = "steps", .preset = 1, .minimum = 1, .maximum = 1e6, .whole = true},
                   [WILD_BOUND] =
                       {.name = "bound", .preset = NAN, .minimum = 0, .maximum = 1e6, .derived = "none", .whole = true},
                   [WILD_UPDATE] = {.name = "update", .words = {"plain", "atomic"}},
                   [WILD_DATA] = {.name = "data", .words = {"full", "shard"}}}},
         .whole_cohort = true,
         .client_is_worker = true,
         .writes_weights = true},
    [ENGINE_LOCKSTEP] =
        {.text = {"lockstep",
                  "synchronous: all workers meet at every step",
                  "Chen et al. 2016; batch: each client has its own, or all share each batch of all samples",
                  {[LOCKSTEP_BATCH] = {.name = "batch", .words = {"client", "global"}}}},
         .whole_cohort = true,
         .worker_needs_client = true,
         .writes_weights = true,
         .in_lockstep = true},
    [ENGINE_BUFFERED] = {.text = {"buffered", "asynchronous: every K updates that arrive make a step",
                                  "Nguyen et al., AISTATS 2022", BUFFERED_NUMBERS},
                         .buffers = true},
    [ENGINE_REAL_CLOCK] = {.buffers = true, .in_real_time = true},
};

// The rules of a run: the rows that a recipe names, looked up once per process.
//
//   const Algorithm algorithm = algorithm_of(&options->recipe);     // in a run: memory->algorithm, or run_algorithm
//   if (algorithm.local->keeps) ...                                 // a property of a rule is in its row
//   if (algorithm.traits.has[TRAIT_MASKS]) ...                      // a trait follows from a row and its numbers
//   server_turn(&options->recipe.server, round, cohort, clients);   // the numbers of a rule are in the recipe
//
// An Algorithm points to tables of its process, so each process makes its own, and none is stored in a segment. The
// recipe may be freed afterwards.
#ifndef SOUNDER_FEDAVG_ALGORITHM_ALGORITHM_H
#define SOUNDER_FEDAVG_ALGORITHM_ALGORITHM_H

#include "fedavg/algorithm/clashes.h"
#include "fedavg/rules/combine/combine_rule.h"
#include "fedavg/rules/combine/mix_rules.h"
#include "fedavg/rules/local/local_rule.h"
#include "fedavg/rules/local/optimizer_rules.h"
#include "fedavg/rules/send/send_rule.h"
#include "fedavg/rules/server/server_rule.h"
#include "fedavg/rules/world/engine_facts.h"

typedef struct Algorithm {
    const LocalRule *local;
    const OptimizerRule *optimizer;
    const SendCode *code;
    const MixRule *mix;
    const CombineRule *combine;
    const ServerRule *server;
    const EngineFacts *engine; // of the schedule
    Traits traits;             // of these rules; traits of options are unset
} Algorithm;

// Cheap: seven look-ups and the traits. It is made where it is needed, and stored once per process in a run
// (RunMemory).
Algorithm algorithm_of(const Recipe *recipe);

#endif

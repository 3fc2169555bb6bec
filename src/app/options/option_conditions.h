// When an option matters: what the others must say for that. The column `applies` of the table of options.
//
// Each is asked of whole options, also of ones that are not complete or not right: a text that cannot be read counts as
// its default would.
#ifndef SOUNDER_APP_OPTIONS_OPTION_CONDITIONS_H
#define SOUNDER_APP_OPTIONS_OPTION_CONDITIONS_H

#include "options.h"

bool is_dirichlet(const Options *options);
bool is_shards(const Options *options);
bool is_hogwild(const Options *options);
bool is_ssgd(const Options *options);
bool has_momentum(const Options *options);
bool counts_epochs(const Options *options);
bool spends_epsilon(const Options *options);
bool is_not_ssgd(const Options *options);
bool falls_in_steps(const Options *options);
bool falls_by_gamma(const Options *options);
bool falls_as_cosine(const Options *options);
bool may_use_gpu(const Options *options);
bool may_launch_many(const Options *options);
bool is_partitioned(const Options *options);
bool has_target(const Options *options);

// The world (fedavg/rules/world/world.h) is one of clients that are drawn for a round.
#define DRAWS_COHORTS    "an --algorithm with rounds (not ssgd, hogwild)"
#define DRAWS_FIXED_SIZE DRAWS_COHORTS " and another --sampling than poisson or by-size with --replacement"
bool draws_cohorts(const Options *options);
bool samples_by_size(const Options *options);
bool samples_by_choice(const Options *options);
bool samples_cyclically(const Options *options);
bool samples_available(const Options *options);
bool draws_fixed_size(const Options *options);
bool has_stragglers(const Options *options);
bool has_attack(const Options *options);
bool evaluates_clients(const Options *options);
bool has_mean(const Options *options);
bool has_buffer(const Options *options);
bool has_client_file(const Options *options);
bool has_deviation(const Options *options);
bool has_minimum(const Options *options);

#endif

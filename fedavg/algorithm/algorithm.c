#include "algorithm.h"

#include "fedavg/rules/combine/combine_rules.h"
#include "fedavg/rules/local/local_rules.h"
#include "fedavg/rules/send/send_rules.h"
#include "fedavg/rules/server/server_rules.h"

Algorithm algorithm_of(const Recipe *recipe) {
    Algorithm algorithm = {.local = local_rules[recipe->local.row],
                           .optimizer = &optimizer_rules[recipe->optimizer.row],
                           .code = send_codes[recipe->code.row],
                           .mix = &mix_rules[recipe->mix.row],
                           .combine = combine_rules[recipe->combine.row],
                           .server = server_rules[recipe->server.row],
                           .engine = &engine_facts[recipe->schedule.row]};
    recipe_traits(&algorithm.traits, recipe);
    return algorithm;
}

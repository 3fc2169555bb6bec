// Part of options.h: derives values from options and the rules of an algorithm, and checks limits of their numbers: the
// epsilon of noise in this world, the fewest updates of a robust rule, attackers, clients that never arrive or train at
// a time.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "fedavg/rules/attack/attack_rules.h"
#include "fedavg/rules/local/optimizer_rules.h"
#include "fedavg/rules/privacy/release_rules.h"
#include "fedavg/rules/server/server_rules.h"
#include "fedavg/rules/world/client_list.h"
#include "fedavg/rules/world/schedule.h"
#include "option_table.h"
#include "options.h"

// Without momentum SGD has no state, and no look-ahead (Nesterov).
Status options_check_momentum(const Options *options, Error *err) {
    const bool without = options->recipe.optimizer.row == OPTIMIZER_SGD && options->training.sgd.momentum == 0 &&
                         !options->resume[0] && !options->trainer[0]; // whose optimizer is its own
    if (without && options->training.nesterov)
        return options_refuse(
            options, "algorithm", err,
            ": optimizer sgd nesterov=yes has no effect without momentum; add --momentum 0.9 or write nesterov=no");
    if (!without || options->training.optimizer_state == OPTIMIZER_FRESH) return STATUS_OK;
    return options_refuse(
        options, "client-optimizer-state", err,
        " %s has no effect without momentum; add --momentum 0.9 or leave --client-optimizer-state out",
        options->training.optimizer_state == OPTIMIZER_KEPT ? "keep" : "average");
}

static Status resolve_release(Options *options, Error *err) {
    Error why;
    if (option_applies(options, option_find("privacy-rounds")) && options->privacy_rounds == 0)
        options->privacy_rounds = options->rounds;
    TRY(options_check_rounds(options, options->rounds, err));
    const ReleaseWorld world = {.cohorts =
                                    options->world.sampling == SAMPLING_POISSON ? COHORTS_POISSON : COHORTS_FIXED,
                                .clients = (uint32_t)options->population,
                                .clients_per_round = (uint32_t)options->clients_per_round,
                                .absent = (uint32_t)(options->population - options->arriving),
                                .rounds = options->privacy_rounds};
    Status status = release_plan(&options->release, &options->recipe.release, &options->recipe.clip,
                                 &options->recipe.noise, &world, &why);
    return options_blame(options, "algorithm", ": ", status, &why, err);
}

// Robust rules need a least number of updates; a round in which fewer arrive leaves the model unchanged.
static Status check_updates(const Options *options, Error *err) {
    const Recipe *recipe = &options->recipe;
    const Algorithm algorithm = algorithm_of(recipe);
    const CombineRule *rule = algorithm.combine;
    const uint32_t updates = world_cohort(&options->world, (uint32_t)options->clients_per_round, 1);
    const uint32_t mixed = algorithm.mix->mix ? algorithm.mix->mixed(updates, recipe->mix.number) : updates;
    const double least = rule->least ? rule->least(recipe->combine.number) : 1;
    char mixes[64] = "";
    const bool grows = options->world.cohort.kind != COHORT_CONSTANT;
    if (mixed >= least) return STATUS_OK;
    if (algorithm.traits.has[TRAIT_MIXES])
        snprintf(mixes, sizeof mixes, "mix %s makes %u of these updates, and ", algorithm.mix->text.name, mixed);
    return options_refuse(options, grows ? "cohort-schedule" : "clients-per-round", err,
                          " %s%u: %scombine %s of --algorithm needs at least %g updates; raise it or %s",
                          grows ? "first=" : "", updates, mixes, rule->text.name, least,
                          rule->for_fewer ? rule->for_fewer : "lower byzantine");
}

Status options_read_world(Options *options, Error *err) {
    Error why;
    const bool attacks = options->attack[0] != 0;
    if (attacks)
        TRY(options_blame(options, "attack", ": ", attack_parse(&options->attack_rule, options->attack, &why), &why,
                          err));
    if (attacks && !options->attackers[0])
        return options_refuse(options, "attack", err,
                              " %s: no client attacks; name the attackers, such as --attackers 0.2", options->attack);
    if (options->client_noise[0])
        TRY(options_blame(options, "client-noise", ": ",
                          view_parse_noise(&options->view.noise, options->client_noise, &why), &why, err));
    if (options->drift[0])
        TRY(options_blame(options, "drift", ": ", view_parse_drift(&options->view.drift, options->drift, &why), &why,
                          err));
    return STATUS_OK;
}

Status options_choose_new(uint8_t *chosen, const Options *options, Error *err) {
    const RngKey key = rng_key(options->seed, RNG_NEWCOMERS, 0, 0, 0);
    Error why;
    if (client_choose(chosen, options->new_clients, (uint32_t)options->clients, key, &why) == STATUS_OK)
        return STATUS_OK;
    return options_refuse(options, "new-clients", err, " %s", why.message);
}

// Attackers that are all new clients would be an attack that never happens.
static Status check_attackers_train(const Options *options, Error *err) {
    const size_t clients = (size_t)options->clients;
    bool attacks = false;
    if (!options->new_clients[0]) return STATUS_OK;
    uint8_t *attackers = calloc(clients, 1), *newcomers = calloc(clients, 1);
    Status status = STATUS_OK;
    if (!attackers || !newcomers) status = fail(err, STATUS_OS, "no memory for a list of %zu clients", clients);
    if (status == STATUS_OK) status = options_choose_new(newcomers, options, err);
    if (status == STATUS_OK)
        status = attack_choose(attackers, options->attackers, (uint32_t)clients, options->seed, err);
    for (size_t client = 0; client < clients && status == STATUS_OK; client++)
        attacks |= attackers[client] && !newcomers[client];
    free(attackers);
    free(newcomers);
    if (status != STATUS_OK || attacks) return status;
    return options_refuse(options, "attackers", err,
                          " %.60s: all of them are new clients (--new-clients %.60s), which never train; name others",
                          options->attackers, options->new_clients);
}

static Status check_attack(const Options *options, Error *err) {
    Error why;
    const Chosen *attack = &options->attack_rule;
    const uint32_t batch = options->training.batch_size;
    if (attack->row == ATTACK_BACKDOOR && attack->number[BACKDOOR_FRACTION] > 0 && attack_marked(attack, batch) == 0)
        return options_refuse(options, "attack", err,
                              " %s: fraction=%g marks none of the %u samples of a batch; raise it", options->attack,
                              attack->number[BACKDOOR_FRACTION], batch);
    if (attack->row == ATTACK_NONE) return STATUS_OK;
    if (attack_choose(NULL, options->attackers, (uint32_t)options->clients, options->seed, &why) != STATUS_OK)
        return options_refuse(options, "attackers", err, " %s", why.message);
    return check_attackers_train(options, err);
}

// `all` leaves the new clients in: they never train.
Status options_choose_absent(uint8_t *absent, const Options *options, Error *err) {
    const uint32_t clients = (uint32_t)options->clients;
    if (!options_without_all(options)) {
        if (client_list(absent, options->without, clients)) return STATUS_OK;
        return options_refuse(options, "without", err, " %.60s: needs clients from 0 to %u: 3,7 or 3-7; or all",
                              options->without, clients - 1);
    }
    if (options->new_clients[0]) TRY(options_choose_new(absent, options, err));
    for (uint32_t client = 0; client < clients; client++)
        absent[client] = !absent[client];
    return STATUS_OK;
}

// A run without any client to train is one that its options name, since its model stays as it began.
static Status check_population(const Options *options, Error *err) {
    if (options->population == 0)
        return options_refuse(options, "new-clients", err,
                              " %.60s: those are all %d clients, and none would train; lower it", options->new_clients,
                              options->clients);
    if (options->arriving > 0 || options_without_all(options)) return STATUS_OK;
    return options_refuse(options, "without", err,
                          " %.60s: those are all %d clients that could train; leave one in, or give --without all for "
                          "a model that stays as it begins",
                          options->without, options->population);
}

static int count_others(const uint8_t *missing, int clients) {
    int others = 0;
    for (int client = 0; client < clients; client++)
        others += !missing[client];
    return others;
}

Status options_count_population(Options *options, Error *err) {
    options->population = options->arriving = options->clients;
    if (!options->new_clients[0] && !options->without[0]) return STATUS_OK;
    const size_t clients = (size_t)options->clients;
    uint8_t *missing = calloc(2 * clients, sizeof *missing);
    if (!missing) return fail(err, STATUS_OS, "no memory for a list of %zu clients", clients);
    uint8_t *absent = missing + clients;
    Status status = options->new_clients[0] ? options_choose_new(missing, options, err) : STATUS_OK;
    options->population = count_others(missing, options->clients);
    if (status == STATUS_OK && options->without[0]) status = options_choose_absent(absent, options, err);
    for (size_t client = 0; client < clients; client++)
        missing[client] |= absent[client];
    options->arriving = count_others(missing, options->clients);
    free(missing);
    return status == STATUS_OK ? check_population(options, err) : status;
}

// The number of clients that a run needs. In rounds it is one: without any the model stays as it began. A buffered run
// waits for its next update, which with twice=no is of a client that is not yet among the K.
static uint32_t needed_clients(const Options *options) {
    const double *number = options->recipe.schedule.number;
    if (!options_algorithm(options).engine->buffers) return 0;
    return number[BUFFERED_TWICE] == TWICE_NO ? (uint32_t)number[BUFFERED_K] : 1;
}

static Status check_arrivals(const Options *options, Error *err) {
    const uint32_t needed = needed_clients(options), arriving = (uint32_t)options->arriving;
    if (options->world.drop_out >= 1 && needed > 0)
        return options_refuse(options, "drop-out", err,
                              " %g: no client would arrive, and schedule buffered waits for one; lower it",
                              options->world.drop_out);
    if (!options->without[0] || arriving >= needed) return STATUS_OK;
    return options_refuse(
        options, "without", err,
        " %.60s: schedule buffered would wait for ever: %u client%s can arrive, and it needs %u; leave more in%s",
        options->without, arriving, arriving == 1 ? "" : "s", needed, needed > 1 ? ", lower K, or take twice=yes" : "");
}

// Returns K: as given, or from the wanted staleness, or as in the paper.
static double buffer_size(const double *number) {
    const double m = number[BUFFERED_M], lag = number[BUFFERED_LAG];
    const bool publishes = number[BUFFERED_DISPATCH] == DISPATCH_PUBLISH;
    if (!isnan(number[BUFFERED_K])) return number[BUFFERED_K];
    const double k = isnan(lag) ? 10 : publishes ? round(m / (1 + lag)) : lag > 0 ? round((m - 1) / lag) : m;
    return fmax(1, fmin(fmin(k, m), 1000));
}

const char *options_replay(const Options *options) {
    static const char word[] = "replay:";
    return strncmp(options->clock, word, strlen(word)) == 0 ? options->clock + strlen(word) : NULL;
}

bool options_clock_is_real(const Options *options) {
    return strcmp(options->clock, "real") == 0;
}

static Status check_clock(const Options *options, Error *err) {
    const char *file = options_replay(options);
    if ((file && *file) || options_clock_is_real(options) || strcmp(options->clock, "simulated") == 0) return STATUS_OK;
    return options_refuse(options, "clock", err, " %.60s: needs simulated, real or replay:FILE", options->clock);
}

Status options_resolve_buffered(Options *options, Error *err) {
    double *number = options->recipe.schedule.number;
    if (!options_algorithm(options).engine->buffers) return STATUS_OK;
    TRY(check_clock(options, err));
    const int m = isnan(number[BUFFERED_M]) ? 0 : (int)number[BUFFERED_M];
    if (m > 0 && options->clients_per_round > 0 && options->clients_per_round != m)
        return options_refuse(options, "clients-per-round", err, " %d: --algorithm says M=%d; leave one of the two out",
                              options->clients_per_round, m);
    if (m > options->population)
        return options_refuse(options, "algorithm", err,
                              ": M=%d clients train at a time, but there are only %d; lower M or raise --clients", m,
                              options->population);
    if (options->clients_per_round == 0) options->clients_per_round = m > 0 ? m : options->population;
    number[BUFFERED_M] = options->clients_per_round;
    number[BUFFERED_K] = buffer_size(number);
    double *every = &options->recipe.server.number[NESTEROV_EVERY];
    if (options->recipe.server.row == SERVER_ROW_nesterov && isnan(*every)) *every = number[BUFFERED_M];
    if (options->resume[0] && options_clock_is_real(options)) TRY(options_check_resumed(options, options->rounds, err));
    if (number[BUFFERED_K] <= number[BUFFERED_M]) return STATUS_OK;
    return options_refuse(options, "algorithm", err,
                          ": K=%g updates make a step, but only %g clients train at a time (M, --clients-per-round); "
                          "lower K or raise that",
                          number[BUFFERED_K], number[BUFFERED_M]);
}

static Status check_growth(const Options *options, Error *err) {
    const CohortSchedule *cohort = &options->world.cohort;
    if (cohort->kind == COHORT_CONSTANT) return STATUS_OK;
    if (cohort->first == 1 && algorithm_of(&options->recipe).traits.has[TRAIT_MASKS])
        return options_refuse(options, "cohort-schedule", err,
                              ": first=1: with send masked of --algorithm the sum of one client is its update, which "
                              "nothing hides; write first=2 or more");
    if (cohort->first <= (uint32_t)options->clients_per_round) return STATUS_OK;
    return options_refuse(options, "cohort-schedule", err,
                          ": first=%u: needs at most --clients-per-round, to which it grows (%d)", cohort->first,
                          options->clients_per_round);
}

NoiseKeyKind options_noise_key(const Options *options) {
    if (!option_applies(options, option_find("noise-key"))) return NOISE_KEY_NONE;
    if (!options->noise_key[0]) return NOISE_KEY_OF_RUN;
    return strcmp(options->noise_key, "system") == 0 ? NOISE_KEY_SYSTEM : NOISE_KEY_GIVEN;
}

bool options_add_noise(const Options *options) {
    const ReleasePlan *release = &options->release;
    return release->updates_noise > 0 || release->local_noise > 0 || options->training.privacy.noise > 0;
}

// Where all clients take part, and on a tree, epsilon counts on no draw.
bool options_hide_cohorts(const Options *options) {
    const Mechanism *mechanism = &options->release.mechanism;
    return options_noise_key(options) == NOISE_KEY_SYSTEM && options->release.hides &&
           mechanism->cohorts != COHORTS_TREE && mechanism->rate < 1;
}

bool options_hide_batches(const Options *options) {
    return options_noise_key(options) == NOISE_KEY_SYSTEM && options->training.privacy.clip > 0;
}

static Status check_noise_key(const Options *options, Error *err) {
    NoiseKey ignored;
    if (options_noise_key(options) == NOISE_KEY_GIVEN && !noise_key_read(&ignored, options->noise_key))
        return options_refuse(options, "noise-key", err, " %.70s: needs system, or %d hexadecimal digits",
                              options->noise_key, 2 * NOISE_KEY_BYTES);
    if (options->trace[0] && (options_hide_cohorts(options) || options_hide_batches(options)))
        return options_refuse(options, "trace", err,
                              ": says which clients were drawn and how much they trained, which --noise-key system "
                              "keeps secret; leave one of the two out");
    return STATUS_OK;
}

Status options_resolve_rules(Options *options, Error *err) {
    TRY(check_growth(options, err));
    TRY(resolve_release(options, err));
    TRY(check_noise_key(options, err));
    TRY(check_updates(options, err));
    TRY(check_attack(options, err));
    return check_arrivals(options, err);
}

// Part of options.h: which options go with which rules of an algorithm: what an optimizer keeps, what noise is worth in
// this world, how many updates a robust rule needs, who attacks.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "fedavg/rules/attack/attack_rules.h"
#include "fedavg/rules/combine/combine_rules.h"
#include "fedavg/rules/combine/mix_rules.h"
#include "fedavg/rules/local/local_rules.h"
#include "fedavg/rules/local/optimizer_rules.h"
#include "fedavg/rules/local/personal_rules.h"
#include "fedavg/rules/privacy/release_rules.h"
#include "fedavg/rules/send/send_rules.h"
#include "fedavg/rules/world/schedule.h"
#include "fedavg/rules/world/stale_rules.h"
#include "fedavg/rules/world/walk.h"
#include "option_table.h"
#include "options.h"

// A client keeps one thing from turn to turn, and the length of a training is known only from a standing start.
static Status check_optimizer_state(const Options *options, Error *err) {
    const Chosen *parts = options->recipe.parts;
    const Part others[] = {PART_LOCAL, PART_PERSONAL, PART_CODE, PART_COMBINE, PART_SCHEDULE};
    const LocalRule *local = local_rules[parts[PART_LOCAL].row];
    const bool clashes[] = {local->keeps && !local->replicas, parts[PART_PERSONAL].row != PERSONAL_NONE,
                            send_feeds_back(&parts[PART_CODE]), combine_rules[parts[PART_COMBINE].row]->cut != NULL,
                            algorithm_of(&options->recipe).engine->buffers && !local->replicas};
    if (options->training.optimizer_state != OPTIMIZER_KEPT) return STATUS_OK;
    for (int i = 0; i < 5; i++)
        if (clashes[i])
            return fail(err, STATUS_USAGE, "--client-optimizer-state keep does not go with %s %s of --algorithm: %s",
                        part_names[others[i]], part_rule(others[i], parts[others[i]].row)->name,
                        i < 3    ? "a client keeps one of the two"
                        : i == 4 ? "what a client keeps belongs to rounds of one model"
                                 : "the length of a training is known only where the optimizer starts anew");
    return STATUS_OK;
}

// The momenta are a second sum beside that of the updates.
static Status check_averaged_state(const Options *options, Error *err) {
    const Chosen *parts = options->recipe.parts;
    const struct {
        Part part;
        bool clashes;
        const char *why;
    } others[] = {
        {PART_OPTIMIZER, parts[PART_OPTIMIZER].row != OPTIMIZER_SGD, "momenta alone are averaged"},
        {PART_LOCAL, local_rules[parts[PART_LOCAL].row]->keeps, "one of the two can be summed beside the updates"},
        {PART_PERSONAL, parts[PART_PERSONAL].row != PERSONAL_NONE, "what stays with a client is no mean"},
        {PART_MIX, parts[PART_MIX].row != MIX_NONE, "momenta are averaged as a plain mean"},
        {PART_COMBINE, parts[PART_COMBINE].row != COMBINE_ROW_mean, "momenta are averaged as a plain mean"},
        {PART_NOISE, parts[PART_NOISE].row != NOISE_NONE, "momenta would tell what noise hides"},
        {PART_RELEASE, parts[PART_RELEASE].row != RELEASE_EXACT, "momenta would tell what noise hides"},
        {PART_SCHEDULE, algorithm_of(&options->recipe).engine->buffers, "momenta do not wait with the updates"},
    };
    if (options->training.optimizer_state != OPTIMIZER_AVERAGED) return STATUS_OK;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i].clashes)
            return fail(err, STATUS_USAGE, "--client-optimizer-state average does not go with %s %s of --algorithm: %s",
                        part_names[others[i].part], part_rule(others[i].part, parts[others[i].part].row)->name,
                        others[i].why);
    return STATUS_OK;
}

// Without momentum SGD remembers nothing, and looks nowhere ahead.
static Status check_momentum(const Options *options, Error *err) {
    char name[OPTION_NAMED_BYTES];
    const bool without = options->recipe.parts[PART_OPTIMIZER].row == OPTIMIZER_SGD &&
                         options->training.sgd.momentum == 0 && !options->resume[0];
    if (without && options->training.nesterov)
        return fail(err, STATUS_USAGE,
                    "%s: optimizer sgd nesterov=yes has no effect without momentum; add --momentum 0.9 or write "
                    "nesterov=no",
                    options_named(name, options, "algorithm"));
    if (!without || options->training.optimizer_state == OPTIMIZER_FRESH) return STATUS_OK;
    return fail(err, STATUS_USAGE,
                "%s %s has no effect without momentum; add --momentum 0.9 or leave --client-optimizer-state out",
                options_named(name, options, "client-optimizer-state"),
                options->training.optimizer_state == OPTIMIZER_KEPT ? "keep" : "average");
}

Status options_check_state(const Options *options, Error *err) {
    TRY(check_optimizer_state(options, err));
    TRY(check_averaged_state(options, err));
    return check_momentum(options, err);
}

// Steps that go on from round to round go on with their momentum, where there is one and nothing else is kept.
void options_keep_state(Options *options) {
    const Chosen *parts = options->recipe.parts;
    const bool remembers = options->training.sgd.momentum > 0 || parts[PART_OPTIMIZER].row != OPTIMIZER_SGD;
    Error ignored;
    if (!walk_by_steps(&parts[PART_SCHEDULE]) || !remembers || options_given(options, "client-optimizer-state")) return;
    options->training.optimizer_state = OPTIMIZER_KEPT;
    if (check_optimizer_state(options, &ignored) != STATUS_OK) options->training.optimizer_state = OPTIMIZER_FRESH;
}

// Who is drawn how often has to be known for the accountant.
static Status check_release_world(const Options *options, Error *err) {
    char name[OPTION_NAMED_BYTES];
    const World *world = &options->world;
    const uint32_t release = options->recipe.parts[PART_RELEASE].row;
    const bool cycles = world->sampling == SAMPLING_CYCLIC && !world->cycle_shuffle;
    const bool drawn = world->sampling == SAMPLING_UNIFORM || world->sampling == SAMPLING_POISSON;
    const bool known = release == RELEASE_TREE ? cycles : drawn;
    if (release == RELEASE_EXACT) return STATUS_OK;
    if (!known || world->over_selection > 1)
        return fail(
            err, STATUS_USAGE,
            "%s does not go with release %s of --algorithm, whose epsilon is known only for cohorts of --sampling "
            "%s that are all kept; change it",
            options_named(name, options, known ? "over-selection" : "sampling"), release_rules[release].name,
            release == RELEASE_TREE ? "cyclic without --cycle-shuffle" : "uniform or poisson");
    return options_check_rounds(options, options->rounds, err);
}

static Status resolve_release(Options *options, Error *err) {
    char name[OPTION_NAMED_BYTES];
    Error why;
    if (option_applies(options, option_find("privacy-rounds")) && options->privacy_rounds == 0)
        options->privacy_rounds = options->rounds;
    TRY(check_release_world(options, err));
    const ReleaseWorld world = {.cohorts =
                                    options->world.sampling == SAMPLING_POISSON ? COHORTS_POISSON : COHORTS_FIXED,
                                .clients = (uint32_t)options->clients,
                                .clients_per_round = (uint32_t)options->clients_per_round,
                                .rounds = options->privacy_rounds};
    Status status = release_plan(&options->release, &options->recipe.parts[PART_RELEASE],
                                 &options->recipe.parts[PART_CLIP], &options->recipe.parts[PART_NOISE], &world, &why);
    if (status == STATUS_OK) return STATUS_OK;
    return fail(err, status, "%s: %s", options_named(name, options, "algorithm"), why.message);
}

// Robust rules make no sense of fewer updates than so many; a round in which fewer arrive leaves the model as it is.
static Status check_updates(const Options *options, Error *err) {
    const Chosen *mix = &options->recipe.parts[PART_MIX], *combine = &options->recipe.parts[PART_COMBINE];
    const CombineRule *rule = combine_rules[combine->row];
    const uint32_t updates = (uint32_t)options->clients_per_round;
    const uint32_t mixed = mix_rules[mix->row].mix ? mix_rules[mix->row].mixed(updates, mix->number) : updates;
    const double least = rule->least ? rule->least(combine->number) : 1;
    char name[OPTION_NAMED_BYTES], mixes[64] = "";
    if (mixed >= least) return STATUS_OK;
    if (mix->row != MIX_NONE)
        snprintf(mixes, sizeof mixes, ", of which mix %s makes %u", mix_rules[mix->row].text.name, mixed);
    return fail(err, STATUS_USAGE,
                "%s %u: so many updates%s; combine %s of --algorithm needs at least %g; raise that or %s",
                options_named(name, options, "clients-per-round"), updates, mixes, rule->text.name, least,
                rule->for_fewer ? rule->for_fewer : "lower byzantine");
}

// Who learns what clients count needs the losses and the updates of all of them.
static Status check_all_take_part(const Options *options, Error *err) {
    const Chosen *combine = &options->recipe.parts[PART_COMBINE];
    const World *world = &options->world;
    const struct {
        const char *option;
        bool clashes;
    } others[] = {{"clients-per-round", options->clients_per_round < options->clients},
                  {"sampling", world->sampling != SAMPLING_UNIFORM},
                  {"drop-out", world->drop_out > 0},
                  {"stragglers", world->stragglers > 0 && world->straggler_work == STRAGGLERS_DROP},
                  {"deadline", world->deadline > 0}};
    char name[OPTION_NAMED_BYTES];
    for (size_t i = 0; i < sizeof others / sizeof *others && combine_rules[combine->row]->learn; i++)
        if (others[i].clashes)
            return fail(
                err, STATUS_USAGE,
                "%s does not go with combine %s of --algorithm, for which all clients take part in every round; "
                "leave it out",
                options_named(name, options, others[i].option), combine_rules[combine->row]->text.name);
    return STATUS_OK;
}

// What is crafted stands where an update stands that nothing has been done to, among all others.
static Status check_crafted(const Options *options, Error *err) {
    const Chosen *parts = options->recipe.parts;
    const bool as_mean = parts[PART_COMBINE].row == COMBINE_ROW_mean || combine_rules[parts[PART_COMBINE].row]->rows;
    const struct {
        Part part;
        bool clashes;
        const char *why;
    } others[] = {
        {PART_SCHEDULE, recipe_engine(&options->recipe) != ENGINE_ROUNDS,
         "attackers have to see the updates of a round"},
        {PART_COMBINE, !as_mean, "its shares follow from what clients train; take the mean or a robust rule"},
        {PART_CLIP, parts[PART_CLIP].row != CLIP_NONE, "what attackers agree on is not clipped"},
        {PART_NOISE, parts[PART_NOISE].row != NOISE_NONE, "what attackers agree on gets no noise"},
        {PART_CODE, parts[PART_CODE].row != SEND_ROW_whole, "what attackers agree on is not encoded"},
        {PART_RELEASE, parts[PART_RELEASE].row != RELEASE_EXACT, "what attackers agree on is not clipped"},
    };
    char name[OPTION_NAMED_BYTES];
    options_named(name, options, "attack");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i].clashes)
            return fail(err, STATUS_USAGE, "%s %s does not go with %s %s of --algorithm: %s", name, options->attack,
                        part_names[others[i].part], part_rule(others[i].part, parts[others[i].part].row)->name,
                        others[i].why);
    if (options->training.optimizer_state == OPTIMIZER_AVERAGED)
        return fail(
            err, STATUS_USAGE,
            "%s %s does not go with --client-optimizer-state average, whose momenta would tell them apart; take "
            "fresh or keep",
            name, options->attack);
    return STATUS_OK;
}

// What a client keeps follows from the update that it has trained.
static Status resolve_attack(Options *options, Error *err) {
    char name[OPTION_NAMED_BYTES];
    Error why;
    const LocalRule *local = local_rules[options->recipe.parts[PART_LOCAL].row];
    if (!options->attack[0]) return STATUS_OK;
    if (attack_parse(&options->attack_rule, options->attack, &why) != STATUS_OK) {
        fail(err, STATUS_USAGE, "%s: %s", options_named(name, options, "attack"), why.message);
        error_keep_sketch(err, &why);
        return STATUS_USAGE;
    }
    if (!options->attackers[0])
        return fail(err, STATUS_USAGE, "%s %s: nobody does that; say who with --attackers, such as 0.2",
                    options_named(name, options, "attack"), options->attack);
    const Chosen *attack = &options->attack_rule;
    const bool as_trained =
        attack_is_in_training(attack) && (attack->row != ATTACK_BACKDOOR || attack->number[BACKDOOR_FACTOR] == 1);
    if (local->keeps && !as_trained)
        return fail(
            err, STATUS_USAGE,
            "%s %s does not go with local %s of --algorithm, whose clients keep what follows from their update; "
            "take label-flip",
            options_named(name, options, "attack"), options->attack, local->text.name);
    const uint32_t stale = options->recipe.parts[PART_STALE].row;
    if (attack->row == ATTACK_SCALED && isnan(attack->number[0]) && options_clock_is_real(options) &&
        stale != STALE_CONSTANT && stale != STALE_COMPENSATED)
        return fail(err, STATUS_USAGE,
                    "%s %s: with --clock real the share of an update depends on how late it comes, which no attacker "
                    "knows; write a number, such as --attack \"scaled factor=10\"",
                    options_named(name, options, "attack"), options->attack);
    const uint32_t batch = options->training.batch_size;
    if (attack->row == ATTACK_BACKDOOR && attack->number[BACKDOOR_FRACTION] > 0 && attack_marked(attack, batch) == 0)
        return fail(err, STATUS_USAGE, "%s %s: fraction=%g marks none of the %u samples of a batch; raise it",
                    options_named(name, options, "attack"), options->attack, attack->number[BACKDOOR_FRACTION], batch);
    if (attack_is_crafted(&options->attack_rule)) TRY(check_crafted(options, err));
    if (attack_choose(NULL, options->attackers, (uint32_t)options->clients, options->seed, &why) != STATUS_OK)
        return fail(err, STATUS_USAGE, "%s %s", options_named(name, options, "attackers"), why.message);
    return STATUS_OK;
}

// In the simulated clock of a buffered schedule clients begin one by one, and are late rather than lost.
static Status check_buffered_world(const Options *options, Error *err) {
    char name[OPTION_NAMED_BYTES];
    const World *world = &options->world;
    const bool by_size = world->sampling == SAMPLING_BY_SIZE && !world->replacement;
    const struct {
        const char *option;
        bool clashes;
        const char *why;
    } others[] = {
        {"sampling", world->sampling != SAMPLING_UNIFORM && !by_size,
         "which begins one client after the other; take uniform, or by-size without --replacement"},
        {"stragglers", world->stragglers > 0, "whose slow clients are late; take --client-time"},
        {"over-selection", world->over_selection > 1, "which takes the first K of M; lower its K"},
        {"deadline", world->deadline > 0, "whose rounds end with the Kth update; take its max-staleness"},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i].clashes)
            return fail(err, STATUS_USAGE, "%s does not go with schedule buffered of --algorithm, %s",
                        options_named(name, options, others[i].option), others[i].why);
    return STATUS_OK;
}

// K, from what was given: itself, the staleness that is asked for, or as in the paper.
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
    char name[OPTION_NAMED_BYTES];
    const char *file = options_replay(options);
    if ((file && *file) || options_clock_is_real(options) || strcmp(options->clock, "simulated") == 0) return STATUS_OK;
    return fail(err, STATUS_USAGE, "%s %.60s: needs simulated, real or replay:FILE",
                options_named(name, options, "clock"), options->clock);
}

// The share of an update has to be known when it comes, before those that will join it.
static Status check_real_clock(const Options *options, double k, Error *err) {
    char name[OPTION_NAMED_BYTES];
    const Chosen *parts = options->recipe.parts;
    const bool sends = parts[PART_CLIP].row > 0 || parts[PART_NOISE].row > 0 || parts[PART_CODE].row > 0;
    const struct {
        bool clashes;
        const char *why;
    } others[] = {
        {options->nodes > 1, "workers of one machine share it; start it without mpirun"},
        {sends, "updates arrive whole; leave send of --algorithm out"},
        {parts[PART_COMBINE].row != COMBINE_ROW_mean,
         "it takes the mean as updates come; leave combine of --algorithm out"},
        {k > 1 && !combine_is_uniform(&parts[PART_COMBINE]),
         "what an update counts must not depend on those that come later; add combine mean uniform"},
        {options->training.schedule.kind != LR_CONSTANT || options->training.schedule.warm_up > 0,
         "no round has a learning rate of its own; leave --lr-schedule and --warm-up out"},
        {!isnan(parts[PART_SCHEDULE].number[BUFFERED_BOUND]), "nobody waits; leave bound out"},
        {parts[PART_SCHEDULE].number[BUFFERED_DISPATCH] != DISPATCH_ARRIVAL,
         "workers begin with their next client at once; leave dispatch=publish out"},
        {parts[PART_SCHEDULE].number[BUFFERED_TWICE] == TWICE_NO, "who comes twice counts twice; leave twice=no out"},
        {!isnan(parts[PART_SCHEDULE].number[BUFFERED_LAG]),
         "as many clients train as there are workers; give K instead of lag"},
        {local_rules[parts[PART_LOCAL].row]->replicas, "replicas meet the centre on the simulated clock; leave it out"},
        {options->world.drop_out > 0, "clients drop out of the simulated world; leave --drop-out out"},
        {options_given(options, "client-time") || options_given(options, "up-bandwidth") ||
             options_given(options, "down-bandwidth"),
         "durations are those of the machine; leave --client-time and bandwidths out"},
    };
    if (options->resume[0]) return options_check_resumed(options, options->rounds, err);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i].clashes)
            return fail(err, STATUS_USAGE, "%s real: %s", options_named(name, options, "clock"), others[i].why);
    return STATUS_OK;
}

// Replicas that give as they arrive: all clients train all the time, and go on with their own.
static Status check_replicas(const Options *options, Error *err) {
    char name[OPTION_NAMED_BYTES];
    const World *world = &options->world;
    const LocalRule *local = local_rules[options->recipe.parts[PART_LOCAL].row];
    const struct {
        const char *option;
        bool clashes;
        const char *why;
    } others[] = {
        {"clients-per-round", options->clients_per_round < options->clients, "whose clients all train; leave it out"},
        {"drop-out", world->drop_out > 0, "whose clients all arrive; leave it out"},
        {"clock", options_replay(options) != NULL, "which lives on the simulated clock; leave it out"},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others && local->replicas; i++)
        if (others[i].clashes)
            return fail(err, STATUS_USAGE, "%s does not go with local %s and schedule buffered of --algorithm, %s",
                        options_named(name, options, others[i].option), local->text.name, others[i].why);
    return STATUS_OK;
}

Status options_resolve_buffered(Options *options, Error *err) {
    char name[OPTION_NAMED_BYTES];
    double *number = options->recipe.parts[PART_SCHEDULE].number;
    if (!options_algorithm(options).engine->buffers) return STATUS_OK;
    TRY(check_buffered_world(options, err));
    TRY(check_clock(options, err));
    const int m = isnan(number[BUFFERED_M]) ? 0 : (int)number[BUFFERED_M];
    if (m > 0 && options->clients_per_round > 0 && options->clients_per_round != m)
        return fail(err, STATUS_USAGE, "%s %d: --algorithm says M=%d; leave one of the two out",
                    options_named(name, options, "clients-per-round"), options->clients_per_round, m);
    if (m > options->clients)
        return fail(err, STATUS_USAGE,
                    "%s: M=%d clients train at a time, but there are only %d; lower M or raise --clients",
                    options_named(name, options, "algorithm"), m, options->clients);
    if (options->clients_per_round == 0) options->clients_per_round = m > 0 ? m : options->clients;
    number[BUFFERED_M] = options->clients_per_round;
    number[BUFFERED_K] = buffer_size(number);
    if (options_clock_is_real(options)) TRY(check_real_clock(options, number[BUFFERED_K], err));
    TRY(check_replicas(options, err));
    if (number[BUFFERED_K] <= number[BUFFERED_M]) return STATUS_OK;
    return fail(
        err, STATUS_USAGE,
        "%s: K=%g updates make a step, but only %g clients train at a time (M, --clients-per-round); lower K or "
        "raise that",
        options_named(name, options, "algorithm"), number[BUFFERED_K], number[BUFFERED_M]);
}

static Status resolve_view(Options *options, Error *err) {
    char name[OPTION_NAMED_BYTES];
    Error why;
    if (options->client_noise[0] && view_parse_noise(&options->view.noise, options->client_noise, &why) != STATUS_OK)
        return fail(err, STATUS_USAGE, "%s: %s", options_named(name, options, "client-noise"), why.message);
    if (options->drift[0] && view_parse_drift(&options->view.drift, options->drift, &why) != STATUS_OK)
        return fail(err, STATUS_USAGE, "%s: %s", options_named(name, options, "drift"), why.message);
    if (options->view.drift.row == VIEW_DRIFT_CLASSES && options_algorithm(options).engine->buffers)
        return fail(
            err, STATUS_USAGE,
            "%s does not go with schedule buffered of --algorithm, which weighs clients before the first round; take "
            "labels or pixels",
            options_named(name, options, "drift"));
    const bool changes = options->view.drift.row == VIEW_DRIFT_LABELS || options->view.drift.row == VIEW_DRIFT_PIXELS;
    if (changes && options->attack_rule.row == ATTACK_BACKDOOR)
        return fail(
            err, STATUS_USAGE,
            "%s does not go with --attack backdoor, whose success is told by images and labels as they were; take "
            "drift classes",
            options_named(name, options, "drift"));
    if (options->view.noise.row != VIEW_NOISE_NONE && options->attack_rule.row == ATTACK_BACKDOOR)
        return fail(err, STATUS_USAGE, "%s does not go with --attack backdoor, which marks pixels",
                    options_named(name, options, "client-noise"));
    return STATUS_OK;
}

Status options_resolve_rules(Options *options, Error *err) {
    TRY(resolve_release(options, err));
    TRY(check_updates(options, err));
    TRY(check_all_take_part(options, err));
    TRY(resolve_attack(options, err));
    return resolve_view(options, err);
}

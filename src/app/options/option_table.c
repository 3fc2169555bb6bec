#include "option_table.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/form.h"
#include "fedavg/rules/optimizer_rules.h"

const char *const option_group_titles[GROUP_COUNT] = {
    [GROUP_MODEL] = "Data and model",
    [GROUP_CLIENTS] = "Workers and clients",
    [GROUP_WORLD] = "What happens to clients",
    [GROUP_TRAINING] = "Training",
    [GROUP_FAULTS] = "Faults",
    [GROUP_RUN] = "The run and its files",
};

static bool is_dirichlet(const Options *options) {
    return form_is(options->partition, "dirichlet") && !strstr(options->partition, "alpha=");
}
static bool is_shards(const Options *options) {
    return form_is(options->partition, "shards") && !strstr(options->partition, "per-client=");
}
static bool is_hogwild(const Options *options) {
    return engine_facts[options_engine(options)].client_is_worker;
}
static bool is_ssgd(const Options *options) {
    return engine_facts[options_engine(options)].in_lockstep;
}
static bool steps_by_sgd(const Options *options) {
    Recipe recipe;
    Error ignored;
    return recipe_parse(&recipe, options->algorithm, &ignored) != STATUS_OK ||
           recipe.parts[PART_OPTIMIZER].row == OPTIMIZER_SGD;
}
static bool spends_epsilon(const Options *options) {
    Recipe recipe;
    Error ignored;
    return recipe_parse(&recipe, options->algorithm, &ignored) == STATUS_OK &&
           recipe.parts[PART_RELEASE].row != RELEASE_EXACT &&
           !isnan(recipe.parts[PART_RELEASE].number[RELEASE_EPSILON]);
}
static bool is_not_ssgd(const Options *options) {
    return !is_ssgd(options);
}
static bool has_schedule(const Options *options, unsigned kinds) {
    return (kinds >> options->training.schedule.kind & 1u) != 0;
}
static bool falls_in_steps(const Options *options) {
    return has_schedule(options, 1u << LR_STEP);
}
static bool falls_by_gamma(const Options *options) {
    return has_schedule(options, 1u << LR_STEP | 1u << LR_EXPONENTIAL);
}
static bool falls_as_cosine(const Options *options) {
    return has_schedule(options, 1u << LR_COSINE);
}
static bool may_use_card(const Options *options) {
    return options->device != DEVICE_CPU;
}
static bool may_launch_many(const Options *options) {
    return may_use_card(options) && !is_hogwild(options);
}
static bool is_partitioned(const Options *options) {
    if (is_ssgd(options)) return !options->training.global_batch;
    return !is_hogwild(options) || options->hogwild_data == HOGWILD_SHARD;
}

// The world (fedavg/rules/world.h) is one of clients that are drawn for a round.
#define DRAWS_COHORTS    "--algorithm fedavg"
#define DRAWS_FIXED_SIZE "--algorithm fedavg and another --sampling than poisson or by-size with --replacement"
static bool draws_cohorts(const Options *options) {
    return !engine_facts[options_engine(options)].whole_cohort;
}
static bool samples_by(const Options *options, Sampling sampling) {
    return draws_cohorts(options) && options->world.sampling == (int)sampling;
}
static bool samples_by_size(const Options *options) {
    return samples_by(options, SAMPLING_BY_SIZE);
}
static bool samples_by_choice(const Options *options) {
    return samples_by(options, SAMPLING_POWER_OF_CHOICE);
}
static bool samples_cyclically(const Options *options) {
    return samples_by(options, SAMPLING_CYCLIC);
}
static bool samples_available(const Options *options) {
    return samples_by(options, SAMPLING_AVAILABLE);
}
static bool draws_fixed_size(const Options *options) {
    bool repeats = samples_by_size(options) && options->world.replacement;
    return draws_cohorts(options) && !samples_by(options, SAMPLING_POISSON) && !repeats;
}
static bool has_stragglers(const Options *options) {
    return draws_cohorts(options) && options->world.stragglers > 0;
}
static bool has_attack(const Options *options) {
    return draws_cohorts(options) && options->attack[0];
}
static bool evaluates_clients(const Options *options) {
    return draws_cohorts(options) && options->eval_clients_every > 0;
}
static bool has_target(const Options *options) {
    return options->target_accuracy > 0;
}
static bool takes_time_of(const Options *options, unsigned kinds) {
    return draws_cohorts(options) && (kinds >> options->world.client_time & 1u);
}
static bool has_mean(const Options *options) {
    return takes_time_of(options, ~(1u << CLIENT_TIME_HALF_NORMAL | 1u << CLIENT_TIME_FILE));
}
static bool has_client_file(const Options *options) {
    return takes_time_of(options, 1u << CLIENT_TIME_FILE);
}
static bool has_deviation(const Options *options) {
    return takes_time_of(options,
                         1u << CLIENT_TIME_LOGNORMAL | 1u << CLIENT_TIME_HALF_NORMAL | 1u << CLIENT_TIME_PER_SAMPLE);
}
static bool has_minimum(const Options *options) {
    return takes_time_of(options,
                         1u << CLIENT_TIME_HALF_NORMAL | 1u << CLIENT_TIME_UNIFORM | 1u << CLIENT_TIME_PER_SAMPLE);
}

#define FIELD(member) .offset = offsetof(Options, member)

// A row reads best on few lines.
// clang-format off
const Option option_table[] = {
    {.name = "data", .type = OPTION_TEXT, FIELD(data), .group = GROUP_MODEL, .eval = true, .common = true,
     .also = "dataset data-set d",
     .placeholder = "NAME|PLACE", .preset = "fashion-mnist",
     .choices = {"fashion-mnist", "mnist", "synthetic", "quadratics", "synthetic-fedprox", "synthetic-feddyn", "synthetic-leaf", "fcube"},
     .help = "data set, or your files (help data)"},
    {.name = "model", .type = OPTION_TEXT, FIELD(model), .group = GROUP_MODEL, .eval = true, .common = true,
     .also = "net arch architecture m",
     .placeholder = "NAME|LAYERS", .preset = "lenet",
     .choices = {"lenet", "softmax", "2nn", "cnn", "cifar-cnn", "lenet5", "feddyn-cnn", "resnet8", "resnet20", "resnet18"},
     .help = "net: lenet, cnn, resnet20, ... (help models), or layers: \"conv 10 5; pool 2; relu; linear 10\""},
    {.name = "init", .type = OPTION_TEXT, FIELD(init), .group = GROUP_MODEL,
     .also = "pretrained weights init-from load start-from",
     .placeholder = "FILE", .derived = "random weights",
     .help = "begin from the weights of this safetensors file, which has PyTorch's names"},
    {.name = "seed", .type = OPTION_SEED, FIELD(seed), .group = GROUP_MODEL, .eval = true,
     .also = "random-seed",
     .placeholder = "N", .preset = "1",
     .help = "what all random numbers derive from: same seed, same options, same bits"},

    {.name = "random-crop", .type = OPTION_WHOLE, FIELD(training.augment.crop), .group = GROUP_MODEL,
     .also = "crop augment augmentation",
     .placeholder = "N", .preset = "0", .minimum = 0, .maximum = 4096,
     .help = "in training, frame an image by N black pixels and cut a window of its size out at random"},
    {.name = "random-flip", .type = OPTION_FLAG, FIELD(training.augment.flip), .group = GROUP_MODEL,
     .also = "flip horizontal-flip",
     .preset = "false",
     .help = "in training, mirror every other image"},

    {.name = "workers", .type = OPTION_WHOLE, FIELD(workers), .group = GROUP_CLIENTS, .common = true,
     .also = "w j jobs num-workers processes nproc",
     .placeholder = "N", .derived = "usable cores; on a card 1, or with MPS up to 4", .minimum = 1, .maximum = 256, .may_change = true,
     .help = "processes that train"},
    {.name = "clients", .type = OPTION_WHOLE, FIELD(clients), .group = GROUP_CLIENTS, .common = true,
     .also = "num-clients num-users n-clients",
     .placeholder = "N", .derived = "as many as workers", .minimum = 1, .maximum = 1000000,
     .help = "data subsets, each with a training of its own; on a card the default is as many as usable cores"},
    {.name = "clients-per-round", .type = OPTION_WHOLE, FIELD(clients_per_round), .group = GROUP_CLIENTS, .common = true,
     .also = "fraction-fit min-fit-clients frac fraction cohort participation sample-clients",
     .placeholder = "N", .derived = "all clients", .minimum = 1, .maximum = 1000000,
     .help = "clients that are drawn for each round"},
    {.name = "partition", .type = OPTION_TEXT, FIELD(partition), .group = GROUP_CLIENTS, .common = true,
     .also = "split iid",
     .placeholder = "FORM", .preset = "contiguous",
     .applies = is_partitioned, .condition = "--hogwild-data shard",
     .choices = {"contiguous", "iid", "dirichlet", "shards", "inner-dirichlet", "pathological", "shard", "linear", "square",
                 "exponential", "size", "distribution", "noniid-labeldir", "noniid-label", "natural-id", "grouped-natural-id", "continuous", "iid-diff-quantity", "homo",
                 "similarity", "leaf", "file:"},
     .help = "how samples are dealt (help partitions)"},
    {.name = "alpha", .type = OPTION_REAL, FIELD(alpha), .group = GROUP_CLIENTS, .common = true,
     .also = "dirichlet-alpha concentration",
     .placeholder = "X", .preset = "0.5", .minimum = 0, .above_minimum = true, .maximum = 1000000,
     .applies = is_dirichlet, .condition = "--partition dirichlet",
     .help = "Dirichlet concentration: the smaller, the fewer classes a client has"},
    {.name = "shards-per-client", .type = OPTION_WHOLE, FIELD(shards_per_client), .group = GROUP_CLIENTS,
     .placeholder = "N", .preset = "2", .minimum = 1, .maximum = 1000000,
     .applies = is_shards, .condition = "--partition shards",
     .help = "runs of label-sorted samples that each client gets"},

    {.name = "sampling", .type = OPTION_CHOICE, FIELD(world.sampling), .group = GROUP_WORLD,
     .also = "sampler selection client-selection",
     .placeholder = "HOW", .preset = "uniform",
     .applies = draws_cohorts, .condition = DRAWS_COHORTS,
     .choices = {[SAMPLING_UNIFORM] = "uniform", [SAMPLING_POISSON] = "poisson", [SAMPLING_BY_SIZE] = "by-size",
                 [SAMPLING_POWER_OF_CHOICE] = "power-of-choice", [SAMPLING_CYCLIC] = "cyclic",
                 [SAMPLING_AVAILABLE] = "available"},
     .help = "how a round's clients are drawn: so many of all, each with the same probability, by their samples, those with "
             "the largest loss among candidates, one group after the other, or of those that are there"},
    {.name = "replacement", .type = OPTION_FLAG, FIELD(world.replacement), .group = GROUP_WORLD,
     .preset = "false", .applies = samples_by_size, .condition = "--sampling by-size",
     .help = "draw by size with replacement: who is drawn twice counts twice"},
    {.name = "candidates", .type = OPTION_WHOLE, FIELD(world.candidates), .group = GROUP_WORLD,
     .placeholder = "N", .derived = "twice the clients per round", .minimum = 1, .maximum = 1000000,
     .applies = samples_by_choice, .condition = "--sampling power-of-choice",
     .help = "clients whose losses are compared before a round; they are drawn by size"},
    {.name = "cycle-shuffle", .type = OPTION_FLAG, FIELD(world.cycle_shuffle), .group = GROUP_WORLD,
     .preset = "false", .applies = samples_cyclically, .condition = "--sampling cyclic",
     .help = "deal the clients in another order in every cycle"},
    {.name = "availability", .type = OPTION_REAL, FIELD(world.availability), .group = GROUP_WORLD,
     .placeholder = "P", .preset = "1", .minimum = 0, .above_minimum = true, .maximum = 1,
     .applies = samples_available, .condition = "--sampling available",
     .help = "probability that a client is there in a round"},
    {.name = "availability-file", .type = OPTION_TEXT, FIELD(availability_file), .group = GROUP_WORLD,
     .placeholder = "FILE", .derived = "none",
     .applies = samples_available, .condition = "--sampling available",
     .help = "when clients are there, in simulated seconds: lines of a client's number, begin and end"},
    {.name = "drop-out", .type = OPTION_REAL, FIELD(world.drop_out), .group = GROUP_WORLD,
     .also = "dropout drop-rate client-dropout",
     .placeholder = "P", .preset = "0", .minimum = 0, .maximum = 1,
     .applies = draws_cohorts, .condition = DRAWS_COHORTS,
     .help = "probability that a client that was drawn never hands in"},
    {.name = "stragglers", .type = OPTION_REAL, FIELD(world.stragglers), .group = GROUP_WORLD,
     .also = "drop-percent straggler",
     .placeholder = "SHARE", .preset = "0", .minimum = 0, .maximum = 1,
     .applies = draws_cohorts, .condition = DRAWS_COHORTS,
     .help = "part of a round's clients that does not manage all local epochs"},
    {.name = "straggler-work", .type = OPTION_CHOICE, FIELD(world.straggler_work), .group = GROUP_WORLD,
     .placeholder = "WHAT", .preset = "drop",
     .applies = has_stragglers, .condition = "--stragglers above 0",
     .choices = {[STRAGGLERS_DROP] = "drop", [STRAGGLERS_PARTIAL] = "partial"},
     .help = "what becomes of a straggler: it is left out, or hands in after fewer epochs"},
    {.name = "over-selection", .type = OPTION_REAL, FIELD(world.over_selection), .group = GROUP_WORLD,
     .placeholder = "FACTOR", .preset = "1", .minimum = 1, .maximum = 1000,
     .applies = draws_fixed_size, .condition = DRAWS_FIXED_SIZE,
     .help = "draw so many times more clients than a round is to have, and keep those that hand in first"},
    {.name = "deadline", .type = OPTION_REAL, FIELD(world.deadline), .group = GROUP_WORLD,
     .placeholder = "SECONDS", .derived = "none", .minimum = 0, .above_minimum = true, .maximum = 1000000000,
     .applies = draws_cohorts, .condition = DRAWS_COHORTS,
     .help = "simulated seconds in which a client has to hand in; with fewer than half of the clients a round is lost"},
    {.name = "client-time", .type = OPTION_CHOICE, FIELD(world.client_time), .group = GROUP_WORLD,
     .placeholder = "HOW", .preset = "constant",
     .applies = draws_cohorts, .condition = DRAWS_COHORTS,
     .choices = {[CLIENT_TIME_CONSTANT] = "constant", [CLIENT_TIME_LOGNORMAL] = "lognormal",
                 [CLIENT_TIME_HALF_NORMAL] = "half-normal", [CLIENT_TIME_UNIFORM] = "uniform",
                 [CLIENT_TIME_EXPONENTIAL] = "exponential", [CLIENT_TIME_PER_SAMPLE] = "per-sample",
                 [CLIENT_TIME_FILE] = "file"},
     .help = "how a client's simulated seconds of training are drawn, once for all rounds"},
    {.name = "client-file", .type = OPTION_TEXT, FIELD(client_file), .group = GROUP_WORLD,
     .placeholder = "FILE", .derived = "none",
     .applies = has_client_file, .condition = "--client-time file",
     .help = "a line for each client: its number, microseconds a sample, bytes a second"},
    {.name = "client-time-mean", .type = OPTION_REAL, FIELD(world.time_mean), .group = GROUP_WORLD,
     .placeholder = "X", .preset = "1", .minimum = 0, .maximum = 1000000,
     .applies = has_mean, .condition = "another --client-time than half-normal or file",
     .help = "simulated seconds: the mean, with lognormal the median, with per-sample those of one sample"},
    {.name = "client-time-deviation", .type = OPTION_REAL, FIELD(world.time_deviation), .group = GROUP_WORLD,
     .placeholder = "X", .preset = "1", .minimum = 0, .maximum = 1000000,
     .applies = has_deviation, .condition = "--client-time lognormal, half-normal or per-sample",
     .help = "standard deviation of the normal number in it; with lognormal of the logarithm"},
    {.name = "client-time-minimum", .type = OPTION_REAL, FIELD(world.time_minimum), .group = GROUP_WORLD,
     .placeholder = "X", .preset = "0", .minimum = 0, .maximum = 1000000,
     .applies = has_minimum, .condition = "--client-time half-normal, uniform or per-sample",
     .help = "the least simulated seconds"},
    {.name = "client-time-noise", .type = OPTION_REAL, FIELD(world.time_noise), .group = GROUP_WORLD,
     .placeholder = "X", .preset = "0", .minimum = 0, .maximum = 100,
     .applies = draws_cohorts, .condition = DRAWS_COHORTS,
     .help = "standard deviation of the logarithm of a factor that is drawn for each client and round"},
    {.name = "down-bandwidth", .type = OPTION_REAL, FIELD(world.down_bytes_per_second), .group = GROUP_WORLD,
     .also = "bandwidth",
     .placeholder = "BYTES", .derived = "no limit", .minimum = 0, .above_minimum = true, .maximum = 1000000000000000,
     .applies = draws_cohorts, .condition = DRAWS_COHORTS,
     .help = "bytes a second in which a client receives the model"},
    {.name = "up-bandwidth", .type = OPTION_REAL, FIELD(world.up_bytes_per_second), .group = GROUP_WORLD,
     .placeholder = "BYTES", .derived = "no limit", .minimum = 0, .above_minimum = true, .maximum = 1000000000000000,
     .applies = draws_cohorts, .condition = DRAWS_COHORTS,
     .help = "bytes a second in which a client sends its update"},
    {.name = "attack", .type = OPTION_TEXT, FIELD(attack), .group = GROUP_WORLD,
     .also = "byzantine attack-type poison poisoning malicious",
     .placeholder = "NAME", .derived = "none",
     .applies = draws_cohorts, .condition = DRAWS_COHORTS,
     .choices = {"label-flip", "sign-flip", "scaled", "gaussian", "zero", "free-rider"},
     .help = "what attackers do (help attacks): label-flip, sign-flip, scaled, gaussian, zero or free-rider, and its numbers: "
             "\"sign-flip scale=3\""},
    {.name = "attackers", .type = OPTION_TEXT, FIELD(attackers), .group = GROUP_WORLD,
     .also = "num-malicious malicious-fraction byzantine-fraction num-attackers num-byzantine",
     .placeholder = "PART|LIST", .derived = "none",
     .applies = has_attack, .condition = "--attack",
     .help = "which clients attack: a part of all, drawn once, with a point (0.2), or their numbers (3,7)"},
    {.name = "client-test", .type = OPTION_REAL, FIELD(client_test), .group = GROUP_CLIENTS,
     .also = "test-split holdout validation-split",
     .placeholder = "X", .preset = "0", .minimum = 0, .maximum = 1, .below_maximum = true,
     .applies = is_partitioned, .condition = "samples that belong to clients (--hogwild-data shard, no --global-batch)",
     .help = "share of each client's samples that it does not train on, to test models on its own data"},

    {.name = "algorithm", .type = OPTION_TEXT, FIELD(algorithm), .group = GROUP_TRAINING, .common = true,
     .also = "strategy method aggregator",
     .placeholder = "NAME|PARTS", .preset = "fedavg",
     .choices = {"fedavg", "fedprox", "scaffold", "feddyn", "fednova", "fedavgm", "fedadagrad", "fedadam", "fedyogi",
                 "bmuf", "qfedavg", "median", "trimmed", "krum", "multi-krum", "bulyan", "rfa", "centered-clipping", "norm-bound",
                 "ditto", "fedper", "fedrep", "lg-fedavg", "local-only", "top-k", "random-k", "qsgd", "terngrad", "fedpaq", "ef-sgd",
                 "signsgd", "dp-fedavg", "dp-adaptive", "local-dp", "secagg", "dp-ftrl", "hogwild", "ssgd"},
     .help = "fedavg, fedprox, fedadam, hogwild, ssgd, or what `sounder help algorithms` lists"},
    {.name = "rounds", .type = OPTION_WHOLE, FIELD(rounds), .group = GROUP_TRAINING, .common = true,
     .also = "num-rounds comm-rounds communication-rounds global-epochs",
     .placeholder = "N", .preset = "3", .minimum = 1, .maximum = 1000000, .may_change = true,
     .help = "times everyone trains and the model is published"},
    {.name = "privacy-rounds", .type = OPTION_WHOLE, FIELD(privacy_rounds), .group = GROUP_TRAINING,
     .placeholder = "ROUNDS", .derived = "as many as --rounds", .minimum = 1, .maximum = 1000000,
     .applies = spends_epsilon, .condition = "epsilon=E of a release in --algorithm",
     .help = "rounds over which epsilon is spent; more than --rounds lets the run go on later"},
    {.name = "local-epochs", .type = OPTION_WHOLE, FIELD(training.local_epochs), .group = GROUP_TRAINING,
     .also = "epochs local-ep e",
     .placeholder = "N", .preset = "1", .minimum = 1, .maximum = 100000,
     .help = "passes of a client over its own samples in a round"},
    {.name = "batch-size", .type = OPTION_WHOLE, FIELD(training.batch_size), .group = GROUP_TRAINING,
     .also = "bs b local-bs",
     .placeholder = "N", .preset = "64", .minimum = 1, .maximum = 65536,
     .help = "samples in a step"},
    {.name = "global-batch", .type = OPTION_FLAG, FIELD(training.global_batch), .group = GROUP_TRAINING,
     .preset = "false", .applies = is_ssgd, .condition = "--algorithm ssgd",
     .help = "the clients share each batch of all samples, instead of one batch a client"},
    {.name = "lr", .type = OPTION_FLOAT, FIELD(training.sgd.lr), .group = GROUP_TRAINING, .common = true,
     .also = "learning-rate eta step-size",
     .placeholder = "X", .preset = "0.01", .minimum = 0, .above_minimum = true, .maximum = 1000,
     .help = "learning rate of SGD"},
    {.name = "lr-schedule", .type = OPTION_CHOICE, FIELD(training.schedule.kind), .group = GROUP_TRAINING,
     .also = "scheduler lr-scheduler schedule",
     .placeholder = "HOW", .preset = "constant",
     .choices = {[LR_CONSTANT] = "constant", [LR_STEP] = "step", [LR_EXPONENTIAL] = "exponential",
                 [LR_COSINE] = "cosine"},
     .help = "how --lr changes from round to round: not, by a factor every so many rounds, by a factor in each, or along "
             "half a wave of the cosine down to --lr-minimum"},
    {.name = "lr-step", .type = OPTION_WHOLE, FIELD(training.schedule.step), .group = GROUP_TRAINING,
     .also = "step-size-rounds milestones",
     .placeholder = "ROUNDS", .preset = "10", .minimum = 1, .maximum = 1000000,
     .applies = falls_in_steps, .condition = "--lr-schedule step",
     .help = "rounds between two falls"},
    {.name = "lr-gamma", .type = OPTION_REAL, FIELD(training.schedule.gamma), .group = GROUP_TRAINING,
     .also = "gamma lr-decay lr-decay-per-round lr-decay-factor",
     .placeholder = "X", .derived = "0.1 with step, 0.99 with exponential",
     .minimum = 0, .above_minimum = true, .maximum = 1,
     .applies = falls_by_gamma, .condition = "--lr-schedule step or exponential",
     .help = "what the learning rate is multiplied by"},
    {.name = "lr-minimum", .type = OPTION_REAL, FIELD(training.schedule.minimum), .group = GROUP_TRAINING,
     .also = "eta-min min-lr",
     .placeholder = "X", .preset = "0", .minimum = 0, .maximum = 1000,
     .applies = falls_as_cosine, .condition = "--lr-schedule cosine",
     .help = "where the cosine ends, at most --lr"},
    {.name = "lr-rounds", .type = OPTION_WHOLE, FIELD(training.schedule.rounds), .group = GROUP_TRAINING,
     .also = "t-max",
     .placeholder = "ROUNDS", .derived = "as many as --rounds", .minimum = 1, .maximum = 1000000,
     .applies = falls_as_cosine, .condition = "--lr-schedule cosine",
     .help = "rounds until the cosine ends, --warm-up and all; more than --rounds lets the run go on later"},
    {.name = "warm-up", .type = OPTION_WHOLE, FIELD(training.schedule.warm_up), .group = GROUP_TRAINING,
     .also = "warmup warmup-rounds",
     .placeholder = "ROUNDS", .preset = "0", .minimum = 0, .maximum = 1000000,
     .help = "rounds in which the learning rate rises to --lr, in equal steps; --lr-schedule begins behind them"},
    {.name = "momentum", .type = OPTION_FLOAT, FIELD(training.sgd.momentum), .group = GROUP_TRAINING,
     .placeholder = "X", .preset = "0.5", .minimum = 0, .maximum = 1, .below_maximum = true,
     .applies = steps_by_sgd, .condition = "optimizer sgd in --algorithm",
     .help = "momentum of SGD; clients start it anew in each round unless --client-optimizer-state says otherwise"},
    {.name = "weight-decay", .type = OPTION_FLOAT, FIELD(training.sgd.weight_decay), .group = GROUP_TRAINING,
     .also = "wd l2",
     .placeholder = "X", .preset = "0", .minimum = 0, .maximum = 1,
     .help = "L2 penalty that is added to the gradient; what AdamW shrinks weights by, there 0.01 unless given"},
    {.name = "clip-grad-norm", .type = OPTION_REAL, FIELD(training.clip), .group = GROUP_TRAINING,
     .also = "max-grad-norm clip-norm gradient-clip clip",
     .placeholder = "X", .preset = "0", .minimum = 0, .maximum = 1000000,
     .applies = is_not_ssgd, .condition = "another --algorithm than ssgd",
     .help = "longest gradient of a batch, over all weights: longer ones are scaled down; 0: as they are"},
    {.name = "client-optimizer-state", .type = OPTION_CHOICE, FIELD(training.optimizer_state), .group = GROUP_TRAINING,
     .placeholder = "WHICH", .preset = "fresh",
     .applies = draws_cohorts, .condition = DRAWS_COHORTS,
     .choices = {[OPTIMIZER_FRESH] = "fresh", [OPTIMIZER_KEPT] = "keep", [OPTIMIZER_AVERAGED] = "average"},
     .help = "what a client's optimizer begins each turn with: zeros, what it had at the end of its last turn, or the "
             "average of the momenta that the last round's clients ended with, weighted as their updates"},
    {.name = "hogwild-update", .type = OPTION_CHOICE, FIELD(training.hogwild_update), .group = GROUP_TRAINING,
     .placeholder = "HOW", .preset = "plain",
     .applies = is_hogwild, .condition = "--algorithm hogwild",
     .choices = {[HOGWILD_PLAIN] = "plain", [HOGWILD_ATOMIC] = "atomic"},
     .help = "how a worker writes the shared weights: plain stores may lose updates, atomic adds do not"},
    {.name = "hogwild-data", .type = OPTION_CHOICE, FIELD(hogwild_data), .group = GROUP_TRAINING,
     .placeholder = "WHICH", .preset = "full",
     .applies = is_hogwild, .condition = "--algorithm hogwild",
     .choices = {[HOGWILD_FULL] = "full", [HOGWILD_SHARD] = "shard"},
     .help = "what each Hogwild worker trains on: all samples, or its part"},
    {.name = "device", .type = OPTION_CHOICE, FIELD(device), .group = GROUP_TRAINING, .eval = true,
     .also = "cuda",
     .placeholder = "NAME", .preset = "auto", .may_change = true,
     .choices = {[DEVICE_AUTO] = "auto", [DEVICE_CPU] = "cpu", [DEVICE_CUDA] = "cuda"},
     .help = "where the arithmetic is done; auto: on a card if there is one"},
    {.name = "gpu", .type = OPTION_WHOLE, FIELD(gpu), .group = GROUP_TRAINING, .eval = true,
     .also = "gpu-id",
     .placeholder = "N", .derived = "the one LOCAL_RANK names, or the first", .minimum = 0, .maximum = 255,
     .may_change = true,
     .applies = may_use_card, .condition = "--device cuda",
     .help = "which card, as CUDA numbers them"},
    {.name = "models-per-launch", .type = OPTION_WHOLE, FIELD(models_per_launch), .group = GROUP_TRAINING,
     .placeholder = "N", .derived = "by cohort and memory", .minimum = 1, .maximum = 1024, .may_change = true,
     .applies = may_launch_many, .condition = "--device cuda and --algorithm fedavg or ssgd",
     .help = "clients that a worker trains in lockstep on the card"},
    {.name = "tf32", .type = OPTION_FLAG, FIELD(tf32), .group = GROUP_TRAINING, .eval = true,
     .derived = "false",
     .applies = may_use_card, .condition = "--device cuda",
     .help = "on the card, linear layers may round their factors to 10 bits, which is faster"},
    {.name = "mps", .type = OPTION_CHOICE, FIELD(mps), .group = GROUP_TRAINING,
     .placeholder = "HOW", .derived = "auto", .may_change = true,
     .choices = {[MPS_AUTO] = "auto", [MPS_OFF] = "off", [MPS_START] = "start"},
     .applies = may_use_card, .condition = "--device cuda",
     .help = "CUDA's Multi-Process Service, by which workers run on the card side by side instead of in turns: if it runs, "
             "never, or started for this run. It serves 48 processes (60 by newer drivers), and what goes wrong in one, or a "
             "kill in the middle of its work, can end or hang all of them: deaths are survived without it only"},

    {.name = "on-worker-death", .type = OPTION_CHOICE, FIELD(on_worker_death), .group = GROUP_FAULTS,
     .placeholder = "WHAT", .preset = "continue", .may_change = true,
     .choices = {[DEATH_CONTINUE] = "continue", [DEATH_RESPAWN] = "respawn", [DEATH_ABORT] = "abort"},
     .help = "after a worker died: go on with the others, start another, or end the run"},
    {.name = "hang-seconds", .type = OPTION_REAL, FIELD(hang_seconds), .group = GROUP_FAULTS,
     .also = "timeout",
     .placeholder = "X", .preset = "60", .minimum = 0, .maximum = 86400, .may_change = true,
     .help = "a worker without progress for so long is killed and counts as dead; 0: never"},
    {.name = "checkpoint-every", .type = OPTION_WHOLE, FIELD(checkpoint_every), .group = GROUP_FAULTS,
     .also = "save-every",
     .placeholder = "N", .preset = "1", .minimum = 0, .maximum = 1000000, .may_change = true,
     .help = "rounds between two checkpoints; 0: only at the end"},
    {.name = "resume", .type = OPTION_TEXT, FIELD(resume), .group = GROUP_FAULTS, .unsaved = true, .common = true,
     .also = "continue restart",
     .placeholder = "FOLDER", .derived = "a new run",
     .help = "continue the run in this folder from its last checkpoint, to the same bits"},

    {.name = "out", .type = OPTION_TEXT, FIELD(out), .group = GROUP_RUN, .unsaved = true, .common = true,
     .also = "output output-dir o logdir log-dir",
     .placeholder = "FOLDER", .derived = "runs/<time>-<model>",
     .help = "folder of the run: its record, model, checkpoints"},
    {.name = "eval-every", .type = OPTION_WHOLE, FIELD(eval_every), .group = GROUP_RUN,
     .also = "test-every frequency",
     .placeholder = "N", .preset = "1", .minimum = 0, .maximum = 1000000, .may_change = true,
     .help = "rounds between two tests of the global model; 0: only after the last"},
    {.name = "eval-clients-every", .type = OPTION_WHOLE, FIELD(eval_clients_every), .group = GROUP_RUN,
     .also = "eval-client",
     .placeholder = "N", .preset = "0", .minimum = 0, .maximum = 1000000, .may_change = true,
     .applies = draws_cohorts, .condition = DRAWS_COHORTS,
     .help = "rounds between two tests of the global model on every client's own samples, with quantiles over the clients; "
             "0: never"},
    {.name = "finetune-epochs", .type = OPTION_WHOLE, FIELD(finetune_epochs), .group = GROUP_RUN,
     .also = "personalization-epochs",
     .placeholder = "N", .preset = "0", .minimum = 0, .maximum = 100000, .may_change = true,
     .applies = evaluates_clients, .condition = "--eval-clients-every above 0",
     .help = "test every client also after so many epochs of its own training, which changes nothing else"},
    {.name = "inspect-updates", .type = OPTION_FLAG, FIELD(inspect_updates), .group = GROUP_RUN,
     .preset = "false", .may_change = true,
     .applies = draws_cohorts, .condition = DRAWS_COHORTS,
     .help = "note the length of every update and how much the updates of a round differ; on a card also a hash of what "
             "every client trained, for `sounder diff` and `sounder replay`, which is noted anyway on the CPU"},
    {.name = "target-accuracy", .type = OPTION_REAL, FIELD(target_accuracy), .group = GROUP_RUN,
     .also = "target",
     .placeholder = "X", .derived = "none", .minimum = 0, .above_minimum = true, .maximum = 1, .may_change = true,
     .help = "note when the test accuracy first reaches this: round, bytes, simulated seconds"},
    {.name = "stop-at-target", .type = OPTION_FLAG, FIELD(stop_at_target), .group = GROUP_RUN,
     .preset = "false", .may_change = true,
     .applies = has_target, .condition = "--target-accuracy",
     .help = "end the run there, with its model"},
    {.name = "patience", .type = OPTION_WHOLE, FIELD(patience), .group = GROUP_RUN,
     .also = "early-stopping",
     .placeholder = "N", .derived = "none", .minimum = 1, .maximum = 1000000, .may_change = true,
     .help = "end the run after so many tests in a row without a better test accuracy"},
    {.name = "trace", .type = OPTION_TEXT, FIELD(trace), .group = GROUP_RUN, .unsaved = true,
     .placeholder = "FILE", .derived = "no trace", .may_change = true,
     .help = "when every round, job, wait and exchange began and ended, for a viewer of Chrome's trace format"},
    {.name = "tensorboard", .type = OPTION_FLAG, FIELD(tensorboard), .group = GROUP_RUN,
     .also = "tb tensor-board summary-writer",
     .preset = "true", .may_change = true,
     .help = "write OUT/tensorboard/ as the run goes, for tensorboard --logdir OUT; --tensorboard=false: do not"},
    {.name = "confusion", .type = OPTION_FLAG, FIELD(confusion), .group = GROUP_RUN, .eval = true, .not_train = true,
     .unsaved = true, .preset = "false", .may_change = true,
     .help = "with sounder eval: how many samples of each class were taken for each other"},
    {.name = "predictions", .type = OPTION_TEXT, FIELD(predictions), .group = GROUP_RUN, .eval = true, .not_train = true,
     .unsaved = true, .placeholder = "FILE", .derived = "none", .may_change = true,
     .help = "with sounder eval: write each sample's class, prediction and its probability into a CSV file"},
    {.name = "json", .type = OPTION_FLAG, FIELD(json), .group = GROUP_RUN, .eval = true, .not_train = true,
     .unsaved = true, .preset = "false", .may_change = true,
     .help = "with sounder eval: print one JSON object instead of a sentence"},
    {.name = "quiet", .type = OPTION_FLAG, FIELD(quiet), .group = GROUP_RUN, .unsaved = true,
     .also = "silent q",
     .preset = "false", .may_change = true,
     .help = "print nothing but warnings and errors"},
    {.name = "log-level", .type = OPTION_CHOICE, FIELD(log_level), .group = GROUP_RUN, .eval = true, .unsaved = true,
     .also = "verbose verbosity v",
     .placeholder = "LEVEL", .preset = "warning", .may_change = true,
     .choices = {[LOG_ERROR] = "error", [LOG_WARNING] = "warning", [LOG_INFO] = "info", [LOG_DEBUG] = "debug"},
     .help = "what is worth a line on stderr"},
};
// clang-format on

const int option_count = sizeof option_table / sizeof *option_table;
const OptionTable option_train_table = {
    .rows = option_table, .count = sizeof option_table / sizeof *option_table, .command = "train"};

static_assert(sizeof option_table / sizeof *option_table <= OPTION_MAX_COUNT, "Options.given has a place for each row");

#include "option_table.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/keyed_text.h"
#include "fedavg/rules/local/optimizer_rules.h"
#include "fedavg/rules/local/personal_rules.h"
#include "fedavg/rules/world/schedule.h"
#include "fedavg/rules/world/walk.h"
#include "option_names.h"
#include "run_target.h"

const char *const option_group_titles[GROUP_COUNT] = {
    [GROUP_MODEL] = "Data and model",
    [GROUP_CLIENTS] = "Workers and clients",
    [GROUP_WORLD] = "What happens to clients",
    [GROUP_TRAINING] = "Training",
    [GROUP_FAULTS] = "Faults",
    [GROUP_RUN] = "The run and its files",
};

// Functions for the column `applies`: whether an option has an effect with the other options. The options may be
// incomplete or wrong: a text that cannot be parsed counts as the default.

static bool is_dirichlet(const Options *options) {
    return form_is(options->partition, "dirichlet") && !strstr(options->partition, "alpha=") &&
           !strchr(options->partition, ':'); // shows the mistake as it was written
}

// A single step without momentum from earlier rounds is just a gradient; only kept state gives the momentum an effect.
static bool steps_once(const Options *options, const Recipe *recipe) {
    const Traits traits = algorithm_of(recipe).traits;
    const bool buffers = traits.has[TRAIT_BUFFERS];
    const bool keeps = buffers ? traits.has[TRAIT_REPLICAS]
                               : !options_given(options, "client-optimizer-state") ||
                                     options->training.optimizer_state != OPTIMIZER_FRESH;
    return !keeps && traits.has[TRAIT_BY_STEPS] &&
           recipe->schedule.number[buffers ? BUFFERED_STEPS : ROUNDS_STEPS] == 1;
}

static bool has_momentum(const Options *options) {
    Recipe recipe;
    Error ignored;
    return options_recipe(&recipe, options, &ignored) != STATUS_OK ||
           (recipe.optimizer.row == OPTIMIZER_SGD && recipe.personal.row != PERSONAL_MOREAU &&
            !steps_once(options, &recipe));
}

static bool counts_epochs(const Options *options) {
    return !options_algorithm(options).traits.has[TRAIT_BY_STEPS];
}

static bool spends_epsilon(const Options *options) {
    Recipe recipe;
    Error ignored;
    return options_recipe(&recipe, options, &ignored) == STATUS_OK && recipe.release.row != RELEASE_EXACT &&
           !isnan(recipe.release.number[RELEASE_EPSILON]);
}

static bool adds_noise(const Options *options) {
    const Traits traits = options_algorithm(options).traits;
    return traits.has[TRAIT_RELEASES] || traits.has[TRAIT_NOISES] || traits.has[TRAIT_MASKS] ||
           (options->dp_sgd[0] && strcmp(options->dp_sgd, "none") != 0);
}

static bool is_not_ssgd(const Options *options) {
    return !options_algorithm(options).engine->in_lockstep;
}

static bool trains_in_engine(const Options *options) {
    return options->trainer[0] == 0;
}

static bool has_trainer(const Options *options) {
    return options->trainer[0] != 0;
}

static bool begins_from_file(const Options *options) {
    return options->init[0] != 0;
}

static bool has_aggregator(const Options *options) {
    return options->aggregator[0] != 0;
}

static bool has_program(const Options *options) {
    return has_trainer(options) || has_aggregator(options);
}

static bool may_use_gpu(const Options *options) {
    return options->device != DEVICE_CPU;
}

static bool may_launch_many(const Options *options) {
    return may_use_gpu(options) && !options_algorithm(options).engine->client_is_worker;
}

// The world (fedavg/rules/world/world.h) applies to clients that are drawn for a round.
#define DRAWS_COHORTS "an --algorithm with rounds (not ssgd, hogwild)"
static bool draws_cohorts(const Options *options) {
    return !options_algorithm(options).engine->whole_cohort;
}

static bool has_attack(const Options *options) {
    return draws_cohorts(options) && options->attack[0];
}

static bool evaluates_clients(const Options *options) {
    return draws_cohorts(options) && options->eval_clients_every > 0;
}

static bool fine_tunes(const Options *options) {
    return evaluates_clients(options) || (draws_cohorts(options) && options->new_clients[0]);
}

#define WEIGHS_CLASSES DRAWS_COHORTS " and nets of layers (no --trainer)"
static bool weighs_classes(const Options *options) {
    return draws_cohorts(options) && trains_in_engine(options);
}

static bool has_target(const Options *options) {
    return options->target[0] != '\0';
}

static bool has_buffer(const Options *options) {
    return options_algorithm(options).engine->buffers;
}

#define SAMPLES_OF_CLIENTS "clients that have samples of their own (hogwild with data=shard, ssgd without batch=global)"
static bool is_partitioned(const Options *options) {
    return !options_algorithm(options).traits.has[TRAIT_SHARES_SAMPLES];
}

#define DRAWS_FIXED_SIZE DRAWS_COHORTS " and another --sampling than poisson or by-size with replacement=yes"
static bool draws_fixed_size(const Options *options) {
    const World *world = &options->world;
    return draws_cohorts(options) && world->sampling != SAMPLING_POISSON && !world->replacement;
}

// The table -----------------------------------------------------------------------------------------------------------

#define FIELD(member) .offset = offsetof(Options, member)

// Each row is on as few lines as possible.
// clang-format off
const Option option_table[] = {
    {.name = "data", .type = OPTION_TEXT, FIELD(data), .group = GROUP_MODEL, .eval = true, .common = true,
     .also = "dataset data-set d",
     .placeholder = "NAME|PLACE", .preset = "fashion-mnist",
     .name_of = name_of_data,
     .help = "data set, or your files (help data)"},
    {.name = "model", .type = OPTION_TEXT, FIELD(model), .group = GROUP_MODEL, .eval = true, .common = true, .parts = true, .is_net = true,
     .also = "net arch architecture m",
     .placeholder = "NAME|LAYERS", .preset = "lenet",
     .name_of = name_of_model,
     .brief = "lenet, cnn, ... (help models), or layers",
     .applies = trains_in_engine, .condition = "nets of layers (no --trainer)",
     .help = "net: lenet, cnn, resnet20, ... (help models), layers: \"conv 10 5; pool 2; relu; linear 10\""},
    {.name = "init", .type = OPTION_TEXT, FIELD(init), .group = GROUP_MODEL,
     .also = "pretrained weights init-from load start-from",
     .placeholder = "FILE", .derived = "random weights",
     .help = "begin from the weights of this safetensors file, which has PyTorch's names (float32, float64, float16 or bfloat16); of a folder: from "
             "a run's model, or an adapter as PEFT writes it"},
    {.name = "init-partial", .type = OPTION_FLAG, FIELD(init_partial), .group = GROUP_MODEL, .added = true, .neutral = true,
     .also = "non-strict ignore-mismatched-sizes",
     .preset = "false",
     .applies = begins_from_file, .condition = "--init",
     .help = "take the tensors of --init that fit by name and shape; all others, such as a head for other classes, begin at random"},
    {.name = "freeze", .type = OPTION_TEXT, .lists = OPTION_LISTS_OR_PARTS, FIELD(freeze), .group = GROUP_MODEL,
     .also = "frozen freeze-layers fix",
     .placeholder = "TENSORS", .derived = "all tensors learn",
     .help = "do not train or send these tensors: names or patterns, such as \"conv*,fc1.weight\""},
    {.name = "trainer", .type = OPTION_TEXT, FIELD(trainer), .group = GROUP_MODEL, .eval = true, .added = true,
     .also = "client-app script entry-point train-fn training-script",
     .placeholder = "COMMAND", .derived = "nets of layers, trained by the engine",
     .brief = "your own training loop (help trainer)",
     .help = "a program of yours that trains clients and tests, as \"python3 trainer.py\" (help trainer)"},
    {.name = "trainer-option", .type = OPTION_TEXT, FIELD(trainer_option), .group = GROUP_MODEL, .eval = true, .added = true, .parts = true,
     .also = "trainer-options trainer-args",
     .placeholder = "NAME=VALUE", .derived = "none",
     .applies = has_trainer, .condition = "--trainer",
     .help = "what the trainer finds in turn.options: one or more, as \"temperature=0.1 frozen=true\""},
    {.name = "trainer-threads", .type = OPTION_WHOLE, FIELD(trainer_threads), .group = GROUP_MODEL, .eval = true, .added = true,
     .placeholder = "N", .preset = "1", .minimum = 1, .maximum = 1024,
     .applies = has_program, .condition = "--trainer or --aggregator",
     .help = "threads that each trainer computes with, and the aggregator, whatever --workers is: the bits may depend on them"},
    {.name = "trainer-start", .type = OPTION_CHOICE, FIELD(trainer_start), .group = GROUP_MODEL, .added = true, .may_change = true,
     .placeholder = "HOW", .preset = "fork",
     .choices = {[TRAINER_FORK] = "fork", [TRAINER_EACH] = "each"},
     .applies = has_trainer, .condition = "--trainer",
     .help = "fork: the program starts once, and each trainer is a fork of it, where that can be done; each: every trainer is a "
             "start of its own. The bits do not depend on it"},
    {.name = "check-trainer", .type = OPTION_FLAG, FIELD(check_trainer), .group = GROUP_MODEL, .unsaved = true, .may_change = true, .neutral = true,
     .preset = "false",
     .also = "check-aggregator",
     .applies = has_program, .condition = "--trainer or --aggregator",
     .help = "before the run, see whether a turn repeats (after others, after a test, in a fresh process) and heeds what --algorithm "
             "adds to the gradients, and whether the aggregator repeats"},
    {.name = "seed", .type = OPTION_SEED, FIELD(seed), .group = GROUP_MODEL, .eval = true, .common = true,
     .also = "random-seed",
     .placeholder = "N", .preset = "1",
     .brief = "seed of all random numbers",
     .help = "source of all random numbers: equal seed and options give equal bits"},

    {.name = "random-crop", .type = OPTION_WHOLE, FIELD(training.augment.crop), .group = GROUP_MODEL, .neutral = true,
     .also = "crop augment augmentation",
     .placeholder = "N", .preset = "0", .minimum = 0, .maximum = 4096,
     .applies = trains_in_engine, .condition = "nets of layers (no --trainer)",
     .help = "in training, pad an image with N black pixels and crop it at random to its size"},
    {.name = "random-flip", .type = OPTION_FLAG, FIELD(training.augment.flip), .group = GROUP_MODEL, .neutral = true,
     .also = "flip horizontal-flip",
     .preset = "false",
     .applies = trains_in_engine, .condition = "nets of layers (no --trainer)",
     .help = "in training, mirror each image with probability 1/2"},
    {.name = "label-smoothing", .type = OPTION_REAL, FIELD(training.label_smoothing), .group = GROUP_MODEL, .neutral = true,
     .also = "smoothing smooth-labels",
     .placeholder = "SHARE", .preset = "0", .minimum = 0, .maximum = 1,
     .applies = trains_in_engine, .condition = "nets of layers (no --trainer)",
     .help = "in training, spread this share of each label evenly over all classes"},
    {.name = "loss", .type = OPTION_CHOICE, FIELD(loss), .group = GROUP_MODEL, .eval = true, .added = true, .neutral = true,
     .also = "criterion loss-fn loss-function objective",
     .placeholder = "KIND", .preset = "auto",
     .choices = {[LOSS_AUTO] = "auto", [LOSS_BCE] = "bce"},
     .applies = trains_in_engine, .condition = "nets of layers (no --trainer)",
     .help = "auto: cross-entropy of classes, squared loss of numbers, binary cross-entropy of several labels per sample; bce: binary "
             "cross-entropy of classes, too, where each output says by itself whether a sample is of its class, as PyTorch's "
             "BCEWithLogitsLoss on one-hot labels"},
    {.name = "class-weights", .type = OPTION_TEXT, .lists = OPTION_LISTS_WHOLE, FIELD(class_weights), .group = GROUP_MODEL, .added = true,
     .also = "class-weight pos-weight loss-weights",
     .placeholder = "balanced|X,...", .derived = "every class counts one",
     .applies = weighs_classes, .condition = WEIGHS_CLASSES,
     .help = "in training, what a sample of each class counts in the loss: one number per class, or balanced, the training "
             "samples divided by the classes and the samples of the class (scikit-learn's). A step divides by the weights of its "
             "samples, as PyTorch's CrossEntropyLoss(weight) does; losses are without them, those that are shown, weigh clients (q-FFL, afl, dga) or choose ifca's model"},

    {.name = "workers", .type = OPTION_WHOLE, FIELD(workers), .group = GROUP_CLIENTS, .common = true,
     .also = "w j n jobs num-workers processes nproc nprocs np threads num-threads",
     .placeholder = "N", .derived = "usable cores; on a GPU 1, or with MPS up to 4", .minimum = 1, .maximum = 256, .may_change = true,
     .help = "processes that train"},
    {.name = "clients", .type = OPTION_WHOLE, FIELD(clients), .group = GROUP_CLIENTS, .common = true,
     .also = "num-clients num-users n-clients",
     .placeholder = "N", .derived = "as many as workers, or as the data has users", .minimum = 1, .maximum = 1000000,
     .brief = "data subsets, each trained on its own",
     .help = "data subsets, each with a training of its own; on a GPU the default is the number of usable cores"},
    {.name = "clients-per-round", .type = OPTION_WHOLE, FIELD(clients_per_round), .group = GROUP_CLIENTS, .common = true,
     .also = "fraction-fit min-fit-clients frac fraction cohort participation sample-clients",
     .placeholder = "N", .derived = "all clients", .minimum = 1, .maximum = 1000000,
     .help = "clients drawn for each round"},
    {.name = "cohort-schedule", .type = OPTION_FORM, FIELD(cohort_schedule), .form = &cohort_schedule_form, .group = GROUP_CLIENTS, .added = true, .neutral = true,
     .also = "cohort-growth participation-schedule clients-schedule",
     .placeholder = "FORM", .derived = "constant",
     .applies = draws_cohorts, .condition = DRAWS_COHORTS,
     .help = "how the number of clients drawn grows from round to round"},
    {.name = "client-weights", .type = OPTION_TEXT, .lists = OPTION_LISTS_WHOLE, FIELD(client_weights), .group = GROUP_CLIENTS, .added = true,
     .also = "weighting weights aggregation-weights",
     .placeholder = "X,...|file:FILE", .derived = "what the algorithm says, mostly samples",
     .applies = draws_cohorts, .condition = DRAWS_COHORTS,
     .help = "what each client counts in the mean, in place of its samples: a number above 0 for each, or a file of lines \"CLIENT WEIGHT\". "
             "A round's shares are these weights divided by their sum over the clients that arrive"},
    {.name = "partition", .type = OPTION_TEXT, FIELD(partition), .group = GROUP_CLIENTS, .common = true,
     .also = "split iid",
     .placeholder = "FORM", .preset = "contiguous",
     .applies = is_partitioned, .condition = SAMPLES_OF_CLIENTS,
     .choices = {"file:"}, .name_of = name_of_partition,
     .brief = "who gets which samples (help partitions)",
     .help = "how samples are divided among clients (help partitions)"},
    {.name = "alpha", .type = OPTION_REAL, FIELD(alpha), .group = GROUP_CLIENTS, .common = true,
     .also = "dirichlet-alpha concentration",
     .placeholder = "X", .preset = "0.5", .minimum = 0, .above_minimum = true, .maximum = 1000000,
     .applies = is_dirichlet, .condition = "--partition dirichlet",
     .brief = "of dirichlet; small: few classes per client",
     .help = "Dirichlet concentration: smaller values give a client fewer classes; alone it means --partition dirichlet"},

    {.name = "sampling", .type = OPTION_FORM, FIELD(sampling), .form = &sampling_form, .group = GROUP_WORLD, .neutral = true,
     .also = "sampler selection client-selection",
     .placeholder = "FORM", .preset = "uniform",
     .applies = draws_cohorts, .condition = DRAWS_COHORTS,
     .help = "how a round's clients are drawn"},
    {.name = "drop-out", .type = OPTION_REAL, FIELD(world.drop_out), .group = GROUP_WORLD, .neutral = true,
     .also = "dropout drop-rate client-dropout",
     .placeholder = "P", .preset = "0", .minimum = 0, .maximum = 1,
     .applies = draws_cohorts, .condition = DRAWS_COHORTS,
     .help = "probability that a drawn client never sends its update"},
    {.name = "without", .type = OPTION_TEXT, .lists = OPTION_LISTS_OR_PARTS, FIELD(without), .group = GROUP_WORLD, .added = true,
     .also = "exclude exclude-clients leave-out unlearn forget",
     .placeholder = "LIST", .derived = "all may arrive",
     .applies = draws_cohorts, .condition = DRAWS_COHORTS,
     .help = "these clients never arrive (3,7 or 3-7; all: the model stays as it begins): where one is drawn, its place stays empty. Their samples are in no step, weight of "
             "a class, or test of clients (sounder eval tests the model on them), and rules count the others alone. All other "
             "draws are those of the run with them, and so are all bits up to the first round in which one of them is drawn, unless a rule "
             "counts clients (scaffold, feddyn, easgd, a release) or adds noise, which is another one in each run. The scaling of --data and the draw of --validation are by all samples, "
             "also theirs (`sounder worth`)"},
    {.name = "stragglers", .type = OPTION_FORM, FIELD(stragglers), .form = &stragglers_form, .group = GROUP_WORLD, .neutral = true,
     .also = "drop-percent straggler",
     .placeholder = "FORM", .preset = "0",
     .applies = draws_cohorts, .condition = DRAWS_COHORTS,
     .help = "share of a round's clients that cannot finish all local epochs, and what happens to their updates"},
    {.name = "failures", .type = OPTION_FORM, FIELD(failures), .form = &failures_form, .group = GROUP_WORLD, .added = true, .neutral = true,
     .also = "mtbf faults fault-rate node-failures churn preemption",
     .placeholder = "FORM", .derived = "none",
     .applies = draws_cohorts, .condition = DRAWS_COHORTS,
     .help = "when clients fail on the simulated clock, from the seed: one that fails does not hand in, and one that is down is not asked; "
             "rounds tell the goodput, the part of all clients' seconds in which they did work that counts"},
    {.name = "over-selection", .type = OPTION_REAL, FIELD(world.over_selection), .group = GROUP_WORLD, .neutral = true,
     .placeholder = "FACTOR", .preset = "1", .minimum = 1, .maximum = 1000,
     .applies = draws_fixed_size, .condition = DRAWS_FIXED_SIZE,
     .help = "draw this many times the clients of a round, and keep the updates that arrive first"},
    {.name = "deadline", .type = OPTION_REAL, FIELD(world.deadline), .group = GROUP_WORLD,
     .placeholder = "SECONDS", .derived = "none", .minimum = 0, .above_minimum = true, .maximum = 1000000000,
     .applies = draws_cohorts, .condition = DRAWS_COHORTS,
     .help = "simulated seconds within which a client must send its update; with fewer than half of the clients a round is lost"},
    {.name = "client-time", .type = OPTION_FORM, FIELD(client_time), .form = &client_time_form, .group = GROUP_WORLD, .neutral = true,
     .placeholder = "FORM", .preset = "constant",
     .applies = draws_cohorts, .condition = DRAWS_COHORTS,
     .help = "how a client's simulated seconds of training are drawn, once for all rounds"},
    {.name = "clock", .type = OPTION_TEXT, FIELD(clock), .group = GROUP_WORLD, .neutral = true,
     .placeholder = "CLOCK", .preset = "simulated", .choices = {"simulated", "real", "replay:"},
     .applies = has_buffer, .condition = "--algorithm fedbuff or another with schedule buffered",
     .help = "when updates arrive: simulated, by --client-time; real: when workers finish them (the bits depend on the machine, "
             "and the run cannot be resumed); replay:FILE: as in schedule.csv of another run, with the bits of that run"},
    {.name = "down-bandwidth", .type = OPTION_REAL, FIELD(world.down_bytes_per_second), .group = GROUP_WORLD,
     .also = "bandwidth",
     .placeholder = "BYTES", .derived = "no limit", .minimum = 0, .above_minimum = true, .maximum = 1000000000000000,
     .applies = draws_cohorts, .condition = DRAWS_COHORTS,
     .help = "bytes per second at which a client receives the model"},
    {.name = "up-bandwidth", .type = OPTION_REAL, FIELD(world.up_bytes_per_second), .group = GROUP_WORLD,
     .placeholder = "BYTES", .derived = "no limit", .minimum = 0, .above_minimum = true, .maximum = 1000000000000000,
     .applies = draws_cohorts, .condition = DRAWS_COHORTS,
     .help = "bytes per second at which a client sends its update"},
    {.name = "client-noise", .type = OPTION_TEXT, FIELD(client_noise), .group = GROUP_WORLD,
     .also = "feature-noise noise-level noise",
     .placeholder = "NAME", .derived = "none",
     .applies = draws_cohorts, .condition = DRAWS_COHORTS,
     .name_of = name_of_noise,
     .help = "each client's samples get noise of their own: gaussian or block, and its deviation (help partitions): "
             "\"gaussian sigma=0.1\""},
    {.name = "drift", .type = OPTION_TEXT, FIELD(drift), .group = GROUP_WORLD,
     .also = "concept-drift distribution-shift",
     .placeholder = "NAME", .derived = "none",
     .applies = draws_cohorts, .condition = DRAWS_COHORTS,
     .name_of = name_of_drift,
     .help = "concept drift: changes the clients' samples from a round on (help partitions): labels, classes or pixels, and numbers: "
             "\"labels round=20\""},
    {.name = "attack", .type = OPTION_TEXT, FIELD(attack), .group = GROUP_WORLD,
     .also = "byzantine attack-type poison poisoning malicious",
     .placeholder = "NAME", .derived = "none",
     .applies = draws_cohorts, .condition = DRAWS_COHORTS,
     .name_of = name_of_attack,
     .help = "what attackers do, and its numbers: \"sign-flip scale=3\" (help attacks: wrong labels, a changed update, or one "
             "crafted from the updates of all others)"},
    {.name = "attackers", .type = OPTION_TEXT, .lists = OPTION_LISTS_OR_PARTS, FIELD(attackers), .group = GROUP_WORLD,
     .also = "num-malicious malicious-fraction byzantine-fraction num-attackers num-byzantine",
     .placeholder = "PART|LIST", .derived = "none",
     .applies = has_attack, .condition = "--attack",
     .help = "which clients attack: a share of all, drawn once, with a decimal point (0.2), or their numbers (3,7)"},
    {.name = "client-test", .type = OPTION_REAL, FIELD(client_test), .group = GROUP_CLIENTS, .neutral = true,
     .also = "test-split holdout",
     .placeholder = "X", .preset = "0", .minimum = 0, .maximum = 1, .below_maximum = true,
     .applies = is_partitioned, .condition = SAMPLES_OF_CLIENTS,
     .help = "share of each client's samples that is held out of training, to test models on its own data; replaces the "
             "test samples that the data set has for the client's users"},
    {.name = "new-clients", .type = OPTION_TEXT, FIELD(new_clients), .group = GROUP_CLIENTS, .added = true,
     .also = "unseen-clients unseen held-out-clients num-new-clients",
     .placeholder = "PART|LIST", .derived = "none",
     .applies = draws_cohorts, .condition = DRAWS_COHORTS,
     .help = "clients that are never drawn: a share of all, chosen once, with a decimal point (0.2), or their numbers (3,7 or 3-7). With each "
             "test of the global model they are tested, too, on their own samples (--client-test), and with --finetune-epochs once more "
             "after that training; the other clients' tests are without them"},
    {.name = "validation", .type = OPTION_REAL, FIELD(validation), .group = GROUP_CLIENTS, .added = true,
     .also = "val validation-split val-split val-ratio validation-fraction",
     .placeholder = "X", .preset = "0", .minimum = 0, .maximum = 1, .below_maximum = true,
     .help = "share of the training samples (of each class) that belongs to no client: every round is tested on it, and --patience, "
             "--target, the best model and a sweep's halving go by it; the test set is used once, at the end. A data set with "
             "x_validation has its own"},

    {.name = "algorithm", .type = OPTION_TEXT, FIELD(algorithm), .group = GROUP_TRAINING, .common = true, .parts = true,
     .also = "strategy method",
     .placeholder = "NAME|PARTS", .preset = "fedavg",
     .name_of = name_of_algorithm,
     .brief = "fedavg, hogwild, ... (help algorithms)",
     .help = "fedavg, fedprox, fedadam, hogwild, ssgd, or another from `sounder help algorithms`"},
    {.name = "aggregator", .type = OPTION_TEXT, FIELD(aggregator), .group = GROUP_TRAINING, .added = true,
     .also = "server-app aggregate aggregation aggregate-fn aggregation-fn",
     .placeholder = "COMMAND", .derived = "as --algorithm says",
     .help = "a program of yours that combines the updates of a round, as \"python3 aggregator.py\" (help aggregator)"},
    {.name = "aggregator-option", .type = OPTION_TEXT, FIELD(aggregator_option), .group = GROUP_TRAINING, .added = true, .parts = true,
     .also = "aggregator-options aggregator-args",
     .placeholder = "NAME=VALUE", .derived = "none",
     .applies = has_aggregator, .condition = "--aggregator",
     .help = "what the aggregator finds in turn.options: one or more, as \"trim=0.1 warm=true\""},
    {.name = "aggregator-keeps", .type = OPTION_WHOLE, FIELD(aggregator_keeps), .group = GROUP_TRAINING, .added = true, .neutral = true,
     .placeholder = "K", .preset = "0", .minimum = 0, .maximum = 64,
     .applies = has_aggregator, .condition = "--aggregator",
     .help = "vectors, of the model's size, that the aggregator remembers from round to round and checkpoints have"},
    {.name = "rounds", .type = OPTION_WHOLE, FIELD(rounds), .group = GROUP_TRAINING, .common = true,
     .also = "num-rounds comm-rounds communication-rounds global-epochs",
     .placeholder = "N", .preset = "3", .minimum = 1, .maximum = 1000000, .may_change = true,
     .help = "rounds of training"},
    {.name = "privacy-rounds", .type = OPTION_WHOLE, FIELD(privacy_rounds), .group = GROUP_TRAINING,
     .placeholder = "ROUNDS", .derived = "as many as --rounds", .minimum = 1, .maximum = 1000000,
     .applies = spends_epsilon, .condition = "epsilon=E of a release in --algorithm",
     .help = "rounds for which epsilon must last; more than --rounds lets the run continue later"},
    {.name = "local-epochs", .type = OPTION_WHOLE, FIELD(training.local_epochs), .group = GROUP_TRAINING, .common = true,
     .also = "epochs local-ep e",
     .placeholder = "N", .preset = "1", .minimum = 1, .maximum = 100000,
     .applies = counts_epochs, .condition = "rounds that are counted in epochs, not in the steps= of --algorithm",
     .brief = "passes over a client's samples in a round",
     .help = "passes of a client over its own samples in a round"},
    {.name = "batch-size", .type = OPTION_WHOLE, FIELD(training.batch_size), .group = GROUP_TRAINING, .common = true,
     .also = "bs b local-bs batch",
     .placeholder = "N", .preset = "64", .minimum = 1, .maximum = 65536,
     .help = "samples per step"},
    {.name = "lr", .type = OPTION_FLOAT, FIELD(training.sgd.lr), .group = GROUP_TRAINING, .common = true,
     .also = "learning-rate eta step-size",
     .placeholder = "X", .preset = "0.01", .minimum = 0, .above_minimum = true, .maximum = 1000,
     .brief = "learning rate of the clients",
     .help = "learning rate of the clients (a server's is lr= in --algorithm)"},
    {.name = "lr-schedule", .type = OPTION_FORM, FIELD(lr_schedule), .form = &lr_schedule_form, .group = GROUP_TRAINING,
     .also = "scheduler lr-scheduler schedule gamma lr-decay lr-decay-per-round lr-decay-factor step-size-rounds milestones eta-min min-lr t-max",
     .placeholder = "FORM", .preset = "constant",
     .help = "how --lr changes from round to round"},
    {.name = "warm-up", .type = OPTION_WHOLE, FIELD(training.schedule.warm_up), .group = GROUP_TRAINING,
     .also = "warmup warmup-rounds",
     .placeholder = "ROUNDS", .preset = "0", .minimum = 0, .maximum = 1000000,
     .help = "rounds in which the learning rate rises to --lr, in equal steps; --lr-schedule begins after them"},
    {.name = "momentum", .type = OPTION_FLOAT, FIELD(training.sgd.momentum), .group = GROUP_TRAINING, .common = true, .neutral = true,
     .placeholder = "X", .preset = "0", .minimum = 0, .maximum = 1, .below_maximum = true,
     .applies = has_momentum,
     .condition = "optimizer sgd in --algorithm, without personal moreau or a single step from a fresh start",
     .brief = "momentum of SGD",
     .help = "momentum of SGD; clients start it at zero in each round unless --client-optimizer-state says otherwise"},
    {.name = "weight-decay", .type = OPTION_FLOAT, FIELD(training.sgd.weight_decay), .group = GROUP_TRAINING,
     .also = "wd l2",
     .placeholder = "X", .preset = "0", .minimum = 0, .maximum = 1,
     .help = "L2 penalty added to the gradient; with AdamW the factor by which weights shrink, 0.01 unless given"},
    {.name = "clip-grad-norm", .type = OPTION_REAL, FIELD(training.clip), .group = GROUP_TRAINING, .neutral = true,
     .also = "max-grad-norm clip-norm gradient-clip clip",
     .placeholder = "X", .preset = "0", .minimum = 0, .maximum = 1000000,
     .applies = is_not_ssgd, .condition = "another --algorithm than ssgd",
     .help = "largest norm of a batch's gradient, over all weights: larger ones are scaled down; 0: no limit"},
    {.name = "dp-sgd", .type = OPTION_FORM, FIELD(dp_sgd), .form = &dp_sgd_form, .group = GROUP_TRAINING, .added = true, .neutral = true,
     .also = "dpsgd sample-privacy local-privacy opacus private per-sample-clip noise-multiplier",
     .placeholder = "FORM", .derived = "none",
     .applies = weighs_classes, .condition = WEIGHS_CLASSES,
     .help = "hide each sample of a client: a step draws each sample with the probability --batch-size / samples of the client (at "
             "most 1), clips the gradient of each, adds noise to their sum, and divides by --batch-size (or fewer samples); an epoch has as many "
             "steps as ever. Rounds tell the epsilon of the client that has spent most, between data sets in which one sample "
             "joins or leaves. It is that of the updates: the losses and tests of clients in the record are not private, and "
             "--seed tells the noise, unless --noise-key hides it. Each sample is a pass of its own: a step takes ten to fifty times as long"},
    {.name = "noise-key", .type = OPTION_TEXT, FIELD(noise_key), .group = GROUP_TRAINING, .added = true,
     .also = "secure-rng secure-mode secure-random noise-seed dp-seed",
     .placeholder = "system|HEX", .derived = "--seed, and all that makes the run", .choices = {"system"},
     .applies = adds_noise, .condition = "noise or masks (release, send noise or send masked in --algorithm, or --dp-sgd)",
     .help = "where the noise of privacy is from. By default it repeats from --seed, for papers and sweeps, and no two different "
             "runs share it. system: from 256 random bits of the system, with the draws of clients and of --dp-sgd that epsilon "
             "takes for secret, for a model that is published: they are in the checkpoints alone, the record leaves out who was "
             "drawn, and the run repeats by --resume, not by --seed. HEX: 64 digits that fix it, for tests"},
    {.name = "client-optimizer-state", .type = OPTION_CHOICE, FIELD(training.optimizer_state), .group = GROUP_TRAINING,
     .placeholder = "WHICH", .preset = "fresh",
     .applies = draws_cohorts, .condition = DRAWS_COHORTS,
     .choices = {[OPTIMIZER_FRESH] = "fresh", [OPTIMIZER_KEPT] = "keep", [OPTIMIZER_AVERAGED] = "average"},
     .help = "optimizer state at the beginning of a client's turn: fresh: zeros; keep: its state after its last turn; average: the "
             "mean of the momenta after the last round, weighted like the updates. With steps= in schedule rounds "
             "(local-sgd), and if clients train replicas (easgd), the default is keep, unless clients keep other state; "
             "with steps= in schedule buffered (downpour) it is always fresh"},
    {.name = "device", .type = OPTION_CHOICE, FIELD(device), .group = GROUP_TRAINING, .eval = true, .common = true,
     .also = "cuda",
     .placeholder = "NAME", .preset = "auto", .may_change = true,
     .choices = {[DEVICE_AUTO] = "auto", [DEVICE_CPU] = "cpu", [DEVICE_CUDA] = "cuda"},
     .brief = "auto, cpu or cuda",
     .help = "device that computes; auto: a GPU if there is one"},
    {.name = "gpu", .type = OPTION_WHOLE, FIELD(gpu), .group = GROUP_TRAINING, .eval = true,
     .also = "gpu-id",
     .placeholder = "N", .derived = "the one of the local rank, or the first", .minimum = 0, .maximum = 255,
     .may_change = true,
     .applies = may_use_gpu, .condition = "--device cuda",
     .help = "number of the GPU, as CUDA counts them"},
    {.name = "models-per-launch", .type = OPTION_WHOLE, FIELD(models_per_launch), .group = GROUP_TRAINING,
     .placeholder = "N", .derived = "by cohort and memory", .minimum = 1, .maximum = 1024, .may_change = true,
     .applies = may_launch_many, .condition = "--device cuda and another --algorithm than hogwild",
     .help = "clients that a worker trains in lockstep on the GPU"},
    {.name = "tf32", .type = OPTION_FLAG, FIELD(tf32), .group = GROUP_TRAINING, .eval = true, .neutral = true,
     .derived = "false",
     .applies = may_use_gpu, .condition = "--device cuda",
     .help = "on a GPU, linear layers may round their factors to 10 bits, which is faster"},
    {.name = "mps", .type = OPTION_CHOICE, FIELD(mps), .group = GROUP_TRAINING, .neutral = true,
     .placeholder = "HOW", .derived = "auto", .may_change = true,
     .choices = {[MPS_AUTO] = "auto", [MPS_OFF] = "off", [MPS_START] = "start"},
     .applies = may_use_gpu, .condition = "--device cuda",
     .help = "CUDA's Multi-Process Service, which runs workers on the GPU side by side instead of in turns: auto: use it if it runs; "
             "off: never; start: start it for this run. It serves 48 processes (60 with newer drivers). A fault of one process, or "
             "a kill during its work, can end or hang all of them: deaths of workers are survived only without it"},

    {.name = "on-worker-death", .type = OPTION_CHOICE, FIELD(on_worker_death), .group = GROUP_FAULTS,
     .placeholder = "WHAT", .preset = "continue", .may_change = true,
     .choices = {[DEATH_CONTINUE] = "continue", [DEATH_RESPAWN] = "respawn", [DEATH_ABORT] = "abort"},
     .help = "after a worker died: continue with the others (where there are none, with a new one), start another, or end "
             "the run"},
    {.name = "hang-seconds", .type = OPTION_REAL, FIELD(hang_seconds), .group = GROUP_FAULTS,
     .also = "timeout",
     .placeholder = "X", .preset = "60", .minimum = 0, .maximum = 86400, .may_change = true,
     .help = "after this time a worker without progress is killed and counts as dead, and a node that sends no sign of life "
             "is lost; 0: never"},
    {.name = "checkpoint-every", .type = OPTION_WHOLE, FIELD(checkpoint_every), .group = GROUP_FAULTS,
     .also = "save-every",
     .placeholder = "N", .preset = "1", .minimum = 0, .maximum = 1000000, .may_change = true,
     .help = "rounds between two checkpoints; 0: only at the end"},
    {.name = "resume", .type = OPTION_TEXT, FIELD(resume), .group = GROUP_FAULTS, .unsaved = true, .common = true,
     .also = "continue restart",
     .placeholder = "FOLDER", .derived = "a new run",
     .brief = "continue the run in this folder",
     .help = "continue the run in this folder from its last checkpoint, to the same bits"},

    {.name = "out", .type = OPTION_TEXT, FIELD(out), .group = GROUP_RUN, .unsaved = true, .common = true,
     .also = "output output-dir o logdir log-dir",
     .placeholder = "FOLDER", .derived = "runs/<time>-<model>",
     .help = "folder of the run: its record, model, checkpoints"},
    {.name = "eval-every", .type = OPTION_WHOLE, FIELD(eval_every), .group = GROUP_RUN,
     .also = "test-every frequency",
     .placeholder = "N", .preset = "1", .minimum = 0, .maximum = 1000000, .may_change = true,
     .help = "rounds between two tests of the global model and, if --algorithm is personal, of every client's own model (which "
             "takes a pass over all clients' test samples); 0: only after the last round"},
    {.name = "eval-clients-every", .type = OPTION_WHOLE, FIELD(eval_clients_every), .group = GROUP_RUN, .neutral = true,
     .also = "eval-client",
     .placeholder = "N", .preset = "0", .minimum = 0, .maximum = 1000000, .may_change = true,
     .applies = draws_cohorts, .condition = DRAWS_COHORTS,
     .help = "rounds between two tests of the global model on every client's own samples: test samples of its users, samples of "
             "--client-test, or else its training samples (help metrics). The round's line has the mean and the worst tenth of "
             "the clients, metrics.jsonl has all; 0: never"},
    {.name = "finetune-epochs", .type = OPTION_WHOLE, FIELD(finetune_epochs), .group = GROUP_RUN, .neutral = true,
     .also = "personalization-epochs",
     .placeholder = "N", .preset = "0", .minimum = 0, .maximum = 100000, .may_change = true,
     .applies = fine_tunes, .condition = "--eval-clients-every above 0, or --new-clients",
     .help = "also test every client after this many epochs of further training on its own samples; the run itself is unchanged"},
    {.name = "inspect-updates", .type = OPTION_FLAG, FIELD(inspect_updates), .group = GROUP_RUN, .neutral = true,
     .preset = "false", .may_change = true,
     .applies = draws_cohorts, .condition = DRAWS_COHORTS,
     .help = "record the norm of every update and how much the updates of a round differ; on a GPU also a hash of every "
             "client's trained weights, for `sounder diff` and `sounder replay` (on the CPU it is always recorded)"},
    {.name = "target", .type = OPTION_TEXT, FIELD(target), .group = GROUP_RUN,
     .also = "target-metric goal",
     .placeholder = "NAME=VALUE", .derived = "none", .may_change = true,
     .name_of = target_name,
     .help = "the figure that the run is about, and a value: the summary tells when a test first reaches it (round, bytes, "
             "simulated seconds). accuracy=0.8 or accuracy=80% and loss=0.5 are of the clients' own models if --algorithm "
             "trains such, else of the global one; client-accuracy, client-loss: its means over the clients; with "
             "--trainer also a metric of its tests: \"recall>0.8\" (this or more), \"perplexity<20\" (this or less)"},
    {.name = "stop-at-target", .type = OPTION_FLAG, FIELD(stop_at_target), .group = GROUP_RUN, .neutral = true,
     .preset = "false", .may_change = true,
     .applies = has_target, .condition = "--target",
     .help = "end the run at the target, with its model"},
    {.name = "until", .type = OPTION_TEXT, FIELD(until), .group = GROUP_RUN, .neutral = true,
     .also = "budget max-tokens max-seconds max-steps max-bytes time-limit",
     .placeholder = "NAME=VALUE", .derived = "none", .may_change = true,
     .help = "end the run after the whole round that reaches a number, at the latest after --rounds: tokens=1e6 (that a "
             "--trainer counts), bytes=2e9 (sent both ways), simulated-seconds=3600, joules=1e4 (of a file of --client-time "
             "with watts), or seconds=600 of each process, with which a run does not repeat; blanks separate several"},
    {.name = "patience", .type = OPTION_WHOLE, FIELD(patience), .group = GROUP_RUN,
     .also = "early-stopping",
     .placeholder = "N", .derived = "none", .minimum = 1, .maximum = 1000000, .may_change = true,
     .help = "end the run after this many tests in a row without a better figure: that of --target or --patience-by; without "
             "them test accuracy, personal accuracy if --algorithm is personal, loss if there is no accuracy"},
    {.name = "patience-by", .type = OPTION_TEXT, FIELD(patience_by), .group = GROUP_RUN,
     .also = "monitor metric-for-best-model",
     .placeholder = "FIGURE", .derived = "none", .may_change = true,
     .name_of = figure_name,
     .help = "the figure that the run is about, for --patience, best.safetensors, sweep --search halving, runs and report: "
             "accuracy, loss, balanced-accuracy, macro-f1, auc (two classes), client-accuracy, ..., and with --trainer a metric "
             "of its tests, \"recall>\" (more is better) or \"perplexity<\""},
    {.name = "trace", .type = OPTION_TEXT, FIELD(trace), .group = GROUP_RUN, .unsaved = true,
     .placeholder = "FILE", .derived = "no trace", .may_change = true,
     .help = "write begin and end of every round, job, wait and exchange, for a viewer of Chrome's trace format"},
    {.name = "measure-energy", .type = OPTION_FLAG, FIELD(measure_energy), .group = GROUP_RUN,
     .also = "rapl watts joules energy power",
     .preset = "false", .may_change = true,
     .help = "count the joules of this machine's processors and memory during the run (RAPL; on several nodes node 0's): also those "
             "that other programs use; without a counter that can be read a warning says why. Watts of the clients: --client-time file"},
    {.name = "tensorboard", .type = OPTION_FLAG, FIELD(tensorboard), .group = GROUP_RUN,
     .also = "tb tensor-board summary-writer",
     .preset = "true", .may_change = true,
     .help = "write OUT/tensorboard/ during the run, for tensorboard --logdir OUT; --tensorboard=false: do not"},
    {.name = "client", .type = OPTION_TEXT, FIELD(client), .group = GROUP_RUN, .eval = true, .not_train = true,
     .unsaved = true, .placeholder = "K|NAME", .derived = "the whole test set", .may_change = true,
     .help = "with sounder eval RUN: test the model of client number K (from 0), or of the one called NAME, its own if the algorithm trains such, else the global one, on the client's "
             "own samples, as the run does (with --json alone)"},
    {.name = "confusion", .type = OPTION_FLAG, FIELD(confusion), .group = GROUP_RUN, .eval = true, .not_train = true,
     .unsaved = true, .preset = "false", .may_change = true,
     .help = "with sounder eval: print how many samples of each class were predicted as each class; of many classes, the "
             "20 pairs that are confused most"},
    {.name = "confusion-file", .type = OPTION_TEXT, FIELD(confusion_file), .group = GROUP_RUN, .eval = true, .not_train = true,
     .unsaved = true, .placeholder = "FILE", .derived = "none", .may_change = true,
     .help = "with sounder eval: write the whole matrix of confusions to a CSV file, a row for each class"},
    {.name = "predictions", .type = OPTION_TEXT, FIELD(predictions), .group = GROUP_RUN, .eval = true, .not_train = true,
     .unsaved = true, .placeholder = "FILE", .derived = "none", .may_change = true,
     .help = "with sounder eval: write each sample's class, prediction and probability, or its target and prediction, "
             "and its client and its line in a table, to a CSV file"},
    {.name = "json", .type = OPTION_FLAG, FIELD(json), .group = GROUP_RUN, .eval = true, .not_train = true,
     .unsaved = true, .preset = "false", .may_change = true,
     .help = "with sounder eval: print one JSON object instead of a sentence"},
    {.name = "plan", .type = OPTION_FLAG, FIELD(plan), .group = GROUP_RUN, .unsaved = true,
     .also = "estimate dry-run dryrun",
     .preset = "false", .may_change = true,
     .help = "train nothing, write nothing, and print what the run would take: memory by segment and process, of the GPU, too, "
             "files, the time by one client's turn, and how many workers fit"},
    {.name = "quiet", .type = OPTION_FLAG, FIELD(quiet), .group = GROUP_RUN, .unsaved = true,
     .also = "silent q",
     .preset = "false", .may_change = true,
     .help = "print nothing but warnings and errors"},
    {.name = "log-level", .type = OPTION_CHOICE, FIELD(log_level), .group = GROUP_RUN, .eval = true, .unsaved = true,
     .also = "verbose verbosity v",
     .placeholder = "LEVEL", .preset = "warning", .may_change = true,
     .choices = {[LOG_ERROR] = "error", [LOG_WARNING] = "warning", [LOG_INFO] = "info", [LOG_DEBUG] = "debug"},
     .help = "least important messages that are printed on stderr"},
};
// clang-format on

const int option_count = sizeof option_table / sizeof *option_table;
const OptionTable option_train_table = {
    .rows = option_table, .count = sizeof option_table / sizeof *option_table, .command = "train"};

static_assert(sizeof option_table / sizeof *option_table <= OPTION_MAX_COUNT, "Options.given has a place for each row");

// Part of progress.h: the heading of a run, and its warnings of options that do not go well together.
#include "progress.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/options/run_target.h"
#include "base/log.h"
#include "base/text.h"
#include "datasets/partition/partition_stats.h"
#include "fedavg/rules/attack/attack_rules.h"
#include "fedavg/rules/world/client_list.h"
#include "nn/layers/layer.h"

// A partition may give out fewer samples than there are.
static void say_samples(Progress *progress, const Heading *heading) {
    const Dataset *data = heading->data;
    char dealt[PROGRESS_NUMBER_BYTES + 8] = "", number[PROGRESS_NUMBER_BYTES], train[PROGRESS_NUMBER_BYTES],
                                       test[PROGRESS_NUMBER_BYTES], held[PROGRESS_NUMBER_BYTES + 16] = "";
    const uint32_t validation = heading->partition->validation_count;
    char labels[128] = "";
    if (dataset_has_rows(&data->items))
        snprintf(labels, sizeof labels, ", %d labels each: binary cross-entropy", data->classes);
    else if (heading->options->loss == LOSS_BCE)
        snprintf(labels, sizeof labels, ", classes: binary cross-entropy");
    else if (dataset_has_targets(&data->items))
        snprintf(labels, sizeof labels, ", targets: squared loss");
    if (data->items.dropped > 0)
        snprintf(labels + strlen(labels), sizeof labels - strlen(labels), "; %s row%s with gaps left out",
                 with_commas(number, data->items.dropped), plural(data->items.dropped));
    if (validation > 0) snprintf(held, sizeof held, " + %s validation", with_commas(number, validation));
    if (heading->partition->samples < data->train.count - validation)
        snprintf(dealt, sizeof dealt, "%s of ", with_commas(number, heading->partition->samples));
    progress_say(progress, "%s: %s%s training%s + %s test samples%s  ->  %s\n", data->name, dealt,
                 with_commas(train, data->train.count - validation), held, with_commas(test, data->test.count), labels,
                 heading->folder);
}

// Of values that are computed before clients have their samples: they are not those of the clients that take part.
static const char *of_all_clients(const Heading *heading) {
    const bool lacks = heading->options->without[0] || heading->options->new_clients[0];
    return lacks ? ", which the data set has for all its clients" : "";
}

// A trainer takes samples as it likes.
static void say_input(Progress *progress, const Heading *heading) {
    const Dataset *data = heading->data;
    const bool are_pixels = data->items.pixel_bytes == 1, is_row = data->shape.channels * data->shape.rows == 1;
    char size[48], how[80] = "as they are", number[PROGRESS_NUMBER_BYTES];
    if (heading->options->trainer[0]) return;
    if (data->items.vocabulary > 0) {
        progress_say(progress, "texts of %d %s%s enter as numbers below %s, the vocabulary%s\n", data->shape.columns,
                     data->items.texts & DATASET_TEXTS_OF_WORDS ? "word" : "character",
                     plural((uint64_t)data->shape.columns), with_commas(number, data->items.vocabulary),
                     data->items.texts & DATASET_TEXTS_WITH_GAPS ? "; 0 is for others and for gaps in front" : "");
        return;
    }
    if (is_row && !are_pixels)
        snprintf(size, sizeof size, "%d number%s", data->shape.columns, plural((uint64_t)data->shape.columns));
    else
        snprintf(size, sizeof size, "%dx%dx%d", data->shape.channels, data->shape.rows, data->shape.columns);
    if (are_pixels && !layer_has(&heading->spec->layers[0], READS_NUMBERS)) {
        const double deviation = 1 / (255 * (double)data->scale[0]);
        if (data->shape.channels == 1)
            snprintf(how, sizeof how, "as (p / 255 - %.4g) / %.4g", -(double)data->shift[0] * deviation, deviation);
        else
            snprintf(how, sizeof how, "as (p / 255 - mean) / deviation of each channel");
    } else if (data->items.scales > 0)
        snprintf(how, sizeof how, "as (x - mean) / deviation of each %s", is_row ? "feature" : "channel");
    progress_say(progress, "samples of %s enter %s%s\n", size, how, strchr(how, '/') ? of_all_clients(heading) : "");
}

static void say_fills(Progress *progress, const Heading *heading) {
    if (heading->data->items.fills > 0)
        progress_say(progress, "gaps are filled with one value for each feature%s\n", of_all_clients(heading));
}

// The global model is tested on the whole test set, whichever clients have its samples.
static void say_own_tests(Progress *progress, const Heading *heading) {
    const Partition *partition = heading->partition;
    const uint32_t own = partition->own_offsets[partition->clients], all = heading->data->test.count;
    char number[PROGRESS_NUMBER_BYTES], whole[PROGRESS_NUMBER_BYTES + 40] = "", untested[64] = "";
    const uint32_t none = partition_untested(partition);
    if (none > 0) snprintf(untested, sizeof untested, ", %u of %u clients have none", none, partition->clients);
    if (own < all) snprintf(whole, sizeof whole, "; the global test takes all %s", with_commas(number, all));
    if (own == 0 && progress->first)
        log_warning("no client has a test sample of its own, and so none will be tested; hold training samples out "
                    "with --client-test, or take more users");
    progress_say(progress, "clients have %s test samples of their own%s%s\n", with_commas(number, own), untested,
                 whole);
}

// Samples that are held out, but used by no test, only shrink the training set. New clients without samples for a test
// are tested on those that further training has seen.
static void warn_of_tests(const Options *options, const Partition *partition) {
    const RunFigure figure = run_figure_of(options, false);
    const bool tests = options->eval_clients_every > 0 || options->new_clients[0] || run_figure_tests_clients(&figure);
    if (options->new_clients[0] && options->finetune_epochs > 0 && partition_tests_on(partition) == TESTS_ON_TRAINING)
        log_warning("--finetune-epochs %d: new clients are fine-tuned on the samples that they are tested on; give "
                    "--client-test 0.2",
                    options->finetune_epochs);
    if (options->client_test > 0 && !tests)
        log_warning("--client-test %g holds samples out on which nothing is tested; give --eval-clients-every 1, or "
                    "leave it out",
                    options->client_test);
}

// The preset partition takes samples in the order of their file, which many files have sorted by class.
static void warn_of_order(const Heading *heading) {
    const Dataset *data = heading->data;
    uint32_t fewest, most, classes;
    if (options_given(heading->options, "partition") || strcmp(heading->options->partition, "contiguous") != 0 ||
        !heading->partition->offsets || dataset_has_targets(&data->items) ||
        !partition_has_few_classes(&fewest, &most, &classes, heading->partition, data->train.labels,
                                   (uint32_t)data->classes))
        return;
    char range[32] = "";
    if (most > fewest) snprintf(range, sizeof range, " to %u", most);
    log_warning("clients have %u%s of %u classes: the samples are sorted, and each client takes the next ones; "
                "--partition iid mixes them, and --partition contiguous says that this is meant",
                fewest, range, classes);
}

// A delta of 1/clients or more would allow a mechanism that publishes one whole client.
static void say_privacy(Progress *progress, const Heading *heading) {
    const Options *options = heading->options;
    const ReleasePlan *release = &options->release;
    if (options->aggregator[0]) {
        progress_say(
            progress,
            "epsilon is not told: how far one client moves what --aggregator makes of the updates is unknown\n");
        return;
    }
    if (release->delta * options->clients >= 1 && progress->first)
        log_warning("delta=%g of --algorithm is not below one in %d, as many as there are clients: so a run may give a "
                    "client away with all its data; take a much smaller one",
                    release->delta, options->clients);
    progress_say(progress, "epsilon is told at delta %g, between federations in which one client %s\n", release->delta,
                 cohorts_neighbouring[release->mechanism.cohorts]);
}

// A delta of 1/samples or more would allow a mechanism that publishes one whole sample.
static void say_sample_privacy(Progress *progress, const Heading *heading) {
    const SamplePrivacy *privacy = &heading->options->training.privacy;
    const Partition *partition = heading->partition;
    uint32_t most = 0;
    for (uint32_t client = 0; client < (uint32_t)heading->options->clients; client++) {
        uint32_t samples;
        partition_client(partition, client, &samples);
        most = samples > most ? samples : most;
    }
    if (privacy->delta * most >= 1 && progress->first)
        log_warning("delta=%g of --dp-sgd is not below one in %u, as many samples as a client has: so a run may give a "
                    "sample away; take a much smaller one",
                    privacy->delta, most);
    progress_say(
        progress,
        "epsilon of samples is told at delta %g, between data sets in which one sample of a client joins or leaves\n",
        privacy->delta);
}

// Two runs release what they compute from one client twice, and their epsilons add up.
static void say_noise(Progress *progress, const Heading *heading) {
    const Options *options = heading->options;
    static const char publish[] = "; to publish this model, train it with --noise-key system";
    const NoiseKeyKind key = options_noise_key(options);
    if (key == NOISE_KEY_SYSTEM)
        progress_say(progress,
                     "the noise does not repeat: its key is in the checkpoints alone, which are not for others\n");
    else
        progress_say(progress, "the noise repeats from %s%s\n", key == NOISE_KEY_GIVEN ? "--noise-key" : "--seed",
                     publish);
    if (options->without[0])
        progress_say(progress,
                     "epsilons add up: this model and one of a run with the clients --without %.60s spend both\n",
                     options->without);
    if (heading->data->items.scales > 0 || heading->data->items.fills > 0)
        progress_say(progress, "no noise is on what the model notes of its samples%s%s\n",
                     heading->data->items.scales > 0 ? ": means and deviations of features" : "",
                     heading->data->items.fills == 0   ? ""
                     : heading->data->items.scales > 0 ? ", values for gaps"
                                                       : ": values for gaps");
}

// The sum of one client is its update.
static void warn_of_masks(const Options *options) {
    if (options->clients_per_round == 1 && options_algorithm(options).traits.has[TRAIT_MASKS])
        log_warning("send masked of --algorithm hides nothing from the server in rounds of one client; give --clients "
                    "2 or more, and --clients-per-round at least 2");
}

// Says which clients there are, unless the user has said how many.
static void say_clients(Progress *progress, const Heading *heading) {
    const Options *options = heading->options;
    const Partition *partition = heading->partition;
    char form[OPTION_TEXT_BYTES], least[PROGRESS_NUMBER_BYTES], range[2 * PROGRESS_NUMBER_BYTES + 8];
    uint32_t fewest = UINT32_MAX, most = 0;
    if (options_given(options, "clients") || !partition->offsets) return;
    if (options->clients == 1) {
        progress_say(progress, "1 client, as many as workers: nothing is averaged; --clients N makes a federation\n");
        return;
    }
    for (uint32_t client = 0; client < partition->clients; client++) {
        uint32_t samples;
        partition_client(partition, client, &samples);
        fewest = samples < fewest ? samples : fewest;
        most = samples > most ? samples : most;
    }
    snprintf(range, sizeof range, "%s", with_commas(least, fewest));
    if (most > fewest) text_add(range, sizeof range, " to %s", with_commas(least, most));
    const bool follow_workers = options->clients == options->workers && !strstr(options->partition, "natural-id");
    progress_say(progress, "clients%s: %s, %s samples each\n", follow_workers ? ", as many as workers" : "",
                 options_partition(form, options), range);
}

// Says which clients attack: "4" is client 4, and "0.2" a part of all.
static void say_attackers(Progress *progress, const Heading *heading) {
    const Options *options = heading->options;
    const uint32_t clients = (uint32_t)options->clients;
    uint8_t *attackers = calloc(clients, 1);
    char list[256];
    uint32_t count = 0;
    Error ignored;
    if (attackers && attack_choose(attackers, options->attackers, clients, options->seed, &ignored) == STATUS_OK) {
        for (uint32_t client = 0; client < clients; client++)
            count += attackers[client];
        const bool fits = client_list_write(list, sizeof list, attackers, clients);
        progress_say(progress, "attack %s: %u of %u clients%s%s%s\n", options->attack, count, clients, fits ? " (" : "",
                     fits ? list : "", fits ? ")" : "");
    }
    free(attackers);
}

void progress_heading(Progress *progress, const Heading *heading) {
    const Options *options = heading->options;
    char weights[PROGRESS_NUMBER_BYTES], clients[PROGRESS_NUMBER_BYTES], drawn[PROGRESS_NUMBER_BYTES];
    char nodes[32] = "", cohort[PROGRESS_NUMBER_BYTES + 8] = "";
    progress->has_heading = true;
    if (options->nodes > 1) snprintf(nodes, sizeof nodes, " on each of %d nodes", options->nodes);
    if (options->clients_per_round < options->clients)
        snprintf(cohort, sizeof cohort, "%s of ", with_commas(drawn, (uint64_t)options->clients_per_round));
    progress_say(progress, "Sounder %s: %s%s%s, %s %s weights, %d worker%s%s, %s%s client%s, %s\n", SOUNDER_VERSION,
                 options->algorithm, *heading->aggregator ? " with " : "", heading->aggregator, heading->model,
                 with_commas(weights, heading->spec->parameter_count), options->workers,
                 plural((uint64_t)options->workers), nodes, cohort, with_commas(clients, (uint64_t)options->clients),
                 plural((uint64_t)options->clients), heading->computes_with);
    if (*heading->blas) progress_say(progress, "Wide layers multiply through %s\n", heading->blas);
    say_samples(progress, heading);
    say_input(progress, heading);
    say_fills(progress, heading);
    say_clients(progress, heading);
    if (options->attack[0] && options->attackers[0]) say_attackers(progress, heading);
    if (partition_tests_on(heading->partition) == TESTS_ON_OWN) say_own_tests(progress, heading);
    const ReleasePlan *release = &heading->options->release;
    if (release->hides) say_privacy(progress, heading);
    if (release->local_noise > 0 && isfinite(release->local_epsilon))
        progress_say(progress, "epsilon of each update alone: %.3g at delta %g, by the noise that its client adds\n",
                     release->local_epsilon, release->local_delta);
    if (options->training.privacy.clip > 0) say_sample_privacy(progress, heading);
    if (options_add_noise(options)) say_noise(progress, heading);
    if (progress->first) warn_of_tests(options, heading->partition);
    if (progress->first) warn_of_masks(options);
    if (progress->first) warn_of_order(heading);
}

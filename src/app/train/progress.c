#include "progress.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "app/options/run_target.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "datasets/partition/partition_stats.h"
#include "nn/layers/layer.h"

enum { BAR_WIDTH = 20, MOST_LETTERS = 16, LINE_BYTES = 512 };

// duration of a set-up step, or of the workers' start, before a line names it
static const double start_seconds = 2;
static const double seconds_of_a_line = 600; // between permanent lines

// Numbers -------------------------------------------------------------------------------------------------------------

const char *with_commas(char *text, uint64_t number) {
    char digits[24];
    int count = snprintf(digits, sizeof digits, "%llu", (unsigned long long)number);
    char *out = text;
    for (int i = 0; i < count; i++) {
        if (i > 0 && (count - i) % 3 == 0) *out++ = ',';
        *out++ = digits[i];
    }
    *out = 0;
    return text;
}

const char *duration_text(char *text, double seconds) {
    enum { LONG = 100 }; // above this many seconds, minutes and hours are easier to read
    unsigned whole = seconds < 1e9 ? (unsigned)(seconds + 0.5) : (unsigned)1e9;
    if (whole < LONG)
        snprintf(text, PROGRESS_NUMBER_BYTES, "%u s", whole);
    else
        snprintf(text, PROGRESS_NUMBER_BYTES, "%u:%02u:%02u", whole / 3600, whole / 60 % 60, whole % 60);
    return text;
}

const char *plural(uint64_t count) {
    return count == 1 ? "" : "s";
}

// Output --------------------------------------------------------------------------------------------------------------

void progress_say(Progress *progress, const char *format, ...) {
    if (progress->quiet) return;
    if (progress->moving) fputs("\r\033[K", stderr);
    va_list arguments;
    va_start(arguments, format);
    bool written = vprintf(format, arguments) >= 0 && fflush(stdout) == 0;
    va_end(arguments);
    if (written) return;
    log_warning("standard output cannot be written any more (%s); the run goes on, what it does stands in its folder",
                strerror(errno));
    progress->quiet = true;
    if (!freopen("/dev/null", "w", stdout)) clearerr(stdout); // drops the unwritten bytes
}

void progress_init(Progress *progress, const Options *options, const Nodes *nodes) {
    bool first = nodes->rank == 0, silent = options->quiet || !first;
    // mpirun gives every process a terminal.
    bool moving = !silent && nodes->size == 1 && log_on_terminal();
    *progress = (Progress){
        .round_count = (uint32_t)options->rounds, .quiet = silent, .silent = silent, .first = first, .moving = moving};
    progress->hides_cohorts = options_hide_cohorts(options);
    progress->hides_batches = options_hide_batches(options);
}

// A partition may give out fewer samples than there are.
static void say_samples(Progress *progress, const Heading *heading) {
    const Dataset *data = heading->data;
    char dealt[PROGRESS_NUMBER_BYTES + 8] = "", number[PROGRESS_NUMBER_BYTES], train[PROGRESS_NUMBER_BYTES],
                                       test[PROGRESS_NUMBER_BYTES], held[PROGRESS_NUMBER_BYTES + 16] = "";
    const uint32_t validation = heading->partition->validation_count;
    char labels[64] = "";
    if (dataset_has_rows(&data->items))
        snprintf(labels, sizeof labels, ", %d labels each: binary cross-entropy", data->classes);
    else if (heading->options->loss == LOSS_BCE)
        snprintf(labels, sizeof labels, ", classes: binary cross-entropy");
    else if (dataset_has_targets(&data->items))
        snprintf(labels, sizeof labels, ", targets: squared loss");
    if (validation > 0) snprintf(held, sizeof held, " + %s validation", with_commas(number, validation));
    if (heading->partition->samples < data->train.count - validation)
        snprintf(dealt, sizeof dealt, "%s of ", with_commas(number, heading->partition->samples));
    progress_say(progress, "%s: %s%s training%s + %s test samples%s  ->  %s\n", data->name, dealt,
                 with_commas(train, data->train.count - validation), held, with_commas(test, data->test.count), labels,
                 heading->folder);
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
    const bool lacks = heading->options->without[0] || heading->options->new_clients[0];
    progress_say(progress, "samples of %s enter %s%s\n", size, how,
                 lacks && strchr(how, '/') ? ", which the data set has for all its clients" : "");
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
static void say_noise(Progress *progress, const Options *options) {
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
}

// The sum of one client is its update.
static void warn_of_masks(const Options *options) {
    if (options->clients_per_round == 1 && options_algorithm(options).traits.has[TRAIT_MASKS])
        log_warning("send masked of --algorithm hides nothing from the server in rounds of one client; give --clients "
                    "2 or more, and --clients-per-round at least 2");
}

void progress_heading(Progress *progress, const Heading *heading) {
    const Options *options = heading->options;
    char weights[PROGRESS_NUMBER_BYTES], clients[PROGRESS_NUMBER_BYTES], drawn[PROGRESS_NUMBER_BYTES];
    char nodes[32] = "", cohort[PROGRESS_NUMBER_BYTES + 8] = "";
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
    if (partition_tests_on(heading->partition) == TESTS_ON_OWN) say_own_tests(progress, heading);
    if (heading->options->release.hides) say_privacy(progress, heading);
    if (options->training.privacy.clip > 0) say_sample_privacy(progress, heading);
    if (options_add_noise(options)) say_noise(progress, options);
    if (progress->first) warn_of_tests(options, heading->partition);
    if (progress->first) warn_of_masks(options);
    if (progress->first) warn_of_order(heading);
}

// Before the rounds ---------------------------------------------------------------------------------------------------

static void *speak_of_step(void *context) {
    const Progress *progress = context;
    struct pollfd over = {.fd = progress->step_pipe[0], .events = POLLIN};
    if (poll(&over, 1, (int)(start_seconds * 1000)) == 0)
        fprintf(stderr, progress->moving ? "%s ...\033[K\r" : "%s ...\n", progress->step);
    return NULL;
}

void progress_step_begin(Progress *progress, const char *what) {
    if (progress->silent || pipe2(progress->step_pipe, O_CLOEXEC) != 0) return;
    progress->step = what;
    if (pthread_create(&progress->step_thread, NULL, speak_of_step, progress) == 0) return;
    progress->step = NULL;
    close(progress->step_pipe[0]);
    close(progress->step_pipe[1]);
}

void progress_step_end(Progress *progress) {
    if (!progress->step) return;
    close(progress->step_pipe[1]);
    pthread_join(progress->step_thread, NULL);
    close(progress->step_pipe[0]);
    progress->step = NULL;
}

// While a round runs --------------------------------------------------------------------------------------------------

void progress_watch(Progress *progress, const Rounds *rounds) {
    progress->rounds = rounds;
    progress->start_nanoseconds = progress->spoken_nanoseconds = clock_nanoseconds();
}

void progress_begin(Progress *progress, uint32_t round, uint64_t samples) {
    progress->round = round;
    progress->round_samples = samples;
    progress->start_progress = rounds_progress(progress->rounds);
    progress->start_nanoseconds = clock_nanoseconds();
}

static char rank_letter(const Rounds *rounds, uint32_t rank) {
    switch (rounds->phases.supervisor.workers[rank].state) {
    case WORKER_STARTING:
        return 'S';
    case WORKER_RUNNING:
        return barrier_has_arrived(&rounds->memory->control->phase, rank) ? 'B' : 'T';
    default:
        return 'D';
    }
}

// Writes one letter per rank, or, for many ranks, counts: "28 T 3 B 1 D".
static void describe_ranks(char *text, size_t bytes, const Rounds *rounds) {
    static const char letters[] = "TBSD";
    uint32_t workers = rounds->memory->config->workers, counts[sizeof letters] = {0};
    char row[MAX_WORKERS + 1] = "";
    for (uint32_t rank = 0; rank < workers; rank++) {
        row[rank] = rank_letter(rounds, rank);
        counts[strchr(letters, row[rank]) - letters]++;
    }
    snprintf(text, bytes, "%s", workers <= MOST_LETTERS ? row : "");
    for (size_t i = 0; workers > MOST_LETTERS && letters[i]; i++)
        if (counts[i]) text_add(text, bytes, "%s%u %c", *text ? " " : "", counts[i], letters[i]);
}

static int terminal_columns(void) {
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

// A trainer counts signs of life, not samples: its turns are what can be counted.
static double share_of_turns(const Queue *queue) {
    return queue->count > 0 ? 1 - (double)queue_unfinished(queue) / queue->count : 0;
}

// Returns the finished share of the round, and the seconds that remain by the last rounds, or by that share; -1:
// unknown so far. *speed: samples per second; 0: unknown.
static double share_done(double *seconds_left, double *speed, const Progress *progress) {
    const RunMemory *memory = progress->rounds->memory;
    const bool has_trainer = memory->config->trainer.command[0];
    const uint64_t done = rounds_progress(progress->rounds) - progress->start_progress;
    const double seconds = clock_seconds_since(progress->start_nanoseconds), usual = progress->usual_seconds,
                 all = (double)progress->round_samples;
    double share = has_trainer ? share_of_turns(memory->queue) : all > 0 ? (double)done / all : 0;
    if (share > 1) share = 1; // some jobs were done twice
    *seconds_left = usual > seconds ? usual - seconds : share > 0 ? seconds / share - seconds : -1;
    *speed = !has_trainer ? (double)done / seconds : usual > 0 ? all / usual : 0;
    return share;
}

static void describe_round(char line[LINE_BYTES], const Progress *progress) {
    double left, speed, share = share_done(&left, &speed, progress);
    char bar[BAR_WIDTH + 5] = "", number[PROGRESS_NUMBER_BYTES], rate[PROGRESS_NUMBER_BYTES + 16] = "",
                         time[PROGRESS_NUMBER_BYTES], eta[40] = "", ranks[300];
    if (progress->moving) {
        for (int i = 0; i < BAR_WIDTH; i++)
            bar[i + 1] = i < (int)(share * BAR_WIDTH) ? '#' : '.';
        bar[0] = '[', strcpy(bar + BAR_WIDTH + 1, "]  ");
    }
    if (left >= 0) {
        const double round_seconds = progress->usual_seconds > 0
                                         ? progress->usual_seconds
                                         : clock_seconds_since(progress->start_nanoseconds) + left;
        left += round_seconds * (progress->round_count - progress->round);
        snprintf(eta, sizeof eta, "  ETA %s", duration_text(time, left));
    }
    describe_ranks(ranks, sizeof ranks, progress->rounds);
    if (speed > 0) snprintf(rate, sizeof rate, "  %s samples/s", with_commas(number, (uint64_t)speed));
    snprintf(line, LINE_BYTES, "round %u/%u  %s%3.0f%%%s%s  ranks %s", progress->round, progress->round_count, bar,
             100 * share, rate, eta, ranks);
}

// A user who presses Ctrl-C wants to know at once that it was noticed, and what pressing it again would do.
static void answer_signal(Progress *progress) {
    const Supervisor *supervisor = &progress->rounds->phases.supervisor;
    if (progress->answered || !progress->first || supervisor->interrupts == 0) return;
    progress->answered = true;
    char name[32], time[PROGRESS_NUMBER_BYTES], about[48] = "";
    const char *clear = log_on_terminal() ? "\r\033[K" : "";
    snprintf(name, sizeof name, "SIG%s", sigabbrev_np(supervisor->last_signal));
    const char *cause = supervisor->last_signal == SIGINT ? "Ctrl-C" : name;
    if (progress->round == 0) {
        fprintf(stderr, "%s%s: ending as soon as the workers have started; again: stop now\n", clear, cause);
        return;
    }
    double left, speed;
    share_done(&left, &speed, progress);
    if (left >= 0) snprintf(about, sizeof about, ", about %s", duration_text(time, left));
    fprintf(stderr, "%s%s: finishing round %u%s; again: stop now and lose it\n", clear, cause, progress->round, about);
}

// The workers of a large model need some time to start.
static void describe_start(char line[LINE_BYTES], const Progress *progress) {
    char time[PROGRESS_NUMBER_BYTES];
    duration_text(time, clock_seconds_since(progress->start_nanoseconds));
    snprintf(line, LINE_BYTES, "starting the workers: %s", time);
}

void progress_tick(void *context) {
    Progress *progress = context;
    if (!progress->rounds) return;
    answer_signal(progress);
    if (progress->silent) return;
    bool starting = progress->round == 0;
    if (starting && clock_seconds_since(progress->start_nanoseconds) < start_seconds) return;
    bool due = clock_seconds_since(progress->spoken_nanoseconds) >= (starting ? start_seconds : seconds_of_a_line);
    if (!progress->moving && !due) return;
    char line[LINE_BYTES];
    (starting ? describe_start : describe_round)(line, progress);
    // Cuts the line to one row and puts the cursor back at its start: the next output, also of another process,
    // overwrites it.
    if (progress->moving)
        fprintf(stderr, "%.*s\033[K\r", terminal_columns() - 1, line);
    else
        fprintf(stderr, "%s\n", line);
    progress->spoken_nanoseconds = clock_nanoseconds();
}

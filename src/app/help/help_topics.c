// Part of help.h: topics that explain a command or a way of working, and `sounder help` itself.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/command.h"
#include "app/help/help.h"
#include "app/options/option_names.h"
#include "app/options/option_table.h"
#include "base/suggest.h"
#include "base/text.h"
#include "base/text_stream.h"
#include "datasets/formats/format.h"
#include "datasets/settings.h"
#include "fedavg/figures/figure.h"

static void print_examples(FILE *file, int count) {
    fputs("Examples:\n", file);
    for (int i = 0; i < count; i++)
        fprintf(file, "  %s\n", manual_examples[i]);
}

void help_print_train(FILE *file) {
    options_print_help(file);
    fputc('\n', file);
    print_examples(file, manual_example_count);
}

void help_print_train_briefly(FILE *file) {
    enum { EXAMPLES = 3 };
    fputs("Usage: sounder train [EXPERIMENT.yaml] [--OPTION VALUE ...]    (all: --help)\n", file);
    options_print_common_help(file);
    print_examples(file, EXAMPLES);
}

void help_print_plan(FILE *file) {
    static const HelpEntry lines[] = {
        {"shared memory", "segments of parent and workers, of the sizes that the run will ask for; --algorithm's rules "
                          "decide about the slots"},
        {"private memory", "of the parent and of each worker, measured after one worker had a turn"},
        {"in all", "both, beside what the machine or the control group has left, and the most workers that fit"},
        {"GPU memory", "with a GPU: the parent's and the workers' memory on it. Contexts are estimates"},
        {"files", "at most: clients' state grows to this with the clients that have had a turn"},
        {"time", "that turn's, scaled to the samples of a round and to the workers that have a core each; a busy "
                 "machine, slow disks and tests with --finetune-epochs add to it"},
    };
    print_paragraph(
        file, 0,
        "--plan prints what a run would take, and neither trains it nor writes anything. It loads the data set and has "
        "one worker train the largest client of the first round (in lockstep: make eight steps; on a GPU: one launch), "
        "and throws the result away. A run that does not fit exits with 71 (memory) or 74 (disk) and says what would. "
        "A sweep of several runs begins with one line of that kind, by a turn of its first run.");
    fputc('\n', file);
    help_print_entries(file, lines, sizeof lines / sizeof *lines);
    fputs("  sounder train --model cnn --clients 1000 --workers 8 --plan\n", file);
}

// Explains the fields of metrics.jsonl beyond their names.
static const char figures_here[] = "figures of tests"; // the place of the rows of fedavg/figures/figure.c
static const HelpEntry metric_fields[] = {
    {"start", "a process begins or resumes the run: version, host, device, XXH3 of data and partition"},
    {"  partition_file_xxh3, init_xxh3, client_time_xxh3, availability_xxh3, client_weights_xxh3, recording_xxh3",
     "XXH3 of what the files of --partition, --init, --client-time, --sampling, --client-weights and --clock say"},
    {"  figure", "the key in a round's line by which goals, sounder runs, sweep and report judge the run: that of "
                 "--target (test_metrics.NAME for a trainer's metric); else test_accuracy, personal_accuracy with "
                 "personal models, test_loss or personal_loss if targets are numbers or a trainer counts no hits"},
    {"  lower_is_better", "whether a smaller value of that metric is better"},
    {"  trainer, trainer_folder", "the command of --trainer, and where its relative paths begin"},
    {"  trainer_xxh3",
     "XXH3 over the files of the trainer: the program, and the modules that it imports from its folder"},
    {"  trainer_stays, trainer_stays_tensors, trainer_stays_floats",
     "hash of its tensors that do not travel (none: all travel), and their number; other ones end --resume, replay and "
     "eval"},
    {"  trainer_versions",
     "of Python and the libraries that it has imported; --resume, replay and eval tell of others"},
    {"  hash_seed", "PYTHONHASHSEED of the run's programs: the user's, or one that follows from --seed"},
    {"  trainer_files", "the files that the trainer itself named"},
    {"  trainer_repeats", "whether --check-trainer found that turns repeat and heed what the algorithm adds to the "
                          "gradients; null: not checked"},
    {"  tensors", "how many tensors it exchanges"},
    {"  aggregator, aggregator_folder", "the command of --aggregator, and where its relative paths begin"},
    {"  aggregator_xxh3", "XXH3 over the files that this command names"},
    {"client", "a client has trained in a round"},
    {"  share", "its weight in the mean of the round's updates"},
    {"  steps", "that its trainer made (with --trainer)"},
    {"  trainer_seconds", "of `seconds`, those in which its trainer worked (with --trainer)"},
    {"  metrics",
     "what its trainer reported by name, means over its samples; so in client_evaluation and clients_evaluation"},
    {"  visit", "how many times it had begun from this model before (schedule buffered)"},
    {"  update_length", "Euclidean length of its update; null unless --inspect-updates"},
    {"  sent_bytes", "bytes of its encoded update"},
    {"  clipped", "whether the update was longer than `send clip` allows"},
    {"  weights_xxh3", "XXH3 of its trained weights; on a GPU with --inspect-updates"},
    {"  attacks", "whether it is an attacker, whose update may differ from its training (with --attack)"},
    {"client_evaluation",
     "a model on one client's own samples: the model (global, personal, or fine-tuned by some epochs of the client's "
     "own training) and the data: the client's test samples, if the data set names their users and the partition is by "
     "users; samples that --client-test holds out; otherwise its training samples"},
    {"clients_evaluation", "figures over all clients that have such samples"},
    {"  clients_untested", "clients without such samples, which no figure of the line includes"},
    {"  clients_never_trained",
     "clients in the line that have not trained yet: their personal model is the initial one"},
    {"  loss_mean", "mean over the clients; if targets are numbers also quantiles, worst and best tenth of the losses"},
    {"  accuracy_mean", "mean over the clients; accuracy_by_samples: mean over the samples"},
    {"  accuracy_quantiles", "0, 10, 25, 50, 75, 90 and 100% of the clients, linear in between"},
    {"  accuracy_variance_percent2", "variance of the clients' accuracies, in squared percentage points"},
    {"  accuracy_worst_tenth, accuracy_best_tenth", "mean of the worst and best 10% of the clients, rounded up"},
    {"  accuracy_jain", "Jain's index of fairness, (sum a)^2 / (N sum a^2)"},
    {"trainer_fault", "a trainer did not finish a turn, which another one has done again"},
    {"  round, client, rank", "client: null for a test of the model and a training of the server's own"},
    {"  what, seconds", "what went wrong, as in the warning; how long the turn had taken"},
    {"round", "a round is done; test_loss: of the global model, of the test set"},
    {figures_here, ""},
    {"  test_metrics, train_metrics",
     "what a trainer's tests and trainings reported by name, means over the samples of all"},
    {"  validation_loss, validation_accuracy, ...", "in place of test_loss, test_accuracy, ... if rounds are tested on "
                                                    "a validation set; test_metrics are of that, too"},
    {"  train_loss", "mean over the samples trained, during training; null if no update arrived"},
    {"  trainer_restarts", "trainers that were started again (with --trainer), on this node"},
    {"  seconds_total, measured_joules_total", "so far, as `seconds` and `measured_joules` of the summary count them"},
    {"  clients_drawn, clients_trained", "size of the cohort; clients of it whose updates are in the mean"},
    {"  clients_dropped_out, clients_straggling, clients_late",
     "clients that sent no update, did not finish all epochs, were too late"},
    {"  clients_chosen", "clients that a rule such as krum picked; a client's share is then its share in the mean"},
    {"  attackers, attackers_chosen", "clients that attacked; of those in clients_chosen (with --attack)"},
    {"  clients_by_cluster",
     "with personal clusters: how many of the trained clients took each model; in clients_evaluation, of the tested "
     "ones; a client's own `cluster` is in its line. The global model's tests are of the most clients' one"},
    {"  updates, updates_waiting",
     "updates in the round's step; pending updates of this and earlier rounds for later steps"},
    {"  staleness, staleness_mean, staleness_most",
     "how many of the updates in the step were 0, 1, 2, ... versions old (63: or more), their mean, the most"},
    {"  concept", "how often the test set has changed so far (with --drift)"},
    {"  abandoned",
     "too few updates arrived, fewer than half in time, or than masks or combine need: the model is unchanged"},
    {"  simulated_seconds, down_bytes, up_bytes", "of the round, and all so far in *_total; down: to the clients"},
    {"  training_joules, link_joules",
     "of the round, and all so far in *_total, if the file of --client-time has watts: watts times the clock's seconds "
     "of training, and of the bytes on the client's links (all drawn clients receive; those that hand in, also too "
     "late, send; candidates of power-of-choice receive the model and send their loss)"},
    {"  update_length_mean, update_length_most", "of the updates that arrived"},
    {"  update_dispersion",
     "mean of the squared lengths, weighted by share, minus the squared length of the mean update"},
    {"  gradient_diversity", "the first divided by the second: 1 if all updates are equal"},
    {"  clip, updates_clipped", "bound of the updates' lengths, and how many were longer"},
    {"  noise, epsilon, delta", "noise in the sum, in clip norms; epsilon of all rounds so far at that delta (release "
                                "gaussian): null without noise, and with --aggregator"},
    {"  local_epsilon, local_delta", "privacy cost of one update of a client (send noise)"},
    {"  sample_epsilon, sample_delta",
     "spent on a sample so far, by the client that has spent most (--dp-sgd); null without noise"},
    {"  with --noise-key system",
     "who was drawn, and which samples for --dp-sgd, is secret where epsilon counts on it: lines of clients, losses of "
     "training, counts, times and bytes of cohorts are absent"},
    {"  model_xxh3, tensors_xxh3",
     "XXH3 of the new model's weights, and of each tensor; with personal clusters of all models"},
    {"summary", "the run is done; its test figures are those of the last test"},
    {"  test_accuracy_by_label", "if samples have several labels each: the share of right ones of each label; "
                                 "test_accuracy counts samples of which "
                                 "all are right"},
    {"  test_accuracy_by_class", "accuracy on the test samples of each class; null for a class without one"},
    {"  best_model_test_accuracy, ..._loss",
     "with a validation set: of best.safetensors on the test set, if that is not the final model"},
    {"  best_accuracy, best_round",
     "best of all tests, by the run's figure: best_personal_accuracy, best_loss, best_metric, ..., with a validation "
     "set best_validation_accuracy"},
    {"  rounds_to_target, ..._to_target",
     "cost until a test first reached --target; rounds_to_target_interpolated: the round at which a line between that "
     "test and the best one before reaches it"},
    {"  peak_memory_bytes",
     "of the parent; with --trainer also the private memory of the largest trainer when all rounds were done, which is "
     "what one more would cost; absent if trainers do not tell their pid (help trainer)"},
    {"  seconds",
     "from the program's start to the final model; for a resumed run the sum over its programs, each up to "
     "the checkpoint from which the next one continued; null if the record lacks one of them"},
    {"  measured_joules",
     "summed like `seconds`: of this machine's processors and memory from the start of the "
     "workers on, other programs included (--measure-energy); absent if a program did not measure"},
    {"  trainer_start", "whether trainers were forks of one program then (fork), or each a start of its own"},
};

// The rows of one help text are one entry.
static void print_figures(FILE *file) {
    char keys[4 * FIGURE_KEY_BYTES] = "", key[FIGURE_KEY_BYTES];
    const char *text = "";
    for (size_t i = 0; i <= figure_count; i++) {
        const bool begins = i == figure_count || figure_table[i].help;
        if (begins && *keys) print_entry(file, keys, text);
        if (i == figure_count) break;
        if (begins) text = figure_table[i].help, keys[0] = '\0';
        text_add(keys, sizeof keys, "%s%s", *keys ? ", " : "  ", figure_key(key, &figure_table[i], false));
    }
}

void help_print_metrics(FILE *file) {
    print_paragraph(file, 0,
                    "RUN/metrics.jsonl has one JSON object per line, of the kind named by \"type\". For one seed all "
                    "figures are equal for any number of workers; only seconds that are not simulated differ.");
    fputc('\n', file);
    for (size_t i = 0; i < sizeof metric_fields / sizeof *metric_fields; i++)
        if (metric_fields[i].left == figures_here)
            print_figures(file);
        else
            print_entry(file, metric_fields[i].left, metric_fields[i].text);
}

void help_print_launch(FILE *file) {
    fputs("Examples:\n"
          "  sounder launch -n 4 -- ./program --lr 0.1\n"
          "  sounder launch --standalone -n auto train.py\n"
          "  sounder launch -n 2 --nnodes 2 --node-rank 0 --master-addr node0 train.py\n"
          "    (rank 1 on the other)\n",
          file);
}

void help_print_nodes(FILE *file) {
    fputs("Usage: mpirun --host ONE,TWO --map-by ppr:1:node --bind-to none \\\n"
          "           sounder train [--OPTION VALUE ...]\n"
          "       srun --nodes=2 --ntasks-per-node=1 sounder train [--OPTION VALUE ...]\n\n",
          file);
    print_paragraph(file, 0,
                    "Several machines train one model, to the same bits as one: each has a parent, --workers workers "
                    "and a copy of the data set of its own. Only node 0 prints and writes. Not supported are hogwild, "
                    "whose workers need one memory, --clock real, and ssgd with --device cuda. Give all nodes the same "
                    "options; --resume works with any number of nodes.");
    fputc('\n', file);
    print_paragraph(
        file, 0,
        "When a node is lost, all others end: after --hang-seconds without a sign of life, with one sentence that "
        "names it; on several hosts mostly sooner, because mpirun (within seconds) and Slurm (after its KillWait) end "
        "a job after the death of a process, and then their message names the host. mpirun notices a broken connection "
        "only with these options, and waits forever without them:");
    fputs("  --mca oob_tcp_keepalive_time 4 --mca oob_tcp_keepalive_intvl 1\n"
          "  --mca oob_tcp_keepalive_probes 3\n\n",
          file);
    print_paragraph(file, 0,
                    "Ranks of a program of your own (`sounder help launch`) meet on one machine; on several machines "
                    "their group uses MPI: group_init with mpi://, started by mpirun.");
}

static void print_option(FILE *file, const Option *option) {
    option_print_help(file, option);
    char line[256];
    snprintf(line, sizeof line, "Only used with %s.", option->condition ? option->condition : "");
    if (option->condition) print_paragraph(file, 2, line);
    snprintf(line, sizeof line, "In an experiment file: %s: %s", option->name,
             option->placeholder ? option->placeholder : "true");
    if (!option->not_train) print_paragraph(file, 2, line);
    if (option->form) help_print_forms(file, &option->form->table);
}

void help_print_data(FILE *file) {
    print_option(file, option_find("data"));
    fputc('\n', file);
    print_paragraph(file, 0,
                    "A name is searched in $SOUNDER_DATA, the cache folder (~/.cache/sounder) and /usr/share/datasets. "
                    "Your own folder or file has one of these forms, recognised by the names in it:");
    for (uint32_t i = 0; i < dataset_format_count; i++) {
        fputc('\n', file);
        help_print_format(file, dataset_formats[i]);
    }
    fputc('\n', file);
    print_paragraph(file, 0,
                    "Settings may follow the place, in one word for the shell: --data \"iris.csv label=species\". A "
                    "value with blanks is in quotes: label='my kind'. `sounder data \"iris.csv label=species\"` shows "
                    "what each column becomes.");
    help_print_forms(file, &settings_table);
    fputc('\n', file);
    print_paragraph(file, 0,
                    "Made-up data are synthetic[:CxHxW[:TRAIN[:TEST]]] and the names in `sounder help federations`. "
                    "Data that name their users have --partition natural-id unless another is given: every client is a "
                    "user, and is tested on that user's test samples (--eval-clients-every). The loss of a target t is "
                    "shown as (y - t)^2, PyTorch's MSELoss, and a step follows the gradient of half of it, y - t: --lr "
                    "is twice that of a loop with MSELoss. Unpacked and converted data are kept in "
                    "~/.cache/sounder/unpacked for later runs.");
}

// Commands and topics ------------------------------------------------------------------------------------------------

static void print_overview(FILE *file) {
    fputs("sounder " SOUNDER_VERSION ": trains one model with many processes on one machine\n\nUsage:\n", file);
    for (const Command *command = commands; command < commands + command_count; command++) {
        if (!command->summary) continue;
        const char *arguments = command->brief ? command->brief : command->arguments ? command->arguments : "";
        char usage[128], text[1024] = "";
        snprintf(usage, sizeof usage, "sounder %s%s%s", command->name, *arguments ? " " : "", arguments);
        for (const Command *topic = commands; topic < commands + command_count; topic++)
            if (command->run == command_help && command_is_topic(topic) && !topic->is_for_programs)
                text_add(text, sizeof text, "%s, ", topic->name);
        text_add(text, sizeof text, "%s", command->summary);
        print_entry(file, usage, text);
    }
}

Status command_overview(int argc, char **argv, int *exit_code, Error *err) {
    (void)argc, (void)argv;
    return command_help(0, NULL, exit_code, err);
}

static void print_command(FILE *file, const Command *command) {
    if (command->run) fprintf(file, "Usage: sounder %s %s\n\n", command->name, command->arguments);
    for (const char *text = command->description ? command->description : ""; *text;) {
        char paragraph[2048];
        const size_t length = strcspn(text, "\n");
        snprintf(paragraph, sizeof paragraph, "%.*s", (int)length, text);
        print_paragraph(file, 0, paragraph);
        text += length + (text[length] == '\n');
    }
    if (command->options) fputc('\n', file);
    for (int i = 0; command->options && i < command->options->count; i++)
        option_print_help(file, &command->options->rows[i]);
    if (command->more && command->run) fputc('\n', file);
    if (command->more) command->more(file);
}

void help_print_entries(FILE *file, const HelpEntry *entries, size_t count) {
    for (size_t i = 0; i < count; i++)
        print_entry(file, entries[i].left, entries[i].text);
    fputc('\n', file);
}

void help_print_topics(FILE *file) {
    for (const Command *topic = commands; topic < commands + command_count; topic++)
        if (command_is_topic(topic)) fprintf(file, "%s%s", topic > commands ? " " : "", topic->name);
}

// Prints the options of this name that other commands have beside those of train. Returns whether there are any.
static bool print_own_options(FILE *file, Suggestion *suggestion, bool follows) {
    bool found = false;
    for (const Command *command = commands; command < commands + command_count; command++)
        for (int i = 0; command->options && i < command->options->count; i++) {
            const Option *option = &command->options->rows[i];
            suggestion_consider(suggestion, option->name);
            if (!option_same_name(option->name, suggestion->typed)) continue;
            fprintf(file, "%ssounder %s (help %s):\n", found || follows ? "\n" : "", command->name, command->name);
            option_print_help(file, option);
            found = true;
        }
    return found;
}

static Status print_topic(FILE *file, const char *name, Error *err) {
    char typed[64];
    snprintf(typed, sizeof typed, "%s", name + strspn(name, "-"));
    for (char *c = typed; *c; c++)
        if (*c == '_') *c = '-';
    Suggestion suggestion = {.typed = typed};
    for (const Command *topic = commands; topic < commands + command_count; topic++) {
        if (!command_is_topic(topic)) continue;
        if (strcmp(name, topic->name) == 0) {
            print_command(file, topic);
            return STATUS_OK;
        }
        suggestion_consider(&suggestion, topic->name);
    }
    const Option *option = option_find(typed);
    if (option) print_option(file, option);
    const bool is_own = print_own_options(file, &suggestion, option != NULL);
    if (help_print_name(file, &suggestion, option || is_own) || option || is_own) return STATUS_OK;
    option_suggest(&suggestion);
    char remedy[256];
    const bool is_exact = suggestion.best && suggestion.distance == 0;
    if (!is_exact && algorithm_remedy(remedy, sizeof remedy, typed))
        return fail(err, STATUS_USAGE, "help %.60s: is %s; `sounder help algorithms` explains it", name, remedy);
    return fail(err, STATUS_USAGE, "help %.60s: unknown topic; %s%s%s", name,
                suggestion.best ? "did you mean " : "`sounder help` lists them", suggestion.best ? suggestion.best : "",
                suggestion.best ? "?" : "");
}

static Status print_help(FILE *file, int argc, char **argv, Error *err) {
    if (argc == 0) {
        print_overview(file);
        return STATUS_OK;
    }
    if (argc == 2 && strcmp(argv[0], "completion") == 0) {
        if (completion_print(file, argv[1])) return STATUS_OK;
        return fail(err, STATUS_USAGE, "help completion %.60s: needs bash, zsh or fish", argv[1]);
    }
    const Command *command = command_find(argv[0]);
    if (argc == 2 && command && command->briefly && strcmp(argv[1], "-h") == 0) {
        command->briefly(file);
        return STATUS_OK;
    }
    if (argc > 1)
        return fail(err, STATUS_USAGE, "help %.60s: one topic at a time; write sounder help %.60s", argv[0],
                    argv[argc - 1]);
    return print_topic(file, argv[0], err);
}

Status command_help(int argc, char **argv, int *exit_code, Error *err) {
    (void)exit_code;
    TextStream stream;
    FILE *file = text_open(&stream);
    Status status = file ? print_help(file, argc, argv, err) : STATUS_OK;
    if (!text_close(&stream) && status == STATUS_OK) status = fail(err, STATUS_OS, "no memory for the help");
    const Command *command = argc > 0 ? command_find(argv[0]) : NULL;
    const bool is_for_people = !(command && command->is_for_programs) && isatty(STDOUT_FILENO);
    char *folded = status == STATUS_OK ? pager_fold(stream.text, is_for_people) : NULL;
    if (status == STATUS_OK && !folded) status = fail(err, STATUS_OS, "no memory for the help");
    if (status == STATUS_OK) pager_show(folded);
    free(folded);
    free(stream.text);
    return status;
}

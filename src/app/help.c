// `sounder help`: everything that explains the program, with the options taken from the one table.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/commands.h"
#include "app/help.h"
#include "app/launch/launch_options.h"
#include "app/look/look_options.h"
#include "app/options/option_table.h"
#include "base/suggest.h"
#include "base/text_stream.h"
#include "datasets/federation.h"
#include "datasets/format.h"
#include "fedavg/rules/attack_rules.h"

static void print_overview(FILE *file) {
    fputs("sounder " SOUNDER_VERSION ": trains one model with many processes on one machine\n\nUsage:\n", file);
    print_entry(file, "sounder train [EXPERIMENT.yaml] [--OPTION VALUE ...]",
                "train a model; without options: LeNet on Fashion-MNIST, 3 rounds of federated averaging");
    print_entry(file, "sounder eval MODEL.safetensors|RUN [--OPTION VALUE ...]", "loss and accuracy of a saved model");
    print_entry(file, "sounder diff RUN RUN", "where two runs part, and what was different to begin with");
    print_entry(file, "sounder partition [EXPERIMENT.yaml] [--OPTION VALUE ...]",
                "who gets which samples in such a run, as a picture and in numbers");
    print_entry(file, "sounder replay RUN --round R --client K", "train one client of one round again and compare");
    for (int i = 0; i < look_command_count; i++) {
        char usage[128];
        snprintf(usage, sizeof usage, "sounder %s %s", look_commands[i].name, look_commands[i].arguments);
        print_entry(file, usage, look_commands[i].summary);
    }
    print_entry(file, "sounder privacy --sampling-rate Q --rounds N --noise Z|--epsilon E",
                "what noise is worth in privacy, or which noise it takes");
    print_entry(file, "sounder launch [--OPTION VALUE ...] [--] PROGRAM ...",
                "start any program as N ranks that talk, as torchrun does");
    print_entry(
        file, "sounder help [TOPIC]",
        "train, eval, diff, replay, partition, privacy, runs, report, sweep, reproduce, top, launch, nodes, metrics, models, algorithms, dial, attacks, partitions, data, federations, the name "
        "of an option or of what it takes (lr, fedprox, lenet, dirichlet, krum), man (the man "
        "page as troff), "
        "completion bash, zsh or fish (a "
        "script)");
    print_entry(file, "sounder --version", "the version, and what this program was built with");
}

static void print_examples(FILE *file, int count) {
    fputs("Examples:\n", file);
    for (int i = 0; i < count; i++)
        fprintf(file, "  %s\n", manual_examples[i]);
}

static void print_train(FILE *file) {
    fputs("Usage: sounder train [EXPERIMENT.yaml] [--OPTION VALUE ...]\n\n", file);
    print_paragraph(
        file, 0,
        "Trains one model with many processes and writes it, its checkpoints and its metrics into a folder. "
        "EXPERIMENT.yaml (or -, standard input) holds options as `name: value` lines; the command line wins. "
        "Defaults in brackets.");
    fputc('\n', file);
    options_print_help(file);
    fputc('\n', file);
    print_examples(file, manual_example_count);
}

static void print_train_briefly(FILE *file) {
    enum { EXAMPLES = 3 };
    fputs("Usage: sounder train [EXPERIMENT.yaml] [--OPTION VALUE ...]    (all: --help)\n", file);
    options_print_common_help(file);
    print_examples(file, EXAMPLES);
}

static void print_eval(FILE *file) {
    fputs("Usage: sounder eval MODEL.safetensors|RUN [--OPTION VALUE ...]\n\n", file);
    print_paragraph(file, 0,
                    "Prints the loss and the accuracy of a saved model, or of a run's, on a data set's test images. "
                    "What is not given "
                    "of data, seed and model is what it was trained with.");
    fputc('\n', file);
    options_print_eval_help(file);
}

static void print_diff(FILE *file) {
    fputs("Usage: sounder diff RUN RUN\n\n", file);
    print_paragraph(
        file, 0,
        "Compares two runs' records: names the first round after which their models differ, the first client whose "
        "training does (on a card surely with --inspect-updates, otherwise if its loss shows it), the first tensor, and "
        "the options, data and machines that were different from the start. Exits with 0 if all common rounds are the same, with 1 if not.");
}

static void print_replay(FILE *file) {
    fputs("Usage: sounder replay RUN --round R --client K [--out FILE]\n\n", file);
    print_paragraph(
        file, 0,
        "Trains one client of one round again, alone on the CPU, from the model that the round began with: that of the run's last "
        "checkpoint before it, from which the rounds in between are trained again. Compares what comes out with the run's "
        "record: by its hash (of a run on a card without --inspect-updates: by its loss); another result is an error (65).");
    fputc('\n', file);
    replay_options_print_help(file);
}

// What the lines of metrics.jsonl hold beyond what their names say.
static const struct {
    const char *field, *meaning;
} metric_fields[] = {
    {"start", "a process begins the run or goes on with it: version, host, device, XXH3 of data and split"},
    {"  figure", "the key in a round's line by which goals, sounder runs, sweep and report judge the run: test_accuracy, "
                 "personal_accuracy with personal models, test_loss or personal_loss where targets are numbers"},
    {"client", "a client has trained in a round"},
    {"  share", "its weight in the mean of the round's updates"},
    {"  visit", "so many times it had begun from this model before (schedule buffered)"},
    {"  update_length", "Euclidean length of its update; null unless --inspect-updates"},
    {"  sent_bytes", "of its encoded update"},
    {"  clipped", "whether the update was longer than `send clip` allows"},
    {"  weights_xxh3", "XXH3 of what it trained; on a card with --inspect-updates"},
    {"  attacks", "whether it is an attacker; what it hands in then is not what it trained (with --attack)"},
    {"client_evaluation",
     "a model on one client's own samples: which model (global, personal, or fine-tuned by so many epochs of the "
     "client's own training) on which data: the client's test samples, where the data set says whose its test "
     "samples are and the partition deals users; those that --client-test holds out; otherwise those it trains on"},
    {"clients_evaluation", "the same over all clients that have such samples"},
    {"  clients_untested", "clients that have none and count in no figure of the line"},
    {"  clients_never_trained", "clients in the line that have had no turn yet: their personal model is that of the start"},
    {"  loss_mean", "every client counts the same; where targets are numbers also quantiles, worst and best tenth of the losses"},
    {"  accuracy_mean", "every client counts the same; accuracy_by_samples: every sample does"},
    {"  accuracy_quantiles", "0, 10, 25, 50, 75, 90 and 100% of the clients, linear in between"},
    {"  accuracy_variance_percent2", "of the clients' accuracies, in squared percentage points"},
    {"  accuracy_worst_tenth, accuracy_best_tenth", "mean of the worst and best 10% of the clients, rounded up"},
    {"  accuracy_jain", "Jain's index of fairness, (sum a)^2 / (N sum a^2)"},
    {"round", "a round is done; test_loss: of the global model, of the test set"},
    {"  test_accuracy", "share of the test samples that are right; not where targets are numbers"},
    {"  test_loss", "mean over the test samples; of targets it is (y - t)^2 / 2, half of PyTorch's MSELoss"},
    {"  test_rmse, test_r2", "where targets are numbers: root of the mean square, share of the targets' variance explained"},
    {"  personal_accuracy, personal_loss", "means over the clients of their own models on their own samples (personal rules)"},
    {"  train_loss", "mean over the samples trained, while they were trained; null if nobody arrived"},
    {"  clients_drawn, clients_trained", "in the cohort; of them those whose updates make the mean"},
    {"  clients_dropped_out, clients_straggling, clients_late",
     "who did not hand in, did not manage all epochs, came too late"},
    {"  clients_chosen", "those that a rule such as krum has picked; a client's share is then what the mean has of it"},
    {"  attack_success", "with --attack backdoor: of the marked test samples of other classes, how many are taken for its target"},
    {"  attackers, attackers_chosen", "clients that attacked; of those in clients_chosen (with --attack)"},
    {"  updates, updates_waiting", "in the round's step; those of this and earlier rounds that later steps take"},
    {"  staleness, staleness_mean, staleness_most",
     "how many of the updates in the step were 0, 1, 2, ... versions old (63: or more), their mean, the most"},
    {"  concept", "of the test set: how often it has changed so far (with --drift)"},
    {"  abandoned", "too few clients arrived, fewer than half in time or than masks need: the model stays"},
    {"  simulated_seconds, down_bytes, up_bytes", "of the round, and all so far in *_total; down: to the clients"},
    {"  update_length_mean, update_length_most", "of the updates that arrived"},
    {"  update_dispersion", "mean by share of the squared lengths, minus the squared length of the mean update"},
    {"  gradient_diversity", "the same two, divided: 1 where all updates are equal"},
    {"  clip, updates_clipped", "what updates were clipped to, and how many were longer"},
    {"  noise, epsilon, delta", "what joins the sum, in norms; what all rounds so far spend at that delta (release "
                                "gaussian): null without noise"},
    {"  local_epsilon, local_delta", "what one update of a client spends (send noise)"},
    {"  model_xxh3, tensors_xxh3", "XXH3 of the new model's weights and of each tensor's"},
    {"summary", "the run is done; its test figures are those of the last test"},
    {"  best_accuracy, best_round", "of all tests, by the run's figure: best_personal_accuracy, best_loss, best_personal_loss"},
    {"  rounds_to_target, ..._to_target",
     "what it took until a test first reached --target-accuracy; "
     "rounds_to_target_interpolated: where a line between that test and the best "
     "before it does"},
};

static void print_metrics(FILE *file) {
    print_paragraph(
        file, 0,
        "RUN/metrics.jsonl has one JSON object a line, whose \"type\" says what it tells of. One seed gives "
        "one value of each figure, whatever the workers; only seconds that are not simulated differ.");
    fputc('\n', file);
    for (size_t i = 0; i < sizeof metric_fields / sizeof *metric_fields; i++)
        print_entry(file, metric_fields[i].field, metric_fields[i].meaning);
}

static void print_partition(FILE *file) {
    fputs("Usage: sounder partition [EXPERIMENT.yaml] [--OPTION VALUE ...] [--json] [--save FILE]\n\n", file);
    print_paragraph(file, 0,
                    "Deals the training samples as sounder train would with the same options (--data, --clients, "
                    "--partition, --seed "
                    "and so on; it takes all of them, and a run's config.yaml), and shows clients by classes in "
                    "shades, sizes, and how "
                    "far the clients' label shares are from those of all: entropy (0: one class, 1: all alike), "
                    "Hellinger distance, EMD "
                    "(sum of the differences, from 0 to 2), Jensen-Shannon divergence (bits), classes of a client. The "
                    "worst is the "
                    "client furthest from the others.");
    fputc('\n', file);
    print_entry(file, "--json", "the same as one JSON object, with all counts");
    print_entry(file, "--save FILE", "write the partition to a new file, for --partition file:FILE");
}

static void print_privacy(FILE *file) {
    fputs("Usage: sounder privacy --sampling-rate Q --rounds N --noise Z|--epsilon E [--OPTION VALUE ...]\n\n", file);
    print_paragraph(file, 0,
                    "What it is worth that every round releases a sum of clipped updates with Gaussian noise, as "
                    "`release gaussian` of "
                    "--algorithm does: epsilon at --delta, by Renyi differential privacy; or the least noise for an "
                    "epsilon. It tells "
                    "an upper bound: other accountants, which take --events, are some 10% tighter.");
    print_paragraph(
        file, 0,
        "A run's noise follows from its --seed, so a model that is to be shown needs a seed that nobody knows.");
    fputc('\n', file);
    privacy_options_print_help(file);
}

static void print_launch(FILE *file) {
    fputs("Usage: sounder launch [--OPTION VALUE ...] [--] PROGRAM [ARGUMENT ...]\n\n", file);
    print_paragraph(
        file, 0,
        "Starts N ranks of a program with torchrun's options and environment variables (RANK, WORLD_SIZE, "
        "LOCAL_RANK, MASTER_ADDR, MASTER_PORT, ...; OMP_NUM_THREADS is 1 unless it is set). A PROGRAM.py "
        "and a file that can be read but not executed runs under python3 (or $PYTHON_EXEC). Each line that a "
        "rank prints is shown with its rank in front; a longer one than 64 KiB is cut into several. What you type "
        "reaches "
        "a rank that is alone, and its prompts show at once. torchrun's PET_* variables stand in for options that are not given.");
    fputc('\n', file);
    print_paragraph(
        file, 0,
        "When a rank fails, the others get SIGTERM and, after a time of grace, SIGKILL; the launcher exits "
        "with the code of the first that failed, or 128+n if signal n killed it. Ctrl-C, SIGTERM, SIGHUP and "
        "SIGQUIT are handed on, another one half a second later or more kills; SIGUSR1 and SIGUSR2 are handed on to "
        "what listens to them; Ctrl-Z stops the ranks, too. A program behind a shell (a rank that is a script) has the "
        "same time of grace. What the ranks have started ends with them, unless it has made a session of its own; "
        "kill -9 of the launcher ends the ranks alone. Rank 0 serves the store of PyTorch's "
        "process groups, and must end last. With several machines a restart is each "
        "machine's own: the ranks of the others fail when they lose their peers, and start again as well. "
        "Defaults in brackets.");
    fputc('\n', file);
    launch_options_print_help(file);
    fputs("\n"
          "Examples:\n"
          "  sounder launch -n 4 -- ./program --lr 0.1\n"
          "  sounder launch --standalone -n auto train.py\n"
          "  sounder launch -n 2 --nnodes 2 --node-rank 0 --master-addr node0 train.py\n"
          "    (rank 1 on the other)\n",
          file);
}

static void print_nodes(FILE *file) {
    fputs("Usage: mpirun --host ONE,TWO --map-by ppr:1:node --bind-to none \\\n"
          "           sounder train [--OPTION VALUE ...]\n"
          "       srun --nodes=2 --ntasks-per-node=1 sounder train [--OPTION VALUE ...]\n\n",
          file);
    print_paragraph(
        file, 0,
        "Several machines train one model, to the same bits as one: each has a parent and --workers workers of its "
        "own, "
        "and its own copy of the data set. Node 0 alone prints and writes. All algorithms do that but hogwild, whose "
        "workers need one memory; refused are also --clock real, and ssgd with --device cuda. All nodes get the same "
        "options; --resume goes on with any number of nodes.");
    fputc('\n', file);
    print_paragraph(
        file, 0,
        "When a node is lost all others end: after --hang-seconds without a sign of life with one sentence that names "
        "it, but on several hosts mostly sooner. mpirun (within seconds) and Slurm (after its KillWait) end a job of "
        "which a process has died, and then it is their message that names the host. A cut wire mpirun itself notices "
        "only with these options, and waits for ever without:");
    fputs("  --mca oob_tcp_keepalive_time 4 --mca oob_tcp_keepalive_intvl 1\n"
          "  --mca oob_tcp_keepalive_probes 3\n\n",
          file);
    print_paragraph(
        file, 0,
        "Ranks of a program of your own (`sounder help launch`) meet on one machine; on several their group "
        "goes by MPI: group_init with mpi://, started by mpirun.");
}

static void print_option(FILE *file, const Option *option) {
    option_print_help(file, option);
    char line[256];
    snprintf(line, sizeof line, "Only used with %s.", option->condition ? option->condition : "");
    if (option->condition) print_paragraph(file, 2, line);
    snprintf(line, sizeof line, "In an experiment file: %s: %s", option->name,
             option->placeholder ? option->placeholder : "true");
    print_paragraph(file, 2, line);
}

static void print_data(FILE *file) {
    look_command_print_help(file, look_command_find("data"));
    fputc('\n', file);
    print_option(file, option_find("data"));
    fputc('\n', file);
    print_paragraph(
        file, 0,
        "A name is looked for in $SOUNDER_DATA, the cache folder (~/.cache/sounder) and /usr/share/datasets. A folder or file of "
        "your own has one of these forms, told by the names in it:");
    for (uint32_t i = 0; i < dataset_format_count; i++) {
        char line[1024];
        fputc('\n', file);
        snprintf(line, sizeof line, "%s: %s", dataset_formats[i].name, dataset_formats[i].help);
        print_paragraph(file, 2, line);
    }
    fputc('\n', file);
    print_paragraph(
        file, 0,
        "Made up are synthetic[:CxHxW[:TRAIN[:TEST]]] and those that `sounder help federations` lists. Data that say whose samples "
        "are whose have --partition natural-id unless another is given: every client is a user, and is tested on that user's test "
        "samples (--eval-clients-every). The squared loss of a target t is (y - t)^2 / 2, half of PyTorch's MSELoss. What has "
        "to be unpacked or converted is kept in ~/.cache/sounder/unpacked for later runs.");
}

static void print_bash_completion(FILE *file) {
    completion_print(file, "bash");
}

static const struct {
    const char *name;
    void (*print)(FILE *file);
} topics[] = {{"train", print_train},
              {"eval", print_eval},
              {"diff", print_diff},
              {"replay", print_replay},
              {"metrics", print_metrics},
              {"launch", print_launch},
              {"nodes", print_nodes},
              {"models", help_print_models},
              {"partition", print_partition},
              {"privacy", print_privacy},
              {"partitions", help_print_partitions},
              {"data", print_data},
              {"federations", help_print_federations},
              {"algorithms", help_print_algorithms},
              {"attacks", help_print_attacks},
              {"dial", dial_print},
              {"man", manual_print},
              {"completion", print_bash_completion}};
enum { TOPICS = sizeof topics / sizeof *topics };

void help_print_topics(FILE *file) {
    for (int i = 0; i < TOPICS; i++)
        fprintf(file, "%s%s", i ? " " : "", topics[i].name);
    for (int i = 0; i < look_command_count; i++)
        if (strcmp(look_commands[i].name, "data") != 0) fprintf(file, " %s", look_commands[i].name); // a topic already
}

static Status print_topic(FILE *file, const char *name, Error *err) {
    char typed[64];
    snprintf(typed, sizeof typed, "%s", name + strspn(name, "-"));
    for (char *c = typed; *c; c++)
        if (*c == '_') *c = '-';
    Suggestion suggestion = {.typed = typed};
    for (int i = 0; i < TOPICS; i++) {
        if (strcmp(name, topics[i].name) == 0) {
            topics[i].print(file);
            return STATUS_OK;
        }
        suggestion_consider(&suggestion, topics[i].name);
    }
    const LookCommand *command = look_command_find(name);
    if (command) {
        look_command_print_help(file, command);
        return STATUS_OK;
    }
    for (int i = 0; i < look_command_count; i++)
        suggestion_consider(&suggestion, look_commands[i].name);
    const Option *option = option_find(typed);
    if (option) print_option(file, option);
    if (help_print_name(file, &suggestion, option != NULL) || option) return STATUS_OK;
    option_suggest(&suggestion);
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
    if (argc == 2 && strcmp(argv[0], "train") == 0 && strcmp(argv[1], "-h") == 0) {
        print_train_briefly(file);
        return STATUS_OK;
    }
    if (argc > 1)
        return fail(err, STATUS_USAGE, "help %.60s: one topic at a time; write sounder help %.60s", argv[0],
                    argv[argc - 1]);
    return print_topic(file, argv[0], err);
}

static bool is_for_people(int argc, char **argv) {
    const bool is_for_programs = argc > 0 && (strcmp(argv[0], "man") == 0 || strcmp(argv[0], "completion") == 0);
    return !is_for_programs && isatty(STDOUT_FILENO);
}

Status command_help(int argc, char **argv, Error *err) {
    TextStream stream;
    FILE *file = text_open(&stream);
    Status status = file ? print_help(file, argc, argv, err) : STATUS_OK;
    if (!text_close(&stream) && status == STATUS_OK) status = fail(err, STATUS_OS, "no memory for the help");
    char *folded = status == STATUS_OK ? pager_fold(stream.text, is_for_people(argc, argv)) : NULL;
    if (status == STATUS_OK && !folded) status = fail(err, STATUS_OS, "no memory for the help");
    if (status == STATUS_OK) pager_show(folded);
    free(folded);
    free(stream.text);
    return status;
}

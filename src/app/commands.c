// Part of command.h: the rows.
#include "app/command.h"

#include <limits.h>
#include <string.h>

#include "app/help/help.h"
#include "app/launch/launch_options.h"

const Command commands[] = {
    {.name = "train",
     .also = "run fit resume continue",
     .arguments = "[EXPERIMENT.yaml] [--OPTION VALUE ...]",
     .summary = "train a model; without options: LeNet on Fashion-MNIST, 3 rounds of federated averaging",
     .purpose = "starts worker processes that share one model through\n"
                "shared memory: federated averaging over any number of clients, Hogwild, or\n"
                "synchronous SGD.\n"
                "The result is the same to the bit for any number of workers, and whatever\n"
                "workers die (Hogwild excepted).",
     .description = "Trains one model with many processes and writes it, its checkpoints and its metrics into a "
                    "folder. EXPERIMENT.yaml (or -, standard input) holds options as `name: value` lines; the command "
                    "line wins. Defaults in brackets.",
     .takes = TAKES_ALL,
     .more = help_print_train,
     .briefly = help_print_train_briefly,
     .run = command_train},
    {.name = "eval",
     .also = "test predict",
     .arguments = "MODEL.safetensors|RUN [--OPTION VALUE ...]",
     .summary = "loss and accuracy of a saved model",
     .purpose = "prints the loss and the accuracy of a saved model.",
     .description = "Prints the loss and the accuracy of a saved model, or of a run's, on a data set's test samples. "
                    "Data, seed and model default to those of its training.",
     .takes = TAKES_EVAL,
     .writes = true,
     .more = options_print_eval_help,
     .run = command_eval},
    {.name = "diff",
     .also = "compare",
     .arguments = "RUN RUN",
     .summary = "where two runs diverge, and why",
     .purpose = "finds the round, client and tensor at which two runs diverge.",
     .description = "Compares two runs' records: names the first round after which their models differ, the first "
                    "client whose training does (on a GPU certainly with --inspect-updates, otherwise only if its loss "
                    "differs), the first tensor, and the options, data and machines that were different from the "
                    "start. Exits with 0 if all common rounds are the same, with 1 if not, with 66 if there are none.",
     .run = command_diff},
    {.name = "partition",
     .also = "split",
     .arguments = "[EXPERIMENT.yaml] [--OPTION VALUE ...] [--json] [--save FILE]",
     .brief = "[EXPERIMENT.yaml] [--OPTION VALUE ...]",
     .summary = "the samples of each client in a run, as a picture and in numbers",
     .description =
         "Divides the training samples as sounder train would with these options (--data, --clients, --partition, "
         "--seed and so on; it takes all of them, and a run's config.yaml), and shows clients by classes in shades, "
         "sizes, and how far the clients' label shares are from the shares of all: entropy (0: one class, 1: all "
         "equal), Hellinger distance, EMD (sum of the differences, from 0 to 2), Jensen-Shannon divergence (bits), "
         "classes of a client. The worst is the client furthest from the others.",
     .options = &partition_options,
     .takes = TAKES_ALL,
     .run = command_partition},
    {.name = "replay",
     .arguments = "RUN --round R --client K [--out FILE]",
     .brief = "RUN --round R --client K",
     .summary = "train one client of one round again and compare",
     .purpose = "trains one client of one round again and compares.",
     .description = "Trains one client of one round again, alone on the CPU, from the model at the beginning of the "
                    "round: it starts from the run's last checkpoint before the round and trains the rounds in between "
                    "again. Compares the result with the run's record: by its hash, or by its loss if the run was on a "
                    "GPU without --inspect-updates. A different result is an error (65).",
     .options = &replay_options,
     .run = command_replay},
    {.name = "export",
     .also = "referee federation",
     .arguments = "RUN --federation FOLDER [--rounds N] | --client K [--out FILE] | --peft FOLDER | --flower FOLDER",
     .brief = "RUN --client K|--federation|--flower|--peft FOLDER",
     .summary = "a run's federation as arrays; a client's own model; an adapter for PEFT; a Flower app",
     .purpose =
         "writes a run's federation as arrays, to check another implementation against, or a client's own model.",
     .description =
         "Writes all that another implementation needs to repeat a run, and what it has to get, as NumPy's npz: "
         "federation.json (settings), data.npz (training samples), partition.npz, and for each round round-NNNNNN.npz: "
         "the clients, the order of their batches, the weights that each handed in, and the global weights after it "
         "(round-000000.npz: the first weights). sounder.referee of tools/python runs a client or a server of your own "
         "on it, and says in which round, client and tensor it first parts, and by how much.\n"
         "The run is trained again from its options, on the CPU, with what clients hand in recorded; the bits are the "
         "run's by construction, and each round's model is compared with the run's record. How many bytes it takes is "
         "said before they are written. A run without rounds of clients that train models of their own (hogwild, ssgd, "
         "buffered schedules), or whose clients draw random numbers or see samples that the files do not hold "
         "(dropout, crops, attacks), is refused.\n"
         "--client K writes the model of client K as a safetensors file, as eval, PyTorch and --init read it, and says "
         "what it reaches on the client's own samples. sounder eval RUN --client K says that alone. An algorithm that "
         "trains one model for all clients has no such file.\n"
         "--peft is for runs with a trainer in Python (--trainer), whose program is read again: it writes the adapter "
         "of its net with PEFT's own names and configuration.\n"
         "--flower writes such a run as a Flower app: its functions train and test a client of load(partition), which "
         "reads the samples of the run until you write another, and flwr run trains it (--federation-config "
         "num-supernodes=CLIENTS). Algorithms other than Flower's strategies are refused.",
     .options = &export_options,
     .run = command_export},
    {.name = "data",
     .arguments = "[PLACE ...] [--OPTION VALUE ...]",
     .summary = "list data sets: place, form, size, and hashes",
     .description =
         "Lists the data sets in the places where names are searched, or in the given folders and files: form, "
         "samples, shape, type of values, classes, clients, size in memory, and the hash of all samples and labels "
         "(also in the start record of a run: data_xxh3). sounder data get NAME downloads mnist, fashion-mnist, "
         "cifar10 or cifar100, with checksums; see sounder data get --help. The row of a data set that cannot be read "
         "says why, and the exit status is that of the error. For one table (.csv, and the settings of --data with it, "
         "in one word: \"iris.csv label=species\") a line for each column says what it is taken for: its values, how "
         "many are no numbers or are missing, and what becomes of it.",
     .options = &data_options,
     .most = INT_MAX,
     .keeps_help = "get",
     .more = help_print_data,
     .run = command_data},
    {.name = "runs",
     .also = "ls list results",
     .arguments = "[FOLDER ...] [--OPTION VALUE ...]",
     .summary = "list runs, compare them, average over seeds",
     .description = "Lists all runs in the folders and below them (runs/ if none is given), also unfinished ones: "
                    "state, rounds done, the figure that the run is about after the last test and its best value "
                    "(accuracy on the test samples; personal %: mean of the clients' own models; loss if targets are "
                    "numbers), the clients' worst tenth, attack success and epsilon if runs have them, what the target "
                    "cost with --target, seconds, training samples per second, and the options in which the runs "
                    "differ. --by averages: sounder runs sweeps/a --by alpha. --against says whether a difference may "
                    "be luck: sounder runs sweeps/a --against fedavg. --clients lists the clients of one run.",
     .options = &runs_options,
     .most = INT_MAX,
     .run = command_runs},
    {.name = "report",
     .also = "plot figure",
     .arguments = "RUN ... [--out FILE] [--svg FOLDER]",
     .summary = "one page about a run, or about several: curves, clients, fairness, waits",
     .description =
         "Writes one page that needs no network and opens from disk. It shows accuracy and loss by round, seconds, "
         "simulated seconds or bytes, with bands over runs that differ only in the seed; the data of each client; "
         "clients, fairness, confusion (from sounder eval RUN --confusion --json > RUN/eval.json), use of time, waits "
         "at the barrier, staleness, epsilon; and how to repeat the run. Each figure can be saved as SVG, PNG and CSV. "
         "It prints on two pages. RUN is the folder of a run, or a folder with runs below it. The page contains "
         "Chart.js from Debian's libjs-chart.js, which draws the figures.",
     .options = &report_options,
     .least = 1,
     .most = INT_MAX,
     .writes = true,
     .run = command_report},
    {.name = "sweep",
     .also = "grid tune search",
     .arguments = "[EXPERIMENT.yaml] [--OPTION VALUE,VALUE,... ...]",
     .summary = "train with every combination of some options' values, side by side",
     .description =
         "Runs sounder train for each combination of values, as many runs side by side as cores allow (one core per "
         "run unless --workers is given; on a GPU two runs), and ends with a table of means and standard deviations "
         "over the seeds (and folds, and what --over names). It takes all options of train. Several values: --alpha "
         "0.1,1,10 or --seed 1..5, the same "
         "option again, or braces in a text, --algorithm \"fedprox mu={0.01,0.1}\". Values that are lists have "
         "semicolons between them: --class-weights \"1,1,2;1,1,4\", or \"1,1,2;\" for one. A list in EXPERIMENT.yaml "
         "(alpha: [0.1, 1, 10]) has several values, too; sweep.yaml in the folder keeps all of them as such a file. It "
         "continues after a run that fails. After Ctrl-C the runs finish their rounds and save; repeat the command "
         "with that --out to finish "
         "the rest. Exits with the code of the first run that failed, or with 75 if another process still trains some "
         "of the runs.",
     .options = &sweep_options,
     .takes = TAKES_SAVED,
     .run = command_sweep},
    {.name = "reproduce",
     .arguments = "[RECIPE] [--OPTION VALUE ...]",
     .summary = "repeat published experiments and compare the figures",
     .description =
         "Runs the experiments of a recipe and prints published figures beside ours, with a verdict: within the band "
         "of the publication, above or below it. Without RECIPE it lists all recipes. RECIPE is a name of that list, "
         "or a file of your own (tools/recipes/a1.yaml is an example). Runs that are done are not repeated.",
     .options = &reproduce_options,
     .most = 1,
     .writes = true,
     .run = command_reproduce},
    {.name = "flower",
     .also = "flwr",
     .arguments = "APP [--python PATH] [--OPTION VALUE ...]",
     .summary = "train the clients of a Flower app as it is, under any algorithm",
     .description =
         "Trains the clients of a Flower app (the folder with its pyproject.toml) without a change in it: a client's "
         "turn is one call of its ClientApp with the Message and Context that Flower documents, partition-id being the "
         "number of the client. Neither Ray nor a network is started. The ServerApp runs up to its strategy's start, "
         "which gives the first weights, the rounds (--rounds), the clients drawn (--clients-per-round) and the "
         "algorithm: the strategy is printed as a text of rules, and --algorithm replaces it. The command becomes "
         "`sounder train --trainer \"python3 -m sounder.flower APP\" --data clients:N --algorithm \"combine mean "
         "told\"`, with all options of train: resume it with sounder train, or write sounder sweep for train.\n"
         "--clients N: as many partitions [10]. --trainer-option NAME=VALUE replaces values of the run_config "
         "([tool.flwr.app.config]), as Flower's --run-config does; --lr, --local-epochs and the like are the app's "
         "own. "
         "A client counts by its num-examples. Its loss is the first metric with loss in the name, its accuracy the "
         "first with acc, from 0 to 1; the other metrics keep their names. A client keeps the arrays and numbers of "
         "its context.state. Under fedprox, scaffold and others that add to gradients, every step of a torch "
         "optimizer is corrected.",
     .options = &flower_options,
     .takes = TAKES_ALL,
     .run = command_flower},
    {.name = "worth",
     .also = "shapley contribution valuation value unlearn",
     .arguments = "RUN [--samples N] [--figure accuracy|loss] [--OPTION VALUE ...]",
     .brief = "RUN [--samples N]",
     .summary = "what each client of a run contributed: leave-one-out and Shapley values",
     .description =
         "Trains the finished run again without some of its clients (sounder train RUN/config.yaml --without 3,7), as "
         "many runs side by side as cores allow, and prints a table of the clients, the most valuable first. "
         "Leave-one-out: what the final model's accuracy on the test set loses without the client. The Shapley value: "
         "what the client adds to the clients before it, in the mean over random orders of all clients. Both are in "
         "percentage points of accuracy, or in loss. Rules count the "
         "clients of a run alone, so that each is a federation of its own. The standard "
         "error is over the orders, and says nothing of other seeds. A client that helps has a positive value, one "
         "that harms a negative one. Other draws and faults are those of the run, so that a difference is the "
         "client's alone; only the noise of privacy is each run's own, and their epsilons add up. No order is "
         "truncated: all runs are known beforehand, at most N (clients - 2) + clients + 1 "
         "for N orders. They stay in the folder --out: repeat the command after Ctrl-C, or with more --samples, and it "
         "trains what is not done.",
     .options = &worth_options,
     .least = 1,
     .most = 1,
     .writes = true,
     .run = command_worth},
    {.name = "retime",
     .also = "clock bandwidth utilisation utilization simulate",
     .arguments = "RUN [--up-bandwidth B,...] [--down-bandwidth B,...] [--client-time FORM,...]",
     .brief = "RUN [--up-bandwidth B,...]",
     .summary = "how long a run would take at other links and speeds of clients, without training",
     .description =
         "Prints the simulated seconds of a run with rounds, its utilisation (the seconds in which its clients train, "
         "of "
         "the seconds of all clients in all rounds) and the seconds until it reached its --target: first as it ran, "
         "then "
         "for every combination of the values. The clock of such a run changes no bit of its models, so that its "
         "record "
         "tells all of it, and the figures are those of runs that are trained again, to the microsecond. Runs "
         "in which the clock decides who takes part are refused: schedule buffered, --deadline, --over-selection, "
         "--sampling available:FILE.",
     .options = &retime_options,
     .least = 1,
     .most = 1,
     .run = command_retime},
    {.name = "top",
     .also = "watch status",
     .arguments = "[RUN|SWEEP] [--once]",
     .summary = "watch a run while it trains",
     .description =
         "Shows a run ten times a second: rounds and the time left, the history of accuracy and loss, and "
         "for each rank whether it computes, how long it waited at the barrier in the last round, how many "
         "clients it trained, and its memory; the slowest clients, lost workers, bytes. For the folder of a sweep "
         "it shows a line for each run, those that train first. RUN defaults to the active run below runs/, or to the "
         "last one that began. It reads the run's files, /proc and, "
         "read-only, the shared memory with the run's jobs; q quits, and the run continues.",
     .options = &top_options,
     .most = 1,
     .run = command_top},
    {.name = "privacy",
     .arguments = "--sampling-rate Q --rounds N --noise Z|--epsilon E [--OPTION VALUE ...]",
     .brief = "--sampling-rate Q --rounds N --noise Z|--epsilon E",
     .summary = "epsilon of a noise, or the noise for an epsilon",
     .purpose = "computes the epsilon of a noise, or the noise for an epsilon.",
     .description =
         "Prints the epsilon (at --delta, by Renyi differential privacy) of a run whose every round releases a sum of "
         "clipped updates with Gaussian noise (`release gaussian` of --algorithm), or the least noise for an epsilon. "
         "Epsilon is an upper bound: other accountants, which read --events, are 10 to 25% tighter.\n"
         "A run's noise repeats from its --seed, so a model that is published is trained with --noise-key system. Two "
         "runs with common clients release twice: their epsilons add up. Rules with noise: --algorithm dp-fedavg "
         "(whole "
         "clients), dp-ftrl, dp-adaptive, local-dp; --dp-sgd (single samples).",
     .options = &privacy_options,
     .run = command_privacy},
    {.name = "launch",
     .arguments = "[--OPTION VALUE ...] [--] PROGRAM [ARGUMENT ...]",
     .brief = "[--OPTION VALUE ...] [--] PROGRAM ...",
     .summary = "start any program as N communicating ranks, as torchrun does",
     .purpose = "starts any program, in C or Python, as ranks that find\n"
                "each other by torchrun's environment variables.",
     .description =
         "Starts N ranks of a program with torchrun's options and environment variables (RANK, WORLD_SIZE, LOCAL_RANK, "
         "MASTER_ADDR, MASTER_PORT, ...; OMP_NUM_THREADS is 1 unless it is set). A PROGRAM.py and a file that can be "
         "read but not executed runs under python3 (or $PYTHON_EXEC). Each line of a rank is printed after its number; "
         "a line above 64 KiB is cut into several. A single rank reads what you type, and its prompts show at once. "
         "torchrun's PET_* variables replace options that are not given.\n\n"
         "When a rank fails, the others get SIGTERM and, after --grace-seconds, SIGKILL; the launcher exits with the "
         "code of the first rank that failed, or 128+n if signal n killed it. Ctrl-C, SIGTERM, SIGHUP and SIGQUIT are "
         "handed on; another one half a second later or more kills the ranks. SIGUSR1 and SIGUSR2 are handed on to "
         "processes that listen for them; Ctrl-Z stops the ranks, too. If a rank is a shell script, the program that "
         "it runs has the same grace time. Processes that the ranks have started end with them, unless they have a "
         "session of their own; kill -9 of the launcher ends only the ranks. Rank 0 serves the store of PyTorch's "
         "process groups, and must end last. With several machines, each machine restarts its own ranks: the ranks of "
         "the others fail when they lose their peers, and are restarted, too. Defaults in brackets.",
     .options = &launch_options,
     .keeps_help = "",
     .more = help_print_launch,
     .run = command_launch},
    {.name = "doctor",
     .also = "check diagnose info",
     .arguments = "[--samples N]",
     .summary = "whether a GPU serves here, and how fast, in ten lines",
     .description =
         "Checks in less than a minute, without root, network or compiler, what a run needs of a GPU: the driver, the "
         "GPU, code for it in this build, free memory, the Multi-Process Service, cuBLAS, memory that host and GPU "
         "share, a worker that opens its parent's memory by CUDA IPC, and a training step beside the CPU's. The last "
         "line is a round of lenet with one worker beside the CPU. The first line that fails says what to do and ends "
         "it, with exit code 1. Without a GPU it times the CPU alone, says what a GPU needs, and exits with 0. Its "
         "runs are in a temporary folder (TMPDIR), which is removed.",
     .options = &doctor_options,
     .run = command_doctor},
    {.name = "help",
     .arguments = "[TOPIC]",
     .summary = "the name of an option or of a value (lr, fedprox, lenet, dirichlet, krum), man (the manual page as "
                "troff), completion bash, zsh or fish (a script)",
     .keeps_help = "",
     .run = command_help},
    {.name = "--version",
     .summary = "the version, and the options of the build",
     .keeps_help = "",
     .run = command_version},
    {.name = "--help", .keeps_help = "", .run = command_overview},
    {.name = "worker", .hidden = true, .keeps_help = "", .run = command_worker},
    {.name = "guard", .hidden = true, .keeps_help = "", .run = command_guard},
    // Topics of help
    {.name = "nodes", .more = help_print_nodes},
    {.name = "plan", .more = help_print_plan},
    {.name = "metrics", .more = help_print_metrics},
    {.name = "trainer", .more = help_print_trainer},
    {.name = "aggregator", .more = help_print_aggregator},
    {.name = "models", .more = help_print_models},
    {.name = "algorithms", .more = help_print_algorithms},
    {.name = "dial", .more = dial_print},
    {.name = "lessons", .more = help_print_lessons},
    {.name = "attacks", .more = help_print_attacks},
    {.name = "partitions", .more = help_print_partitions},
    {.name = "federations", .more = help_print_federations},
    {.name = "man", .is_for_programs = true, .more = manual_print},
    {.name = "completion", .is_for_programs = true, .more = completion_print_bash},
};
const int command_count = sizeof commands / sizeof *commands;

const Command *command_find(const char *name) {
    for (int i = 0; i < command_count; i++)
        if (strcmp(commands[i].name, name) == 0) return &commands[i];
    return NULL;
}

bool command_is_topic(const Command *command) {
    return command->description || command->more;
}

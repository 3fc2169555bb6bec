#include "look_options.h"

#include <stddef.h>

#include "app/command.h"
#include "app/look/figures.h"
#include "table.h"

#define FIELD(member) .offset = offsetof(LookOptions, member)
#define ROWS(of)                                                                                                       \
    { .rows = of, .count = sizeof of / sizeof *of }

// clang-format off
// A row of three commands.
#define AGAINST                                                                                                        \
    {.name = "against", .type = OPTION_TEXT, FIELD(against), .also = "baseline compare versus vs", .placeholder = "VALUE", .derived = "none", \
     .help = "better, or luck: compares the other runs with those that have this value (fedavg, or OPTION=VALUE) and are alike in all " \
             "else: the mean difference of runs of one seed, Student's 95% interval, a sign test, and how many more seeds would find " \
             "a difference of this size; needs three seeds"}, \
    {.name = "over", .type = OPTION_TEXT, FIELD(over), .also = "replicates repeat pairs", .placeholder = "OPTION,...", .derived = "none", \
     .help = "options that repeat an experiment beside --seed, such as data for values of test-seed, or a new draw of clients: means are over their values, and runs with equal " \
             "ones are the pairs of --against; --data whose values differ in fold=k/K alone is one by itself"}
// Rows of two commands that train a list of runs.
#define LISTED_RUNS(folder) \
    {.name = "out", .type = OPTION_TEXT, FIELD(out), .also = "output output-dir", .placeholder = "FOLDER", .derived = folder, \
     .letter = 'o', .help = "folder of the runs, one folder per run; repeating the command continues where it stopped"}, \
    {.name = "parallel", .type = OPTION_WHOLE, FIELD(parallel), .also = "jobs j side-by-side", .placeholder = "N", .derived = "as cores allow", \
     .minimum = 1, .maximum = 256, .help = "runs side by side"}, \
    {.name = "format", .type = OPTION_CHOICE, FIELD(format), .also = "f", .placeholder = "FORM", .preset = "text", \
     .choices = {[TABLE_TEXT] = "text", [TABLE_CSV] = "csv", [TABLE_MARKDOWN] = "md", [TABLE_LATEX] = "latex", [TABLE_JSON] = "json"}, \
     .help = "format of the table at the end; formats other than text run nothing and print the table of the existing runs"}, \
    {.name = "dry-run", .type = OPTION_FLAG, FIELD(dry_run), .also = "list plan", .preset = "false", \
     .help = "print the commands of the runs, and start none"}
static const Option runs_rows[] = {
    {.name = "by", .type = OPTION_TEXT, FIELD(by), .also = "group group-by average", .placeholder = "OPTION,...", .derived = "one line per run",
     .help = "one line per value of these options (alpha, or algorithm,alpha), with mean and standard deviation over the "
             "finished runs with that value"},
    {.name = "show", .type = OPTION_TEXT, FIELD(show), .also = "figures columns metrics keys", .placeholder = "KEY,...", .derived = "those that say something",
     .help = "figures of the table, in place of the usual ones: keys of --format json (accuracy_percent), or of a run's last lines "
             "in metrics.jsonl (test_macro_f1, or short f1, auc, bacc; f1:died of one class; epsilon, update_length_mean, accuracy_worst_tenth; test_accuracy_by_class.3)"},
    {.name = "format", .type = OPTION_CHOICE, FIELD(format), .also = "output o f", .placeholder = "FORM", .preset = "text",
     .choices = {[TABLE_TEXT] = "text", [TABLE_CSV] = "csv", [TABLE_MARKDOWN] = "md", [TABLE_LATEX] = "latex", [TABLE_JSON] = "json"},
     .help = "format of the table; in csv, a text that a spreadsheet would evaluate (= + - @) gets a ' in front"},
    AGAINST,
    {.name = "clients", .type = OPTION_FLAG, FIELD(clients), .also = "users per-client", .preset = "false",
     .help = "one line per client: how often it trained, and the figures of its last tests (--eval-clients-every); of several runs, or with --by and --show, mean and standard deviation over the runs"},
};
static const Option report_rows[] = {
    {.name = "out", .type = OPTION_TEXT, FIELD(out), .also = "output file html", .placeholder = "FILE", .derived = "report.html in the first folder",
     .letter = 'o', .help = "file of the page; an earlier report is replaced"},
    {.name = "svg", .type = OPTION_TEXT, FIELD(svg), .also = "figures pdf", .placeholder = "FOLDER", .derived = "none",
     .help = "figures for a paper: accuracy.svg (personal-accuracy.svg of personal models), loss.svg, classes.svg, and clients.svg (dots by algorithm, of at most 40 tested clients) in this folder; the page is then written only with --out"},
    {.name = "axis", .type = OPTION_CHOICE, FIELD(axis), .also = "x x-axis", .placeholder = "WHAT", .preset = "round",
     .choices = {[AXIS_ROUND] = "round", [AXIS_SECONDS] = "seconds", [AXIS_SIMULATED] = "simulated", [AXIS_MEGABYTES] = "megabytes", [AXIS_JOULES] = "joules", [AXIS_TOKENS] = "tokens"},
     .help = "what the curves of --svg are drawn by: rounds, seconds of training and tests, simulated seconds, MB sent in both directions, simulated joules, or tokens that a trainer counts"},
    AGAINST,
};
static const Option sweep_rows[] = {
    {.name = "out", .type = OPTION_TEXT, FIELD(out), .also = "output output-dir", .placeholder = "FOLDER", .derived = "sweeps/<time>",
     .letter = 'o', .help = "folder of the runs, one folder per run; repeating the command with it continues the sweep"},
    {.name = "search", .type = OPTION_CHOICE, FIELD(search), .also = "strategy method", .placeholder = "KIND", .preset = "grid",
     .choices = {[SWEEP_GRID] = "grid", [SWEEP_LIST] = "list", [SWEEP_RANDOM] = "random", [SWEEP_HALVING] = "halving"},
     .help = "grid: every value with every other; list: the first values together, then the second; random: some points of the grid; "
             "halving: the whole grid for few rounds, the best third (mean over the seeds) for three times as many, and so on; best "
             "by the figure that the runs are about: that of --target, or accuracy, personal accuracy with personal models, loss if targets are numbers"},
    {.name = "number", .type = OPTION_WHOLE, FIELD(number), .also = "samples trials n", .placeholder = "N", .derived = "must be given with --search random",
     .minimum = 1, .maximum = SWEEP_MOST_RUNS, .help = "runs of the grid that --search random draws"},
    {.name = "parallel", .type = OPTION_WHOLE, FIELD(parallel), .also = "jobs j side-by-side", .placeholder = "N", .derived = "as cores allow",
     .minimum = 1, .maximum = 256, .help = "runs side by side; the default is a quarter above the cores, rounded up, if runs have one worker, and on a GPU 2; times are right with 1"},
    {.name = "part", .type = OPTION_TEXT, FIELD(part), .also = "shard task share", .placeholder = "I/N", .derived = "all",
     .help = "run only number I, I + N, ..., if N processes or machines share a sweep and its --out (tools/slurm/sweep.sbatch)"},
    {.name = "show", .type = OPTION_TEXT, FIELD(show), .also = "figures columns keys", .placeholder = "KEY,...", .derived = "those that say something",
     .help = "figures of the table at the end, as in `sounder runs --show`"},
    {.name = "quiet", .type = OPTION_FLAG, FIELD(quiet), .also = "silent q", .preset = "false",
     .help = "print nothing but the table at the end, warnings and errors, and what to do about runs that are not done"},
    {.name = "dry-run", .type = OPTION_FLAG, FIELD(dry_run), .also = "list plan", .preset = "false",
     .help = "print the commands of the runs, and start none"},
    AGAINST,
};
static const Option reproduce_rows[] = {
    {.name = "seeds", .type = OPTION_WHOLE, FIELD(seeds), .also = "repetitions n", .placeholder = "N", .preset = "3",
     .minimum = 1, .maximum = 1000, .help = "runs of each figure, with the first seeds of the publication"},
    LISTED_RUNS("reproduced/NAME"),
};
static const Option worth_rows[] = {
    {.name = "samples", .type = OPTION_WHOLE, FIELD(samples), .also = "permutations n", .placeholder = "N", .preset = "20",
     .minimum = 0, .maximum = SWEEP_MOST_RUNS, .help = "permutations of the clients whose mean is the Shapley value; if they could ask for as many runs as there are sets "
     "of clients (3 of three clients, 127 of ten), all sets are trained and the values are exact; 0: leave-one-out alone"},
    {.name = "figure", .type = OPTION_CHOICE, FIELD(figure), .also = "metric by", .placeholder = "WHAT", .preset = "auto",
     .choices = {"auto", "accuracy", "loss"}, .help = "what a client adds to: the accuracy of the final model on the test set, or its loss (less loss is more "
     "worth); auto: the accuracy, or the loss if there is none"},
    LISTED_RUNS("worth/NAME"),
};
// The lists are read value by value, by the rows of train.
static const Option retime_rows[] = {
    {.name = "up-bandwidth", .type = OPTION_TEXT, FIELD(clock[0]), .also = "upload uplink bandwidth", .placeholder = "B,...", .derived = "the run's",
     .help = "bytes per second that a client sends, as in train; the table has a line for each value"},
    {.name = "down-bandwidth", .type = OPTION_TEXT, FIELD(clock[1]), .also = "download downlink", .placeholder = "B,...", .derived = "the run's",
     .help = "bytes per second that a client receives"},
    {.name = "client-time", .type = OPTION_TEXT, FIELD(clock[2]), .also = "speed", .placeholder = "FORM,...", .derived = "the run's",
     .help = "how long clients train (`sounder help client-time`); values with commas are separated by semicolons"},
    {.name = "format", .type = OPTION_CHOICE, FIELD(format), .also = "output o f", .placeholder = "FORM", .preset = "text",
     .choices = {[TABLE_TEXT] = "text", [TABLE_CSV] = "csv", [TABLE_MARKDOWN] = "md", [TABLE_LATEX] = "latex", [TABLE_JSON] = "json"},
     .help = "format of the table"},
};
static const Option top_rows[] = {
    {.name = "once", .type = OPTION_FLAG, FIELD(once), .also = "batch b", .preset = "false",
     .help = "print one screen and end; for logs, and without a terminal"},
};
// clang-format on

const OptionTable data_options = {.rows = &runs_rows[2], .count = 1}; // --format
const OptionTable runs_options = ROWS(runs_rows);
const OptionTable report_options = ROWS(report_rows);
const OptionTable sweep_options = ROWS(sweep_rows);
const OptionTable reproduce_options = ROWS(reproduce_rows);
const OptionTable worth_options = ROWS(worth_rows);
const OptionTable retime_options = ROWS(retime_rows);
const OptionTable top_options = ROWS(top_rows);

Status look_options_parse(LookOptions *options, const Command *command, int argc, char **argv, Error *err) {
    OptionTable table = *command->options;
    table.command = command->name;
    const char *seen[OPTION_MAX_COUNT] = {NULL};
    *options = (LookOptions){.folders = argv};
    for (int i = 0; i < table.count; i++)
        if (table.rows[i].preset) TRY(option_read(options, &table.rows[i], table.rows[i].preset, "--", err));
    for (int next = 0; next < argc;) {
        if (argv[next][0] != '-') {
            argv[options->folder_count++] = argv[next++];
            continue;
        }
        TRY(option_read_next(options, seen, &next, argc, argv, &table, err));
    }
    if (options->folder_count >= command->least && options->folder_count <= command->most) return STATUS_OK;
    return fail(err, STATUS_USAGE, "sounder %s: needs %s; write sounder %s %s", command->name,
                options->folder_count < command->least ? "a run" : "one run alone", command->name, command->arguments);
}

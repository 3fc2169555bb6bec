#include "look_options.h"

#include <ctype.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>

#include "sweep_plan.h"
#include "table.h"

#define FIELD(member) .offset = offsetof(LookOptions, member)
#define ROWS(of)                                                                                                       \
    { .rows = of, .count = sizeof of / sizeof *of }

// clang-format off
static const Option runs_rows[] = {
    {.name = "by", .type = OPTION_TEXT, FIELD(by), .also = "group group-by average", .placeholder = "OPTION,...", .derived = "a line a run",
     .help = "a line for each value of these options (alpha, or algorithm,alpha), with mean and standard deviation over the "
             "finished runs that have it"},
    {.name = "format", .type = OPTION_CHOICE, FIELD(format), .also = "output o f", .placeholder = "FORM", .preset = "text",
     .choices = {[TABLE_TEXT] = "text", [TABLE_CSV] = "csv", [TABLE_MARKDOWN] = "md", [TABLE_LATEX] = "latex", [TABLE_JSON] = "json"},
     .help = "how the table is written; in csv, a text that a spreadsheet would compute (= + - @) has a ' in front"},
};
static const Option report_rows[] = {
    {.name = "out", .type = OPTION_TEXT, FIELD(out), .also = "output file html", .placeholder = "FILE", .derived = "report.html in the first folder",
     .letter = 'o', .help = "page that is written; an earlier report is replaced"},
    {.name = "svg", .type = OPTION_TEXT, FIELD(svg), .also = "figures pdf", .placeholder = "FOLDER", .derived = "none",
     .help = "figures for a paper: accuracy.svg (personal-accuracy.svg of personal models), loss.svg and classes.svg in this folder; the page is then written only with --out"},
};
static const Option sweep_rows[] = {
    {.name = "out", .type = OPTION_TEXT, FIELD(out), .also = "output output-dir", .placeholder = "FOLDER", .derived = "sweeps/<time>",
     .letter = 'o', .help = "folder of the runs, a folder each; the same command with the same one goes on"},
    {.name = "search", .type = OPTION_CHOICE, FIELD(search), .also = "strategy method", .placeholder = "KIND", .preset = "grid",
     .choices = {[SWEEP_GRID] = "grid", [SWEEP_LIST] = "list", [SWEEP_RANDOM] = "random", [SWEEP_HALVING] = "halving"},
     .help = "a grid: every value with every other; a list: the first values together, then the second; random: some of the grid; "
             "halving: all of it for few rounds, the best third, by the mean over the seeds, for three times as many, and so on; best by "
             "accuracy, by personal accuracy with personal models, by loss where targets are numbers"},
    {.name = "number", .type = OPTION_WHOLE, FIELD(number), .also = "samples trials n", .placeholder = "N", .derived = "must be given with --search random",
     .minimum = 1, .maximum = SWEEP_MOST_RUNS, .help = "how many runs of the grid --search random draws"},
    {.name = "parallel", .type = OPTION_WHOLE, FIELD(parallel), .also = "jobs j side-by-side", .placeholder = "N", .derived = "as cores allow",
     .minimum = 1, .maximum = 256, .help = "runs side by side, as a rule a fourth more than cores, rounded up, where a run has one worker; on a card, and to time runs, start with 1"},
    {.name = "part", .type = OPTION_TEXT, FIELD(part), .also = "shard task share", .placeholder = "I/N", .derived = "all",
     .help = "run number I, I + N, ... alone, where N processes or machines share a sweep and its --out (tools/slurm/sweep.sbatch)"},
    {.name = "dry-run", .type = OPTION_FLAG, FIELD(dry_run), .also = "list plan", .preset = "false",
     .help = "print the runs, a command each, and start none"},
};
static const Option reproduce_rows[] = {
    {.name = "seeds", .type = OPTION_WHOLE, FIELD(seeds), .also = "repetitions n", .placeholder = "N", .preset = "3",
     .minimum = 1, .maximum = 1000, .help = "runs of each figure, with the first seeds of the publication"},
    {.name = "out", .type = OPTION_TEXT, FIELD(out), .also = "output output-dir", .placeholder = "FOLDER", .derived = "reproduced/NAME",
     .letter = 'o', .help = "folder of the runs, a folder each; the same command goes on where an earlier one stopped"},
    {.name = "parallel", .type = OPTION_WHOLE, FIELD(parallel), .also = "jobs j side-by-side", .placeholder = "N", .derived = "as cores allow",
     .minimum = 1, .maximum = 256, .help = "runs side by side"},
    {.name = "format", .type = OPTION_CHOICE, FIELD(format), .also = "f", .placeholder = "FORM", .preset = "text",
     .choices = {[TABLE_TEXT] = "text", [TABLE_CSV] = "csv", [TABLE_MARKDOWN] = "md", [TABLE_LATEX] = "latex", [TABLE_JSON] = "json"},
     .help = "how the table at the end is written; any other than text runs nothing and prints the table of the runs that are there"},
    {.name = "dry-run", .type = OPTION_FLAG, FIELD(dry_run), .also = "list plan", .preset = "false",
     .help = "print the runs, a command each, and start none"},
};
static const Option top_rows[] = {
    {.name = "once", .type = OPTION_FLAG, FIELD(once), .also = "batch b", .preset = "false",
     .help = "print one screen and end; for logs, and where there is no terminal"},
};
static const Option data_rows[] = {
    {.name = "format", .type = OPTION_CHOICE, FIELD(format), .also = "output o f", .placeholder = "FORM", .preset = "text",
     .choices = {[TABLE_TEXT] = "text", [TABLE_CSV] = "csv", [TABLE_MARKDOWN] = "md", [TABLE_LATEX] = "latex", [TABLE_JSON] = "json"},
     .help = "how the table is written; in csv, a text that a spreadsheet would compute (= + - @) has a ' in front"},
};
// clang-format on

const LookCommand look_commands[] = {
    {.name = "data",
     .arguments = "[PLACE ...] [--OPTION VALUE ...]",
     .summary = "list data sets: where, in which form, how large, and their hashes",
     .description =
         "Lists the data sets in the places where names are looked for, or in the folders and files that are given: form, samples, "
         "shape, what values they are, classes, clients, size in memory, and the hash of all samples and labels (also in "
         "the start record of a run: data_xxh3). sounder data get NAME downloads mnist, fashion-mnist, cifar10 or cifar100, with "
         "checksums; sounder data get --help tells more. One that cannot be read has what is wrong with it in its row, and the exit "
         "status tells.",
     .table = ROWS(data_rows),
     .most = INT_MAX},
    {.name = "runs",
     .arguments = "[FOLDER ...] [--OPTION VALUE ...]",
     .summary = "list runs, compare them, average over seeds",
     .description =
         "Lists all runs in the folders and below them (runs/ if none is given), also those that still run: state, "
         "rounds "
         "done, the figure that the run is about after the last test and the best there was (accuracy on the test samples; "
         "personal %: mean of the clients' own models; loss where targets are numbers), the clients' worst tenth, attack "
         "success and epsilon where runs have them, seconds, training samples a "
         "second, and of the options those in which the runs differ. --by averages: sounder runs sweeps/a --by alpha",
     .table = ROWS(runs_rows),
     .most = INT_MAX},
    {.name = "report",
     .arguments = "RUN ... [--out FILE] [--svg FOLDER]",
     .summary = "one page about a run, or about several: curves, clients, fairness, waits",
     .description =
         "Writes one page that needs no network and opens from disk. It shows accuracy and loss by round, seconds, "
         "simulated "
         "seconds or bytes, with bands over runs that differ in the seed alone; who has which data; clients, fairness, "
         "confusion (of sounder eval RUN --confusion --json > RUN/eval.json), where the time went, waits at the "
         "barrier, "
         "staleness, epsilon; and how to repeat the run. Each figure can be saved as SVG, PNG and CSV. It prints on two pages. "
         "RUN is "
         "the folder of a run, or one with runs below it. The figures are drawn by Chart.js of Debian's "
         "libjs-chart.js, "
         "which is put into the page.",
     .table = ROWS(report_rows),
     .least = 1,
     .most = INT_MAX},
    {.name = "sweep",
     .arguments = "[EXPERIMENT.yaml] [--OPTION VALUE,VALUE,... ...]",
     .summary = "train with every combination of some options' values, side by side",
     .description =
         "Runs sounder train for each combination of values, as many runs side by side as cores allow (a core each "
         "where "
         "--workers is not given), and ends with a table of means and standard deviations over the seeds. It takes all "
         "options of train. Several values: --alpha 0.1,1,10 or --seed 1..5, the same option again, or braces in a "
         "text, "
         "--algorithm \"fedprox mu={0.01,0.1}\". It goes on after a run that fails. Ctrl-C has the runs finish their "
         "rounds "
         "and save; the same command with the same --out does what is not done. Exits with the code of the first run "
         "that failed, or with 75 where another process still trains some of the runs.",
     .table = ROWS(sweep_rows)},
    {.name = "reproduce",
     .arguments = "[RECIPE] [--OPTION VALUE ...]",
     .summary = "make published figures again, and say whether they come out",
     .description =
         "Runs what a recipe says and prints published figures beside ours, with a verdict: within the band of the "
         "publication, above or below it. Without a recipe it lists those there are. RECIPE is a name of that list, or a "
         "file of your own (tools/recipes/a1.yaml is one to begin with). What was run before is not run again.",
     .table = ROWS(reproduce_rows),
     .most = 1},
    {.name = "top",
     .arguments = "[RUN] [--once]",
     .summary = "how a run is doing, as it goes",
     .description = "Shows a run ten times a second: rounds and the time left, accuracy and loss as they went, and "
                    "for each rank whether "
                    "it computes, how long it waited at the barrier in the last round, how many clients it trained, "
                    "and its memory; the "
                    "slowest clients, lost workers, bytes. Without RUN the one below runs/ that runs, or the last that "
                    "began. It reads the "
                    "run's files, /proc and, read-only, the memory in which the run keeps its jobs; q ends it, and the run goes on.",
     .table = ROWS(top_rows),
     .most = 1},
};
const int look_command_count = sizeof look_commands / sizeof *look_commands;

const LookCommand *look_command_find(const char *name) {
    for (int i = 0; i < look_command_count; i++)
        if (strcmp(look_commands[i].name, name) == 0) return &look_commands[i];
    return NULL;
}

Status look_options_parse(LookOptions *options, const LookCommand *command, int argc, char **argv, Error *err) {
    OptionTable table = command->table;
    table.command = command->name;
    const char *seen[OPTION_MAX_COUNT] = {NULL};
    *options = (LookOptions){.folders = argv};
    for (int next = 0; next < argc;) {
        const Option *option;
        const char *value;
        if (argv[next][0] != '-') {
            argv[options->folder_count++] = argv[next++];
            continue;
        }
        TRY(option_take(&option, &value, &next, argc, argv, &table, err));
        TRY(option_once(&seen[option - table.rows], option, value, err));
        TRY(option_read(options, option, value, "--", err));
    }
    if (options->folder_count >= command->least && options->folder_count <= command->most) return STATUS_OK;
    return fail(err, STATUS_USAGE, "sounder %s: needs %s; write sounder %s %s", command->name,
                options->folder_count < command->least ? "a run" : "one run alone", command->name, command->arguments);
}

// Help ----------------------------------------------------------------------------------------------------------------

void look_command_print_help(FILE *file, const LookCommand *command) {
    fprintf(file, "Usage: sounder %s %s\n\n", command->name, command->arguments);
    print_paragraph(file, 0, command->description);
    fputc('\n', file);
    for (int i = 0; i < command->table.count; i++)
        option_print_help(file, &command->table.rows[i]);
}

// "[--OPTION VALUE ...]" with words that stand for something in italics, dashes as they are typed.
static void print_arguments(FILE *file, const char *text) {
    while (*text) {
        const size_t letters = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
        if (letters > 1) {
            fprintf(file, "\\fI%.*s\\fR", (int)letters, text);
            text += letters;
            continue;
        }
        if (*text == '-') fputc('\\', file);
        fputc(*text++, file);
    }
}

void look_commands_print_synopsis(FILE *file) {
    for (int i = 0; i < look_command_count; i++) {
        fprintf(file, ".B sounder %s\n", look_commands[i].name);
        print_arguments(file, look_commands[i].arguments);
        fputs("\n.br\n", file);
    }
}

void look_commands_print_man(FILE *file) {
    for (int i = 0; i < look_command_count; i++) {
        fputs(".SH OPTIONS OF SOUNDER ", file);
        for (const char *c = look_commands[i].name; *c; c++)
            fputc(toupper((unsigned char)*c), file);
        fputc('\n', file);
        for (const char *c = look_commands[i].description; *c; c++)
            fprintf(file, "%s%c", *c == '-' ? "\\" : "", *c);
        fputc('\n', file);
        for (int row = 0; row < look_commands[i].table.count; row++)
            option_print_man(file, &look_commands[i].table.rows[row]);
    }
}

void look_commands_print_words(FILE *file) {
    for (int i = 0; i < look_command_count; i++)
        for (int row = 0; row < look_commands[i].table.count; row++)
            option_print_words(file, &look_commands[i].table.rows[row], look_commands[i].name);
}

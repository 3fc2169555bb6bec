// Part of help.h: writes the manual page.
#include "app/command.h"
#include "app/help/help.h"
#include "base/embed.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

EMBED(help_environment, HELP_TEXTS "/environment.txt");

const char *const manual_examples[] = {
    "sounder train --model 2nn --clients 100 --rounds 50",
    "sounder train --clients 100 --partition dirichlet --alpha 0.1",
    "sounder train --algorithm hogwild --workers 4",
    "sounder train runs/first/config.yaml --lr 0.1 --out runs/second",
    "sounder train --resume runs/first --rounds 10",
};
const int manual_example_count = sizeof manual_examples / sizeof *manual_examples;

// Several statuses may share a code: one paragraph per code has a clause for each status.
static void print_exit_codes(FILE *file) {
    static const struct {
        int code;
        const char *when;
    } statuses[] = {
#define X(name, code, when) {code, when},
        STATUS_LIST(X)
#undef X
    };
    enum { COUNT = sizeof statuses / sizeof *statuses };
    for (int i = 0; i < COUNT; i++) {
        bool again = false;
        for (int before = 0; before < i; before++)
            again |= statuses[before].code == statuses[i].code;
        if (again) continue;
        fprintf(file, ".TP\n\\fB%d\\fR\n%s", statuses[i].code, statuses[i].when);
        for (int after = i + 1; after < COUNT; after++)
            if (statuses[after].code == statuses[i].code) fprintf(file, ";\n%s", statuses[after].when);
        fputc('\n', file);
    }
    fputs(".TP\n\\fB1\\fR\n\\fBsounder diff\\fR has found a difference, or \\fBsounder doctor\\fR a fault\n"
          ".TP\n\\fB128+n\\fR\nsignal n (INT, TERM, HUP, USR1 or USR2) asked the run to end; the round was finished "
          "and a checkpoint written\n",
          file);
}

static void print_environment(FILE *file) {
    HelpPart part;
    for (const char *rest = help_environment; (rest = help_next(&part, rest));) {
        fprintf(file, ".TP\n\\fB%s\\fR\n", part.left);
        print_troff(file, part.text);
        fputc('\n', file);
    }
}

static void print_examples(FILE *file) {
    for (int i = 0; i < manual_example_count; i++) {
        fputs(i ? ".PP\n.nf\n" : ".nf\n", file);
        print_troff(file, manual_examples[i]);
        fputs("\n.fi\n", file);
    }
}

// Prints "[--OPTION VALUE ...] [--json]" with placeholders in italics and options in bold.
static void print_arguments(FILE *file, const char *text) {
    while (*text) {
        const size_t letters = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"), dashes = strspn(text, "-");
        const size_t name = dashes ? strspn(text + dashes, "abcdefghijklmnopqrstuvwxyz-") : 0;
        if (dashes) {
            fprintf(file, "\\fB");
            for (size_t i = 0; i < dashes + name; i++)
                fprintf(file, "%s%c", text[i] == '-' ? "\\" : "", text[i]);
            fputs("\\fR", file);
            text += dashes + name;
        } else if (letters) {
            fprintf(file, "\\fI%.*s\\fR", (int)letters, text);
            text += letters;
        } else
            fputc(*text++, file);
    }
}

static void print_synopsis(FILE *file) {
    for (const Command *command = commands; command < commands + command_count; command++) {
        if (!command->arguments) continue;
        fprintf(file, ".B sounder %s\n", command->name);
        print_arguments(file, command->arguments);
        fputs("\n.br\n", file);
    }
    fputs("where \\fITOPIC\\fR is ", file);
    for (const Command *topic = commands; topic < commands + command_count; topic++)
        if (command_is_topic(topic) && !topic->is_for_programs) fprintf(file, "\\fB%s\\fR | ", topic->name);
    fputs("\\fIOPTION\\fR | \\fBman\\fR |\n\\fBcompletion\\fR [\\fBbash\\fR | \\fBzsh\\fR | \\fBfish\\fR]\n", file);
}

static void print_options(FILE *file) {
    for (const Command *command = commands; command < commands + command_count; command++) {
        if (!command->options) continue;
        fputs(".SH OPTIONS OF SOUNDER ", file);
        for (const char *c = command->name; *c; c++)
            fputc(toupper((unsigned char)*c), file);
        fputc('\n', file);
        if (!command->purpose) {
            print_troff(file, command->description);
            fputc('\n', file);
        }
        for (int i = 0; i < command->options->count; i++)
            option_print_man(file, &command->options->rows[i]);
    }
}

void manual_print(FILE *file) {
    fputs(".TH SOUNDER 1 \"\" \"sounder " SOUNDER_VERSION "\" \"User Commands\"\n"
          ".SH NAME\n"
          "sounder \\- train one model with many processes on one machine\n"
          ".SH SYNOPSIS\n",
          file);
    print_synopsis(file);
    fputs(".SH DESCRIPTION\n", file);
    for (const Command *command = commands; command < commands + command_count; command++)
        if (command->purpose) fprintf(file, "\\fBsounder %s\\fR %s\n", command->name, command->purpose);
    fputs(".PP\n"
          "\\fIEXPERIMENT.yaml\\fR (or \\fB\\-\\fR, standard input) holds options as\n"
          "\\fBname: value\\fR lines with the names below; the command line wins.\n"
          ".SH OPTIONS\n",
          file);
    options_print_man(file);
    print_options(file);
    fputs(
        ".SH FILES\n"
        ".TP\n\\fIOUT\\fR/config.yaml\nthe effective configuration, which \\fBsounder train\\fR reads again\n"
        ".TP\n\\fIOUT\\fR/metrics.jsonl\none JSON object per round, per client and round, and for the summary\n"
        ".TP\n\\fIOUT\\fR/tensorboard/\nthe same data for \\fBtensorboard \\-\\-logdir\\fR \\fIOUT\\fR\n"
        ".TP\n\\fIOUT\\fR/model.safetensors\nthe trained model, with PyTorch's names and shapes\n"
        ".TP\n\\fIOUT\\fR/best.safetensors\nthe best model of all tests, by the figure that the run is about\n"
        ".TP\n\\fIOUT\\fR/checkpoints/\nstates from which \\fB\\-\\-resume\\fR continues\n"
        ".TP\n\\fIOUT\\fR/schedule.csv\nwith a buffered schedule, which client trained when\n"
        ".TP\n\\fIOUT\\fR/trainer.log\nwhat the programs of \\fB\\-\\-trainer\\fR and \\fB\\-\\-aggregator\\fR print\n"
        ".TP\n\\fIOUT\\fR/live/global.safetensors\nthe current weights, during the run\n"
        ".SH ENVIRONMENT\n",
        file);
    print_environment(file);
    fputs(".SH EXIT STATUS\n", file);
    print_exit_codes(file);
    fputs(".SH EXAMPLES\n", file);
    print_examples(file);
}

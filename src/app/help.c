// `sounder help`: everything that explains the program, with the options taken from the one table.
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "app/launch/launch_options.h"
#include "nn/zoo.h"
#include "app/options/options.h"
#include "base/suggest.h"

static void print_overview(FILE *file) {
    fputs("sounder " SOUNDER_VERSION ": trains one model with many processes on one machine\n"
          "\n"
          "Usage:\n"
          "  sounder train [EXPERIMENT.yaml] [--OPTION VALUE ...]   train a model; without options: LeNet on\n"
          "                                                         Fashion-MNIST, 3 rounds of federated averaging\n"
          "  sounder eval MODEL.safetensors [--OPTION VALUE ...]    loss and accuracy of a saved model\n"
          "  sounder launch [--OPTION VALUE ...] [--] PROGRAM ...   start any program as N ranks that talk, as\n"
          "                                                         torchrun does\n"
          "  sounder help [TOPIC]                                   train, eval, launch, models, man (the man page\n"
          "                                                         as troff), completion bash (a script)\n"
          "  sounder --version\n",
          file);
}

static void print_train(FILE *file) {
    fputs("Usage: sounder train [EXPERIMENT.yaml] [--OPTION VALUE ...]\n"
          "\n"
          "Trains one model with many processes and writes it, its checkpoints and its metrics into a folder.\n"
          "EXPERIMENT.yaml holds options as `name: value` lines; the command line wins. Defaults in brackets.\n"
          "\n",
          file);
    options_print_help(file);
    fputs("\n"
          "Examples:\n"
          "  sounder train --clients 100 --clients-per-round 10 --partition dirichlet --alpha 0.1 --rounds 50\n"
          "  sounder train --algorithm hogwild --workers 4\n"
          "  sounder train runs/first/config.yaml --lr 0.1 --out runs/second\n"
          "  sounder train --resume runs/first --rounds 10\n",
          file);
}

static void print_eval(FILE *file) {
    fputs("Usage: sounder eval MODEL.safetensors [--OPTION VALUE ...]\n"
          "\n"
          "Prints the loss and the accuracy of a saved model on a data set's test images. Defaults in brackets.\n"
          "\n",
          file);
    options_print_eval_help(file);
}

static void print_launch(FILE *file) {
    fputs("Usage: sounder launch [--OPTION VALUE ...] [--] PROGRAM [ARGUMENT ...]\n"
          "\n"
          "Starts N ranks of a program with torchrun's options and environment variables (RANK, WORLD_SIZE,\n"
          "LOCAL_RANK, MASTER_ADDR, MASTER_PORT, ...; OMP_NUM_THREADS is 1 unless it is set). A PROGRAM.py runs\n"
          "under python3 (or $PYTHON_EXEC). Each line that a rank prints is shown with its rank in front.\n"
          "\n"
          "When a rank fails, the others get SIGTERM and, after a time of grace, SIGKILL; the launcher exits with\n"
          "the code of the first that failed, or 128+n if signal n killed it. Ctrl-C is handed on, the second one\n"
          "kills. What a rank has started ends with it. With several machines a restart is each machine's own: the\n"
          "ranks of the others fail when they lose their peers, and start again as well. Defaults in brackets.\n"
          "\n",
          file);
    launch_options_print_help(file);
    fputs("\n"
          "Examples:\n"
          "  sounder launch -n 4 -- ./program --lr 0.1\n"
          "  sounder launch --standalone -n auto train.py\n"
          "  sounder launch -n 2 --nnodes 2 --node-rank 0 --master-addr node0 train.py     (rank 1 on the other)\n",
          file);
}

static void print_models(FILE *file) {
    fputs("The nets that --model knows by name, each a layer list that --model takes as well:\n", file);
    for (size_t i = 0; i < zoo_entry_count; i++)
        fprintf(file, "\n  %s: %s\n    \"%s\"\n", zoo_entries[i].name, zoo_entries[i].description, zoo_entries[i].text);
    fputs("\n"
          "Layers, separated by ';' (\"classes\" stands for the number of classes of the data):\n"
          "  conv CHANNELS KERNEL [pad P]   convolution of stride 1, square kernel, with bias\n"
          "  pool SIZE                      max pooling, window and stride SIZE\n"
          "  relu\n"
          "  dropout RATE, dropout2d RATE   elements or whole channels dropped in training\n"
          "  linear FEATURES                fully connected, with bias\n"
          "The last layer gives one output a class; softmax and cross-entropy follow by themselves.\n",
          file);
}

static void print_exit_codes(FILE *file) {
    static const struct {
        int code;
        const char *when;
    } statuses[] = {
#define X(name, code, when) {code, when},
        STATUS_LIST(X)
#undef X
    };
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
        fprintf(file, ".TP\n\\fB%d\\fR\n%s\n", statuses[i].code, statuses[i].when);
    fputs(".TP\n\\fB128+n\\fR\nsignal n asked the run to end; the round was finished and a checkpoint written\n", file);
}

static void print_man(FILE *file) {
    fputs(".TH SOUNDER 1 \"\" \"sounder " SOUNDER_VERSION "\" \"User Commands\"\n"
          ".SH NAME\n"
          "sounder \\- train one model with many processes on one machine\n"
          ".SH SYNOPSIS\n"
          ".B sounder train\n[\\fIEXPERIMENT.yaml\\fR] [\\fB\\-\\-option\\fR \\fIvalue\\fR ...]\n.br\n"
          ".B sounder eval\n\\fIMODEL.safetensors\\fR [\\fB\\-\\-option\\fR \\fIvalue\\fR ...]\n.br\n"
          ".B sounder launch\n[\\fB\\-\\-option\\fR \\fIvalue\\fR ...] [\\fB\\-\\-\\fR] \\fIPROGRAM\\fR "
          "[\\fIARGUMENT\\fR ...]\n.br\n"
          ".B sounder help\n[\\fItrain\\fR | \\fIeval\\fR | \\fIlaunch\\fR | \\fImodels\\fR | \\fIman\\fR | "
          "\\fIcompletion bash\\fR]\n"
          ".SH DESCRIPTION\n"
          "\\fBsounder train\\fR starts worker processes that share one model through shared memory: federated "
          "averaging over\n"
          "any number of clients, Hogwild, or synchronous SGD. The result is the same to the bit for any number of "
          "workers,\n"
          "and whatever workers die (Hogwild excepted). \\fBsounder eval\\fR prints the loss and the accuracy of a "
          "saved model.\n"
          "\\fBsounder launch\\fR starts any program, in C or Python, as ranks that find each other by torchrun's "
          "environment variables.\n"
          ".PP\n"
          "\\fIEXPERIMENT.yaml\\fR holds options as \\fBname: value\\fR lines with the names below; the command line "
          "wins.\n"
          ".SH OPTIONS\n",
          file);
    options_print_man(file);
    fputs(".SH OPTIONS OF SOUNDER LAUNCH\n", file);
    launch_options_print_man(file);
    fputs(".SH FILES\n"
          ".TP\n\\fIOUT\\fR/config.yaml\nthe effective configuration, which \\fBsounder train\\fR reads again\n"
          ".TP\n\\fIOUT\\fR/metrics.jsonl\none JSON object per round, per client and round, and for the summary\n"
          ".TP\n\\fIOUT\\fR/model.safetensors\nthe trained model, with PyTorch's names and shapes\n"
          ".TP\n\\fIOUT\\fR/checkpoints/\nwhat \\fB\\-\\-resume\\fR continues from\n"
          ".TP\n\\fIOUT\\fR/live/global.safetensors\nthe weights as they are now, while the run lives\n"
          ".SH ENVIRONMENT\n"
          ".TP\n\\fBSOUNDER_DATA\\fR\nwhere named data sets are looked for first\n"
          ".SH EXIT STATUS\n",
          file);
    print_exit_codes(file);
}

// The table travels inside the script, so that completing starts no program.
static void print_completion(FILE *file) {
    fputs("# bash completion for sounder\n"
          "_sounder_words='",
          file);
    options_print_words(file);
    launch_options_print_words(file);
    fputs("'\n"
          "_sounder() {\n"
          "    local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}\n"
          "    if [ \"$word\" = '=' ]; then word=; else [ \"$previous\" != '=' ] || "
          "previous=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
          "    COMPREPLY=()\n"
          "    if [ \"$COMP_CWORD\" = 1 ]; then\n"
          "        mapfile -t COMPREPLY < <(compgen -W 'train eval launch help --version --help' -- \"$word\")\n"
          "        return\n"
          "    fi\n"
          "    if [ \"$command\" = help ]; then\n"
          "        mapfile -t COMPREPLY < <(compgen -W 'train eval launch models man completion' -- \"$word\")\n"
          "        return\n"
          "    fi\n"
          "    local commands name values names=--help\n"
          "    while read -r commands name values; do\n"
          "        case ,$commands, in *,\"$command\",*) names+=\" $name\" ;; *) continue ;; esac\n"
          "        if [ \"$name\" = \"$previous\" ] && [ -n \"$values\" ]; then\n"
          "            mapfile -t COMPREPLY < <(compgen -W \"$values\" -- \"$word\")\n"
          "        fi\n"
          "    done <<<\"$_sounder_words\"\n"
          "    case $word in\n"
          "        -*) mapfile -t COMPREPLY < <(compgen -W \"$names\" -- \"$word\") ;;\n"
          "        *) [ ${#COMPREPLY[@]} -gt 0 ] || mapfile -t COMPREPLY < <(compgen -f -- \"$word\") ;;\n"
          "    esac\n"
          "}\n"
          "complete -o filenames -F _sounder sounder\n",
          file);
}

Status command_help(int argc, char **argv, Error *err) {
    static const struct {
        const char *name;
        void (*print)(FILE *file);
    } topics[] = {{"train", print_train},   {"eval", print_eval}, {"launch", print_launch},
                  {"models", print_models}, {"man", print_man},   {"completion", print_completion}};
    if (argc == 0) {
        print_overview(stdout);
        return STATUS_OK;
    }
    bool names_bash = argc == 2 && strcmp(argv[0], "completion") == 0 && strcmp(argv[1], "bash") == 0;
    if (argc > 1 && !names_bash) return fail(err, STATUS_USAGE, "help %.60s: one topic at a time", argv[1]);
    Suggestion suggestion = {.typed = argv[0]};
    for (size_t i = 0; i < sizeof topics / sizeof *topics; i++) {
        if (strcmp(argv[0], topics[i].name) == 0) {
            topics[i].print(stdout);
            return STATUS_OK;
        }
        suggestion_consider(&suggestion, topics[i].name);
    }
    return fail(err, STATUS_USAGE, "help %.60s: unknown topic; %s%s%s", argv[0],
                suggestion.best ? "did you mean " : "`sounder help` lists them", suggestion.best ? suggestion.best : "",
                suggestion.best ? "?" : "");
}

// Part of help.h: `sounder help aggregator`: what a user writes, which options go with it, and the protocol.
#include <stdio.h>

#include "app/help/help.h"
#include "app/options/option_table.h"

static const char example[] =
    "  # aggregator.py\n"
    "  import numpy as np, sounder                # tools/python\n"
    "\n"
    "  def combine(updates, turn):                # float32 (clients, weights): what each client changed\n"
    "      return np.median(updates, axis=0)      # the cohort's update\n"
    "\n"
    "  def server(weights, update, turn):         # optional: the new weights\n"
    "      velocity = turn.state[0]               # --aggregator-keeps 1\n"
    "      velocity[:] = 0.9 * velocity + update\n"
    "      return weights + velocity\n"
    "\n"
    "  sounder.aggregate(combine, server)\n"
    "\n"
    "  sounder train --aggregator \"python3 aggregator.py\" --aggregator-keeps 1 --data cifar10 --clients 100\n\n";

static const HelpEntry python[] = {
    {"updates",
     "one row per client whose update arrived, in ascending order of clients; the run's own memory, only for reading"},
    {"turn.clients, samples, steps", "of each row: the client's number, its training samples, the local steps it made"},
    {"turn.shares, losses", "of each row: what it counts in the mean of --algorithm, and the mean loss of its training "
                            "(nan if a trainer tells none, and under release, send noise and --dp-sgd, which hide it)"},
    {"turn.metrics",
     "{name: an array} of a trainer's own figures; nan where a client has none, and where losses are hidden"},
    {"turn.round, lr", "counted from 1; the clients' learning rate"},
    {"turn.weights, state", "the global weights, only for reading; (K, weights) floats of --aggregator-keeps K, zeros "
                            "at first, that the functions may write. Checkpoints have the state; whatever else the "
                            "program remembers is lost by --resume and by faults"},
    {"turn.options", "those of --aggregator-option, as numbers, true, false, or words"},
    {"turn.named(vector)", "{tensor: its part of the vector, in its shape}. Both functions may return such a dict"},
    {"turn.random, seed", "random numbers of this round; those of numpy.random, random and torch are seeded, too"},
    {"turn.progress()", "a sign of life, for work that takes longer than --hang-seconds"},
};

static const HelpEntry rules[] = {
    {"go with it", "clients of the engine and of --trainer, all options of data, partition, world, attack, compression "
                   "and tests. The server rule of --algorithm makes the step, unless the program has one"},
    {"noise", "of a release joins the update before the server rule; epsilon is not told, since it is unknown how far "
              "one client moves what the program makes"},
    {"are refused", "combine rules, mix, secagg, rules whose clients keep vectors (scaffold, feddyn), ssgd, hogwild, "
                    "buffered schedules, several nodes"},
    {"memory",
     "updates are stored side by side: 4 bytes per weight and client of a round, checked before the run begins"},
    {"faults", "a program that dies, hangs, raises, or returns what is not finite is started again and does the round "
               "again, to the same bits. A second fault in the round ends the run with its sentence; so do other files "
               "of the program at its second start"},
    {"--check-trainer", "combines made-up updates, others, and the first ones again, and these in a fresh process, and "
                        "names the first tensor that differs"},
    {"output", "stdout and stderr of the program go to RUN/trainer.log, line by line"},
    {"threads", "--trainer-threads, 1 by default: bits may depend on it, and do not depend on --workers"},
};

static const HelpEntry hello[] = {
    {"sounder, aggregator",
     "1 and 1: the version of these lines; seed, threads, parameters (floats in all tensors), options: as named"},
    {"desk", "{fd, bytes, answer, state, clients, shares, losses, samples, steps}: a file to map, and offsets in it in "
             "bytes. answer is f8 (parameters), state f4 (keeps, parameters), absent if keeps is 0; the others have "
             "one element per update: clients u4, shares and losses f8, samples and steps u8"},
    {"desk.metrics",
     "f8 (desk.metric_rows, most), with a trainer: the first rows are of the names in the turn's `metrics`"},
    {"weights", "{fd, offset}: the global weights, f4 (parameters), only for reading"},
    {"updates", "{fd, offset, stride}: the updates, f4; stride: bytes from one to the next"},
    {"most, keeps", "of updates in a round; of vectors in the state"},
    {"tensors", "[[name, shape], ...]: one after the other in every vector"},
    {"answer", "{\"ready\":1}, with \"server\":1 if the program steps the weights, and \"files\":[path, ...], its own "
               "files; or {\"error\":\"sentence\"}"},
};

static const HelpEntry asked[] = {
    {"turn", "its number, which the answer repeats"},
    {"task", "\"combine\": write the cohort's update to desk.answer. \"server\": desk.answer has the update, with "
             "noise; write the new weights there"},
    {"round, count, lr, seed", "count: updates of the round, the first ones in the memory; seed: 53 bits. metrics: the "
                               "names of the figures in desk.metrics, absent if there are none"},
};

void help_print_aggregator(FILE *file) {
    print_paragraph(file, 0,
                    "An aggregator is a program of yours that makes one update of the updates of a round, in any "
                    "language. Everything else stays: clients, attacks, faults, --resume, sweeps, reports, and the "
                    "same bits for any number of workers.");
    fputc('\n', file);
    fputs(example, file);
    help_print_entries(file, python, sizeof python / sizeof *python);
    print_paragraph(file, 0, "Options:");
    help_print_entries(file, rules, sizeof rules / sizeof *rules);
    print_paragraph(file, 0,
                    "Without Python: the run starts the command as it starts a trainer (sounder help trainer), with a "
                    "socket whose number is in $SOUNDER_TRAINER; a message is one line of JSON. The first line:");
    help_print_entries(file, hello, sizeof hello / sizeof *hello);
    print_paragraph(file, 0, "Then, again and again, a turn:");
    help_print_entries(file, asked, sizeof asked / sizeof *asked);
    print_paragraph(file, 0,
                    "The program answers {\"turn\":N}, or {\"error\":\"sentence\"}, with \"fatal\":1 if another try "
                    "would fail, too; {\"progress\":1} at any time is a sign of life.");
}

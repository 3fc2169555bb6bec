// Part of options.h: the rows of `sounder replay`.
#include "options.h"

#include <stddef.h>

#include "option_table.h"

#define FIELD(member) .offset = offsetof(ReplayOptions, member)

// clang-format off
static const Option rows[] = {
    {.name = "round", .type = OPTION_WHOLE, FIELD(round), .placeholder = "R", .derived = "must be given",
     .minimum = 1, .maximum = 1000000, .help = "round in which the client trained"},
    {.name = "client", .type = OPTION_WHOLE, FIELD(client), .placeholder = "K", .derived = "must be given",
     .minimum = 0, .maximum = 999999, .help = "number of the client, from 0"},
    {.name = "out", .type = OPTION_TEXT, FIELD(out), .placeholder = "FILE", .derived = "none",
     .help = "safetensors file that gets the update, tensor by tensor, and as \"losses\" the mean loss of every step"},
};
// clang-format on
enum { ROWS = sizeof rows / sizeof *rows };

const OptionTable replay_options = {.rows = rows, .count = ROWS, .command = "replay"};

Status replay_options_parse(ReplayOptions *options, int argc, char **argv, Error *err) {
    *options = (ReplayOptions){.client = -1};
    const char *seen[ROWS] = {NULL};
    for (int next = 0; next < argc;) {
        if (argv[next][0] != '-') {
            TRY(option_take_word(&options->run, argv[next++], "run", err));
            continue;
        }
        TRY(option_read_next(options, seen, &next, argc, argv, &replay_options, err));
    }
    if (options->run && options->round > 0 && options->client >= 0) return STATUS_OK;
    return fail(err, STATUS_USAGE,
                "sounder replay: needs a run, a round and a client; write sounder replay RUN --round R --client K");
}

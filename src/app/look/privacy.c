// Part of command.h: `sounder privacy` computes the epsilon of a noise, or the noise for an epsilon, without a run.
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/command.h"
#include "app/options/option_table.h"
#include "fedavg/rules/privacy/accountant.h"
#include "io/durable.h"
#include "io/json.h"

typedef struct PrivacyOptions {
    double rate, noise, epsilon, delta; // 0: not given
    int rounds;
    int cohorts; // Cohorts
    char events[OPTION_TEXT_BYTES];
} PrivacyOptions;

#define FIELD(member) .offset = offsetof(PrivacyOptions, member)

// clang-format off
static const Option rows[] = {
    {.name = "sampling-rate", .type = OPTION_REAL, FIELD(rate), .placeholder = "Q", .derived = "must be given",
     .minimum = 0, .above_minimum = true, .maximum = 1, .help = "the part of the clients that a round draws"},
    {.name = "rounds", .type = OPTION_WHOLE, FIELD(rounds), .placeholder = "N", .derived = "must be given",
     .minimum = 1, .maximum = 1000000000, .help = "how often that happens"},
    {.name = "noise", .type = OPTION_REAL, FIELD(noise), .placeholder = "Z", .derived = "what --epsilon takes",
     .minimum = 0, .above_minimum = true, .maximum = 1e6,
     .help = "deviation of the noise in the sum of a round's updates, in norms that these are clipped to"},
    {.name = "epsilon", .type = OPTION_REAL, FIELD(epsilon), .placeholder = "E", .derived = "what --noise spends",
     .minimum = 0, .above_minimum = true, .maximum = 1e4, .help = "what all rounds may spend: the noise is searched for"},
    {.name = "delta", .type = OPTION_REAL, FIELD(delta), .placeholder = "D", .preset = "1e-05",
     .minimum = 0, .above_minimum = true, .maximum = 0.5, .help = "the probability with which epsilon may not hold"},
    {.name = "cohorts", .type = OPTION_CHOICE, FIELD(cohorts), .placeholder = "KIND", .preset = "poisson",
     .choices = {"poisson", "fixed", "tree"},
     .help = "poisson: each client is drawn with probability Q, as by --sampling poisson, and it is hidden that it is there; "
             "fixed: as many clients in every round, as by --sampling uniform, and it is hidden which they are; "
             "tree: `release tree`, where each client comes at most once in 1/Q rounds"},
    {.name = "events", .type = OPTION_TEXT, FIELD(events), .placeholder = "FILE", .derived = "none",
     .help = "write what happens as JSON, for a tighter accountant, such as the PLD of dp-accounting; - is standard output"},
};
// clang-format on
enum { ROWS = sizeof rows / sizeof *rows };

const OptionTable privacy_options = {.rows = rows, .count = ROWS, .command = "privacy"};

enum { COHORTS_ROW = 5 };

static Status parse(PrivacyOptions *options, int argc, char **argv, Error *err) {
    *options = (PrivacyOptions){.delta = 1e-5};
    TRY(option_read_all(options, argc, argv, &privacy_options, err));
    if (options->rate == 0 || options->rounds == 0)
        return fail(err, STATUS_USAGE, "sounder privacy: needs --sampling-rate and --rounds");
    if ((options->noise > 0) == (options->epsilon > 0))
        return fail(err, STATUS_USAGE,
                    "sounder privacy: needs one of --noise and --epsilon: the other one is what it tells");
    return STATUS_OK;
}

// Writes one event per line:
// {"mechanism":"gaussian","cohorts":"poisson","sampling_rate":0.01,"noise_multiplier":1.1,"count":10000,"delta":1e-05}
static Status write_events(const PrivacyOptions *options, double noise, Error *err) {
    JsonObject event;
    char *text;
    size_t bytes;
    if (!options->events[0]) return STATUS_OK;
    json_begin(&event);
    put_text(&event, "mechanism", "gaussian");
    put_text(&event, "cohorts", rows[COHORTS_ROW].choices[options->cohorts]);
    put_real(&event, "sampling_rate", options->rate);
    put_real(&event, "noise_multiplier", noise);
    put_whole(&event, "count", options->rounds);
    put_real(&event, "delta", options->delta);
    TRY(json_text(&text, &bytes, &event, JSON_COMPACT | JSON_REAL_PRECISION(10), "--events", err));
    Status status = STATUS_OK;
    if (strcmp(options->events, "-") == 0)
        puts(text);
    else
        status = file_write(options->events, (FilePart[]){{text, bytes}, {"\n", 1}}, 2, err);
    free(text);
    return status;
}

static void print_spent(const PrivacyOptions *options, double noise) {
    double rdp[ACCOUNTANT_ORDERS] = {0};
    accountant_add(rdp, &(Mechanism){(Cohorts)options->cohorts, options->rate, noise}, options->rounds);
    const Spent spent = accountant_spent(rdp, options->delta);
    const Spent before = accountant_spent_as_before(rdp, options->delta);
    printf("epsilon %.6g at delta %g (Renyi, order %g)\n", spent.epsilon, options->delta, spent.order);
    printf("  between federations in which one client %s\n", cohorts_neighbouring[options->cohorts]);
    if (spent.at_an_end)
        printf("  order %g is the %s that is tried: another one might say less\n", spent.order,
               spent.order < 2 ? "first" : "last");
    printf("  by the conversion of papers before 2020: %.6g (order %g)\n", before.epsilon, before.order);
    if (options->rate == 1 && options->cohorts == COHORTS_POISSON)
        printf("  exactly: %.6g\n", gaussian_epsilon(noise / sqrt(options->rounds), options->delta));
}

Status command_privacy(int argc, char **argv, int *exit_code, Error *err) {
    (void)exit_code;
    PrivacyOptions options;
    TRY(parse(&options, argc, argv, err));
    double noise = options.noise;
    if (noise == 0) {
        TRY(accountant_noise(&noise, (Cohorts)options.cohorts, options.rate, options.rounds, options.epsilon,
                             options.delta, err));
        printf("noise %.6g\n", noise);
    }
    print_spent(&options, noise);
    return write_events(&options, noise, err);
}

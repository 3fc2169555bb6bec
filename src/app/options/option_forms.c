#include "option_forms.h"

#include <string.h>

#define LEAST_SHARE 1e-9 // least value of a share that must be above 0

// Copies the text after the colon; empty if the row has none.
static void take_text(char taken[OPTION_TEXT_BYTES], const Form *form, const FormTable *table) {
    const FormRow *row = &table->rows[form->row];
    memset(taken, 0, OPTION_TEXT_BYTES);
    for (int k = 0; k < FORM_MAX_KEYS && row->keys[k].name; k++)
        if (row->keys[k].type == FORM_TEXT) strcpy(taken, form_text(form, k));
}

// Each row is on as few lines as possible.
// clang-format off

// --sampling ----------------------------------------------------------------------------------------------------------

static const FormRow samplings[] = {
    [SAMPLING_UNIFORM] = {.name = "uniform", .help = "so many of all clients, each at most once"},
    [SAMPLING_POISSON] = {.name = "poisson", .help = "each client with the same probability, so that the number of clients is random"},
    [SAMPLING_BY_SIZE] = {.name = "by-size", .help = "by their samples",
     .keys = {{.name = "replacement", .type = FORM_CHOICE, .preset = "no", .choices = "no yes",
               .help = "with replacement: a client that is drawn twice counts twice"}}},
    [SAMPLING_POWER_OF_CHOICE] = {.name = "power-of-choice", .source = "Cho et al. 2020",
     .help = "the clients with the largest loss among candidates, which are drawn by size",
     .keys = {{.name = "candidates", .type = FORM_WHOLE, .minimum = 1, .maximum = 1e6, .preset = "",
               .help = "clients whose losses are compared; twice the clients per round unless given"},
              {.name = "by", .type = FORM_CHOICE, .preset = "data", .choices = "data batch last",
               .help = "data: the model's loss on all data of the client; batch: on one batch of it; last: the client's own loss "
                       "when it last trained, which costs nothing"}}},
    [SAMPLING_CYCLIC] = {.name = "cyclic", .help = "one group of clients after the other",
     .keys = {{.name = "shuffle", .type = FORM_CHOICE, .preset = "no", .choices = "no yes",
               .help = "deal the clients in another order in every cycle"}}},
    [SAMPLING_AVAILABLE] = {.name = "available", .help = "so many of the clients that are there",
     .keys = {{.name = "probability", .type = FORM_REAL, .minimum = LEAST_SHARE, .maximum = 1, .preset = "",
               .help = "that a client is there in a round; 1 unless given"},
              {.name = "FILE", .type = FORM_TEXT, .preset = "",
               .help = "when clients are there, in simulated seconds: lines of a client's number, begin and end"}}},
};

static void take_sampling(Options *options, const Form *form) {
    const FormTable *table = &sampling_form.table;
    World *world = &options->world;
    world->sampling = (int)form->row;
    world->replacement = form_number(form, table, "replacement", 0) != 0;
    world->candidates = (int)form_number(form, table, "candidates", 0);
    world->candidates_by = (int)form_number(form, table, "by", CANDIDATES_DATA);
    world->cycle_shuffle = form_number(form, table, "shuffle", 0) != 0;
    world->availability = form_number(form, table, "probability", 1);
    take_text(options->availability_file, form, table);
}

const OptionForm sampling_form = {{samplings, SAMPLING_COUNT, "sampling", "sampling", NULL}, take_sampling};

// --stragglers --------------------------------------------------------------------------------------------------------

static const FormRow stragglers[] = {
    {.name = "SHARE", .leads = true, .source = "Li et al. 2020", .help = "part of a round's clients that does not manage all local epochs",
     .keys = {{.name = "share", .type = FORM_REAL, .minimum = 0, .maximum = 1, .help = "SHARE, from 0 to 1"},
              {.name = "work", .type = FORM_CHOICE, .preset = "drop", .choices = "drop partial",
               .help = "drop: a straggler is left out; partial: it hands in after fewer epochs"}}},
};

static void take_stragglers(Options *options, const Form *form) {
    options->world.stragglers = form->number[0];
    options->world.straggler_work = (int)form->number[1];
}

const OptionForm stragglers_form = {{stragglers, 1, "part", "stragglers", NULL}, take_stragglers};

// --failures ----------------------------------------------------------------------------------------------------------

static const FormRow failures[] = {
    {.name = "none", .help = "no client fails"},
    {.name = "failures", .unnamed = true, .help = "a client works for a time that is exponentially distributed, is repaired, and works again",
     .keys = {{.name = "mtbf", .type = FORM_REAL, .minimum = 1e-3, .maximum = 1e9, .help = "mean seconds from a repair to the next failure"},
              {.name = "repair", .type = FORM_REAL, .minimum = 0, .maximum = 1e9, .preset = "0", .help = "seconds that a client is down"},
              {.name = "state", .type = FORM_CHOICE, .preset = "lost", .choices = "lost kept",
               .help = "lost: what a client keeps from turn to turn is lost with it; kept: it is on its disk"}}},
};

static void take_failures(Options *options, const Form *form) {
    const FormTable *table = &failures_form.table;
    options->world.failures = (Failures){.mtbf = form_number(form, table, "mtbf", 0),
                                         .repair = form_number(form, table, "repair", 0),
                                         .loses_state = form_number(form, table, "state", 0) == 0};
}

const OptionForm failures_form = {{failures, 2, "form of failures", "failures", NULL}, take_failures};

// --client-time -------------------------------------------------------------------------------------------------------

#define SECONDS(name_, preset_, help_) {.name = name_, .type = FORM_REAL, .minimum = 0, .maximum = 1e6, .preset = preset_, .help = help_}
#define MEAN(help_)                    SECONDS("mean", "1", help_)
#define DEVIATION(help_)               SECONDS("deviation", "1", help_)
#define MINIMUM                        SECONDS("minimum", "0", "the least seconds")
#define NOISE {.name = "noise", .type = FORM_REAL, .minimum = 0, .maximum = 100, .preset = "", \
               .help = "standard deviation of the logarithm of a factor that is drawn for each client and round; none unless given"}

static const FormRow client_times[] = {
    [CLIENT_TIME_CONSTANT] = {.name = "constant", .help = "the same for all clients", .keys = {MEAN("seconds"), NOISE}},
    [CLIENT_TIME_LOGNORMAL] = {.name = "lognormal", .help = "mean exp(N(0, deviation)) seconds",
     .keys = {MEAN("the median, in seconds"), DEVIATION("of the logarithm"), NOISE}},
    [CLIENT_TIME_LOGNORMAL_PER_SAMPLE] = {.name = "lognormal-per-sample", .source = "FedScale, Lai et al. 2022",
     .help = "the same for each sample of all epochs (FedScale's: mean=0.013591, that is 0.005 e, and deviation=0.6)",
     .keys = {MEAN("the median, in seconds"), DEVIATION("of the logarithm"), NOISE}},
    [CLIENT_TIME_HALF_NORMAL] = {.name = "half-normal", .source = "FedBuff, Nguyen et al. 2022", .help = "minimum + |N(0, deviation)| seconds",
     .keys = {DEVIATION("of the normal number"), MINIMUM, NOISE}},
    [CLIENT_TIME_UNIFORM] = {.name = "uniform", .help = "from minimum to 2 mean - minimum seconds", .keys = {MEAN("seconds"), MINIMUM, NOISE}},
    [CLIENT_TIME_EXPONENTIAL] = {.name = "exponential", .help = "an exponential distribution", .keys = {MEAN("seconds"), NOISE}},
    [CLIENT_TIME_PER_SAMPLE] = {.name = "per-sample", .help = "N(mean, deviation) seconds, but at least the minimum, for each sample of all epochs",
     .keys = {MEAN("seconds of a sample"), DEVIATION("of the normal number"), MINIMUM, NOISE}},
    [CLIENT_TIME_FILE] = {.name = "file", .help = "what a file says of each client",
     .keys = {NOISE,
              {.name = "FILE", .type = FORM_TEXT, .preset = "",
               .help = "a line for each client: its number, microseconds a sample (of training: FedScale counts three times those "
                       "of its files), bytes a second; and for joules watts while it trains, and watts while it receives or sends "
                       "(as many unless given)"}}},
};
// clang-format on

static void take_client_time(Options *options, const Form *form) {
    const FormTable *table = &client_time_form.table;
    World *world = &options->world;
    world->client_time = (int)form->row;
    world->time_mean = form_number(form, table, "mean", 1);
    world->time_deviation = form_number(form, table, "deviation", 1);
    world->time_minimum = form_number(form, table, "minimum", 0);
    world->time_noise = form_number(form, table, "noise", 0);
    take_text(options->client_file, form, table);
}

const OptionForm client_time_form = {{client_times, CLIENT_TIME_FILE + 1, "client time", "client-time", NULL},
                                     take_client_time};

// --cohort-schedule ---------------------------------------------------------------------------------------------------

// clang-format off
#define COHORT_FIRST {.name = "first", .type = FORM_WHOLE, .minimum = 1, .maximum = 1e6, .preset = "1", .help = "clients of the first round"}

static const FormRow cohort_schedules[] = {
    [COHORT_CONSTANT] = {.name = "constant", .help = "--clients-per-round in every round"},
    [COHORT_LINEAR] = {.name = "linear", .help = "in equal steps, up to --clients-per-round",
     .keys = {COHORT_FIRST,
              {.name = "rounds", .type = FORM_WHOLE, .minimum = 2, .maximum = 1e6, .preset = "10", .help = "the first round with all of --clients-per-round"}}},
    [COHORT_STEP] = {.name = "step", .help = "times factor after every few rounds, up to --clients-per-round",
     .keys = {COHORT_FIRST,
              {.name = "every", .type = FORM_WHOLE, .minimum = 1, .maximum = 1e6, .preset = "10", .help = "rounds between two rises"},
              {.name = "factor", .type = FORM_REAL, .minimum = 1, .maximum = 1000, .preset = "2", .help = "what the number is multiplied by"}}},
};
// clang-format on

static void take_cohort_schedule(Options *options, const Form *form) {
    const FormTable *table = &cohort_schedule_form.table;
    CohortSchedule *cohort = &options->world.cohort;
    cohort->kind = form->row;
    cohort->first = (uint32_t)form_number(form, table, "first", 0);
    cohort->rounds = (uint32_t)form_number(form, table, form->row == COHORT_STEP ? "every" : "rounds", 0);
    cohort->factor = form_number(form, table, "factor", 0);
}

const OptionForm cohort_schedule_form = {
    {cohort_schedules, COHORT_STEP + 1, "cohort schedule", "cohort-schedule", NULL}, take_cohort_schedule};

// --lr-schedule -------------------------------------------------------------------------------------------------------

#define GAMMA(preset_)                                                                                                 \
    {                                                                                                                  \
        .name = "gamma", .type = FORM_REAL, .minimum = LEAST_SHARE, .maximum = 1, .preset = preset_,                   \
        .help = "what the learning rate is multiplied by"                                                              \
    }

// clang-format off
static const FormRow lr_schedules[] = {
    [LR_CONSTANT] = {.name = "constant", .help = "--lr in every round"},
    [LR_STEP] = {.name = "step", .help = "times gamma every so many rounds",
     .keys = {{.name = "every", .type = FORM_WHOLE, .minimum = 1, .maximum = 1e6, .preset = "10", .help = "rounds between two falls"},
              GAMMA("0.1")}},
    [LR_EXPONENTIAL] = {.name = "exponential", .help = "times gamma in each round", .keys = {GAMMA("0.99")}},
    [LR_COSINE] = {.name = "cosine", .help = "along half a wave of the cosine",
     .keys = {{.name = "minimum", .type = FORM_REAL, .minimum = 0, .maximum = 1000, .preset = "0", .help = "where it ends, at most --lr"},
              {.name = "rounds", .type = FORM_WHOLE, .minimum = 1, .maximum = 1e6, .preset = "",
               .help = "until it ends, --warm-up and all; as many as --rounds unless given, more lets the run go on later"}}},
};
// clang-format on

static void take_lr_schedule(Options *options, const Form *form) {
    const FormTable *table = &lr_schedule_form.table;
    LrSchedule *schedule = &options->training.schedule;
    schedule->kind = form->row;
    schedule->step = (uint32_t)form_number(form, table, "every", 10);
    schedule->gamma = form_number(form, table, "gamma", 0);
    schedule->minimum = form_number(form, table, "minimum", 0);
    schedule->rounds = (uint32_t)form_number(form, table, "rounds", 0);
}

const OptionForm lr_schedule_form = {{lr_schedules, LR_COSINE + 1, "schedule", "lr-schedule", NULL}, take_lr_schedule};

// --dp-sgd ------------------------------------------------------------------------------------------------------------

// clang-format off
static const FormRow dp_sgds[] = {
    {.name = "none", .help = "gradients of whole batches"},
    {.name = "DP-SGD", .unnamed = true, .source = "Abadi et al., CCS 2016", .help = "clipped gradients of single samples, and noise",
     .keys = {{.name = "clip", .type = FORM_REAL, .minimum = LEAST_SHARE, .maximum = 1e6, .help = "the largest length of a sample's gradient"},
              {.name = "noise", .type = FORM_REAL, .minimum = 0, .maximum = 1e6,
               .help = "deviation of the noise in the sum of a batch's gradients, in clips (Opacus' noise_multiplier)"},
              {.name = "delta", .type = FORM_REAL, .minimum = 1e-15, .maximum = 0.5, .preset = "1e-05",
               .help = "the probability with which epsilon may not hold"}}},
};
// clang-format on

static void take_dp_sgd(Options *options, const Form *form) {
    const FormTable *table = &dp_sgd_form.table;
    options->training.privacy = (SamplePrivacy){.clip = form_number(form, table, "clip", 0),
                                                .noise = form_number(form, table, "noise", 0),
                                                .delta = form_number(form, table, "delta", 0)};
}

const OptionForm dp_sgd_form = {{dp_sgds, 2, "form of DP-SGD", "dp-sgd", NULL}, take_dp_sgd};

#include "run_budget.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "fedavg/rules/rule_text.h"

#define BOUND(key)                                                                                                     \
    { .name = key, .preset = NAN, .minimum = 1e-9, .maximum = 1e18, .derived = "none" }

static const RuleText until = {"until",
                               "the end of a run",
                               "",
                               {[BUDGET_TOKENS] = BOUND("tokens"),
                                [BUDGET_BYTES] = BOUND("bytes"),
                                [BUDGET_SIMULATED] = BOUND("simulated-seconds"),
                                [BUDGET_JOULES] = BOUND("joules"),
                                [BUDGET_SECONDS] = BOUND("seconds")}};

static Status read_text(Budget *budget, const char *text, Error *err) {
    RuleWords of = {.whole = text, .number = 1};
    Chosen chosen;
    rule_choose(&chosen, &until, 0);
    if (strcmp(text, "none") != 0) {
        TRY(rule_text_split(&of, text, strlen(text), err));
        if (!strchr(of.words[0], '=')) return fail(err, STATUS_USAGE, "write it as NAME=VALUE, such as tokens=1e6");
        TRY(rule_text_numbers(&chosen, &until, &of, 0, err));
    }
    memcpy(budget->most, chosen.number, sizeof budget->most);
    return STATUS_OK;
}

static bool has(const Budget *budget, int which) {
    return !isnan(budget->most[which]);
}

static Status check(const Budget *budget, const Options *options, Error *err) {
    const bool of_cohorts = has(budget, BUDGET_BYTES) || has(budget, BUDGET_SIMULATED) || has(budget, BUDGET_JOULES);
    if (has(budget, BUDGET_TOKENS) && !options->trainer[0])
        return options_refuse(options, "until", err,
                              " tokens=%g: only a --trainer counts tokens; take bytes=, simulated-seconds= or joules=",
                              budget->most[BUDGET_TOKENS]);
    if (of_cohorts && options_algorithm(options).engine->whole_cohort)
        return options_refuse(options, "until", err,
                              " %.60s: --algorithm %.60s draws no clients, whose bytes, time and energy would count; "
                              "take seconds=",
                              options->until, options->algorithm);
    if (of_cohorts && options_hide_cohorts(options))
        return options_refuse(options, "until", err,
                              " %.60s: --noise-key system keeps secret what cohorts cost; leave one of the two out",
                              options->until);
    if (options->resume[0] || options_given(options, "rounds")) return STATUS_OK;
    return options_refuse(options, "until", err,
                          " %.60s: needs --rounds, the most rounds that it may take; add --rounds 1000",
                          options->until);
}

Status budget_read(Budget *budget, const Options *options, Error *err) {
    Error why;
    for (int i = 0; i < BUDGET_NUMBERS; i++)
        budget->most[i] = NAN;
    if (!options->until[0]) return STATUS_OK;
    const Status status = read_text(budget, options->until, &why);
    TRY(options_blame(options, "until", ": ", status, &why, err));
    for (int i = 0; i < BUDGET_NUMBERS; i++)
        if (has(budget, i)) return check(budget, options, err);
    return STATUS_OK;
}

bool budget_is_spent(const Budget *budget, const WorldTotals *totals) {
    const double spent[] = {[BUDGET_TOKENS] = (double)totals->tokens,
                            [BUDGET_BYTES] = (double)(totals->down_bytes + totals->up_bytes),
                            [BUDGET_SIMULATED] = (double)totals->microseconds * 1e-6,
                            [BUDGET_JOULES] = totals->training_joules + totals->link_joules};
    for (size_t i = 0; i < sizeof spent / sizeof *spent; i++)
        if (spent[i] >= budget->most[i]) return true;
    return false;
}

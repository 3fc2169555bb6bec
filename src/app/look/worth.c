// Part of command.h: `sounder worth` tells what each client of a run has contributed, by training the run again
// without some of them (--without), as a sweep.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/command.h"
#include "app/look/coalitions.h"
#include "app/look/run_clients.h"
#include "app/look/sweep_jobs.h"
#include "app/look/table.h"
#include "app/train/run_trust.h"
#include "base/log.h"
#include "base/owned.h"
#include "base/text.h"

typedef struct Worth {
    LookOptions options;
    PastRun run;       // owned
    RunFigure figure;  // accuracy or loss, on the test set
    uint8_t *absent;   // (clients): 1 for those that the run itself is without
    uint32_t *players; // (player_count): all others
    size_t player_count;
    Owned owned; // the two
    Coalitions coalitions;
} Worth;

static void free_worth(Worth *worth) {
    coalitions_free(&worth->coalitions);
    owned_free(&worth->owned);
    past_run_free(&worth->run);
}

static bool is_loss(const Worth *worth) {
    return run_figure_has(&worth->figure, FIGURE_FALLS);
}

// More is better; accuracies in percent.
static double value_of(const Worth *worth, const PastRun *run) {
    const double value = run_figure_in(run->values, &worth->figure);
    return is_loss(worth) ? -value : 100 * value;
}

static Status refuse_figure(const Worth *worth, const char *path, Error *err) {
    char name[RUN_FIGURE_NAME_BYTES];
    return fail(err, STATUS_USAGE, "%.200s has no %s on the test set; give --figure %s", path,
                run_figure_name(name, &worth->figure), is_loss(worth) ? "accuracy" : "loss");
}

// Without an accuracy the loss is taken, unless the accuracy was asked for.
static Status choose_figure(Worth *worth, Error *err) {
    const char *path = worth->options.folders[0];
    if (worth->run.state != RUN_FINISHED)
        return fail(err, STATUS_USAGE, "%.200s: the run is not finished; finish it with sounder train --resume %.200s",
                    path, path);
    const RunFigure accuracy = run_figure_of_key("test_accuracy");
    const bool has_accuracy = !isnan(run_figure_in(worth->run.values, &accuracy));
    const int asked = worth->options.figure;
    worth->figure =
        asked == WORTH_LOSS || (asked == WORTH_BY_RUN && !has_accuracy) ? run_figure_loss(&accuracy) : accuracy;
    return isnan(value_of(worth, &worth->run)) ? refuse_figure(worth, path, err) : STATUS_OK;
}

static Status find_players(Worth *worth, Error *err) {
    const Options *of = &worth->run.options;
    const uint32_t clients = (uint32_t)of->clients;
    worth->absent = own(&worth->owned, clients, 1);
    worth->players = own(&worth->owned, clients, sizeof *worth->players);
    uint8_t *new_clients = own(&worth->owned, clients, 1);
    if (worth->owned.lacks_memory) return fail(err, STATUS_OS, "no memory for a list of %u clients", clients);
    if (of->without[0]) TRY(options_choose_absent(worth->absent, of, err));
    if (of->new_clients[0]) TRY(options_choose_new(new_clients, of, err));
    for (uint32_t client = 0; client < clients; client++)
        if (!worth->absent[client] && !new_clients[client]) worth->players[worth->player_count++] = client;
    if (worth->player_count < 2)
        return fail(err, STATUS_USAGE, "%.200s has %zu client; what one is worth shows beside others",
                    worth->options.folders[0], worth->player_count);
    if (options_clock_is_real(of))
        return fail(err, STATUS_USAGE,
                    "%.200s: two runs with --clock real differ by what the machine does, too; give one with --clock "
                    "simulated",
                    worth->options.folders[0]);
    if (worth->options.samples > 0 && options_algorithm(of).engine->buffers)
        return fail(err, STATUS_USAGE,
                    "--samples %d: a Shapley value begins with a run without all clients, and schedule buffered waits "
                    "for one; give --samples 0, which leaves out one at a time",
                    worth->options.samples);
    return coalitions_plan(&worth->coalitions, worth->players, worth->player_count, clients, worth->absent,
                           (size_t)worth->options.samples, err);
}

// Runs --------------------------------------------------------------------------------------------------------------

// The first coalition is the run itself. All others are trained, in order, so that a plan with more samples finds the
// runs of one with fewer under their names.
static Status plan_runs(SweepPlan *plan, const Coalitions *coalitions, const char *experiment, Error *err) {
    *plan = (SweepPlan){.experiment = experiment, .search = SWEEP_LIST};
    for (size_t i = 1; i < coalitions->count; i++)
        TRY(sweep_plan_add(plan, option_find("without"), coalitions->all[i].without, err));
    TRY(sweep_plan_add(plan, option_find("tensorboard"), "false", err));
    return sweep_plan_finish(plan, err);
}

// A coalition whose rounds were all lost has the value of the untrained model, and the table does not tell it. The
// coalition of no clients does not count.
static void warn_of_idle(const Worth *worth, size_t idle) {
    const Coalitions *coalitions = &worth->coalitions;
    const size_t others = coalitions->count - (coalitions->is_exact || coalitions->samples > 0);
    if (idle > 0)
        log_warning("%zu of %zu coalitions learned nothing, since in each round too few of their clients arrived for "
                    "--algorithm %s: their values are that of the untrained model",
                    idle, others, worth->run.options.algorithm);
}

// *missing: the runs that are not done.
static Status read_values(size_t *missing, Worth *worth, const SweepPlan *plan, Error *err) {
    Coalition *all = worth->coalitions.all;
    Job *jobs;
    size_t idle = 0;
    const uint32_t none = worth->coalitions.before[0]; // the coalition of no clients; without permutations 0
    Status status = sweep_jobs_make(&jobs, plan, worth->options.out, 1, err);
    *missing = 0;
    all[0].value = value_of(worth, &worth->run);
    for (size_t i = 0; i < plan->count && status == STATUS_OK; i++) {
        PastRun run;
        if (!sweep_job_read(&run, &jobs[i])) {
            ++*missing;
            continue;
        }
        all[i + 1].value = value_of(worth, &run);
        idle += run.idle == run.rounds && none != i + 1;
        past_run_free(&run);
        if (isnan(all[i + 1].value)) status = refuse_figure(worth, jobs[i].folder, err);
    }
    sweep_jobs_free(jobs, plan->count);
    if (status == STATUS_OK && *missing == 0) warn_of_idle(worth, idle);
    return status;
}

// The table ---------------------------------------------------------------------------------------------------------

typedef struct Row {
    uint32_t client;
    Share share;
} Row;

// By the Shapley value, or without one by what is lost when the client is left out; the most valuable first.
static int by_worth(const void *a, const void *b) {
    const Row *x = a, *y = b;
    const double left = isnan(x->share.shapley) ? x->share.left_out : x->share.shapley,
                 right = isnan(y->share.shapley) ? y->share.left_out : y->share.shapley;
    if (left != right) return left > right ? -1 : 1;
    return (x->client > y->client) - (x->client < y->client);
}

// "Shapley value %" with the key shapley_percent, of points of accuracy; or "Shapley value" with shapley_loss.
static size_t add_column(Table *table, const Worth *worth, const char *title, const char *key) {
    char name[COLUMN_NAME_BYTES], unit[COLUMN_NAME_BYTES];
    snprintf(name, sizeof name, "%s%s", title, is_loss(worth) ? "" : " %");
    snprintf(unit, sizeof unit, "%s_%s", key, is_loss(worth) ? "loss" : "percent");
    return table_add_column(table, name, unit, is_loss(worth) ? 4 : 2);
}

static Status print_shares(const Worth *worth, Error *err) {
    const Coalitions *coalitions = &worth->coalitions;
    Row *rows = calloc(worth->player_count, sizeof *rows);
    if (!rows) return fail(err, STATUS_OS, "no memory for a table of %zu clients", worth->player_count);
    for (size_t i = 0; i < worth->player_count; i++)
        rows[i] = (Row){.client = worth->players[i], .share = coalitions_share(coalitions, i)};
    qsort(rows, worth->player_count, sizeof *rows, by_worth);
    Table table = {0};
    const ClientColumn client = client_column_add(&table, &worth->run);
    const size_t shapley = add_column(&table, worth, "Shapley value", "shapley"),
                 error = add_column(&table, worth, "standard error", "shapley_standard_error"),
                 left_out = add_column(&table, worth, "leave-one-out", "leave_one_out");
    for (size_t i = 0; i < worth->player_count; i++) {
        table_add_row(&table);
        client_column_put(&table, &client, &worth->run, rows[i].client);
        table_put_number(&table, shapley, rows[i].share.shapley);
        table_put_number(&table, error, rows[i].share.error);
        table_put_number(&table, left_out, rows[i].share.left_out);
    }
    table_drop_empty(&table);
    const Status status = table_print(stdout, &table, (TableFormat)worth->options.format, err);
    table_free(&table);
    free(rows);
    return status;
}

// The Shapley values sum to what all clients together add to the untrained model, in every sample.
static void print_sum(const Worth *worth) {
    const Coalitions *coalitions = &worth->coalitions;
    const bool falls = is_loss(worth);
    const int decimals = falls ? 4 : 2;
    const char *unit = falls ? "" : "%", *name = falls ? "loss" : "accuracy";
    const double sign = falls ? -1 : 1, all = sign * coalitions->all[0].value;
    char from[64];
    if (coalitions->samples == 0 && !coalitions->is_exact) {
        printf("\nleave-one-out: by how much the %s of %.*f%s would %s without the client, exactly, for this seed\n",
               name, decimals, all, unit, falls ? "rise" : "fall");
        return;
    }
    snprintf(from, sizeof from, coalitions->is_exact ? "all %zu coalitions, exact" : "%zu permutations, not truncated",
             coalitions->is_exact ? coalitions->count : coalitions->samples);
    printf("\nShapley values, from %s; they sum to what training adds: %s %.*f%s without clients, %.*f%s with all\n",
           from, name, decimals, sign * coalitions->all[coalitions->before[0]].value, unit, decimals, all, unit);
    puts(coalitions->samples > 1
             ? "for this seed alone: the standard error is over the orders of the clients, not over seeds"
             : "for this seed alone");
}

static Status tell(Worth *worth, const SweepPlan *plan, int exit_code, Error *err) {
    size_t missing;
    char run[SHELL_WORD_BYTES], out[SHELL_WORD_BYTES];
    TRY(read_values(&missing, worth, plan, err));
    if (missing > 0 && exit_code != 0) return STATUS_OK; // the sweep has said why
    if (missing > 0)
        return fail(err, STATUS_USAGE,
                    "%zu of %zu runs in %.200s are not done; sounder worth %.200s --samples %d --out %.200s does them",
                    missing, plan->count, worth->options.out, shell_path(run, worth->options.folders[0]),
                    worth->options.samples, shell_path(out, worth->options.out));
    const bool speaks = worth->options.format == TABLE_TEXT;
    if (speaks) puts("");
    TRY(print_shares(worth, err));
    if (speaks) print_sum(worth);
    if (speaks && past_run_tells_epsilon(&worth->run))
        printf(
            "epsilons add up: each of %zu runs spends that of %.200s, and a table of all their values spends the sum\n",
            plan->count, worth->options.folders[0]);
    return STATUS_OK;
}

// Coalitions are trained on the files of today: beside a run of others their differences mean nothing.
static Status check_inputs(const Worth *worth, Error *err) {
    InputChange change;
    InputsToday today = {0};
    const bool changed = past_run_changed(&change, &worth->run, &today);
    inputs_today_free(&today);
    if (!changed) return STATUS_OK;
    return run_input_refuse(&change, worth->options.folders[0], ", or train the run again", STATUS_USAGE, err);
}

static Status find_worth(Worth *worth, int *exit_code, Error *err) {
    char experiment[OPTION_TEXT_BYTES + 16];
    LookOptions *options = &worth->options;
    SweepPlan plan;
    TRY(choose_figure(worth, err));
    TRY(find_players(worth, err));
    TRY(check_inputs(worth, err));
    snprintf(experiment, sizeof experiment, "%s/config.yaml", options->folders[0]);
    if (!options->out[0]) {
        char path[OPTION_TEXT_BYTES];
        snprintf(path, sizeof path, "%s", options->folders[0]);
        for (size_t end = strlen(path); end > 1 && path[end - 1] == '/'; end--)
            path[end - 1] = '\0';
        const char *last = strrchr(path, '/');
        snprintf(options->out, sizeof options->out, "worth/%.1000s", last ? last + 1 : path);
    }
    if (!options->dry_run) TRY(run_trust_programs(options->folders[0], true, err));
    Status status = plan_runs(&plan, &worth->coalitions, experiment, err);
    if (status == STATUS_OK && options->format == TABLE_TEXT) {
        if (!options->dry_run)
            printf("%zu clients: %zu runs of about %.1f s  ->  %s\n", worth->player_count, plan.count,
                   worth->run.seconds, options->out);
        status = sweep_run(&plan, options, false, exit_code, err);
    }
    if (status == STATUS_OK && !options->dry_run) status = tell(worth, &plan, *exit_code, err);
    sweep_plan_free(&plan);
    return status;
}

Status command_worth(int argc, char **argv, int *exit_code, Error *err) {
    Worth *worth = calloc(1, sizeof *worth); // options take kilobytes
    if (!worth) return fail(err, STATUS_OS, "no memory for the options of a run");
    Status status = look_options_parse(&worth->options, command_find("worth"), argc, argv, err);
    if (status == STATUS_OK) status = past_run_read(&worth->run, worth->options.folders[0], err);
    if (status == STATUS_OK) {
        status = find_worth(worth, exit_code, err);
        free_worth(worth);
    }
    free(worth);
    return status;
}

// Part of command.h: `sounder reproduce` repeats the runs behind published figures and checks whether the figures
// agree.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/command.h"
#include "app/look/published.h"
#include "app/look/sweep_jobs.h"
#include "app/look/table.h"
#include "base/embed.h"
#include "base/file.h"
#include "base/spread.h"

// The files of tools/recipes.
#define RECIPE_LIST(X)     X(a1) X(a1_attacks) X(a1_backdoor) X(a1_fedper) X(a2) X(m1) X(m3) X(m4) X(m6) X(s1) X(s3) X(s4)
#define EMBED_RECIPE(name) EMBED(recipe_##name, RECIPES "/" #name ".yaml");
RECIPE_LIST(EMBED_RECIPE)

#define ROW(name) {#name, recipe_##name},
static const struct { const char *name, *text; } recipes[] = {RECIPE_LIST(ROW)};
enum { RECIPE_COUNT = sizeof recipes / sizeof *recipes };

// Writes "about 2.0 hours of a core" to the caller's cost (COST_BYTES) and returns it.
enum { COST_BYTES = 64 };
static const char *tell_cost(char *cost, const Published *published, int seeds) {
    const double minutes = published->minutes * (double)published->cell_count * seeds;
    snprintf(cost, COST_BYTES, minutes < 90 ? "about %.0f minute%s of a core" : "about %.1f hour%s of a core",
             minutes < 90 ? ceil(minutes) : minutes / 60, minutes > 0 && minutes <= 1 ? "" : "s");
    return cost;
}

static Status list_recipes(Error *err) {
    for (size_t i = 0; i < RECIPE_COUNT; i++) {
        Published published;
        char cost[COST_BYTES], facts[COST_BYTES + 128];
        TRY(published_parse(&published, recipes[i].name, recipes[i].text, err));
        snprintf(facts, sizeof facts, "%zu figure%s, %d seeds published; 3 seeds of each: %s", published.cell_count,
                 published.cell_count == 1 ? "" : "s", published.seeds, tell_cost(cost, &published, 3));
        printf("  %s\n", recipes[i].name);
        print_paragraph(stdout, 6, published.title);
        print_paragraph(stdout, 6, facts);
        published_free(&published);
    }
    puts("\nsounder reproduce NAME runs one; sounder reproduce NAME --dry-run prints its commands.");
    return STATUS_OK;
}

// Finds a recipe by its name in the list, or reads a file into *file (the caller frees it; NULL for a name).
static Status find_recipe(const char **text, char **file, const char *name, Error *err) {
    enum { MOST_BYTES = 1 << 18 };
    *file = NULL;
    for (size_t i = 0; i < RECIPE_COUNT; i++) {
        *text = recipes[i].text;
        if (strcmp(name, recipes[i].name) == 0) return STATUS_OK;
    }
    if (access(name, F_OK) != 0 && !strchr(name, '.'))
        return fail(err, STATUS_USAGE, "%.200s: there is no such recipe; sounder reproduce lists them", name);
    FILE *source;
    TRY(regular_file_open(&source, name, err));
    *text = *file = calloc(1, MOST_BYTES);
    const size_t count = *file ? fread(*file, 1, MOST_BYTES, source) : 0;
    fclose(source);
    if (!*file) return fail(err, STATUS_OS, "no memory for the recipe %.200s", name);
    if (count > 0 && count < MOST_BYTES) return STATUS_OK;
    free(*file);
    return fail(err, STATUS_DATA, "the recipe %.200s is empty, or larger than 256 KiB", name);
}

// The runs ------------------------------------------------------------------------------------------------------------

// Makes a list sweep: options shared by all runs have one value each, the others and the seed one value per run.
static Status plan_runs(SweepPlan *plan, const Published *published, int seeds, Error *err) {
    *plan = (SweepPlan){.search = SWEEP_LIST};
    for (size_t i = 0; i < published->option_count; i++)
        TRY(sweep_plan_add(plan, published->options[i], published->values[i], err));
    for (size_t cell = 0; cell < published->cell_count; cell++)
        for (int s = 0; s < seeds; s++) {
            char seed[32];
            snprintf(seed, sizeof seed, "%d", published->first_seed + s);
            for (size_t i = 0; i < published->over_count; i++)
                TRY(sweep_plan_add(plan, published->over[i], published->cells[cell].values[i], err));
            TRY(sweep_plan_add(plan, option_find("seed"), seed, err));
        }
    return sweep_plan_finish(plan, err);
}

// The figures ---------------------------------------------------------------------------------------------------------

// Summarizes a figure over the finished runs of a cell. jobs: one per seed.
static Spread measure_cell(const Job *jobs, int seeds, const Measure *measure) {
    Spread ours = {0};
    for (int s = 0; s < seeds; s++) {
        PastRun run;
        if (!sweep_job_read(&run, &jobs[s])) continue;
        const double figure = measure->scale * past_run_number(run.values, measure->key);
        past_run_free(&run);
        if (!isnan(figure)) spread_add(&ours, figure);
    }
    return ours;
}

// The mean of few runs scatters, too, so the band is the one of a difference of means.
static void judge(char *verdict, size_t bytes, const Published *published, const PublishedCell *cell,
                  const Spread *ours) {
    verdict[0] = '\0';
    if (ours->count == 0 || isnan(cell->figure)) return;
    const char *side = ours->mean > cell->figure ? "above" : "below";
    if (published->measure->is_time) {
        const bool less = ours->mean < cell->figure;
        snprintf(verdict, bytes, "%.0f times %s", less ? cell->figure / ours->mean : ours->mean / cell->figure,
                 less ? "less" : "as long");
    } else if (!isnan(published->factor)) {
        const double times = fmax(ours->mean / cell->figure, cell->figure / ours->mean);
        snprintf(verdict, bytes, times <= published->factor ? "within" : "%s: %.1f times", side, times);
    } else if (!isnan(cell->deviation)) {
        const double deviations =
            fabs(ours->mean - cell->figure) / (cell->deviation * sqrt(1 + 1.0 / (double)ours->count));
        snprintf(verdict, bytes, deviations <= published->deviations ? "within" : "%s: %.1f deviations", side,
                 deviations);
    }
}

static bool draws_secret_noise(const Published *published) {
    for (size_t i = 0; i < published->option_count; i++)
        if (published->options[i] == option_find("noise-key") && strcmp(published->values[i], "system") == 0)
            return true;
    return false;
}

static Status print_figures(const Job *jobs, const Published *published, const LookOptions *options, Error *err) {
    Table table = {0};
    for (size_t i = 0; i < published->over_count; i++)
        table_add_values(&table, published->over[i]->name);
    const int decimals = published->measure->decimals;
    const size_t theirs = table_add_column(&table, "published", "published", decimals);
    const size_t own = table_add_column(&table, "ours", "ours", decimals);
    const size_t runs = table_add_column(&table, "runs", "runs", 0),
                 verdicts = table_add_column(&table, "", "verdict", -1);
    table_set_room(&table, verdicts, ROOM_WHOLE);
    int within = 0, judged = 0;
    size_t lacking = published->cell_count * (size_t)options->seeds;
    for (size_t c = 0; c < published->cell_count; c++) {
        const PublishedCell *cell = &published->cells[c];
        const Spread ours = measure_cell(jobs + c * (size_t)options->seeds, options->seeds, published->measure);
        char verdict[64];
        lacking -= ours.count;
        judge(verdict, sizeof verdict, published, cell, &ours);
        judged += *verdict && !published->measure->is_time;
        within += strcmp(verdict, "within") == 0;
        table_add_row(&table);
        for (size_t i = 0; i < published->over_count; i++)
            table_put_text(&table, i, cell->values[i]);
        if (!isnan(cell->figure)) table_put_spread(&table, theirs, cell->figure, cell->deviation);
        if (ours.count > 0) table_put_spread(&table, own, ours.mean, spread_deviation(&ours));
        table_put_number(&table, runs, (double)ours.count);
        table_put_text(&table, verdicts, verdict);
    }
    table_drop_empty(&table);
    const bool speaks = options->format == TABLE_TEXT || options->format == TABLE_MARKDOWN;
    if (speaks) {
        printf("\n%s\n", published->title);
        if (published->note) print_paragraph(stdout, 0, published->note);
        printf("%s; published: %s\n\n", published->measure->title, published->source);
    }
    Status status = table_print(stdout, &table, (TableFormat)options->format, err);
    table_free(&table);
    if (status == STATUS_OK && speaks && judged > 0) printf("\n%d of %d figures within the band\n", within, judged);
    if (status == STATUS_OK && speaks && draws_secret_noise(published))
        puts("\n--noise-key system: these figures repeat from no seed");
    if (status == STATUS_OK && speaks && lacking > 0)
        printf("\n%zu runs have no figure: they are not done, or have not reached the target\n", lacking);
    return status;
}

static Status reproduce(const Published *published, LookOptions *options, int *exit_code, Error *err) {
    SweepPlan plan;
    Job *jobs;
    char cost[COST_BYTES];
    if (options->seeds > published->seeds)
        return fail(err, STATUS_USAGE, "--seeds %d: the publication has %d; with more there is nothing to compare",
                    options->seeds, published->seeds);
    Status status = plan_runs(&plan, published, options->seeds, err);
    if (status == STATUS_OK && options->format == TABLE_TEXT) {
        if (!options->dry_run) printf("%s\n%s\n", published->title, tell_cost(cost, published, options->seeds));
        status = sweep_run(&plan, options, false, exit_code, err);
    }
    if (status == STATUS_OK && !options->dry_run) {
        status = sweep_jobs_make(&jobs, &plan, options->out, 1, err);
        if (status == STATUS_OK) status = print_figures(jobs, published, options, err);
        sweep_jobs_free(jobs, plan.count);
    }
    sweep_plan_free(&plan);
    return status;
}

Status command_reproduce(int argc, char **argv, int *exit_code, Error *err) {
    LookOptions options;
    TRY(look_options_parse(&options, command_find("reproduce"), argc, argv, err));
    if (options.folder_count == 0) return list_recipes(err);
    const char *name = options.folders[0], *text;
    char *file;
    TRY(find_recipe(&text, &file, name, err));
    Published *published = malloc(sizeof *published);
    Status status = published ? published_parse(published, name, text, err)
                              : fail(err, STATUS_OS, "no memory for the recipe %.200s", name);
    free(file);
    if (status == STATUS_OK) {
        if (!options.out[0]) {
            const char *last = strrchr(name, '/') ? strrchr(name, '/') + 1 : name;
            snprintf(options.out, sizeof options.out, "reproduced/%.*s", (int)strcspn(last, "."), last);
        }
        status = reproduce(published, &options, exit_code, err);
        published_free(published);
    }
    free(published);
    return status;
}

// Part of command.h: `sounder top` shows a run while it trains.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/command.h"
#include "app/look/look_options.h"
#include "app/look/past_run.h"
#include "app/look/top_page.h"
#include "app/look/top_state.h"
#include "app/look/top_sweep.h"
#include "app/train/progress.h"

// Draws values as shades from the lowest to the highest; if they are more than `width`, only some of them, from the
// first to the last.
static void spark(char *text, const double *values, size_t count, size_t width) {
    static const char shades[] = " .:-=+*#%@";
    double low = INFINITY, high = -INFINITY;
    for (size_t i = 0; i < count; i++) {
        low = fmin(low, values[i]);
        high = fmax(high, values[i]);
    }
    const size_t places = count < width ? count : width;
    for (size_t i = 0; i < places; i++) {
        const double value = values[places > 1 ? i * (count - 1) / (places - 1) : count - 1];
        const double share = high > low ? (value - low) / (high - low) : 0.5;
        text[i] = isnan(value) ? ' ' : shades[(size_t)(share * (sizeof shades - 2) + 0.5)];
    }
    text[places] = '\0';
}

static void add_head(Page *page, const TopState *state) {
    enum { BAR = 28, LEAST_BAR = 6 };
    char label[OPTION_LABEL_BYTES], progress[2 * BAR + 4] = "", facts[160], round[48];
    char left[PROGRESS_NUMBER_BYTES] = "", done[PROGRESS_NUMBER_BYTES];
    const PastRun *run = &state->run;
    const Options *options = &run->options;
    const uint32_t rounds = (uint32_t)options->rounds;
    const double share = rounds > 0 ? (double)run->rounds / rounds : 0;
    page_add(page, "sounder top  %s  %.40s %.40s %.40s seed %llu", state->path, options->algorithm,
             options_net(label, options), options->data, (unsigned long long)options->seed);
    if (run->state == RUN_RUNNING && run->rounds > 0 && run->rounds < rounds)
        duration_text(left, state->seconds_lately * (rounds - run->rounds));
    snprintf(facts, sizeof facts, "%3.0f%%  %s  %s%s%s", 100 * share, run_state_names[run->state],
             duration_text(done, run->seconds), *left ? "  ETA " : "", left);
    const int taken = snprintf(round, sizeof round, "round %u/%u ", run->rounds, rounds) + (int)strlen(facts),
              room = page->columns - taken - 3;
    if (room >= LEAST_BAR) {
        const int cells = room < BAR ? room : BAR, full = (int)(fmin(share, 1) * cells + 0.5);
        snprintf(progress, sizeof progress, "[%.*s%.*s] ", full, "############################", cells - full,
                 "............................");
    }
    page_add_parts(page, "%s%s%s", round, progress, facts);
    if (state->is_chosen && run->state != RUN_RUNNING)
        page_add(page, "no run below runs/ is running; sounder top FOLDER shows one elsewhere");
}

static void add_tests(Page *page, const TopState *state) {
    const PastRun *run = &state->run;
    const RunFigure *figure = &run->figure;
    const char *loss_key = top_loss_key(state), *set = strcmp(loss_key, "test_loss") == 0 ? "test" : "validation";
    char key[FIGURE_KEY_BYTES], name[RUN_FIGURE_NAME_BYTES];
    run_figure_key(key, figure);
    const bool is_loss = strcmp(key, loss_key) == 0;
    const int beside = 14;
    const size_t width = (size_t)(page->columns < beside ? 0 : page->columns < 200 ? page->columns - beside : 186);
    char now[RUN_FIGURE_TEXT_BYTES], best[RUN_FIGURE_TEXT_BYTES], test[64] = "", training[40] = "";
    char sparks[SCREEN_COLUMNS];
    if (!isnan(state->train_loss)) snprintf(training, sizeof training, "  training %.4f", state->train_loss);
    if (!is_loss) snprintf(test, sizeof test, "  %s loss %.4f", set, past_run_number(run->values, loss_key));
    if (!isnan(run->best))
        page_add_parts(page, "%s %s  best %s in round %u%s%s", run_figure_name(name, figure),
                       run_figure_number(now, figure, run_figure_in(run->values, figure)),
                       run_figure_number(best, figure, run->best), run->best_round, test, training);
    else if (*training)
        page_add(page, "%s", training + 2);
    spark(sparks, state->figures, state->tests, width);
    if (!isnan(run->best) && !is_loss) page_add(page, " %-9s %s", run_figure_name(name, figure), sparks);
    spark(sparks, state->losses, state->tests, width);
    if (state->tests > 0) page_add(page, " %s loss %s", set, sparks);
}

static const char *process_name(const TopState *state, const TopRank *rank) {
    if (state->run.state != RUN_RUNNING) return "-";
    if (rank->process == 'R' || rank->process == 'D') return "runs";
    if (rank->process == 'S') return "waits";
    return "GONE";
}

static void add_ranks(Page *page, const TopState *state) {
    char memory[32], wait[32], speed[32], client[32], cpu[32];
    const TopPhase *phase = &state->phase;
    if (state->ranks == 0) return;
    page_add(page, "%s", "");
    if (phase->kind == PHASE_TRAIN)
        page_add(page, "round %u trains: %u of %u done", phase->round, phase->done, phase->jobs);
    if (phase->kind == PHASE_EVALUATE)
        page_add(page, "round %u is tested: %u of %u parts", phase->round, phase->done, phase->jobs);
    page_add(page, "rank  now     waited  clients  samples/s   private      cpu  client");
    for (int i = 0; i < state->ranks; i++) {
        const TopRank *rank = &state->rank[i];
        snprintf(wait, sizeof wait, isnan(rank->waited_share) ? "-" : "%.1f%%", 100 * rank->waited_share);
        snprintf(speed, sizeof speed, isnan(rank->samples_per_second) ? "-" : "%.0f", rank->samples_per_second);
        snprintf(client, sizeof client, "#%u", i < MAX_WORKERS ? phase->client[i] - 1 : 0);
        snprintf(memory, sizeof memory, "%.1f MB", (double)rank->private_bytes / 1e6);
        snprintf(cpu, sizeof cpu, "%.1f s", rank->cpu_seconds);
        const bool is_there = rank->process, trains = is_there && i < MAX_WORKERS && phase->client[i];
        page_add(page, "%4d  %-6s %7s  %7u  %9s  %8s  %7s  %s", i, process_name(state, rank), wait, rank->clients,
                 speed, is_there ? memory : "", is_there ? cpu : "", trains ? client : "");
    }
    if (state->nodes > 1)
        page_add(page, "%d other node%s  %12u", state->nodes - 1, state->nodes == 2 ? " " : "s", state->last.elsewhere);
}

static void add_tail(Page *page, const TopState *state) {
    char slow[SCREEN_COLUMNS] = "", speed[32], restarts[48] = "";
    size_t length = 0;
    for (int i = 0; i < TOP_SLOWEST && state->last.slowest[i].seconds > 0; i++)
        length += (size_t)snprintf(slow + length, sizeof slow - length, "  #%lld %.3f s (%.0f)",
                                   state->last.slowest[i].client, state->last.slowest[i].seconds,
                                   state->last.slowest[i].samples);
    page_add(page, "%s", "");
    if (*slow) page_add_parts(page, "slowest clients%s", slow);
    const PastRun *run = &state->run;
    const double rate = past_run_number(run->values, "samples_per_second"),
                 simulated = past_run_number(run->values, "simulated_seconds_total"),
                 bytes =
                     past_run_number(run->values, "down_bytes_total") + past_run_number(run->values, "up_bytes_total");
    snprintf(speed, sizeof speed, isnan(rate) ? "-" : "%.0f", rate);
    if (run->options.trainer[0])
        snprintf(restarts, sizeof restarts, "  trainers restarted %.0f", run->trainer_restarts);
    page_add_parts(page, "%s samples/s  workers lost %.0f%s  updates refused %.0f", speed, run->workers_lost, restarts,
                   state->refused);
    if (!isnan(bytes))
        page_add_parts(page, "sent %.1f MB, both ways  simulated %.0f s", bytes / 1e6,
                       isnan(simulated) ? 0 : simulated);
}

static void make_page(Page *page, const TopState *state, int columns) {
    page->count = 0;
    page->columns = columns;
    add_head(page, state);
    if (state->run.rounds > 0) add_tests(page, state);
    add_ranks(page, state);
    if (state->run.rounds > 0) add_tail(page, state);
}

// The run -------------------------------------------------------------------------------------------------------------

static const char *begin_of(const PastRun *run) {
    const char *time = json_string_value(json_object_get(run->start, "time"));
    return time ? time : "";
}

// Finds the run that is running, or else the one that began last.
static Status find_run(char path[4096], char *const *folder, Error *err) {
    PastRuns runs;
    TRY(past_runs_find(&runs, folder, 1, err));
    const PastRun *chosen = &runs.all[0];
    for (size_t i = 1; i < runs.count; i++) {
        const PastRun *run = &runs.all[i];
        const int running = (run->state == RUN_RUNNING) - (chosen->state == RUN_RUNNING);
        if (running > 0 || (running == 0 && strcmp(begin_of(run), begin_of(chosen)) >= 0)) chosen = run;
    }
    snprintf(path, 4096, "%s", chosen->path);
    past_runs_free(&runs);
    return STATUS_OK;
}

// A folder that is no run itself, such as that of a sweep.
static bool is_sweep(const char *folder) {
    char config[4096 + 16];
    struct stat about;
    snprintf(config, sizeof config, "%.4096s/config.yaml", folder);
    return stat(folder, &about) == 0 && S_ISDIR(about.st_mode) && access(config, F_OK) != 0;
}

static void print_once(const TopState *state, Page *page) {
    make_page(page, state, columns_of(stdout));
    for (int i = 0; i < page->count; i++)
        puts(page->lines[i]);
}

static Status watch(TopState *state, Page *page, Error *err) {
    const TopScreen *screen = page_open_screen(err);
    int rows, columns, key = 0;
    if (!screen) return STATUS_UNAVAILABLE;
    Status status = STATUS_OK;
    while (!page_is_quit(key) && status == STATUS_OK) {
        screen->size(&rows, &columns);
        make_page(page, state, columns < SCREEN_COLUMNS ? columns : SCREEN_COLUMNS - 1);
        page_add_keys(page, rows);
        screen->draw((const char(*)[SCREEN_COLUMNS])page->lines, page->count);
        key = page_next_key(screen);
        status = top_state_refresh(state, err);
    }
    screen->close();
    return status;
}

Status command_top(int argc, char **argv, int *exit_code, Error *err) {
    (void)exit_code;
    LookOptions options;
    char path[4096];
    TRY(look_options_parse(&options, command_find("top"), argc, argv, err));
    static char *const usual[] = {"runs"};
    const bool is_named = options.folder_count > 0, is_list = is_named && is_sweep(options.folders[0]);
    if (is_named)
        snprintf(path, sizeof path, "%s", options.folders[0]);
    else
        TRY(find_run(path, usual, err));
    TopState *state = calloc(1, sizeof *state);
    Page *page = calloc(1, sizeof *page);
    Status status = !state || !page ? fail(err, STATUS_OS, "no memory for sounder top")
                    : is_list       ? top_sweep_show(path, options.once, page, err)
                                    : top_state_open(state, path, err);
    if (status == STATUS_OK && !is_list) {
        state->is_chosen = !is_named;
        if (options.once)
            print_once(state, page);
        else
            status = watch(state, page, err);
        top_state_close(state);
    }
    free(page);
    free(state);
    return status;
}

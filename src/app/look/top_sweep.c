#include "top_sweep.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/look/past_run.h"
#include "app/look/table.h"
#include "app/train/progress.h"

static int by_state(const void *a, const void *b) {
    const PastRun *left = a, *right = b;
    const int order = (right->state == RUN_RUNNING) - (left->state == RUN_RUNNING);
    return order ? order : strverscmp(left->path, right->path);
}

static void add_run(Page *page, const PastRun *run, const char *name, int width) {
    enum { BAR = 10 };
    char text[RUN_FIGURE_TEXT_BYTES] = "", left[PROGRESS_NUMBER_BYTES] = "", shown[SCREEN_COLUMNS];
    const uint32_t rounds = (uint32_t)run->options.rounds;
    const double share = rounds > 0 ? fmin((double)run->rounds / rounds, 1) : 0,
                 value = run_figure_in(run->values, &run->figure);
    const int full = (int)(share * BAR + 0.5);
    if (!isnan(value)) run_figure_text(text, &run->figure, value);
    if (run->state == RUN_RUNNING && run->rounds > 0 && run->rounds < rounds)
        duration_text(left, run->seconds / run->rounds * (rounds - run->rounds));
    const int length = (int)strlen(name), cut = length > width ? length - width + 1 : 0; // names differ at their ends
    snprintf(shown, sizeof shown, "%s%s", cut ? "~" : "", name + cut);
    page_add(page, "%-*.*s [%.*s%.*s] %3.0f%%  %-9s %-12s%s%s", width, width, shown, full, "##########",
             BAR - full, "..........", 100 * share, run_state_names[run->state], text, *left ? "ETA " : "",
             left);
}

// Runs that are training are first; those that do not fit are counted. folder: of the sweep, without a '/' at its end.
static void make_sweep_page(Page *page, PastRuns *runs, const char *folder, int columns, int rows) {
    enum { BESIDE = 51, LEAST_NAME = 16 };
    size_t running = 0, finished = 0;
    const size_t prefix = strlen(folder) + 1;
    int width = LEAST_NAME;
    *page = (Page){.columns = columns};
    qsort(runs->all, runs->count, sizeof *runs->all, by_state);
    for (size_t i = 0; i < runs->count; i++) {
        running += runs->all[i].state == RUN_RUNNING;
        finished += runs->all[i].state == RUN_FINISHED;
        const int length = (int)strlen(runs->all[i].path) - (int)prefix;
        if (length > width) width = length;
    }
    if (width > columns - BESIDE) width = columns - BESIDE > LEAST_NAME ? columns - BESIDE : LEAST_NAME;
    page_add(page, "sounder top  %s  %zu run%s: %zu finished, %zu running, %zu neither", folder, runs->count,
             runs->count == 1 ? "" : "s", finished, running, runs->count - finished - running);
    for (size_t i = 0; i < runs->count; i++) {
        if (page->count + 2 >= rows && i + 1 < runs->count) {
            page_add(page, "and %zu more; sounder runs %s lists all", runs->count - i, folder);
            break;
        }
        const char *path = runs->all[i].path;
        add_run(page, &runs->all[i], strlen(path) > prefix ? path + prefix : path, width);
    }
}

// Reads the records of all runs once a second.
static Status watch_sweep(char *folder, Page *page, Error *err) {
    enum { TICKS = 10 };
    const TopScreen *screen = page_open_screen(err);
    Status status = screen ? STATUS_OK : STATUS_UNAVAILABLE;
    int rows, columns;
    for (int key = 0; status == STATUS_OK && !page_is_quit(key);) {
        PastRuns runs;
        status = past_runs_find(&runs, &folder, 1, err);
        for (int tick = 0; status == STATUS_OK && tick < TICKS && !page_is_quit(key); tick++) {
            screen->size(&rows, &columns);
            make_sweep_page(page, &runs, folder, columns < SCREEN_COLUMNS ? columns : SCREEN_COLUMNS - 1, rows);
            page_add_keys(page, rows);
            screen->draw((const char(*)[SCREEN_COLUMNS])page->lines, page->count);
            key = page_next_key(screen);
        }
        if (status == STATUS_OK) past_runs_free(&runs);
    }
    if (screen) screen->close();
    return status;
}

Status top_sweep_show(const char *typed, bool once, Page *page, Error *err) {
    char folder[4096], *folders[] = {folder};
    PastRuns runs;
    snprintf(folder, sizeof folder, "%s", typed);
    for (size_t end = strlen(folder); end > 1 && folder[end - 1] == '/'; end--)
        folder[end - 1] = '\0';
    if (!once) return watch_sweep(folder, page, err);
    TRY(past_runs_find(&runs, folders, 1, err));
    make_sweep_page(page, &runs, folder, columns_of(stdout), SCREEN_LINES);
    for (int i = 0; i < page->count; i++)
        puts(page->lines[i]);
    past_runs_free(&runs);
    return STATUS_OK;
}

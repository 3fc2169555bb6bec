#include "past_run.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "io/metrics.h"

const char *const run_state_names[] = {
    [RUN_STOPPED] = "stopped", [RUN_RUNNING] = "running", [RUN_FINISHED] = "finished"};

enum { MOST_DEPTH = 16, PATH_BYTES = 4096 };

// One run -------------------------------------------------------------------------------------------------------------

double past_run_number(const json_t *line, const char *key) {
    const json_t *value = json_object_get(line, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

bool past_run_names_clients(const PastRun *run) {
    return json_is_array(json_object_get(run->last, "client_names"));
}

const char *past_run_client(char number[PAST_CLIENT_BYTES], const PastRun *run, size_t client) {
    const char *name = json_string_value(json_array_get(json_object_get(run->last, "client_names"), client));
    if (name) return name;
    snprintf(number, PAST_CLIENT_BYTES, "%zu", client);
    return number;
}

static double plus(double sum, double more) {
    return isnan(more) ? sum : sum + more;
}

double past_run_best(const PastRun *run, const RunFigure *figure) {
    return run_figure_same(&run->figure, figure) ? run->best : NAN;
}

static Status note_values(PastRun *run, json_t *line, Error *err) {
    const char *key;
    json_t *value;
    json_object_foreach(line, key, value) {
        if (!json_is_null(value) && json_object_set(run->values, key, value) != 0)
            return fail(err, STATUS_OS, "no memory for the run %.200s", run->path);
    }
    return STATUS_OK;
}

static void keep(json_t **kept, json_t *line) {
    json_decref(*kept);
    *kept = json_incref(line);
}

static void note_round(PastRun *run, const json_t *line) {
    const json_int_t round = json_integer_value(json_object_get(line, "round"));
    if (round > 0 && round <= UINT32_MAX) run->rounds = (uint32_t)round;
    run->tests += json_is_number(json_object_get(line, "eval_seconds"));
    run->seconds = plus(plus(run->seconds, past_run_number(line, "seconds")), past_run_number(line, "eval_seconds"));
    run->samples = plus(run->samples, past_run_number(line, "samples"));
    run->idle += past_run_number(line, "samples") == 0 || json_is_true(json_object_get(line, "abandoned"));
    run->workers_lost = plus(run->workers_lost, past_run_number(line, "workers_lost"));
    run->trainer_restarts = plus(run->trainer_restarts, past_run_number(line, "trainer_restarts"));
    if (run_figure_settle(&run->figure, line)) run->best = NAN;
    const double value = run_figure_in(line, &run->figure);
    if (!run_figure_is_better(&run->figure, value, run->best)) return;
    run->best = value;
    run->best_round = run->rounds;
}

static void note_clients(PastRun *run, json_t *line) {
    const char *model = json_string_value(json_object_get(line, "model"));
    const bool is_personal = model && strcmp(model, "personal") == 0;
    if (is_personal ||
        (model && strcmp(model, "global") == 0 && run_figure_row(&run->figure)->of != FIGURE_OF_PERSONAL))
        keep(&run->clients, line);
}

// A run may be resumed with another figure, by which the tests before are not judged.
static void note_start(PastRun *run, json_t *line) {
    const RunFigure told = run_figure_told(line);
    if (!run->start) run->start = json_incref(line);
    keep(&run->last, line);
    if (run_figure_same(&told, &run->told)) return;
    run->told = run->figure = told;
    run->best = NAN;
}

Status past_run_note(PastRun *run, json_t *line, Error *err) {
    if (metrics_is(line, "start")) note_start(run, line);
    if (metrics_is(line, "round")) note_round(run, line);
    if (metrics_is(line, "clients_evaluation")) note_clients(run, line);
    if (metrics_is(line, "summary")) keep(&run->summary, line);
    return metrics_is(line, "round") || metrics_is(line, "summary") ? note_values(run, line, err) : STATUS_OK;
}

static Status note_line(void *context, json_t *line, Error *err) {
    return past_run_note(context, line, err);
}

// If the config leaves a count to be derived from other options, the run's "start" line has the value.
static void complete(PastRun *run) {
    const struct {
        int *value;
        const char *key;
    } counts[] = {{&run->options.workers, "workers"},
                  {&run->options.clients, "clients"},
                  {&run->options.clients_per_round, "clients_per_round"}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        const json_int_t told = json_integer_value(json_object_get(run->start, counts[i].key));
        if (*counts[i].value == 0 && told > 0 && told <= 1000000) *counts[i].value = (int)told;
    }
}

// Takes the lock only for a moment: a run that starts then waits for it longer than that (run_folder.c).
bool past_run_is_locked(const char *path) {
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool locked = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (fd >= 0) close(fd);
    return locked;
}

Status past_run_begin(PastRun *run, const char *path, Error *err) {
    *run = (PastRun){.path = strdup(path), .values = json_object(), .best = NAN};
    options_defaults(&run->options);
    const Status status = run->path && run->values ? options_read_run(&run->options, path, err)
                                                   : fail(err, STATUS_OS, "no memory for the run %.200s", path);
    if (status != STATUS_OK) past_run_free(run);
    return status;
}

Status past_run_read(PastRun *run, const char *path, Error *err) {
    static const char *const types[] = {"start", "round", "summary", "clients_evaluation", NULL};
    TRY(past_run_begin(run, path, err));
    const Status status = metrics_visit_run(path, types, note_line, run, err);
    run->state = past_run_is_locked(path) ? RUN_RUNNING : run->summary ? RUN_FINISHED : RUN_STOPPED;
    complete(run);
    if (status != STATUS_OK) past_run_free(run);
    return status;
}

void past_run_free(PastRun *run) {
    json_decref(run->summary);
    json_decref(run->start);
    json_decref(run->last);
    json_decref(run->values);
    json_decref(run->clients);
    free(run->path);
    run->summary = run->start = run->last = run->values = run->clients = NULL;
    run->path = NULL;
}

bool past_run_tells_epsilon(const PastRun *run) {
    static const char *const keys[] = {"epsilon", "sample_epsilon", "local_epsilon"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!isnan(past_run_number(run->values, keys[i]))) return true;
    return false;
}

void past_runs_say_privacy(FILE *file, const PastRun *runs, size_t count) {
    size_t telling = 0;
    for (size_t i = 0; i < count; i++)
        telling += past_run_tells_epsilon(&runs[i]);
    if (telling > 1)
        fprintf(file,
                "epsilons add up: each of %zu runs has its own, and models or figures of several runs with common "
                "clients spend the sum\n",
                telling);
}

// All runs ------------------------------------------------------------------------------------------------------------

static Status add_run(PastRuns *runs, const char *path, const struct stat *folder, Error *err) {
    PastRun *all = realloc(runs->all, (runs->count + 1) * sizeof *all);
    if (!all) return fail(err, STATUS_OS, "no memory for %zu runs", runs->count + 1);
    runs->all = all;
    PastRun *run = &all[runs->count];
    Status status = past_run_read(run, path, err);
    run->device = folder->st_dev;
    run->inode = folder->st_ino;
    if (status == STATUS_OK) runs->count++;
    if (status == STATUS_OK || status == STATUS_OS) return status;
    log_warning("%s is left out: %s", path, err->message);
    return STATUS_OK;
}

// Adds the runs in the folder and below it, at most MOST_DEPTH levels. A folder below that cannot be read belongs to
// another user, or was removed meanwhile.
static Status search(PastRuns *runs, char *path, Error *err) {
    FTS *tree = fts_open((char *[]){path, NULL}, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, NULL);
    if (!tree) return fail_errno(err, STATUS_NOINPUT, "%.200s cannot be opened", path);
    Status status = STATUS_OK;
    for (FTSENT *entry; status == STATUS_OK && (entry = fts_read(tree));) {
        const bool is_root = entry->fts_level == FTS_ROOTLEVEL, is_hidden = !is_root && entry->fts_name[0] == '.';
        char config[PATH_BYTES];
        errno = entry->fts_errno;
        if (is_root && (entry->fts_info == FTS_DNR || entry->fts_info == FTS_NS))
            status = fail_errno(err, STATUS_NOINPUT, "%.200s cannot be opened", path);
        if (entry->fts_info != FTS_D) continue;
        const bool fits = snprintf(config, sizeof config, "%s/config.yaml", entry->fts_path) < PATH_BYTES,
                   is_run = fits && !is_hidden && access(config, F_OK) == 0;
        if (is_run) status = add_run(runs, entry->fts_path, entry->fts_statp, err);
        if (is_run || is_hidden || !fits || entry->fts_level == MOST_DEPTH) fts_set(tree, entry, FTS_SKIP);
    }
    if (status == STATUS_OK && errno != 0) status = fail_errno(err, STATUS_OS, "%.200s cannot be searched", path);
    fts_close(tree);
    return status;
}

// Sorts run-2 before run-10.
static int compare_paths(const void *a, const void *b) {
    return strverscmp(((const PastRun *)a)->path, ((const PastRun *)b)->path);
}

static bool is_among(const PastRun *run, const PastRun *others, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (others[i].device == run->device && others[i].inode == run->inode) return true;
    return false;
}

// Folders may overlap: a run that was found twice stays once.
void past_runs_sort(PastRuns *runs) {
    size_t kept = 0;
    qsort(runs->all, runs->count, sizeof *runs->all, compare_paths);
    for (size_t i = 0; i < runs->count; i++) {
        if (is_among(&runs->all[i], runs->all, kept))
            past_run_free(&runs->all[i]);
        else
            runs->all[kept++] = runs->all[i];
    }
    runs->count = kept;
}

Status past_runs_find(PastRuns *runs, char *const *folders, int folder_count, Error *err) {
    Status status = STATUS_OK;
    *runs = (PastRuns){0};
    for (int i = 0; i < folder_count && status == STATUS_OK; i++) {
        char path[PATH_BYTES];
        const size_t before = runs->count;
        snprintf(path, sizeof path, "%s", folders[i]);
        for (size_t end = strlen(path); end > 1 && path[end - 1] == '/'; end--)
            path[end - 1] = '\0';
        status = search(runs, path, err);
        if (status == STATUS_OK && runs->count == before)
            status = fail(err, STATUS_NOINPUT,
                          "%.200s holds no run; give the folder of one (train's --out), or one above it", path);
    }
    if (status == STATUS_OK)
        past_runs_sort(runs);
    else
        past_runs_free(runs);
    return status;
}

static int unfinished_last(const void *a, const void *b) {
    const PastRun *left = a, *right = b;
    const int order = (right->state == RUN_FINISHED) - (left->state == RUN_FINISHED);
    return order ? order : compare_paths(a, b);
}

size_t past_runs_finished_first(PastRuns *runs) {
    size_t finished = 0;
    qsort(runs->all, runs->count, sizeof *runs->all, unfinished_last);
    while (finished < runs->count && runs->all[finished].state == RUN_FINISHED)
        finished++;
    return finished;
}

void past_runs_free(PastRuns *runs) {
    for (size_t i = 0; i < runs->count; i++)
        past_run_free(&runs->all[i]);
    free(runs->all);
    *runs = (PastRuns){0};
}

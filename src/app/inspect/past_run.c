#include "past_run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
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

static double plus(double sum, double more) {
    return isnan(more) ? sum : sum + more;
}

static void note(double *figure, const json_t *line, const char *key) {
    const double value = past_run_number(line, key);
    if (!isnan(value)) *figure = value;
}

static void note_test(PastRun *run, const json_t *line) {
    run_figure_settle(&run->figure, line);
    const double value = run_figure_in(line, &run->figure);
    for (int kind = 0; kind < FIGURE_METRIC; kind++)
        note(&run->last[kind], line, figure_facts[kind].key);
    json_t *metrics = json_object_get(line, figure_facts[FIGURE_METRIC].key);
    if (json_is_object(metrics)) {
        json_decref(run->metrics);
        run->metrics = json_incref(metrics);
        run->last[FIGURE_METRIC] = run->figure.kind == FIGURE_METRIC ? value : (double)NAN;
    }
    note(&run->rmse, line, "test_rmse");
    note(&run->r2, line, "test_r2");
    note(&run->mae, line, "test_mae");
    note(&run->new_accuracy, line, "new_clients_accuracy");
    note(&run->new_tuned, line, "new_clients_finetuned_accuracy");
    note(&run->attack_success, line, "attack_success");
    double *best = &run->best[run->figure.kind];
    if (!run_figure_is_better(&run->figure, value, *best)) return;
    *best = value;
    run->best_round = run->rounds;
}

static void keep(json_t **kept, const json_t *line) {
    json_decref(*kept);
    *kept = json_incref((json_t *)line);
}

static void note_round(PastRun *run, const json_t *line) {
    keep(&run->round, line);
    const json_int_t round = json_integer_value(json_object_get(line, "round"));
    if (round > 0 && round <= UINT32_MAX) run->rounds = (uint32_t)round;
    note_test(run, line);
    run->train_loss = past_run_number(line, "train_loss");
    run->seconds = plus(plus(run->seconds, past_run_number(line, "seconds")), past_run_number(line, "eval_seconds"));
    run->samples = plus(run->samples, past_run_number(line, "samples"));
    run->simulated_seconds = past_run_number(line, "simulated_seconds_total");
    run->bytes = past_run_number(line, "down_bytes_total") + past_run_number(line, "up_bytes_total");
    run->joules = past_run_number(line, "training_joules_total") + past_run_number(line, "link_joules_total");
    run->workers_lost = plus(run->workers_lost, past_run_number(line, "workers_lost"));
    run->trainer_restarts = plus(run->trainer_restarts, past_run_number(line, "trainer_restarts"));
    run->epsilon = past_run_number(line, "epsilon");
    run->local_epsilon = past_run_number(line, "local_epsilon");
    run->sample_epsilon = past_run_number(line, "sample_epsilon");
}

// Runs of earlier versions report personal accuracies only here.
static void note_clients(PastRun *run, const json_t *line) {
    const char *model = json_string_value(json_object_get(line, "model"));
    const bool personal = model && strcmp(model, "personal") == 0;
    if (personal) note(&run->last[FIGURE_PERSONAL_ACCURACY], line, "accuracy_mean");
    if (!personal && (!model || strcmp(model, "global") != 0 || figure_facts[run->figure.kind].is_personal)) return;
    keep(&run->clients, line);
    note(&run->worst_tenth, line, "accuracy_worst_tenth");
    note(&run->worst_loss, line, "loss_worst_tenth");
}

// With a validation set the test set is used at the end alone. A final model that is the best one is not tested twice.
static void note_end(PastRun *run, const json_t *line) {
    if (!json_object_get(line, "validation_loss")) return;
    run->best_test_accuracy = run->best_test_loss = NAN;
    note(&run->last[FIGURE_ACCURACY], line, "test_accuracy");
    note(&run->last[FIGURE_LOSS], line, "test_loss");
    for (int kind = FIGURE_BALANCED_ACCURACY; kind <= FIGURE_AUC; kind++)
        note(&run->last[kind], line, figure_facts[kind].key);
    note(&run->rmse, line, "test_rmse");
    note(&run->r2, line, "test_r2");
    note(&run->mae, line, "test_mae");
    const bool is_final = json_object_get(line, "best_model_test_loss") == NULL;
    note(&run->best_test_accuracy, line, is_final ? "test_accuracy" : "best_model_test_accuracy");
    note(&run->best_test_loss, line, is_final ? "test_loss" : "best_model_test_loss");
}

// A run may be resumed with another figure, by which the tests before are not judged.
static void note_start(PastRun *run, const json_t *line) {
    const RunFigure figure = run_figure_told(line);
    if (!run_figure_same(&figure, &run->figure)) run->best[figure.kind] = NAN;
    run->figure = figure;
    if (!run->start) run->start = json_incref((json_t *)line);
}

static Status note_line(void *context, json_t *line, Error *err) {
    (void)err;
    PastRun *run = context;
    if (metrics_is(line, "start")) note_start(run, line);
    if (metrics_is(line, "round")) note_round(run, line);
    if (metrics_is(line, "clients_evaluation")) note_clients(run, line);
    if (!metrics_is(line, "summary")) return STATUS_OK;
    keep(&run->summary, line);
    run->rounds_to_target = past_run_number(line, "rounds_to_target");
    run->measured_joules = past_run_number(line, "measured_joules");
    run->joules_to_target = past_run_number(line, "joules_to_target");
    run->seconds_to_target = past_run_number(line, "simulated_seconds_to_target");
    run->bytes_to_target = past_run_number(line, "down_bytes_to_target") + past_run_number(line, "up_bytes_to_target");
    note_end(run, line);
    return STATUS_OK;
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

bool past_run_is_locked(const char *path) {
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool locked = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (fd >= 0) close(fd);
    return locked;
}

// Takes the lock only for a moment: a run that starts then waits for it longer than that (run_folder.c).
static RunState state_of(const PastRun *run, int folder_fd) {
    if (flock(folder_fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK) return RUN_RUNNING;
    flock(folder_fd, LOCK_UN);
    return run->summary ? RUN_FINISHED : RUN_STOPPED;
}

Status past_run_read(PastRun *run, const char *path, Error *err) {
    static const char *const types[] = {"start", "round", "summary", "clients_evaluation", NULL};
    *run = (PastRun){.rmse = NAN,
                     .r2 = NAN,
                     .mae = NAN,
                     .best_test_accuracy = NAN,
                     .best_test_loss = NAN,
                     .new_accuracy = NAN,
                     .new_tuned = NAN,
                     .attack_success = NAN,
                     .worst_tenth = NAN,
                     .worst_loss = NAN,
                     .epsilon = NAN,
                     .local_epsilon = NAN,
                     .sample_epsilon = NAN,
                     .train_loss = NAN,
                     .rounds_to_target = NAN,
                     .seconds_to_target = NAN,
                     .bytes_to_target = NAN,
                     .simulated_seconds = NAN,
                     .joules = NAN,
                     .joules_to_target = NAN,
                     .measured_joules = NAN,
                     .bytes = NAN};
    for (int kind = 0; kind < FIGURE_KINDS; kind++)
        run->last[kind] = run->best[kind] = NAN;
    options_defaults(&run->options);
    TRY(options_read_run(&run->options, path, err));
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return fail_errno(err, STATUS_NOINPUT, "%.200s cannot be opened", path);
    const Folder folder = {.fd = fd, .path = path};
    Status status = metrics_visit(&folder, types, note_line, run, err);
    run->state = state_of(run, fd);
    close(fd);
    run->path = status == STATUS_OK ? strdup(path) : NULL;
    if (status == STATUS_OK && !run->path) status = fail(err, STATUS_OS, "no memory for the run %.200s", path);
    complete(run);
    if (status != STATUS_OK) past_run_free(run);
    return status;
}

void past_run_free(PastRun *run) {
    json_decref(run->summary);
    json_decref(run->start);
    json_decref(run->metrics);
    json_decref(run->round);
    json_decref(run->clients);
    free(run->path);
    run->summary = run->start = run->metrics = run->round = run->clients = NULL;
    run->path = NULL;
}

void past_run_option(char *text, const PastRun *run, const Option *option) {
    const bool empty = !option->preset && option_is_zero(&run->options, option);
    text[0] = '\0';
    if (!empty && option_applies(&run->options, option)) option_format(text, &run->options, option);
}

bool past_runs_differ(const PastRun *runs, size_t count, const Option *option) {
    char first[OPTION_VALUE_BYTES], other[OPTION_VALUE_BYTES];
    if (count > 0) past_run_option(first, &runs[0], option);
    for (size_t i = 1; i < count; i++) {
        past_run_option(other, &runs[i], option);
        if (strcmp(first, other) != 0) return true;
    }
    return false;
}

// All runs ------------------------------------------------------------------------------------------------------------

static Status add_run(PastRuns *runs, const char *path, Error *err) {
    PastRun *all = realloc(runs->all, (runs->count + 1) * sizeof *all);
    if (!all) return fail(err, STATUS_OS, "no memory for %zu runs", runs->count + 1);
    runs->all = all;
    Status status = past_run_read(&all[runs->count], path, err);
    if (status == STATUS_OK) runs->count++;
    if (status == STATUS_OK || status == STATUS_OS) return status;
    log_warning("%s is left out: %s", path, err->message);
    return STATUS_OK;
}

static bool is_folder(int fd, const struct dirent *entry) {
    struct stat about;
    if (entry->d_name[0] == '.') return false;
    if (entry->d_type != DT_UNKNOWN) return entry->d_type == DT_DIR;
    return fstatat(fd, entry->d_name, &about, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(about.st_mode);
}

static Status search(PastRuns *runs, const char *path, int depth, Error *err);

static Status search_below(PastRuns *runs, const char *path, DIR *list, int depth, Error *err) {
    for (const struct dirent *entry; (entry = readdir(list));) {
        char below[PATH_BYTES];
        if (!is_folder(dirfd(list), entry) || depth == MOST_DEPTH) continue;
        if (snprintf(below, sizeof below, "%s/%s", path, entry->d_name) < PATH_BYTES)
            TRY(search(runs, below, depth + 1, err));
    }
    return STATUS_OK;
}

static Status search(PastRuns *runs, const char *path, int depth, Error *err) {
    char config[PATH_BYTES];
    if (snprintf(config, sizeof config, "%s/config.yaml", path) < PATH_BYTES && access(config, F_OK) == 0)
        return add_run(runs, path, err);
    DIR *list = opendir(path);
    if (!list && depth > 0) return STATUS_OK; // it belongs to another user, or was removed meanwhile
    if (!list) return fail_errno(err, STATUS_NOINPUT, "%.200s cannot be opened", path);
    Status status = search_below(runs, path, list, depth, err);
    closedir(list);
    return status;
}

// Sorts run-2 before run-10.
static int compare_paths(const void *a, const void *b) {
    return strverscmp(((const PastRun *)a)->path, ((const PastRun *)b)->path);
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
        status = search(runs, path, 0, err);
        if (status == STATUS_OK && runs->count == before)
            status = fail(err, STATUS_NOINPUT,
                          "%.200s holds no run; give the folder of one (train's --out), or one above it", path);
    }
    if (status != STATUS_OK)
        past_runs_free(runs);
    else
        qsort(runs->all, runs->count, sizeof *runs->all, compare_paths);
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

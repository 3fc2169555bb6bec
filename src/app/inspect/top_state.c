#include "top_state.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static double number_of(const json_t *line, const char *key) {
    const json_t *value = json_object_get(line, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static double or_zero(double value) {
    return isnan(value) ? 0 : value;
}

// Lines ---------------------------------------------------------------------------------------------------------------

static void note_client(TopRound *round, const json_t *line) {
    TopClient told = {json_integer_value(json_object_get(line, "client")), or_zero(number_of(line, "seconds")),
                      or_zero(number_of(line, "samples"))};
    const json_int_t rank = json_integer_value(json_object_get(line, "rank"));
    if (json_integer_value(json_object_get(line, "node")) > 0) {
        round->elsewhere++;
    } else if (rank >= 0 && rank < TOP_RANKS) {
        round->clients[rank]++;
        round->samples[rank] += told.samples;
        round->seconds[rank] += told.seconds;
    }
    for (int i = 0; i < TOP_SLOWEST; i++) {
        if (told.seconds <= round->slowest[i].seconds) continue;
        const TopClient faster = round->slowest[i];
        round->slowest[i] = told;
        told = faster;
    }
}

static void add_test(TopState *state, double figure, double loss) {
    if (isnan(figure) && isnan(loss)) return;
    if (state->tests == TOP_HISTORY) {
        memmove(state->figures, state->figures + 1, (TOP_HISTORY - 1) * sizeof *state->figures);
        memmove(state->losses, state->losses + 1, (TOP_HISTORY - 1) * sizeof *state->losses);
        state->tests--;
    }
    state->figures[state->tests] = figure;
    state->losses[state->tests++] = loss;
    state->figure = figure;
    state->loss = loss;
    if (!run_figure_is_better(state->run.figure, figure, state->best)) return;
    state->best = figure;
    state->best_round = state->round;
}

static void note_round(TopState *state, const json_t *line) {
    const double seconds = or_zero(number_of(line, "seconds")), tests = or_zero(number_of(line, "eval_seconds"));
    const json_t *waits = json_object_get(line, "barrier_wait_seconds");
    state->round = (uint32_t)or_zero(number_of(line, "round"));
    state->train_loss = number_of(line, "train_loss");
    state->seconds += seconds + tests;
    state->seconds_lately =
        state->seconds_lately > 0 ? 0.8 * state->seconds_lately + 0.2 * (seconds + tests) : seconds + tests;
    state->samples_per_second = number_of(line, "samples_per_second");
    state->bytes = number_of(line, "down_bytes_total") + number_of(line, "up_bytes_total");
    state->simulated_seconds = number_of(line, "simulated_seconds_total");
    state->lost += or_zero(number_of(line, "workers_lost"));
    state->refused += or_zero(number_of(line, "updates_refused"));
    state->ranks = json_array_size(waits) < TOP_RANKS ? (int)json_array_size(waits) : TOP_RANKS;
    for (int rank = 0; rank < state->ranks; rank++) {
        const json_t *wait = json_array_get(waits, (size_t)rank);
        state->rank[rank].waited_share = json_is_number(wait) && seconds > 0 ? json_number_value(wait) / seconds : NAN;
        state->rank[rank].clients = state->next.clients[rank];
        state->rank[rank].samples_per_second =
            state->next.seconds[rank] > 0 ? state->next.samples[rank] / state->next.seconds[rank] : NAN;
    }
    state->last = state->next;
    state->next = (TopRound){0};
    add_test(state, number_of(line, run_figures[state->run.figure].key), number_of(line, "test_loss"));
}

static void note_start(TopState *state, const json_t *line) {
    state->nodes = (int)json_integer_value(json_object_get(line, "nodes"));
    state->run.figure = run_figure_named(json_string_value(json_object_get(line, "figure")));
    state->finished = false;
}

static void note_line(TopState *state, const char *text, size_t bytes) {
    json_t *line = json_loadb(text, bytes, 0, NULL);
    const char *type = json_string_value(json_object_get(line, "type"));
    if (type && strcmp(type, "client") == 0) note_client(&state->next, line);
    if (type && strcmp(type, "round") == 0) note_round(state, line);
    if (type && strcmp(type, "start") == 0) note_start(state, line);
    if (type && strcmp(type, "summary") == 0) state->finished = true;
    json_decref(line);
}

// Reads whole lines only: the last line may still be incomplete. Lines written meanwhile are left for the next call,
// because a run may write faster than this function reads.
static void read_on(TopState *state) {
    char *text = NULL;
    size_t capacity = 0;
    struct stat about;
    const off_t end = fstat(fileno(state->file), &about) == 0 ? about.st_size : 0;
    for (;;) {
        const off_t before = ftello(state->file);
        if (before >= end) break;
        const ssize_t bytes = getline(&text, &capacity, state->file);
        if (bytes > 0 && text[bytes - 1] == '\n') {
            note_line(state, text, (size_t)bytes);
            continue;
        }
        clearerr(state->file);
        fseeko(state->file, before, SEEK_SET);
        break;
    }
    free(text);
}

// Processes -----------------------------------------------------------------------------------------------------------

// live/global.safetensors is a link to a descriptor of the parent.
static pid_t find_parent(const TopState *state) {
    char link[sizeof state->path + 32], target[64];
    int pid;
    snprintf(link, sizeof link, "%s/live/global.safetensors", state->path);
    const ssize_t length = readlink(link, target, sizeof target - 1);
    if (length <= 0) return 0;
    target[length] = '\0';
    return sscanf(target, "/proc/%d/fd/", &pid) == 1 ? pid : 0;
}

static void read_file(char *text, size_t bytes, pid_t pid, const char *name) {
    char path[128];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    FILE *file = fopen(path, "re");
    const size_t count = file ? fread(text, 1, bytes - 1, file) : 0;
    text[count] = '\0';
    if (file) fclose(file);
}

// The arguments of a worker are: sounder:wRANK worker RANK PARENT.
static int rank_of(pid_t pid) {
    char words[256];
    read_file(words, sizeof words, pid, "cmdline");
    const char *second = words + strlen(words) + 1;
    if (strcmp(second, "worker") != 0) return -1;
    const int rank = atoi(second + strlen(second) + 1);
    return rank >= 0 && rank < TOP_RANKS ? rank : -1;
}

static void note_process(TopRank *rank, pid_t pid) {
    char text[4096];
    unsigned long user = 0, system = 0;
    long kilobytes = 0;
    read_file(text, sizeof text, pid, "stat");
    const char *rest = strrchr(text, ')');
    if (!rest) return;
    sscanf(rest, ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &rank->process, &user, &system);
    rank->cpu_seconds = (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
    read_file(text, sizeof text, pid, "status");
    const char *own = strstr(text, "RssAnon:");
    if (own && sscanf(own, "RssAnon: %ld", &kilobytes) == 1) rank->private_bytes = (int64_t)kilobytes * 1024;
}

static void look_at_processes(TopState *state) {
    char list[16384], name[64];
    for (int rank = 0; rank < TOP_RANKS; rank++)
        state->rank[rank].process = 0;
    state->parent = state->running ? find_parent(state) : 0;
    if (state->parent == 0) return;
    snprintf(name, sizeof name, "task/%d/children", (int)state->parent);
    read_file(list, sizeof list, state->parent, name);
    char *rest;
    for (char *word = strtok_r(list, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        const int rank = rank_of(atoi(word));
        if (rank < 0) continue;
        note_process(&state->rank[rank], atoi(word));
        if (rank >= state->ranks) state->ranks = rank + 1;
    }
}

static bool is_running(const TopState *state) {
    int fd = open(state->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool locked = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0;
    if (fd >= 0) close(fd);
    return locked;
}

// All of it -----------------------------------------------------------------------------------------------------------

static void forget(TopState *state) {
    state->tests = 0;
    state->best = state->figure = state->loss = state->train_loss = state->bytes = state->simulated_seconds = NAN;
    state->seconds = state->seconds_lately = state->samples_per_second = state->lost = state->refused = 0;
    state->round = state->best_round = 0;
    state->ranks = 0;
    state->finished = false;
    state->next = state->last = (TopRound){0};
}

static Status open_file(TopState *state, Error *err) {
    char name[sizeof state->path + 32];
    struct stat about;
    snprintf(name, sizeof name, "%s/metrics.jsonl", state->path);
    if (state->file) fclose(state->file);
    state->file = fopen(name, "re");
    if (!state->file) return fail_errno(err, STATUS_NOINPUT, "%.200s cannot be read", name);
    state->inode = fstat(fileno(state->file), &about) == 0 ? about.st_ino : 0;
    forget(state);
    return STATUS_OK;
}

Status top_state_open(TopState *state, const char *path, Error *err) {
    *state = (TopState){.phase.segment.fd = -1};
    snprintf(state->path, sizeof state->path, "%s", path);
    TRY(past_run_read(&state->run, path, err));
    state->rounds = (uint32_t)state->run.options.rounds;
    Status status = open_file(state, err);
    if (status == STATUS_OK) status = top_state_refresh(state, err);
    if (status != STATUS_OK) top_state_close(state);
    return status;
}

Status top_state_refresh(TopState *state, Error *err) {
    char name[sizeof state->path + 32];
    struct stat about;
    snprintf(name, sizeof name, "%s/metrics.jsonl", state->path);
    if (stat(name, &about) == 0 && about.st_ino != state->inode) TRY(open_file(state, err));
    read_on(state);
    state->running = is_running(state);
    look_at_processes(state);
    top_phase_read(&state->phase, state->path, state->parent);
    return STATUS_OK;
}

void top_state_close(TopState *state) {
    if (state->file) fclose(state->file);
    past_run_free(&state->run);
    top_phase_close(&state->phase);
    state->file = NULL;
}

#include "top_state.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/look/past_run.h"
#include "fedavg/memory/queue.h"
#include "io/metrics.h"

static double or_zero(double value) {
    return isnan(value) ? 0 : value;
}

// The phase -----------------------------------------------------------------------------------------------------------

static bool is_this_program(pid_t pid) {
    char path[64];
    struct stat own, other;
    snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    return stat("/proc/self/exe", &own) == 0 && stat(path, &other) == 0 && own.st_dev == other.st_dev &&
           own.st_ino == other.st_ino;
}

static bool open_segment(TopPhase *phase, const char *path, pid_t parent) {
    char name[4096 + 32];
    Error ignored;
    if (!is_this_program(parent)) return false;
    snprintf(name, sizeof name, "%s/live/control", path);
    const int fd = open(name, O_RDONLY | O_NONBLOCK | O_CLOEXEC); // an ending run may have a pipe under this number
    if (fd < 0 || segment_map(&phase->segment, fd, SEGMENT_READ, &ignored) != STATUS_OK) return false;
    phase->parent = parent;
    return true;
}

// Returns the queue if it is entirely within the segment; otherwise NULL.
static const Queue *find_queue(const Segment *segment) {
    const Control *control = segment->memory;
    if (segment->bytes < sizeof *control) return NULL;
    const uint64_t offset = control->config.queue_offset;
    if (offset > segment->bytes || segment->bytes - offset < sizeof(Queue)) return NULL;
    const Queue *queue = (const Queue *)((const uint8_t *)segment->memory + offset);
    return queue_bytes(queue->capacity) <= segment->bytes - offset ? queue : NULL;
}

static void close_phase(TopPhase *phase) {
    segment_free(&phase->segment);
    *phase = (TopPhase){.segment.fd = -1};
}

// Runs of another build of the program are skipped: their segments may have another layout. parent: 0 if none.
static void read_phase(TopPhase *phase, const char *path, pid_t parent) {
    if (phase->parent != 0 && phase->parent != parent) close_phase(phase);
    phase->kind = PHASE_NONE;
    phase->jobs = phase->done = 0;
    memset(phase->client, 0, sizeof phase->client);
    if (parent == 0 || (phase->parent == 0 && !open_segment(phase, path, parent))) return;
    const Control *control = phase->segment.memory;
    const Queue *queue = find_queue(&phase->segment);
    if (!queue) return;
    phase->kind = (PhaseKind)control->order.kind;
    phase->round = control->order.round;
    phase->jobs = queue->count < queue->capacity ? queue->count : queue->capacity;
    for (uint32_t i = 0; i < phase->jobs; i++) {
        const Job *job = &queue->jobs[i];
        // Pairs with the store of the worker that ends the job (queue.c).
        const bool is_done = atomic_load_explicit(&job->state, memory_order_acquire) != JOB_OPEN;
        const uint32_t owner = atomic_load_explicit(&job->owner, memory_order_relaxed);
        phase->done += is_done;
        if (!is_done && owner > 0 && owner <= MAX_WORKERS && phase->kind == PHASE_TRAIN)
            phase->client[owner - 1] = job->client + 1;
    }
}

// Lines ---------------------------------------------------------------------------------------------------------------

static void note_client(TopRound *round, const json_t *line) {
    TopClient told = {json_integer_value(json_object_get(line, "client")), or_zero(past_run_number(line, "seconds")),
                      or_zero(past_run_number(line, "samples"))};
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

const char *top_loss_key(const TopState *state) {
    return json_object_get(state->run.values, "validation_loss") ? "validation_loss" : "test_loss";
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
}

static void note_round(TopState *state, const json_t *line) {
    const double seconds = or_zero(past_run_number(line, "seconds")),
                 tests = or_zero(past_run_number(line, "eval_seconds"));
    const json_t *waits = json_object_get(line, "barrier_wait_seconds");
    state->seconds_lately =
        state->seconds_lately > 0 ? 0.8 * state->seconds_lately + 0.2 * (seconds + tests) : seconds + tests;
    state->train_loss = past_run_number(line, "train_loss");
    state->refused += or_zero(past_run_number(line, "updates_refused"));
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
    add_test(state, run_figure_in(line, &state->run.figure), past_run_number(line, top_loss_key(state)));
}

// A run may be resumed with another figure, by which the tests before are not judged (past_run.c). Their losses stay.
static void note_start(TopState *state, const json_t *line, const RunFigure *before) {
    state->nodes = (int)json_integer_value(json_object_get(line, "nodes"));
    for (size_t i = 0; i < state->tests && !run_figure_same(before, &state->run.told); i++)
        state->figures[i] = NAN;
}

static void note_line(TopState *state, const char *text, size_t bytes) {
    json_t *line = json_loadb(text, bytes, 0, NULL);
    const RunFigure before = state->run.told;
    Error ignored;
    past_run_note(&state->run, line, &ignored);
    if (metrics_is(line, "client")) note_client(&state->next, line);
    if (metrics_is(line, "round")) note_round(state, line);
    if (metrics_is(line, "start")) note_start(state, line, &before);
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
    char words[256 + 2] = ""; // ends with empty words, however long the first one is
    read_file(words, 256, pid, "cmdline");
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
    state->parent = state->run.state == RUN_RUNNING ? find_parent(state) : 0;
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

// All of it -----------------------------------------------------------------------------------------------------------

// Also called when a resumed run has replaced its record: everything is read again.
static Status open_file(TopState *state, Error *err) {
    char name[sizeof state->path + 32];
    struct stat about;
    past_run_free(&state->run);
    TRY(past_run_begin(&state->run, state->path, err));
    snprintf(name, sizeof name, "%s/metrics.jsonl", state->path);
    if (state->file) fclose(state->file);
    state->file = fopen(name, "re");
    if (!state->file) return fail_errno(err, STATUS_NOINPUT, "%.200s cannot be read", name);
    state->inode = fstat(fileno(state->file), &about) == 0 ? about.st_ino : 0;
    state->tests = 0;
    state->seconds_lately = state->refused = 0;
    state->train_loss = NAN;
    state->ranks = 0;
    state->next = state->last = (TopRound){0};
    return STATUS_OK;
}

Status top_state_open(TopState *state, const char *path, Error *err) {
    *state = (TopState){.phase.segment.fd = -1};
    snprintf(state->path, sizeof state->path, "%s", path);
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
    state->run.state = past_run_is_locked(state->path) ? RUN_RUNNING : state->run.summary ? RUN_FINISHED : RUN_STOPPED;
    look_at_processes(state);
    read_phase(&state->phase, state->path, state->parent);
    return STATUS_OK;
}

void top_state_close(TopState *state) {
    if (state->file) fclose(state->file);
    past_run_free(&state->run);
    close_phase(&state->phase);
    state->file = NULL;
}

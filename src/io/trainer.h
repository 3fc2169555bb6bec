// The protocol of trainers, for programs in C. A trainer is a program that `sounder train --trainer ./trainer` starts:
// it trains the clients and tests the model in place of the engine. `sounder help trainer` documents every message.
//
//   FILE *lines = fdopen(atoi(getenv(TRAINER_SOCKET)), "r");   // a connected socket; each line is one JSON object
//   FILE *answers = fdopen(atoi(getenv(TRAINER_SOCKET)), "w");
//   getline(&line, &room, lines);                              // the first one says where everything is
//   TrainerRun run = trainer_run(line);
//   while (getline(&line, &room, lines) > 0) {                 // a turn, which the program answers
//       trainer_begin(&run, line);
//       label = trainer_sample(x, &run, 0); ...
//       trainer_answer(answers, line, &(TrainerResult){.loss_sum = loss, .samples = count, .hits = hits, .steps = n});
//   }
//
// A program writes some parts by hand:
// - The net. If run.describe is set, it writes the initial values (float32, one tensor after the other) to run.desk_fd,
//   whose length it sets (ftruncate), answers {"tensors":[["weight",[10,784]],...]}, and ends. Beside its tensors it
//   names what it can do:
//   "views":1      reads samples by trainer_sample, which also gives those of clients that are attacked, or drift;
//   "state":N      reads and writes run.state: N floats that clients keep (--client-optimizer-state keep);
//   "still":1      leaves the tensors [first, end) of trainer_numbers(ends, 2, line, "still") as they are (fedrep);
//   "whole_test":1 has a test in one turn.
//   Without them, runs that need them are refused.
// - Start: it answers the first line with {"ready":1} otherwise.
// - Training: SGD, with the turn's numbers (trainer_number(line, "lr", 0), "momentum", "weight_decay", "clip"), batches
//   that end at run.ends, and pull * weight + run.added, the addends of the algorithm, on each gradient.
//
// Everything is in this header: a program links no library. A program that computes for more than --hang-seconds
// between two lines has to send TRAINER_PROGRESS meanwhile; one that cannot continue sends {"error":"sentence"}.
// tools/python/examples/trainer.c is a whole program.
#ifndef SOUNDER_IO_TRAINER_H
#define SOUNDER_IO_TRAINER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRAINER_SOCKET   "SOUNDER_TRAINER" // the variable of the environment that has the socket's number
#define TRAINER_PROGRESS "{\"progress\":1}\n"

// Returns the text of the value at `path`, which names nested keys ("data.train.samples.fd"), or NULL without them.
static inline const char *trainer_find(const char *line, const char *path) {
    for (size_t length; line && *path; path += length + (path[length] == '.')) {
        const char *found = NULL;
        int depth = 0;
        length = strcspn(path, ".");
        for (; *line && !found; line += *line != '\0') {
            if (*line == '{' || *line == '[') depth++;
            if ((*line == '}' || *line == ']') && --depth == 0) break;
            if (*line != '"') continue;
            const char *name = ++line;
            while (*line && *line != '"')
                line += *line == '\\' && line[1] ? 2 : 1;
            const bool same = (size_t)(line - name) == length && strncmp(name, path, length) == 0;
            if (depth == 1 && same && line[0] && line[1] == ':') found = line + 2;
        }
        line = found;
    }
    return line;
}

// Reads at most `most` numbers of the value at `path`, a number or an array. Returns how many there are; null is none.
static inline int trainer_numbers(double *numbers, int most, const char *line, const char *path) {
    const char *text = trainer_find(line, path);
    int count = 0;
    if (text && *text == '[') text++;
    for (char *end; text && count < most; text = *end == ',' ? end + 1 : NULL) {
        const double number = strtod(text, &end);
        if (end == text) break;
        numbers[count++] = number;
    }
    return count;
}

// Returns the number at `path`, or `otherwise` if there is none.
static inline double trainer_number(const char *line, const char *path, double otherwise) {
    double number;
    return trainer_numbers(&number, 1, line, path) == 1 ? number : otherwise;
}

// Whether the value at `path` is this text: trainer_says(line, "task", "train").
static inline bool trainer_says(const char *line, const char *path, const char *text) {
    const char *found = trainer_find(line, path);
    const size_t length = strlen(text);
    return found && *found == '"' && strncmp(found + 1, text, length) == 0 && found[1 + length] == '"';
}

// Maps what the first line places: ("desk", "weights"), ("data.train.samples", "offset"). The desk may be written to.
// Returns NULL if the run has no such part or the kernel refuses; the mapping ends with the process.
static inline void *trainer_map(const char *line, const char *place, const char *offset) {
    char path[64];
    struct stat about;
    snprintf(path, sizeof path, "%s.fd", place);
    const int fd = (int)trainer_number(line, path, -1);
    snprintf(path, sizeof path, "%s.%s", place, offset);
    const double at = trainer_number(line, path, -1);
    if (at < 0 || fstat(fd, &about) != 0) return NULL;
    const size_t extra = (size_t)at % (size_t)sysconf(_SC_PAGESIZE), begin = (size_t)at - extra;
    const int access = strcmp(place, "desk") == 0 ? PROT_READ | PROT_WRITE : PROT_READ;
    void *memory = mmap(NULL, (size_t)about.st_size - begin, access, MAP_SHARED | MAP_NORESERVE, fd, (off_t)begin);
    return memory == MAP_FAILED ? NULL : (char *)memory + extra;
}

// Samples in the type that they have, and their labels or targets.
typedef struct TrainerSamples {
    const uint8_t *pixels;  // NULL if samples are floats
    const float *numbers;   // NULL if samples are pixels; as they enter a net
    const uint16_t *labels; // NULL if samples have targets
    const float *targets;   // NULL if samples have labels
} TrainerSamples;

static inline TrainerSamples trainer_typed(const void *samples, bool are_pixels, const void *labels, bool are_targets) {
    const TrainerSamples typed = {
        are_pixels ? (const uint8_t *)samples : NULL, are_pixels ? NULL : (const float *)samples,
        are_targets ? NULL : (const uint16_t *)labels, are_targets ? (const float *)labels : NULL};
    return typed;
}

enum { TRAINER_MOST_CHANNELS = 16 };

// The run as the first line describes it, with its files mapped, and the samples of the turn.
typedef struct TrainerRun {
    size_t inputs, classes; // numbers in a sample: channels x rows x columns; classes: 1 if samples have targets
    size_t of_channel;      // numbers in one of its channels
    // A pixel of channel c enters a net as pixel * scale[c] + offset[c].
    double scale[TRAINER_MOST_CHANNELS], offset[TRAINER_MOST_CHANNELS];
    bool describe; // the parent asks for the tensors: their initial values are to be written to desk_fd
    int desk_fd;
    float *weights;                   // on the desk: of all tensors, one after the other
    const float *shift, *zeros;       // as many; on the desk; owned
    float *kept;                      // on the desk: the state of the client that is trained; NULL: clients keep none
    float *answers;                   // on the desk: (samples of a test, classes); NULL: the run wants none
    const uint32_t *ends;             // on the desk: the ends of the turn's batches
    const uint32_t *order, *places;   // on the desk: rows of the turn's samples in a split, in seen
    TrainerSamples train, test, seen; // the splits; on the desk: what a client sees that is attacked, or drifts
    // Set by trainer_begin for its turn: what is added to each gradient; the N floats that the client keeps, to be
    // changed in place, zeros in its first turn (NULL: it keeps none, and begins with zeros of the program's); the
    // samples, and which of them.
    const float *added;
    float *state;
    const TrainerSamples *data;
    const uint32_t *rows;
} TrainerRun;

static inline TrainerRun trainer_run(const char *line) {
    static const char splits[2][6] = {"train", "test"};
    double sides[3] = {0};
    TrainerRun run;
    memset(&run, 0, sizeof run);
    trainer_numbers(sides, 3, line, "data.shape");
    run.of_channel = (size_t)(sides[1] * sides[2]);
    run.inputs = (size_t)sides[0] * run.of_channel;
    run.classes = (size_t)trainer_number(line, "data.classes", 0);
    trainer_numbers(run.scale, TRAINER_MOST_CHANNELS, line, "data.scale");
    trainer_numbers(run.offset, TRAINER_MOST_CHANNELS, line, "data.shift");
    run.describe = trainer_number(line, "describe", 0) == 1;
    run.desk_fd = (int)trainer_number(line, "desk.fd", -1);
    run.weights = (float *)trainer_map(line, "desk", "weights");
    run.shift = (const float *)trainer_map(line, "desk", "shift");
    run.zeros = (const float *)calloc((size_t)trainer_number(line, "parameters", 0) + 1, sizeof(float));
    run.kept = (float *)trainer_map(line, "desk", "state");
    run.answers = (float *)trainer_map(line, "desk", "answers");
    run.order = (const uint32_t *)trainer_map(line, "desk", "order");
    run.places = (const uint32_t *)trainer_map(line, "desk", "places");
    run.ends = (const uint32_t *)trainer_map(line, "desk", "ends");
    const bool targets = trainer_says(line, "data.train.labels.type", "f4");
    for (int s = 0; s < 2; s++) {
        char samples[32], labels[32], type[48];
        snprintf(samples, sizeof samples, "data.%s.samples", splits[s]);
        snprintf(labels, sizeof labels, "data.%s.labels", splits[s]);
        snprintf(type, sizeof type, "%s.type", samples);
        *(s == 0 ? &run.train : &run.test) =
            trainer_typed(trainer_map(line, samples, "offset"), trainer_says(line, type, "u1"),
                          trainer_map(line, labels, "offset"), targets);
    }
    run.seen = trainer_typed(trainer_map(line, "desk", "samples"), trainer_says(line, "desk.samples_type", "u1"),
                             trainer_map(line, "desk", "labels"), targets);
    return run;
}

// A turn begins: its samples are those of a split, or those that the client sees.
static inline void trainer_begin(TrainerRun *run, const char *line) {
    const bool viewed = trainer_number(line, "viewed", 0) == 1;
    run->data = viewed ? &run->seen : trainer_says(line, "split", "test") ? &run->test : &run->train;
    run->rows = viewed ? run->places : run->order;
    run->state = trainer_number(line, "keeps", 0) == 1 ? run->kept : NULL;
    run->added = run->shift && trainer_number(line, "shifts", 0) == 1 ? run->shift : run->zeros;
}

// Writes sample s (0, 1, ... over all batches of the turn) as it enters a net to x (inputs). Returns its label or
// target.
static inline double trainer_sample(float *x, const TrainerRun *run, uint32_t s) {
    const size_t row = run->rows[s], first = row * run->inputs;
    if (run->data->numbers) memcpy(x, run->data->numbers + first, run->inputs * sizeof *x);
    for (size_t i = 0; run->data->pixels && i < run->inputs; i++) {
        const size_t channel = i / run->of_channel;
        x[i] = (float)run->data->pixels[first + i] * (float)run->scale[channel] + (float)run->offset[channel];
    }
    return run->data->labels ? run->data->labels[row] : (double)run->data->targets[row];
}

// The result of a turn.
typedef struct TrainerResult {
    double loss_sum;         // of the losses of all samples
    unsigned samples, steps; // that were trained on, or tested; of the optimizer
    int hits;                // samples that were right; below 0 in every test: there is no accuracy
    // How far a gradient of 1 in every step would have taken a weight; 0: the steps are those of SGD with the turn's lr
    // and momentum. SCAFFOLD and FedNova divide by it.
    double travel;
    // Samples of a test whose scores (before softmax), or predicted targets, are in run.answers; without that part it
    // does not matter.
    unsigned answers;
} TrainerResult;

// Answers the turn of `line`. Returns 0, or EOF: the run has ended.
static inline int trainer_answer(FILE *out, const char *line, const TrainerResult *result) {
    char loss[32] = "null"; // JSON has no other word for what is not finite
    if (result->loss_sum - result->loss_sum == 0) snprintf(loss, sizeof loss, "%.17g", result->loss_sum);
    fprintf(out, "{\"turn\":%.0f,\"loss_sum\":%s,\"samples\":%u,\"steps\":%u", trainer_number(line, "turn", 0), loss,
            result->samples, result->steps);
    if (result->hits >= 0) fprintf(out, ",\"hits\":%d", result->hits);
    if (result->travel > 0) fprintf(out, ",\"travel\":%.17g", result->travel);
    if (result->answers > 0) fprintf(out, ",\"answers\":%u", result->answers);
    fputs("}\n", out);
    return fflush(out);
}

#endif

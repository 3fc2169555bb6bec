// What a trainer in C needs of Sounder. A trainer is a program that `sounder train --trainer ./trainer` starts: it
// trains the clients and tests the model in place of the engine. `sounder help trainer` documents every message.
//
//   FILE *lines = fdopen(atoi(getenv(TRAINER_SOCKET)), "r");   // a connected socket; each line is one JSON object
//   getline(&line, &room, lines);                              // the first one says where everything is
//   TrainerRun run = trainer_run(line);
//   while (getline(&line, &room, lines) > 0)                   // a turn, which the program answers
//       lr = trainer_number(line, "lr", 0); ...
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

enum { TRAINER_VERSION = 1, TRAINER_MOST_LINE = 1 << 20 }; // of the messages; bytes of the longest

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

// The samples of the training or the test set, in the type that they have, and their labels or targets.
typedef struct TrainerSplit {
    const uint8_t *pixels;  // NULL if samples are floats
    const float *numbers;   // NULL if samples are pixels
    const uint16_t *labels; // NULL if samples have targets
    const float *targets;   // NULL if samples have labels
} TrainerSplit;

static inline TrainerSplit trainer_split(const char *line, const char *name) {
    char samples[64], labels[64], type[80];
    snprintf(samples, sizeof samples, "data.%s.samples", name);
    snprintf(labels, sizeof labels, "data.%s.labels", name);
    const void *x = trainer_map(line, samples, "offset"), *y = trainer_map(line, labels, "offset");
    snprintf(type, sizeof type, "%s.type", samples);
    const bool pixels = trainer_says(line, type, "u1");
    snprintf(type, sizeof type, "%s.type", labels);
    const bool classes = trainer_says(line, type, "u2");
    const TrainerSplit split = {pixels ? (const uint8_t *)x : NULL, pixels ? NULL : (const float *)x,
                                classes ? (const uint16_t *)y : NULL, classes ? NULL : (const float *)y};
    return split;
}

// The contents of the first line, mapped. A pixel of the first channel enters a net as pixel * scale + offset.
typedef struct TrainerRun {
    size_t inputs, classes; // numbers in a sample: channels x rows x columns; classes: 1 if samples have targets
    float scale, offset;
    bool describe; // the parent asks for the tensors: their initial values are to be written to desk_fd
    int desk_fd;
    float *weights, *shift;       // on the desk; shift: zeros if the algorithm adds nothing to the gradients
    const uint32_t *order, *ends; // on the desk: sample numbers of the turn, and the ends of its batches in them
    TrainerSplit train, test;
} TrainerRun;

static inline TrainerRun trainer_run(const char *line) {
    double sides[3] = {0};
    TrainerRun run;
    trainer_numbers(sides, 3, line, "data.shape");
    run.inputs = (size_t)(sides[0] * sides[1] * sides[2]);
    run.classes = (size_t)trainer_number(line, "data.classes", 0);
    run.scale = (float)trainer_number(line, "data.scale", 1);
    run.offset = (float)trainer_number(line, "data.shift", 0);
    run.describe = trainer_number(line, "describe", 0) == 1;
    run.desk_fd = (int)trainer_number(line, "desk.fd", -1);
    run.weights = (float *)trainer_map(line, "desk", "weights");
    run.shift = (float *)trainer_map(line, "desk", "shift");
    if (!run.shift) run.shift = (float *)calloc((size_t)trainer_number(line, "parameters", 0) + 1, sizeof(float));
    run.order = (const uint32_t *)trainer_map(line, "desk", "order");
    run.ends = (const uint32_t *)trainer_map(line, "desk", "ends");
    run.train = trainer_split(line, "train");
    run.test = trainer_split(line, "test");
    return run;
}

#endif

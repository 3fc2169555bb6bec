// Trains nets a few steps from raw files, for torch_parity.py and torch_random.py: logits of the first batch, then SGD
// steps.
//
//   net_steps < JOBS
//
// A line of JOBS: CLASSES CHANNELS ROWS COLUMNS BATCH STEPS LR MOMENTUM WEIGHT_DECAY FOLDER TEXT. Reads
// FOLDER/parameters (float32), FOLDER/pixels (uint8; a pixel p enters the net as p / 128 - 1) and FOLDER/labels
// (uint16), BATCH * STEPS samples; writes FOLDER/logits and FOLDER/trained (float32).
#include <stdio.h>
#include <stdlib.h>

#include "nn/net.h"

static void *read_or_write(const char *folder, const char *name, void *data, size_t bytes, const char *mode) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, mode);
    if (!data) data = malloc(bytes);
    if (!file || !data || (*mode == 'r' ? fread(data, 1, bytes, file) : fwrite(data, 1, bytes, file)) != bytes) {
        perror(path);
        exit(1);
    }
    fclose(file);
    return data;
}

// What a line says.
typedef struct Trial {
    int classes;
    Shape shape;
    uint32_t count, steps;
    Sgd sgd;
    char folder[2048], text[SPEC_TEXT_BYTES];
} Trial;

static void train(Net *net, const Trial *trial) {
    const size_t parameter_count = net->spec.parameter_count, samples = (size_t)trial->count * trial->steps;
    const size_t logit_bytes = (size_t)trial->count * (size_t)trial->classes * sizeof(float);
    float *parameters = read_or_write(trial->folder, "parameters", NULL, parameter_count * sizeof(float), "r");
    uint8_t *pixels = read_or_write(trial->folder, "pixels", NULL, samples * shape_size(trial->shape), "r");
    uint16_t *labels = read_or_write(trial->folder, "labels", NULL, samples * sizeof *labels, "r");
    float *velocity = calloc(parameter_count, sizeof *velocity), *logits = malloc(logit_bytes);
    if (!velocity || !logits) exit(1);
    const float scale[3] = {1.0f / 128, 1.0f / 128, 1.0f / 128}, shift[3] = {-1, -1, -1};
    Batch batch = {.pixels = pixels, .labels = labels, .count = trial->count, .scale = scale, .shift = shift};
    net_logits(net, logits, parameters, &batch);
    read_or_write(trial->folder, "logits", logits, logit_bytes, "w");
    BatchResult result;
    for (uint32_t step = 0; step < trial->steps; step++, batch.first += trial->count)
        net_train_step(net, parameters, velocity, &result, &trial->sgd, NULL, &batch, NULL);
    read_or_write(trial->folder, "trained", parameters, parameter_count * sizeof(float), "w");
    void *const owned[] = {parameters, pixels, labels, velocity, logits};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        free(owned[i]);
}

int main(void) {
    Trial trial;
    Spec spec;
    Net net;
    Error err;
    while (scanf("%d %d %d %d %u %u %f %f %f %2047s %2047[^\n]", &trial.classes, &trial.shape.channels,
                 &trial.shape.rows, &trial.shape.columns, &trial.count, &trial.steps, &trial.sgd.lr,
                 &trial.sgd.momentum, &trial.sgd.weight_decay, trial.folder, trial.text) == 11) {
        if (spec_parse(&spec, trial.text, trial.shape, trial.classes, &err) ||
            net_init(&net, &spec, kernels_best(), &err)) {
            fprintf(stderr, "%s: %s\n", trial.text, err.message);
            return 1;
        }
        train(&net, &trial);
        net_free(&net);
    }
    return feof(stdin) ? 0 : 64;
}

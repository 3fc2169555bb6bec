// Trains a net a few steps from raw files, for torch_parity.py: logits of the first batch, then SGD steps.
//
//   net_steps TEXT CLASSES CHANNELS ROWS COLUMNS BATCH STEPS LR MOMENTUM WEIGHT_DECAY FOLDER
//
// Reads FOLDER/parameters (float32), FOLDER/pixels (uint8; a pixel p enters the net as p / 128 - 1) and FOLDER/labels
// (uint16), BATCH * STEPS samples; writes FOLDER/logits and FOLDER/trained (float32) and prints the last step's loss.
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

int main(int argc, char **argv) {
    if (argc != 12) return 64;
    int classes = atoi(argv[2]);
    Shape shape = {atoi(argv[3]), atoi(argv[4]), atoi(argv[5])};
    uint32_t count = (uint32_t)atoi(argv[6]), steps = (uint32_t)atoi(argv[7]);
    float lr = strtof(argv[8], NULL), momentum = strtof(argv[9], NULL), decay = strtof(argv[10], NULL);
    const char *folder = argv[11];
    Error err;
    Spec spec;
    Net net;
    if (spec_parse(&spec, argv[1], shape, classes, &err) || net_init(&net, &spec, kernels_best(), &err)) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    size_t parameter_count = spec.parameter_count, samples = (size_t)count * steps;
    float *parameters = read_or_write(folder, "parameters", NULL, parameter_count * sizeof(float), "r");
    uint8_t *pixels = read_or_write(folder, "pixels", NULL, samples * shape_size(shape), "r");
    uint16_t *labels = read_or_write(folder, "labels", NULL, samples * sizeof *labels, "r");
    float *velocity = calloc(parameter_count, sizeof *velocity);
    float *logits = malloc((size_t)count * (size_t)classes * sizeof *logits);
    const float scale[3] = {1.0f / 128, 1.0f / 128, 1.0f / 128}, shift[3] = {-1, -1, -1};
    if (!velocity || !logits) return 1;

    Batch batch = {.pixels = pixels, .labels = labels, .count = count, .scale = scale, .shift = shift};
    net_logits(&net, logits, parameters, &batch);
    read_or_write(folder, "logits", logits, (size_t)count * (size_t)classes * sizeof *logits, "w");
    const Sgd sgd = {lr, momentum, decay};
    BatchResult result;
    for (uint32_t step = 0; step < steps; step++, batch.first += count) {
        net_train_step(&net, parameters, velocity, &result, &sgd, NULL, &batch, NULL);
    }
    read_or_write(folder, "trained", parameters, parameter_count * sizeof(float), "w");
    printf("%.9g\n", result.loss_sum / count);
    void *const owned[] = {parameters, pixels, labels, velocity, logits};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        free(owned[i]);
    net_free(&net);
    return 0;
}

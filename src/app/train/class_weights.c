#include "class_weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Counts the samples of clients that can arrive: with a validation set, new clients, or absent ones, there are fewer
// than training samples. A class without a sample counts 1.
static Status balance(float *weights, const RunMemory *memory, Error *err) {
    const Partition *partition = &memory->partition;
    const int classes = memory->data.classes;
    int occur = 0;
    uint32_t *counts = calloc((size_t)classes, sizeof *counts);
    if (!counts) return fail(err, STATUS_OS, "no memory for the counts of %d classes", classes);
    uint32_t samples = 0;
    for (uint32_t client = 0, size; client < partition->clients; client++) {
        const uint32_t *indices = partition_client(partition, client, &size);
        if (!run_memory_can_arrive(memory, client)) continue;
        for (uint32_t i = 0; i < size; i++)
            counts[memory->data.train.labels[indices[i]]]++;
        samples += size;
    }
    for (int label = 0; label < classes; label++)
        occur += counts[label] > 0;
    for (int label = 0; label < classes; label++)
        weights[label] = counts[label] > 0 ? (float)((double)samples / occur / counts[label]) : 1;
    free(counts);
    return STATUS_OK;
}

Status class_weights_read(RunMemory *memory, const Options *options, Error *err) {
    const Dataset *data = &memory->data;
    static const char name[] = "class-weights";
    if (strcmp(options->class_weights, "balanced") == 0) return balance(memory->class_weights, memory, err);
    const char *text = options->class_weights;
    int count = 0;
    for (char *end; *text; text = end + (*end == ',')) {
        const double weight = strtod(text, &end);
        if (end == text || (*end && *end != ',') || !(weight > 0 && weight <= 1e9))
            return options_refuse(
                options, name, err,
                " %.64s: the weight of class %d is no number above 0; write balanced, or one for each class",
                options->class_weights, count);
        if (count < data->classes) memory->class_weights[count] = (float)weight;
        count++;
    }
    if (count == data->classes) return STATUS_OK;
    return options_refuse(options, name, err,
                          " %.64s: %d weights, and %.64s has %d classes; write balanced, or one for each class",
                          options->class_weights, count, data->name, data->classes);
}

#include "lines.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

enum { LINE_VERSION = 1 };

static const uint64_t seed_mask = (UINT64_C(1) << 53) - 1;

static void put_place(JsonObject *split, const char *key, int fd, uint64_t offset, const char *type) {
    JsonObject place;
    json_begin(&place);
    put_whole(&place, "fd", fd);
    put_whole(&place, "offset", (int64_t)offset);
    put_text(&place, "type", type);
    put_object(split, key, &place);
}

// Trainers map the data set that workers have mapped, so that it is in memory once.
static int data_fd(const RunMemory *memory) {
    const DatasetSegment *segment = &memory->data_segment;
    return segment->worker_fd >= 0 ? segment->worker_fd : segment->segment.fd; // of the parent, of a worker
}

static void put_split(JsonObject *parent, const char *key, const RunMemory *memory, DatasetSplitKind kind) {
    const Dataset *data = &memory->data;
    const DatasetSplit *split = kind == DATASET_TRAIN ? &data->train : &data->test;
    const SamplesFile *file = &memory->data_segment.samples[kind];
    const uint8_t *block = memory->data_segment.segment.memory;
    JsonObject told;
    json_begin(&told);
    put_whole(&told, "count", split->count);
    if (dataset_has_samples(&data->items))
        put_place(&told, "samples", file->fd >= 0 ? file->fd : data_fd(memory),
                  file->fd >= 0 ? data->begins[kind] : (uint64_t)(split->pixels - block),
                  data->items.pixel_bytes == 1 ? "u1" : "f4");
    put_place(&told, "labels", data_fd(memory), (uint64_t)((const uint8_t *)split->labels - block),
              dataset_has_targets(&data->items) ? "f4" : "u2");
    put_object(parent, key, &told);
}

// Pixels are mapped as the bytes that they are. The line has the scale and shift of each channel, since turning all of
// them into floats once per process would take four times the memory.
static void put_data(JsonObject *line, const RunMemory *memory) {
    const Dataset *data = &memory->data;
    double scale[DATASET_MAX_CHANNELS], shift[DATASET_MAX_CHANNELS];
    const size_t channels = data->items.pixel_bytes == 1 ? (size_t)data->shape.channels : 0;
    for (size_t c = 0; c < channels; c++)
        scale[c] = (double)data->scale[c], shift[c] = (double)data->shift[c];
    JsonObject told;
    json_begin(&told);
    put_wholes(&told, "shape", (int64_t[]){data->shape.channels, data->shape.rows, data->shape.columns}, 3);
    put_whole(&told, "classes", data->classes);
    if (data->items.tokens > 0) put_whole(&told, "tokens", data->items.tokens);
    put_reals(&told, "scale", scale, channels);
    put_reals(&told, "shift", shift, channels);
    put_split(&told, "train", memory, DATASET_TRAIN);
    put_split(&told, "test", memory, DATASET_TEST);
    put_object(line, "data", &told);
}

// A number, true, false, or a word, as the option was written, so that a program may compute with turn.options without
// parsing text. Whole numbers below 1e15 are exact in every language's number.
static void put_option(JsonObject *options, const char *name, const char *value) {
    char *end;
    const double number = strtod(value, &end);
    if (strcmp(value, "true") == 0 || strcmp(value, "false") == 0)
        put_flag(options, name, value[0] == 't');
    else if (*value && !*end && isfinite(number) && number == floor(number) && fabs(number) < 1e15)
        put_whole(options, name, (int64_t)number);
    else if (*value && !*end && isfinite(number))
        put_real(options, name, number);
    else
        put_readable(options, name, value);
}

// Beside the data, in the first line: a program may choose its net by its options before it is asked for the tensors.
void trainer_line_put_options(JsonObject *line, const TrainerPlan *plan) {
    char text[TRAINER_TEXT_BYTES], *rest;
    JsonObject options;
    json_begin(&options);
    snprintf(text, sizeof text, "%s", plan->options);
    // Each word has its '=': run_plan_trainer has refused others.
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        char *equals = strchr(word, '=');
        *equals = '\0';
        put_option(&options, word, equals + 1);
    }
    put_object(line, "options", &options);
}

void trainer_line_put_tensors(JsonObject *line, const TensorList *list) {
    JsonObject tensors;
    json_begin_array(&tensors);
    for (int t = 0; t < list->count; t++) {
        JsonObject tensor;
        json_begin_array(&tensor);
        put_text(&tensor, NULL, list->tensors[t].name);
        put_wholes(&tensor, NULL, list->tensors[t].shape, (size_t)list->tensors[t].rank);
        put_object(&tensors, NULL, &tensor);
    }
    put_object(line, "tensors", &tensors);
}

void trainer_line_open(JsonObject *line, const TrainerPlan *plan, uint64_t seed) {
    json_begin(line);
    put_whole(line, "sounder", LINE_VERSION);
    put_whole(line, "seed", (int64_t)(seed & seed_mask));
    put_whole(line, "threads", plan->threads);
}

void trainer_line_begin(JsonObject *line, const TrainerPlan *plan, const RunMemory *memory, uint64_t seed) {
    trainer_line_open(line, plan, seed);
    put_data(line, memory);
    trainer_line_put_options(line, plan);
}

// Samples that are not in the data set's segment are in a file that is mapped as it is, with a descriptor of its own.
size_t trainer_line_fds(int fds[TRAINER_MOST_FDS], int desk_fd, const RunMemory *memory) {
    size_t count = 0;
    fds[count++] = desk_fd;
    fds[count++] = data_fd(memory);
    for (DatasetSplitKind split = 0; split < DATASET_SPLITS; split++)
        if (memory->data_segment.samples[split].fd >= 0) fds[count++] = memory->data_segment.samples[split].fd;
    return count;
}

// A remedy is a warning: each worker imports and loads by itself otherwise, which takes time and memory.
void trainer_line_say_unforked(const json_t *told) {
    const char *why = json_string_value(json_object_get(told, "why"));
    const char *remedy = json_string_value(json_object_get(told, "remedy"));
    if (remedy)
        log_warning("--trainer-start each, because the trainer cannot be forked: %s", remedy);
    else
        log_info("--trainer-start each, because the trainer cannot be forked: %s", why ? why : "it says so");
}

// The key has the seed of the run, the purpose, round and client: any worker, and any trainer that is started again,
// gets the turn's seed without asking.
int64_t trainer_seed(RngKey key) {
    const RngBlock block = rng_block(key, 0, 0, 0, 0);
    return (int64_t)(((uint64_t)block.word[0] << 21 | block.word[1] >> 11) & seed_mask);
}

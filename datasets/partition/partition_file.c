// Part of partition.h: a partition that a file lists: one owner per line.
#include "datasets/partition.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "datasets/partition/partitioner.h"

enum { MOST_CLIENTS = 1000000 }; // as for --clients

static const char head[] = "sounder partition 1\n";

Status partition_file_write(const char *path, const Partition *partition, uint32_t samples, Error *err) {
    FILE *file = fopen(path, "wxe"); // never replaces a file
    if (!file) return fail_errno(err, STATUS_CANTCREATE, "%.500s: cannot be created", path);
    fprintf(file, "%ssamples %u clients %u\n", head, samples, partition->clients);
    for (uint32_t client = 0; client < partition->clients; client++) {
        uint32_t count;
        const uint32_t *indices = partition_client(partition, client, &count);
        for (uint32_t i = 0; i < count; i++)
            fprintf(file, i ? " %u" : "%u", indices[i]);
        fputc('\n', file);
    }
    return file_close(file, path, err);
}

// A file that is being read, line by line.
typedef struct Reading {
    FILE *file;
    const char *path;
    char *line; // owned, by getline
    size_t room;
    uint32_t number; // of the current line
} Reading;

static Status damaged(const Reading *reading, const char *what, Error *err) {
    return fail(err, STATUS_DATA, "%.500s:%u: %s", reading->path, reading->number, what);
}

static Status next_line(Reading *reading, Error *err) {
    reading->number++;
    errno = 0;
    if (getline(&reading->line, &reading->room, reading->file) > 0) return STATUS_OK;
    if (ferror(reading->file)) return fail_errno(err, STATUS_IO, "%.500s: cannot be read", reading->path);
    return damaged(reading, "the file ends too early", err);
}

static Status open_file(Reading *reading, uint32_t *samples, uint32_t *clients, const char *path, Error *err) {
    *reading = (Reading){.path = path};
    TRY(regular_file_open(&reading->file, path, err));
    TRY(next_line(reading, err));
    if (strcmp(reading->line, head) != 0) return damaged(reading, "no partition: needs \"sounder partition 1\"", err);
    TRY(next_line(reading, err));
    char end;
    if (sscanf(reading->line, "samples %9u clients %9u%c", samples, clients, &end) != 3 || end != '\n')
        return damaged(reading, "needs \"samples N clients N\"", err);
    if (*clients >= 1 && *clients <= MOST_CLIENTS) return STATUS_OK;
    return fail(err, STATUS_DATA, "%.500s:%u: %u clients; there may be 1 to %d", path, reading->number, *clients,
                MOST_CLIENTS);
}

static void close_file(Reading *reading) {
    free(reading->line);
    if (reading->file) fclose(reading->file);
}

// Reads the samples of one client. taken (samples): whether a client has them already.
static Status read_client(uint32_t *indices, uint32_t *filled, uint8_t *taken, uint32_t samples, Reading *reading,
                          Error *err) {
    TRY(next_line(reading, err));
    for (char *text = reading->line; *text != '\n';) {
        char *end;
        if (!isdigit((unsigned char)*text)) return damaged(reading, "needs numbers of samples between blanks", err);
        unsigned long long index = strtoull(text, &end, 10);
        if (index >= samples)
            return fail(err, STATUS_DATA, "%.500s:%u: sample %llu of %u", reading->path, reading->number, index,
                        samples);
        if (taken[index]++)
            return fail(err, STATUS_DATA, "%.500s:%u: sample %llu is given twice", reading->path, reading->number,
                        index);
        indices[(*filled)++] = (uint32_t)index;
        text = end + (*end == ' ');
    }
    return STATUS_OK;
}

Status partition_file_clients(uint32_t *clients, const char *path, Error *err) {
    Reading reading;
    uint32_t samples;
    Status status = open_file(&reading, &samples, clients, path, err);
    close_file(&reading);
    return status;
}

static Status read_clients(uint32_t *offsets, uint32_t *indices, Reading *reading, uint32_t samples, uint32_t clients,
                           Error *err) {
    uint8_t *taken = calloc(samples, 1);
    if (!taken) return fail(err, STATUS_OS, "no memory for reading a partition of %u samples", samples);
    Status status = STATUS_OK;
    uint32_t filled = 0;
    offsets[0] = 0;
    for (uint32_t client = 0; client < clients && status == STATUS_OK; client++) {
        status = read_client(indices, &filled, taken, samples, reading, err);
        offsets[client + 1] = filled;
    }
    free(taken);
    if (status != STATUS_OK || getline(&reading->line, &reading->room, reading->file) <= 0) return status;
    return fail(err, STATUS_DATA, "%.500s:%u: more lines than its %u clients", reading->path, reading->number + 1,
                clients);
}

Status partition_file_read(uint32_t *offsets, uint32_t *indices, const char *path, uint32_t samples, uint32_t clients,
                           Error *err) {
    Reading reading;
    uint32_t file_samples, file_clients;
    Status status = open_file(&reading, &file_samples, &file_clients, path, err);
    if (status == STATUS_OK && file_samples != samples)
        status = fail(err, STATUS_USAGE,
                      "%.500s: a partition of %u samples, and the data set has %u; make one for it with "
                      "`sounder partition --save`",
                      path, file_samples, samples);
    if (status == STATUS_OK && file_clients != clients)
        status = fail(err, STATUS_USAGE,
                      "%.500s: a partition for %u clients, and there are %u; set --clients %u, or leave it "
                      "out",
                      path, file_clients, clients, file_clients);
    if (status == STATUS_OK) status = read_clients(offsets, indices, &reading, samples, clients, err);
    close_file(&reading);
    return status;
}

static Status build_file(uint32_t *offsets, uint32_t *indices, const PartitionTask *task, Error *err) {
    return partition_file_read(offsets, indices, form_text(&task->spec->form, 0), task->samples, task->clients, err);
}

// Rows are easier to read on few lines.
// clang-format off
const Partitioner file_partitioner = {
    .text = {.name = "file", .source = "own", .help = "as the file says that `sounder partition --save FILE` has written",
        .keys = {{.name = "FILE", .type = FORM_TEXT, .help = "a line for each client, with its samples"}}},
    .by_number = true, .build = build_file};
// clang-format on

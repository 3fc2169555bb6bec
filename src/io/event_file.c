#include "event_file.h"

#include <fcntl.h>
#include <float.h>
#include <isa-l/crc.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/durable.h"

// Messages -----------------------------------------------------------------------------------------------------------

enum WireType { WIRE_VARINT = 0, WIRE_8_BYTES = 1, WIRE_LENGTH = 2, WIRE_4_BYTES = 5 };
enum { MOST_VARINT_BYTES = 10, HEAD_BYTES = 12, CHECKSUM_BYTES = 4 };

// Makes room for `count` more uninitialised bytes. Returns NULL if there is no memory.
static unsigned char *grow(Message *message, size_t count) {
    if (message->no_memory) return NULL;
    if (message->capacity - message->count < count) {
        const size_t capacity = 2 * message->capacity + count + 256;
        unsigned char *bytes = realloc(message->bytes, capacity);
        if (!bytes) {
            message->no_memory = true;
            return NULL;
        }
        message->bytes = bytes;
        message->capacity = capacity;
    }
    message->count += count;
    return message->bytes + message->count - count;
}

static void append(Message *message, const void *bytes, size_t count) {
    unsigned char *place = grow(message, count);
    if (place && count > 0) memcpy(place, bytes, count);
}

// Seven bits per byte, the lowest first; the eighth bit says that more bytes follow.
static size_t to_varint(unsigned char bytes[MOST_VARINT_BYTES], uint64_t value) {
    size_t count = 0;
    for (; value >= 0x80; value >>= 7)
        bytes[count++] = (unsigned char)(value | 0x80);
    bytes[count++] = (unsigned char)value;
    return count;
}

static void append_varint(Message *message, uint64_t value) {
    unsigned char bytes[MOST_VARINT_BYTES];
    append(message, bytes, to_varint(bytes, value));
}

static void append_key(Message *message, int field, enum WireType type) {
    append_varint(message, (uint64_t)field << 3 | (uint64_t)type);
}

void message_whole(Message *message, int field, uint64_t value) {
    append_key(message, field, WIRE_VARINT);
    append_varint(message, value);
}

void message_real(Message *message, int field, double value) {
    append_key(message, field, WIRE_8_BYTES);
    append(message, &value, sizeof value);
}

static void append_long(Message *message, int field, const void *bytes, size_t count) {
    append_key(message, field, WIRE_LENGTH);
    append_varint(message, count);
    append(message, bytes, count);
}

void message_text(Message *message, int field, const char *value) {
    append_long(message, field, value, strlen(value));
}

static void message_reals(Message *message, int field, const double *values, size_t count) {
    append_long(message, field, values, count * sizeof *values);
}

void message_begin(Message *message, int field) {
    append_key(message, field, WIRE_LENGTH);
    message->begun[message->depth++] = message->count;
}

// The length is known only at the end and is stored before the content, which moves to make room for it.
void message_end(Message *message) {
    unsigned char length[MOST_VARINT_BYTES];
    const size_t begun = message->begun[--message->depth];
    if (message->no_memory) return;
    const size_t count = message->count - begun, length_bytes = to_varint(length, count);
    if (!grow(message, length_bytes)) return;
    memmove(message->bytes + begun + length_bytes, message->bytes + begun, count);
    memcpy(message->bytes + begun, length, length_bytes);
}

// Records ------------------------------------------------------------------------------------------------------------

static uint32_t masked_checksum(unsigned char *bytes, size_t count) {
    const uint32_t checksum = ~crc32_iscsi(bytes, (int)count, ~0u); // CRC-32C
    return (checksum >> 15 | checksum << 17) + 0xa282ead8u;
}

void event_begin(EventFile *file, double wall_time, int64_t step) {
    file->record.count = 0;
    file->record.no_memory = false;
    grow(&file->record, HEAD_BYTES);
    message_real(&file->record, 1, wall_time);
    message_whole(&file->record, 2, (uint64_t)step);
}

Status event_end(EventFile *file, Error *err) {
    Message *record = &file->record;
    if (record->depth > 0) message_end(record); // the summary
    if (!grow(record, CHECKSUM_BYTES) || record->count > INT_MAX)
        return fail(err, STATUS_OS, "%s: no memory for an event", file->name);
    const uint64_t length = record->count - HEAD_BYTES - CHECKSUM_BYTES;
    memcpy(record->bytes, &length, sizeof length);
    uint32_t checksum = masked_checksum(record->bytes, sizeof length);
    memcpy(record->bytes + sizeof length, &checksum, sizeof checksum);
    checksum = masked_checksum(record->bytes + HEAD_BYTES, length);
    memcpy(record->bytes + HEAD_BYTES + length, &checksum, sizeof checksum);
    return file_append(file->fd, file->name, "an event", record->bytes, record->count, err);
}

Status event_restart(EventFile *file, double wall_time, int64_t step, Error *err) {
    event_begin(file, wall_time, step);
    message_begin(&file->record, 7);    // SessionLog
    message_whole(&file->record, 1, 1); // status: START
    message_end(&file->record);
    return event_end(file, err);
}

Status event_file_create(EventFile *file, int folder_fd, const char *name, double wall_time, Error *err) {
    *file = (EventFile){.fd = openat(folder_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666)};
    snprintf(file->name, sizeof file->name, "%s", name);
    if (file->fd < 0) return fail_errno(err, STATUS_CANTCREATE, "%s cannot be created", name);
    event_begin(file, wall_time, 0);
    message_text(&file->record, 3, "brain.Event:2");
    Status status = event_end(file, err);
    if (status == STATUS_OK) return STATUS_OK;
    unlinkat(folder_fd, name, 0);
    event_file_close(file);
    return status;
}

void event_file_close(EventFile *file) {
    close(file->fd);
    free(file->record.bytes);
    *file = (EventFile){.fd = -1};
}

// Values -------------------------------------------------------------------------------------------------------------

// Summary.Value: tag = 1, simple_value = 2, histo = 5, tensor = 8, metadata = 9
static void begin_value(EventFile *file, const char *tag) {
    if (file->record.depth == 0) message_begin(&file->record, 5); // the event's summary, until event_end
    message_begin(&file->record, 1);
    message_text(&file->record, 1, tag);
}

void event_scalar(EventFile *file, const char *tag, double value) {
    const float single = (float)value;
    begin_value(file, tag);
    append_key(&file->record, 2, WIRE_4_BYTES);
    append(&file->record, &single, sizeof single);
    message_end(&file->record);
}

// HistogramProto: min = 1, max = 2, num = 3, sum = 4, sum_squares = 5, bucket_limit = 6, bucket = 7
typedef struct Histogram {
    double minimum, maximum, number, sum, squares;
    const double *limits, *counts; // (classes): upper bound and number of values of each class
    size_t classes;
} Histogram;

static void put_histogram(EventFile *file, const char *tag, const Histogram *histogram) {
    Message *record = &file->record;
    begin_value(file, tag);
    message_begin(record, 5);
    message_real(record, 1, histogram->minimum);
    message_real(record, 2, histogram->maximum);
    message_real(record, 3, histogram->number);
    message_real(record, 4, histogram->sum);
    message_real(record, 5, histogram->squares);
    message_reals(record, 6, histogram->limits, histogram->classes);
    message_reals(record, 7, histogram->counts, histogram->classes);
    message_end(record);
    message_end(record);
}

void event_histogram(EventFile *file, const char *tag, const double *values, size_t count) {
    enum { CLASSES = 30 };
    double limits[CLASSES], counts[CLASSES] = {0};
    Histogram of = {
        .minimum = DBL_MAX, .maximum = -DBL_MAX, .number = (double)count, .limits = limits, .counts = counts};
    for (size_t i = 0; i < count; i++) {
        if (values[i] < of.minimum) of.minimum = values[i];
        if (values[i] > of.maximum) of.maximum = values[i];
        of.sum += values[i];
        of.squares += values[i] * values[i];
    }
    const double width = (of.maximum - of.minimum) / CLASSES;
    of.classes = width > 0 ? CLASSES : 1;
    for (size_t i = 0; i < of.classes; i++)
        limits[i] = of.minimum + width * (double)(i + 1);
    limits[of.classes - 1] = of.maximum;
    for (size_t i = 0; i < count; i++) {
        size_t at = width > 0 ? (size_t)((values[i] - of.minimum) / width) : 0;
        counts[at < of.classes ? at : of.classes - 1]++;
    }
    put_histogram(file, tag, &of);
}

void event_counted(EventFile *file, const char *tag, const double *counts, size_t count) {
    double *limits = malloc(count * sizeof *limits);
    if (!limits) {
        file->record.no_memory = true;
        return;
    }
    Histogram of = {.limits = limits, .counts = counts, .classes = count};
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        const double value = (double)i;
        limits[i] = value + 0.5;
        if (counts[i] <= 0) continue;
        if (!any) of.minimum = value;
        any = true;
        of.maximum = value;
        of.number += counts[i];
        of.sum += counts[i] * value;
        of.squares += counts[i] * value * value;
    }
    put_histogram(file, tag, &of);
    free(limits);
}

// SummaryMetadata: plugin_data = 1 {plugin_name = 1, content = 2}
void event_plugin_begin(EventFile *file, const char *tag, const char *plugin) {
    begin_value(file, tag);
    message_begin(&file->record, 9);
    message_begin(&file->record, 1);
    message_text(&file->record, 1, plugin);
    message_begin(&file->record, 2);
}

// TensorProto: dtype = 1, tensor_shape = 2 {dim = 2 {size = 1}}, string_val = 8. Without a text the tensor is empty, of
// type float: TensorBoard ignores values that have no tensor.
static void end_with_tensor(EventFile *file, const char *text) {
    enum { DT_FLOAT = 1, DT_STRING = 7 };
    Message *record = &file->record;
    for (int i = 0; i < 3; i++) // content, plugin_data, metadata
        message_end(record);
    message_begin(record, 8);
    message_whole(record, 1, text ? DT_STRING : DT_FLOAT);
    message_begin(record, 2);
    message_begin(record, 2);
    message_whole(record, 1, text ? 1 : 0);
    message_end(record);
    message_end(record);
    if (text) message_text(record, 8, text);
    message_end(record);
    message_end(record); // the value
}

void event_plugin_end(EventFile *file) {
    end_with_tensor(file, NULL);
}

void event_text(EventFile *file, const char *tag, const char *value) {
    event_plugin_begin(file, tag, "text");
    end_with_tensor(file, value);
}

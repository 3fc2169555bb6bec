// Event files, which TensorBoard and related tools read: TFRecord records, each with a protobuf message Event.
//
//   record  u64 length | u32 masked CRC-32C of those 8 bytes | payload | u32 masked CRC-32C of it; little endian
//   Event   wall_time = 1 (double), step = 2, file_version = 3 ("brain.Event:2", in the first), summary = 5,
//           session_log = 7
//
// The messages are encoded here: their wire format has only four ways to write a value, and a generator would need a
// copy of TensorFlow's definitions. A record is one write(2); a record that cannot be written in full is removed.
//
//   TRY(event_file_create(&file, folder_fd, "events.out.tfevents.1763797140.host.17.0", seconds, err));
//   event_begin(&file, seconds, round);
//   event_scalar(&file, "loss/train_loss", 0.5);
//   TRY(event_end(&file, err));                        // also reports that memory ran out in a call before
//   event_file_close(&file);
//
// Sources: tensorflow/core/util/event.proto, framework/summary.proto, lib/io/record_writer.cc.
#ifndef SOUNDER_IO_EVENT_FILE_H
#define SOUNDER_IO_EVENT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

// A protobuf message under construction; empty if zeroed. no_memory says that bytes are missing; the caller checks it
// before it uses them.
enum { MESSAGE_MOST_DEPTH = 12 };

typedef struct Message {
    unsigned char *bytes; // owned
    size_t count, capacity;
    bool no_memory;
    int depth; // messages within the message that have begun and not ended
    size_t begun[MESSAGE_MOST_DEPTH];
} Message;

void message_whole(Message *message, int field, uint64_t value);
void message_real(Message *message, int field, double value);
void message_text(Message *message, int field, const char *value);

// Begins a message within the message: the fields written until message_end belong to it.
void message_begin(Message *message, int field);
void message_end(Message *message);

typedef struct EventFile {
    int fd; // owned
    char name[256];
    Message record; // of the current event
} EventFile;

// Creates the file, which must not exist, with its first record. Fails with CANTCREATE or IO and leaves no file.
Status event_file_create(EventFile *file, int folder_fd, const char *name, double wall_time, Error *err);
void event_file_close(EventFile *file);

void event_begin(EventFile *file, double wall_time, int64_t step);
Status event_end(EventFile *file, Error *err);

// Records that a writer continues from `step`: readers drop what earlier files contain from that step on, which never
// became part of the run.
Status event_restart(EventFile *file, double wall_time, int64_t step, Error *err);

// Add values to the current event, by tag.
void event_scalar(EventFile *file, const char *tag, double value);
void event_text(EventFile *file, const char *tag, const char *value);

// Counts the values in at most 30 classes of equal width. count: at least 1; the values are finite.
void event_histogram(EventFile *file, const char *tag, const double *values, size_t count);

// A histogram of whole numbers that are counted already: counts[i] values were i. At least one count is not 0.
void event_counted(EventFile *file, const char *tag, const double *counts, size_t count);

// Content of a TensorBoard plugin, which the caller writes between the two calls.
void event_plugin_begin(EventFile *file, const char *tag, const char *plugin);
void event_plugin_end(EventFile *file);

#endif

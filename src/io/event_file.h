// Event files, which TensorBoard and the tools around it read: records of TFRecord, each a protobuf message Event.
//
//   record  u64 length | u32 masked CRC-32C of those 8 bytes | payload | the payload's likewise; little endian
//   Event   wall_time = 1 (double), step = 2, file_version = 3 ("brain.Event:2", in the first), summary = 5,
//           session_log = 7
//
// The messages are written by hand: their wire format is four ways to write a number, and the definitions of a
// generator would have to be copied from TensorFlow. A record is one write(2); one that cannot be written whole leaves
// nothing.
//
//   TRY(event_file_create(&file, folder_fd, "events.out.tfevents.1763797140.host.17.0", seconds, err));
//   event_begin(&file, seconds, round);
//   event_scalar(&file, "loss/train_loss", 0.5);
//   TRY(event_end(&file, err));                        // fails if any of them had no memory
//   event_file_close(&file);
//
// Sources: tensorflow/core/util/event.proto, framework/summary.proto, lib/io/record_writer.cc.
#ifndef SOUNDER_IO_EVENT_FILE_H
#define SOUNDER_IO_EVENT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

// A protobuf message under way. Zeroed: empty. Who asks for its bytes looks whether memory ran out.
typedef struct Message {
    unsigned char *bytes; // owned
    size_t count, capacity;
    bool no_memory;
} Message;

void message_whole(Message *message, int field, uint64_t value);
void message_real(Message *message, int field, double value);
void message_single(Message *message, int field, float value);
void message_text(Message *message, int field, const char *value);
void message_reals(Message *message, int field, const double *values, size_t count); // packed

// A message within: its fields are written between the two calls. Returns what message_end wants.
size_t message_begin(Message *message, int field);
void message_end(Message *message, size_t begun);

typedef struct EventFile {
    int fd; // owned
    char name[256];
    Message record; // of the event under way
    size_t summary; // where its summary began; 0: it has none yet
} EventFile;

// Creates the file, which must not be there, with its first record. CANTCREATE or IO; nothing is left then.
Status event_file_create(EventFile *file, int folder_fd, const char *name, double wall_time, Error *err);
void event_file_close(EventFile *file);

void event_begin(EventFile *file, double wall_time, int64_t step);
Status event_end(EventFile *file, Error *err);

// That a writer goes on from `step`: what earlier files hold from there on never became part of the run.
Status event_restart(EventFile *file, double wall_time, int64_t step, Error *err);

// Values of the event under way, by tag.
void event_scalar(EventFile *file, const char *tag, double value);
void event_text(EventFile *file, const char *tag, const char *value);

// In at most 30 classes of equal width. count: at least 1; values are finite.
void event_histogram(EventFile *file, const char *tag, const double *values, size_t count);

// Of whole numbers that are counted already: counts[i] were i. One of them is not 0.
void event_counted(EventFile *file, const char *tag, const double *counts, size_t count);

// Content of a plugin of TensorBoard, which the caller writes between the two calls.
typedef struct PluginValue {
    size_t value, metadata, data, content;
} PluginValue;
PluginValue event_plugin_begin(EventFile *file, const char *tag, const char *plugin);
void event_plugin_end(EventFile *file, PluginValue begun);

#endif

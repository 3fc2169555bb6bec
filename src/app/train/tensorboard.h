// RUN/tensorboard/: the lines of metrics.jsonl in TensorBoard's format, written while the run trains.
//
//   scalars     every number of a round's line: loss/train_loss, accuracy/test_accuracy, time/seconds,
//               accuracy/personal_accuracy, loss/test_rmse, network/up_bytes, ... (round/... for those without a
//               group), and of clients_evaluation:
//               clients_global/accuracy_mean, ...
//   histograms  over the clients of a round: clients/loss, clients/seconds, ..., clients_global/accuracy; over the
//               ranks: time/barrier_wait_seconds; of hogwild: updates/staleness
//   hparams     every option that matters; text: config
//
// A process that resumes a run writes a file of its own, which names its first round; if there is no earlier file, it
// first writes the whole past. Nothing here can fail a run: a warning, once, says what cannot be written, and the run
// continues without it.
#ifndef SOUNDER_APP_TRAIN_TENSORBOARD_H
#define SOUNDER_APP_TRAIN_TENSORBOARD_H

#include <jansson.h>

#include "app/options/options.h"
#include "io/durable.h"
#include "io/event_file.h"

// Values of clients, collected until the round is done.
typedef struct TensorboardSeries {
    char tag[160];  // group/key
    double *values; // owned
    size_t count, capacity;
} TensorboardSeries;

typedef struct Tensorboard {
    Folder folder;          // the run's folder; borrowed
    const Options *options; // borrowed
    EventFile file;
    bool wanted, open, goes_on; // goes_on: an earlier process of the run has written a file
    uint32_t rounds_done;       // rounds done when the process began
    TensorboardSeries *series;  // owned, (series_count)
    size_t series_count;
} Tensorboard;

// folder and options are borrowed until tensorboard_end. Creates no file before the first round of a run. A zeroed
// Tensorboard writes nothing.
void tensorboard_begin(Tensorboard *tensorboard, const Folder *folder, const Options *options, uint32_t rounds_done);

// Takes a line that was written to metrics.jsonl, in order.
void tensorboard_note(Tensorboard *tensorboard, const json_t *line);

void tensorboard_end(Tensorboard *tensorboard);

#endif

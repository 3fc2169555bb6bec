// RUN/tensorboard/: the lines of metrics.jsonl as TensorBoard shows them, written as the run goes.
//
//   scalars     every number of a round's line: loss/train_loss, accuracy/test_accuracy, time/seconds,
//               accuracy/personal_accuracy, loss/test_rmse, network/up_bytes, ... (round/... for those without a
//               group), and of clients_evaluation:
//               clients_global/accuracy_mean, ...
//   histograms  over the clients of a round: clients/loss, clients/seconds, ..., clients_global/accuracy; over the
//               ranks: time/barrier_wait_seconds; of hogwild: updates/staleness
//   hparams     every option that matters; text: config
//
// A process that goes on with a run writes a file of its own, which says from which round on; one that finds no earlier
// file writes the whole past first. Nothing here can fail: a warning says what cannot be written, once, and the run
// goes on without.
#ifndef SOUNDER_APP_INSPECT_TENSORBOARD_H
#define SOUNDER_APP_INSPECT_TENSORBOARD_H

#include <jansson.h>

#include "app/options/options.h"
#include "io/durable.h"
#include "io/event_file.h"

// Values of clients, until the round is done.
typedef struct TensorboardSeries {
    char group[64], key[64];
    double *values; // owned
    size_t count, capacity;
} TensorboardSeries;

typedef struct Tensorboard {
    Folder folder;          // of the run; borrowed
    const Options *options; // borrowed
    EventFile file;
    bool wanted, open;
    uint32_t rounds_done;      // when the process began
    TensorboardSeries *series; // owned, (series_count)
    size_t series_count;
} Tensorboard;

// folder and options: borrowed until tensorboard_end. Creates nothing yet for a run that has done no round. Zeroed is a
// Tensorboard that writes nothing.
void tensorboard_begin(Tensorboard *tensorboard, const Folder *folder, const Options *options, uint32_t rounds_done);

// A line that went into metrics.jsonl, in its order.
void tensorboard_note(Tensorboard *tensorboard, const json_t *line);

void tensorboard_end(Tensorboard *tensorboard);

#endif

// The output of trainers and of the aggregator. The parent reads it from a pipe per worker, one of the nursery and one
// of the aggregator, and appends it to RUN/trainer.log line by line, each line with its rank, so that the progress
// display of the run stays whole.
//
//   TRY(trainer_output_open(&output, err));                    // the first two pipes: the folder may not exist yet
//   TRY(trainer_output_add_workers(&output, workers, err));    // workers inherit output.write_fds
//   ... trainer_output_fd(&output, OUTPUT_OF_NURSERY) ...      // where a program prints
//   trainer_output_begin(&output, folder);                     // writes the lines so far, and all later ones
//   trainer_output_poll(&output, polls);                       // (output.sources), for the poll of the parent's loop
//   trainer_output_serve(&output);                             // in it
//   trainer_output_print_last(&output, rank);                  // a run that ends by a trainer's failure
//   trainer_output_close(&output);
//
// A file that cannot be written costs one warning, and the lines that it cannot hold.
#ifndef SOUNDER_FEDAVG_TRAINER_OUTPUT_H
#define SOUNDER_FEDAVG_TRAINER_OUTPUT_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "io/durable.h"

#define TRAINER_LOG_NAME "trainer.log"

typedef struct OutputSource OutputSource;

typedef struct TrainerOutput {
    uint32_t sources;     // the aggregator, the nursery, then the workers; 0: closed
    OutputSource *source; // owned (sources)
    int *write_fds;       // owned (sources - 2): of the workers
    int file;             // owned; -1: not begun
    bool warned;          // of a file that cannot be written
    char path[4096];      // of the file, for messages; "": without a folder lines go to stderr
} TrainerOutput;

enum { OUTPUT_OF_AGGREGATOR = -2, OUTPUT_OF_NURSERY = -1 }; // in the place of a rank

Status trainer_output_open(TrainerOutput *output, Error *err);
Status trainer_output_add_workers(TrainerOutput *output, uint32_t workers, Error *err);

// Returns the write end of a pipe, borrowed.
int trainer_output_fd(const TrainerOutput *output, int rank);

// folder: NULL if the run has none on this node; lines then go to stderr.
void trainer_output_begin(TrainerOutput *output, const Folder *folder);

// Fills in what the parent's loop waits for: polls (output->sources).
void trainer_output_poll(const TrainerOutput *output, struct pollfd *polls);

// Reads what is there, without waiting.
void trainer_output_serve(TrainerOutput *output);

// Prints the last exception that the rank's trainer has printed (its last 20 lines if there is none) on stderr.
void trainer_output_print_last(TrainerOutput *output, int rank);

void trainer_output_close(TrainerOutput *output);

#endif

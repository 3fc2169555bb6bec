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
//   trainer_output_print_last(&output, rank, why);             // a run that ends by a trainer's failure
//   trainer_output_close(&output);
//
// A file that cannot be written costs one warning, and the lines that it cannot hold. A start or a resume adds at most
// TRAINER_LOG_MIB to it, and then the last lines of each source. A progress bar, which writes its line again after each
// carriage return, leaves its last text.
#ifndef SOUNDER_FEDAVG_TRAINER_OUTPUT_H
#define SOUNDER_FEDAVG_TRAINER_OUTPUT_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "io/durable.h"

#define TRAINER_LOG_NAME "trainer.log"

enum { TRAINER_LOG_MIB = 64 };

typedef struct OutputSource OutputSource;

typedef struct TrainerOutput {
    uint32_t sources;     // the aggregator, the nursery, then the workers; 0: closed
    OutputSource *source; // owned (sources)
    int *write_fds;       // owned (sources - 2): of the workers
    int file;             // owned; -1: not begun
    bool warned;          // of a file that cannot be written
    size_t room;          // bytes of lines that the file still takes
    bool full;            // a line did not fit
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

// Prints on stderr what explains `why`, by which the rank's trainer has failed: the exception with that message, or the
// last lines that the trainer has printed; at most 20.
void trainer_output_print_last(TrainerOutput *output, int rank, const char *why);

void trainer_output_close(TrainerOutput *output);

#endif

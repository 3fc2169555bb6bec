// Output for people. On stdout: a heading, one line per round, an ending. On stderr, while a round runs, its progress:
// on a terminal a line that is redrawn, elsewhere a line every ten minutes.
//
//   round 2/3  [#########...........]  45%  71,234 samples/s  ETA 3 s  ranks TTBT
//
// T trains, B is at the barrier, S is starting, D is dead. --quiet omits all output. Nothing here can fail: if stdout
// is lost (a closed pipe, a full disk), one warning says so, and the run continues without it.
//
//   progress_init(&progress, &options, &nodes);
//   progress_step_begin(&progress, "reading the data set"); ... progress_step_end(&progress);
//   progress_heading(&progress, &heading);
//   progress_watch(&progress, &rounds);               // before the rounds start their workers
//   each round: progress_begin(...); progress_tick(&progress); ... progress_end(...);
#ifndef SOUNDER_APP_TRAIN_PROGRESS_H
#define SOUNDER_APP_TRAIN_PROGRESS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "app/options/options.h"
#include "app/train/round_test.h"
#include "datasets/dataset.h"
#include "fedavg/parent/rounds.h"
#include "nn/spec.h"

typedef struct Progress {
    const Rounds *rounds; // borrowed; NULL until progress_watch
    uint32_t round_count;
    bool quiet;         // nothing is written to stdout, or not any more
    bool silent;        // --quiet, or not the first node: no progress either
    bool first;         // the first node, which answers signals
    bool moving;        // stderr is a terminal
    bool answered;      // the first signal was answered
    bool has_heading;   // it was printed
    bool hides_cohorts; // lines of rounds leave out what the record hides (hidden_figures.h)
    bool hides_batches;
    uint32_t round;              // running round; 0: none
    uint64_t round_samples;      // samples that it will train and test
    uint64_t start_progress;     // rounds_progress when it began
    double usual_seconds;        // of a round with its tests, by the last ones; 0: none has ended
    uint64_t start_nanoseconds;  // start of the round, or of the workers
    uint64_t spoken_nanoseconds; // time of the last permanent line on stderr
    const char *step;            // the parent's own step; NULL: none worth a line
    pthread_t step_thread;       // prints the step's name if the step lasts
    int step_pipe[2];            // its end tells that thread that the step is over
} Progress;

// Contents of the heading; all borrowed.
typedef struct Heading {
    const Options *options;
    const char *model;      // name of the model
    const char *aggregator; // name of its script; "": none
    const Spec *spec;
    const Dataset *data;
    const Partition *partition;
    const char *computes_with; // the GPU, or the instruction set
    const char *blas;          // library that multiplies for wide layers; empty: none
    const char *folder;
} Heading;

void progress_init(Progress *progress, const Options *options, const Nodes *nodes);
void progress_heading(Progress *progress, const Heading *heading);

// Begins a step of the set-up, which has no ticks: after two seconds a line on stderr names it. The caller keeps `what`
// alive.
void progress_step_begin(Progress *progress, const char *what);
void progress_step_end(Progress *progress);

// From now on ticks are about these rounds, whose workers are about to start.
void progress_watch(Progress *progress, const Rounds *rounds);

// Begins a round that will process this number of samples.
void progress_begin(Progress *progress, uint32_t round, uint64_t samples);

// Shows the progress of the round, and answers the first signal; for RoundsConfig.on_tick (context: the Progress).
void progress_tick(void *progress);

// Prints the line of a finished round, with the results of its tests; figure: the run's.
void progress_end(Progress *progress, const RoundReport *report, const RoundTest *test, const RunFigure *figure);

// Prints the last line of a run after this many rounds: its figure in the last tests. With a validation set it begins
// with the result on the test set (final).
void progress_conclude(Progress *progress, const RunFigure *figure, const RoundTest *test, const RoundTest *final,
                       uint32_t rounds, double seconds);

// Prints one or more lines on stdout, printf style, with their newlines.
void progress_say(Progress *progress, const char *format, ...) __attribute__((format(printf, 2, 3)));

enum { PROGRESS_NUMBER_BYTES = 32 }; // size of the texts below

// Write 1234567 as "1,234,567"; 59.6 seconds as "60 s", 3700 as "1:01:40". Both return text (PROGRESS_NUMBER_BYTES).
const char *with_commas(char *text, uint64_t number);
const char *duration_text(char *text, double seconds);

// Returns "s" for any count but one: "%u worker%s".
const char *plural(uint64_t count);

#endif

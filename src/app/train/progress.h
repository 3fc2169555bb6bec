// What a person sees. On stdout a heading, one line a round, an ending; on stderr, while a round runs, how far it is:
// on a terminal a line that moves, elsewhere a line every ten minutes.
//
//   round 2/3  [#########...........]  45%  71,234 samples/s  ETA 3 s  ranks TTBT
//
// T trains, B stands at the barrier, S is starting, D is dead. --quiet leaves all of it out. Nothing here can fail:
// when stdout is lost (a closed pipe, a full disk) a warning says so once, and the run goes on without it.
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
    bool quiet;                  // nothing goes to stdout, or nothing any more
    bool silent;                 // --quiet, or not the first node: no progress either
    bool first;                  // the first node: the one that answers to signals
    bool moving;                 // stderr is a terminal
    bool answered;               // the first signal
    uint32_t round;              // running now; 0: none
    uint64_t round_samples;      // what it will train and evaluate
    uint64_t start_progress;     // rounds_progress when it began
    uint64_t start_nanoseconds;  // of the round, or of the start of the workers
    uint64_t spoken_nanoseconds; // when stderr got the last line that does not move
    const char *step;            // what the parent does by itself; NULL: nothing of which there is to speak
    pthread_t step_thread;       // speaks of it if it lasts
    int step_pipe[2];            // whose end tells that thread that the step is over
} Progress;

// What the heading tells; all of it borrowed.
typedef struct Heading {
    const Options *options;
    const char *model; // its name
    const Spec *spec;
    const Dataset *data;
    const Partition *partition;
    const char *computes_with; // the GPU, or the instruction set
    const char *blas;          // what multiplies for wide layers; empty: nothing
    const char *folder;
} Heading;

void progress_init(Progress *progress, const Options *options, const Nodes *nodes);
void progress_heading(Progress *progress, const Heading *heading);

// A step of the set-up, which has no ticks: if it is not over after two seconds a line on stderr says what it is.
// `what` stays the caller's.
void progress_step_begin(Progress *progress, const char *what);
void progress_step_end(Progress *progress);

// From now on ticks are about these rounds, whose workers are about to start.
void progress_watch(Progress *progress, const Rounds *rounds);

// A round begins in which `samples` samples will be worked through.
void progress_begin(Progress *progress, uint32_t round, uint64_t samples);

// Tells how far the round is, and answers the first signal; for RoundsConfig.on_tick (context: the Progress).
void progress_tick(void *progress);

// The line of a finished round, with what its tests have found.
void progress_end(Progress *progress, const RoundReport *report, const RoundTest *test);

// The last line of a run of the figure: what the last tests have found, after so many rounds.
void progress_conclude(Progress *progress, RunFigure figure, const RoundTest *test, uint32_t rounds, double seconds);

// A line or more on stdout, printf style with the newline.
void progress_say(Progress *progress, const char *format, ...) __attribute__((format(printf, 2, 3)));

enum { PROGRESS_NUMBER_BYTES = 32 }; // of the texts below

// 1234567 as "1,234,567"; 59.6 seconds as "60 s", 3700 as "1:01:40". Both return text (PROGRESS_NUMBER_BYTES).
const char *with_commas(char *text, uint64_t number);
const char *duration_text(char *text, double seconds);

// "s" for any count but one: "%u worker%s".
const char *plural(uint64_t count);

#endif

// A saved model evaluated by a trainer, for `sounder eval` of nets that only a program of the user's knows.
//
//   TRY(trainer_eval(&result, &file, path, &options, round, &segment, &data, err));
#ifndef SOUNDER_APP_TRAIN_TRAINER_EVAL_H
#define SOUNDER_APP_TRAIN_TRAINER_EVAL_H

#include "app/options/options.h"
#include "app/train/run_record.h"
#include "fedavg/memory/dataset_segment.h"
#include "fedavg/rules/metric_sums.h"
#include "io/safetensors.h"
#include "nn/step.h"

typedef struct TrainerTest {
    BatchResult sum;    // over all test samples
    uint32_t samples;   // as many as there are, or as the trainer told, where a sample is a client
    uint32_t unjudged;  // samples of which the trainer does not say whether they are right
    MetricSums metrics; // of its own
    float *answers;     // the caller's (test samples, classes), for the net's answers; NULL: not wanted
} TrainerTest;

// The trainer of a run by its record. Zeroed: there is no run, or the user has named another trainer.
typedef struct TrainerPast {
    uint32_t round;  // the run's last one
    RunRecord files; // what the record says of the trainer alone
} TrainerPast;

// The trainer of the run in this folder becomes that of the options, as far as these do not name one; "" without one.
Status trainer_eval_options(Options *options, TrainerPast *past, const Options *saved, const char *run, Error *err);

// Starts options->trainer twice, for its tensors and for the tests. The test samples are evaluated in the order and in
// the batches of a run with this batch size, all in one turn if the trainer wants that, with the random numbers of the
// test of past->round. Warns of other files than the run's.
// result->answers is the caller's to set. Returns USAGE or NOINPUT for a command that cannot be run, USAGE if the
// trainer gives no answers and they are wanted, DATA if the file's tensors are not the trainer's or if the run had
// other tensors that do not travel, UNAVAILABLE with the trainer's sentence.
Status trainer_eval(TrainerTest *result, const Safetensors *file, const char *path, const Options *options,
                    const TrainerPast *past, const DatasetSegment *segment, const Dataset *data, Error *err);

#endif

// Steps of a run of `sounder train` between its first worker and its final model: train_rounds.c takes them in order,
// train_round.c has those of a round, train_end.c those of the end. All of them report a failure to *err and change
// the run alone.
#ifndef SOUNDER_APP_TRAIN_TRAIN_STEPS_H
#define SOUNDER_APP_TRAIN_TRAIN_STEPS_H

#include "app/train/run.h"

// Draws, trains, tests, reports and, when one is due, saves the round after run->rounds_done.
Status train_round(Run *run, Error *err);

// Tests the global model on the validation set, or on the test set without one, and, if the run's figure is of the
// clients' own models, or of the global model on their samples, these as well. Those jobs stay in the queue.
Status train_test_models(Run *run, RoundTest *test, uint32_t round, Error *err);

// Tests the clients that never train: the global model on their own samples, and what further training there makes of
// it. each: every client gets a line in the record, too.
Status train_test_new_clients(Run *run, RoundTest *test, uint32_t round, bool each, Error *err);

// The status of a step; but where the data set changed during the run, which may be the cause, the error says that.
Status train_check_data(const Run *run, Status status, Error *err);

// Seconds of the run's processes so far, without what a kill has thrown away. NaN: unknown, since the record does not
// tell those of an earlier process.
double train_seconds(const Run *run);

// Whether a task of every `every` rounds is due after this round; every 0: never.
bool train_is_due(int every, uint32_t round);

bool train_is_in_real_time(const Run *run);

// On the real clock no other process can continue the run, so a run that is told to stop is finished.
bool train_is_finished(const Run *run);

// Whether this process can write the result of the finished run: it has tested the last model. A signal may have come
// before.
bool train_has_ended(const Run *run);

// Whether an earlier process wrote the result of this finished run. If that process was killed at the very end, its
// model is missing, or is one of fewer rounds, and is written again.
bool train_has_result(const Run *run);

// With a validation set the test set is used here alone, for the final model and the best one. A GPU answers here.
Status train_test_at_end(Run *run, Error *err);

void train_say_how_to_continue(Run *run);

// Reports a signal that ended the run early, and sets the exit code to it.
void train_note_signal(const Run *run, bool at_once, int *exit_code);

#endif

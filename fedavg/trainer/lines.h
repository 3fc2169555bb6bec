// The first line that a trainer receives: where the data are, and which options it was given.
//
//   trainer_line_begin(&line, &plan, memory, seed);      // version, seed, threads, data, options
//   trainer_line_put_tensors(&line, &memory->tensors);
//   put_whole(&line, "rank", rank); ...
//   TRY(trainer_process_send(&process, &line, &wait, err));     // frees it
#ifndef SOUNDER_FEDAVG_TRAINER_LINES_H
#define SOUNDER_FEDAVG_TRAINER_LINES_H

#include "base/rng.h"
#include "fedavg/memory/run_memory.h"
#include "fedavg/rules/trainer_plan.h"
#include "io/json.h"

enum { TRAINER_MOST_FDS = 4 };

void trainer_line_begin(JsonObject *line, const TrainerPlan *plan, const RunMemory *memory, uint64_t seed);

// The same without data and options.
void trainer_line_open(JsonObject *line, const TrainerPlan *plan, uint64_t seed);
void trainer_line_put_options(JsonObject *line, const TrainerPlan *plan);
void trainer_line_put_tensors(JsonObject *line, const TensorList *list);

// The descriptors that the line names: the desk's, and those of the data. Returns how many.
size_t trainer_line_fds(int fds[TRAINER_MOST_FDS], int desk_fd, const RunMemory *memory);

// Says why a program cannot be forked, with the remedy that it names. told: its answer.
void trainer_line_say_unforked(const json_t *told);

// A seed that any language holds exactly: 53 bits.
int64_t trainer_seed(RngKey key);

#endif

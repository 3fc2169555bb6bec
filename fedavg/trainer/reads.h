// The options that turns of a run's program have read. An option that no turn has read changes nothing, whatever its
// value. A program that does not tell what it reads is not judged.
//
//   trainer_note_reads(control, plan, told);          // told: an answer
//   if (trainer_has_read(control, r)) ...             // trainer_reads[r], a part of turn
//   if (trainer_has_read(control, trainer_read_of_option(n))) ...   // the program's own option n of --trainer-option
#ifndef SOUNDER_FEDAVG_TRAINER_READS_H
#define SOUNDER_FEDAVG_TRAINER_READS_H

#include <jansson.h>
#include <stdbool.h>

#include "fedavg/memory/layout.h"
#include "fedavg/rules/trainer_plan.h"

enum { TRAINER_READS = 6 };

typedef struct TrainerRead {
    const char *told, *option; // "weight_decay", "weight-decay"
} TrainerRead;

extern const TrainerRead trainer_reads[TRAINER_READS];

void trainer_note_reads(Control *control, const TrainerPlan *plan, const json_t *told);

// True where the program does not tell.
bool trainer_has_read(const Control *control, uint32_t read);

// The number of the program's own option `word` (0, 1, ...).
uint32_t trainer_read_of_option(uint32_t word);

#endif

// Faults of trainers, on their way from workers to the record of the run. Each worker writes to a ring of its own in
// the control segment; the parent reads it between rounds.
//
//   trainer_fault_note(control, rank, &fault);                                      // worker
//   uint32_t restarts = trainer_faults_take(faults, &count, control, rank);         // parent
#ifndef SOUNDER_FEDAVG_TRAINER_FAULTS_H
#define SOUNDER_FEDAVG_TRAINER_FAULTS_H

#include "fedavg/memory/layout.h"

void trainer_fault_note(Control *control, uint32_t rank, const TrainerFault *fault);

// Returns how many faults there were since the last call; the last *count of them are in `faults`.
uint32_t trainer_faults_take(TrainerFault faults[TRAINER_FAULTS], uint32_t *count, Control *control, uint32_t rank);

// Returns how many faults all ranks have had since this process began the run.
uint32_t trainer_faults_total(const Control *control);

#endif

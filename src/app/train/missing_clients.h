// Drawn clients that have not arrived, told at the end of a run: they make a round smaller, and show nowhere else.
#ifndef SOUNDER_APP_TRAIN_MISSING_CLIENTS_H
#define SOUNDER_APP_TRAIN_MISSING_CLIENTS_H

#include "io/durable.h"

enum { MISSING_TEXT_BYTES = 512 };

// Writes "3 of 200 drawn clients never arrived (2 dropped out, 1 late); rounds 5, 9" from the record of the run in the
// folder, or "" if all have arrived.
Status missing_clients_text(char text[MISSING_TEXT_BYTES], const Folder *folder, Error *err);

#endif

// A partition as a text file, for --partition file:FILE and for other programs:
//
//   sounder partition 1                       the format's version
//   samples 60000 clients 10                  of the data set, and lines to come
//   3 17 25 ...                               a client a line: its samples, counted from 0, in this order
//
// A client may have none; a sample belongs to at most one client.
#ifndef SOUNDER_DATASETS_PARTITION_FILE_H
#define SOUNDER_DATASETS_PARTITION_FILE_H

#include <stdint.h>

#include "base/err.h"
#include "datasets/partition.h"

// samples: of the data set. CANTCREATE, IO; nothing half written is left behind.
Status partition_file_write(const char *path, const Partition *partition, uint32_t samples, Error *err);

// What the head says. NOINPUT, DATA.
Status partition_file_clients(uint32_t *clients, const char *path, Error *err);

// Fills offsets (clients + 1) and indices (at most samples). NOINPUT; DATA with the line for anything but such a file;
// USAGE when it is of another number of samples or clients.
Status partition_file_read(uint32_t *offsets, uint32_t *indices, const char *path, uint32_t samples, uint32_t clients,
                           Error *err);

#endif

// The tables of a data set: train.csv and test.csv, a pair of other names (mnist_train.csv, mnist_test.csv), one table,
// or tables of clients, one file or folder for each (client=file in --data).
//
//   CsvFiles files;
//   TRY(csv_files_find(&files, place, &settings, err));
//   for (uint32_t i = 0; i < files.count; i++) ... files.all[i].path ...
//   csv_files_free(&files);
#ifndef SOUNDER_DATASETS_FORMATS_CSV_FILES_H
#define SOUNDER_DATASETS_FORMATS_CSV_FILES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/keyed_text.h"
#include "datasets/formats/format.h"

typedef enum CsvPart { CSV_TRAIN, CSV_TEST } CsvPart;

typedef struct CsvPlace {
    char *path;   // owned
    char *client; // owned; the name of its client; NULL: columns say whose the rows are
    CsvPart part; // CSV_TRAIN also for a table, a part of whose rows is for tests
} CsvPlace;

typedef struct CsvFiles {
    CsvPlace *all; // owned, (count); by client, and the training samples of each first
    uint32_t count;
    bool has_tests; // tables of tests are among them
} CsvFiles;

// How much the place has of a table or a pair, by names alone: as DatasetFormat.is_here.
DatasetPresence csv_files_presence(const char *place);

// Whether the place is a folder of tables of clients: NAME.csv, NAME/train.csv and NAME/test.csv, or train/NAME.csv and
// test/NAME.csv. Says how many tables that are; 0: it is none.
uint32_t csv_files_of_clients(const char *place);

// Whether --data asks for a client for each file.
bool csv_files_by_client(const char *place, const Form *settings);

// Finds the tables. Fails with NOINPUT, and with USAGE for settings that do not fit them. The caller frees the files,
// also on failure.
Status csv_files_find(CsvFiles *files, const char *place, const Form *settings, Error *err);
void csv_files_free(CsvFiles *files);

#endif

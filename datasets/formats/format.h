// The forms in which data sets are stored in files: one row of a table and one source file per form.
//
//   const DatasetFormat *format = dataset_format_of("/data/mine");   // NULL: no known form
//   TRY(format->find(&source, "/data/mine", err));                   // sizes and types
//   TRY(format->read(block, &source, err));                          // the samples, into a block with its layout set
//
// A new form is a file with its functions and its row, `const DatasetFormat NAME_format`, and its name in
// DATASET_FORMATS: it needs nothing else for --data, `sounder data` and `sounder help data`.
#ifndef SOUNDER_DATASETS_FORMATS_FORMAT_H
#define SOUNDER_DATASETS_FORMATS_FORMAT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "datasets/dataset.h"
#include "datasets/dataset_block.h"

// Presence of a form's files in a place.
typedef enum DatasetPresence { DATASET_ABSENT, DATASET_IN_PART, DATASET_WHOLE } DatasetPresence;

// One column of a form that has named columns, in words.
typedef struct DatasetColumn {
    const char *name;
    const char *role; // "feature", "label", "target", "client" or "left out"
    char values[128]; // "0.1 to 7.9", "3: setosa, versicolor, virginica"
    uint32_t texts;   // how many values are no numbers
    uint32_t gaps;    // how many are missing
    char becomes[48]; // "feature 0", "features 4 to 6", "class 0 to 2"
} DatasetColumn;

typedef void DatasetTeller(void *to, const DatasetColumn *column);

struct DatasetFormat {
    const char *name;  // "IDX"
    const char *files; // its characteristic file, a phrase: "train-images-idx3-ubyte"
    const char *help;  // its possible contents, a sentence or two
    // Remedies: how to save data that are meant to be classes, targets or pixels, for the sentences of doubts.h. NULL
    // if a form leaves no doubt: IDX and CIFAR have pixels, texts and CIFAR their own labels.
    const char *classes, *targets, *pixels;
    unsigned settings; // that the form knows: bits of 1 << DatasetSetting (settings.h)
    // How much of this form the place (full path of a folder or file) contains, judged by names alone.
    DatasetPresence (*is_here)(const char *place);
    // Sets shape, counts, items, users and packed by the source's settings, and notes every file that will be read.
    // Reads samples only if necessary. Fails with DATA for anything corrupt, NOINPUT for a missing file.
    Status (*find)(DatasetSource *source, const char *place, Error *err);
    // Fills the arrays and the classes of a block whose layout is set for the source; scale and shift only if the files
    // contain them. Fails with DATA for anything corrupt, also if the files are no longer what `find` saw.
    Status (*read)(DatasetBlock *block, const DatasetSource *source, Error *err);
    // Calls `tell` for each column, also if the data set is refused for what they hold. NULL: the form has no columns.
    Status (*tell)(DatasetTeller *tell, void *to, const char *place, const Form *settings, Error *err);
};

// The forms, in the order of the help.
#define DATASET_FORMATS(EACH) EACH(idx) EACH(arrays) EACH(cifar) EACH(csv) EACH(leaf) EACH(text)

#define DECLARE_FORMAT(name) extern const DatasetFormat name##_format;
DATASET_FORMATS(DECLARE_FORMAT)

extern const DatasetFormat *const dataset_formats[]; // in that order
extern const uint32_t dataset_format_count;

// Returns the first row of which the place has all files, otherwise the first of which it has some; NULL if none.
const DatasetFormat *dataset_format_of(const char *place);

// Returns another row than `format` of which the place has all files, so that it is not clear which is meant; NULL:
// none.
const DatasetFormat *dataset_rival_of(const DatasetFormat *format, const char *place);

// Functions that the forms share -------------------------------------------------------------------------------------

// Says whether the folder has a file of this name.
bool dataset_has_file(const char *folder, const char *name);

// Says whether a name ends so, in letters of any case: dataset_has_ending("Iris.CSV", ".csv").
bool dataset_has_ending(const char *name, const char *ending);

// Writes the path of a file in a folder. Fails with NOINPUT if it is too long.
Status dataset_path(char path[DATASET_PATH_BYTES], const char *folder, const char *name, Error *err);

// Says whether `again`, which a form's reader has described a second time, is what `find` has described as source.
bool dataset_is_as_found(const DatasetSource *again, const DatasetSource *source);

// Returns DATA: the files of the place are no longer as `find` saw them.
Status dataset_changed(const char *place, Error *err);

// Finds a table in a folder that has another name than train.csv and test.csv. Returns false if there is none.
bool dataset_other_table(char name[DATASET_PATH_BYTES], const char *place);

// Writes the sentence for a place that has no file of any form.
Status dataset_unknown(const char *place, Error *err);

// Adds a file's state to the source's origin.
Status dataset_note_file(DatasetSource *source, const char *path, Error *err);

// Adds a text on which the samples depend, such as the settings, to the source's origin.
void dataset_note_text(DatasetSource *source, const char *text);

// Checks that samples may have this shape, and stores it. Fails with DATA and the file.
Status dataset_take_shape(DatasetSource *source, uint64_t channels, uint64_t rows, uint64_t columns, const char *path,
                          Error *err);

// Counts the users that own the samples (count). Fails with DATA unless they are numbered without gaps. said: name of
// the owners in sentences.
Status dataset_count_users(uint32_t *users, const uint32_t *owners, uint32_t count, const char *said, Error *err);

// Sets the block's classes: as many as the settings say or as the model of the source knows, else the largest training
// label + 1; or 1 for targets. Fails with DATA if a label is greater, which could never be predicted; test: name of the
// test labels in the sentence.
Status dataset_count_classes(DatasetBlock *block, const DatasetSource *source, const char *test, Error *err);

#endif

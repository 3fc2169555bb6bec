// The inputs of a run beside its options: the content of each file that an option names, and what a program of the
// user's is made of. The start line of a run has a hash of each content, and the versions of the program's libraries.
// Two runs, or a run and today's files, have equal inputs if no hash differs.
//
// One table tells all of it: resume, replay, export, eval, sweep, worth, reproduce, diff, the tables of runs and the
// report go through its rows. To record one more input, add its kind and its row (run_inputs.c), and fill the hash in
// where the run reads the content (run_record_fill, or train.c).
//
//   InputsToday today = {0};                         // hashes of files, each taken once
//   InputChange change;
//   if (run_inputs_changed(&change, start, &options, &today))
//       status = run_input_refuse(&change, folder, ", or give another --out", STATUS_USAGE, err);
//   inputs_today_free(&today);
#ifndef SOUNDER_APP_TRAIN_RUN_INPUTS_H
#define SOUNDER_APP_TRAIN_RUN_INPUTS_H

#include <jansson.h>
#include <stdbool.h>

#include "app/options/option_table.h"
#include "base/err.h"

enum { HASH_TEXT_BYTES = 17, INPUT_TOLD_BYTES = 128, INPUT_SOURCE_BYTES = 2 * OPTION_TEXT_BYTES + 16 };

typedef enum RunInputKind {
    INPUT_DATA,
    INPUT_PARTITION, // follows from data, options and the file of --partition; resume and diff alone compare it
    INPUT_PARTITION_FILE,
    INPUT_INIT,
    INPUT_TRAINER,
    INPUT_TRAINER_STAYS,    // only the program itself tells this and the next: resume, replay and eval ask it, and
    INPUT_TRAINER_VERSIONS, // what runs have recorded is compared
    INPUT_AGGREGATOR,
    INPUT_CLIENT_TIME,
    INPUT_AVAILABILITY,
    INPUT_CLIENT_WEIGHTS,
    INPUT_RECORDING,
    RUN_INPUTS
} RunInputKind;

typedef struct RunInput {
    Option trait;       // its name is the key in the start line; tables of runs treat the hash as an option's value
    const char *option; // the option that names the content
    const char *words;  // "data set"
    bool is_plural;
    bool is_program; // of the user's: who names it again when the run is resumed accepts its changes
    bool is_version; // in plain words, not a hash; another one is told and not refused
    // Returns the text that names the content, which `text` (INPUT_SOURCE_BYTES) may hold; NULL if no file does: the
    // options make it, or there is none. No function: the content follows from other inputs.
    const char *(*source)(char *text, const Options *options);
    // Hashes the content of today. start: of the run, whose trainer has told its files. options: resolved. The status
    // and sentence of reading it. No function: as for source, or only the program can tell.
    Status (*hash)(uint64_t *hash, const Options *options, const json_t *start, Error *err);
} RunInput;

extern const RunInput run_inputs[RUN_INPUTS];

// Returns the row whose trait this is; NULL for a row of option_table.
const RunInput *run_input_of(const Option *trait);

// Returns the hash of a start line; "": it has none.
const char *run_input_told(const json_t *start, const RunInput *input);

// Writes the text that names the content (INPUT_SOURCE_BYTES); "" if no file does.
const char *run_input_source(char *text, const RunInput *input, const Options *options);

// An input that is known to have another content now than then.
typedef struct InputChange {
    const RunInput *input;
    char source[INPUT_SOURCE_BYTES];
    char then[INPUT_TOLD_BYTES], now[INPUT_TOLD_BYTES];
} InputChange;

// The hashes of today by what names the content. Zeroed: none yet.
typedef struct InputsToday {
    bool goes_on;           // from a checkpoint: the model of --init is not read again, and its file may be gone
    struct InputToday *all; // owned, (count)
    size_t count;
} InputsToday;

// Whether an input of the start line has another content today, and which. options: of the run, resolved; relative
// paths of its programs begin in options->trainer_folder and aggregator_folder ("": here). A content that cannot be
// read now is not compared, and a warning says so once.
bool run_inputs_changed(InputChange *change, const json_t *start, const Options *options, InputsToday *today);
void inputs_today_free(InputsToday *today);

// Fails with "WHERE: the data set is not what the run began with (d.npz: XXH3 ... then, ... now); give it backREMEDY".
Status run_input_refuse(const InputChange *change, const char *where, const char *remedy, Status status, Error *err);

// Refuses the change so, or warns of it if it is one of versions. name: of the run.
Status run_input_judge(const InputChange *change, const char *name, const char *where, const char *remedy, Error *err);

void write_hash(char text[HASH_TEXT_BYTES], uint64_t hash);

#endif

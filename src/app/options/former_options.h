// Options that have become numbers of a form: one row per old name. On the command line an old name is refused, with
// the new way to write it; in a file, such as the config.yaml of an older run, it is read with its new meaning. The
// identity of a run (train/run_record.h) hashes the options as they were, so that older checkpoints still fit their
// runs.
#ifndef SOUNDER_APP_OPTIONS_FORMER_OPTIONS_H
#define SOUNDER_APP_OPTIONS_FORMER_OPTIONS_H

#include "option_table.h"

typedef struct FormerOption {
    Option was;         // its name; if `option` is an OPTION_FORM, also its field and choices
    const char *after;  // the option that preceded it in the table
    const char *option; // the option that has it now, such as "client-time"
    const char *form;   // a name of the form with this number, for messages: "lognormal"; "": the number alone
    const char *key;    // its key in the form, such as "mean"; NULL: the text after the colon
    const char *preset; // its former default, as the form writes it
    const char *words;  // for a flag: words for false and true: "no yes"
    bool implies;       // given alone, it chose `form`
} FormerOption;

enum { FORMER_OPTIONS = 21 };
extern const FormerOption former_options[FORMER_OPTIONS];

// '_' and '-' are equal in names. NULL: there was no option of this name.
const FormerOption *former_find(const char *name);

// USAGE, with the new way to write it. value: as typed, or NULL; base: the typed value of the option that has the
// number now, or NULL.
Status former_refuse(const FormerOption *former, const char *value, const char *base, Error *err);

// Adds the value to the option's form. Errors as those of option_set.
Status former_take(Options *options, const FormerOption *former, const char *value, const char *where, Error *err);

// Write the former value of an option without the numbers that were options of their own, and the value of such a
// number. apart: numbers of --algorithm and --partition are taken out of these texts, too; otherwise they stay in them.
void former_value(char value[OPTION_VALUE_BYTES], const Options *options, const Option *option, bool apart);
void former_part(char value[OPTION_VALUE_BYTES], const Options *options, const FormerOption *former, bool apart);

#endif

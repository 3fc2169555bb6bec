// Options that have become numbers of a form: one row per old name. On the command line an old name is refused with
// what to write instead; in a file, as the config.yaml of an older run, it is read as what it means now. The identity
// of a run (train/run_record.h) is a hash of the options as they were, so that older checkpoints still fit their runs.
#ifndef SOUNDER_APP_OPTIONS_FORMER_OPTIONS_H
#define SOUNDER_APP_OPTIONS_FORMER_OPTIONS_H

#include "option_table.h"

typedef struct FormerOption {
    Option was;         // its name; for a number of an OPTION_FORM type, field and choices, too
    const char *after;  // the option that it came after in the table
    const char *option; // "client-time", whose form it belongs to now
    const char *form;   // that knows it, for messages: "lognormal"
    const char *key;    // "mean"; NULL: the text behind the colon
    const char *preset; // that it had, as the form has it
    const char *words;  // of a flag, for false and true: "no yes"
    bool implies;       // alone, it asked for `form`
} FormerOption;

enum { FORMER_OPTIONS = 20 };
extern const FormerOption former_options[FORMER_OPTIONS];

// '_' is as good as '-'. NULL: there was no option of this name.
const FormerOption *former_find(const char *name);

// USAGE, with what to write. value: as it was typed, or NULL; base: what was typed for the option that it is a part of
// now, or NULL.
Status former_refuse(const FormerOption *former, const char *value, const char *base, Error *err);

// Makes the value a part of the option's. Refusals as those of option_set.
Status former_take(Options *options, const FormerOption *former, const char *value, const char *where, Error *err);

// Writes the former value of an option, without the parts that were options of their own, and the value of such a part.
// apart: parts of --algorithm and --partition are taken out of these texts, too; otherwise they stay in them.
void former_value(char value[OPTION_VALUE_BYTES], const Options *options, const Option *option, bool apart);
void former_part(char value[OPTION_VALUE_BYTES], const Options *options, const FormerOption *former, bool apart);

#endif

// The one table of options, and what can be done with any of its rows: set from text, written as text, named, compared.
// Parser, YAML, help, man page, completion and echo are loops over this table; a new option is a field of Options and a
// row here. A command with a record of its own (launch_options.c) has a table of its own, of the same rows.
//
//   const Option *option = option_find("rounds");
//   TRY(option_set(options, option, "12", "--", err));     // "--rounds 12x: needs a whole number from 1 to 1000000"
#ifndef SOUNDER_APP_OPTIONS_OPTION_TABLE_H
#define SOUNDER_APP_OPTIONS_OPTION_TABLE_H

#include "options.h"

#include "base/suggest.h"
#include "option_forms.h"

typedef enum OptionType {
    OPTION_WHOLE,  // int or uint32_t
    OPTION_SEED,   // uint64_t
    OPTION_REAL,   // double
    OPTION_FLOAT,  // float
    OPTION_FLAG,   // bool
    OPTION_CHOICE, // int or uint32_t, an index into choices
    OPTION_TEXT,   // char[OPTION_TEXT_BYTES]
    OPTION_FORM,   // char[OPTION_TEXT_BYTES], whose numbers `form` takes into other fields
} OptionType;

typedef enum OptionGroup {
    GROUP_MODEL,
    GROUP_CLIENTS,
    GROUP_WORLD,
    GROUP_TRAINING,
    GROUP_FAULTS,
    GROUP_RUN,
    GROUP_COUNT
} OptionGroup;

enum { OPTION_MAX_CHOICES = 64, OPTION_VALUE_BYTES = OPTION_TEXT_BYTES, OPTION_RANGE_BYTES = 768 };

typedef struct Option {
    const char *name;                        // the same on the command line (--name) and in YAML (name:)
    const char *also;                        // what others call it, for suggestions: words between blanks; NULL: none
    const char *placeholder;                 // stands for the value in help
    const char *help;                        // a phrase without a full stop
    const char *preset;                      // default as a user would write it; NULL: zero, filled in later
    const char *derived;                     // words for the default when preset is NULL; config.yaml leaves it out
    const char *choices[OPTION_MAX_CHOICES]; // CHOICE: in the order of the enum; TEXT: words that completion offers
    const char *(*name_of)(size_t index); // TEXT: the names in the table that owns them, for completion; NULL ends them
    const OptionForm *form;               // FORM: names, their numbers, and where they are stored
    bool (*applies)(const Options *options); // whether the other options let this one matter; NULL: always
    const char *condition;                   // what makes it apply, in the user's words: "--partition dirichlet"
    size_t offset;                           // of the field in Options, or in the record of the table
    double minimum, maximum;                 // WHOLE, REAL and FLOAT
    OptionType type;
    OptionGroup group;
    bool above_minimum, below_maximum; // REAL, FLOAT: that end of the range is not part of it
    bool eval;                         // `sounder eval` takes it, too
    bool not_train;                    // ... alone
    bool unsaved;                      // about one process and its display, no part of the experiment in config.yaml
    bool common;                       // one of those that most runs set: `sounder train -h` shows it
    const char *brief;                 // help there, for one line; NULL: `help`
    bool parts;                        // TEXT: parts with ; between them, so a line end ends a part
    bool may_change;                   // at --resume, since it has no influence on the bits
    char letter;                       // a second, short name: 'n' for -n; 0: none
} Option;

extern const Option option_table[];
extern const int option_count;
extern const char *const option_group_titles[GROUP_COUNT];

int option_index(const Option *option);
bool option_same_name(const char *name, const char *typed); // '_' is as good as '-'
const Option *option_find(const char *name); // '_' is as good as '-'; NULL: no such option
bool option_applies(const Options *options, const Option *option);
bool option_is_zero(const Options *options, const Option *option); // 0, "", false, the first choice
bool option_equal(const Options *a, const Options *b, const Option *option);
void option_copy(Options *to, const Options *from, const Option *option);

// USAGE when an option was given that nothing will read.
Status options_check_use(const Options *options, Error *err);

// Reads the value strictly and stores it; sets given. A refusal names `where` ("--", or "file.yaml:3: "), option, value
// and what is needed. options is unchanged then.
Status option_set(Options *options, const Option *option, const char *value, const char *where, Error *err);

// Whether the text is a way to write true or false: those of YAML. *value: which.
bool option_read_flag(bool *value, const char *text);

// The same for a row of any table: stores the value in that table's record. Knows nothing of `given`.
Status option_read(void *record, const Option *option, const char *value, const char *where, Error *err);

// "file.yaml:2: round: unknown option; did you mean rounds?"; always USAGE. where as for option_set.
Status option_unknown(const char *name, const char *where, Error *err);

// Considers the names of the options of train, and words of other programs for them.
void option_suggest(Suggestion *suggestion);

// An option of another program that is refused with what to do instead.
typedef struct ForeignOption {
    const char *name, *remedy;
} ForeignOption;

// The rows of one command, for its command line.
typedef struct OptionTable {
    const Option *rows;
    int count;
    const char *command;          // "launch"
    const ForeignOption *foreign; // (foreign_count) of the program `foreigner`
    int foreign_count;
    const char *foreigner; // "torchrun"
} OptionTable;

extern const OptionTable option_train_table;
// Those of commands that have a record of their own (replay_options.c, ../privacy.c, ../partition.c).
extern const OptionTable replay_options, privacy_options, partition_options;

// Reads the option at argv[*next], which begins with '-', and moves *next behind it and its value: "--name value",
// "--name=value", "-n value", "-nvalue"; a flag's value is "true" or behind '='. *value is borrowed from argv. USAGE
// for an unknown option ("--round: unknown option; did you mean --rounds?") and for one without its value.
Status option_take(const Option **option, const char **value, int *next, int argc, char **argv,
                   const OptionTable *table, Error *err);

// An option stands on a command line once, as a key in an experiment file: USAGE with both values where *before, its
// value before this one, is not NULL. *before becomes value: an array of these, one a row, goes through the whole line.
Status option_once(const char **before, const Option *option, const char *value, Error *err);

// What was typed, as a message may repeat it: short, and without anything that a terminal might obey.
enum { OPTION_SHOWN_BYTES = 72 };
void option_printable(char shown[OPTION_SHOWN_BYTES], const char *value);

// The value as a sentence names it: in quotes if it has blanks, its end cut off if it is long.
void option_show(char shown[OPTION_SHOWN_BYTES], const Options *options, const Option *option);

// The value as text that option_set reads back to the same value; doubles with the fewest digits that do, forms with
// all that is preset.
// text: (OPTION_VALUE_BYTES) of the caller's.
void option_format(char *text, const Options *options, const Option *option);

// The name of value number `index`, of those that belong to a table; NULL: there is none.
const char *option_name_in_table(const Option *option, size_t index);

// What values there are: "from 1 to 256", "fedavg, hogwild or ssgd", the forms, "" for FLAG and TEXT.
// text: (OPTION_RANGE_BYTES) of the caller's.
void option_range(char *text, const Option *option);

// One row for people and shells: its entry in the help text, in the man page (troff), and its line for completion
// ("train,eval --algorithm fedavg hogwild ssgd"; commands: "train,eval").
void option_print_help(FILE *file, const Option *option);
void option_print_man(FILE *file, const Option *option);
void option_print_words(FILE *file, const Option *option, const char *commands);

// Text for people, wrapped to the width of where it is read: that of the terminal, but at most 100 columns, and 80
// where the file is no terminal.
int columns_of(FILE *file);

// Wraps at blanks; lines after the first are indented as well. Ends with a newline.
void print_paragraph(FILE *file, int indent, const char *text);

// "  left      text", the text in a column of its own; below left where left is long or the terminal narrow.
void print_entry(FILE *file, const char *left, const char *text);

#endif

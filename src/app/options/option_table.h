// The one table of options, and functions for its rows: set from text, write as text, name, compare. Parser, YAML,
// help, manual page, completion and echo are loops over this table; a new option is a field of Options and a row here.
// A command with a record of its own (launch_options.c) has a table of its own with rows of this type.
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
    OPTION_TEXT,   // char[OPTION_TEXT_BYTES], or of a net char[OPTION_NET_BYTES]
    OPTION_FORM,   // char[OPTION_TEXT_BYTES]; `form` stores its numbers in other fields
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

enum { OPTION_MAX_CHOICES = 64, OPTION_VALUE_BYTES = OPTION_NET_BYTES, OPTION_RANGE_BYTES = 768 };

// Whether a value may be a list, and its parts may be values, too.
typedef enum OptionLists { OPTION_LISTS_NOTHING, OPTION_LISTS_WHOLE, OPTION_LISTS_OR_PARTS } OptionLists;

typedef struct Option {
    const char *name; // the same on the command line (--name) and in YAML (name:)
    // names in other programs, for suggestions: words between blanks; NULL: none
    const char *also;
    const char *placeholder; // replaces the value in help
    const char *help;        // a phrase without a full stop
    // default as a user would write it; NULL: zero, which may be filled in later
    const char *preset;
    // describes the default if preset is NULL; such a value is not written to config.yaml
    const char *derived;
    const char *choices[OPTION_MAX_CHOICES]; // CHOICE: in the order of the enum; TEXT: offered by completion
    const char *(*name_of)(size_t index);    // TEXT: names in the table that owns them, for completion; NULL ends them
    const OptionForm *form;                  // FORM: names, their numbers, and where these are stored
    bool (*applies)(const Options *options); // whether it has an effect with the other options; NULL: always
    const char *condition;                   // describes when it applies, in the user's words: "--partition dirichlet"
    size_t offset;                           // of the field in Options, or in the table's own record
    double minimum, maximum;                 // WHOLE, REAL and FLOAT
    OptionType type;
    OptionGroup group;
    bool above_minimum, below_maximum; // REAL, FLOAT: the range excludes this end
    bool eval;                         // `sounder eval` accepts it, too
    bool not_train;                    // `sounder eval` alone accepts it
    bool unsaved;                      // about one process or its display, so not written to config.yaml
    bool common;                       // often used: shown by `sounder train -h`
    const char *brief;                 // one line of help for -h; NULL: `help`
    bool parts;                        // TEXT: has parts with ; between them, and a line end ends a part
    bool is_net;                       // TEXT: may be as long as a net's text
    OptionLists lists;                 // TEXT: a value may be a list with commas, for the values of a sweep
    bool added;                        // part of a run's identity (train/run_identity.h) unless zero or unused
    bool neutral;                      // its default asks for nothing, and is accepted where the option has no effect
    bool may_change;                   // may change with --resume, because it does not influence the bits
    char letter;                       // a short name: 'n' for -n; 0: none
} Option;

extern const Option option_table[];
extern const int option_count;
extern const char *const option_group_titles[GROUP_COUNT];

int option_index(const Option *option);
bool option_same_name(const char *name, const char *typed); // '_' and '-' are equal
const Option *option_find(const char *name);                // '_' and '-' are equal; NULL: no such option
size_t option_bytes(const Option *option);                  // of its field
bool option_applies(const Options *options, const Option *option);
bool option_is_zero(const Options *options, const Option *option); // 0, "", false, or the first choice
bool option_equal(const Options *a, const Options *b, const Option *option);
void option_copy(Options *to, const Options *from, const Option *option);

// USAGE for an option that `sounder eval` alone accepts. where: as for option_set.
Status option_check_train(const Option *option, const char *where, Error *err);

// Whether the option has its default.
bool option_is_default(const Options *options, const Option *option);

// USAGE if an option was given that has no effect. A neutral one with its default counts as not given, so that several
// algorithms can share it; that is logged at level info.
Status options_check_use(Options *options, Error *err);

// Reads the value strictly, stores it, and sets given. An error names `where` ("--", or "file.yaml:3: "), option, value
// and the expected values, and leaves options unchanged.
Status option_set(Options *options, const Option *option, const char *value, const char *where, Error *err);

// Whether the text means true or false in YAML. *value: which.
bool option_read_flag(bool *value, const char *text);

// Does this for a row of any table: stores the value in that table's record, without `given`.
Status option_read(void *record, const Option *option, const char *value, const char *where, Error *err);

// Fails with "file.yaml:2: round: unknown option; did you mean rounds?"; always USAGE. where: as for option_set.
Status option_unknown(const char *name, const char *where, Error *err);

// Considers the option names of train, and other programs' words for them, as suggestions.
void option_suggest(Suggestion *suggestion);

// An option of another program, which is refused with a remedy.
typedef struct ForeignOption {
    const char *name, *remedy;
} ForeignOption;

// The rows of one command's own options.
typedef struct OptionTable {
    const Option *rows;
    int count;
    const char *command;          // "launch"
    const ForeignOption *foreign; // (foreign_count), options of the program `foreigner`
    int foreign_count;
    const char *foreigner; // "torchrun"
} OptionTable;

extern const OptionTable option_train_table;
// Tables of commands that have a record of their own (replay_options.c, ../look/privacy.c, ../look/partition.c,
// ../doctor.c).
extern const OptionTable replay_options, privacy_options, partition_options, doctor_options, export_options,
    flower_options;

// Reads the option at argv[*next], which begins with '-', and advances *next past it and its value: "--name value",
// "--name=value", "-n value", "-nvalue"; a flag's value is "true" or follows '='. *value is borrowed from argv. USAGE
// for an unknown option ("--round: unknown option; did you mean --rounds?") and for a missing value.
Status option_take(const Option **option, const char **value, int *next, int argc, char **argv,
                   const OptionTable *table, Error *err);

// Allows an option only once, like a key in an experiment file: USAGE, with both values, if *before (its previous
// value) is not NULL. Sets *before to value; keep one *before per row for the whole command line.
Status option_once(const char **before, const Option *option, const char *value, Error *err);

// Takes the one word of a command that is no option: USAGE, with both words, if *taken is not NULL. what: "run".
Status option_take_word(const char **taken, const char *word, const char *what, Error *err);

// Takes the experiment file at argv[at] as option_take_word does. USAGE, too, for "mu=0.1" after --algorithm fedprox,
// without the quotes that make one word of both.
Status option_take_file(const char **taken, int at, char **argv, Error *err);

// Takes the option at argv[*next], once, and reads it into the table's record. seen: a pointer per row, NULL before the
// first call.
Status option_read_next(void *record, const char **seen, int *next, int argc, char **argv, const OptionTable *table,
                        Error *err);

// Does this for all words of a command that takes options alone: USAGE for any other word.
Status option_read_all(void *record, int argc, char **argv, const OptionTable *table, Error *err);

// Shortens typed text for a message and removes characters that control a terminal.
enum { OPTION_SHOWN_BYTES = 72 };
void option_printable(char shown[OPTION_SHOWN_BYTES], const char *value);

// Writes the value for a sentence: in quotes if it has blanks, cut if it is long.
void option_show(char shown[OPTION_SHOWN_BYTES], const Options *options, const Option *option);

// Writes the value so that option_set reads the same value back: doubles with the fewest digits, forms with all
// defaults. The caller owns text (OPTION_VALUE_BYTES).
void option_format(char *text, const Options *options, const Option *option);

// Returns the name of value number `index` from the table that owns the option's values; NULL: there is none.
const char *option_name_in_table(const Option *option, size_t index);

// Writes the possible values: "from 1 to 256", "fedavg, hogwild or ssgd", the forms, "" for FLAG and TEXT. The caller
// owns text (OPTION_RANGE_BYTES).
void option_range(char *text, const Option *option);

// Print one row: its entry in the help text, in the manual page (troff), and its line for completion ("train,eval
// --algorithm fedavg hogwild ssgd"; commands: "train,eval").
void option_print_help(FILE *file, const Option *option);
void option_print_man(FILE *file, const Option *option);
void option_print_words(FILE *file, const Option *option, const char *commands);

// Prints a text for troff, which turns a bare '-' into a hyphen that does not work when pasted into a shell, and
// interprets backslashes.
void print_troff(FILE *file, const char *text);

// Text for people is wrapped at the width of the terminal, at most 100 columns; at 80 if the file is no terminal.
int columns_of(FILE *file);

// Wraps at blanks, indents all lines, and ends with a newline.
void print_paragraph(FILE *file, int indent, const char *text);

// Prints "  left      text" with the text in its own column, or below left if left is long or the terminal narrow.
void print_entry(FILE *file, const char *left, const char *text);

#endif

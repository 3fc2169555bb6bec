// Prints the topics of `sounder help`, and explains names that are neither commands nor options.
//
// help_texts.c has the topics that are text files here; help_topics.c those that explain a command; help_tables.c has
// topics that are loops over a table: nets, algorithms, partitions, views, attacks and federations, each with numbers,
// defaults and source. All wrap paragraphs at the width of the terminal (options/columns.c).
#ifndef SOUNDER_APP_HELP_HELP_H
#define SOUNDER_APP_HELP_HELP_H

#include <stdbool.h>
#include <stdio.h>

#include "base/keyed_text.h"
#include "base/suggest.h"
#include "datasets/formats/format.h"

// A part of a text file of this folder, which the build compiles into the program. In such a file a paragraph ends at
// an empty line or at a line of another kind; "@ NAME" begins an entry, whose text is the paragraph below it; an empty
// line, or one that begins with a blank, is printed as it is; "%" marks a place that the program fills.
typedef enum HelpKind { HELP_LINE, HELP_PARAGRAPH, HELP_ENTRY, HELP_PLACE } HelpKind;
enum { HELP_LINE_BYTES = 256, HELP_PARAGRAPH_BYTES = 4096 };
typedef struct HelpPart {
    HelpKind kind;
    char left[HELP_LINE_BYTES], text[HELP_PARAGRAPH_BYTES]; // left: of an entry
} HelpPart;

// Reads the part with which the text begins. Returns what follows it, NULL if the text is empty.
const char *help_next(HelpPart *part, const char *text);

// Prints a text up to a place or its end. Returns what follows the place, NULL at the end.
const char *help_print_text(FILE *file, const char *text);

// Names of the topics of `sounder help`, separated by blanks.
void help_print_topics(FILE *file);

// `sounder help lessons`: the course, and where it is.
void help_print_lessons(FILE *file);

// `sounder help dial`: from synchronous SGD to Hogwild, step by step.
void dial_print(FILE *file);

// Functions for rows of the table of commands: the text below a command's options, or the whole text of a topic.
void help_print_train(FILE *file);
void help_print_train_briefly(FILE *file); // the most used options, on one screen
void help_print_launch(FILE *file);
void help_print_data(FILE *file);
void help_print_metrics(FILE *file);
void help_print_nodes(FILE *file);
void help_print_plan(FILE *file);
void help_print_trainer(FILE *file);    // clients that train in a program of the user's, and its protocol
void help_print_aggregator(FILE *file); // updates that are combined in one, and its protocol

void help_print_models(FILE *file);      // --model: the zoo, then the layers
void help_print_algorithms(FILE *file);  // --algorithm: the zoo, then every rule of every part
void help_print_partitions(FILE *file);  // --partition, --client-noise, --drift
void help_print_attacks(FILE *file);     // --attack
void help_print_federations(FILE *file); // --data: made-up users

// Prints the forms of a table, each with its numbers and its source.
void help_print_forms(FILE *file, const FormTable *table);

// Prints a form of files, for --data.
void help_print_format(FILE *file, const DatasetFormat *format);

// Explains a name: algorithm, net, layer, rule, partition, view, attack, federation, data set or form of files. Prints
// the row of each table that has it, as the table's topic shows it. follows: text was printed before, so that a blank
// line is needed. False: no table has it; all names were considered as suggestions.
bool help_print_name(FILE *file, Suggestion *suggestion, bool follows);

// Shows a text. If stdout is a terminal with fewer lines, it goes through $SOUNDER_PAGER, $PAGER or less, as git does;
// an empty pager, "cat", or one that cannot be started means no pager.
void pager_show(const char *text);

// Copies the text (malloc'ed; NULL: no memory). folds: lines wider than the terminal (usages and commands, no
// paragraphs) are broken and continue in the next line after a deeper indent.
char *pager_fold(const char *text, bool folds);

// These write files for other programs from the tables of options: the manual page as troff, and scripts for shell
// completion of commands, options and values. shell: bash, zsh or fish; false: it is none of them.
void manual_print(FILE *file);
bool completion_print(FILE *file, const char *shell);
void completion_print_bash(FILE *file);

// Examples of `sounder train` for help and manual: (manual_example_count) command lines.
extern const char *const manual_examples[];
extern const int manual_example_count;

#endif

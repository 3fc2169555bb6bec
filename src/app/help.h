// The topics of `sounder help`: what it prints on a name that is neither a command nor an option.
//
// help.c has those that explain a command or a way of working, help_tables.c those that are loops over a table: what
// nets, algorithms, splits of the data, views of it, attacks and federations there are, each with its numbers, defaults
// and source. All write paragraphs as wide as the terminal (options/columns.c).
#ifndef SOUNDER_APP_HELP_H
#define SOUNDER_APP_HELP_H

#include <stdbool.h>
#include <stdio.h>

#include "base/keyed_text.h"
#include "base/suggest.h"

// The topics of `sounder help`, between blanks.
void help_print_topics(FILE *file);

// `sounder help dial`: from synchronous SGD to Hogwild, step by step.
void dial_print(FILE *file);

// Rows of the table of commands: the text below a command's options, or the whole text of a topic.
void help_print_train(FILE *file);
void help_print_train_briefly(FILE *file); // the options in use, on one screen
void help_print_launch(FILE *file);
void help_print_data(FILE *file);
void help_print_metrics(FILE *file);
void help_print_nodes(FILE *file);

void help_print_models(FILE *file);      // --model: the zoo, then the layers
void help_print_algorithms(FILE *file);  // --algorithm: the zoo, then every rule of every part
void help_print_partitions(FILE *file);  // --partition, --client-noise, --drift
void help_print_attacks(FILE *file);     // --attack
void help_print_federations(FILE *file); // --data: made-up users

// The forms of a table, each with its numbers and its source.
void help_print_forms(FILE *file, const FormTable *table);

// Explains the typed name: an algorithm, a net, a layer, a rule, a partition, a view, an attack, a federation or a
// data set. Prints the row of each table that has it as the table's topic shows it; follows: below a text, after a
// blank line. False: none has it; all names have been considered.
bool help_print_name(FILE *file, Suggestion *suggestion, bool follows);

// Shows a text: with $SOUNDER_PAGER, $PAGER or less where stdout is a terminal that has fewer lines, as git does; a
// pager that is empty or cat, or cannot be started, is none.
void pager_show(const char *text);

// A copy of the text, malloc'ed. folds: lines that are wider than the terminal (usages and commands; paragraphs are
// not) go on in the next line behind more blanks. NULL: no memory.
char *pager_fold(const char *text, bool folds);

// These write what other programs read about this one, from the tables of options: the man page, as troff, and scripts
// that have a shell complete the commands, options and values of sounder. shell: bash, zsh or fish; false: none of
// them.
void manual_print(FILE *file);
bool completion_print(FILE *file, const char *shell);
void completion_print_bash(FILE *file);

// Examples of `sounder train`, for help and manual: (manual_example_count) lines as typed.
extern const char *const manual_examples[];
extern const int manual_example_count;

#endif

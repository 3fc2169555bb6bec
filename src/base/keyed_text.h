// Reads a choice with parameters as users write it: a name, then key=value parts, "pathological classes=2
// mode=deterministic".
//
//   static const FormRow rows[] = {
//       {.name = "shard", .help = "sorted by label, dealt", .keys = {{.name = "size", .type = FORM_WHOLE, ...}}},
//   };
//   static const FormTable table = {rows, 1, "partition", "partitions", NULL};
//   Form form;
//   TRY(form_parse(&form, "shard size=300", &table, err));
//   form.number[0]   // 300: the values have the same indices as their keys in the row
//
// The last key of a row may be a text that follows a colon and extends to the end: "file:my parts.txt". A row may begin
// with the value of its first key in place of a name, "0.5 work=partial", or with a key, "clip=1 noise=1.1". Quotes
// keep the blanks of a word together: "mine.csv label='petal width'". One table serves the parser, the ranges, "did you
// mean" and the help. Errors are USAGE with a sentence that names the part and the form.
#ifndef SOUNDER_BASE_KEYED_TEXT_H
#define SOUNDER_BASE_KEYED_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { FORM_MAX_KEYS = 20, FORM_TEXT_BYTES = 2048, FORM_USAGE_BYTES = 512 };

typedef enum FormType {
    FORM_WHOLE,  // a whole number
    FORM_REAL,   // a number
    FORM_REALS,  // one number, or several between commas
    FORM_CHOICE, // one of the words in `choices`
    FORM_WORD,   // any text without blanks, or in single or double quotes
    FORM_TEXT,   // the text after the colon
} FormType;

typedef struct FormKey {
    const char *name; // NULL ends the list
    FormType type;
    double minimum, maximum; // of a number
    const char *preset;      // value if the key is not given; NULL: the key must be given
    const char *choices;     // words, separated by blanks
    const char *help;        // a phrase
} FormKey;

typedef struct FormRow {
    const char *name;
    const char *help, *source; // a phrase each; source: the publication that describes it; NULL if there is none
    bool leads;   // the value of the first key takes the place of the name, which help alone shows; for the only row
    bool unnamed; // its text begins with a key, and `name` is for messages alone; for the last row
    FormKey keys[FORM_MAX_KEYS];
} FormRow;

typedef struct FormTable {
    const FormRow *rows;
    uint32_t count;
    const char *what;           // the kind of thing that a row is: "partition"
    const char *topic;          // the table's name in `sounder help`: "partitions"
    const FormRow *const *list; // in place of `rows`, where these are in several files
} FormTable;

static inline const FormRow *form_row(const FormTable *table, size_t index) {
    return table->list ? table->list[index] : &table->rows[index];
}

// Plain data without pointers: may be copied.
typedef struct Form {
    uint32_t row;
    double number[FORM_MAX_KEYS]; // of REALS: the first; of CHOICE: the index of the word
    bool given[FORM_MAX_KEYS];
    uint16_t place[FORM_MAX_KEYS]; // offset of the key's value in `text`
    char text[FORM_TEXT_BYTES];    // the values, each ends with '\0'
} Form;

Status form_parse(Form *form, const char *text, const FormTable *table, Error *err);

// Says whether the text's first word is this name: true for "dirichlet alpha=0.1" and "dirichlet".
bool form_is(const char *text, const char *name);

// Text of a key's value, given or preset.
static inline const char *form_text(const Form *form, int key) {
    return form->text + form->place[key];
}

// Returns the number of the key of this name; `otherwise` if the row has no such key, or its value is empty.
double form_number(const Form *form, const FormTable *table, const char *name, double otherwise);

// Writes the whole text again, with the presets: "lognormal mean=1 deviation=1" for "lognormal mean=1".
void form_write(char *text, size_t bytes, const Form *form, const FormTable *table);

// Writes the first `room` numbers of a REALS key to `values`. Returns how many numbers the key has.
uint32_t form_reals(double *values, uint32_t room, const Form *form, int key);

// Writes "pathological [classes=2] [mode=random|first-deterministic|deterministic]"; keys without brackets must be
// given.
void form_usage(char usage[FORM_USAGE_BYTES], const FormRow *row);

#endif

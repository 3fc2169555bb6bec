// A choice with numbers, as people write it: a name and parts behind it, "pathological classes=2 mode=deterministic".
//
//   static const FormRow rows[] = {
//       {.name = "shard", .help = "sorted by label, dealt", .keys = {{.name = "size", .type = FORM_WHOLE, ...}}},
//   };
//   static const FormTable table = {rows, 1, "partition", "partitions"};
//   Form form;
//   TRY(form_parse(&form, "shard size=300", &table, err));
//   form.number[0]   // 300: numbers and places in a list of choices stand where their keys stand in the row
//
// The last part of a row may be a text that follows the name and a colon and goes to the end: "file:my parts.txt".
// One table gives parser, ranges, "did you mean" and help. USAGE with a sentence that names the part and the form.
#ifndef SOUNDER_BASE_KEYED_TEXT_H
#define SOUNDER_BASE_KEYED_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { FORM_MAX_KEYS = 8, FORM_TEXT_BYTES = 2048, FORM_USAGE_BYTES = 512 };

typedef enum FormType {
    FORM_WHOLE,  // a whole number
    FORM_REAL,   // a number
    FORM_REALS,  // one number, or several between commas
    FORM_CHOICE, // one of the words in `choices`
    FORM_TEXT,   // what follows the colon
} FormType;

typedef struct FormKey {
    const char *name; // NULL ends the list
    FormType type;
    double minimum, maximum; // of numbers
    const char *preset;      // what stands for it where it is not given; NULL: it must be given
    const char *choices;     // words between blanks
    const char *help;        // a phrase
} FormKey;

typedef struct FormRow {
    const char *name;
    const char *help, *source; // a phrase each; source: who described it
    FormKey keys[FORM_MAX_KEYS];
} FormRow;

typedef struct FormTable {
    const FormRow *rows;
    uint32_t count;
    const char *what;  // "partition": what a row is
    const char *topic; // "partitions": what `sounder help` calls the table
} FormTable;

// Plain data without pointers: it may be copied.
typedef struct Form {
    uint32_t row;
    double number[FORM_MAX_KEYS]; // of REALS: the first; of CHOICE: the place of the word
    bool given[FORM_MAX_KEYS];
    uint16_t place[FORM_MAX_KEYS]; // where the key's value begins in `text`
    char text[FORM_TEXT_BYTES];    // the values, each with its end
} Form;

Status form_parse(Form *form, const char *text, const FormTable *table, Error *err);

// Whether the text's first word is this name: "dirichlet alpha=0.1" is dirichlet.
bool form_is(const char *text, const char *name);

// The text of a key's value, as it was given or is preset.
static inline const char *form_text(const Form *form, int key) {
    return form->text + form->place[key];
}

// The numbers of REALS. Returns how many there are; values gets the first `room` of them.
uint32_t form_reals(double *values, uint32_t room, const Form *form, int key);

// "pathological [classes=2] [mode=random|first-deterministic|deterministic]"; parts without brackets must be given.
void form_usage(char usage[FORM_USAGE_BYTES], const FormRow *row);

#endif

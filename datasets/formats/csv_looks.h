// Numbers that are written otherwise than as digits with a point: what a text in a column of a table looks like.
//
//   csv_look_of("1.234,5")            // LOOK_COMMA
//   csv_look_names[LOOK_COMMA]        // "a number with a decimal comma"
//
// Such texts are no categories: each value would be a feature of its own, and a value of the tests has none.
#ifndef SOUNDER_DATASETS_FORMATS_CSV_LOOKS_H
#define SOUNDER_DATASETS_FORMATS_CSV_LOOKS_H

typedef enum CsvLook {
    LOOK_WORD, // no number
    LOOK_COMMA,
    LOOK_THOUSANDS, // 63,208: with three digits after each comma; may be a decimal comma
    LOOK_BLANKS,    // 63 208
    LOOK_CURRENCY,
    LOOK_PERCENT,
    LOOK_BRACKETS, // (152), a negative number of accountants
    LOOK_DATE,
    CSV_LOOKS
} CsvLook;

extern const char *const csv_look_names[CSV_LOOKS]; // "a number with a decimal comma"; NULL for a word

CsvLook csv_look_of(const char *text);

#endif

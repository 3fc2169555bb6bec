// A set of texts: the values of a column, such as the names of classes.
//
//   Categories categories = {0};
//   TRY(categories_add(&categories, &place, "setosa", err));        // every value of the column, as often as it occurs
//   TRY(categories_sort(&categories, err));                 // now they have numbers
//   categories_number(&categories, "setosa")                // 0
//   categories_free(&categories);
//
// The numbers follow the sorted values: by size if all values are whole numbers, where 1 and 1.0 are one value, else by
// bytes. The time of a look-up does not depend on the size of the set.
#ifndef SOUNDER_DATASETS_FORMATS_CATEGORIES_H
#define SOUNDER_DATASETS_FORMATS_CATEGORIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { CATEGORY_NONE = UINT32_MAX };

typedef struct Category {
    char *text;      // owned
    uint32_t place;  // in the order in which texts were first added
    uint32_t number; // in sorted order
} Category;

typedef struct Categories {
    Category *table; // a hash table of `room` entries, most of which have no text
    size_t room, used;
    const char **names; // (count) by number, after categories_sort; the texts are in the table
    uint32_t *numbers;  // (count) by place, after categories_sort
    uint32_t count;
    bool are_whole; // all values are whole numbers
} Categories;

// place: of the text, for categories->numbers; NULL if not wanted.
Status categories_add(Categories *categories, uint32_t *place, const char *text, Error *err);

// Numbers the texts; none may be added afterwards. An empty set stays empty.
Status categories_sort(Categories *categories, Error *err);

// As categories_sort, but for the texts whose numbers are known, of which not all need occur. Texts that are not among
// them lose their numbers. names: one after another, each with its '\0', and an empty one at the end.
Status categories_number_as(Categories *categories, const char *names, Error *err);

// Returns a text that has lost its number; NULL if none has.
const char *categories_unknown(const Categories *categories);

// Returns the number of a text, CATEGORY_NONE if it is not in the set. A whole number need not be written as it was
// when it was added.
uint32_t categories_number(const Categories *categories, const char *text);

// Says whether the text is a whole number, and which.
bool category_is_whole(int64_t *number, const char *text);

// Size of the names, each with its '\0'; 0 if they are the numbers themselves: 0, 1, 2, ....
uint32_t categories_names_bytes(const Categories *categories);

// Writes the names in the order of their numbers, each with its '\0'.
void categories_write_names(char *to, const Categories *categories);

void categories_free(Categories *categories);

#endif

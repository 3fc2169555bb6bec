// "Did you mean": the known word closest to a mistyped one.
//
//   Suggestion suggestion = {.typed = "ruonds"};
//   for each known word: suggestion_consider(&suggestion, word);
//   if (suggestion.best) ... "did you mean rounds?"
//
// A word is close when at most two edits (insert, delete, replace, swap neighbours: the optimal string alignment
// distance of Damerau and Levenshtein) separate it from what was typed, or when what was typed is its beginning.
#ifndef SOUNDER_APP_OPTIONS_SUGGEST_H
#define SOUNDER_APP_OPTIONS_SUGGEST_H

typedef struct Suggestion {
    const char *typed; // borrowed
    const char *best;  // borrowed from the caller of suggestion_consider; NULL: nothing is close
    int distance;      // edits between the two
} Suggestion;

// The first of equally close words stays.
void suggestion_consider(Suggestion *suggestion, const char *word);

#endif

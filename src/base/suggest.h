// "Did you mean": the known word closest to a mistyped one.
//
//   Suggestion suggestion = {.typed = "ruonds"};
//   for each known word: suggestion_consider(&suggestion, word);
//   if (suggestion.best) ... "did you mean rounds?"
//
// suggestion_consider_others also considers words that other programs use for an option: ("epochs e", "local-epochs").
//
// A word is close if at most two edits separate it from the typed word (insert, delete, replace, swap neighbours: the
// optimal string alignment distance of Damerau and Levenshtein; letter case does not count), or if the typed word is
// its beginning.
#ifndef SOUNDER_BASE_SUGGEST_H
#define SOUNDER_BASE_SUGGEST_H

typedef struct Suggestion {
    const char *typed; // borrowed
    const char *best;  // borrowed from the caller of suggestion_consider; NULL: no word is close
    int distance;      // edits between the two
} Suggestion;

// The first of several equally close words is kept.
void suggestion_consider(Suggestion *suggestion, const char *word);

// Considers `word`, but suggests `stands_for`.
void suggestion_consider_as(Suggestion *suggestion, const char *word, const char *stands_for);

// Considers words between blanks, which must be typed exactly, letter case aside: otherwise they would win over similar
// words of one's own. words: NULL for none.
void suggestion_consider_others(Suggestion *suggestion, const char *words, const char *stands_for);

#endif

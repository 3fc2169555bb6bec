// "Did you mean": the known word closest to a mistyped one.
//
//   Suggestion suggestion = {.typed = "ruonds"};
//   for each known word: suggestion_consider(&suggestion, word);
//   if (suggestion.best) ... "did you mean rounds?"
//
// Words that other programs use for the same may be considered too: suggestion_consider_as(&s, "epochs",
// "local-epochs").
//
// A word is close when at most two edits (insert, delete, replace, swap neighbours: the optimal string alignment
// distance of Damerau and Levenshtein; capitals are no edits) separate it from what was typed, or when what was typed
// is its beginning.
#ifndef SOUNDER_BASE_SUGGEST_H
#define SOUNDER_BASE_SUGGEST_H

typedef struct Suggestion {
    const char *typed; // borrowed
    const char *best;  // borrowed from the caller of suggestion_consider; NULL: nothing is close
    int distance;      // edits between the two
} Suggestion;

// The first of equally close words stays.
void suggestion_consider(Suggestion *suggestion, const char *word);

// The same for another word for `stands_for`, which is what is suggested.
void suggestion_consider_as(Suggestion *suggestion, const char *word, const char *stands_for);

#endif

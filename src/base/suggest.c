#include "suggest.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

enum { MAX_LETTERS = 32, MAX_EDITS = 2, NOT_CLOSE = MAX_EDITS + 1 };

static int smaller(int a, int b) {
    return a < b ? a : b;
}

static bool same_letter(char a, char b) {
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

// Optimal string alignment: distance[i][j] is the number of edits from the first i letters of a to the first j of b.
static int edit_distance(const char *a, const char *b) {
    int length_a = (int)strnlen(a, MAX_LETTERS + 1), length_b = (int)strnlen(b, MAX_LETTERS + 1);
    if (length_a > MAX_LETTERS || length_b > MAX_LETTERS) return NOT_CLOSE;
    int distance[MAX_LETTERS + 1][MAX_LETTERS + 1];
    for (int i = 0; i <= length_a; i++)
        distance[i][0] = i;
    for (int j = 0; j <= length_b; j++)
        distance[0][j] = j;
    for (int i = 1; i <= length_a; i++)
        for (int j = 1; j <= length_b; j++) {
            int replaced = distance[i - 1][j - 1] + !same_letter(a[i - 1], b[j - 1]);
            int best = smaller(replaced, 1 + smaller(distance[i - 1][j], distance[i][j - 1]));
            if (i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) && same_letter(a[i - 2], b[j - 1]))
                best = smaller(best, distance[i - 2][j - 2] + 1);
            distance[i][j] = best;
        }
    return distance[length_a][length_b];
}

void suggestion_consider(Suggestion *suggestion, const char *word) {
    suggestion_consider_as(suggestion, word, word);
}

void suggestion_consider_as(Suggestion *suggestion, const char *word, const char *stands_for) {
    size_t typed_length = strlen(suggestion->typed);
    int distance = edit_distance(suggestion->typed, word);
    // With as many edits as letters any short word would become any other.
    if (distance >= (int)typed_length && distance > 0) distance = NOT_CLOSE;
    if (typed_length > 1 && strncasecmp(suggestion->typed, word, typed_length) == 0)
        distance = smaller(distance, MAX_EDITS);
    if (distance > MAX_EDITS || (suggestion->best && distance >= suggestion->distance)) return;
    suggestion->best = stands_for;
    suggestion->distance = distance;
}

void suggestion_consider_others(Suggestion *suggestion, const char *words, const char *stands_for) {
    for (const char *word = words ? words : ""; *word;) {
        const size_t length = strcspn(word, " ");
        if (strlen(suggestion->typed) == length && strncasecmp(word, suggestion->typed, length) == 0)
            suggestion_consider_as(suggestion, suggestion->typed, stands_for);
        word += length + strspn(word + length, " ");
    }
}

// Part of predictions.h: the classes that a net confuses, as a matrix, or as a list of the most frequent pairs.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/train/predictions.h"
#include "base/owned.h"
#include "base/text.h"

enum {
    NARROWEST = 7,       // letters of a column
    USUAL_NAME = 12,     // letters of a class's name in the matrix, unless names need more to differ
    WIDEST_MATRIX = 200, // letters of a line; classes that need more are listed by pairs
    MOST_PAIRS = 20,
};

// row (classes): how many samples of this class the net assigned to each class.
static void count_row(int64_t *row, const Predictions *predictions, int label) {
    const DatasetSplit *test = &predictions->data->test;
    double probability;
    memset(row, 0, (size_t)predictions->classes * sizeof *row);
    for (uint32_t i = 0; i < test->count; i++)
        if (test->labels[i] == label) row[predictions_class(&probability, predictions, i)]++;
}

// Names in columns ----------------------------------------------------------------------------------------------------

// Returns the length in bytes of the first `width` letters, of which there are *letters.
static size_t cut(int *letters, const char *name, int width) {
    size_t bytes = 0;
    for (*letters = 0; name[bytes] && *letters < width; ++*letters) {
        const size_t letter = text_letter(name + bytes);
        bytes += letter ? letter : 1;
    }
    return bytes;
}

// Prints a name, cut to the width of a column: to its left, or to its right if `width` is below 0.
static void print_name(const Predictions *predictions, int class, int width) {
    char number[CLASS_NUMBER_BYTES];
    int letters;
    const char *name = class_name(number, predictions->data, class);
    const size_t bytes = cut(&letters, name, abs(width));
    printf("%*s%.*s%*s", width < 0 ? 0 : width - letters, "", (int)bytes, name, width < 0 ? -width - letters : 0, "");
}

static int letters_of(const Predictions *predictions, int class) {
    char number[CLASS_NUMBER_BYTES];
    int letters;
    cut(&letters, class_name(number, predictions->data, class), WIDEST_MATRIX);
    return letters;
}

static bool differ_within(const Predictions *predictions, int width) {
    for (int a = 0; a < predictions->classes; a++)
        for (int b = 0; b < a; b++) {
            char number[CLASS_NUMBER_BYTES], other[CLASS_NUMBER_BYTES];
            int letters;
            const char *name = class_name(number, predictions->data, a);
            const size_t bytes = cut(&letters, name, width);
            const char *second = class_name(other, predictions->data, b);
            if (bytes == cut(&letters, second, width) && memcmp(name, second, bytes) == 0) return false;
        }
    return true;
}

// Width of the columns in which all names differ; 0 if the matrix would be too wide.
static int matrix_width(const Predictions *predictions) {
    int longest = NARROWEST;
    const int classes = predictions->classes, most = WIDEST_MATRIX / (classes + 1) - 1;
    for (int class = 0; class < classes && most >= NARROWEST; class ++)
        if (letters_of(predictions, class) > longest) longest = letters_of(predictions, class);
    for (int width = longest < USUAL_NAME ? longest : USUAL_NAME; width <= most; width++)
        if (width >= longest || differ_within(predictions, width)) return width;
    return 0;
}

// Pairs of classes ----------------------------------------------------------------------------------------------------

typedef struct Pair {
    uint32_t label, taken_for, count;
} Pair;

static int by_classes(const void *a, const void *b) {
    const Pair *first = a, *second = b;
    if (first->label != second->label) return first->label < second->label ? -1 : 1;
    return (first->taken_for > second->taken_for) - (first->taken_for < second->taken_for);
}

static int by_count(const void *a, const void *b) {
    const Pair *first = a, *second = b;
    if (first->count != second->count) return first->count > second->count ? -1 : 1;
    return by_classes(a, b);
}

// pairs (test count). Returns how many there are, the most frequent first; *wrong: samples.
static uint32_t count_pairs(Pair *pairs, uint32_t *wrong, const Predictions *predictions) {
    const DatasetSplit *test = &predictions->data->test;
    uint32_t count = 0;
    *wrong = 0;
    for (uint32_t i = 0; i < test->count; i++) {
        double probability;
        const uint32_t taken_for = (uint32_t)predictions_class(&probability, predictions, i);
        if (taken_for != test->labels[i]) pairs[(*wrong)++] = (Pair){test->labels[i], taken_for, 1};
    }
    qsort(pairs, *wrong, sizeof *pairs, by_classes);
    for (uint32_t i = 0; i < *wrong; i++)
        if (count > 0 && by_classes(&pairs[count - 1], &pairs[i]) == 0)
            pairs[count - 1].count++;
        else
            pairs[count++] = pairs[i];
    qsort(pairs, count, sizeof *pairs, by_count);
    return count;
}

static Status print_pairs(const Predictions *predictions, Error *err) {
    const DatasetSplit *test = &predictions->data->test;
    Owned owned = {0};
    Pair *pairs = own(&owned, (size_t)test->count + 1, sizeof *pairs);
    uint32_t *samples = own(&owned, DATASET_MAX_CLASSES + 1, sizeof *samples), wrong;
    if (owned.lacks_memory) {
        owned_free(&owned);
        return fail(err, STATUS_OS, "no memory for the confusions of %u samples", test->count);
    }
    const uint32_t count = count_pairs(pairs, &wrong, predictions), shown = count < MOST_PAIRS ? count : MOST_PAIRS;
    int width = 5;
    for (uint32_t i = 0; i < test->count; i++)
        samples[test->labels[i]]++;
    for (uint32_t i = 0; i < shown; i++)
        if (letters_of(predictions, (int)pairs[i].label) > width) width = letters_of(predictions, (int)pairs[i].label);
    printf("the %u most frequent of %u confusions (%u of %u samples are wrong); --confusion-file FILE writes all\n",
           shown, count, wrong, test->count);
    if (shown > 0) printf("samples  of the class  %-*s  taken for\n", width, "class");
    for (uint32_t i = 0; i < shown; i++) {
        char number[CLASS_NUMBER_BYTES];
        printf("%7u  %11.2f%%  ", pairs[i].count, 100.0 * pairs[i].count / samples[pairs[i].label]);
        print_name(predictions, (int)pairs[i].label, -width);
        printf("  %s\n", class_name(number, predictions->data, (int)pairs[i].taken_for));
    }
    owned_free(&owned);
    return STATUS_OK;
}

// Outputs -------------------------------------------------------------------------------------------------------------

Status predictions_print_confusion(const Predictions *predictions, Error *err) {
    int64_t row[DATASET_MAX_CLASSES];
    const int width = matrix_width(predictions);
    if (width == 0) return print_pairs(predictions, err);
    printf("%-*s", width + 1, "class");
    for (int k = 0; k < predictions->classes; k++) {
        putchar(' ');
        print_name(predictions, k, width);
    }
    puts("   taken for");
    for (int label = 0; label < predictions->classes; label++) {
        count_row(row, predictions, label);
        print_name(predictions, label, -(width + 1));
        for (int k = 0; k < predictions->classes; k++)
            printf(" %*lld", width, (long long)row[k]);
        putchar('\n');
    }
    return STATUS_OK;
}

void predictions_put_confusion(JsonObject *object, const Predictions *predictions) {
    JsonObject rows;
    json_begin(&rows);
    for (int label = 0; label < predictions->classes; label++) {
        int64_t row[DATASET_MAX_CLASSES];
        char key[16];
        snprintf(key, sizeof key, "%d", label);
        count_row(row, predictions, label);
        put_wholes(&rows, key, row, (size_t)predictions->classes);
    }
    put_object(object, "confusion", &rows);
    put_class_names(object, predictions->data);
}

static void write_matrix(FILE *file, const Predictions *predictions) {
    char number[CLASS_NUMBER_BYTES];
    fputs("class", file);
    for (int class = 0; class < predictions->classes; class ++) {
        putc(',', file);
        predictions_write_field(file, class_name(number, predictions->data, class));
    }
    for (int label = 0; label < predictions->classes; label++) {
        int64_t row[DATASET_MAX_CLASSES];
        putc('\n', file);
        predictions_write_field(file, class_name(number, predictions->data, label));
        count_row(row, predictions, label);
        for (int k = 0; k < predictions->classes; k++)
            fprintf(file, ",%lld", (long long)row[k]);
    }
    putc('\n', file);
}

Status predictions_write_confusion(const Predictions *predictions, const char *path, Error *err) {
    return predictions_write_file(predictions, path, "class", write_matrix, err);
}

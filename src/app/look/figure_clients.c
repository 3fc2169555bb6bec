#include "figure_clients.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/look/dots.h"
#include "app/look/heat.h"
#include "app/look/past_run.h"
#include "base/owned.h"
#include "base/spread.h"

typedef struct ClassRow {
    size_t largest; // the class of which the client has most samples
    json_int_t count, client;
    const json_t *counts;
} ClassRow;

// Order of the page: by the client's largest class, then by the number of samples of it.
static int compare_rows(const void *a, const void *b) {
    const ClassRow *left = a, *right = b;
    if (left->largest != right->largest) return left->largest < right->largest ? -1 : 1;
    if (left->count != right->count) return left->count > right->count ? -1 : 1;
    return (left->client > right->client) - (left->client < right->client);
}

static void sort_rows(ClassRow *rows, const json_t *classes) {
    const json_t *clients = json_object_get(classes, "clients");
    size_t i, k;
    json_t *counts, *count;
    json_array_foreach(json_object_get(classes, "counts"), i, counts) {
        rows[i] = (ClassRow){.counts = counts, .client = json_integer_value(json_array_get(clients, i)), .count = -1};
        json_array_foreach(counts, k, count) {
            if (json_integer_value(count) <= rows[i].count) continue;
            rows[i].count = json_integer_value(count);
            rows[i].largest = k;
        }
    }
    qsort(rows, json_array_size(json_object_get(classes, "counts")), sizeof *rows, compare_rows);
}

Status figure_of_classes(FILE *file, bool *drawn, const json_t *runs, Error *err) {
    const json_t *run = json_array_get(runs, 0), *classes = json_object_get(run, "classes");
    const json_t *counts = json_object_get(classes, "counts");
    const size_t rows = json_array_size(counts), columns = json_array_size(json_array_get(counts, 0));
    if (rows == 0 || columns == 0) return STATUS_OK;
    Owned owned = {0};
    ClassRow *sorted = own(&owned, rows, sizeof *sorted);
    double *values = own(&owned, rows * columns, sizeof *values);
    char(*numbers)[PAST_CLIENT_BYTES] = own(&owned, rows, sizeof *numbers);
    const char **names = own(&owned, rows, sizeof *names), **class_names = own(&owned, columns, sizeof *class_names);
    if (owned.lacks_memory) {
        owned_free(&owned);
        return fail(err, STATUS_OS, "no memory for the figures");
    }
    sort_rows(sorted, classes);
    for (size_t i = 0; i < rows * columns; i++)
        values[i] = (double)json_integer_value(json_array_get(sorted[i / columns].counts, i % columns));
    for (size_t i = 0; i < rows; i++) {
        const json_t *name = json_array_get(json_object_get(run, "client_names"), (size_t)sorted[i].client);
        snprintf(numbers[i], sizeof numbers[i], "%lld", (long long)sorted[i].client);
        names[i] = json_is_string(name) ? json_string_value(name) : numbers[i];
    }
    for (size_t i = 0; i < columns; i++)
        class_names[i] = json_string_value(json_array_get(json_object_get(classes, "class_names"), i));
    heat_draw(file, &(Heat){.title = "Who has which data",
                            .x_title = "class",
                            .y_title = "client",
                            .value_title = "samples",
                            .values = values,
                            .rows = rows,
                            .columns = columns,
                            .row_names = names,
                            .column_names = columns > 0 && class_names[0] ? class_names : NULL});
    *drawn = true;
    owned_free(&owned);
    return STATUS_OK;
}

// The number of the run's group; `count` if it is a new one.
static size_t group_of(const char *const *groups, size_t count, const json_t *run) {
    const char *name = json_string_value(json_object_get(run, "group"));
    size_t group = 0;
    while (group < count && name && strcmp(groups[group], name) != 0)
        group++;
    return group;
}

// The groups, and the number of clients that runs have tested; 0: there is nothing to draw, or too much of it.
static size_t count_clients(const char *groups[DOTS_MOST_GROUPS], size_t *group_count, const json_t *runs) {
    size_t i, k, clients = 0;
    json_t *run, *value;
    *group_count = 0;
    json_array_foreach(runs, i, run) {
        const json_t *accuracies = json_object_get(run, "client_accuracy");
        const size_t group = group_of(groups, *group_count, run);
        if (group == DOTS_MOST_GROUPS) return 0;
        if (group == *group_count) groups[(*group_count)++] = json_string_value(json_object_get(run, "group"));
        json_array_foreach(accuracies, k, value) if (json_is_number(value) && k >= clients) clients = k + 1;
    }
    return clients > 1 ? clients : 0;
}

// A dot is the mean over the runs of one group.
Status figure_of_clients(FILE *file, bool *drawn, const json_t *runs, Error *err) {
    const char *groups[DOTS_MOST_GROUPS], *names[DOTS_MOST_ROWS];
    char numbers[DOTS_MOST_ROWS][PAST_CLIENT_BYTES];
    Spread spreads[DOTS_MOST_ROWS * DOTS_MOST_GROUPS] = {{0}};
    double means[DOTS_MOST_ROWS * DOTS_MOST_GROUPS], deviations[DOTS_MOST_ROWS * DOTS_MOST_GROUPS];
    size_t group_count, i, k;
    json_t *run, *value;
    const size_t clients = count_clients(groups, &group_count, runs);
    (void)err;
    if (clients == 0) return STATUS_OK;
    json_array_foreach(runs, i, run) {
        const size_t group = group_of(groups, group_count, run);
        json_array_foreach(json_object_get(run, "client_accuracy"), k, value) if (json_is_number(value))
            spread_add(&spreads[k * group_count + group], 100 * json_number_value(value));
    }
    for (k = 0; k < clients * group_count; k++) {
        means[k] = spreads[k].count > 0 ? spreads[k].mean : (double)NAN;
        deviations[k] = spreads[k].count > 1 ? spread_deviation(&spreads[k]) : (double)NAN;
    }
    for (k = 0; k < clients; k++) {
        const json_t *name = json_array_get(json_object_get(json_array_get(runs, 0), "client_names"), k);
        snprintf(numbers[k], sizeof numbers[k], "%zu", k);
        names[k] = json_is_string(name) ? json_string_value(name) : numbers[k];
    }
    for (k = 0; k < group_count; k++)
        if (!*groups[k]) groups[k] = "all runs";
    dots_draw(file, &(Dots){.title = "Accuracy of each client, mean and deviation over runs",
                            .x_title = "accuracy on the client's own samples, %",
                            .y_title = "client",
                            .means = means,
                            .deviations = deviations,
                            .rows = clients,
                            .groups = group_count,
                            .row_names = names,
                            .group_names = groups});
    *drawn = true;
    return STATUS_OK;
}

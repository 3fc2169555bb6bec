#include "figures.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/inspect/chart.h"
#include "app/inspect/heat.h"
#include "app/inspect/svg.h"
#include "app/options/run_figure.h"
#include "base/spread.h"
#include "base/text_stream.h"
#include "io/durable.h"

// Curves --------------------------------------------------------------------------------------------------------------

static const struct {
    const char *title, *by;
} axes[] = {[AXIS_ROUND] = {"round", "round"},
            [AXIS_SECONDS] = {"seconds of training and tests", "seconds"},
            [AXIS_SIMULATED] = {"simulated seconds", "simulated seconds"},
            [AXIS_MEGABYTES] = {"MB sent, both ways", "bytes sent"},
            [AXIS_JOULES] = {"simulated joules, training and links", "joules"}};

// One run's test.
typedef struct Sample {
    double round, x, y;
} Sample;

static int compare_samples(const void *a, const void *b) {
    const Sample *left = a, *right = b;
    if (left->round != right->round) return left->round < right->round ? -1 : 1;
    return (left->y > right->y) - (left->y < right->y);
}

static size_t count_points(const json_t *runs) {
    size_t count = 0, i;
    json_t *run;
    json_array_foreach(runs, i, run) count += json_array_size(json_object_get(json_object_get(run, "rounds"), "round"));
    return count;
}

static double number_at(const json_t *array, size_t i) {
    const json_t *value = json_array_get(array, i);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

// Returns the place of round number i on the axis. *seconds: those before it, to which it adds its own.
static double place_of(double *seconds, const json_t *rounds, size_t i, FigureAxis axis) {
    const double tests = number_at(json_object_get(rounds, "eval_seconds"), i);
    *seconds += number_at(json_object_get(rounds, "seconds"), i) + (isnan(tests) ? 0 : tests);
    if (axis == AXIS_SECONDS) return *seconds;
    if (axis == AXIS_SIMULATED) return number_at(json_object_get(rounds, "simulated_seconds_total"), i);
    if (axis == AXIS_ROUND) return number_at(json_object_get(rounds, "round"), i);
    if (axis == AXIS_JOULES)
        return number_at(json_object_get(rounds, "training_joules_total"), i) +
               number_at(json_object_get(rounds, "link_joules_total"), i);
    return 1e-6 * (number_at(json_object_get(rounds, "down_bytes_total"), i) +
                   number_at(json_object_get(rounds, "up_bytes_total"), i));
}

// Collects all values of a key in a group's runs, by round. samples must have room for all. Returns how many there are.
static size_t collect_samples(Sample *samples, const json_t *runs, const char *group, const char *key,
                              FigureAxis axis) {
    size_t count = 0, i, k;
    json_t *run, *round;
    json_array_foreach(runs, i, run) {
        if (strcmp(json_string_value(json_object_get(run, "group")), group) != 0) continue;
        const json_t *rounds = json_object_get(run, "rounds"), *values = json_object_get(rounds, key);
        double seconds = 0;
        json_array_foreach(json_object_get(rounds, "round"), k, round) {
            const double x = place_of(&seconds, rounds, k, axis), value = number_at(values, k);
            if (!isnan(value) && !isnan(x)) samples[count++] = (Sample){json_number_value(round), x, value};
        }
    }
    qsort(samples, count, sizeof *samples, compare_samples);
    return count;
}

// Makes one point per round: the mean, with a band of one standard deviation. Returns how many there are.
static size_t average(CurvePoint *points, const Sample *samples, size_t count, double scale) {
    size_t averaged = 0;
    for (size_t first = 0, next; first < count; first = next) {
        Spread x = {0}, y = {0};
        for (next = first; next < count && samples[next].round == samples[first].round; next++) {
            spread_add(&x, samples[next].x);
            spread_add(&y, samples[next].y);
        }
        const double deviation = spread_deviation(&y);
        points[averaged++] =
            (CurvePoint){x.mean, scale * y.mean, scale * (y.mean - deviation), scale * (y.mean + deviation)};
    }
    return averaged;
}

// The curves of a chart, with room for one per run and three more, and for four points per round of each run.
typedef struct Room {
    Curve *curves;      // owned
    CurvePoint *points; // owned
    Sample *samples;    // owned: of one curve at a time
    size_t curve_count, point_count;
    FigureAxis axis;
} Room;

static Status make_room(Room *room, const json_t *runs, FigureAxis axis, Error *err) {
    const size_t count = count_points(runs);
    *room = (Room){.curves = calloc(json_array_size(runs) + 3, sizeof *room->curves),
                   .points = calloc(4 * count + 1, sizeof *room->points),
                   .samples = calloc(count + 1, sizeof *room->samples),
                   .axis = axis};
    if (room->curves && room->points && room->samples) return STATUS_OK;
    return fail(err, STATUS_OS, "no memory for the figures");
}

static void free_room(Room *room) {
    free(room->curves);
    free(room->points);
    free(room->samples);
}

// Adds a curve and returns its points, which the caller may still change.
static CurvePoint *add_curve(Room *room, const json_t *runs, const char *group, const char *label, const char *key,
                             double scale) {
    CurvePoint *points = room->points + room->point_count;
    const size_t samples = collect_samples(room->samples, runs, group, key, room->axis),
                 count = average(points, room->samples, samples, scale);
    room->curves[room->curve_count++] = (Curve){.label = label, .points = points, .count = count};
    room->point_count += count;
    return points;
}

// Adds a curve per group. about: only groups whose runs are about the figure of this key; NULL: all groups.
static void add_groups(Room *room, const json_t *runs, const char *key, double scale, const char *about) {
    size_t i;
    json_t *run;
    json_array_foreach(runs, i, run) {
        const char *group = json_string_value(json_object_get(run, "group"));
        bool known = about && strcmp(json_string_value(json_object_get(run, "figure")), about) != 0;
        for (size_t k = 0; k < room->curve_count; k++)
            known |= strcmp(room->curves[k].label, group) == 0;
        if (!known) add_curve(room, runs, group, group, key, scale);
    }
}

// Adds the spread of one run's client losses to its points, around the mean in training.
static void put_spread(CurvePoint *points, size_t count, const json_t *run) {
    const json_t *spread = json_object_get(run, "loss_spread"), *rounds = json_object_get(run, "rounds");
    const json_t *losses = json_object_get(rounds, "train_loss");
    for (size_t i = 0, at = 0; at < count && i < json_array_size(losses); i++) {
        if (isnan(number_at(losses, i))) continue;
        points[at].low = number_at(json_object_get(spread, "low"), i);
        points[at++].high = number_at(json_object_get(spread, "high"), i);
    }
}

// Drawings ------------------------------------------------------------------------------------------------------------

typedef Status Draw(FILE *file, bool *drawn, const json_t *runs, FigureAxis axis, Error *err);

// How a figure that runs may be about is drawn; NULL: by its name.
static const struct {
    const char *title, *axis;
} drawings[FIGURE_KINDS] = {
    [FIGURE_ACCURACY] = {"Accuracy on the test samples", "accuracy on the test samples, %"},
    [FIGURE_LOSS] = {"Loss", "loss on the test samples"},
    [FIGURE_PERSONAL_ACCURACY] = {"Personal accuracy", "personal accuracy, mean over the clients, %"},
    [FIGURE_PERSONAL_LOSS] = {"Personal loss", "personal loss, mean over the clients"},
    [FIGURE_CLIENT_ACCURACY] = {"Accuracy on the clients' samples", "accuracy, mean over the clients, %"},
    [FIGURE_CLIENT_LOSS] = {"Loss on the clients' samples", "loss, mean over the clients"},
    [FIGURE_VALIDATION_ACCURACY] = {"Accuracy on the validation samples", "accuracy on the validation samples, %"},
    [FIGURE_VALIDATION_LOSS] = {"Loss on the validation samples", "loss on the validation samples"},
    [FIGURE_METRIC] = {NULL, NULL},
};

// The losses of one run: in training, of the test, and of the clients' own models.
static void add_losses(Room *room, const json_t *runs) {
    const json_t *run = json_array_get(runs, 0);
    const char *group = json_string_value(json_object_get(run, "group"));
    CurvePoint *points = add_curve(room, runs, group, "training", "train_loss", 1);
    put_spread(points, room->curves[0].count, run);
    add_curve(room, runs, group, "test", "test_loss", 1);
    if (json_object_get(json_object_get(run, "rounds"), "validation_loss"))
        add_curve(room, runs, group, "validation", "validation_loss", 1);
    if (json_object_get(json_object_get(run, "rounds"), "personal_loss"))
        add_curve(room, runs, group, "personal", "personal_loss", 1);
}

// Draws curves of the runs that are about the figure, and the target of the first run if it is about the figure. All
// runs have the loss of the test.
static Status draw_figure(FILE *file, bool *drawn, const json_t *runs, const RunFigure *figure, FigureAxis by,
                          Error *err) {
    Room room;
    char label[64], key[METRIC_NAME_BYTES + 16], title[METRIC_NAME_BYTES + 64];
    const json_t *first = json_array_get(runs, 0), *target = json_object_get(first, "target");
    const FigureFacts *facts = &figure_facts[figure->kind];
    const char *name = run_figure_name(figure), *axis = drawings[figure->kind].axis;
    const double scale = facts->is_share ? 100 : 1;
    const bool is_loss = figure->kind == FIGURE_LOSS, alone = is_loss && json_array_size(runs) == 1;
    run_figure_key(key, figure);
    const bool aims = json_is_number(target) && strcmp(json_string_value(json_object_get(first, "figure")), key) == 0;
    const double reference = aims ? scale * json_number_value(target) : (double)NAN;
    Status status = make_room(&room, runs, by, err);
    if (status == STATUS_OK) {
        if (alone)
            add_losses(&room, runs);
        else
            add_groups(&room, runs, key, scale, is_loss ? NULL : key);
        snprintf(label, sizeof label, "target: %.4g%s", reference, facts->is_share ? " %" : "");
        snprintf(title, sizeof title, "%s by %s", drawings[figure->kind].title ? drawings[figure->kind].title : name,
                 axes[by].by);
        const Chart chart = {.title = title,
                             .x_title = axes[by].title,
                             .fractions = by != AXIS_ROUND,
                             .y_title = axis && !alone ? axis : name,
                             .curves = room.curves,
                             .count = room.curve_count,
                             .most = facts->is_share ? 100 : 0,
                             .logarithmic = facts->is_loss,
                             .reference = reference,
                             .reference_label = label};
        *drawn = chart_has_points(&chart);
        if (*drawn) chart_draw(file, &chart);
    }
    free_room(&room);
    return status;
}

// The metric that the first run is about.
static Status draw_metric(FILE *file, bool *drawn, const json_t *runs, FigureAxis axis, Error *err) {
    const RunFigure figure = run_figure_told(json_array_get(runs, 0));
    return figure.kind == FIGURE_METRIC ? draw_figure(file, drawn, runs, &figure, axis, err) : STATUS_OK;
}

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

static Status draw_classes(FILE *file, bool *drawn, const json_t *runs, FigureAxis axis, Error *err) {
    (void)axis;
    const json_t *classes = json_object_get(json_array_get(runs, 0), "classes");
    const json_t *counts = json_object_get(classes, "counts");
    const size_t rows = json_array_size(counts), columns = json_array_size(json_array_get(counts, 0));
    *drawn = rows > 0 && columns > 0;
    if (!*drawn) return STATUS_OK;
    ClassRow *sorted = calloc(rows, sizeof *sorted);
    double *values = calloc(rows * columns, sizeof *values);
    uint32_t *names = calloc(rows, sizeof *names);
    const bool whole = sorted && values && names;
    if (whole) {
        sort_rows(sorted, classes);
        for (size_t i = 0; i < rows * columns; i++)
            values[i] = (double)json_integer_value(json_array_get(sorted[i / columns].counts, i % columns));
        for (size_t i = 0; i < rows; i++)
            names[i] = (uint32_t)sorted[i].client;
        heat_draw(file, &(Heat){.title = "Who has which data",
                                .x_title = "class",
                                .y_title = "client",
                                .value_title = "samples",
                                .values = values,
                                .rows = rows,
                                .columns = columns,
                                .names = names});
    }
    free(names);
    free(values);
    free(sorted);
    return whole ? STATUS_OK : fail(err, STATUS_OS, "no memory for the figures");
}

// Files ---------------------------------------------------------------------------------------------------------------

static const struct {
    const char *name;
    Draw *draw; // NULL: the figure of this kind
    FigureKind kind;
} figures[] = {{"accuracy.svg", NULL, FIGURE_ACCURACY},
               {"personal-accuracy.svg", NULL, FIGURE_PERSONAL_ACCURACY},
               {"personal-loss.svg", NULL, FIGURE_PERSONAL_LOSS},
               {"client-accuracy.svg", NULL, FIGURE_CLIENT_ACCURACY},
               {"client-loss.svg", NULL, FIGURE_CLIENT_LOSS},
               {"validation-accuracy.svg", NULL, FIGURE_VALIDATION_ACCURACY},
               {"validation-loss.svg", NULL, FIGURE_VALIDATION_LOSS},
               {"balanced-accuracy.svg", NULL, FIGURE_BALANCED_ACCURACY},
               {"macro-f1.svg", NULL, FIGURE_MACRO_F1},
               {"auc.svg", NULL, FIGURE_AUC},
               {"validation-balanced-accuracy.svg", NULL, FIGURE_VALIDATION_BALANCED_ACCURACY},
               {"validation-macro-f1.svg", NULL, FIGURE_VALIDATION_MACRO_F1},
               {"validation-auc.svg", NULL, FIGURE_VALIDATION_AUC},
               {"metric.svg", draw_metric, FIGURE_METRIC},
               {"loss.svg", NULL, FIGURE_LOSS},
               {"classes.svg", draw_classes, FIGURE_LOSS}};
enum { FIGURES = sizeof figures / sizeof *figures };

bool report_may_write(const Folder *folder, const char *name, const char *mark) {
    char head[1024] = "";
    int fd = openat(folder->fd, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return errno == ENOENT;
    const ssize_t bytes = read(fd, head, sizeof head - 1);
    close(fd);
    return bytes >= 0 && strstr(head, mark);
}

static Status write_figure(const Folder *folder, int i, bool *drawn, const json_t *runs, FigureAxis axis, Error *err) {
    TextStream stream;
    FILE *file = text_open(&stream);
    *drawn = false;
    const RunFigure figure = {.kind = figures[i].kind};
    Status status = STATUS_OK;
    if (file)
        status = figures[i].draw ? figures[i].draw(file, drawn, runs, axis, err)
                                 : draw_figure(file, drawn, runs, &figure, axis, err);
    const bool whole = text_close(&stream);
    if (status == STATUS_OK && !whole) status = fail(err, STATUS_OS, "no memory for the figures");
    if (status == STATUS_OK && *drawn)
        status = durable_write(folder, figures[i].name, &(FilePart){stream.text, stream.bytes}, 1, err);
    if (status == STATUS_OK && !*drawn) unlinkat(folder->fd, figures[i].name, 0);
    free(stream.text);
    return status;
}

static Status write_all(const Folder *folder, const json_t *runs, FigureAxis axis, Error *err) {
    char told[256] = "";
    for (int i = 0; i < FIGURES; i++)
        if (!report_may_write(folder, figures[i].name, svg_mark))
            return fail(err, STATUS_CANTCREATE, "%.200s holds another %s; give another --svg FOLDER", folder->path,
                        figures[i].name);
    for (int i = 0; i < FIGURES; i++) {
        bool drawn;
        TRY(write_figure(folder, i, &drawn, runs, axis, err));
        if (drawn) strcat(strcat(told, *told ? ", " : ""), figures[i].name);
    }
    if (!*told) return fail(err, STATUS_NOINPUT, "the runs have no round yet that could be drawn");
    printf("%s: %s\n", folder->path, told);
    return STATUS_OK;
}

Status figures_write(const char *path, const json_t *report, FigureAxis axis, Error *err) {
    if (make_folders(path, 0777) != 0) return fail_errno(err, STATUS_CANTCREATE, "%.200s cannot be created", path);
    const Folder folder = {.fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), .path = path};
    if (folder.fd < 0) return fail_errno(err, STATUS_CANTCREATE, "%.200s cannot be opened", path);
    Status status = write_all(&folder, json_object_get(report, "runs"), axis, err);
    close(folder.fd);
    return status;
}

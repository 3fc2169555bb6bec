#include "figures.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/look/chart.h"
#include "app/look/figure_charts.h"
#include "app/look/figure_clients.h"
#include "app/look/past_run.h"
#include "app/look/svg.h"
#include "base/log.h"
#include "base/owned.h"
#include "base/spread.h"
#include "base/text.h"
#include "base/text_stream.h"
#include "io/durable.h"

// Curves --------------------------------------------------------------------------------------------------------------

static const struct {
    const char *title, *by, *key, *plus; // lists of the report; plus: of a second number, which is added
    double scale;
} axes[] = {
    [AXIS_ROUND] = {"round", "round", "round", NULL, 1},
    [AXIS_SECONDS] = {"seconds of training and tests", "seconds", "seconds_total", NULL, 1},
    [AXIS_SIMULATED] = {"simulated seconds", "simulated seconds", "simulated_seconds_total", NULL, 1},
    [AXIS_MEGABYTES] = {"MB sent, both ways", "bytes sent", "down_bytes_total", "up_bytes_total", 1e-6},
    [AXIS_JOULES] = {"simulated joules, training and links", "joules", "training_joules_total", "link_joules_total", 1},
    [AXIS_TOKENS] = {"tokens trained", "tokens", "tokens_total", NULL, 1}};

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

// Returns the place of round number i on the axis; NaN if the run does not tell.
static double place_of(const json_t *rounds, size_t i, FigureAxis axis) {
    const double first = number_at(json_object_get(rounds, axes[axis].key), i),
                 second = axes[axis].plus ? number_at(json_object_get(rounds, axes[axis].plus), i) : 0;
    return axes[axis].scale * (first + second);
}

// Collects all values of a key in a group's runs, by round. samples must have room for all. Returns how many there are.
static size_t collect_samples(Sample *samples, const json_t *runs, const char *group, const char *key,
                              FigureAxis axis) {
    size_t count = 0, i, k;
    json_t *run, *round;
    json_array_foreach(runs, i, run) {
        if (strcmp(json_string_value(json_object_get(run, "group")), group) != 0) continue;
        const json_t *rounds = json_object_get(run, "rounds"), *values = json_object_get(rounds, key);
        json_array_foreach(json_object_get(rounds, "round"), k, round) {
            const double x = place_of(rounds, k, axis), value = number_at(values, k);
            if (!isnan(value) && !isnan(x)) samples[count++] = (Sample){json_number_value(round), x, value};
        }
    }
    if (count > 0) qsort(samples, count, sizeof *samples, compare_samples); // else there may be no array
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
    Owned owned;
    Curve *curves;
    CurvePoint *points;
    Sample *samples; // of one curve at a time
    size_t curve_count, point_count;
    FigureAxis axis;
} Room;

static Status make_room(Room *room, const json_t *runs, FigureAxis axis, Error *err) {
    const size_t count = count_points(runs);
    *room = (Room){.axis = axis};
    room->curves = own(&room->owned, json_array_size(runs) + 3, sizeof *room->curves);
    room->points = own(&room->owned, 4 * count + 1, sizeof *room->points); // an address, also without a test
    room->samples = own(&room->owned, count, sizeof *room->samples);
    if (!room->owned.lacks_memory) return STATUS_OK;
    owned_free(&room->owned);
    return fail(err, STATUS_OS, "no memory for the figures");
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
static void put_spread(CurvePoint *points, size_t count, const json_t *rounds) {
    const json_t *losses = json_object_get(rounds, "train_loss");
    for (size_t i = 0, at = 0; at < count && i < json_array_size(losses); i++) {
        if (isnan(number_at(losses, i))) continue;
        points[at].low = number_at(json_object_get(rounds, "loss_low"), i);
        points[at++].high = number_at(json_object_get(rounds, "loss_high"), i);
    }
}

// Drawings ------------------------------------------------------------------------------------------------------------

// One file per figure that runs may be about, one for the metric of the first run, and one for the classes of clients.
typedef struct Drawing {
    char file[CHART_TEXT_BYTES + 8];
    const FigureChart *chart; // NULL: of the metric, the classes or the clients
    bool is_of_classes, is_of_clients;
} Drawing;

// The drawings of all runs. charts are borrowed.
typedef struct Drawings {
    Drawing all[FIGURE_CHARTS_MOST + 3];
    int count;
} Drawings;

static void list_drawings(Drawings *drawings, const FigureCharts *charts) {
    *drawings = (Drawings){.count = 0};
    for (size_t i = 0; i < charts->count; i++) {
        if (i + 1 == charts->count) drawings->all[drawings->count++] = (Drawing){.file = "metric.svg"};
        Drawing *drawing = &drawings->all[drawings->count++];
        drawing->chart = &charts->all[i];
        snprintf(drawing->file, sizeof drawing->file, "%s.svg", charts->all[i].file);
    }
    drawings->all[drawings->count++] = (Drawing){.file = "classes.svg", .is_of_classes = true};
    drawings->all[drawings->count++] = (Drawing){.file = "clients.svg", .is_of_clients = true};
}

// The losses of one run: in training, of the test, and of the clients' own models.
static void add_losses(Room *room, const json_t *runs) {
    const json_t *run = json_array_get(runs, 0);
    const char *group = json_string_value(json_object_get(run, "group"));
    CurvePoint *points = add_curve(room, runs, group, "training", "train_loss", 1);
    put_spread(points, room->curves[0].count, json_object_get(run, "rounds"));
    add_curve(room, runs, group, "test", "test_loss", 1);
    if (json_object_get(json_object_get(run, "rounds"), "validation_loss"))
        add_curve(room, runs, group, "validation", "validation_loss", 1);
    if (json_object_get(json_object_get(run, "rounds"), "personal_loss"))
        add_curve(room, runs, group, "personal", "personal_loss", 1);
}

// Draws curves of the runs that are about the figure, and the target of the first run if it is about the figure. All
// runs have the loss of the test, or that on the validation set, and the success of an attack where there is one. A
// metric is the one that the first run is about.
static Status draw_figure(FILE *file, bool *drawn, const json_t *runs, const Drawing *drawing, FigureAxis by,
                          Error *err) {
    Room room;
    char label[64], key[FIGURE_KEY_BYTES], name[RUN_FIGURE_NAME_BYTES], title[CHART_TEXT_BYTES + 64];
    const json_t *first = json_array_get(runs, 0), *target = json_object_get(first, "target");
    const FigureChart *of = drawing->chart;
    const RunFigure told = run_figure_told(first), figure = of ? of->figure : told;
    if (!of && !run_figure_is_metric(&told)) return STATUS_OK;
    run_figure_name(name, &figure);
    run_figure_key(key, &figure);
    const bool is_share = run_figure_has(&figure, FIGURE_IS_SHARE), falls = run_figure_has(&figure, FIGURE_FALLS);
    const double scale = is_share ? 100 : 1;
    const bool is_loss = strcmp(key, "test_loss") == 0, is_one = json_array_size(runs) == 1, alone = is_loss && is_one,
               of_all = is_loss || (strcmp(key, "validation_loss") == 0 && !is_one) ||
                        run_figure_row(&figure)->of == FIGURE_OF_ATTACK;
    const bool aims = json_is_number(target) && run_figure_same(&told, &figure);
    const double reference = aims ? scale * json_number_value(target) : (double)NAN;
    TRY(make_room(&room, runs, by, err));
    if (alone)
        add_losses(&room, runs);
    else
        add_groups(&room, runs, key, scale, of_all ? NULL : key);
    snprintf(label, sizeof label, "target: %.4g%s", reference, is_share ? " %" : "");
    snprintf(title, sizeof title, "%s by %s", alone ? "Loss" : of ? of->title : name, axes[by].by);
    const Chart chart = {.title = title,
                         .x_title = axes[by].title,
                         .fractions = by != AXIS_ROUND,
                         .y_title = of && !alone ? of->axis : name,
                         .curves = room.curves,
                         .count = room.curve_count,
                         .most = is_share ? 100 : 0,
                         .logarithmic = falls && !is_share,
                         .reference = reference,
                         .reference_label = label};
    *drawn = chart_has_points(&chart);
    if (*drawn) chart_draw(file, &chart);
    owned_free(&room.owned);
    return STATUS_OK;
}

// Files ---------------------------------------------------------------------------------------------------------------

bool report_may_write(const Folder *folder, const char *name, const char *mark) {
    char head[1024] = "";
    int fd = openat(folder->fd, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return errno == ENOENT;
    const ssize_t bytes = read(fd, head, sizeof head - 1);
    close(fd);
    return bytes >= 0 && strstr(head, mark);
}

static Status write_figure(const Folder *folder, const Drawing *drawing, bool *drawn, const json_t *runs,
                           FigureAxis axis, Error *err) {
    TextStream stream;
    FILE *file = text_open(&stream);
    Status status = STATUS_OK;
    *drawn = false;
    if (file)
        status = drawing->is_of_classes   ? figure_of_classes(file, drawn, runs, err)
                 : drawing->is_of_clients ? figure_of_clients(file, drawn, runs, err)
                                          : draw_figure(file, drawn, runs, drawing, axis, err);
    const bool whole = text_close(&stream);
    if (status == STATUS_OK && !whole) status = fail(err, STATUS_OS, "no memory for the figures");
    if (status == STATUS_OK && *drawn)
        status = durable_write(folder, drawing->file, &(FilePart){stream.text, stream.bytes}, 1, err);
    if (status == STATUS_OK && !*drawn) unlinkat(folder->fd, drawing->file, 0);
    free(stream.text);
    return status;
}

static Status write_all(const Folder *folder, const json_t *runs, FigureAxis axis, Error *err) {
    char told[512] = "";
    FigureCharts charts;
    Drawings drawings;
    figure_charts_list(&charts);
    list_drawings(&drawings, &charts);
    for (int i = 0; i < drawings.count; i++)
        if (!report_may_write(folder, drawings.all[i].file, svg_mark))
            return fail(err, STATUS_CANTCREATE, "%.200s holds another %s; give another --svg FOLDER", folder->path,
                        drawings.all[i].file);
    for (int i = 0; i < drawings.count; i++) {
        bool drawn;
        TRY(write_figure(folder, &drawings.all[i], &drawn, runs, axis, err));
        if (drawn) text_add(told, sizeof told, "%s%s", *told ? ", " : "", drawings.all[i].file);
    }
    if (!*told) return fail(err, STATUS_NOINPUT, "the runs have no round yet that could be drawn");
    printf("%s: %s\n", folder->path, told);
    const json_t *first = json_array_get(runs, 0), *why = json_object_get(json_object_get(first, "classes"), "why");
    if (why) log_warning("classes.svg is left out: %s", json_string_value(why));
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

#include "figures.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/durable.h"

extern char **environ;

static const char SCRIPT[] = "figures.gp",
                  HEADING[] = "# Figures of sounder report; make them again: gnuplot figures.gp\n";

// Okabe and Ito's, as on the page; lines differ in their dashes, too.
static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                      "#a6761d", "#56b4e9", "#000000", "#8c6bb1"};
enum { COLOURS = sizeof colours / sizeof *colours, DASHES = 5, MOST_GROUPS = 64 };

// Curves --------------------------------------------------------------------------------------------------------------

typedef struct Point {
    double round, value;
} Point;

static int compare_points(const void *a, const void *b) {
    const Point *left = a, *right = b;
    if (left->round != right->round) return left->round < right->round ? -1 : 1;
    return (left->value > right->value) - (left->value < right->value);
}

static size_t count_points(const json_t *runs) {
    size_t count = 0, i;
    json_t *run;
    json_array_foreach(runs, i, run) count += json_array_size(json_object_get(json_object_get(run, "rounds"), "round"));
    return count;
}

// All values of a key in the runs of a group. points: room for all. Returns how many there are.
static size_t collect_points(Point *points, const json_t *runs, const char *group, const char *key) {
    size_t count = 0, i, k;
    json_t *run, *round;
    json_array_foreach(runs, i, run) {
        if (strcmp(json_string_value(json_object_get(run, "group")), group) != 0) continue;
        const json_t *rounds = json_object_get(run, "rounds"), *values = json_object_get(rounds, key);
        json_array_foreach(json_object_get(rounds, "round"), k, round) {
            const json_t *value = json_array_get(values, k);
            if (json_is_number(value)) points[count++] = (Point){json_number_value(round), json_number_value(value)};
        }
    }
    qsort(points, count, sizeof *points, compare_points);
    return count;
}

// A block of lines "round mean deviation" for gnuplot. Returns whether there is any.
static bool print_curve(FILE *file, const char *name, int index, Point *points, const json_t *runs, const char *group,
                        const char *key, double scale) {
    const size_t count = collect_points(points, runs, group, key);
    if (count == 0) return false;
    fprintf(file, "$%s%d << END\n", name, index);
    for (size_t first = 0, next; first < count; first = next) {
        double sum = 0, squares = 0;
        for (next = first; next < count && points[next].round == points[first].round; next++)
            sum += points[next].value;
        const double number = (double)(next - first), mean = sum / number;
        for (size_t i = first; i < next; i++)
            squares += (points[i].value - mean) * (points[i].value - mean);
        fprintf(file, "%g %.6g %.6g\n", points[first].round, scale * mean,
                number > 1 ? scale * sqrt(squares / (number - 1)) : 0);
    }
    fputs("END\n", file);
    return true;
}

static void print_text(FILE *file, const char *text) {
    fputc('"', file);
    for (; *text; text++)
        fprintf(file, "%s%c", *text == '"' || *text == '\\' ? "\\" : "", *text);
    fputc('"', file);
}

// groups: (count) names, each once.
static void print_curves(FILE *file, const char *name, const char *label, const json_t *runs, const char *const *groups,
                         int count, Point *points, const char *key, double scale) {
    bool there[MOST_GROUPS], any = false;
    for (int i = 0; i < count; i++) {
        there[i] = print_curve(file, name, i, points, runs, groups[i], key, scale);
        any |= there[i];
    }
    if (!any) return;
    fprintf(file, "set output \"%s.svg\"\nset xlabel \"round\"\nset ylabel \"%s\"\n%s logscale y\nplot ", name, label,
            strcmp(name, "loss") == 0 ? "set" : "unset");
    for (int i = 0, first = 1; i < count; i++) {
        if (!there[i]) continue;
        const char *colour = colours[i % COLOURS];
        fprintf(file,
                "%s$%s%d using 1:($2-$3):($2+$3) with filledcurves fs transparent solid 0.18 noborder lc rgb \"%s\" "
                "notitle, \\\n"
                "     $%s%d using 1:2 with lines lw 2 dt %d lc rgb \"%s\" title ",
                first ? "" : ", \\\n     ", name, i, colour, name, i, i % DASHES + 1, colour);
        print_text(file, *groups[i] ? groups[i] : label);
        first = 0;
    }
    fputs("\n\n", file);
}

static void print_classes(FILE *file, const json_t *run) {
    const json_t *classes = json_object_get(run, "classes");
    size_t i, k;
    json_t *row, *count;
    if (!json_array_size(json_object_get(classes, "counts"))) return;
    fputs("$classes << END\n", file);
    json_array_foreach(json_object_get(classes, "counts"), i, row) {
        json_array_foreach(row, k, count) fprintf(file, "%lld ", (long long)json_integer_value(count));
        fputc('\n', file);
    }
    const size_t columns = json_array_size(json_array_get(json_object_get(classes, "counts"), 0));
    fprintf(file,
            "END\nset output \"classes.svg\"\nset xlabel \"class\"\nset ylabel \"client\"\nset cblabel "
            "\"samples\"\nunset logscale y\nunset grid\n"
            "set palette defined (0 \"#440154\", 1 \"#3b528b\", 2 \"#21918c\", 3 \"#5ec962\", 4 \"#fde725\")\n"
            "set xrange [-0.5:%zu.5]\nset yrange [-0.5:%zu.5]\nset xtics 1\nset tics out nomirror\nset rmargin at screen 0.8\n"
            "plot $classes matrix with image pixels notitle\n",
            columns - 1, json_array_size(json_object_get(classes, "counts")) - 1);
}

static int find_groups(const char **groups, const json_t *runs) {
    int count = 0;
    size_t i;
    json_t *run;
    json_array_foreach(runs, i, run) {
        const char *group = json_string_value(json_object_get(run, "group"));
        bool known = count == MOST_GROUPS;
        for (int k = 0; k < count; k++)
            known |= strcmp(groups[k], group) == 0;
        if (!known) groups[count++] = group;
    }
    return count;
}

static Status print_script(char **text, size_t *bytes, const json_t *runs, Error *err) {
    const char *groups[MOST_GROUPS];
    const int count = find_groups(groups, runs);
    Point *points = malloc((count_points(runs) + 1) * sizeof *points);
    *text = NULL;
    FILE *file = points ? open_memstream(text, bytes) : NULL;
    if (file) {
        fprintf(file,
                "%sset terminal svg size 480,320 fixed noenhanced font \"sans-serif,12\"\nset grid lc rgb "
                "\"#dddddd\" lt 1\n"
                "set border 3\nset tics nomirror\nset key below\n\n",
                HEADING);
        print_curves(file, "accuracy", "accuracy on the test samples, %", runs, groups, count, points, "test_accuracy",
                     100);
        print_curves(file, "loss", "loss on the test samples", runs, groups, count, points, "test_loss", 1);
        print_classes(file, json_array_get(runs, 0));
    }
    free(points);
    if (file && fclose(file) == 0 && *text) return STATUS_OK;
    return fail(err, STATUS_OS, "no memory for the figures");
}

// Files ---------------------------------------------------------------------------------------------------------------

// A folder that has figures but no script of this has somebody else's.
static Status check_folder(const Folder *folder, Error *err) {
    static const char *const names[] = {"figures.gp", "accuracy.svg", "loss.svg", "classes.svg"};
    char head[sizeof HEADING] = "";
    int fd = openat(folder->fd, SCRIPT, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    const ssize_t bytes = fd >= 0 ? read(fd, head, sizeof HEADING - 1) : 0;
    if (fd >= 0) close(fd);
    if (bytes > 0 && strcmp(head, HEADING) == 0) return STATUS_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (faccessat(folder->fd, names[i], F_OK, 0) == 0)
            return fail(err, STATUS_CANTCREATE, "%.200s holds another %s; give another --svg FOLDER", folder->path,
                        names[i]);
    return STATUS_OK;
}

static Status run_gnuplot(const Folder *folder, Error *err) {
    posix_spawn_file_actions_t actions;
    char *const arguments[] = {"gnuplot", (char *)SCRIPT, NULL};
    pid_t pid;
    int status;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addfchdir_np(&actions, folder->fd);
    errno = posix_spawnp(&pid, "gnuplot", &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (errno == ENOENT)
        return fail(
            err, STATUS_UNAVAILABLE,
            "--svg needs gnuplot, which is not installed: apt install gnuplot-nox; then gnuplot figures.gp in %.200s",
            folder->path);
    if (errno) return fail_errno(err, STATUS_OS, "gnuplot cannot be started");
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return STATUS_OK;
    return fail(err, STATUS_UNAVAILABLE, "gnuplot has failed at %.200s/%s, see above", folder->path, SCRIPT);
}

Status figures_write(const char *path, const json_t *report, Error *err) {
    char *text = NULL;
    size_t bytes = 0;
    if (make_folders(path) != 0) return fail_errno(err, STATUS_CANTCREATE, "%.200s cannot be created", path);
    const Folder folder = {.fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), .path = path};
    if (folder.fd < 0) return fail_errno(err, STATUS_CANTCREATE, "%.200s cannot be opened", path);
    Status status = check_folder(&folder, err);
    if (status == STATUS_OK) status = print_script(&text, &bytes, json_object_get(report, "runs"), err);
    if (status == STATUS_OK) status = durable_write(&folder, SCRIPT, &(FilePart){text, bytes}, 1, err);
    if (status == STATUS_OK) status = run_gnuplot(&folder, err);
    free(text);
    close(folder.fd);
    if (status == STATUS_OK) printf("%s: figures as SVG, and figures.gp, which makes them\n", path);
    return status;
}

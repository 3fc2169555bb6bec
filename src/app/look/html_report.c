// Part of command.h: `sounder report` writes runs as one page that opens from disk; Chart.js is copied into it from
// its installed package.
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "app/command.h"
#include "app/look/against.h"
#include "app/look/by_options.h"
#include "app/look/figure_charts.h"
#include "app/look/figures.h"
#include "app/look/look_options.h"
#include "app/look/replicates.h"
#include "app/look/run_details.h"
#include "app/look/runs.h"
#include "base/embed.h"
#include "base/text_stream.h"
#include "datasets/settings.h"
#include "io/durable.h"

enum { PATH_BYTES = 4096, REPORT_PATH_BYTES = PATH_BYTES + 16, MOST_RUNS = 200 };

// The files of page/.
EMBED(report_html, REPORT_PAGE "/report.html");
EMBED(figure_js, REPORT_PAGE "/figure.js");
EMBED(report_js, REPORT_PAGE "/report.js");

static const char GENERATOR[] = "content=\"sounder report\"";

// Chart.js ------------------------------------------------------------------------------------------------------------

static Status read_file(char **text, const char *path, Error *err) {
    FILE *file = fopen(path, "re");
    char *bytes = NULL;
    size_t count = 0;
    ssize_t read = file ? getdelim(&bytes, &count, '\0', file) : -1;
    if (read <= 0 || ferror(file)) {
        Status status = fail_errno(err, STATUS_UNAVAILABLE, "%.200s cannot be read", path);
        if (file) fclose(file);
        free(bytes);
        return status;
    }
    fclose(file);
    *text = bytes;
    return STATUS_OK;
}

static Status read_charts(char **text, Error *err) {
    static const char usual[] = "/usr/share/javascript/chart.js/chart.min.js";
    const char *path = getenv("SOUNDER_CHART_JS");
    if (!path || !*path) path = usual;
    if (access(path, R_OK) != 0)
        return fail(
            err, STATUS_UNAVAILABLE,
            "a report needs Chart.js, and %.200s is not there; install Debian's libjs-chart.js, or name another "
            "chart.min.js of version 3 in SOUNDER_CHART_JS; --svg FOLDER draws figures without it",
            path);
    TRY(read_file(text, path, err));
    if (strstr(*text, "Chart") && !strstr(*text, "</script")) return STATUS_OK;
    free(*text);
    return fail(err, STATUS_DATA, "%.200s is not Chart.js; name its chart.min.js of version 3 in SOUNDER_CHART_JS",
                path);
}

// The data ------------------------------------------------------------------------------------------------------------

// Names the group of a run by all options in which the runs differ, except those in `over`. The caller frees the
// text; NULL: no memory.
static char *name_group(const PastRuns *runs, const PastRun *run, const ByOptions *over) {
    TextStream stream;
    const char *separator = "";
    FILE *file = text_open(&stream);
    for (int i = 0; i < past_run_traits() && file; i++) {
        const Option *option = past_run_trait(i);
        char value[OPTION_VALUE_BYTES];
        if (option->unsaved || option->may_change || by_options_have(over, option) ||
            !past_runs_differ(runs->all, runs->count, option))
            continue;
        by_options_text(value, run, option);
        fprintf(file, "%s%s %s", separator, option->name, *value ? value : "-");
        separator = ", ";
    }
    return text_close(&stream) ? stream.text : NULL;
}

// notes: "": none.
static void put_table(JsonObject *report, const char *name, const Table *table, const char *notes) {
    JsonObject of, columns, text, rows;
    json_begin(&of);
    json_begin_array(&columns);
    json_begin_array(&text);
    json_begin_array(&rows);
    for (size_t c = 0; c < table->column_count; c++) {
        put_text(&columns, NULL, table->columns[c].title);
        put_flag(&text, NULL, table->columns[c].is_text);
    }
    for (size_t r = 0; r < table->row_count && !table->no_memory; r++) {
        JsonObject row;
        json_begin_array(&row);
        for (size_t c = 0; c < table->column_count; c++) {
            char cell[TABLE_CELL_BYTES];
            table_cell_text(cell, table, r, c);
            put_readable(&row, NULL, cell);
        }
        put_object(&rows, NULL, &row);
    }
    put_object(&of, "columns", &columns);
    put_object(&of, "text", &text);
    put_object(&of, "rows", &rows);
    put_readable(&of, "notes", notes);
    if (table->no_memory) put_value(&of, "table", NULL);
    put_object(report, name, &of);
}

static void put_runs(JsonObject *report, const PastRuns *runs, const ByOptions *over) {
    char notes[OPTION_TEXT_BYTES + 80], names[OPTION_TEXT_BYTES];
    Table table = {0};
    Error never; // no name is asked for
    runs_table_list(&table, runs, "", &never);
    put_table(report, "table", &table, "");
    table_free(&table);
    if (runs->count < 2 || runs_table_means(&table, runs, over, &never) != STATUS_OK) return;
    snprintf(notes, sizeof notes, "mean ± standard deviation over the runs that differ in the %s alone",
             replicates_name(names, over));
    if (table.row_count > 0) put_table(report, "means", &table, notes);
    table_free(&table);
}

// Reorders the runs.
static Status put_against(JsonObject *report, PastRuns *runs, const LookOptions *options, Error *err) {
    Table table = {0};
    char *notes = NULL;
    Status status = against_fill(&table, &notes, runs, &(Against){options->against, "", "", options->over}, true, err);
    if (status == STATUS_OK) put_table(report, "against", &table, notes);
    table_free(&table);
    free(notes);
    return status;
}

static void add_fact(JsonObject *facts, const char *what, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void add_fact(JsonObject *facts, const char *what, const char *format, ...) {
    char value[256];
    JsonObject fact;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(value, sizeof value, format, arguments);
    va_end(arguments);
    json_begin_array(&fact);
    put_readable(&fact, NULL, value);
    put_readable(&fact, NULL, what);
    put_object(facts, NULL, &fact);
}

static void add_number(JsonObject *facts, const PastRun *run, const char *what, const char *key, int decimals,
                       double scale, const char *unit) {
    const double value = past_run_number(run->values, key);
    if (!isnan(value)) add_fact(facts, what, "%.*f%s", decimals, scale * value, unit);
}

static void find_facts_of_run(JsonObject *facts, const PastRun *run) {
    const double down = past_run_number(run->values, "down_bytes_total"),
                 up = past_run_number(run->values, "up_bytes_total"),
                 to_target = past_run_number(run->values, "rounds_to_target");
    if (run->options.target[0])
        add_fact(facts, "to the target", isnan(to_target) ? "not reached" : "%.0f rounds", to_target);
    add_number(facts, run, "new clients", "new_clients_accuracy", 2, 100, "%");
    add_number(facts, run, "new clients, fine-tuned", "new_clients_finetuned_accuracy", 2, 100, "%");
    add_fact(facts, "rounds", "%u", run->rounds);
    if (run->seconds > 0) {
        add_fact(facts, "seconds", "%.1f", run->seconds);
        add_fact(facts, "samples a second", "%.0f", run->samples / run->seconds);
    }
    add_fact(facts, "clients a round", "%d of %d", run->options.clients_per_round, run->options.clients);
    if (down + up > 0) add_fact(facts, "sent, both ways", "%.1f MB", (down + up) / 1e6);
}

// The strip at the top: figures of the run, or of the best one of several.
static void find_facts(JsonObject *facts, const PastRuns *runs) {
    const PastRun *best = &runs->all[0];
    size_t finished = 0, alike = 0;
    for (size_t i = 0; i < runs->count; i++) {
        const PastRun *run = &runs->all[i];
        alike += run_figure_same(&run->figure, &runs->all[0].figure);
        finished += run->state == RUN_FINISHED;
        if (run_figure_is_better(&run->figure, run->best, best->best)) best = run;
    }
    char text[RUN_FIGURE_TEXT_BYTES], name[RUN_FIGURE_NAME_BYTES];
    const RunFigure *figure = &best->figure;
    const double last = run_figure_in(best->values, figure);
    if (runs->count > 1) {
        add_fact(facts, "runs finished", "%zu of %zu", finished, runs->count);
    } else {
        if (!isnan(last)) add_fact(facts, run_figure_name(name, figure), "%s", run_figure_number(text, figure, last));
        add_number(facts, best, "RMSE", "test_rmse", 4, 1, "");
        add_number(facts, best, "R2", "test_r2", 4, 1, "");
    }
    if (!isnan(best->best) && alike == runs->count) // runs about different figures have no best one
        add_fact(facts, runs->count > 1 ? "best of all runs and rounds" : "best", "%s in round %u",
                 run_figure_text(text, figure, best->best), best->best_round);
    if (runs->count == 1) find_facts_of_run(facts, best);
}

// The file's or folder's name, without the path that "How to repeat it" has, and without the settings after it.
static void name_data(char data[OPTION_TEXT_BYTES], const Options *options) {
    const char *place = options->data;
    size_t bytes = settings_place_bytes(place);
    for (size_t i = bytes; i > 0 && place[0] == '/'; i--)
        if (place[i - 1] == '/' && i < bytes) {
            place += i;
            bytes -= i;
            break;
        }
    snprintf(data, OPTION_TEXT_BYTES, "%.*s", place == options->data ? (int)strlen(place) : (int)bytes, place);
}

static void describe(JsonObject *report, const PastRuns *runs, const ByOptions *over) {
    char label[OPTION_LABEL_BYTES], data[OPTION_TEXT_BYTES], title[4 * OPTION_TEXT_BYTES + 64],
        subtitle[2 * PATH_BYTES + 128], date[64];
    const PastRun *first = &runs->all[0];
    const time_t now = time(NULL);
    struct tm parts;
    JsonObject facts;
    strftime(date, sizeof date, "%d %B %Y, %H:%M", localtime_r(&now, &parts));
    name_data(data, &first->options);
    if (runs->count == 1) {
        snprintf(title, sizeof title, "%s of %s on %s%s%s", first->options.algorithm,
                 options_net(label, &first->options), data, first->options.attack[0] ? " under " : "",
                 first->options.attack);
        snprintf(subtitle, sizeof subtitle, "%s, %s after %u rounds; written %s", first->path,
                 run_state_names[first->state], first->rounds, date);
    } else {
        snprintf(title, sizeof title, "%zu runs on %s", runs->count, data);
        snprintf(subtitle, sizeof subtitle, "%s to %s; written %s", first->path, runs->all[runs->count - 1].path, date);
    }
    put_readable(report, "title", title);
    put_readable(report, "subtitle", subtitle);
    json_begin_array(&facts);
    find_facts(&facts, runs);
    put_object(report, "facts", &facts);
    put_runs(report, runs, over);
}

// Begins *report, which is dropped on failure. Reorders the runs.
static Status collect(JsonObject *report, PastRuns *runs, const LookOptions *options, Error *err) {
    RoundChoice choice;
    ByOptions over;
    JsonObject all;
    TRY(replicates_read(&over, options->over, runs, err));
    Status status = round_choice_make(&choice, runs) ? STATUS_OK : fail(err, STATUS_OS, "no memory for the report");
    json_begin(report);
    json_begin_array(&all);
    for (size_t i = 0; i < runs->count && status == STATUS_OK; i++) {
        JsonObject details;
        char *group = name_group(runs, &runs->all[i], &over);
        status = group ? run_details_read(&details, &runs->all[i], group, &choice, err)
                       : fail(err, STATUS_OS, "no memory for the report");
        if (status == STATUS_OK) put_object(&all, NULL, &details);
        free(group);
    }
    free(choice.is_end);
    if (status == STATUS_OK) describe(report, runs, &over);
    put_object(report, "runs", &all);
    if (status == STATUS_OK) figure_charts_put(report);
    if (status == STATUS_OK && options->against[0]) status = put_against(report, runs, options, err);
    if (status == STATUS_OK) status = json_check(report, "the report", err);
    if (status != STATUS_OK) json_drop(report);
    return status;
}

// The page ------------------------------------------------------------------------------------------------------------

// "</script>" in the data would end the script element, so '<' is escaped everywhere.
static void print_data(FILE *file, const char *text) {
    for (; *text; text++) {
        if (*text == '<')
            fputs("\\u003c", file);
        else
            fputc(*text, file);
    }
}

static void print_page(FILE *file, const char *charts, const char *data) {
    static const char *const places[] = {"<!-- Chart.js -->", "<!-- data -->", "<!-- report.js -->"};
    const char *page = report_html;
    for (int i = 0; i < 3; i++) {
        const char *place = strstr(page, places[i]);
        fwrite(page, 1, (size_t)(place - page), file);
        fputs(i == 1 ? "<script id=\"data\" type=\"application/json\">" : "<script>\n", file);
        if (i == 0) fputs(charts, file);
        if (i == 1) print_data(file, data);
        if (i == 2) fputs(figure_js, file);
        if (i == 2) fputs(report_js, file);
        fputs("</script>", file);
        page = place + strlen(places[i]);
    }
    fputs(page, file);
}

// Only an earlier report may be overwritten.
static Status write_page(const char *path, const char *text, size_t bytes, Error *err) {
    char parent[REPORT_PATH_BYTES];
    snprintf(parent, sizeof parent, "%s", path);
    char *slash = strrchr(parent, '/');
    const char *name = slash ? path + (slash - parent) + 1 : path;
    if (slash) slash[slash == parent] = '\0';
    static const char *const others[] = {".pdf", ".png", ".svg"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strlen(name) > 4 && strcmp(name + strlen(name) - 4, others[i]) == 0)
            return fail(err, STATUS_USAGE,
                        "--out %.200s: a report is a web page: write --out %.*s.html; --svg FOLDER writes pictures",
                        path, (int)strlen(path) - 4, path);
    if (!*name)
        return fail(err, STATUS_USAGE, "-o %.200s: is a folder; give a file, such as %.200sreport.html", path, path);
    const Folder folder = {.fd = open(slash ? parent : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                           .path = slash ? parent : "."};
    if (folder.fd < 0) return fail_errno(err, STATUS_CANTCREATE, "%.200s cannot be created", path);
    Status status =
        report_may_write(&folder, name, GENERATOR)
            ? durable_write(&folder, name, &(FilePart){text, bytes}, 1, err)
            : fail(err, STATUS_CANTCREATE, "%.200s is there already and is no report; give another -o FILE", path);
    close(folder.fd);
    return status;
}

// Drops the report, also on failure.
static Status write_report(const char *path, JsonObject *report, size_t count, Error *err) {
    char *charts = NULL, *data = NULL;
    size_t bytes;
    TextStream stream;
    Status status = read_charts(&charts, err);
    if (status == STATUS_OK)
        status = json_text(&data, &bytes, report, JSON_COMPACT | JSON_REAL_PRECISION(6), "the report", err);
    json_drop(report);
    FILE *file = text_open(&stream);
    if (file && status == STATUS_OK) print_page(file, charts, data);
    const bool whole = text_close(&stream);
    if (status == STATUS_OK && !whole) status = fail(err, STATUS_OS, "no memory for the report");
    free(data);
    free(charts);
    if (status == STATUS_OK) status = write_page(path, stream.text, stream.bytes, err);
    free(stream.text);
    if (status == STATUS_OK)
        printf("%s: %zu run%s, %zu kB; open it in a browser\n", path, count, count == 1 ? "" : "s",
               stream.bytes / 1000);
    return status;
}

Status command_report(int argc, char **argv, int *exit_code, Error *err) {
    (void)exit_code;
    LookOptions options;
    PastRuns runs;
    JsonObject report = {0};
    char path[REPORT_PATH_BYTES];
    TRY(look_options_parse(&options, command_find("report"), argc, argv, err));
    if (options.axis != AXIS_ROUND && !options.svg[0])
        return fail(err, STATUS_USAGE, "--axis: only used with --svg FOLDER; the page has a button for each axis");
    if (options.against[0] && options.svg[0] && !options.out[0])
        return fail(err, STATUS_USAGE,
                    "--against: is a table of the page, which --svg alone does not write; add --out FILE");
    TRY(past_runs_find(&runs, options.folders, options.folder_count, err));
    size_t finished = past_runs_finished_first(&runs);
    const size_t copies = past_runs_drop_copies(&runs, &finished);
    past_runs_sort(&runs);
    snprintf(path, sizeof path, options.out[0] ? "%s" : "%s/report.html",
             options.out[0] ? options.out : options.folders[0]);
    Status status = runs.count <= MOST_RUNS
                        ? collect(&report, &runs, &options, err)
                        : fail(err, STATUS_USAGE,
                               "a report shows at most %d runs, not %zu; give fewer (sounder runs lists "
                               "any number)",
                               MOST_RUNS, runs.count);
    if (status == STATUS_OK && options.svg[0])
        status = figures_write(options.svg, report.root, (FigureAxis)options.axis, err);
    if (status == STATUS_OK && (options.out[0] || !options.svg[0]))
        status = write_report(path, &report, runs.count, err);
    if (status == STATUS_OK && copies > 0)
        printf("left out: %zu run%s another one again\n", copies, copies == 1 ? ", which is" : "s, each of which is");
    json_drop(&report);
    past_runs_free(&runs);
    return status;
}

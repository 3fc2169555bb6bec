#include "figure_charts.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

static const char test_loss[] = "test_loss";

static void write_file(FigureChart *chart) {
    static const char test[] = "test_";
    const bool is_test = strncmp(chart->key, test, sizeof test - 1) == 0;
    text_cut(chart->file, sizeof chart->file, chart->key + (is_test ? sizeof test - 1 : 0));
    for (char *c = chart->file; *c; c++)
        if (*c == '_') *c = '-';
}

static void add(FigureCharts *list, const Figure *row, bool validates) {
    assert(list->count < FIGURE_CHARTS_MOST);
    FigureChart *chart = &list->all[list->count++];
    *chart = (FigureChart){.figure = {.row = row, .validates = validates}};
    run_figure_key(chart->key, &chart->figure);
    write_file(chart);
    const char *of = figure_is_of_clients(row) ? ", mean over the clients"
                     : validates               ? " on the validation samples"
                                               : " on the test samples";
    snprintf(chart->title, sizeof chart->title, "%.60s%s", row->title, of);
    snprintf(chart->axis, sizeof chart->axis, "%.60s%s%s", row->title, of, row->traits & FIGURE_IS_SHARE ? ", %" : "");
    chart->title[0] = (char)toupper((unsigned char)chart->title[0]);
}

// Charts of shares, of other figures, and of the loss on the test set.
static int place_of(const Figure *row, bool validates) {
    const bool is_loss = row->of == FIGURE_OF_MODEL && strcmp(row->key, "loss") == 0;
    return is_loss && !validates ? 2 : row->traits & FIGURE_IS_SHARE ? 0 : 1;
}

void figure_charts_list(FigureCharts *list) {
    list->count = 0;
    for (int place = 0; place <= 2; place++)
        for (size_t i = 0; i < figure_count; i++) {
            const Figure *row = &figure_table[i];
            if (!figure_is_drawn(row)) continue;
            if (place_of(row, false) == place) add(list, row, false);
            if (row->of == FIGURE_OF_MODEL && place_of(row, true) == place) add(list, row, true);
        }
    assert(strcmp(list->all[list->count - 1].key, test_loss) == 0);
}

void figure_charts_put(JsonObject *report) {
    FigureCharts list;
    JsonObject charts;
    figure_charts_list(&list);
    json_begin_array(&charts);
    for (size_t i = 0; i < list.count; i++) {
        const FigureChart *chart = &list.all[i];
        char name[RUN_FIGURE_NAME_BYTES], line[RUN_FIGURE_NAME_BYTES + 8];
        const bool on_test = chart->figure.row->of == FIGURE_OF_MODEL && !chart->figure.validates;
        JsonObject of;
        if (strcmp(chart->key, test_loss) == 0) continue; // the page draws it beside the loss of training
        json_begin(&of);
        put_text(&of, "key", chart->key);
        put_text(&of, "name", chart->file);
        put_text(&of, "title", chart->title);
        put_text(&of, "axis", chart->axis);
        snprintf(line, sizeof line, "%s%s", on_test ? "test " : "", run_figure_name(name, &chart->figure));
        put_text(&of, "line", line);
        put_flag(&of, "falls", run_figure_has(&chart->figure, FIGURE_FALLS));
        put_whole(&of, "scale", run_figure_has(&chart->figure, FIGURE_IS_SHARE) ? 100 : 1);
        put_object(&charts, NULL, &of);
    }
    put_object(report, "figures", &charts);
}

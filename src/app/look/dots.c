#include "dots.h"

#include <math.h>

#include "app/look/axis.h"
#include "app/look/chart.h"
#include "app/look/svg.h"

enum {
    WIDTH = 480,
    RIGHT = 16,
    TOP = 12,
    LEAST_ROW = 14,
    BETWEEN_DOTS = 5,
    BELOW = 44,
    LEGEND_ROW = 18,
    NAME_BYTES = 128
};

static const char pale[] = "#dddddd", grey[] = "#666666";

// The plot, which leaves room for the names of the rows, and for the dots of each.
static SvgRect frame_of(const Dots *dots) {
    const double left = svg_names_room(dots->row_names, dots->rows);
    const double height = fmax(LEAST_ROW, BETWEEN_DOTS * ((double)dots->groups + 1));
    return (SvgRect){left, TOP, WIDTH - left - RIGHT, height * (double)dots->rows};
}

static void find_axis(Axis *axis, const Dots *dots) {
    double low = INFINITY, high = -INFINITY;
    for (size_t i = 0; i < dots->rows * dots->groups; i++) {
        const double around = isnan(dots->deviations[i]) ? 0 : dots->deviations[i];
        low = fmin(low, dots->means[i] - around);
        high = fmax(high, dots->means[i] + around);
    }
    axis_around(axis, fmax(low, 0), fmin(high, 100), 0, 100, 6);
}

static void draw_axes(FILE *file, const Dots *dots, const Axis *axis, const SvgRect *frame) {
    const double bottom = frame->y + frame->height, row = frame->height / (double)dots->rows;
    char label[AXIS_LABEL_BYTES], name[NAME_BYTES];
    for (int i = 0; i < axis->count; i++) {
        const double at = frame->x + frame->width * axis_share(axis, axis->ticks[i]);
        svg_line(file, at, frame->y, at, bottom + 4, 1, pale, "");
        axis_label(label, axis, i);
        svg_text(file, at, bottom + 13, SVG_MIDDLE, label);
    }
    for (size_t i = 0; i < dots->rows; i++) {
        svg_text_fit(name, sizeof name, dots->row_names[i], frame->x - SVG_BESIDE_NAMES);
        svg_text(file, frame->x - 6, frame->y + row * ((double)i + 0.5), SVG_END, name);
        svg_line(file, frame->x, frame->y + row * (double)i, frame->x + frame->width, frame->y + row * (double)i, 1,
                 pale, "");
    }
    svg_line(file, frame->x, frame->y, frame->x, bottom, 1, grey, "");
    svg_line(file, frame->x, bottom, frame->x + frame->width, bottom, 1, grey, "");
    svg_text(file, frame->x + frame->width / 2, bottom + 31, SVG_MIDDLE, dots->x_title);
    svg_text_upwards(file, 8, frame->y + frame->height / 2, dots->y_title);
}

static void draw_dots(FILE *file, const Dots *dots, const Axis *axis, const SvgRect *frame) {
    const double row = frame->height / (double)dots->rows;
    for (size_t i = 0; i < dots->rows * dots->groups; i++) {
        const size_t group = i % dots->groups;
        const double mean = dots->means[i], deviation = dots->deviations[i],
                     y = frame->y + row * ((double)(i / dots->groups) + 0.5) +
                         BETWEEN_DOTS * ((double)group - ((double)dots->groups - 1) / 2);
        if (isnan(mean)) continue;
        const double x = frame->x + frame->width * axis_share(axis, mean);
        if (deviation > 0)
            svg_line(file, frame->x + frame->width * fmax(0, axis_share(axis, mean - deviation)), y,
                     frame->x + frame->width * fmin(1, axis_share(axis, mean + deviation)), y, 1, chart_colour(group),
                     "");
        fprintf(file, "<circle cx=\"%.6g\" cy=\"%.6g\" r=\"2.5\" fill=\"%s\"/>\n", x, y, chart_colour(group));
    }
}

void dots_draw(FILE *file, const Dots *dots) {
    Axis axis;
    const SvgRect frame = frame_of(dots);
    const double bottom = frame.y + frame.height + BELOW;
    char name[NAME_BYTES];
    find_axis(&axis, dots);
    svg_begin(file, WIDTH, bottom + LEGEND_ROW * (double)dots->groups + 4, dots->title);
    draw_axes(file, dots, &axis, &frame);
    draw_dots(file, dots, &axis, &frame);
    for (size_t group = 0; group < dots->groups; group++) {
        const double y = bottom + LEGEND_ROW * ((double)group + 0.5);
        fprintf(file, "<circle cx=\"%.6g\" cy=\"%.6g\" r=\"3\" fill=\"%s\"/>\n", frame.x + 4, y, chart_colour(group));
        svg_text(file, frame.x + 14, y, SVG_START,
                 svg_text_fit(name, sizeof name, dots->group_names[group], WIDTH - frame.x - 24));
    }
    svg_end(file);
}

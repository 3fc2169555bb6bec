#include "heat.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "app/look/axis.h"
#include "app/look/svg.h"

enum { WIDTH = 480, RIGHT = 78, TOP = 26, PLOT_HEIGHT = 250, BELOW = 44, SCALE_STEPS = 50, NAME_BYTES = 128 };

// The plot, which leaves room for the names of the rows.
static SvgRect frame_of(const Heat *heat) {
    const double left = svg_names_room(heat->row_names, heat->rows);
    return (SvgRect){left, TOP, WIDTH - left - RIGHT, PLOT_HEIGHT};
}

enum { COLOUR_BYTES = 8 };

// The colours of viridis, interpolated, as on the page.
static void colour_of(char colour[COLOUR_BYTES], double share) {
    static const unsigned char viridis[][3] = {{68, 1, 84},    {72, 40, 120},  {62, 74, 137},  {49, 104, 142},
                                               {38, 130, 142}, {31, 158, 137}, {53, 183, 121}, {109, 205, 89},
                                               {180, 222, 44}, {253, 231, 37}};
    const int last = sizeof viridis / sizeof *viridis - 1;
    const double at = last * fmax(0, fmin(1, share));
    const int low = at < last ? (int)at : last - 1;
    unsigned parts[3];
    for (int i = 0; i < 3; i++)
        parts[i] = (unsigned)(viridis[low][i] + (viridis[low + 1][i] - viridis[low][i]) * (at - low) + 0.5);
    snprintf(colour, COLOUR_BYTES, "#%02x%02x%02x", parts[0] & 255, parts[1] & 255, parts[2] & 255);
}

// Neighbours of one colour become one rectangle. Each overlaps the next by one pixel, so that no hairline shows between
// them.
static void draw_cells(FILE *file, const Heat *heat, double most) {
    const SvgRect frame = frame_of(heat);
    const double width = frame.width / (double)heat->columns, height = frame.height / (double)heat->rows;
    char colour[COLOUR_BYTES], other[COLOUR_BYTES];
    for (size_t row = 0; row < heat->rows; row++) {
        const double *values = heat->values + row * heat->columns;
        for (size_t first = 0, next; first < heat->columns; first = next) {
            colour_of(colour, values[first] / most);
            for (next = first + 1; next < heat->columns; next++) {
                colour_of(other, values[next] / most);
                if (strcmp(other, colour) != 0) break;
            }
            const double under_x = next < heat->columns ? 1 : 0, under_y = row + 1 < heat->rows ? 1 : 0;
            svg_rect(file,
                     &(SvgRect){frame.x + width * (double)first, frame.y + height * (double)row,
                                width * (double)(next - first) + under_x, height + under_y},
                     colour);
        }
    }
}

// Labels columns and rows at round steps, as many as fit.
static void draw_names(FILE *file, const Heat *heat) {
    const SvgRect frame = frame_of(heat);
    const double width = frame.width / (double)heat->columns, height = frame.height / (double)heat->rows;
    char name[NAME_BYTES];
    Axis columns, rows;
    axis_between(&columns, 0, fmax(1, (double)heat->columns - 1), heat->column_names ? 6 : 12, true);
    axis_between(&rows, 0, fmax(1, (double)heat->rows - 1), 14, true);
    for (int i = 0; i < columns.count && columns.ticks[i] < (double)heat->columns; i++) {
        const char *named = heat->column_names ? heat->column_names[(size_t)columns.ticks[i]] : NULL;
        if (named)
            svg_text_fit(name, sizeof name, named, width * fmax(1, columns.step) - 4);
        else
            axis_label(name, &columns, i);
        svg_text(file, frame.x + width * (columns.ticks[i] + 0.5), frame.y + frame.height + 12, SVG_MIDDLE, name);
    }
    for (int i = 0; i < rows.count && rows.ticks[i] < (double)heat->rows; i++) {
        svg_text_fit(name, sizeof name, heat->row_names[(size_t)rows.ticks[i]], frame.x - SVG_BESIDE_NAMES);
        svg_text(file, frame.x - 6, frame.y + height * (rows.ticks[i] + 0.5), SVG_END, name);
    }
    svg_text(file, frame.x + frame.width / 2, frame.y + frame.height + 30, SVG_MIDDLE, heat->x_title);
    svg_text_upwards(file, 8, frame.y + frame.height / 2, heat->y_title);
}

static void draw_scale(FILE *file, const Heat *heat, double most) {
    const SvgRect frame = frame_of(heat);
    const double left = WIDTH - RIGHT + 14, height = frame.height / SCALE_STEPS;
    char text[AXIS_LABEL_BYTES];
    Axis axis;
    for (int step = 0; step < SCALE_STEPS; step++) {
        colour_of(text, 1 - (double)step / (SCALE_STEPS - 1));
        svg_rect(file, &(SvgRect){left, frame.y + step * height, 12, height + (step + 1 < SCALE_STEPS ? 1 : 0)}, text);
    }
    axis_between(&axis, 0, most, 6, true);
    for (int i = 0; i < axis.count; i++) {
        axis_label(text, &axis, i);
        svg_text(file, left + 17, frame.y + frame.height * (1 - axis_share(&axis, axis.ticks[i])), SVG_START, text);
    }
    svg_text(file, left + 20, frame.y - 14, SVG_MIDDLE, heat->value_title);
}

void heat_draw(FILE *file, const Heat *heat) {
    double most = 0;
    for (size_t i = 0; i < heat->rows * heat->columns; i++)
        most = fmax(most, heat->values[i]);
    if (most <= 0) most = 1;
    svg_begin(file, WIDTH, TOP + PLOT_HEIGHT + BELOW, heat->title);
    draw_cells(file, heat, most);
    draw_names(file, heat);
    draw_scale(file, heat, most);
    svg_end(file);
}

#include "chart.h"

#include <math.h>

#include "app/look/svg.h"

enum { WIDTH = 480, PLOT_HEIGHT = 250, LEFT = 62, RIGHT = 16, TOP = 12, BELOW = 44, LEGEND_ROW = 18, SAMPLE = 28 };

static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                      "#a6761d", "#56b4e9", "#000000", "#8c6bb1"};
static const char *const dashes[] = {"", "7 3", "2 2", "9 3 2 3", "12 4", "4 4", "1 3", "9 2 2 2 2 2"};
enum { LOOKS = sizeof colours / sizeof *colours };
_Static_assert(sizeof dashes / sizeof *dashes == LOOKS, "as many dashes as colours");

// Beyond LOOKS curves a colour has other dashes: LOOKS * LOOKS curves differ.
static const char *dashes_of(size_t curve) {
    return dashes[(curve + curve / LOOKS) % LOOKS];
}

const char *chart_colour(size_t curve) {
    return colours[curve % LOOKS];
}

static const char grey[] = "#666666", pale[] = "#dddddd";

static const SvgRect frame = {LEFT, TOP, WIDTH - LEFT - RIGHT, PLOT_HEIGHT};

// Axes ----------------------------------------------------------------------------------------------------------------

typedef struct Extent {
    double first, last, low, high, band_low, band_high;
} Extent;

static Extent extent_of(const Chart *chart) {
    Extent of = {INFINITY, -INFINITY, INFINITY, -INFINITY, INFINITY, -INFINITY};
    for (size_t i = 0; i < chart->count; i++)
        for (size_t k = 0; k < chart->curves[i].count; k++) {
            const CurvePoint *point = &chart->curves[i].points[k]; // fmin and fmax ignore a NaN
            if (isnan(point->y) && isnan(point->low)) continue;
            of.first = fmin(of.first, point->x);
            of.last = fmax(of.last, point->x);
            of.low = fmin(of.low, point->y);
            of.high = fmax(of.high, point->y);
            of.band_low = fmin(of.band_low, point->low);
            of.band_high = fmax(of.band_high, point->high);
        }
    return of;
}

void chart_axes(Axis *x, Axis *y, const Chart *chart) {
    const Extent of = extent_of(chart);
    const double first = of.first > 1 && of.first > of.last / 10 ? of.first : fmin(of.first, 0);
    double low = fmin(of.low, chart->reference), high = fmax(fmax(of.high, chart->reference), of.band_high);
    axis_between(x, first, of.first < of.last ? of.last : of.last + 1, 6, !chart->fractions);
    if (chart->logarithmic && low > 0) {
        low = fmin(low, fmax(of.band_low, low / 2));
        axis_logarithmic(y, low / 1.05, high * 1.05, 6);
        return;
    }
    low = fmin(low, of.band_low);
    const bool is_limited = chart->most > 0;
    axis_around(y, low, high, is_limited ? 0 : -INFINITY, is_limited ? chart->most : INFINITY, 6);
}

bool chart_has_points(const Chart *chart) {
    return isfinite(extent_of(chart).low);
}

static double x_of(const Axis *axis, double value) {
    return frame.x + frame.width * axis_share(axis, value);
}

static double y_of(const Axis *axis, double value) {
    return frame.y + frame.height * (1 - axis_share(axis, value));
}

static void draw_axes(FILE *file, const Chart *chart, const Axis *x, const Axis *y) {
    char label[AXIS_LABEL_BYTES];
    const double bottom = frame.y + frame.height, right = frame.x + frame.width;
    for (int i = 0; i < x->count; i++) {
        const double at = x_of(x, x->ticks[i]);
        svg_line(file, at, frame.y, at, bottom + 4, 1, pale, "");
        axis_label(label, x, i);
        svg_text(file, at, bottom + 13, SVG_MIDDLE, label);
    }
    for (int i = 0; i < y->count; i++) {
        const double at = y_of(y, y->ticks[i]);
        svg_line(file, frame.x - 4, at, right, at, 1, pale, "");
        axis_label(label, y, i);
        svg_text(file, frame.x - 7, at, SVG_END, label);
    }
    svg_line(file, frame.x, frame.y, frame.x, bottom, 1, grey, "");
    svg_line(file, frame.x, bottom, right, bottom, 1, grey, "");
    svg_text(file, frame.x + frame.width / 2, bottom + 31, SVG_MIDDLE, chart->x_title);
    svg_text_upwards(file, 10, frame.y + frame.height / 2, chart->y_title);
}

// Curves --------------------------------------------------------------------------------------------------------------

// Draws a band in pieces: a new one begins after each gap.
static void draw_band(FILE *file, const Curve *curve, const char *colour, const Axis *x, const Axis *y) {
    const CurvePoint *points = curve->points;
    for (size_t first = 0, next; first < curve->count; first = next + 1) {
        for (next = first; next < curve->count && !isnan(points[next].low);)
            next++;
        if (next - first < 2) continue;
        fputs("<path d=\"", file);
        for (size_t i = first; i < next; i++)
            fprintf(file, "%c%.6g %.6g", i == first ? 'M' : 'L', x_of(x, points[i].x), y_of(y, points[i].high));
        for (size_t i = next; i-- > first;)
            fprintf(file, "L%.6g %.6g", x_of(x, points[i].x), y_of(y, points[i].low));
        fprintf(file, "Z\" fill=\"%s\" fill-opacity=\"0.18\"/>\n", colour);
    }
}

static void draw_line(FILE *file, const Curve *curve, size_t look, const Axis *x, const Axis *y) {
    const CurvePoint *last = NULL;
    size_t drawn = 0;
    fputs("<path d=\"", file);
    for (size_t i = 0; i < curve->count; i++) {
        const CurvePoint *point = &curve->points[i];
        if (isnan(point->y)) continue;
        fprintf(file, "%c%.6g %.6g", drawn++ ? 'L' : 'M', x_of(x, point->x), y_of(y, point->y));
        last = point;
    }
    fprintf(file, "\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\" stroke-linejoin=\"round\"", colours[look % LOOKS]);
    if (*dashes_of(look)) fprintf(file, " stroke-dasharray=\"%s\"", dashes_of(look));
    fputs("/>\n", file);
    if (drawn == 1)
        fprintf(file, "<circle cx=\"%.6g\" cy=\"%.6g\" r=\"3\" fill=\"%s\"/>\n", x_of(x, last->x), y_of(y, last->y),
                colours[look % LOOKS]);
}

static bool is_drawn(const Curve *curve) {
    for (size_t i = 0; i < curve->count; i++)
        if (!isnan(curve->points[i].y)) return true;
    return false;
}

// The legend ----------------------------------------------------------------------------------------------------------

// Writes the legend in rows as wide as the plot; without a file, only counts the rows.
typedef struct Legend {
    FILE *file;
    double x, top;
    int rows;
} Legend;

static void add_entry(Legend *legend, const char *label, const char *colour, const char *dash, double thick) {
    char shown[512];
    const double most = WIDTH - RIGHT - LEFT;
    svg_text_fit(shown, sizeof shown, label, most - SAMPLE - 8);
    const double width = SAMPLE + 8 + svg_text_width(shown);
    if (legend->rows == 0 || legend->x + width > LEFT + most) {
        legend->x = LEFT;
        legend->rows++;
    }
    const double y = legend->top + LEGEND_ROW * (legend->rows - 0.5);
    if (legend->file) svg_line(legend->file, legend->x, y, legend->x + SAMPLE, y, thick, colour, dash);
    if (legend->file) svg_text(legend->file, legend->x + SAMPLE + 6, y, SVG_START, shown);
    legend->x += width + 14;
}

static int draw_legend(FILE *file, const Chart *chart, double top) {
    Legend legend = {.file = file, .top = top};
    const bool referred = !isnan(chart->reference);
    if (chart->count < 2 && !referred) return 0;
    for (size_t i = 0; i < chart->count; i++)
        if (is_drawn(&chart->curves[i]))
            add_entry(&legend, chart->curves[i].label, colours[i % LOOKS], dashes_of(i), 2);
    if (referred) add_entry(&legend, chart->reference_label, grey, "6 4", 1);
    return legend.rows;
}

void chart_draw(FILE *file, const Chart *chart) {
    Axis x, y;
    const double bottom = frame.y + frame.height + BELOW;
    chart_axes(&x, &y, chart);
    svg_begin(file, WIDTH, bottom + LEGEND_ROW * draw_legend(NULL, chart, bottom), chart->title);
    draw_axes(file, chart, &x, &y);
    svg_clip_begin(file,
                   // leaves room for thick lines at the edge
                   &(SvgRect){frame.x - 1, frame.y - 1, frame.width + 2, frame.height + 2});
    for (size_t i = 0; i < chart->count; i++)
        draw_band(file, &chart->curves[i], colours[i % LOOKS], &x, &y);
    for (size_t i = 0; i < chart->count; i++)
        if (is_drawn(&chart->curves[i])) draw_line(file, &chart->curves[i], i, &x, &y);
    if (!isnan(chart->reference))
        svg_line(file, frame.x, y_of(&y, chart->reference), frame.x + frame.width, y_of(&y, chart->reference), 1, grey,
                 "6 4");
    svg_clip_end(file);
    draw_legend(file, chart, bottom);
    svg_end(file);
}

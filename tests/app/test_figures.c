// Figures for a paper: ticks at nice numbers, axes that end where the values can, texts that are no markup, and bands
// that do not stretch a logarithmic axis.
#include "app/look/axis.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "app/look/chart.h"
#include "app/look/heat.h"
#include "app/look/svg.h"
#include "tests/check.h"

static void check_ticks(const Axis *axis, const char *labels) {
    char all[AXIS_MOST_TICKS * AXIS_LABEL_BYTES] = "", label[AXIS_LABEL_BYTES];
    for (int i = 0; i < axis->count; i++) {
        axis_label(label, axis, i);
        strcat(strcat(all, i ? " " : ""), label);
    }
    assert_string_equal(all, labels);
}

static void rounds_have_ticks_at_whole_nice_numbers(void **state) {
    (void)state;
    static const struct {
        double low, high;
        const char *labels;
    } rows[] = {{0, 200, "0 50 100 150 200"},
                {0, 187, "0 50 100 150"},
                {0, 3, "0 1 2 3"},
                {0, 1, "0 1"},
                {900, 1000, "900 920 940 960 980 1000"},
                {0, 100000, "0 20,000 40,000 60,000 80,000 100,000"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Axis axis;
        axis_between(&axis, rows[i].low, rows[i].high, 6, true);
        check_ticks(&axis, rows[i].labels);
        assert_true(axis.low == rows[i].low && axis.high == rows[i].high);
    }
}

static void an_axis_of_percent_never_goes_beyond_0_and_100(void **state) {
    (void)state;
    Axis axis;
    axis_around(&axis, 12, 109, 0, 100, 6);
    check_ticks(&axis, "0 20 40 60 80 100");
    axis_around(&axis, -7, 4, 0, 100, 6);
    check_ticks(&axis, "0 1 2 3 4");
    axis_around(&axis, 97.3, 98.1, 0, 100, 6);
    check_ticks(&axis, "97.2 97.4 97.6 97.8 98.0 98.2");
    axis_around(&axis, 100, 100, 0, 100, 6);
    assert_true(axis.high == 100 && axis.low < 100);
}

static void a_logarithmic_axis_has_ticks_at_1_2_5_or_at_powers(void **state) {
    (void)state;
    Axis axis;
    axis_logarithmic(&axis, 0.04, 3, 6);
    check_ticks(&axis, "0.05 0.1 0.2 0.5 1 2");
    axis_logarithmic(&axis, 0.17, 1.6, 6); // even steps would leave the lower half without a tick
    check_ticks(&axis, "0.2 0.5 1");
    axis_logarithmic(&axis, 2e-5, 3, 6);
    check_ticks(&axis, "0.0001 0.001 0.01 0.1 1");
    axis_logarithmic(&axis, 2.01, 2.32, 6);
    check_ticks(&axis, "2.1 2.2 2.3");
    axis_logarithmic(&axis, 1e-200, 1, 6);
    assert_in_range(axis.count, 3, 8);
}

static void no_span_of_numbers_breaks_an_axis(void **state) {
    (void)state;
    static const double values[] = {0, 1, -1, 1e-300, -1e300, DBL_MAX, -DBL_MAX, 1e17, 1e17 + 16, DBL_MIN};
    const int count = sizeof values / sizeof *values;
    for (int i = 0; i < count; i++)
        for (int k = 0; k < count; k++) {
            const double low = fmin(values[i], values[k]), high = fmax(values[i], values[k]);
            Axis axes[3];
            axis_between(&axes[0], low, high, 6, false);
            axis_around(&axes[1], low, high, -INFINITY, INFINITY, 6);
            axis_logarithmic(&axes[2], fabs(low) + 1e-320, fmax(fabs(high), fabs(low)), 6);
            for (int a = 0; a < 3; a++) {
                assert_true(axes[a].low < axes[a].high && isfinite(axes[a].high - axes[a].low));
                assert_true(isfinite(axis_share(&axes[a], low)) && isfinite(axis_share(&axes[a], high)));
                for (int t = 0; t + 1 < axes[a].count; t++)
                    assert_true(axes[a].ticks[t] < axes[a].ticks[t + 1]);
            }
        }
}

static void a_band_below_zero_does_not_stretch_a_logarithmic_axis(void **state) {
    (void)state;
    const CurvePoint points[] = {{1, 1.0, 0.9, 1.1}, {2, 0.4, 1e-4, 0.8}, {3, 0.5, -0.2, 1.2}};
    const Curve curve = {.label = "", .points = points, .count = 3};
    const Chart chart = {.curves = &curve, .count = 1, .logarithmic = true, .reference = NAN};
    Axis x, y;
    chart_axes(&x, &y, &chart);
    assert_true(y.logarithmic && y.low > 0.19 && y.low < 0.2 && y.high > 1.2 && y.high < 1.3);
    assert_true(x.low == 0 && x.high == 3);
}

static void losses_that_are_not_above_zero_get_a_linear_axis(void **state) {
    (void)state;
    const CurvePoint points[] = {{1, 1.0, NAN, NAN}, {2, 0, NAN, NAN}};
    const Curve curve = {.label = "", .points = points, .count = 2};
    const Chart chart = {.curves = &curve, .count = 1, .logarithmic = true, .reference = NAN};
    Axis x, y;
    chart_axes(&x, &y, &chart);
    assert_true(!y.logarithmic && y.low == 0 && y.high == 1);
}

// Returns a function's drawing, valid until the next one.
static char *drawing_of(void (*draw)(FILE *file, const void *of), const void *of) {
    static char drawing[1 << 18];
    memset(drawing, 0, sizeof drawing);
    FILE *file = fmemopen(drawing, sizeof drawing - 1, "w");
    assert_non_null(file);
    draw(file, of);
    assert_int_equal(fclose(file), 0);
    return drawing;
}

static void draw_a_text(FILE *file, const void *of) {
    svg_text(file, 0, 0, SVG_START, of);
}

static void a_text_cannot_become_markup_and_is_always_utf8(void **state) {
    (void)state;
    static const struct {
        const char *text, *drawn;
    } rows[] = {{"`id` $(id) \\ @", "`id` $(id) \\ @"},
                {"</text><script>&\"'", "&lt;/text&gt;&lt;script&gt;&amp;&quot;&#39;"},
                {"a\x01\n\x7f", "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
                {"m\xfc", "m\xef\xbf\xbd"},
                {"\xef\xbf\xbf\xc2\x9b", "\xef\xbf\xbd\xef\xbf\xbd"},
                {"é中😀", "é中😀"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *text = drawing_of(draw_a_text, rows[i].text);
        char *begin = strchr(text, '>') + 1, *end = strstr(begin, "</text>\n");
        assert_non_null(end);
        *end = '\0';
        assert_string_equal(begin, rows[i].drawn);
    }
}

static void a_long_text_ends_with_an_ellipsis_where_there_is_no_room(void **state) {
    (void)state;
    char text[64];
    assert_string_equal(svg_text_fit(text, sizeof text, "short", 100), "short");
    assert_string_equal(svg_text_fit(text, sizeof text, "abcdefghijklmnop", 60), "abcdefg…");
    assert_string_equal(svg_text_fit(text, sizeof text, "中中中中中中", 60), "中中中中…");
    assert_true(strlen(svg_text_fit(text, 9, "中中中中中中", 600)) < 9);
}

static void draw_a_chart(FILE *file, const void *of) {
    chart_draw(file, of);
}

static int count_of(const char *text, const char *what) {
    int count = 0;
    while ((text = strstr(text, what))) {
        text += strlen(what);
        count++;
    }
    return count;
}

static void a_hundred_groups_are_all_drawn_and_all_in_the_legend(void **state) {
    (void)state;
    static const CurvePoint points[] = {{1, 50, 40, 60}, {2, 60, NAN, NAN}, {3, 70, 60, 80}, {4, 80, 70, 90}};
    static Curve curves[100];
    for (int i = 0; i < 100; i++)
        curves[i] = (Curve){.label = "a group of runs", .points = points, .count = 4};
    const Chart chart = {
        .title = "t", .x_title = "x", .y_title = "y", .curves = curves, .count = 100, .reference = NAN};
    const char *text = drawing_of(draw_a_chart, &chart);
    assert_int_equal(count_of(text, ">a group of runs</text>"), 100);
    assert_int_equal(count_of(text, "stroke-width=\"2\" stroke-linejoin"), 100);
    assert_int_equal(count_of(text, "fill-opacity"), 100); // of two points and more: the gap parts one of them
}

static void twelve_curves_differ_in_colour_or_dashes(void **state) {
    (void)state;
    enum { CURVES = 12 };
    static const CurvePoint points[] = {{1, 50, NAN, NAN}, {2, 60, NAN, NAN}};
    Curve curves[CURVES];
    char looks[CURVES][128];
    for (int i = 0; i < CURVES; i++)
        curves[i] = (Curve){.label = "group", .points = points, .count = 2};
    const Chart chart = {
        .title = "t", .x_title = "x", .y_title = "y", .curves = curves, .count = CURVES, .reference = NAN};
    const char *at = drawing_of(draw_a_chart, &chart);
    for (int i = 0; i < CURVES; i++) {
        at = strstr(at, "stroke-linejoin") + 1;
        const char *colour = at - sizeof "stroke=\"#0072b2\" stroke-width=\"2\" ";
        snprintf(looks[i], sizeof looks[i], "%.*s", (int)strcspn(colour, ">"), colour);
        for (int k = 0; k < i; k++)
            assert_string_not_equal(looks[i], looks[k]);
    }
}

static void draw_a_heat(FILE *file, const void *of) {
    heat_draw(file, of);
}

static void a_heat_map_of_nothing_but_zeros_has_a_scale(void **state) {
    (void)state;
    const double values[6] = {0};
    const char *const names[2] = {"7", "3"};
    const Heat heat = {.title = "t",
                       .x_title = "x",
                       .y_title = "y",
                       .value_title = "n",
                       .values = values,
                       .rows = 2,
                       .columns = 3,
                       .row_names = names};
    const char *text = drawing_of(draw_a_heat, &heat);
    assert_null(strstr(text, "nan"));
    assert_non_null(strstr(text, ">7</text>"));
    assert_int_equal(count_of(text, "fill=\"#440154\""), 2 + 1); // a rectangle for each row, and the scale's lowest
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounds_have_ticks_at_whole_nice_numbers),
        cmocka_unit_test(an_axis_of_percent_never_goes_beyond_0_and_100),
        cmocka_unit_test(a_logarithmic_axis_has_ticks_at_1_2_5_or_at_powers),
        cmocka_unit_test(no_span_of_numbers_breaks_an_axis),
        cmocka_unit_test(a_band_below_zero_does_not_stretch_a_logarithmic_axis),
        cmocka_unit_test(losses_that_are_not_above_zero_get_a_linear_axis),
        cmocka_unit_test(a_text_cannot_become_markup_and_is_always_utf8),
        cmocka_unit_test(a_long_text_ends_with_an_ellipsis_where_there_is_no_room),
        cmocka_unit_test(a_hundred_groups_are_all_drawn_and_all_in_the_legend),
        cmocka_unit_test(twelve_curves_differ_in_colour_or_dashes),
        cmocka_unit_test(a_heat_map_of_nothing_but_zeros_has_a_scale),
    };
    return cmocka_run_group_tests_name("figures", tests, NULL, NULL);
}

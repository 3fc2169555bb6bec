#include "svg.h"

#include <math.h>
#include <string.h>

#include "base/text.h"

const char svg_mark[] = "<!-- sounder report -->";

// XML 1.0 cannot express some characters, which are replaced: control characters, U+FFFE and U+FFFF.
static bool is_writable(const char *letter, size_t length) {
    const unsigned char *bytes = (const unsigned char *)letter;
    if (length == 1) return bytes[0] >= ' ' && bytes[0] != 0x7f;
    if (length == 2) return bytes[0] != 0xc2 || bytes[1] >= 0xa0;
    return length == 4 || (length == 3 && !(bytes[0] == 0xef && bytes[1] == 0xbf && bytes[2] >= 0xbe));
}

// Every text of a drawing passes through this function.
static void print_escaped(FILE *file, const char *text) {
    while (*text) {
        const size_t letter = text_letter(text);
        const char *entity = *text == '&'    ? "&amp;"
                             : *text == '<'  ? "&lt;"
                             : *text == '>'  ? "&gt;"
                             : *text == '"'  ? "&quot;"
                             : *text == '\'' ? "&#39;"
                                             : NULL;
        if (entity)
            fputs(entity, file);
        else if (is_writable(text, letter))
            fwrite(text, 1, letter, file);
        else
            fputs("\xef\xbf\xbd", file);
        text += letter ? letter : 1;
    }
}

void svg_begin(FILE *file, double width, double height, const char *title) {
    fprintf(file,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n%s\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%g\" "
            "height=\"%g\" viewBox=\"0 0 %g %g\" font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\" "
            "font-size=\"%d\">\n<title>",
            svg_mark, width, height, width, height, SVG_FONT);
    print_escaped(file, title);
    fputs("</title>\n", file);
    svg_rect(file, &(SvgRect){0, 0, width, height}, "#ffffff");
}

void svg_end(FILE *file) {
    fputs("</svg>\n", file);
}

// Texts ---------------------------------------------------------------------------------------------------------------

static void print_text(FILE *file, double x, double y, const char *anchor, const char *more, const char *text) {
    fprintf(file, "<text x=\"%.6g\" y=\"%.6g\" text-anchor=\"%s\"%s fill=\"#1a1a1a\">", x, y, anchor, more);
    print_escaped(file, text);
    fputs("</text>\n", file);
}

void svg_text(FILE *file, double x, double y, SvgAnchor anchor, const char *text) {
    static const char *const anchors[] = {[SVG_START] = "start", [SVG_MIDDLE] = "middle", [SVG_END] = "end"};
    print_text(file, x, y + 0.35 * SVG_FONT, anchors[anchor], "", text);
}

void svg_text_upwards(FILE *file, double x, double y, const char *text) {
    char turn[80];
    snprintf(turn, sizeof turn, " transform=\"rotate(-90 %.6g %.6g)\"", x + 0.35 * SVG_FONT, y);
    print_text(file, x + 0.35 * SVG_FONT, y, "middle", turn, text);
}

// Characters of three and four bytes are mostly Chinese, Japanese, Korean or pictures: as wide as high.
static double width_of(size_t letter) {
    return SVG_FONT * (letter >= 3 ? 1.0 : 0.56);
}

double svg_text_width(const char *text) {
    double width = 0;
    for (size_t letter; *text; text += letter ? letter : 1) {
        letter = text_letter(text);
        width += width_of(letter);
    }
    return width;
}

double svg_names_room(const char *const *names, size_t count) {
    enum { LEAST = 62, MOST = 160 };
    double room = LEAST;
    for (size_t i = 0; i < count; i++)
        room = fmax(room, SVG_BESIDE_NAMES + svg_text_width(names[i]));
    return fmin(room, MOST);
}

char *svg_text_fit(char *to, size_t bytes, const char *text, double width) {
    static const char ellipsis[] = "…";
    size_t used = 0;
    double taken = width_of(3);
    const bool fits = svg_text_width(text) <= width && strlen(text) < bytes;
    if (fits) return text_cut(to, bytes, text);
    for (size_t letter; text[used]; used += letter ? letter : 1) {
        letter = text_letter(text + used);
        taken += width_of(letter);
        if (taken > width || used + letter + sizeof ellipsis > bytes) break;
    }
    snprintf(to, bytes, "%.*s%s", (int)used, text, ellipsis);
    return to;
}

// Shapes --------------------------------------------------------------------------------------------------------------

void svg_rect(FILE *file, const SvgRect *rect, const char *colour) {
    fprintf(file, "<rect x=\"%.6g\" y=\"%.6g\" width=\"%.6g\" height=\"%.6g\" fill=\"%s\"/>\n", rect->x, rect->y,
            rect->width, rect->height, colour);
}

void svg_line(FILE *file, double x1, double y1, double x2, double y2, double width, const char *colour,
              const char *dashes) {
    fprintf(file, "<path d=\"M%.6g %.6gL%.6g %.6g\" fill=\"none\" stroke=\"%s\" stroke-width=\"%g\"", x1, y1, x2, y2,
            colour, width);
    if (*dashes) fprintf(file, " stroke-dasharray=\"%s\"", dashes);
    fputs("/>\n", file);
}

void svg_clip_begin(FILE *file, const SvgRect *rect) {
    fprintf(file,
            "<clipPath id=\"frame\"><rect x=\"%.6g\" y=\"%.6g\" width=\"%.6g\" height=\"%.6g\"/></clipPath>\n"
            "<g clip-path=\"url(#frame)\">\n",
            rect->x, rect->y, rect->width, rect->height);
}

void svg_clip_end(FILE *file) {
    fputs("</g>\n", file);
}

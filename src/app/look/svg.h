// Drawings as SVG 1.1, for papers: lines, areas and texts into a file, without a library.
//
//   svg_begin(file, 480, 320, "accuracy by round");
//   svg_text(file, 240, 310, SVG_MIDDLE, "round");       // escaped here and nowhere else
//   svg_end(file);
//
// Lengths are pixels, y grows downwards. Colours are constants of the program such as "#0072b2". Write errors show when
// the file is closed.
#ifndef SOUNDER_APP_LOOK_SVG_H
#define SOUNDER_APP_LOOK_SVG_H

#include <stdio.h>

enum { SVG_FONT = 12 }; // height of texts

// The comment at the beginning of each drawing: a later drawing may overwrite a file that has it.
extern const char svg_mark[];

typedef enum SvgAnchor { SVG_START, SVG_MIDDLE, SVG_END } SvgAnchor;

typedef struct SvgRect {
    double x, y, width, height;
} SvgRect;

// title: text for screen readers.
void svg_begin(FILE *file, double width, double height, const char *title);
void svg_end(FILE *file);

// Draws the text with its middle at height y, and its start, middle or end at x. Control characters and bytes that are
// not UTF-8 become U+FFFD.
void svg_text(FILE *file, double x, double y, SvgAnchor anchor, const char *text);
void svg_text_upwards(FILE *file, double x, double y, const char *text); // centred, read from below

// Estimates the width of a text, rather too wide than too narrow: the viewer chooses the font.
double svg_text_width(const char *text);

// Width of a column of names (count) left of a plot: within bounds, with SVG_BESIDE_NAMES for their title and a gap.
enum { SVG_BESIDE_NAMES = 24 };
double svg_names_room(const char *const *names, size_t count);

// Copies the text, or as many letters as fit into `width` and an ellipsis, to the caller's to (bytes).
char *svg_text_fit(char *to, size_t bytes, const char *text, double width);

void svg_rect(FILE *file, const SvgRect *rect, const char *colour);
void svg_line(FILE *file, double x1, double y1, double x2, double y2, double width, const char *colour,
              const char *dashes); // dashes: "7 3"; "": a line without gaps

// Cuts everything drawn until svg_clip_end at the rectangle.
void svg_clip_begin(FILE *file, const SvgRect *rect);
void svg_clip_end(FILE *file);

#endif

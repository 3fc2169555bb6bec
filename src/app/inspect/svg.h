// Drawings as SVG 1.1, for papers: lines, areas and texts into a file, without a library.
//
//   svg_begin(file, 480, 320, "accuracy by round");
//   svg_text(file, 240, 310, SVG_MIDDLE, "round");       // escaped here and nowhere else
//   svg_end(file);
//
// Lengths are pixels, y goes down. Colours are constants of the program such as "#0072b2". A failure of the file shows
// when it is closed.
#ifndef SOUNDER_APP_INSPECT_SVG_H
#define SOUNDER_APP_INSPECT_SVG_H

#include <stdbool.h>
#include <stdio.h>

enum { SVG_FONT = 12 }; // height of texts

// The comment that begins each drawing: what bears it may be written over by a later one.
extern const char svg_mark[];

typedef enum SvgAnchor { SVG_START, SVG_MIDDLE, SVG_END } SvgAnchor;

typedef struct SvgRect {
    double x, y, width, height;
} SvgRect;

// title: what a reader of the screen hears.
void svg_begin(FILE *file, double width, double height, const char *title);
void svg_end(FILE *file);

// The text stands at (x, y): its middle in height, and its start, middle or end in width. Control characters and bytes
// that are no UTF-8 become U+FFFD.
void svg_text(FILE *file, double x, double y, SvgAnchor anchor, const char *text);
void svg_text_upwards(FILE *file, double x, double y, const char *text); // centred, read from below

// About how wide a text will be, since a font is chosen only by who shows it; rather too wide than too narrow.
double svg_text_width(const char *text);

// The text, or as many of its letters as are not wider than `width`, and an ellipsis. to: (bytes) of the caller's.
char *svg_text_fit(char *to, size_t bytes, const char *text, double width);

void svg_rect(FILE *file, const SvgRect *rect, const char *colour);
void svg_line(FILE *file, double x1, double y1, double x2, double y2, double width, const char *colour,
              const char *dashes); // dashes: "7 3"; "": a line without gaps

// All that follows is cut at the rectangle, until svg_clip_end.
void svg_clip_begin(FILE *file, const SvgRect *rect);
void svg_clip_end(FILE *file);

#endif

// Part of help.h: topics that are a text file of this folder, and how such a text is read.
#include <stdio.h>
#include <string.h>

#include "app/help/help.h"
#include "app/options/option_table.h"
#include "base/embed.h"
#include "base/text.h"
#include "fedavg/figures/figure.h"

EMBED(help_aggregator, HELP_TEXTS "/aggregator.txt");
EMBED(help_launch, HELP_TEXTS "/launch.txt");
EMBED(help_metrics, HELP_TEXTS "/metrics.txt");
EMBED(help_nodes, HELP_TEXTS "/nodes.txt");
EMBED(help_plan, HELP_TEXTS "/plan.txt");
EMBED(help_trainer, HELP_TEXTS "/trainer.txt");

// Copies a line; returns the next one.
static const char *take_line(char *line, size_t bytes, const char *text) {
    const size_t length = strcspn(text, "\n");
    snprintf(line, bytes, "%.*s", (int)length, text);
    return text + length + (text[length] == '\n');
}

// Whether a line continues a paragraph.
static bool is_prose(const char *line) {
    return !strchr("\n @%", *line); // strchr finds the terminator, too
}

const char *help_next(HelpPart *part, const char *text) {
    char line[HELP_LINE_BYTES];
    if (*text == '\0') return NULL;
    part->kind = *text == '@' ? HELP_ENTRY : *text == '%' ? HELP_PLACE : is_prose(text) ? HELP_PARAGRAPH : HELP_LINE;
    part->text[0] = '\0';
    if (part->kind == HELP_ENTRY) {
        text = take_line(line, sizeof line, text);
        snprintf(part->left, sizeof part->left, "%s", line + strlen("@ "));
    } else if (part->kind != HELP_PARAGRAPH)
        return take_line(part->text, sizeof part->text, text);
    while (is_prose(text)) {
        text = take_line(line, sizeof line, text);
        text_add(part->text, sizeof part->text, "%s%s", *part->text ? " " : "", line);
    }
    return text;
}

const char *help_print_text(FILE *file, const char *text) {
    HelpPart part;
    const char *rest = text;
    while ((rest = help_next(&part, rest)) && part.kind != HELP_PLACE)
        if (part.kind == HELP_ENTRY)
            print_entry(file, part.left, part.text);
        else if (part.kind == HELP_PARAGRAPH)
            print_paragraph(file, 0, part.text);
        else
            fprintf(file, "%s\n", part.text);
    return rest;
}

// The rows of one help text are one entry.
static void print_figures(FILE *file) {
    char keys[4 * FIGURE_KEY_BYTES] = "", key[FIGURE_KEY_BYTES];
    const char *text = "";
    for (size_t i = 0; i <= figure_count; i++) {
        const bool begins = i == figure_count || figure_table[i].help;
        if (begins && *keys) print_entry(file, keys, text);
        if (i == figure_count) break;
        if (begins) text = figure_table[i].help, keys[0] = '\0';
        text_add(keys, sizeof keys, "%s%s", *keys ? ", " : "  ", figure_key(key, &figure_table[i], false));
    }
}

void help_print_metrics(FILE *file) {
    const char *rest = help_print_text(file, help_metrics);
    print_figures(file);
    help_print_text(file, rest);
}

void help_print_aggregator(FILE *file) {
    help_print_text(file, help_aggregator);
}

void help_print_launch(FILE *file) {
    help_print_text(file, help_launch);
}

void help_print_nodes(FILE *file) {
    help_print_text(file, help_nodes);
}

void help_print_plan(FILE *file) {
    help_print_text(file, help_plan);
}

void help_print_trainer(FILE *file) {
    help_print_text(file, help_trainer);
}

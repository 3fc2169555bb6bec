#include "published.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static const Measure measures[] = {
    {"accuracy", "test accuracy after the last round, %", "test_accuracy", 100, 2, false},
    {"best-accuracy", "best test accuracy, %", "best_accuracy", 100, 2, false},
    {"personal-accuracy", "clients' mean accuracy of their own models, %", "personal_accuracy", 100, 2, false},
    {"attack-success", "marked test images taken for the backdoor's target after the last round, %", "attack_success",
     100, 2, false},
    {"loss", "test loss after the last round", "test_loss", 1, 5, false},
    {"rounds-to-target", "rounds to the target", "rounds_to_target", 1, 2, false},
    {"seconds", "seconds, from the program's start to the final model", "seconds", 1, 2, true},
};

typedef struct Reader {
    yaml_document_t *document;
    const char *name;
    Error *err;
} Reader;

static Status refuse(const Reader *reader, const yaml_node_t *node, const char *what) {
    return fail(reader->err, STATUS_DATA, "recipe %.200s, line %zu: %s", reader->name,
                node ? node->start_mark.line + 1 : (size_t)1, what);
}

static yaml_node_t *node_of(Reader *reader, int index) {
    return yaml_document_get_node(reader->document, index);
}

static const char *text_of(const yaml_node_t *node) {
    return node && node->type == YAML_SCALAR_NODE ? (const char *)node->data.scalar.value : NULL;
}

static yaml_node_t *member(Reader *reader, yaml_node_t *mapping, const char *key) {
    for (yaml_node_pair_t *pair = mapping->data.mapping.pairs.start; pair < mapping->data.mapping.pairs.top; pair++) {
        const char *name = text_of(node_of(reader, pair->key));
        if (name && strcmp(name, key) == 0) return node_of(reader, pair->value);
    }
    return NULL;
}

static Status read_text(const char **text, const Reader *reader, const yaml_node_t *node) {
    *text = text_of(node);
    return *text ? STATUS_OK : refuse(reader, node, "a text or a number is needed here");
}

// Reads a text for a terminal, which may be of another user: line ends become blanks, control characters '?'.
static Status read_sentence(const char **text, const Reader *reader, yaml_node_t *node) {
    TRY(read_text(text, reader, node));
    for (char *end = (char *)node->data.scalar.value; (end = strchr(end, '\n'));)
        *end = ' ';
    disarm_text((char *)node->data.scalar.value);
    return STATUS_OK;
}

// Reads a number; "~" means none where none is required.
static Status read_number(double *number, Reader *reader, const yaml_node_t *node, bool may_lack) {
    const char *text = text_of(node);
    char *end;
    *number = NAN;
    if (may_lack && text && strcmp(text, "~") == 0) return STATUS_OK;
    if (text) *number = strtod(text, &end);
    return text && end != text && !*end && isfinite(*number) ? STATUS_OK
                                                             : refuse(reader, node, "a number is needed here");
}

// Reads the name of an option that is not set yet: by `options`, by `over`, or by `seeds`.
static Status read_option(const Option **option, const Published *published, Reader *reader, const yaml_node_t *node) {
    const char *text = text_of(node);
    const Option *named = text ? option_find(text) : NULL;
    if (!named) return refuse(reader, node, "there is no such option of `sounder train`");
    bool is_set = strcmp(named->name, "seed") == 0;
    for (size_t i = 0; i < published->option_count; i++)
        is_set |= published->options[i] == named;
    for (size_t i = 0; i < published->over_count; i++)
        is_set |= published->over[i] == named;
    *option = named;
    return is_set ? refuse(reader, node, "this option is set twice; seeds: sets the seed") : STATUS_OK;
}

// Checks that the option accepts the value; a refusal is the option's own sentence.
static Status check_value(Reader *reader, const Option *option, const char *value, const yaml_node_t *node) {
    Options scratch;
    Error why;
    options_defaults(&scratch);
    return option_set(&scratch, option, value, "--", &why) == STATUS_OK ? STATUS_OK : refuse(reader, node, why.message);
}

static Status read_options(Published *published, Reader *reader, const yaml_node_t *node) {
    if (!node || node->type != YAML_MAPPING_NODE) return refuse(reader, node, "options: needs names and values");
    for (yaml_node_pair_t *pair = node->data.mapping.pairs.start; pair < node->data.mapping.pairs.top; pair++) {
        const size_t i = published->option_count;
        const yaml_node_t *value = node_of(reader, pair->value);
        if (i == PUBLISHED_OPTIONS) return refuse(reader, node, "options: there are too many");
        TRY(read_option(&published->options[i], published, reader, node_of(reader, pair->key)));
        TRY(read_text(&published->values[i], reader, value));
        published->option_count++;
        TRY(check_value(reader, published->options[i], published->values[i], value));
    }
    return STATUS_OK;
}

static Status read_over(Published *published, Reader *reader, const yaml_node_t *node) {
    if (!node || node->type != YAML_SEQUENCE_NODE) return refuse(reader, node, "over: needs a list of options");
    for (yaml_node_item_t *item = node->data.sequence.items.start; item < node->data.sequence.items.top; item++) {
        if (published->over_count == PUBLISHED_OVER) return refuse(reader, node, "over: at most four options");
        TRY(read_option(&published->over[published->over_count], published, reader, node_of(reader, *item)));
        published->over_count++;
    }
    return STATUS_OK;
}

static Status read_cell(Published *published, Reader *reader, const yaml_node_t *node) {
    if (!node || node->type != YAML_SEQUENCE_NODE ||
        (size_t)(node->data.sequence.items.top - node->data.sequence.items.start) != published->over_count + 2)
        return refuse(reader, node, "a cell has a value of each option of `over`, a figure and its deviation");
    if (published->cell_count == PUBLISHED_CELLS) return refuse(reader, node, "there are too many cells");
    const yaml_node_item_t *items = node->data.sequence.items.start;
    PublishedCell *cell = &published->cells[published->cell_count++];
    *cell = (PublishedCell){0};
    for (size_t i = 0; i < published->over_count; i++) {
        const yaml_node_t *value = node_of(reader, items[i]);
        TRY(read_text(&cell->values[i], reader, value));
        TRY(check_value(reader, published->over[i], cell->values[i], value));
    }
    TRY(read_number(&cell->figure, reader, node_of(reader, items[published->over_count]), true));
    return read_number(&cell->deviation, reader, node_of(reader, items[published->over_count + 1]), true);
}

static Status read_seeds(Published *published, Reader *reader, const yaml_node_t *node) {
    const char *text = text_of(node);
    int last;
    if (!text || sscanf(text, "%d..%d", &published->first_seed, &last) != 2 || last < published->first_seed ||
        published->first_seed < 0)
        return refuse(reader, node, "seeds: needs a range such as 1..5");
    published->seeds = last - published->first_seed + 1;
    return STATUS_OK;
}

static Status read_measure(Published *published, Reader *reader, const yaml_node_t *node) {
    const char *text = text_of(node);
    char names[128] = "", what[sizeof names + 16];
    for (size_t i = 0; i < sizeof measures / sizeof *measures; i++) {
        text_list(names, sizeof names, measures[i].name, strlen(measures[i].name));
        if (text && strcmp(text, measures[i].name) == 0) published->measure = &measures[i];
    }
    snprintf(what, sizeof what, "measure: %s", names);
    return published->measure ? STATUS_OK : refuse(reader, node, what);
}

static Status read_recipe(Published *published, Reader *reader) {
    yaml_node_t *root = yaml_document_get_root_node(reader->document);
    if (!root || root->type != YAML_MAPPING_NODE) return refuse(reader, root, "a recipe has title, options, cells");
    TRY(read_sentence(&published->title, reader, member(reader, root, "title")));
    TRY(read_sentence(&published->source, reader, member(reader, root, "source")));
    yaml_node_t *note = member(reader, root, "note"), *factor = member(reader, root, "times");
    if (note) TRY(read_sentence(&published->note, reader, note));
    TRY(read_measure(published, reader, member(reader, root, "measure")));
    TRY(read_seeds(published, reader, member(reader, root, "seeds")));
    TRY(read_number(&published->minutes, reader, member(reader, root, "minutes"), false));
    if (factor)
        TRY(read_number(&published->factor, reader, factor, false));
    else
        TRY(read_number(&published->deviations, reader, member(reader, root, "within"), false));
    TRY(read_options(published, reader, member(reader, root, "options")));
    TRY(read_over(published, reader, member(reader, root, "over")));
    yaml_node_t *cells = member(reader, root, "cells");
    if (!cells || cells->type != YAML_SEQUENCE_NODE) return refuse(reader, cells, "cells: needs a list");
    for (yaml_node_item_t *item = cells->data.sequence.items.start; item < cells->data.sequence.items.top; item++)
        TRY(read_cell(published, reader, node_of(reader, *item)));
    return published->cell_count > 0 ? STATUS_OK : refuse(reader, cells, "cells: there is none");
}

Status published_parse(Published *published, const char *name, const char *text, Error *err) {
    Reader reader = {.document = &published->document, .name = name, .err = err};
    yaml_parser_t parser;
    *published = (Published){.deviations = NAN, .factor = NAN};
    if (!yaml_parser_initialize(&parser)) return fail(err, STATUS_OS, "no memory for the recipe %.200s", name);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, strlen(text));
    Status status = STATUS_OK;
    if (!yaml_parser_load(&parser, reader.document))
        status = fail(err, STATUS_DATA, "recipe %.200s, line %zu: %s", name, parser.problem_mark.line + 1,
                      parser.problem ? parser.problem : "this is no YAML");
    yaml_parser_delete(&parser);
    if (status == STATUS_OK) {
        status = read_recipe(published, &reader);
        if (status != STATUS_OK) published_free(published);
    }
    return status;
}

void published_free(Published *published) {
    yaml_document_delete(&published->document);
}

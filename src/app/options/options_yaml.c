// Part of options.h: options as YAML: one flat mapping, read strictly (libyaml's events) and written so that it reads
// back unchanged.
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include <yaml.h>

#include "io/metrics.h"
#include "option_table.h"
#include "options.h"

enum { EXPERIMENT_MAX_BYTES = 64 * 1024 };

typedef struct Reader {
    yaml_parser_t parser;
    yaml_event_t event; // current event; all zero: none
    const char *path;   // borrowed, as is text
    const char *text;
    bool takes_lists;
    OptionValueTaker *take; // of the values of lists; NULL: they are only read
    void *to;
} Reader;

static const char standard_input[] = "standard input"; // path for messages about "-"

// Opening a FIFO waits for a writer. (A shell's /dev/fd/63 has no name, and has a writer.)
static bool is_named_pipe(const char *path) {
    struct stat about;
    char resolved[PATH_MAX];
    return stat(path, &about) == 0 && S_ISFIFO(about.st_mode) && realpath(path, resolved);
}

// Refuses a folder instead of an experiment file.
static Status refuse_folder(const char *path, Error *err) {
    char config[PATH_MAX];
    int length = (int)strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    const bool fits = snprintf(config, sizeof config, "%.*s/config.yaml", length, path) < PATH_MAX;
    if (fits && access(config, F_OK) == 0)
        return fail(
            err, STATUS_USAGE,
            "%.300s: the folder of a run; give %.300s for a new run like it, or --resume %.300s to go on with it", path,
            config, path);
    return fail(err, STATUS_USAGE, "%.300s: a folder; give an experiment file, or --option value", path);
}

// Reads the whole file at once: it is small, and errors need its lines. text: (EXPERIMENT_MAX_BYTES + 1).
static Status read_file(char *text, size_t *length, const char *path, Error *err) {
    bool is_input = path == standard_input;
    if (!is_input && is_named_pipe(path))
        return fail(err, STATUS_NOINPUT,
                    "%.500s: a named pipe, which nobody may ever write to; give a file, or - for standard input", path);
    struct stat about;
    if (!is_input && stat(path, &about) == 0 && S_ISDIR(about.st_mode)) return refuse_folder(path, err);
    FILE *file = is_input ? stdin : fopen(path, "re");
    if (!file)
        return fail(err, status_by_errno(STATUS_NOINPUT),
                    "%.500s: cannot be opened: %s; give an experiment file, or --option value", *path ? path : "\"\"",
                    strerror(errno));
    *length = fread(text, 1, EXPERIMENT_MAX_BYTES + 1, file);
    bool failed = ferror(file);
    int reason = errno;
    if (!is_input) fclose(file);
    if (failed) return fail(err, STATUS_IO, "%.500s: cannot be read: %s", path, strerror(reason));
    if (*length > EXPERIMENT_MAX_BYTES)
        return fail(err, STATUS_USAGE, "%.500s: larger than the %d KiB that an experiment file may have", path,
                    EXPERIMENT_MAX_BYTES / 1024);
    return STATUS_OK;
}

static size_t line_of_offset(const char *text, size_t offset) {
    size_t line = 1;
    for (size_t i = 0; i < offset; i++)
        line += text[i] == '\n';
    return line;
}

static size_t line_of(const Reader *reader) {
    return reader->event.start_mark.line + 1;
}

static Status next_event(Reader *reader, Error *err) {
    yaml_event_delete(&reader->event);
    yaml_parser_t *parser = &reader->parser;
    if (yaml_parser_parse(parser, &reader->event)) return STATUS_OK;
    memset(&reader->event, 0, sizeof reader->event);
    if (parser->error == YAML_MEMORY_ERROR) return fail(err, STATUS_OS, "%.500s: no memory to read it", reader->path);
    // libyaml finds invalid UTF-8 in a stage that knows offsets but no lines.
    size_t line = parser->error == YAML_READER_ERROR ? line_of_offset(reader->text, parser->problem_offset)
                                                     : parser->problem_mark.line + 1;
    return fail(err, STATUS_USAGE, "%.500s:%zu: not readable as YAML: %s", reader->path, line, parser->problem);
}

static Status refuse(const Reader *reader, const char *what, Error *err) {
    return fail(err, STATUS_USAGE, "%.500s:%zu: %s; an experiment file has one `option: value` on each line",
                reader->path, line_of(reader), what);
}

// Succeeds if the current event is a plain value: no list, mapping, anchor, alias or tag.
static Status check_scalar(const Reader *reader, Error *err) {
    const yaml_event_t *event = &reader->event;
    switch (event->type) {
    case YAML_SEQUENCE_START_EVENT:
        return refuse(reader, "a list", err);
    case YAML_MAPPING_START_EVENT:
        return refuse(reader, "a mapping inside the mapping", err);
    case YAML_ALIAS_EVENT:
        return refuse(reader, "an alias", err);
    default:
        break;
    }
    if (event->data.scalar.anchor) return refuse(reader, "an anchor", err);
    if (event->data.scalar.tag) return refuse(reader, "a tag", err);
    if (strlen((const char *)event->data.scalar.value) != event->data.scalar.length)
        return refuse(reader, "a NUL character", err);
    return STATUS_OK;
}

// Returns the current scalar; a null (`rounds:`, `rounds: ~`) is the empty text, which no option accepts. The lines of
// a block (`model: |` or `>`) are one text without the final newline. An option of parts interprets the line ends
// between them itself.
static const char *scalar_value(const Reader *reader, const Option *option) {
    char *value = (char *)reader->event.data.scalar.value;
    yaml_scalar_style_t style = reader->event.data.scalar.style;
    if (style == YAML_LITERAL_SCALAR_STYLE || style == YAML_FOLDED_SCALAR_STYLE) {
        for (size_t length = strlen(value); length > 0 && value[length - 1] == '\n'; length--)
            value[length - 1] = '\0';
        for (char *c = value; *c; c++)
            if (*c == '\n' && !option->parts) *c = ' ';
    }
    bool plain = reader->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    return plain && (strcmp(value, "~") == 0 || strcasecmp(value, "null") == 0) ? "" : value;
}

// The current event begins a list of values. Reads it to its end.
static Status read_list(const Option *option, const char *where, Reader *reader, Error *err) {
    if (reader->event.data.sequence_start.anchor) return refuse(reader, "an anchor", err);
    if (reader->event.data.sequence_start.tag) return refuse(reader, "a tag", err);
    for (size_t count = 0;; count++) {
        TRY(next_event(reader, err));
        if (reader->event.type == YAML_SEQUENCE_END_EVENT && count == 0)
            return fail(err, STATUS_USAGE, "%s%s: an empty list; give it values, or leave the option out", where,
                        option->name);
        if (reader->event.type == YAML_SEQUENCE_END_EVENT) return STATUS_OK;
        TRY(check_scalar(reader, err));
        if (reader->take) TRY(reader->take(reader->to, option, scalar_value(reader, option), where, err));
    }
}

// The current event is the key. Reads the value and sets the option. seen: lines of the options so far, by table index.
static Status read_entry(Options *options, size_t seen[OPTION_MAX_COUNT], Reader *reader, Error *err) {
    char where[600];
    size_t line = line_of(reader);
    snprintf(where, sizeof where, "%.500s:%zu: ", reader->path, line);
    TRY(check_scalar(reader, err));
    const char *name = (const char *)reader->event.data.scalar.value;
    const Option *option = option_find(name);
    if (!option) return option_unknown(name, where, err);
    TRY(option_check_train(option, where, err));
    size_t *before = &seen[option_index(option)];
    if (*before)
        return fail(err, STATUS_USAGE, "%s%s: stands on line %zu already; leave one of the two out", where,
                    option->name, *before);
    *before = line;
    snprintf(options->file, sizeof options->file, "%s", reader->path);
    options->lines[option_index(option)] = (int)line;
    TRY(next_event(reader, err));
    if (reader->takes_lists && reader->event.type == YAML_SEQUENCE_START_EVENT)
        return read_list(option, where, reader, err);
    TRY(check_scalar(reader, err));
    const yaml_event_t *event = &reader->event;
    const size_t first = event->start_mark.line, last = event->end_mark.line;
    const bool is_plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    Error why;
    const Status status = option_set(options, option, scalar_value(reader, option), where, &why);
    if (status == STATUS_OK) return status;
    fail(err, status, "%s%s", why.message,
         is_plain && last > first ? "; its next line is indented, and so belongs to it" : "");
    error_keep_sketch(err, &why);
    return status;
}

static Status read_document(Options *options, Reader *reader, Error *err) {
    TRY(next_event(reader, err)); // start of the stream
    TRY(next_event(reader, err));
    if (reader->event.type == YAML_STREAM_END_EVENT) return STATUS_OK; // the file has only comments
    TRY(next_event(reader, err));
    if (reader->event.type != YAML_MAPPING_START_EVENT) return refuse(reader, "no mapping", err);
    if (reader->event.data.mapping_start.anchor) return refuse(reader, "an anchor", err);
    if (reader->event.data.mapping_start.tag) return refuse(reader, "a tag", err);
    size_t seen[OPTION_MAX_COUNT] = {0};
    for (;;) {
        TRY(next_event(reader, err));
        if (reader->event.type == YAML_MAPPING_END_EVENT) break;
        TRY(read_entry(options, seen, reader, err));
    }
    TRY(next_event(reader, err)); // end of the document
    TRY(next_event(reader, err));
    if (reader->event.type != YAML_STREAM_END_EVENT) return refuse(reader, "a second document", err);
    return STATUS_OK;
}

// reader: its parser is not begun.
static Status read_yaml(Options *options, Reader *reader, const char *path, Error *err) {
    static const char byte_order_mark[] = "\xef\xbb\xbf"; // libyaml skips it only if it guesses the encoding
    char bytes[EXPERIMENT_MAX_BYTES + 1] = "", *text = bytes;
    size_t length = 0;
    if (strcmp(path, "-") == 0) path = standard_input;
    TRY(read_file(bytes, &length, path, err));
    if (strncmp(bytes, byte_order_mark, strlen(byte_order_mark)) == 0) {
        text += strlen(byte_order_mark);
        length -= strlen(byte_order_mark);
    }
    reader->path = path;
    reader->text = text;
    if (!yaml_parser_initialize(&reader->parser)) return fail(err, STATUS_OS, "%.500s: no memory to read it", path);
    yaml_parser_set_encoding(&reader->parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&reader->parser, (const unsigned char *)text, length);
    Status status = read_document(options, reader, err);
    yaml_event_delete(&reader->event);
    yaml_parser_delete(&reader->parser);
    return status;
}

Status options_read_yaml(Options *options, const char *path, Error *err) {
    return read_yaml(options, &(Reader){0}, path, err);
}

Status options_read_experiment(Options *options, OptionValueTaker *take, void *to, const char *path, Error *err) {
    return read_yaml(options, &(Reader){.takes_lists = true, .take = take, .to = to}, path, err);
}

// This reader takes any scalar as a text; other readers of YAML would turn these into a number, a truth value or null.
static yaml_scalar_style_t style_of(const Option *option, const char *value) {
    static const char *const special[] = {"true", "false", "yes", "no", "on", "off", "y", "n", "null"};
    if (option->type != OPTION_TEXT && option->type != OPTION_FORM) return YAML_PLAIN_SCALAR_STYLE;
    bool letter_first = (value[0] >= 'a' && value[0] <= 'z') || (value[0] >= 'A' && value[0] <= 'Z') || value[0] == '/';
    if (!letter_first) return YAML_DOUBLE_QUOTED_SCALAR_STYLE;
    for (size_t i = 0; i < sizeof special / sizeof *special; i++)
        if (strcasecmp(value, special[i]) == 0) return YAML_DOUBLE_QUOTED_SCALAR_STYLE;
    return YAML_ANY_SCALAR_STYLE; // plain if that is unambiguous, else quoted
}

static bool emit_scalar(yaml_emitter_t *emitter, const char *value, yaml_scalar_style_t style) {
    yaml_event_t event;
    return yaml_scalar_event_initialize(&event, NULL, NULL, (const yaml_char_t *)value, (int)strlen(value), 1, 1,
                                        style) &&
           yaml_emitter_emit(emitter, &event);
}

// Leaves out options without effect, options about this process alone, and empty ones.
static bool has_value(const Options *options, const Option *option) {
    bool empty = !option->preset && !options->given[option_index(option)] && option_is_zero(options, option);
    return !empty && !option->unsaved && option_applies(options, option);
}

// A derived value was not given, so the file leaves it to be derived again. A value derived from the machine that
// changes the mathematics must be written: another machine would derive another.
static bool is_derived(const Options *options, const Option *option) {
    const bool pinned = option == option_find("clients") && options->clients_by_machine;
    return !option->preset && !options->given[option_index(option)] && !pinned;
}

static bool emit_begin(yaml_emitter_t *emitter) {
    yaml_event_t event;
    return yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING) && yaml_emitter_emit(emitter, &event) &&
           yaml_document_start_event_initialize(&event, NULL, NULL, NULL, 1) && yaml_emitter_emit(emitter, &event) &&
           yaml_mapping_start_event_initialize(&event, NULL, NULL, 1, YAML_BLOCK_MAPPING_STYLE) &&
           yaml_emitter_emit(emitter, &event);
}

static bool emit_end(yaml_emitter_t *emitter) {
    yaml_event_t event;
    return yaml_mapping_end_event_initialize(&event) && yaml_emitter_emit(emitter, &event) &&
           yaml_document_end_event_initialize(&event, 1) && yaml_emitter_emit(emitter, &event) &&
           yaml_stream_end_event_initialize(&event) && yaml_emitter_emit(emitter, &event);
}

static bool emit_values(yaml_emitter_t *emitter, const Option *option, const OptionValues *of) {
    yaml_event_t event;
    bool good = emit_scalar(emitter, option->name, YAML_PLAIN_SCALAR_STYLE);
    if (of->count > 1)
        good = good && yaml_sequence_start_event_initialize(&event, NULL, NULL, 1, YAML_FLOW_SEQUENCE_STYLE) &&
               yaml_emitter_emit(emitter, &event);
    for (size_t i = 0; i < of->count; i++)
        good = good && emit_scalar(emitter, of->values[i], style_of(option, of->values[i]));
    if (of->count > 1) good = good && yaml_sequence_end_event_initialize(&event) && yaml_emitter_emit(emitter, &event);
    return good;
}

static bool emit_options(yaml_emitter_t *emitter, const Options *options) {
    if (!emit_begin(emitter)) return false;
    for (int i = 0; i < option_count; i++) {
        if (!has_value(options, &option_table[i]) || is_derived(options, &option_table[i])) continue;
        char value[OPTION_VALUE_BYTES];
        option_format(value, options, &option_table[i]);
        if (!emit_scalar(emitter, option_table[i].name, YAML_PLAIN_SCALAR_STYLE)) return false;
        if (!emit_scalar(emitter, value, style_of(&option_table[i], value))) return false;
    }
    return emit_end(emitter);
}

static bool write_derived(FILE *file, const Options *options) {
    for (int i = 0; i < option_count; i++) {
        char value[OPTION_VALUE_BYTES];
        if (!has_value(options, &option_table[i]) || !is_derived(options, &option_table[i])) continue;
        option_format(value, options, &option_table[i]);
        if (fprintf(file, "# %s: %s (%s)\n", option_table[i].name, value, option_table[i].derived) < 0) return false;
    }
    return true;
}

// Writes what is in one of the two.
static Status write_yaml(FILE *file, const char *heading, const Options *options, const OptionValues *values,
                         Error *err) {
    yaml_emitter_t emitter;
    if (!yaml_emitter_initialize(&emitter)) return fail(err, STATUS_OS, "the configuration: no memory to write it");
    yaml_emitter_set_output_file(&emitter, file);
    yaml_emitter_set_unicode(&emitter, 1);
    yaml_emitter_set_width(&emitter, -1); // no line breaks inside a value
    errno = 0;
    // Check each result: ferror does not report a memory stream that cannot grow.
    bool written = fputs(heading, file) >= 0;
    if (options) written = written && emit_options(&emitter, options) && write_derived(file, options);
    if (values) written = written && emit_begin(&emitter);
    for (int i = 0; i < option_count && values; i++)
        if (values[i].count > 0) written = written && emit_values(&emitter, &option_table[i], &values[i]);
    if (values) written = written && emit_end(&emitter);
    written = written && fflush(file) == 0 && !ferror(file);
    Status status = written ? STATUS_OK : STATUS_IO;
    if (!written && emitter.error == YAML_MEMORY_ERROR) errno = ENOMEM;
    if (!written) status = fail_errno(err, STATUS_IO, "the configuration cannot be written");
    yaml_emitter_delete(&emitter);
    return status;
}

Status options_write_yaml(const Options *options, FILE *file, Error *err) {
    static const char heading[] =
        "# What was asked for; do the same again: sounder train THIS_FILE --out ANOTHER_FOLDER\n";
    return write_yaml(file, heading, options, NULL, err);
}

Status options_write_experiment(FILE *file, const char *heading, const OptionValues *all, Error *err) {
    return write_yaml(file, heading, NULL, all, err);
}

Status options_read_run(Options *options, const char *folder, Error *err) {
    char config[PATH_MAX];
    struct stat about;
    if (snprintf(config, sizeof config, "%s/config.yaml", folder) >= PATH_MAX)
        return fail(err, STATUS_USAGE, "the path of the run is too long: %.200s...", folder);
    if (stat(folder, &about) != 0)
        return fail_errno(err, STATUS_NOINPUT, "%.200s: there is no run; give the folder of one (train's --out)",
                          folder);
    if (access(config, F_OK) != 0)
        return fail(
            err, STATUS_NOINPUT,
            "%.200s: there is no run in it, since it has no config.yaml; give the folder of one (train's --out)",
            folder);
    TRY(metrics_check_format(folder, err));
    return options_read_yaml(options, config, err);
}

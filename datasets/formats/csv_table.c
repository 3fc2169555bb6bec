#include "datasets/formats/csv_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "datasets/formats/byte_stream.h"

static const char separators[] = ",;\t|";

// The file -----------------------------------------------------------------------------------------------------------

// A stream of stdio's that unpacks. A read that fails leaves its sentence.
typedef struct CsvFile {
    ByteStream bytes;
    Error why;
    Status status;
    size_t line_bytes; // since the last end of a line
} CsvFile;

// A field of a file that has no lines would fill the memory, as may one whose quote is not closed.
enum { MOST_ROW_MIB = 64, MOST_ROW_BYTES = MOST_ROW_MIB << 20 };

static ssize_t read_file(void *cookie, char *to, size_t count) {
    CsvFile *stream = cookie;
    size_t got = 0;
    stream->status = byte_stream_read_some(&got, to, &stream->bytes, count, &stream->why);
    const char *end = memrchr(to, '\n', got);
    stream->line_bytes = end ? (size_t)(to + got - end) - 1 : stream->line_bytes + got;
    if (stream->status == STATUS_OK && stream->line_bytes > MOST_ROW_BYTES)
        stream->status = fail(&stream->why, STATUS_DATA, "%s: a line of more than %d MiB; is it a table of lines?",
                              stream->bytes.path, MOST_ROW_MIB);
    return stream->status == STATUS_OK ? (ssize_t)got : -1;
}

static int close_file(void *cookie) {
    CsvFile *stream = cookie;
    byte_stream_close(&stream->bytes);
    free(stream);
    return 0;
}

static Status open_file(CsvTable *table, Error *err) {
    CsvFile *stream = calloc(1, sizeof *stream);
    if (!stream) return fail(err, STATUS_OS, "no memory for %s", table->path);
    const Status status = byte_stream_open(&stream->bytes, table->path, err);
    if (status != STATUS_OK) {
        free(stream);
        return status;
    }
    table->stream = stream;
    table->file = fopencookie(stream, "r", (cookie_io_functions_t){.read = read_file, .close = close_file});
    if (table->file) return STATUS_OK;
    close_file(stream);
    return fail(err, STATUS_OS, "no memory for %s", table->path);
}

// Lines ---------------------------------------------------------------------------------------------------------------

// State of a row that is read letter by letter.
typedef enum Within { AT_FIELD, IN_FIELD, IN_QUOTES, AFTER_QUOTE } Within;

// Returns the state after the text: IN_QUOTES if the row continues in the next line.
static Within scan(Within within, const char *text, const char *ends) {
    for (; *text; text++) {
        const bool is_end = strchr(ends, *text) != NULL, is_blank = *text == ' ' || (*text == '\t' && !is_end);
        if (within == IN_QUOTES || within == AFTER_QUOTE)
            within = *text == '"'                      ? (within == IN_QUOTES ? AFTER_QUOTE : IN_QUOTES)
                     : within == AFTER_QUOTE && is_end ? AT_FIELD
                                                       : within;
        else if (is_end)
            within = AT_FIELD;
        else if (within == AT_FIELD && !is_blank)
            within = *text == '"' ? IN_QUOTES : IN_FIELD;
    }
    return within;
}

// Reads one line into *line, with its end. *length is 0 at the end of the file.
static Status next_line(char **line, size_t *room, size_t *length, CsvTable *table, Error *err) {
    errno = 0;
    const ssize_t got = getline(line, room, table->file);
    *length = got < 0 ? 0 : (size_t)got;
    if (table->stream->status != STATUS_OK) // also after a part of the line
        return fail(err, table->stream->status, "%s", table->stream->why.message);
    if (got < 0 && !feof(table->file)) return fail_errno(err, STATUS_OS, "%s:%u", table->path, table->number + 1);
    if (got < 0) return STATUS_OK;
    table->number++;
    if (strlen(*line) == *length) return STATUS_OK;
    return fail(err, STATUS_DATA, "%s:%u: a zero byte; give a text in UTF-8", table->path, table->number);
}

// Appends lines while a quote is open.
static Status continue_row(size_t *length, CsvTable *table, const char *ends, Error *err) {
    Within within = scan(AT_FIELD, table->line, ends);
    while (within == IN_QUOTES) {
        size_t more = 0;
        TRY(next_line(&table->more_lines, &table->more_room, &more, table, err));
        if (more == 0)
            return fail(err, STATUS_DATA, "%s:%u: a quote that is not closed; a quote within quotes is written twice",
                        table->path, table->row);
        if (*length + more > MOST_ROW_BYTES)
            return fail(err, STATUS_DATA, "%s:%u: a row of more than %d MiB; a quote is probably not closed",
                        table->path, table->row, MOST_ROW_MIB);
        if (*length + more >= table->room) {
            table->room = 2 * (*length + more + 1);
            char *grown = realloc(table->line, table->room);
            if (!grown) return fail(err, STATUS_OS, "no memory for a row of %s", table->path);
            table->line = grown;
        }
        memcpy(table->line + *length, table->more_lines, more + 1);
        *length += more;
        within = scan(within, table->more_lines, ends);
    }
    return STATUS_OK;
}

// Reads the next row that is not blank, without its end.
static Status next_record(bool *more, CsvTable *table, const char *ends, Error *err) {
    for (;;) {
        size_t length = 0;
        TRY(next_line(&table->line, &table->room, &length, table, err));
        *more = length > 0;
        if (!*more) return STATUS_OK;
        table->row = table->number;
        if (memchr(table->line, '"', length)) TRY(continue_row(&length, table, ends, err));
        while (length > 0 && (table->line[length - 1] == '\n' || table->line[length - 1] == '\r'))
            table->line[--length] = '\0';
        if (length > strspn(table->line, " ")) return STATUS_OK;
    }
}

// Fields --------------------------------------------------------------------------------------------------------------

static bool is_blank(const CsvTable *table, char letter) {
    return letter == ' ' || (letter == '\t' && table->separator != '\t');
}

// Takes the text between quotes, and removes the doubled ones. Returns the first letter after it.
static char *take_quoted(char **field) {
    char *from = ++*field, *to = from;
    for (; *from && (*from != '"' || from[1] == '"'); from++) {
        if (*from == '"') from++;
        *to++ = *from;
    }
    char *after = *from ? from + 1 : from;
    *to = '\0';
    return after;
}

// Removes the next field from *rest; *rest is NULL after the last. Returns NULL if letters follow a closing quote.
static char *next_field(char **rest, const CsvTable *table) {
    char *field = *rest;
    while (is_blank(table, *field))
        field++;
    if (*field == '"') {
        char *after = take_quoted(&field);
        while (is_blank(table, *after))
            after++;
        if (*after && *after != table->separator) return NULL;
        *rest = *after ? after + 1 : NULL;
        return field;
    }
    char *end = strchr(field, table->separator);
    *rest = end ? end + 1 : NULL;
    if (!end) end = field + strlen(field);
    while (end > field && is_blank(table, end[-1]))
        end--;
    *end = '\0';
    return field;
}

// The columns that are in the file.
static int own_columns(const CsvTable *table) {
    return table->columns - (table->client != NULL);
}

static Status cut_row(CsvTable *table, Error *err) {
    const int columns = own_columns(table);
    int column = 0;
    for (char *rest = table->line; rest; column++) {
        char *field = next_field(&rest, table);
        if (!field)
            return fail(err, STATUS_DATA,
                        "%s:%u: field %d goes on after its closing quote; a quote within quotes is written twice",
                        table->path, table->row, column + 1);
        if (column == columns)
            return fail(err, STATUS_DATA, "%s:%u: more columns than the %d of the first line", table->path, table->row,
                        columns);
        table->fields[column] = field;
    }
    if (table->client) table->fields[columns] = table->client;
    if (column == columns) return STATUS_OK;
    return fail(err, STATUS_DATA, "%s:%u: fewer columns than the %d of the first line", table->path, table->row,
                columns);
}

Status csv_next_row(bool *more, CsvTable *table, Error *err) {
    const char ends[] = {table->separator, '\0'};
    *more = true;
    if (!table->is_unread) TRY(next_record(more, table, ends, err));
    table->is_unread = false;
    return *more ? cut_row(table, err) : STATUS_OK;
}

// Names ---------------------------------------------------------------------------------------------------------------

bool csv_has_same_names(const CsvTable *a, const CsvTable *b) {
    bool same = a->columns == b->columns;
    for (int column = 0; column < a->columns && same; column++)
        same = strcmp(a->names[column], b->names[column]) == 0;
    return same;
}

// A column without a name usually contains the row numbers that pandas and R write by default: it would become a
// feature, and if rows are sorted by class it gives the label away. pandas names such a column "Unnamed: 0" when it
// reads it.
static Status check_name(const CsvTable *table, int index, Error *err) {
    const char *name = table->names[index];
    const int column = index + 1;
    const bool is_unnamed = strncmp(name, "Unnamed: ", strlen("Unnamed: ")) == 0;
    if (*name && !is_unnamed) return STATUS_OK;
    if (column == 1 || is_unnamed)
        return fail(
            err, STATUS_DATA,
            "%s:1: column %d has %s%s, as pandas' and R's row numbers have: they would become a feature; write the "
            "table without them: df.to_csv(FILE, index=False), write.csv(..., row.names=FALSE)",
            table->path, column, *name ? "the name " : "no name", name);
    return fail(err, STATUS_DATA, "%s:1: column %d has no name; %s", table->path, column,
                column == own_columns(table) ? "leave out the comma at the end of the line" : "each column needs one");
}

// Counts the separators of the first line that are not in quotes; the most frequent one separates the columns.
static void find_separator(CsvTable *table, const char *line) {
    int counts[sizeof separators] = {0}, best = 0;
    char letter[2] = "";
    Within within = AT_FIELD;
    for (; *line; line++) {
        const char *separator = strchr(separators, *line);
        if (separator && within != IN_QUOTES) counts[separator - separators]++;
        *letter = *line;
        within = scan(within, letter, separators);
    }
    for (int i = 1; i < (int)sizeof separators - 1; i++)
        if (counts[i] > counts[best]) best = i;
    table->separator = separators[best];
    table->columns = counts[best] + 1 + (table->client != NULL);
}

static Status make_room(CsvTable *table, size_t name_bytes, Error *err) {
    const size_t columns = (size_t)table->columns;
    table->fields = malloc(columns * sizeof *table->fields);
    table->names = malloc(columns * sizeof *table->names + name_bytes);
    if (table->fields && table->names) return STATUS_OK;
    return fail(err, STATUS_OS, "no memory for the columns of %s", table->path);
}

static char client_column[] = "file";

static Status name_by_number(CsvTable *table, Error *err) {
    enum { DIGITS = 11 };
    TRY(make_room(table, (size_t)table->columns * DIGITS, err));
    char *to = (char *)(table->names + table->columns);
    for (int column = 0; column < own_columns(table); column++) {
        table->names[column] = to;
        to += sprintf(to, "%d", column + 1) + 1;
    }
    if (table->client) table->names[table->columns - 1] = client_column;
    table->is_unread = true;
    return STATUS_OK;
}

static Status take_names(CsvTable *table, Error *err) {
    TRY(make_room(table, strlen(table->line) + 2, err));
    TRY(cut_row(table, err));
    char *to = (char *)(table->names + table->columns);
    if (table->client) table->names[table->columns - 1] = client_column;
    for (int column = 0; column < own_columns(table); column++) {
        table->names[column] = to;
        to = stpcpy(to, table->fields[column]) + 1;
        for (char *letter = table->names[column]; *letter; letter++)
            if (*letter == '\n' || *letter == '\r' || *letter == '\t') *letter = ' ';
        TRY(check_name(table, column, err));
        if (table->client && strcmp(table->names[column], client_column) == 0)
            return fail(err, STATUS_DATA, "%s:1: a column is called file, as client=file calls the client; rename it",
                        table->path);
    }
    return STATUS_OK;
}

static bool are_numbers(const CsvTable *table) {
    bool all = true;
    for (int column = 0; column < own_columns(table) && all; column++) {
        char *end;
        strtod(table->names[column], &end);
        all = end != table->names[column] && !*end;
    }
    return all;
}

// Says whether a column has a few whole numbers, which repeat, among the next rows. seen: by number.
static bool is_few_numbers(const uint32_t seen[], uint32_t numbers, uint32_t rows, bool whole) {
    uint32_t different = 0;
    for (uint32_t i = 0; i < numbers; i++)
        different += seen[i] > 0;
    return whole && different > 1 && 2 * different <= rows;
}

// Number of the first or the last column of a table without names, whichever alone looks like classes; 0: neither does,
// or both do.
static int likely_label(CsvTable *table) {
    enum { ROWS = 1000, NUMBERS = 100 };
    uint32_t seen[2][NUMBERS] = {{0}}, rows = 1;
    bool whole[2] = {true, true}, more = true;
    const int columns[2] = {0, own_columns(table) - 1};
    for (; rows < ROWS; rows++) {
        for (int i = 0; i < 2; i++) {
            char *end;
            const char *text = rows == 1 ? table->names[columns[i]] : table->fields[columns[i]];
            const double number = strtod(text, &end);
            whole[i] = whole[i] && !*end && number >= 0 && number < NUMBERS && number == (uint32_t)number;
            if (whole[i]) seen[i][(uint32_t)number]++;
        }
        if (csv_next_row(&more, table, NULL) != STATUS_OK || !more) break;
    }
    const bool first = is_few_numbers(seen[0], NUMBERS, rows, whole[0]),
               last = is_few_numbers(seen[1], NUMBERS, rows, whole[1]);
    return first == last ? 0 : first ? 1 : own_columns(table);
}

static Status read_names(CsvTable *table, bool has_header, Error *err) {
    bool more = false;
    TRY(next_record(&more, table, separators, err));
    if (!more) return fail(err, STATUS_DATA, "%s: empty; its first line has the names of columns", table->path);
    if (strncmp(table->line, "\xef\xbb\xbf", 3) == 0)
        memmove(table->line, table->line + 3, strlen(table->line + 3) + 1);
    if (strchr(table->line, '\r') && !strchr(table->line, '\n'))
        return fail(err, STATUS_DATA,
                    "%s:1: lines end with carriage returns alone; end them with newlines: tr '\\r' '\\n'", table->path);
    if (*table->line == '#')
        return fail(err, STATUS_DATA, "%s:1: a comment; the first line has the names of the columns", table->path);
    find_separator(table, table->line);
    if (!has_header) return name_by_number(table, err);
    TRY(take_names(table, err));
    if (!are_numbers(table)) return STATUS_OK;
    char likely[16] = "COLUMN";
    const int column = likely_label(table);
    if (column > 0) snprintf(likely, sizeof likely, "%d", column);
    return fail(err, STATUS_DATA,
                "%s:1: numbers; the first line has the names of the columns, one of them label; if it has none, say "
                "so and name columns by their numbers: --data \"FILE header=no label=%s\"",
                table->path, likely);
}

// Opening -------------------------------------------------------------------------------------------------------------

void csv_close(CsvTable *table) {
    if (table->file) fclose(table->file);
    free(table->line);
    free(table->more_lines);
    free(table->names);
    free(table->fields);
    free(table->client);
    *table = (CsvTable){0};
}

Status csv_open(CsvTable *table, const char *path, bool has_header, const char *client, Error *err) {
    *table = (CsvTable){.path = path, .client = client ? strdup(client) : NULL};
    if (client && !table->client) return fail(err, STATUS_OS, "no memory for %s", path);
    Status status = open_file(table, err);
    if (status == STATUS_OK) status = read_names(table, has_header, err);
    if (status != STATUS_OK) csv_close(table);
    return status;
}

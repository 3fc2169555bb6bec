#include "io/metrics.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"

static const char FILE_NAME[] = "metrics.jsonl";

// Reading ------------------------------------------------------------------------------------------------------------

// Opens the file for reading; another process may be writing it. *file is NULL if there is none.
static Status open_past(FILE **file, char path[4096], const Folder *folder, Error *err) {
    if (snprintf(path, 4096, "%s/%s", folder->path, FILE_NAME) >= 4096)
        return fail(err, STATUS_CANTCREATE, "the path of %s is too long: %s", FILE_NAME, folder->path);
    int fd = openat(folder->fd, FILE_NAME, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    *file = fd < 0 ? NULL : fdopen(fd, "r");
    if (*file || (fd < 0 && errno == ENOENT)) return STATUS_OK;
    Status status = fail_errno(err, STATUS_IO, "%s cannot be read", path);
    if (fd >= 0) close(fd);
    return status;
}

// The current line of the file. Lines after the file's end at the time of the first read are ignored: a run may write
// faster than its lines are read.
typedef struct Line {
    char *text; // owned, with its newline if it has one
    size_t capacity, bytes;
    uint64_t first_byte; // offset of the line in the file
    uint64_t end;        // size of the file when its first line was read
    uint64_t number;     // counts from 1
    json_t *object;      // owned; NULL: torn, damaged, or of a type that is not wanted
    bool is_noted;       // a warning about damaged lines was logged
} Line;

// Says whether a line may be of one of the types (NULL-terminated; no list: any type). A run writes the type first; a
// line edited by hand may begin otherwise and has to be parsed.
static bool may_be_of(const char *text, const char *const *types) {
    static const char beginning[] = "{\"type\":\"";
    if (!types || strncmp(text, beginning, sizeof beginning - 1) != 0) return true;
    text += sizeof beginning - 1;
    for (; *types; types++)
        if (strncmp(text, *types, strlen(*types)) == 0 && text[strlen(*types)] == '"') return true;
    return false;
}

// A line that no run can have written leaves a gap in the record, so it is reported, once per file. The last line may
// be torn because the run was killed; that is not reported.
static void note_damage(Line *line, const char *path, const char *why) {
    if (!line->is_noted)
        log_warning("%s, line %llu: damaged (%s); it and all others like it are left out", path,
                    (unsigned long long)line->number, why);
    line->is_noted = true;
}

static const char *damage_of(const json_t *object) {
    const json_t *type = json_object_get(object, "type"), *round = json_object_get(object, "round");
    const bool is_round =
        json_is_integer(round) && json_integer_value(round) >= 0 && json_integer_value(round) <= UINT32_MAX;
    if (type && !json_is_string(type)) return "its type is no text";
    return round && !is_round ? "its round is no number of a round" : NULL;
}

static Status parse(Line *line, const char *path, Error *err) {
    Error why;
    const Status status = json_read_object(&line->object, line->text, line->bytes, path, line->first_byte, &why);
    if (status != STATUS_OK && status != STATUS_DATA) return fail(err, status, "%s", why.message);
    const char *damage = status == STATUS_DATA ? "it is no JSON object" : damage_of(line->object);
    if (!damage) return STATUS_OK;
    note_damage(line, path, damage);
    json_decref(line->object);
    line->object = NULL;
    return STATUS_OK;
}

// Reads the next line; *more is false at the end. Lines that are not of the types (NULL: all types) get no object.
static Status next_line(Line *line, bool *more, FILE *file, const char *const *types, const char *path, Error *err) {
    json_decref(line->object);
    line->object = NULL;
    line->first_byte += line->bytes;
    line->bytes = 0;
    struct stat about;
    if (line->end == 0 && fstat(fileno(file), &about) != 0)
        return fail_errno(err, STATUS_IO, "%s cannot be read", path);
    if (line->end == 0) line->end = (uint64_t)about.st_size;
    *more = line->first_byte < line->end;
    if (!*more) return STATUS_OK;
    errno = 0;
    ssize_t bytes = getline(&line->text, &line->capacity, file);
    *more = bytes > 0;
    if (bytes < 0 && (errno || !feof(file))) return fail_errno(err, STATUS_IO, "%s cannot be read", path);
    if (bytes < 0) return STATUS_OK;
    line->bytes = (size_t)bytes;
    assert(line->first_byte < line->end && strlen(line->text) <= line->bytes);
    line->number++;
    const bool is_whole = line->text[bytes - 1] == '\n';
    return is_whole && may_be_of(line->text, types) ? parse(line, path, err) : STATUS_OK;
}

static void line_free(Line *line) {
    json_decref(line->object);
    free(line->text);
}

bool metrics_is(const json_t *line, const char *type) {
    const char *text = json_string_value(json_object_get(line, "type"));
    return text && strcmp(text, type) == 0;
}

static json_int_t round_of(const json_t *object) {
    return json_integer_value(json_object_get(object, "round")); // 0 if the line has no round
}

static void replace(json_t **kept, json_t *object) {
    json_decref(*kept);
    *kept = json_incref(object);
}

static Status note_past(void *context, json_t *object, Error *err) {
    (void)err;
    MetricsPast *past = context;
    const json_int_t told = metrics_is(object, "round") ? round_of(object) : 0;
    if (told > past->round) past->round = (uint32_t)told;
    if (metrics_is(object, "start")) replace(&past->start, object);
    replace(&past->summary, metrics_is(object, "summary") ? object : NULL);
    return STATUS_OK;
}

void metrics_past_free(MetricsPast *past) {
    json_decref(past->start);
    json_decref(past->summary);
    *past = (MetricsPast){0};
}

Status metrics_past(MetricsPast *past, const Folder *folder, Error *err) {
    *past = (MetricsPast){0};
    const Status status = metrics_visit(folder, NULL, note_past, past, err);
    if (status != STATUS_OK) metrics_past_free(past);
    return status;
}

static bool is_one_of(const json_t *object, const char *const *types) {
    bool found = !types;
    for (; !found && *types; types++)
        found = metrics_is(object, *types);
    return found;
}

Status metrics_visit(const Folder *folder, const char *const *types,
                     Status (*visit)(void *context, json_t *line, Error *err), void *context, Error *err) {
    FILE *file;
    char path[4096];
    TRY(open_past(&file, path, folder, err));
    Line line = {0};
    Status status = STATUS_OK;
    for (bool more = file != NULL; more && status == STATUS_OK;) {
        status = next_line(&line, &more, file, types, path, err);
        if (status == STATUS_OK && line.object && is_one_of(line.object, types))
            status = visit(context, line.object, err);
    }
    line_free(&line);
    if (file) fclose(file);
    return status;
}

Status metrics_check_format(const char *path, Error *err) {
    static const char *const types[] = {"start", NULL};
    const Folder folder = {.fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), .path = path};
    if (folder.fd < 0) return fail_errno(err, STATUS_NOINPUT, "%.200s cannot be opened", path);
    FILE *file = NULL;
    char name[4096];
    bool more;
    Line line = {.is_noted = true}; // the reader of all lines reports damage
    Status status = open_past(&file, name, &folder, err);
    if (status == STATUS_OK && file) status = next_line(&line, &more, file, types, name, err);
    const json_t *schema = json_object_get(line.object, "schema");
    const char *version = json_string_value(json_object_get(line.object, "sounder"));
    if (status == STATUS_OK && json_is_integer(schema) && json_integer_value(schema) != METRICS_SCHEMA)
        status =
            fail(err, STATUS_DATA,
                 "%.200s: the run has format %lld, and this program reads format %d; use "
                 "Sounder %.32s, which wrote it",
                 path, (long long)json_integer_value(schema), METRICS_SCHEMA, version ? version : "of that format");
    line_free(&line);
    if (file) fclose(file);
    close(folder.fd);
    return status;
}

Status metrics_visit_run(const char *path, const char *const *types,
                         Status (*visit)(void *context, json_t *line, Error *err), void *context, Error *err) {
    const Folder folder = {.fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), .path = path};
    if (folder.fd < 0) return fail_errno(err, STATUS_NOINPUT, "%.200s cannot be opened", path);
    const Status status = metrics_visit(&folder, types, visit, context, err);
    close(folder.fd);
    return status;
}

// Says whether a run that continues after `rounds_done` rounds keeps this line: not if it is torn, belongs to a later
// round or is a summary.
static bool is_kept(const Line *line, uint32_t rounds_done) {
    return line->object && round_of(line->object) <= (json_int_t)rounds_done && !metrics_is(line->object, "summary");
}

// Rewrites the file without the lines that a run after `rounds_done` rounds does not keep, unless it keeps all.
static Status remove_undone(const Folder *folder, uint32_t rounds_done, Error *err) {
    char path[4096];
    FILE *file;
    TRY(open_past(&file, path, folder, err));
    if (!file) return STATUS_OK;
    struct stat about = {.st_size = 0};
    Status status =
        fstat(fileno(file), &about) == 0 ? STATUS_OK : fail_errno(err, STATUS_IO, "%s cannot be read", path);
    const size_t most = (size_t)about.st_size;
    size_t kept = 0;
    char *text = malloc(most + 1);
    if (!text) status = fail(err, STATUS_OS, "%s: no memory for its %zu bytes", path, most);
    Line line = {.is_noted = true}; // metrics_past has reported damage before
    for (bool more = true; more && status == STATUS_OK;) {
        status = next_line(&line, &more, file, NULL, path, err);
        if (status != STATUS_OK || !more || !is_kept(&line, rounds_done)) continue;
        if (line.bytes > most - kept) status = fail(err, STATUS_IO, "%s grows while it is read", path);
        if (status == STATUS_OK) memcpy(text + kept, line.text, line.bytes);
        assert(status != STATUS_OK || kept + line.bytes <= most);
        kept += line.bytes;
    }
    line_free(&line);
    fclose(file);
    if (status == STATUS_OK && kept < line.first_byte)
        status = durable_write(folder, FILE_NAME, &(FilePart){text, kept}, 1, err);
    free(text);
    return status;
}

// Writing ------------------------------------------------------------------------------------------------------------

static Status open_to_append(Metrics *metrics, const Folder *folder, int flags, Error *err) {
    metrics->on_line = NULL;
    if ((size_t)snprintf(metrics->path, sizeof metrics->path, "%s/%s", folder->path, FILE_NAME) >= sizeof metrics->path)
        return fail(err, STATUS_CANTCREATE, "the path of %s is too long: %s", FILE_NAME, folder->path);
    flags |= O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC; // a FIFO would wait for a reader
    metrics->fd = openat(folder->fd, FILE_NAME, flags, 0666);
    if (metrics->fd < 0) return fail_errno(err, STATUS_CANTCREATE, "%s cannot be created", metrics->path);
    Status status = file_check_own(metrics->fd, metrics->path, err);
    if (status == STATUS_OK && fsync(folder->fd) != 0)
        status = fail_errno(err, STATUS_IO, "%s: its folder cannot be synced", metrics->path);
    if (status != STATUS_OK) metrics_close(metrics);
    return status;
}

Status metrics_create(Metrics *metrics, const Folder *folder, Error *err) {
    return open_to_append(metrics, folder, O_EXCL, err);
}

Status metrics_reopen(Metrics *metrics, const Folder *folder, uint32_t rounds_done, Error *err) {
    TRY(remove_undone(folder, rounds_done, err));
    return open_to_append(metrics, folder, 0, err);
}

void metrics_begin(JsonObject *line, const char *type) {
    struct timespec now;
    struct tm parts;
    char seconds[32], text[48];
    clock_gettime(CLOCK_REALTIME, &now);
    strftime(seconds, sizeof seconds, "%Y-%m-%dT%H:%M:%S", gmtime_r(&now.tv_sec, &parts));
    snprintf(text, sizeof text, "%s.%03ldZ", seconds, now.tv_nsec / 1000000);
    json_begin(line);
    put_text(line, "type", type);
    put_text(line, "time", text);
}

Status metrics_append(Metrics *metrics, JsonObject *line, Error *err) {
    char *text;
    size_t length;
    json_t *root = json_incref(line->root);
    assert(metrics->fd >= 0);
    Status status =
        json_text(&text, &length, line, JSON_COMPACT | JSON_REAL_PRECISION(METRICS_DIGITS), metrics->path, err);
    if (status == STATUS_OK) {
        text[length] = '\n'; // replaces the terminator
        status = file_append(metrics->fd, metrics->path, "a line", text, length + 1, err);
        free(text);
    }
    if (status == STATUS_OK && metrics->on_line) metrics->on_line(metrics->context, root);
    json_decref(root);
    return status;
}

Status metrics_sync(const Metrics *metrics, Error *err) {
    if (fdatasync(metrics->fd) == 0) return STATUS_OK;
    return fail_errno(err, STATUS_IO, "%s cannot be synced", metrics->path);
}

void metrics_close(Metrics *metrics) {
    close(metrics->fd);
    metrics->fd = -1;
}

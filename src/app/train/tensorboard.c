#include "tensorboard.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "app/options/option_table.h"
#include "base/log.h"
#include "base/text_stream.h"
#include "fedavg/figures/figure.h"
#include "io/metrics.h"

static const char FOLDER[] = "tensorboard", PREFIX[] = "events.out.tfevents.";

// The first failure ends the writing: with one record missing, later ones would be wrong, too.
static void give_up(Tensorboard *tensorboard, const Error *err) {
    log_warning("%s/%s: %s; the run goes on without (metrics.jsonl has everything)", tensorboard->folder.path, FOLDER,
                err->message);
    tensorboard->wanted = false;
}

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

// Reads the time of a line: 2026-11-22T01:18:15.123Z.
static double time_of(const json_t *line) {
    const char *text = json_string_value(json_object_get(line, "time"));
    struct tm parts = {0};
    int milliseconds = 0;
    if (!text || sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d.%3d", &parts.tm_year, &parts.tm_mon, &parts.tm_mday,
                        &parts.tm_hour, &parts.tm_min, &parts.tm_sec, &milliseconds) < 6)
        return seconds_now();
    parts.tm_year -= 1900;
    parts.tm_mon -= 1;
    return (double)timegm(&parts) + milliseconds * 1e-3;
}

// Series of clients ---------------------------------------------------------------------------------------------------

static TensorboardSeries *series_of(Tensorboard *tensorboard, const char *tag) {
    for (size_t i = 0; i < tensorboard->series_count; i++)
        if (strcmp(tensorboard->series[i].tag, tag) == 0) return &tensorboard->series[i];
    TensorboardSeries *more =
        realloc(tensorboard->series, (tensorboard->series_count + 1) * sizeof *tensorboard->series);
    if (!more) return NULL;
    tensorboard->series = more;
    more += tensorboard->series_count++;
    *more = (TensorboardSeries){0};
    snprintf(more->tag, sizeof more->tag, "%s", tag);
    return more;
}

static bool add_to_series(Tensorboard *tensorboard, const char *group, const char *key, double value) {
    char tag[sizeof tensorboard->series->tag];
    snprintf(tag, sizeof tag, "%s/%s", group, key);
    TensorboardSeries *series = series_of(tensorboard, tag);
    if (series && series->count == series->capacity) {
        const size_t capacity = 2 * series->capacity + 16;
        double *values = realloc(series->values, capacity * sizeof *values);
        if (!values) return false;
        series->values = values;
        series->capacity = capacity;
    }
    if (series) series->values[series->count++] = value;
    return series != NULL;
}

// Only reals: a histogram of client, rank or class numbers would be meaningless. A trainer's metrics, which may have
// the names of a line's own numbers, get a group of their own.
static void collect(Tensorboard *tensorboard, const char *group, const json_t *line) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)line, key, value) {
        if (!json_is_real(value) || add_to_series(tensorboard, group, key, json_real_value(value))) continue;
        give_up(tensorboard, &(Error){.message = "no memory for what clients tell"});
        return;
    }
    char of[80];
    snprintf(of, sizeof of, "%.70s_metrics", group);
    if (json_object_get(line, "metrics")) collect(tensorboard, of, json_object_get(line, "metrics"));
}

static void put_series(Tensorboard *tensorboard) {
    for (size_t i = 0; i < tensorboard->series_count; i++) {
        TensorboardSeries *series = &tensorboard->series[i];
        if (series->count > 0) event_histogram(&tensorboard->file, series->tag, series->values, series->count);
        series->count = 0;
    }
}

// Rounds --------------------------------------------------------------------------------------------------------------

// Returns the group of a key, which becomes a section in TensorBoard.
static const char *group_of(const char *key) {
    static const struct {
        const char *part, *group;
    } groups[] = {{"loss", "loss"},        {"seconds", "time"},         {"samples", "time"},   {"bytes", "network"},
                  {"clients_", "cohort"},  {"abandoned", "cohort"},     {"update", "updates"}, {"staleness", "updates"},
                  {"gradient", "updates"}, {"steps_refused", "updates"}};
    const Figure *figure = figure_of_key(NULL, key);
    if (figure && figure->of != FIGURE_OF_ATTACK) return figure->traits & FIGURE_IS_SHARE ? "accuracy" : "loss";
    if (strcmp(key, "workers_lost") == 0) return "round";
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (strstr(key, groups[i].part)) return groups[i].group;
    return "round";
}

static void put_staleness(EventFile *file, const char *tag, const double *counts, size_t count) {
    double updates = 0;
    for (size_t i = 0; i < count; i++)
        updates += counts[i];
    if (updates > 0) event_counted(file, tag, counts, count);
}

static void put_array(Tensorboard *tensorboard, const char *tag, const json_t *array, bool counted) {
    const size_t most = json_array_size(array);
    double *values = malloc((most + 1) * sizeof *values);
    size_t count = 0;
    for (size_t i = 0; i < most && values; i++)
        if (json_is_number(json_array_get(array, i))) values[count++] = json_number_value(json_array_get(array, i));
    if (!values)
        tensorboard->file.record.no_memory = true;
    else if (count == most && counted)
        put_staleness(&tensorboard->file, tag, values, count);
    else if (count > 0 && !counted)
        event_histogram(&tensorboard->file, tag, values, count);
    free(values);
}

// group: NULL takes the group of the key.
static void put_line(Tensorboard *tensorboard, const char *group, const json_t *line) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)line, key, value) {
        char tag[192];
        snprintf(tag, sizeof tag, "%s/%s", group ? group : group_of(key), key);
        if (strcmp(key, "round") == 0) continue;
        if (json_is_number(value)) event_scalar(&tensorboard->file, tag, json_number_value(value));
        if (json_is_boolean(value)) event_scalar(&tensorboard->file, tag, json_is_true(value));
        if (json_is_object(value) && !group && strstr(key, "metrics")) put_line(tensorboard, key, value);
        if (json_is_array(value) && !group) put_array(tensorboard, tag, value, strcmp(key, "staleness") == 0);
    }
}

// The file ------------------------------------------------------------------------------------------------------------

// tensorboard.hparams: HParamsPluginData {session_start_info = 3 {hparams = 1 {key = 1, value = 2}, start_time_secs =
// 5}, session_end_info = 4 {status = 1, end_time_secs = 2}}; google.protobuf.Value: number = 2, string = 3, bool = 4
static void put_option(Message *record, const Options *options, const Option *option) {
    char text[OPTION_VALUE_BYTES];
    const bool empty = !option->preset && option_is_zero(options, option);
    if (empty || option->unsaved || !option_applies(options, option)) return;
    option_format(text, options, option);
    message_begin(record, 1);
    message_text(record, 1, option->name);
    message_begin(record, 2);
    if (option->type == OPTION_FLAG)
        message_whole(record, 4, strcmp(text, "true") == 0);
    else if (option->type == OPTION_TEXT || option->type == OPTION_CHOICE || option->type == OPTION_FORM)
        message_text(record, 3, text);
    else
        message_real(record, 2, strtod(text, NULL));
    message_end(record);
    message_end(record);
}

static void put_session_start(Tensorboard *tensorboard, double now) {
    Message *record = &tensorboard->file.record;
    event_plugin_begin(&tensorboard->file, "_hparams_/session_start_info", "hparams");
    message_begin(record, 3);
    for (int i = 0; i < option_count; i++)
        put_option(record, tensorboard->options, &option_table[i]);
    message_real(record, 5, now);
    message_end(record);
    event_plugin_end(&tensorboard->file);
}

static void put_session_end(EventFile *file, double now) {
    enum { SUCCESS = 1 };
    event_plugin_begin(file, "_hparams_/session_end_info", "hparams");
    message_begin(&file->record, 4);
    message_whole(&file->record, 1, SUCCESS);
    message_real(&file->record, 2, now);
    message_end(&file->record);
    event_plugin_end(file);
}

// As Markdown for the text page, where four blanks mark a line as code.
static Status put_config(Tensorboard *tensorboard, Error *err) {
    TextStream stream;
    FILE *file = text_open(&stream);
    Status status = file ? options_write_yaml(tensorboard->options, file, err) : STATUS_OK;
    if (!text_close(&stream) && status == STATUS_OK) status = fail(err, STATUS_OS, "no memory for the configuration");
    const char *text = stream.text;
    char *code = status == STATUS_OK ? malloc(5 * stream.bytes + 6) : NULL, *end = code;
    for (const char *c = text; code && c && *c; c++) {
        if (c == text || c[-1] == '\n') end = stpcpy(end, "    ");
        *end++ = *c;
    }
    if (code) {
        *end = '\0';
        event_text(&tensorboard->file, "config", code);
    } else if (status == STATUS_OK) {
        status = fail(err, STATUS_OS, "no memory for the configuration");
    }
    free(code);
    free(stream.text);
    return status;
}

// Returns the number in the name of the latest file in the folder; 0 if there is none.
static Status find_latest(uint64_t *latest, int folder_fd, Error *err) {
    int copy = openat(folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = copy < 0 ? NULL : fdopendir(copy);
    *latest = 0;
    if (!list) {
        Status status = fail_errno(err, STATUS_IO, "cannot be listed");
        if (copy >= 0) close(copy);
        return status;
    }
    for (const struct dirent *entry; (entry = readdir(list));) {
        if (strncmp(entry->d_name, PREFIX, sizeof PREFIX - 1) != 0) continue;
        const uint64_t number = strtoull(entry->d_name + sizeof PREFIX - 1, NULL, 10);
        if (number > *latest && number < UINT64_MAX) *latest = number;
    }
    closedir(list);
    return STATUS_OK;
}

// TensorBoard reads the files of a folder in the order of their names. The number is the time, or one more if the last
// process began in the same second.
static Status create_file(Tensorboard *tensorboard, int folder_fd, Error *err) {
    char host[128] = "", name[256];
    const double now = seconds_now();
    uint64_t latest, number = (uint64_t)now;
    TRY(find_latest(&latest, folder_fd, err));
    tensorboard->goes_on = latest > 0;
    if (number <= latest) number = latest + 1;
    gethostname(host, sizeof host - 1);
    for (char *c = host; *c; c++)
        if (!isalnum((unsigned char)*c)) *c = '-';
    snprintf(name, sizeof name, "%s%010" PRIu64 ".%s.%d.0", PREFIX, number, host, (int)getpid());
    return event_file_create(&tensorboard->file, folder_fd, name, now, err);
}

static Status put_beginning(Tensorboard *tensorboard, Error *err) {
    const double now = seconds_now();
    if (tensorboard->goes_on) TRY(event_restart(&tensorboard->file, now, (int64_t)tensorboard->rounds_done + 1, err));
    event_begin(&tensorboard->file, now, 0);
    put_session_start(tensorboard, now);
    TRY(put_config(tensorboard, err));
    return event_end(&tensorboard->file, err);
}

static Status open_file(Tensorboard *tensorboard, Error *err) {
    if (mkdirat(tensorboard->folder.fd, FOLDER, 0777) < 0 && errno != EEXIST)
        return fail_errno(err, STATUS_CANTCREATE, "cannot be created");
    int folder_fd = openat(tensorboard->folder.fd, FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder_fd < 0) return fail_errno(err, STATUS_CANTCREATE, "cannot be opened");
    Status status = create_file(tensorboard, folder_fd, err);
    close(folder_fd);
    TRY(status);
    tensorboard->open = true;
    return put_beginning(tensorboard, err);
}

// Lines ---------------------------------------------------------------------------------------------------------------

// Writes an event at the end of a round, of a test of the clients, or of the run.
static Status write_event(Tensorboard *tensorboard, const char *group, const json_t *line, Error *err) {
    const double now = time_of(line);
    if (!tensorboard->open) TRY(open_file(tensorboard, err));
    const bool ends = metrics_is(line, "summary");
    event_begin(&tensorboard->file, now, json_integer_value(json_object_get(line, ends ? "rounds" : "round")));
    if (ends) {
        put_session_end(&tensorboard->file, now);
    } else {
        put_line(tensorboard, group, line);
        put_series(tensorboard);
    }
    return event_end(&tensorboard->file, err);
}

void tensorboard_note(Tensorboard *tensorboard, const json_t *line) {
    char group[64];
    Error err;
    if (!tensorboard->wanted) return;
    const char *model = json_string_value(json_object_get(line, "model"));
    snprintf(group, sizeof group, "clients%s%.48s", model ? "_" : "", model ? model : "");
    if (metrics_is(line, "client") || metrics_is(line, "client_evaluation")) {
        collect(tensorboard, group, line);
        return;
    }
    const bool evaluates = metrics_is(line, "clients_evaluation");
    if (!evaluates && !metrics_is(line, "round") && !metrics_is(line, "summary")) return;
    if (write_event(tensorboard, evaluates ? group : NULL, line, &err) != STATUS_OK) give_up(tensorboard, &err);
}

static Status note_past(void *context, json_t *line, Error *err) {
    (void)err;
    tensorboard_note(context, line);
    return STATUS_OK;
}

void tensorboard_begin(Tensorboard *tensorboard, const Folder *folder, const Options *options, uint32_t rounds_done) {
    Error err;
    *tensorboard = (Tensorboard){.folder = *folder,
                                 .options = options,
                                 .file = {.fd = -1},
                                 .wanted = options->tensorboard,
                                 .rounds_done = rounds_done};
    if (!tensorboard->wanted || rounds_done == 0) return;
    Status status = open_file(tensorboard, &err);
    if (status == STATUS_OK && !tensorboard->goes_on)
        status = metrics_visit(folder, NULL, note_past, tensorboard, &err);
    if (status != STATUS_OK) give_up(tensorboard, &err);
}

void tensorboard_end(Tensorboard *tensorboard) {
    if (tensorboard->open) event_file_close(&tensorboard->file);
    for (size_t i = 0; i < tensorboard->series_count; i++)
        free(tensorboard->series[i].values);
    free(tensorboard->series);
    *tensorboard = (Tensorboard){0};
}

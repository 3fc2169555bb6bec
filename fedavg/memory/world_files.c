#include "world_files.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "fedavg/memory/fingerprint.h"

enum { WEIGHT_COLUMNS = 2, LEAST_COLUMNS = 3, MOST_COLUMNS = 5 };

typedef struct Reader {
    const char *path, *form; // borrowed; form: what a line is
    FILE *file;              // owned
    char *text;              // owned: a line
    size_t capacity;
    unsigned line;
    double number[MOST_COLUMNS];
    int least, most, columns; // numbers that a line may have; that the first one has
} Reader;

// Each refusal shows the line's number and its form: such files are written by scripts, and their authors look there.
static Status refuse(const Reader *reader, const char *why, Error *err) {
    return fail(err, STATUS_DATA, "%.500s:%u: %s; a line is \"%s\"", reader->path, reader->line, why, reader->form);
}

static const char *const number_words[] = {"no", "one", "two", "three", "four", "five"};

// Splits a line of `length` bytes into numbers. *found: whether it has any.
static Status read_numbers(Reader *reader, bool *found, size_t length, Error *err) {
    char *rest = reader->text, *word, why[64];
    int count = 0;
    if (strlen(rest) < length) return refuse(reader, "a byte that is 0", err);
    rest[strcspn(rest, "#\n")] = '\0';
    while ((word = strsep(&rest, " ,\t\r"))) {
        char *end;
        if (!*word) continue;
        if (count == reader->most) {
            snprintf(why, sizeof why, "more than %s numbers", number_words[count]);
            return refuse(reader, why, err);
        }
        reader->number[count] = strtod(word, &end);
        if (*end || !isfinite(reader->number[count]) || reader->number[count] < 0)
            return refuse(reader, "not a number from 0 on", err);
        count++;
    }
    *found = count > 0;
    if (count == 0) return STATUS_OK;
    if (count < reader->least) {
        snprintf(why, sizeof why, "fewer than %s numbers", number_words[reader->least]);
        return refuse(reader, why, err);
    }
    if (reader->columns == 0) reader->columns = count;
    return count == reader->columns ? STATUS_OK : refuse(reader, "not as many numbers as the lines before", err);
}

// Reads the next line with numbers into reader->number; *more: false at the end of the file.
static Status next_line(Reader *reader, bool *more, uint32_t clients, Error *err) {
    for (;;) {
        errno = 0;
        const ssize_t length = getline(&reader->text, &reader->capacity, reader->file);
        *more = length > 0;
        if (!*more && !feof(reader->file)) return fail_errno(err, STATUS_IO, "%.500s cannot be read", reader->path);
        if (!*more) return STATUS_OK;
        reader->line++;
        bool found = false;
        TRY(read_numbers(reader, &found, (size_t)length, err));
        if (!found) continue;
        if (reader->number[0] >= clients || reader->number[0] != floor(reader->number[0]))
            return refuse(reader, "no number of a client, which are below --clients", err);
        return STATUS_OK;
    }
}

#define WEIGHT_FORM "CLIENT WEIGHT"
#define NO_WEIGHT   "no weight, which is a number above 0 and at most 10^9"

static bool is_weight(double weight) {
    return weight > 0 && weight <= 1e9;
}

static Status take_power(WorldFiles *files, const Reader *reader, Error *err) {
    const uint32_t client = (uint32_t)reader->number[0];
    if (reader->columns == LEAST_COLUMNS) return STATUS_OK;
    if (!files->powers) files->powers = calloc(files->clients, sizeof *files->powers);
    if (!files->powers) return fail(err, STATUS_OS, "no memory for %u clients", files->clients);
    const double watts = reader->number[3], link_watts = reader->columns == MOST_COLUMNS ? reader->number[4] : watts;
    if (fmax(watts, link_watts) > 1e9) return refuse(reader, "more than 10^9 watts", err);
    files->powers[client] = (ClientPower){watts, link_watts};
    return STATUS_OK;
}

// A negative pace marks a client without a line: every client needs one, since any of them may be drawn.
static Status read_paces(WorldFiles *files, Reader *reader, Error *err) {
    bool more;
    files->paces = malloc(files->clients * sizeof *files->paces);
    if (!files->paces) return fail(err, STATUS_OS, "no memory for %u clients", files->clients);
    for (uint32_t client = 0; client < files->clients; client++)
        files->paces[client].microseconds_per_sample = -1;
    for (;;) {
        TRY(next_line(reader, &more, files->clients, err));
        if (!more) break;
        ClientPace *pace = &files->paces[(uint32_t)reader->number[0]];
        if (pace->microseconds_per_sample >= 0) return refuse(reader, "a second line of this client", err);
        if (reader->number[1] > 1e15) return refuse(reader, "more than 10^15 microseconds a sample, thirty years", err);
        *pace = (ClientPace){reader->number[1], reader->number[2]};
        TRY(take_power(files, reader, err));
    }
    for (uint32_t client = 0; client < files->clients; client++)
        if (files->paces[client].microseconds_per_sample < 0)
            return fail(err, STATUS_DATA, "%.500s: client %u has no line; each of the %u clients needs one",
                        reader->path, client, files->clients);
    return STATUS_OK;
}

// Times are rounded to the microseconds of the simulated clock, in which all comparisons are exact.
static Status read_presences(WorldFiles *files, Reader *reader, Error *err) {
    bool more;
    uint32_t capacity = 0;
    for (;;) {
        TRY(next_line(reader, &more, files->clients, err));
        if (!more) break;
        if (fmax(reader->number[1], reader->number[2]) > 1e12) return refuse(reader, "more than 10^12 seconds", err);
        if (reader->number[2] <= reader->number[1]) return refuse(reader, "END is not after BEGIN", err);
        if (files->presence_count == capacity) {
            capacity = capacity ? 2 * capacity : 64;
            Presence *grown = realloc(files->presences, capacity * sizeof *grown);
            if (!grown) return fail(err, STATUS_OS, "no memory for %u lines of %.500s", capacity, reader->path);
            files->presences = grown;
        }
        files->presences[files->presence_count++] =
            (Presence){.client = (uint32_t)reader->number[0],
                       .begin_microseconds = (uint64_t)llround(1e6 * reader->number[1]),
                       .end_microseconds = (uint64_t)llround(1e6 * reader->number[2])};
    }
    if (files->presence_count > 0) return STATUS_OK;
    return fail(err, STATUS_DATA, "%.500s: no client is ever there", reader->path);
}

static Status allocate_weights(WorldFiles *files, Error *err) {
    files->weights = calloc(files->clients, sizeof *files->weights);
    return files->weights ? STATUS_OK : fail(err, STATUS_OS, "no memory for %u clients", files->clients);
}

// Clients without a line have a weight of 0 until the end.
static Status read_weights(WorldFiles *files, Reader *reader, Error *err) {
    bool more;
    TRY(allocate_weights(files, err));
    for (;;) {
        TRY(next_line(reader, &more, files->clients, err));
        if (!more) break;
        double *weight = &files->weights[(uint32_t)reader->number[0]];
        if (*weight > 0) return refuse(reader, "a second line of this client", err);
        *weight = reader->number[1];
        if (!is_weight(*weight)) return refuse(reader, NO_WEIGHT, err);
    }
    for (uint32_t client = 0; client < files->clients; client++)
        if (files->weights[client] == 0)
            return fail(err, STATUS_DATA, "%.500s: client %u has no line; each of the %u clients needs one",
                        reader->path, client, files->clients);
    return STATUS_OK;
}

static Status list_weights(WorldFiles *files, const char *text, Error *err) {
    uint32_t count = 0;
    TRY(allocate_weights(files, err));
    for (const char *at = text;; at++, count++) {
        char *end;
        const double weight = strtod(at, &end);
        if (end == at || (*end && *end != ',') || !is_weight(weight))
            return fail(err, STATUS_USAGE,
                        "number %u is %s; or write file:FILE, with a line \"" WEIGHT_FORM "\" for each client",
                        count + 1, NO_WEIGHT);
        if (count < files->clients) files->weights[count] = weight;
        if (!*end) break;
        at = end;
    }
    if (count + 1 == files->clients) return STATUS_OK;
    return fail(err, STATUS_USAGE, "a list of %u, but there are %u clients; give each a number", count + 1,
                files->clients);
}

// Kinds of files differ in how many numbers a line may have, and in what is made of them.
static Status read_file(WorldFiles *files, Status (*read)(WorldFiles *, Reader *, Error *), const char *path,
                        const char *form, int least, int most, Error *err) {
    Reader reader = {.path = path, .form = form, .least = least, .most = most};
    if (!*path) return STATUS_OK;
    TRY(regular_file_open(&reader.file, path, err));
    Status status = read(files, &reader, err);
    free(reader.text);
    fclose(reader.file);
    return status;
}

// In chunks, since a recording of a long run need not fit into memory.
static Status hash_file(uint64_t *hash, const char *path, Error *err) {
    static const size_t chunk_bytes = 1 << 16;
    FILE *file;
    TRY(regular_file_open(&file, path, err));
    char *chunk = malloc(chunk_bytes);
    XXH3_state_t *state = chunk ? XXH3_createState() : NULL;
    Status status = state ? STATUS_OK : fail(err, STATUS_OS, "no memory to read %.500s", path);
    if (state) XXH3_64bits_reset(state);
    for (size_t bytes; state && (bytes = fread(chunk, 1, chunk_bytes, file)) > 0;)
        XXH3_64bits_update(state, chunk, bytes);
    if (state && ferror(file)) status = fail_errno(err, STATUS_IO, "%.500s cannot be read", path);
    if (state) *hash = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    free(chunk);
    fclose(file);
    return status;
}

// All files are read before the run begins, so that a wrong line is an error at once and not in some later round.
Status world_files_read(WorldFiles *files, const char *client_file, const char *availability_file,
                        const char *recording, uint32_t clients, Error *err) {
    *files = (WorldFiles){.clients = clients};
    Status status = read_file(files, read_paces, client_file, "CLIENT MICROSECONDS BYTES [WATTS [LINK_WATTS]]",
                              LEAST_COLUMNS, MOST_COLUMNS, err);
    if (status == STATUS_OK)
        status =
            read_file(files, read_presences, availability_file, "CLIENT BEGIN END", LEAST_COLUMNS, LEAST_COLUMNS, err);
    if (status == STATUS_OK && recording) status = hash_file(&files->recording_hash, recording, err);
    if (status != STATUS_OK) world_files_free(files);
    return status;
}

Status world_files_read_weights(WorldFiles *files, const char *text, Error *err) {
    static const char prefix[] = "file:";
    if (!*text) return STATUS_OK;
    if (strncmp(text, prefix, strlen(prefix)) != 0) return list_weights(files, text, err);
    return read_file(files, read_weights, text + strlen(prefix), WEIGHT_FORM, WEIGHT_COLUMNS, WEIGHT_COLUMNS, err);
}

void world_files_free(WorldFiles *files) {
    free(files->weights);
    free(files->presences);
    free(files->powers);
    free(files->paces);
    *files = (WorldFiles){0};
}

// The hash is of the numbers that were read, so that a comment or a blank in a file makes no other run. 0 means no
// file.
uint64_t world_files_hash(const WorldFiles *files) {
    uint64_t hash = files->recording_hash;
    if (files->paces) hash = XXH3_64bits_withSeed(files->paces, files->clients * sizeof *files->paces, hash);
    if (files->weights) hash = XXH3_64bits_withSeed(files->weights, files->clients * sizeof *files->weights, hash);
    if (files->powers) hash = XXH3_64bits_withSeed(files->powers, files->clients * sizeof *files->powers, hash);
    if (!files->presences) return hash;
    return XXH3_64bits_withSeed(files->presences, files->presence_count * sizeof *files->presences, hash);
}

// The next arrival is found in one pass with it: with no client there, the clock moves straight to it.
uint64_t world_files_presence(uint8_t *there, const WorldFiles *files, uint64_t microseconds) {
    uint64_t next = UINT64_MAX;
    memset(there, 0, files->clients);
    for (uint32_t i = 0; i < files->presence_count; i++) {
        const Presence *presence = &files->presences[i];
        if (presence->begin_microseconds <= microseconds && microseconds < presence->end_microseconds)
            there[presence->client] = 1;
        if (presence->begin_microseconds > microseconds && presence->begin_microseconds < next &&
            presence->begin_microseconds < presence->end_microseconds)
            next = presence->begin_microseconds;
    }
    return next;
}

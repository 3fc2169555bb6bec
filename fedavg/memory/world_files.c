#include "world_files.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "fedavg/memory/file_hash.h"
#include "fedavg/memory/fingerprint.h"

enum { MOST_COLUMNS = 5 };

typedef struct Reader Reader;

typedef struct FileForm {
    const char *text;                                              // of a line
    int least, most;                                               // numbers that a line may have
    bool each;                                                     // each client has one line
    Status (*take)(WorldFiles *files, Reader *reader, Error *err); // stores the numbers of a line
} FileForm;

struct Reader {
    const char *path; // borrowed
    const FileForm *form;
    FILE *file; // owned
    char *text; // owned: a line
    bool *seen; // owned (clients): whether the client has had a line
    size_t text_bytes;
    uint32_t capacity; // of the presences
    unsigned line;
    uint32_t client; // of the line
    double number[MOST_COLUMNS];
    int columns; // of the first line
};

// Each refusal shows the line's number and its form: such files are written by scripts, and their authors look there.
static Status refuse(const Reader *reader, const char *why, Error *err) {
    return fail(err, STATUS_DATA, "%.500s:%u: %s; a line is \"%s\"", reader->path, reader->line, why,
                reader->form->text);
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
        if (count == reader->form->most) {
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
    if (count < reader->form->least) {
        snprintf(why, sizeof why, "fewer than %s numbers", number_words[reader->form->least]);
        return refuse(reader, why, err);
    }
    if (reader->columns == 0) reader->columns = count;
    return count == reader->columns ? STATUS_OK : refuse(reader, "not as many numbers as the lines before", err);
}

static Status read_line(WorldFiles *files, Reader *reader, size_t length, Error *err) {
    bool found = false;
    reader->line++;
    TRY(read_numbers(reader, &found, length, err));
    if (!found) return STATUS_OK;
    if (reader->number[0] >= files->clients || reader->number[0] != floor(reader->number[0]))
        return refuse(reader, "no number of a client, which are below --clients", err);
    reader->client = (uint32_t)reader->number[0];
    if (reader->form->each && reader->seen[reader->client]) return refuse(reader, "a second line of this client", err);
    reader->seen[reader->client] = true;
    return reader->form->take(files, reader, err);
}

static Status read_lines(WorldFiles *files, Reader *reader, Error *err) {
    ssize_t length;
    reader->seen = calloc(files->clients, sizeof *reader->seen);
    if (!reader->seen) return fail(err, STATUS_OS, "no memory for %u clients", files->clients);
    while (errno = 0, (length = getline(&reader->text, &reader->text_bytes, reader->file)) > 0)
        TRY(read_line(files, reader, (size_t)length, err));
    if (!feof(reader->file)) return fail_errno(err, STATUS_IO, "%.500s cannot be read", reader->path);
    for (uint32_t client = 0; client < files->clients && reader->form->each; client++)
        if (!reader->seen[client])
            return fail(err, STATUS_DATA, "%.500s: client %u has no line; each of the %u clients needs one",
                        reader->path, client, files->clients);
    return STATUS_OK;
}

static Status read_file(WorldFiles *files, const FileForm *form, const char *path, Error *err) {
    Reader reader = {.path = path, .form = form};
    if (!*path) return STATUS_OK;
    TRY(regular_file_open(&reader.file, path, err));
    const Status status = read_lines(files, &reader, err);
    free(reader.seen);
    free(reader.text);
    fclose(reader.file);
    return status;
}

// Paces ---------------------------------------------------------------------------------------------------------------

// The first line decides whether the file has watts.
static Status take_pace(WorldFiles *files, Reader *reader, Error *err) {
    const double *number = reader->number, link_watts = reader->columns == 5 ? number[4] : number[3];
    assert(reader->client < files->clients && reader->columns >= 3 && reader->columns <= MOST_COLUMNS);
    if (number[1] > 1e15) return refuse(reader, "more than 10^15 microseconds a sample, thirty years", err);
    files->paces[reader->client] = (ClientPace){number[1], number[2]};
    if (reader->columns == 3) files->powers = NULL;
    if (!files->powers) return STATUS_OK;
    if (fmax(number[3], link_watts) > 1e9) return refuse(reader, "more than 10^9 watts", err);
    files->powers[reader->client] = (ClientPower){number[3], link_watts};
    return STATUS_OK;
}

static const FileForm paces_form = {"CLIENT MICROSECONDS BYTES [WATTS [LINK_WATTS]]", 3, 5, true, take_pace};

// Presences -----------------------------------------------------------------------------------------------------------

// Times are rounded to the microseconds of the simulated clock, in which all comparisons are exact.
static Status take_presence(WorldFiles *files, Reader *reader, Error *err) {
    if (fmax(reader->number[1], reader->number[2]) > 1e12) return refuse(reader, "more than 10^12 seconds", err);
    assert(files->presence_count <= reader->capacity);
    if (reader->number[2] <= reader->number[1]) return refuse(reader, "END is not after BEGIN", err);
    if (files->presence_count == reader->capacity) {
        reader->capacity = reader->capacity ? 2 * reader->capacity : 64;
        Presence *grown = realloc(files->presences, reader->capacity * sizeof *grown);
        if (!grown) return fail(err, STATUS_OS, "no memory for %u lines of %.500s", reader->capacity, reader->path);
        files->presences = grown;
    }
    files->presences[files->presence_count++] =
        (Presence){.client = reader->client,
                   .begin_microseconds = (uint64_t)llround(1e6 * reader->number[1]),
                   .end_microseconds = (uint64_t)llround(1e6 * reader->number[2])};
    return STATUS_OK;
}

static const FileForm presences_form = {"CLIENT BEGIN END", 3, 3, false, take_presence};

// Weights -------------------------------------------------------------------------------------------------------------

#define WEIGHT_FORM "CLIENT WEIGHT"
#define NO_WEIGHT   "no weight, which is a number above 0 and at most 10^9"

static bool is_weight(double weight) {
    return weight > 0 && weight <= 1e9;
}

static Status take_weight(WorldFiles *files, Reader *reader, Error *err) {
    if (!is_weight(reader->number[1])) return refuse(reader, NO_WEIGHT, err);
    files->weights[reader->client] = reader->number[1];
    return STATUS_OK;
}

static const FileForm weights_form = {WEIGHT_FORM, 2, 2, true, take_weight};

static Status list_weights(WorldFiles *files, const char *text, Error *err) {
    uint32_t count = 0;
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

// All files -----------------------------------------------------------------------------------------------------------

// All files are read before the run begins, so that a wrong line is an error at once and not in some later round.
Status world_files_read(WorldFiles *files, const char *client_file, const char *availability_file,
                        const char *recording, uint32_t clients, Error *err) {
    *files = (WorldFiles){.clients = clients};
    files->paces = own(&files->owned, *client_file ? clients : 0, sizeof *files->paces);
    files->powers = own(&files->owned, *client_file ? clients : 0, sizeof *files->powers);
    Status status = files->owned.lacks_memory ? fail(err, STATUS_OS, "no memory for %u clients", clients)
                                              : read_file(files, &paces_form, client_file, err);
    if (status == STATUS_OK) status = read_file(files, &presences_form, availability_file, err);
    if (status == STATUS_OK && *availability_file && files->presence_count == 0)
        status = fail(err, STATUS_DATA, "%.500s: no client is ever there", availability_file);
    if (status == STATUS_OK && recording) status = file_hash(&files->recording_hash, recording, err);
    if (status != STATUS_OK) world_files_free(files);
    return status;
}

Status world_files_read_weights(WorldFiles *files, const char *text, Error *err) {
    static const char prefix[] = "file:";
    if (!*text) return STATUS_OK;
    files->weights = own(&files->owned, files->clients, sizeof *files->weights);
    if (!files->weights) return fail(err, STATUS_OS, "no memory for %u clients", files->clients);
    if (strncmp(text, prefix, strlen(prefix)) != 0) return list_weights(files, text, err);
    return read_file(files, &weights_form, text + strlen(prefix), err);
}

void world_files_free(WorldFiles *files) {
    owned_free(&files->owned);
    free(files->presences);
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

uint64_t world_file_hash(const WorldFiles *files, WorldFile which) {
    const size_t clients = files->clients;
    uint64_t hash = 0;
    if (which == WORLD_RECORDING) hash = files->recording_hash;
    if (which == WORLD_PACES && files->paces) hash = XXH3_64bits(files->paces, clients * sizeof *files->paces);
    if (which == WORLD_PACES && files->powers)
        hash = XXH3_64bits_withSeed(files->powers, clients * sizeof *files->powers, hash);
    if (which == WORLD_PRESENCES && files->presences)
        hash = XXH3_64bits(files->presences, files->presence_count * sizeof *files->presences);
    if (which == WORLD_WEIGHTS && files->weights) hash = XXH3_64bits(files->weights, clients * sizeof *files->weights);
    return hash;
}

uint64_t world_files_presence(uint8_t *there, const WorldFiles *files, uint64_t microseconds) {
    uint64_t next = UINT64_MAX;
    memset(there, 0, files->clients);
    assert(files->presences || files->presence_count == 0);
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

#include "datasets/formats/npy.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"

enum { MAGIC_BYTES = 8, GREATEST_HEADER = 65535, PIECE = 4096 };

// The header's dictionary ---------------------------------------------------------------------------------------------

static void skip_blanks(const char **text) {
    *text += strspn(*text, " \n");
}

static bool take(const char **text, const char *token) {
    skip_blanks(text);
    if (strncmp(*text, token, strlen(token)) != 0) return false;
    *text += strlen(token);
    return true;
}

// Takes a string in quotes of one kind, without escapes.
static bool take_string(char *string, size_t room, const char **text) {
    skip_blanks(text);
    const char quote = **text;
    if (quote != '\'' && quote != '"') return false;
    const char *end = strchr(*text + 1, quote);
    if (!end || (size_t)(end - *text) > room) return false;
    const size_t length = (size_t)(end - *text) - 1;
    memcpy(string, *text + 1, length);
    string[length] = '\0';
    *text = end + 1;
    return true;
}

// Takes "(60000, 28, 28)", "(3,)" or "()". Dimensions beyond NPY_MAX_RANK are only counted.
static bool take_shape(NpyHeader *header, const char **text) {
    if (!take(text, "(")) return false;
    for (header->rank = 0; !take(text, ")"); header->rank++) {
        if (**text < '0' || **text > '9') return false;
        char *end;
        const uint64_t extent = strtoull(*text, &end, 10);
        if (header->rank < NPY_MAX_RANK) header->extent[header->rank] = extent;
        *text = end;
        take(text, "L"); // written by Python 2
        if (!take(text, ",") && (skip_blanks(text), **text != ')')) return false;
    }
    return true;
}

static bool take_entry(NpyHeader *header, const char **text) {
    char key[16];
    if (!take_string(key, sizeof key, text) || !take(text, ":")) return false;
    if (strcmp(key, "descr") == 0) return take_string(header->type, sizeof header->type, text);
    if (strcmp(key, "shape") == 0) return take_shape(header, text);
    if (strcmp(key, "fortran_order") != 0) return false;
    header->by_columns = take(text, "True");
    return header->by_columns || take(text, "False");
}

static bool read_dictionary(NpyHeader *header, const char *text) {
    header->rank = -1;
    if (!take(&text, "{")) return false;
    while (!take(&text, "}"))
        if (!take_entry(header, &text) || (!take(&text, ",") && *text != '}')) return false;
    skip_blanks(&text);
    return *text == '\0' && header->rank >= 0 && header->type[0];
}

// Reads "<f4": byte order, kind, bytes per value.
static bool read_type(NpyHeader *header) {
    const char *type = header->type;
    const int size = type[0] && type[1] ? type[2] - '0' : 0;
    if (!type[0] || !strchr("<>|=", type[0]) || (size != 1 && size != 2 && size != 4 && size != 8) || type[3])
        return false;
    header->kind = type[1];
    header->is_swapped = type[0] == '>' && size > 1;
    header->item_bytes = (uint32_t)size;
    return strchr("ui", type[1]) || (type[1] == 'f' && size > 1) || (type[1] == 'b' && size == 1);
}

static Status check_size(NpyHeader *header, ByteStream *stream, Error *err) {
    header->count = 1;
    for (int d = 0; d < NPY_MAX_RANK; d++) {
        if (d >= header->rank) header->extent[d] = 1;
        if (__builtin_mul_overflow(header->count, header->extent[d], &header->count) ||
            header->count > PTRDIFF_MAX / 16)
            return fail(err, STATUS_DATA, "%s: its header announces more values than fit in memory", stream->path);
    }
    return byte_stream_expect_size(stream, header->header_bytes + header->count * header->item_bytes, err);
}

// Writes the sentence for values that are not supported, with what to save instead. Class names must not be converted
// to float32, which would make them targets of the squared loss.
static Status bad_type(const NpyHeader *header, const ByteStream *stream, const char *name, bool numbered, Error *err) {
    const char kind = header->type[strspn(header->type, "<>|=")];
    char remedy[64];
    if (numbered && !strchr("iubf", kind))
        snprintf(remedy, sizeof remedy, "numpy.unique(%s, return_inverse=True)[1]", name);
    else
        snprintf(remedy, sizeof remedy, "%s.astype('%s')", name, numbered && kind != 'f' ? "int64" : "float32");
    return fail(err, STATUS_DATA,
                "%s: values of type %s; only whole and floating-point numbers of at most 64 bits are read: %s",
                stream->path, header->type, remedy);
}

// The file may be damaged or no array at all: the header's length is limited before it is read, and its dictionary may
// have only the three keys of the format.
Status npy_header(NpyHeader *header, ByteStream *stream, const char *name, bool numbered, Error *err) {
    uint8_t magic[MAGIC_BYTES], length[4] = {0};
    *header = (NpyHeader){.rank = -1};
    TRY(byte_stream_read(magic, stream, MAGIC_BYTES, err));
    if (memcmp(magic, "\x93NUMPY", 6) != 0 || magic[6] < 1 || magic[6] > 3)
        return fail(err, STATUS_DATA, "%s: not a NumPy array: it does not begin as a .npy file of version 1 to 3",
                    stream->path);
    const size_t length_bytes = magic[6] == 1 ? 2 : 4;
    TRY(byte_stream_read(length, stream, length_bytes, err));
    const uint32_t text_bytes = (uint32_t)little_endian(length, sizeof length);
    if (text_bytes > GREATEST_HEADER)
        return fail(err, STATUS_DATA, "%s: a header of %" PRIu32 " bytes at byte %d; at most %d are read", stream->path,
                    text_bytes, MAGIC_BYTES, GREATEST_HEADER);
    char text[GREATEST_HEADER + 1];
    TRY(byte_stream_read(text, stream, text_bytes, err));
    text[text_bytes] = '\0';
    header->header_bytes = MAGIC_BYTES + length_bytes + text_bytes;
    if (strlen(text) != text_bytes || !read_dictionary(header, text))
        return fail(err, STATUS_DATA, "%s: its header at byte %zu is not that of one plain array: %.80s", stream->path,
                    MAGIC_BYTES + length_bytes, text);
    if (header->rank > NPY_MAX_RANK)
        return fail(err, STATUS_DATA, "%s: an array of %d dimensions; at most %d are read", stream->path, header->rank,
                    NPY_MAX_RANK);
    if (!read_type(header)) return bad_type(header, stream, name, numbered, err);
    return check_size(header, stream, err);
}

// Values --------------------------------------------------------------------------------------------------------------

Status npy_read_bytes(uint8_t *bytes, const NpyHeader *header, ByteStream *stream, Error *err) {
    TRY(byte_stream_read(bytes, stream, header->count, err));
    return byte_stream_end(stream, err);
}

static uint64_t bits_at(const uint8_t *bytes, const NpyHeader *header) {
    uint64_t value = 0;
    memcpy(&value, bytes, header->item_bytes);
    return header->is_swapped ? __builtin_bswap64(value) >> (64 - 8 * header->item_bytes) : value;
}

static int64_t signed_bits(uint64_t bits, const NpyHeader *header) {
    const uint32_t above = 64 - 8 * header->item_bytes;
    return (int64_t)(bits << above) >> above;
}

static double number_at(const uint8_t *bytes, const NpyHeader *header) {
    const uint64_t bits = bits_at(bytes, header);
    if (header->kind == 'i') return (double)signed_bits(bits, header);
    if (header->kind != 'f') return (double)bits;
    if (header->item_bytes == 2) return (double)half_number(bits);
    const uint32_t low = (uint32_t)bits;
    float single;
    double number;
    memcpy(&single, &low, sizeof single);
    memcpy(&number, &bits, sizeof number);
    return header->item_bytes == sizeof single ? (double)single : number;
}

// Reads the values piece by piece. doubles or floats: (count), the other is NULL.
static Status read_pieces(double *doubles, float *floats, const NpyHeader *header, ByteStream *stream, Error *err) {
    uint8_t piece[PIECE * sizeof(uint64_t)];
    for (uint64_t done = 0; done < header->count;) {
        const uint64_t count = header->count - done < PIECE ? header->count - done : PIECE;
        TRY(byte_stream_read(piece, stream, count * header->item_bytes, err));
        for (uint64_t i = 0; i < count; i++)
            if (doubles)
                doubles[done + i] = number_at(piece + i * header->item_bytes, header);
            else
                floats[done + i] = (float)number_at(piece + i * header->item_bytes, header);
        done += count;
    }
    return STATUS_OK;
}

// float32 is read straight into place.
static Status read_floats(float *values, const NpyHeader *header, ByteStream *stream, Error *err) {
    if (header->kind == 'f' && header->item_bytes == sizeof(float) && !header->is_swapped)
        return byte_stream_read(values, stream, header->count * sizeof(float), err);
    return read_pieces(NULL, values, header, stream, err);
}

Status npy_not_finite(const char *said, uint64_t place, uint64_t each, float value, Error *err) {
    char where[64];
    if (each > 1)
        snprintf(where, sizeof where, "feature %" PRIu64 " of sample %" PRIu64, place % each, place / each);
    else
        snprintf(where, sizeof where, "value %" PRIu64, place);
    return fail(err, STATUS_DATA, "%s: %s is %s in single precision; give finite numbers", said, where,
                isnan(value) ? "nan" : "infinite");
}

Status npy_read_reals(float *values, const NpyHeader *header, ByteStream *stream, Error *err) {
    TRY(read_floats(values, header, stream, err));
    TRY(byte_stream_end(stream, err));
    for (uint64_t i = 0; i < header->count; i++)
        if (!isfinite(values[i]))
            return npy_not_finite(stream->path, i, header->count / header->extent[0], values[i], err);
    return STATUS_OK;
}

Status npy_read_doubles(double *values, const NpyHeader *header, ByteStream *stream, Error *err) {
    TRY(read_pieces(values, NULL, header, stream, err));
    TRY(byte_stream_end(stream, err));
    for (uint64_t i = 0; i < header->count; i++)
        if (!isfinite((float)values[i]))
            return npy_not_finite(stream->path, i, header->count / header->extent[0], (float)values[i], err);
    return STATUS_OK;
}

bool npy_is_wide(const NpyHeader *header) {
    return header->item_bytes > sizeof(float) || (header->kind != 'f' && header->item_bytes == sizeof(float));
}

// Returns INT64_MAX for values that int64 cannot represent.
static int64_t whole_at(const uint8_t *bytes, const NpyHeader *header) {
    const uint64_t value = bits_at(bytes, header);
    if (header->kind == 'i') return signed_bits(value, header);
    return value > INT64_MAX ? INT64_MAX : (int64_t)value;
}

Status npy_read_wholes(uint32_t *values, const NpyHeader *header, ByteStream *stream, uint32_t greatest,
                       const char *what, Error *err) {
    uint8_t piece[PIECE * sizeof(uint64_t)];
    if (header->kind == 'f')
        return fail(err, STATUS_DATA, "%s: values of type %s; %s are whole numbers (array.astype('int64'))",
                    stream->path, header->type, what);
    for (uint64_t done = 0; done < header->count;) {
        const uint64_t count = header->count - done < PIECE ? header->count - done : PIECE;
        TRY(byte_stream_read(piece, stream, count * header->item_bytes, err));
        for (uint64_t i = 0; i < count; i++) {
            const int64_t value = whole_at(piece + i * header->item_bytes, header);
            if (value < 0 || value > greatest)
                return fail(err, STATUS_DATA, "%s: value %" PRIu64 " is %" PRId64 "; %s go from 0 to %" PRIu32,
                            stream->path, done + i, value, what, greatest);
            values[done + i] = (uint32_t)value;
        }
        done += count;
    }
    return byte_stream_end(stream, err);
}

// The safetensors format: 8 bytes little-endian header length, a JSON header, then the payload of raw tensors.
// Sounder's shared weights are such a file in shared memory, and so are models and checkpoints on disk.
//
// Reading trusts nothing: header at most 1 MiB, at most 10,000 tensors, nothing nested that the format does not nest,
// no duplicate names,
// contiguous sorted offsets that fill the payload exactly, checked products, no keys but the format's.
// Source: github.com/huggingface/safetensors, README, "Format".
#ifndef SOUNDER_IO_SAFETENSORS_H
#define SOUNDER_IO_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "io/durable.h"

enum {
    SAFETENSORS_NAME_BYTES = 128,
    SAFETENSORS_MAX_RANK = 8,
    SAFETENSORS_MAX_TENSORS = 10000,
    SAFETENSORS_MAX_HEADER_BYTES = 1 << 20, // of JSON, padding included
    SAFETENSORS_ALIGNMENT = 64,             // of the payload in files written here
};

typedef enum TensorType { TENSOR_F32, TENSOR_F64, TENSOR_I32, TENSOR_I64, TENSOR_U8 } TensorType;

typedef struct TensorEntry {
    char name[SAFETENSORS_NAME_BYTES];
    TensorType type;
    int rank;
    int64_t shape[SAFETENSORS_MAX_RANK];
    size_t first_byte; // from the start of the payload
    size_t bytes;
} TensorEntry;

// One "__metadata__" pair.
typedef struct TensorNote {
    const char *key, *value;
} TensorNote;

const char *tensor_type_name(TensorType type); // "F32"
size_t tensor_type_bytes(TensorType type);

// The product of the shape and the type's size; false when it overflows or an extent is negative.
bool tensor_entry_size(size_t *bytes, const TensorEntry *entry);

// Builds the 8 length bytes and the header for `count` tensors laid out in order (first_byte and bytes are filled in),
// padded with spaces so that the payload starts at a multiple of 64. *header is malloc'ed, the caller frees it.
// Equal arguments give equal bytes: keys stand in the order of the arguments. SOFTWARE, with the name, for what the
// format or the limits above forbid.
Status safetensors_header(char **header, size_t *header_bytes, TensorEntry *entries, size_t count,
                          const TensorNote *notes, size_t note_count, Error *err);

// A parsed file, mapped read-only. entries are sorted by first_byte.
typedef struct Safetensors {
    TensorEntry *entries; // owned
    size_t count;
    const uint8_t *payload; // into the mapping
    size_t payload_bytes;
    void *notes;   // owned: the "__metadata__" object
    void *mapping; // owned
    size_t mapping_bytes;
} Safetensors;

// DATA, naming file and offset, for anything the format forbids; NOINPUT when the file is not there; OS and IO for what
// says nothing about the file. The second: the file `name` of an open folder.
Status safetensors_open(Safetensors *file, const char *path, Error *err);
Status safetensors_open_at(Safetensors *file, const Folder *folder, const char *name, Error *err);
void safetensors_close(Safetensors *file);

// NULL when there is none. The results are the file's and live as long as it is open.
const TensorEntry *safetensors_find(const Safetensors *file, const char *name);
const char *safetensors_note(const Safetensors *file, const char *key);

#endif

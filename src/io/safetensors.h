// The safetensors format: 8 bytes with the header's length (little endian), a JSON header, then the payload of raw
// tensors. Sounder's shared weights are such a file in shared memory; models and checkpoints are such files on disk.
//
// The reader trusts nothing: header of at most 1 MiB, at most 10,000 tensors, no nesting and no keys but the format's,
// no duplicate names, sorted contiguous offsets that fill the payload exactly, products checked for overflow. Source:
// github.com/huggingface/safetensors, README, "Format".
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
    SAFETENSORS_MAX_HEADER_BYTES = 1 << 20, // of the JSON text, padding included
    SAFETENSORS_ALIGNMENT = 64,             // of the payload, in files written here
};

typedef enum TensorType {
    TENSOR_F32,
    TENSOR_F64,
    TENSOR_I32,
    TENSOR_I64,
    TENSOR_U8,
    TENSOR_F16,
    TENSOR_BF16,
    // Read from the files of other programs, and not used.
    TENSOR_BOOL,
    TENSOR_I8,
    TENSOR_I16,
    TENSOR_U16,
    TENSOR_U32,
    TENSOR_U64,
    TENSOR_F8_E4M3,
    TENSOR_F8_E5M2,
    TENSOR_TYPES
} TensorType;

typedef struct TensorEntry {
    char name[SAFETENSORS_NAME_BYTES];
    TensorType type;
    int rank;
    int64_t shape[SAFETENSORS_MAX_RANK];
    size_t first_byte; // from the start of the payload
    size_t bytes;
} TensorEntry;

// The header's entry that is no tensor.
#define SAFETENSORS_NOTES "__metadata__"

// One pair of it.
typedef struct TensorNote {
    const char *key, *value;
} TensorNote;

const char *tensor_type_name(TensorType type); // "F32"
size_t tensor_type_bytes(TensorType type);

// Computes the product of the shape and the type's size. Returns false if it overflows or an extent is negative.
bool tensor_entry_size(size_t *bytes, const TensorEntry *entry);

// Builds the 8 length bytes and the header for `count` tensors in this order (sets their first_byte and bytes), padded
// with blanks so that the payload starts at a multiple of 64. The caller frees *header. Equal arguments give equal
// bytes: the keys have the order of the arguments. Fails with SOFTWARE and the name if the format or the limits above
// forbid a tensor.
Status safetensors_header(char **header, size_t *header_bytes, TensorEntry *entries, size_t count,
                          const TensorNote *notes, size_t note_count, Error *err);

// A parsed file, mapped read-only. entries are sorted by first_byte.
typedef struct Safetensors {
    TensorEntry *entries; // owned
    size_t count;
    const uint8_t *payload; // into the mapping
    size_t payload_bytes;
    void *notes;   // owned: the "__metadata__" object of jansson
    void *mapping; // owned
    size_t mapping_bytes;
} Safetensors;

// Fail with DATA, file and offset for anything that the format forbids; NOINPUT if there is no file; OS and IO for
// failures that say nothing about the file. safetensors_open_at opens the file `name` of an open folder.
Status safetensors_open(Safetensors *file, const char *path, Error *err);
Status safetensors_open_at(Safetensors *file, const Folder *folder, const char *name, Error *err);
void safetensors_close(Safetensors *file);

// Takes prefixes off the names that all tensors of the file have: torch.compile's "_orig_mod." and "module." of its
// parallel modules.
void safetensors_unwrap(Safetensors *file);

// Return NULL if there is none. The results belong to the file and are valid until it is closed.
const TensorEntry *safetensors_find(const Safetensors *file, const char *name);
const char *safetensors_note(const Safetensors *file, const char *key);

#endif

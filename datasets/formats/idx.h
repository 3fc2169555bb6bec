// IDX, the file format of MNIST (yann.lecun.com/exdb/mnist): two zero bytes, a type byte, a rank byte, one big-endian
// 32-bit extent per dimension, then the values in row-major order. Supported: type 8 (uint8), rank 1 to 4, plain or
// .gz.
//
//   IdxHeader header;
//   TRY(idx_header(&header, path, err));             // sizes are known and agree with the file's, nothing is unpacked
//   uint8_t *payload = ...header.payload_bytes of the caller's...
//   TRY(idx_read(payload, &header, path, err));      // straight into place
//
// All other contents are DATA with the file and the offset; NOINPUT if there is no file.
#ifndef SOUNDER_DATASETS_FORMATS_IDX_H
#define SOUNDER_DATASETS_FORMATS_IDX_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { IDX_MAX_RANK = 4 };

typedef struct IdxHeader {
    int rank;                      // 1 to 4
    uint32_t extent[IDX_MAX_RANK]; // each at least 1; 1 beyond rank
    size_t header_bytes, payload_bytes;
} IdxHeader;

Status idx_header(IdxHeader *header, const char *path, Error *err);

// Fills the caller's payload (header->payload_bytes). The file must still have the header that idx_header saw.
Status idx_read(uint8_t *payload, const IdxHeader *header, const char *path, Error *err);

#endif

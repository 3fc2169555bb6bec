// Where the members of a zip archive lie (PKWARE's APPNOTE.TXT, 6.3), as numpy.savez and zip write it: stored or
// deflated, with or without zip64, not encrypted, in one file.
//
//   static const char *const names[] = {"x_train.npy", "y_train.npy"};
//   BytePart parts[2];
//   bool found[2];
//   char others[ZIP_OTHERS_BYTES];
//   TRY(zip_look_up(parts, found, others, names, 2, path, err));
//   if (found[0]) TRY(byte_stream_open_part(&stream, "x_train.npy of the archive", path, &parts[0], err));
#ifndef SOUNDER_DATASETS_FORMATS_ZIP_H
#define SOUNDER_DATASETS_FORMATS_ZIP_H

#include <stdbool.h>

#include "base/err.h"
#include "datasets/formats/byte_stream.h"

enum { ZIP_OTHERS_BYTES = 256 };

// found[i]: whether names[i] is a member, and parts[i] then tells where. others: the names of the other members, as far
// as there is room, for a sentence. DATA, with the byte, when the file is no archive or a wanted member is packed
// otherwise; NOINPUT when the file is not there.
Status zip_look_up(BytePart *parts, bool *found, char others[ZIP_OTHERS_BYTES], const char *const *names, int count,
                   const char *path, Error *err);

#endif

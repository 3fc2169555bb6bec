// Finds the members of a zip archive (PKWARE's APPNOTE.TXT, 6.3) as written by numpy.savez and zip: stored or deflated,
// with or without zip64, not encrypted, in one file.
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

// found[i] says whether names[i] is a member; parts[i] is then its location. others: names of the other members for a
// sentence, as far as there is room. Fails with DATA and the byte if the file is no archive or a wanted member is
// packed in another way; with NOINPUT if there is no file.
Status zip_look_up(BytePart *parts, bool *found, char others[ZIP_OTHERS_BYTES], const char *const *names, int count,
                   const char *path, Error *err);

#endif

// Checkpoints: RUN/checkpoints/round-000012.safetensors, the last two are kept.
//
// A checkpoint holds the model's parameters under PyTorch's names, further named float tensors that training needs to
// go on to the same bits (an optimizer's state), and as notes the number of rounds done and the effective options.
// One more note, "sha256", is the checksum of the whole file with 64 zeros in its own place, so that any flipped bit is
// noticed when a run resumes. The notes "sha256" and "rounds_done" are set here; the caller's have other keys.
#ifndef SOUNDER_IO_CHECKPOINT_H
#define SOUNDER_IO_CHECKPOINT_H

#include <stdint.h>

#include "base/err.h"
#include "io/safetensors.h"

// A named float tensor of the caller's.
typedef struct NamedTensor {
    char name[SAFETENSORS_NAME_BYTES];
    int rank;
    int64_t shape[4];
    const float *values;
} NamedTensor;

// Writes `tensors` and the notes durably to `path`.
Status tensors_write(const char *path, const NamedTensor *tensors, size_t count, const TensorNote *notes,
                     size_t note_count, Error *err);

// Writes the checkpoint after `rounds_done` rounds into folder/ (which exists) and removes all others but the one
// before. (Those of later rounds go, too: a run that writes an earlier one has found them damaged.)
Status checkpoint_write(const char *folder, uint32_t rounds_done, const NamedTensor *tensors, size_t count,
                        const TensorNote *notes, size_t note_count, Error *err);

// Opens the newest checkpoint in folder that is valid; skips damaged ones with a warning in the log. NOINPUT if there
// is none, DATA if there are only damaged ones. *rounds_done comes from its notes. The caller closes *file.
Status checkpoint_open_last(Safetensors *file, uint32_t *rounds_done, const char *folder, Error *err);

// Copies the float tensor `name` into values (count floats). DATA when it is missing or has another size or type.
Status checkpoint_load(float *values, size_t count, const Safetensors *file, const char *name, Error *err);

#endif

// Checkpoints: RUN/checkpoints/round-000012.safetensors, the last two are kept.
//
// A checkpoint holds the model's parameters under PyTorch's names, further named tensors that training needs to
// go on to the same bits (an optimizer's state), and as notes the number of rounds done and what the caller adds. One
// more note, "sha256", is the checksum of the whole file with 64 zeros in its own place, so that any flipped bit is
// noticed when a run resumes. The notes "sha256" and "rounds_done" are set here; the caller's have other keys.
#ifndef SOUNDER_IO_CHECKPOINT_H
#define SOUNDER_IO_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "io/durable.h"
#include "io/safetensors.h"

// A named tensor of the caller's.
typedef struct NamedTensor {
    char name[SAFETENSORS_NAME_BYTES];
    TensorType type; // zero: F32
    int rank;
    int64_t shape[4];
    const void *values;
} NamedTensor;

// Writes the checkpoint after `rounds_done` rounds into the folder and removes those before the last two. Those of
// later rounds go if they are read and found damaged, and only then.
Status checkpoint_write(const Folder *folder, uint32_t rounds_done, const NamedTensor *tensors, size_t count,
                        const TensorNote *notes, size_t note_count, Error *err);

// Opens the newest checkpoint in folder that is valid; skips damaged ones with a warning in the log. *found says
// whether there is one at all; *rounds_done comes from its notes. DATA if there are only damaged ones; another status
// when the folder or one of the files cannot be read, which says nothing about what they hold. The caller closes *file.
Status checkpoint_open_last(Safetensors *file, bool *found, uint32_t *rounds_done, const Folder *folder, Error *err);

// Opens the newest checkpoint of an earlier round, to which a run falls back when that of `round` is damaged. *found:
// there is one, and it is a safetensors file; its checksum is not compared. IO when it cannot be read. The caller
// closes *file if it was found.
Status checkpoint_open_before(Safetensors *file, bool *found, uint32_t round, const Folder *folder, Error *err);

enum { CHECKPOINT_WHY_BYTES = SAFETENSORS_NAME_BYTES + 256 };

// Whether the file has a tensor of this name, type, rank and shape (its values are not read); if not, why_not says what
// differs. finite: the tensor is of float32, and each value must be finite.
bool checkpoint_fits(char why_not[CHECKPOINT_WHY_BYTES], const Safetensors *file, const NamedTensor *tensor,
                     bool finite);

// Copies the file's tensor that checkpoint_fits into values (of the caller's, of that type and shape). DATA when none
// fits: equally many values in another order would be other weights.
Status checkpoint_load(void *values, const Safetensors *file, const NamedTensor *tensor, Error *err);

#endif

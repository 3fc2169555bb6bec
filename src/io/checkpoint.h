// Checkpoints: RUN/checkpoints/round-000012.safetensors; the last two are kept.
//
// A checkpoint contains the model's parameters under PyTorch's names, further named tensors that training needs to
// continue with the same bits (an optimizer's state), and as notes the number of rounds done and the caller's
// additions. The note "sha256" is the checksum of the whole file, computed with 64 zeros in the note's own place, so
// that any flipped bit is detected when a run resumes. checkpoint_write sets the notes "sha256" and "rounds_done"; the
// caller's notes have other keys.
#ifndef SOUNDER_IO_CHECKPOINT_H
#define SOUNDER_IO_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "io/durable.h"
#include "io/safetensors.h"

// A named tensor; `values` belongs to the caller.
typedef struct NamedTensor {
    char name[SAFETENSORS_NAME_BYTES];
    TensorType type; // 0 is F32
    int rank;
    int64_t shape[SAFETENSORS_MAX_RANK];
    const void *values;
} NamedTensor;

// Writes the checkpoint after `rounds_done` rounds into the folder and removes all but the last two up to that round.
// Checkpoints of later rounds are removed only if they can be read and are damaged. is_secret: the file is for its
// owner alone (0600).
Status checkpoint_write(const Folder *folder, uint32_t rounds_done, const NamedTensor *tensors, size_t count,
                        const TensorNote *notes, size_t note_count, bool is_secret, Error *err);

// Removes what a writer that was killed could not: checkpoints before the last two up to `rounds_done`, and temporary
// files.
Status checkpoint_prune(const Folder *folder, uint32_t rounds_done, Error *err);

// Opens the newest valid checkpoint in the folder; skips damaged ones with a warning in the log. *found says whether
// there is any checkpoint; *rounds_done is read from its notes. Fails with DATA if all are damaged; with another status
// if the folder or a file cannot be read, since the file may then still be good. The caller closes *file.
Status checkpoint_open_last(Safetensors *file, bool *found, uint32_t *rounds_done, const Folder *folder, Error *err);

// Opens the newest checkpoint before `round`, to which a run falls back if that of `round` is damaged. *found says
// whether there is one that is a safetensors file; its checksum is not verified. Fails with IO if it cannot be read.
// The caller closes *file if it was found.
Status checkpoint_open_before(Safetensors *file, bool *found, uint32_t round, const Folder *folder, Error *err);

enum { CHECKPOINT_WHY_BYTES = SAFETENSORS_NAME_BYTES + 256 };

// Says whether the file has a tensor of this name, type, rank and shape (its values are not read); if not, why_not gets
// the difference. are_floats: the tensor is of float32; the file's may be of any floating-point type, and all its
// values have to be finite as float32.
bool checkpoint_fits(char why_not[CHECKPOINT_WHY_BYTES], const Safetensors *file, const NamedTensor *tensor,
                     bool are_floats);

// Copies the file's tensor into `values`, a tensor of the type and shape of `tensor`. Fails with DATA unless
// checkpoint_fits: a tensor with as many values in another shape would give other weights.
Status checkpoint_load(void *values, const Safetensors *file, const NamedTensor *tensor, Error *err);

// Copies a tensor of any floating-point type as float32, rounded to nearest. It must fit, with are_floats.
void checkpoint_load_floats(float *values, const Safetensors *file, const NamedTensor *tensor);

#endif

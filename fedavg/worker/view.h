// A client's view of its samples (rules/world/view_rules.h) on a worker: batches that name samples of the data set
// become such that hold what the client sees. Where no view differs, batches stay as they are.
//
//   TRY(view_init(&view, memory, err));
//   Batch batch = view_batch(memory, split, indices, count);
//   view_begin(&view, client, round, label_of);         // or VIEW_TEST_SET; label_of: the client's lies, or NULL
//   view_apply(&view, &batch);                          // valid until the next one
#ifndef SOUNDER_FEDAVG_WORKER_VIEW_H
#define SOUNDER_FEDAVG_WORKER_VIEW_H

#include "base/owned.h"
#include "fedavg/memory/run_memory.h"
#include "nn/step.h"

typedef struct View {
    const RunMemory *memory; // borrowed
    Owned owned;             // the arrays below
    void *samples;        // (largest batch, C,H,W): floats with noise, bytes otherwise; NULL: as the data set has them
    uint32_t *order;      // (largest batch, or classes): scratch
    uint16_t *labels;     // (largest batch): of the samples
    uint16_t *own_labels; // (classes): what stands for each label in this concept
    const uint16_t *label_of;
    uint32_t client, concept;
    uint32_t holding;        // the client whose part of the data set this one has
    bool noisy, of_test_set; // the latter: the samples are of the test set; between view_begin and view_apply
} View;

// Nothing to free on failure.
Status view_init(View *view, const RunMemory *memory, Error *err);
void view_free(View *view);

// Samples of a split as the data set has them: those with these numbers (indices, count), or with NULL the first ones.
Batch view_batch(const RunMemory *memory, const DatasetSplit *split, const uint32_t *indices, uint32_t count);

void view_begin(View *view, uint32_t client, uint32_t round, const uint16_t *label_of);
void view_apply(View *view, Batch *batch);

// The pixels by which a drift has moved the client's images down and right: at most as many as an image has.
uint32_t view_moved(const View *view);

// Whether samples or labels are not those of the data set.
bool view_differs(const View *view);

// Returns the indices of the client's training samples (count), borrowed.
const uint32_t *view_samples(const View *view, uint32_t *count);

#endif

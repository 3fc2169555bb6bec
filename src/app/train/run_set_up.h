// What the options of a run ask for, made: its data set, its net, and the memory that parent and workers share.
//
//   if (options.resume[0]) TRY(run_read_saved_options(&options, &past, err));
//   TRY(run_load_data(&memory, &source, NULL, &options, err));                 // says how many classes there are
//   TRY(run_read_model(&spec, text, &options, &memory.data, err));
//   TRY(run_create_memory(&memory, &options, &spec, &about, &device, &folder, &nodes, err));
//   run_memory_free(&memory);
#ifndef SOUNDER_APP_TRAIN_RUN_SET_UP_H
#define SOUNDER_APP_TRAIN_RUN_SET_UP_H

#include "app/options/options.h"
#include "app/train/model_file.h"
#include "app/train/ready_data.h"
#include "app/train/run_device.h"
#include "app/train/run_record.h"
#include "base/err.h"
#include "datasets/dataset.h"
#include "fedavg/memory/run_memory.h"
#include "fedavg/nodes/nodes.h"
#include "nn/spec.h"

// With --resume: completes the options by those that the run in that folder was started with, and by what followed from
// them then. past: what it tells of itself.
Status run_read_saved_options(Options *options, RunRecord *past, Error *err);

// Finds the data set and deals it to the clients. A folder becomes its full path in options->data, so that the run goes
// on wherever it is resumed from. Nothing to free on failure. ready: that data set, where it is there already, or NULL.
Status run_load_data(RunMemory *memory, DatasetSource *source, const ReadyData *ready, Options *options, Error *err);

// Once the run is known to be on a GPU: how many workers it has where nobody said it, and with them who gets which
// samples.
Status run_resolve_on_gpu(RunMemory *memory, Options *options, bool side_by_side, Error *err);

// text: the layer list that --model names or is. USAGE with a sentence for a model that does not exist.
Status run_read_model(Spec *spec, char text[SPEC_TEXT_BYTES], const Options *options, const Dataset *data, Error *err);

// The segments whose size net and device decide, with the initial weights. On failure the memory is freed or not begun;
// run_memory_free may be called in either case.
Status run_create_memory(RunMemory *memory, const Options *options, const Spec *spec, const ModelAbout *about,
                         const RunDevice *device, const RunFolder *folder, Nodes *nodes, Error *err);

// What the nodes of a run settle before its first round, each function called by all of them. Alone they do nothing.

// Everybody takes the options of node 0, which alone has read what --resume names. mine: whether that went well there.
Status together_options(Options *options, Nodes *nodes, Status mine, Error *err);

enum { TOGETHER_NAME_BYTES = 256 };

// The same data set and the same arithmetic (the GPU's name, or the instruction set's and OpenBLAS's) everywhere: with
// others the sums would be of another model. mine: whether this node has what its arithmetic needs.
Status together_check(const RunMemory *memory, const char *arithmetic, Nodes *nodes, Status mine, Error *err);

// Everybody goes on from what node 0 has restored: weights, velocity, rounds done, and whether the run has its result.
Status together_start(RunMemory *memory, uint32_t *rounds_done, bool *has_result, Nodes *nodes, Error *err);

#endif

// Makes what a run needs from its options: data set, net, and the memory that parent and workers share.
//
//   if (options.resume[0]) TRY(run_read_saved_options(&options, &past, err));
//   TRY(run_load_data(&memory, &source, NULL, &options, err));                 // finds the number of classes
//   TRY(run_read_model(&model, &options, &memory.data, err));
//   TRY(run_create_memory(&memory, &options, &model, &device, &folder, &nodes, err));
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
#include "fedavg/trainer/describe.h"
#include "nn/spec.h"

// The net of a run. Zeroed there is none.
typedef struct RunModel {
    Spec spec;
    TrainerNet net; // of --trainer, which then has the tensors; otherwise count is 0
    ModelAbout about;
} RunModel;

void run_model_free(RunModel *model);

// With --resume, completes the options by those that the run in that folder was started with, and by the values derived
// from them then. past: the run's record.
Status run_read_saved_options(Options *options, RunRecord *past, Error *err);

// Finds the data set and partitions it over the clients. A folder becomes its full path in options->data, so that the
// run can be resumed from any place. Nothing to free on failure. ready: that data set if it is loaded already, or NULL.
Status run_load_data(RunMemory *memory, DatasetSource *source, const ReadyData *ready, Options *options, Error *err);

// Whether the folder of a run has a checkpoint. Then the model of --init is not needed, and its file may be gone.
bool run_has_checkpoint(const RunFolder *folder);

// For a run on a GPU: sets the number of workers if the user did not, and partitions the data for them.
Status run_resolve_on_gpu(RunMemory *memory, Options *options, bool side_by_side, Error *err);

// The engine needs samples, not labels alone. USAGE.
Status run_check_samples(const Dataset *data, Error *err);

// Reads the layer list that --model names or is, into spec and about.text. USAGE for a model that does not exist.
Status run_read_model(RunModel *model, const Options *options, const Dataset *data, Error *err);

// Refuses options, data and a net that do not go together. USAGE.
Status run_check_fit(const Options *options, const Spec *spec, const Dataset *data, Error *err);

// Fills in what the run says about its trainer. USAGE for a word of --trainer-option that is no NAME=VALUE.
Status run_plan_trainer(TrainerPlan *plan, const Options *options, Error *err);

// Fills in what the run says about its aggregator, if it has one. DATA for another PYTHONHASHSEED than it began with.
Status run_plan_aggregator(RunConfig *config, const Options *options, Error *err);

// For a run with --trainer, in place of run_read_model: asks the program for its tensors and initial values (net). The
// caller frees them with run_model_free; nothing to free on failure. host: takes its output. USAGE, NOINPUT, or
// UNAVAILABLE with the trainer's sentence.
Status run_read_trainer(RunModel *model, const Options *options, const RunMemory *memory, TrainerHost *host,
                        Error *err);

// After the run's first test: warns of options that are given and that no turn of the trainer has read. USAGE if one of
// them is an axis of the sweep that has started the run.
Status run_check_reads(const Options *options, const RunMemory *memory, Error *err);

// After a failure that a trainer has caused: prints its last exception, and adds the name of the log to the sentence.
void run_explain_trainer(TrainerHost *host, Error *err);

// Plans the segments whose size depends on net and device, and allocates none of them; run_plan_free frees what the
// plan has. run_check_memory refuses a plan that memory or disk cannot hold. For `--plan`, and for run_create_memory.
Status run_plan_memory(RunPlan *plan, RunMemory *memory, const Options *options, const RunModel *model,
                       const RunDevice *device, Nodes *nodes, Error *err);
Status run_check_memory(const RunPlan *plan, const RunMemory *memory, const Options *options, const RunFolder *folder,
                        Error *err);
void run_plan_free(RunPlan *plan);

// Makes those segments, and the initial weights. After a failure run_memory_free may be called, but need not.
Status run_create_memory(RunMemory *memory, const Options *options, const RunModel *model, const RunDevice *device,
                         const RunFolder *folder, Nodes *nodes, Error *err);

// All nodes of a run call each of these functions before the first round. A single node does nothing in them.

// All nodes take the options of node 0, which alone has read the run of --resume. mine: status of that reading.
Status together_options(Options *options, Nodes *nodes, Status mine, Error *err);

enum { TOGETHER_NAME_BYTES = 256 };

// Checks that all nodes have the same data set, arithmetic (name of the GPU, or instruction set and OpenBLAS) and
// trainer (zeroed: the engine trains): otherwise their sums would mix different models. mine: whether this node has
// what its arithmetic needs.
Status together_check(const RunMemory *memory, const char *arithmetic, const TrainerProgram *trainer, Nodes *nodes,
                      Status mine, Error *err);

// All nodes continue from node 0's state: weights, velocity, rounds done, and whether the run has its result.
Status together_start(RunMemory *memory, uint32_t *rounds_done, bool *has_result, Nodes *nodes, Error *err);

#endif

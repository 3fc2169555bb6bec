// The model of one client of a run that trained earlier: its own where the algorithm trains such, the one that it
// keeps from turn to turn (a replica of easgd, the last model of moon), or else the global one. Its test is the run's,
// to the bit.
//
//   ClientModel model = {0};
//   Status status = client_model_open(&model, "runs/a", "H03", err);
//   ... model.test.hits of model.test.samples; model.weights
//   client_model_close(&model);                                     // also after a failure
#ifndef SOUNDER_APP_AGAIN_CLIENT_MODEL_H
#define SOUNDER_APP_AGAIN_CLIENT_MODEL_H

#include "app/train/reopened_run.h"
#include "fedavg/worker/local_model.h"

// Owned by the caller, who zeroes it.
typedef struct ClientModel {
    ReopenedRun run;
    LocalModel local;
    bool has_local;
    uint32_t round;       // rounds that the run had done
    bool is_own;          // the algorithm trains models of the clients' own
    bool is_kept;         // or clients keep a model from turn to turn: a replica, or the one of the last turn
    bool has_trained;     // the client has had a turn, or the run does not tell
    Job test;             // on the client's own samples
    const float *weights; // (parameters); borrowed from local, or the global model
} ClientModel;

// folder: of a run that has a checkpoint. client: its name, or its number where none is called so. USAGE if the run has
// no such client, or if another process works in it.
Status client_model_open(ClientModel *model, const char *folder, const char *client, Error *err);
void client_model_close(ClientModel *model);

// Prints the test, as a sentence or as JSON.
Status client_model_tell(const ClientModel *model, bool json, Error *err);

// Writes the model, with the notes of a model's file. path "": client-K.safetensors in the run's folder. USAGE for an
// algorithm that trains one model for all.
Status client_model_write(const ClientModel *model, const char *path, Error *err);

#endif

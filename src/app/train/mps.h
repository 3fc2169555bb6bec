// CUDA's Multi-Process Service: with it, kernels of several processes run on a GPU side by side; without it the
// processes take turns. A program is its client if its control daemon runs when the program first calls CUDA, and so
// are the processes that this one starts.
//
//   TRY(mps_prepare(&mps, MPS_AUTO, folder, err));   // before device_open, with the stop signals blocked
//   mps.state                                        // what there is
//   mps_close(&mps, false);
//
// A daemon of the run's own has its sockets and logs in FOLDER/mps. A shell that this process starts keeps it and ends
// it as soon as this process is gone, in whatever way: it waits for the other end of a pipe to close. No setting of the
// GPU is touched.
//
// What MPS takes away (NVIDIA's guide, "Error containment" and "Client early termination"): a fatal fault of one client
// ends all clients of that GPU, this process among them, and new ones are refused until all have gone; a client killed
// with work outstanding may leave server and other clients undefined, up to hangs. Deaths of workers are survived
// without MPS only.
#ifndef SOUNDER_APP_TRAIN_MPS_H
#define SOUNDER_APP_TRAIN_MPS_H

#include <stdbool.h>
#include <sys/types.h>

#include "app/options/options.h"
#include "base/err.h"

typedef enum MpsState { MPS_ABSENT, MPS_RUNNING, MPS_STARTED } MpsState;

typedef struct Mps {
    MpsState state;
    int keeper_fd; // owned; our end of the pipe to the shell that keeps the daemon, -1 when there is none
    pid_t keeper;  // that shell
} Mps;

// Whether a control daemon listens in this folder (CUDA_MPS_PIPE_DIRECTORY, or where NVIDIA's programs look by
// default). The daemon does not notice the question.
bool mps_listens(const char *pipe_folder);

// Looks, keeps away from it or starts one, as `use` says. `folder`: the run's, with an absolute path or not.
// UNAVAILABLE when --mps start cannot; nothing to close then.
Status mps_prepare(Mps *mps, MpsUse use, const char *folder, Error *err);

// USAGE, or a warning, when that many processes are more than MPS serves at a time.
Status mps_check_clients(int clients, Error *err);

// Waits until a daemon of the run's own has ended: its sockets' folder may be taken away next. A warning says how to
// end one that takes longer than ten seconds, or than two when it shall go quickly or a stop signal is pending.
void mps_close(Mps *mps, bool quickly);

#endif

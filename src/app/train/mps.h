// CUDA's Multi-Process Service: with it, kernels of several processes run on a GPU side by side; without it the
// processes take turns. A program is a client of MPS if the control daemon runs when the program first calls CUDA, and
// so are the processes that it starts.
//
//   TRY(mps_prepare(&mps, MPS_AUTO, folder, err));   // before device_open, with the stop signals blocked
//   mps.state                                        // the service that this process uses
//   mps_close(&mps, false);
//
// A daemon of the run's own has its sockets and logs in FOLDER/mps. A shell that this process starts keeps the daemon
// and ends it when this process ends, however that happens: it waits until the other end of a pipe closes. No setting
// of the GPU is changed.
//
// Drawbacks of MPS (NVIDIA's guide, "Error containment" and "Client early termination"): a fatal fault of one client
// ends all clients of that GPU, including this process, and new clients are refused until all have ended; a client that
// is killed while it has outstanding work may leave the server and other clients in an undefined state, or hanging. So
// deaths of workers are survived only without MPS.
#ifndef SOUNDER_APP_TRAIN_MPS_H
#define SOUNDER_APP_TRAIN_MPS_H

#include <stdbool.h>
#include <sys/types.h>

#include "app/options/options.h"
#include "base/err.h"

typedef enum MpsState { MPS_ABSENT, MPS_RUNNING, MPS_STARTED } MpsState;

typedef struct Mps {
    MpsState state;
    int keeper_fd; // owned; our end of the pipe to the shell that keeps the daemon; -1: none
    pid_t keeper;  // the shell
} Mps;

// Finds a daemon of this user or root's, avoids any, or starts one, depending on `use`. folder: the run's; its path may
// be relative. UNAVAILABLE if --mps start fails; nothing to close then.
Status mps_prepare(Mps *mps, MpsUse use, const char *folder, Error *err);

// USAGE, or a warning, if MPS does not serve that many processes at a time.
Status mps_check_clients(int clients, Error *err);

// Waits until a daemon of the run's own has ended, because its sockets' folder may be removed next. A warning tells how
// to end a daemon that takes longer than five seconds, or two if `quickly` is set or a stop signal is pending.
void mps_close(Mps *mps, bool quickly);

#endif

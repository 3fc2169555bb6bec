// The TCP port at which the ranks of a launch meet: it belongs to one launcher at a time.
//
// Nothing else keeps two jobs at one port apart. PyTorch's rank 0 opens the port itself, later than the launcher
// starts, so that a rank of another job may connect to it first. The launcher of rank 0 therefore looks whether the
// port is free before it starts a rank, and then holds a socket in the abstract namespace that is named after user and
// port. The kernel lets go of it when the launcher ends, however it ends.
#ifndef SOUNDER_APP_LAUNCH_LAUNCH_PORT_H
#define SOUNDER_APP_LAUNCH_LAUNCH_PORT_H

#include "base/err.h"
#include "launch_options.h"

// A listening socket at --master-port on all addresses, non-blocking; the caller's. UNAVAILABLE when it cannot be had.
Status launch_port_open(int *listener, const LaunchOptions *options, Error *err);

// Reserves --master-port for this launcher as long as *held (the caller's; -1: none) is open. UNAVAILABLE when another
// launcher of this user has it, or when another program listens there.
Status launch_port_hold(int *held, const LaunchOptions *options, Error *err);

// The same for a port that the kernel chooses, for --standalone.
Status launch_port_choose(int *held, int *port, Error *err);

#endif

// Reserves the TCP port at which the ranks of a launch meet for one launcher at a time.
//
// Nothing else keeps two jobs apart that use one port. PyTorch's rank 0 opens the port itself, later than the launcher
// starts, so a rank of another job might connect to it first. Before it starts a rank, the launcher of rank 0 therefore
// binds a socket in the abstract namespace, named after user and port, and checks that the port is free. The kernel
// closes the socket whenever the launcher ends, even if it is killed.
#ifndef SOUNDER_APP_LAUNCH_LAUNCH_PORT_H
#define SOUNDER_APP_LAUNCH_LAUNCH_PORT_H

#include "base/err.h"
#include "launch_options.h"

// Opens a non-blocking listening socket at --master-port on all addresses; the caller owns it. UNAVAILABLE if it
// cannot.
Status launch_port_open(int *listener, const LaunchOptions *options, Error *err);

// Reserves --master-port for this launcher while *held (owned by the caller; -1: none) is open. UNAVAILABLE if another
// launcher of this user has it, or another program listens there.
Status launch_port_hold(int *held, const LaunchOptions *options, Error *err);

// Reserves a port that the kernel chooses, for --standalone; otherwise as launch_port_hold.
Status launch_port_choose(int *held, int *port, Error *err);

#endif

// A guard stands between a process of ours and a program of the user's: it starts the program and leaves none of its
// processes behind, however the program, the process that wanted it, or both end. It is this same binary, executed as
// `sounder guard LEASH OUTPUT FDS WORD...` (process.c), so that it holds none of its starter's memory.
//
// The leash is one end of a socket pair. The other end closes when the starter wants the program to end, and when the
// starter dies. The guard then kills the program's process group, and all other descendants: as their subreaper it
// inherits those that left the group. It does the same when the program ends by itself. The kernel kills the program
// if the guard is killed.
//
// Only the guard, which alone can reap the program, signals its group: until then no other process has that number.
#ifndef SOUNDER_FEDAVG_TRAINER_GUARD_H
#define SOUNDER_FEDAVG_TRAINER_GUARD_H

#include <signal.h>
#include <stddef.h>
#include <sys/types.h>

// The last message on the leash: how the program ended, as text, "exit 3" or "signal 9"; or "fork 11", with errno: it
// could not be started.
enum { GUARD_REPORT_BYTES = 32 };

// Starts the program (words, NULL-terminated), with stdout and stderr at `output` (-1: at this process's stderr),
// stdin at /dev/null, and the descriptors `fds` ("5,6", may be empty) and no others. Returns when none of its processes
// is left, or after a second of trying.
void guard_run(int leash, int output, const char *fds, char *const *words);

// The guard stops all processes below it, or continues them.
enum { GUARD_PAUSE = SIGTSTP, GUARD_CONTINUE = SIGCONT };

// Sends it, if the process with this number is a guard.
void guard_signal(pid_t guard, int number);

#endif

// One rank of `sounder launch`: its environment, its start and its end.
//
// A rank runs in a process group of its own: a Ctrl-C at the terminal then reaches the launcher alone, and the rank's
// own children can be signalled and ended with it. The kernel kills a rank when the launcher dies (PDEATHSIG). Its
// stdin is /dev/null, or the launcher's own if it is the only rank; its stdout and stderr are pipes or log files. A
// single rank that reads a terminal stays in the launcher's group, because a background group that reads a terminal is
// stopped.
#ifndef SOUNDER_APP_LAUNCH_LAUNCH_RANK_H
#define SOUNDER_APP_LAUNCH_LAUNCH_RANK_H

#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/err.h"
#include "launch_options.h"
#include "launch_output.h"

enum { RANK_REASON_BYTES = 512, LAUNCH_ID_BYTES = 17 };

enum { RANK_STREAMS = 2 }; // 0 stdout, 1 stderr

// Process settings that the launcher changed for itself, with their values before: every rank gets them back.
typedef struct RankInheritance {
    sigset_t signal_mask;
    struct sigaction pipe_action; // action of SIGPIPE
    struct rlimit descriptors;    // RLIMIT_NOFILE
} RankInheritance;

// Settings shared by all ranks of one start of the group.
typedef struct RankPlan {
    const LaunchOptions *options;
    char **arguments; // argv of every rank, NULL-terminated
    const char *run_id;
    char id[LAUNCH_ID_BYTES]; // SOUNDER_LAUNCH_ID, drawn for this start; "" with several machines, which have none
    const char *log_folder;   // "": no logs
    int attempt;              // number of restarts so far
    int port;                 // MASTER_PORT
    Console *consoles;        // (RANK_STREAMS): the launcher's stdout and stderr
    const RankInheritance *inheritance;
} RankPlan;

typedef struct Rank {
    int number;           // RANK
    pid_t pid;            // also its process group, unless it shares the launcher's
    bool shares_terminal; // it also stays in the launcher's process group
    int pidfd;            // owned; -1 once the rank is reaped
    bool lingers;         // its process has ended, but other processes in its process group have not
    int error_fd;         // owned; TORCHELASTIC_ERROR_FILE, a file in memory that ends with the launcher; -1: none
    int report_fd;        // owned; says whether the process has become the program; -1 once that is known
    int wait_status;      // status from waitpid, once dead
    RankStream streams[RANK_STREAMS];
} Rank;

// Builds the argv of every rank: the program itself, or the program under Python (python3 or $PYTHON_EXEC, unbuffered)
// if it is a module, a .py file, or a path to a file that can be read but not executed. The caller owns the array
// (free); entries are borrowed from options and environment.
Status rank_arguments(char ***arguments, const LaunchOptions *options, Error *err);

// Starts the rank's process and returns before it has become the program. OS if the kernel refuses a process or
// descriptors, CANTCREATE for a log file; on failure nothing is left to free.
Status rank_start(Rank *rank, int local_rank, const RankPlan *plan, Error *err);

// Call it once report_fd is readable, before rank_reap. NOINPUT if the process could not become the program.
Status rank_take_report(Rank *rank, const char *program, Error *err);

// Asks the rank to end by SIGTERM or another signal, sent to its process alone: if helpers (data loaders, say) died
// before it, it could not end cleanly. SIGINT is sent to its whole group, as a terminal does, because a shell waits for
// its child after SIGINT. SIGCONT follows, because a stopped rank cannot end. The rank must be started and not reaped.
void rank_ask(const Rank *rank, int signal_number);

// Sends SIGKILL, SIGTSTP or SIGCONT to the rank's whole group; a rank that shares the terminal gets it alone.
void rank_signal(const Rank *rank, int signal_number);

// Once pidfd is readable: whether this signal killed the process. Does not reap it.
bool rank_died_of(const Rank *rank, int signal_number);

// Once pidfd is readable: kills the rest of its group, stores wait_status, closes pidfd. The streams stay open, because
// the pipes may still hold output of the rank.
void rank_reap(Rank *rank);

// Reads the error file that a dead Python rank wrote under torchrun's @record. reason (RANK_REASON_BYTES) gets the
// message as one line; false, and "", if there is none.
bool rank_read_reason(char reason[RANK_REASON_BYTES], const Rank *rank);

// Exit code of a reaped rank as a shell counts it: its exit code, or 128 + n for signal n.
int rank_exit_code(const Rank *rank);

#endif
